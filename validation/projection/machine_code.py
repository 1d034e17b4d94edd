"""The second predictor: a kernel's machine code runs on both GPUs' descriptions, and the ratio of their
times carries the measured one over.

What the simulator gets wrong of a kernel it gets wrong on both cards, so a ratio is better than a time.
Each card runs its own code, as compiled for it. Grids are sampled (`smlab.sim.execution.run`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.image import resources_of
from smlab.hw_bench.sources import digest_of, package_folder
from smlab.models.projection.projection import REGISTERS_WITHIN
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.reference import Record
from smlab.validation.power_limit import SOURCES, held_by_power
from smlab.validation.work.runner import Progress
from smlab.validation.work.store import Entry, Store

SMS: Final = 1
"""SMs that a sample runs, each with its share of L2 and DRAM."""

Dim = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class LaunchData:
    """What a launch passes beside its shape: ``arguments`` in order (arrays are written to), the contents of
    ``__constant__`` variables, and dynamic shared memory. ``key`` says which data these are."""

    arguments: tuple[Any, ...]
    key: str
    names: tuple[str, ...] = ()
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    shared_bytes: int = 0


@dataclass(frozen=True)
class CodeRun:
    """One kernel on one GPU: its cubin, the kernel's name in it, the launch's shape, and how many SMs run."""

    cubin: bytes
    kernel: str
    grid: Dim
    block: Dim
    gpu: Gpu
    sms: int = SMS


@dataclass(frozen=True)
class RunTime:
    """Simulated cycles of the whole grid, with the 95 % interval of sampling, at ``hz``. That is the clock
    which takes as long for them as the card does, held by its power limit or not; it may lie between
    ``hz_low`` and ``hz_high``."""

    cycles: float
    low: float
    high: float
    hz: float
    hz_low: float
    hz_high: float

    @property
    def seconds(self) -> float:
        return self.cycles / self.hz


def run_codes(
    runs: Sequence[CodeRun], data: LaunchData, store: Path | None, progress: Progress | None = None
) -> list[RunTime]:
    """Run each on its GPU; what ``store`` has of the same code, launch, data, description and simulator is
    taken from there, and what is run is kept in it as it comes."""
    keys = [_key(one, data) for one in runs]
    kept = None if store is None else Store(store)
    try:
        known = {} if kept is None else {k: RunTime(**e.result) for k, e in kept.get(keys).items()}
        for done, (key, one) in enumerate(zip(keys, runs, strict=True), start=1):
            if key not in known:
                known[key] = _run(one, data)
                if kept is not None:
                    asked = {"kernel": one.kernel, "gpu": one.gpu.name, "grid": one.grid, "block": one.block}
                    kept.add([Entry(key, asked, asdict(known[key]))])
            if progress is not None:
                progress(done, len(runs))
    finally:
        if kept is not None:
            kept.close()
    return [known[key] for key in keys]


def _run(one: CodeRun, data: LaunchData) -> RunTime:
    launch = MachineLaunch(
        from_cubin(one.cubin, one.kernel, one.kernel),
        one.grid,
        one.block,
        data.arguments,
        data.names,
        dynamic_shared_bytes=data.shared_bytes,
        constants=data.constants,
        check_shared=False,
    )
    found = run_machine_code(launch, one.gpu, sms=one.sms, keep=Record.TOTALS)
    held = held_by_power(found, one.gpu)
    hz = found.cycles / (found.seconds * held.slowdown)
    low, value, high = held.gpu["clock.sm_hz"].interval
    return RunTime(found.cycles, found.cycles_low, found.cycles_high, hz, hz * low / value, hz * high / value)


def _key(one: CodeRun, data: LaunchData) -> bytes:
    decides = (package_folder("smlab.sim"), *SOURCES)
    parts = (digest_of(*decides), one.kernel, one.grid, one.block, one.sms, data.key, one.gpu.identity)
    return hashlib.sha256(one.cubin + repr(parts).encode()).digest()


def compiled_otherwise(here: bytes, there: bytes, kernel: str) -> bool:
    """Whether a kernel's code for two architectures differs by so many registers, or by local memory, that
    another compiler may have chosen otherwise."""
    a, b = (resources_of(cubin, kernel) for cubin in (here, there))
    registers = sorted((a.registers, b.registers))
    return a.local_bytes != b.local_bytes or registers[1] > REGISTERS_WITHIN * registers[0]


def whole_shape(where: str, shape: NDArray[np.float64] | None) -> Dim:
    """A launch's shape as whole numbers; `SmlabError` where the data set does not tell it."""
    if shape is None or not np.isfinite(shape).all():
        raise SmlabError.at(where, "the set does not tell the launch's shape", expected="KTT's, which does")
    x, y, z = (round(float(v)) for v in shape)
    return x, y, z
