"""What a claim may need beyond the simulator and published figures, and whether it is here.

A claim that lists a missing capability cannot be judged here. It must not stay listed so once the capability
has come: the probes below look for the thing itself, at each run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from smlab.hw_bench import datasets
from smlab.hw_bench.errors import SmlabError, nearest

DATA: Final = Path(datasets.__file__).parent / "measured"
"""Data sets measured on hardware, a folder for each GPU."""


@dataclass(frozen=True)
class Capability:
    """``what`` it is, in words that say how it could be had; ``probe`` tells whether it is here."""

    name: str
    what: str
    probe: Callable[[], bool]

    @property
    def present(self) -> bool:
        return self.probe()


def _has_data(folder: str) -> bool:
    """Whether a data set lies there: at least one table."""
    place = DATA / folder
    return place.is_dir() and any(f.suffix in (".csv", ".gz", ".parquet") for f in place.rglob("*.*"))


def _has_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is not there
        return False


def _has_instruction(name: str) -> bool:
    from smlab.sim.instructions import CLASSES

    return name in CLASSES


def _has_toolchain() -> bool:
    from smlab.hw_bench.cuda.contract.compiler import find_disassembler
    from smlab.hw_bench.cuda.toolkit import require_compiler

    try:
        require_compiler()
        find_disassembler("sm_70")
    except SmlabError:
        return False
    return True


def _gpu(name: str, title: str) -> Capability:
    what = f"a data set measured on a {title} (`smlab bench run`), in hw_bench/datasets/measured/{name}/"
    return Capability(f"gpu:{name}", what, partial(_has_data, name))


def _profiles(name: str, what: str) -> Capability:
    return Capability(
        f"profiles:{name}",
        f"profiles of {what}, in hw_bench/datasets/measured/profiles/{name}/",
        partial(_has_data, f"profiles/{name}"),
    )


def _module(name: str, module: str, what: str) -> Capability:
    return Capability(name, what, partial(_has_module, module))


CAPABILITIES: Final[dict[str, Capability]] = {
    c.name: c
    for c in (
        _gpu("titan-v", "Titan V"),
        _gpu("a6000", "RTX A6000"),
        _gpu("v100", "V100"),
        _gpu("a100-80", "A100 80 GB SXM"),
        _profiles("hydro1d", "Hydro1D on V100, A100 and H100"),
        _profiles("uvmbench", "UVMBench on V100, A100 and H100"),
        _profiles("quicksilver", "Quicksilver on V100, A100 and H100"),
        _profiles("lulesh", "LULESH on V100, A100 and H100"),
        _profiles("minimdock", "miniMDock on V100, A100 and H100"),
        _profiles("rodinia", "the Rodinia kernels of GPA's Table III, sampled, before and after the change"),
        _profiles("turboseti", "turboSETI's hitsearch kernel on V100 and A100"),
        _profiles("raft", "RAFT's make_regression and cuML's nearest neighbours on V100 and A100"),
        _module(
            "study:histogram",
            "smlab.validation.papers.histogram.facts",
            "the histogram study (`smlab case histogram`)",
        ),
        Capability(
            "toolchain:cuda",
            "the CUDA compiler packages and nvdisasm (the extra cuda12)",
            _has_toolchain,
        ),
        _module(
            "study:roofline",
            "smlab.validation.projection.simulated",
            "the simulated judge of the roofline (`smlab validate`)",
        ),
        _module(
            "model:advisor", "smlab.models.advisor", "a model of what an optimization would gain, from stalls"
        ),
        Capability(
            "simulator:shuffle", "warp shuffles in the simulator", partial(_has_instruction, "shuffle")
        ),
        Capability(
            "simulator:global-atomic",
            "atomics on global memory, with contention in L2, in the simulator",
            partial(_has_instruction, "global-atomic"),
        ),
    )
}


def find_capability(where: str, name: str) -> Capability:
    """The capability of that name; `SmlabError` with the nearest name otherwise."""
    if name not in CAPABILITIES:
        guess = nearest(name, CAPABILITIES)
        expected = f"perhaps {guess}" if guess else "one of " + ", ".join(CAPABILITIES)
        raise SmlabError.at(where, "unknown capability", name, expected)
    return CAPABILITIES[name]
