"""The kernels that the advisor is judged by, and the changes that a program can make to each.

``kernels.toml`` lists them: `KERNELS`, which the rules were shaped on, and nine `ROUNDS` that were held out.
CUDA C in `cuda/`, all with one signature ``(a, b, c, k, h, n, m)``: two inputs, an output, whole numbers, a
result of atomics, a size and a count. They run on `SMS` SMs of a GPU with their share of L2 and DRAM.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.sass.image import KernelImage
from smlab.hw_bench.sass.nvrtc import compile_cuda
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.workloads.histogram import share_of
from smlab.validation.campaigns.advisor.simulate import SMS

SIZE: Final = 1 << 18
"""Elements of each array."""


@dataclass(frozen=True)
class Change:
    """A change that a program can make, and the optimizer whose advice it follows."""

    optimizer: str
    defines: Mapping[str, str] = field(default_factory=dict)
    blocks: int | None = None
    threads: int | None = None

    @property
    def name(self) -> str:
        told = [f"{key}={value}" if value else key for key, value in self.defines.items()]
        if self.blocks is not None:
            told.append(f"{self.blocks} blocks")
        if self.threads is not None:
            told.append(f"{self.threads} threads")
        return f"{self.optimizer}: {', '.join(told)}"

    @classmethod
    def of(cls, name: str) -> Change:
        """The change of this name: ``OPTIMIZER: MACRO, MACRO=VALUE, N blocks, N threads``."""
        optimizer, _, told = name.partition(": ")
        defines: dict[str, str] = {}
        launch: dict[str, int] = {}
        for part in told.split(", "):
            number, _, what = part.partition(" ")
            if what:
                launch[what] = int(number)
            else:
                macro, _, value = part.partition("=")
                defines[macro] = value
        return cls(optimizer, defines, **launch)


@dataclass(frozen=True)
class StudyKernel:
    """A kernel with its launch. ``tuned`` says that there is nothing to gain."""

    name: str
    file: str
    m: int
    changes: tuple[Change, ...] = ()
    blocks: int = 16
    threads: int = 256
    n: int = SIZE
    tuned: bool = False
    of: str = ""
    """The kernel in the file, where this is another launch of it."""

    @property
    def source(self) -> str:
        """The CUDA C of its file."""
        return _source(self.file)

    def image(self, architecture: str, change: Change | None = None) -> KernelImage:
        """The machine code, compiled with NVRTC."""
        defines = () if change is None else tuple(sorted(change.defines.items()))
        return _compiled(self.of or self.name, self.file, architecture, defines)

    def launch(self, architecture: str, change: Change | None = None) -> MachineLaunch:
        """A launch with arrays of its own, always the same content."""
        image = self.image(architecture, change)
        random = np.random.default_rng(20240607)
        a, b = (random.random(SIZE + 4096, dtype=np.float32) for _ in range(2))
        k = random.integers(0, SIZE, SIZE + 4096, dtype=np.int32)
        arguments = [a, b, np.zeros_like(a), k, np.zeros(SIZE, dtype=np.int32)]
        blocks = self.blocks if change is None or change.blocks is None else change.blocks
        threads = self.threads if change is None or change.threads is None else change.threads
        constants = {"table": b[:64].copy()} if image.symbols else {}
        return MachineLaunch(
            image,
            (blocks, 1, 1),
            (threads, 1, 1),
            [*arguments, np.int32(self.n), np.int32(self.m)],
            names=("a", "b", "c", "k", "h", "n", "m"),
            constants=constants,
        )


@functools.cache
def _source(file: str) -> str:
    """The text of a file of kernels behind what all of them begin with; lines are the file's own."""
    folder = resources.files("smlab.validation.campaigns.advisor").joinpath("cuda")
    return f"{source_head()}#line 1\n{folder.joinpath(f'{file}.cu').read_text()}"


def source_head() -> str:
    """What the source of all kernels begins with."""
    return resources.files("smlab.validation.campaigns.advisor").joinpath("cuda", "kernel.cuh").read_text()


@functools.cache
def _compiled(name: str, file: str, architecture: str, defines: tuple[tuple[str, str], ...]) -> KernelImage:
    options = [f"-DK_{name}", *(f"-D{key}={value}" if value else f"-D{key}" for key, value in defines)]
    return from_cubin(compile_cuda(_source(file), architecture, options, f"{file}.cu"), name, f"{file}.cu")


def study_gpu(name: str = "v100") -> Gpu:
    """`SMS` SMs of a GPU, with their share of what all SMs share."""
    return share_of(load_gpu(name), SMS)


def _read_sets() -> dict[str, tuple[StudyKernel, ...]]:
    """The sets of ``kernels.toml`` by name."""
    text = resources.files("smlab.validation.campaigns.advisor").joinpath("kernels.toml").read_text()
    sets: dict[str, tuple[StudyKernel, ...]] = {}
    for name, rows in tomllib.loads(text).items():
        sets[name] = tuple(
            StudyKernel(**row | {"name": kernel, "changes": tuple(map(Change.of, row.get("changes", ())))})
            for kernel, row in rows.items()
        )
    return sets


_SETS: Final = _read_sets()
KERNELS: Final = _SETS["shaped"]
"""Those that the advisor's rules were shaped on."""
ROUNDS: Final = {name: kernels for name, kernels in _SETS.items() if name != "shaped"}
"""Those held out, in nine rounds."""
LATER_ROUNDS: Final = tuple(kernel for kernels in list(ROUNDS.values())[2:] for kernel in kernels)
"""Those on which blame is judged too. Rounds 3 to 6 were in view when it learnt what L1 has; the later ones
were written after that."""
