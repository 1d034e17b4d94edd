"""Simulate the kernels of the record, each as it was measured: its source compiled here, its launch, its
card."""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.datasets.measured_kernels import TIMERS, MeasuredKernel, MeasuredKernelSet
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.sass.cubin import read_cubin
from smlab.hw_bench.sass.image import resources_of
from smlab.hw_bench.sass.linking import called
from smlab.hw_bench.sass.nvrtc import compile_cuda
from smlab.sim.frontends.cuda_c import compile_by_nvcc, find_nvcc
from smlab.sim.isa.launch.launch_file import LaunchFile, launch_of
from smlab.validation.projection.machine_code import CodeRun, LaunchData, run_codes

SMS = 2
"""SMs that a sample runs."""

Progress = Callable[[str, int, int], None]
"""Told: the set's name, rows done, rows in all."""


@dataclass(frozen=True)
class ClockRange:
    """How much slower and how much faster a card may have run than the clock that a time was computed with,
    in logarithms; both 0 where somebody saw the clock."""

    slower: float = 0.0
    faster: float = 0.0

    @classmethod
    def of(cls, gpu: Gpu) -> ClockRange:
        """From the interval of the description's clock."""
        return cls.between(*gpu["clock.sm_hz"].interval)

    @classmethod
    def between(cls, low: float, used: float, high: float) -> ClockRange:
        """Of a clock ``used`` that may be from ``low`` to ``high``."""
        return cls(math.log(used / low), math.log(high / used))


SEEN: Final = ClockRange()
"""Of a clock that somebody saw."""


@dataclass(frozen=True)
class SimulatedRow:
    """A measured kernel beside its simulated time. That has what its timer has beyond the SMs' time.
    ``low_s`` and ``high_s`` are the 95 % interval of sampling alone; ``local_bytes`` is what a thread
    spills."""

    set: str
    name: str
    measured_s: float
    simulated_s: float
    low_s: float
    high_s: float
    local_bytes: int
    clock: ClockRange

    @property
    def ratio(self) -> float:
        """Simulated over measured."""
        return self.simulated_s / self.measured_s


def described(measured: MeasuredKernelSet, policy: str | None = None) -> Gpu:
    """The set's card, at the clock of the measurement where that is known."""
    gpu = load_gpu(measured.gpu)
    values: dict[str, Any] = {}
    if measured.clock_hz is not None:
        values["clock.sm_hz"] = measured.clock_hz
    if policy is not None:
        values["sm.scheduler_policy"] = policy
    return gpu.with_values(values, source=measured.source) if values else gpu


def simulate_set(
    measured: MeasuredKernelSet,
    gpu: Gpu,
    store: Path | None = None,
    progress: Progress | None = None,
) -> list[SimulatedRow]:
    """Compile and run each kernel of a set on ``gpu``; what ``store`` knows is not run again.

    Raises:
        SmlabError: a kernel that does not compile or cannot be executed, by name.
    """
    beyond_s = gpu.number(TIMERS[measured.timer]) if measured.timer else 0.0
    rows = []
    for done, kernel in enumerate(measured.kernels, start=1):
        cubin = compiled(measured, kernel, gpu.sm_architecture)
        grid, block, launch = _launch(measured, kernel)
        data = LaunchData(
            launch.arguments, _key(measured), launch.names, launch.constants, launch.shared_bytes
        )
        name = _full_name(cubin, kernel.kernel)
        run = run_codes(
            [CodeRun(cubin, name, grid, block, gpu, min(SMS, gpu.integer("gpu.sms")))], data, store
        )[0]
        rows.append(
            SimulatedRow(
                measured.name,
                kernel.name,
                kernel.seconds,
                run.seconds + beyond_s,
                run.low / run.hz + beyond_s,
                run.high / run.hz + beyond_s,
                resources_of(cubin, name).local_bytes,
                ClockRange.between(run.hz_low, run.hz, run.hz_high),
            )
        )
        if progress is not None:
            progress(measured.name, done, len(measured.kernels))
    return rows


def compiled(measured: MeasuredKernelSet, kernel: MeasuredKernel, architecture: str) -> bytes:
    """A kernel's cubin by the compiler that the set was measured with: nvcc, where that is and is here, else
    NVRTC. Their code differs: step 10 of the SGEMM ladder has 168 registers by nvcc and 218 by NVRTC.

    Raises:
        SmlabError: a kernel that does not compile.
    """
    options = [f"-D{key}={value}" for key, value in kernel.macros.items()]
    if not measured.compiler.startswith("nvcc") or find_nvcc() is None:
        return compile_cuda(kernel.source, architecture, options, kernel.where.name)
    with tempfile.TemporaryDirectory() as work:
        path = Path(work) / "kernel.cu"
        path.write_text(kernel.source, encoding="utf-8")
        options = ["-std=c++17", *options]
        # Without line numbers, so that a stored result is found again by its code.
        return compile_by_nvcc(path, architecture, options, kernel.where.name, lines=False)


def _launch(one: MeasuredKernelSet, kernel: MeasuredKernel) -> tuple[Any, Any, LaunchFile]:
    """Grid, block, and the arguments: made anew for each kernel, since kernels write them."""
    tables = dict(one.launch)
    if kernel.grid is not None and kernel.block is not None:
        shapes = {"grid": list(kernel.grid), "block": list(kernel.block)}
        tables["launch"] = {**shapes, "shared_bytes": kernel.shared_bytes}
    launch = launch_of(f"record: {one.name}", tables, kernel.where.parent, kernel.parameters)
    return launch.grid, launch.block, launch


def _key(one: MeasuredKernelSet) -> str:
    """Which data the kernels of a set read."""
    return hashlib.sha256(repr(sorted(one.launch.items())).encode()).hexdigest()


def _full_name(cubin: bytes, kernel: str) -> str:
    """The name under which the compiler has put a function into the cubin."""
    functions = [function.name for function in read_cubin(cubin, kernel).functions]
    return next((f for f in functions if called(f, kernel)), kernel)
