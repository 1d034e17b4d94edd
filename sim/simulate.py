"""Run a kernel on a GPU description with one of the engines.

The compiled engine made ready before worker processes need it: each would compile it, and say nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim import reference
from smlab.sim.lowering import LoweredKernel, lower
from smlab.sim.machine import machine_from
from smlab.sim.options import by_keywords
from smlab.sim.reference import Progress, Record
from smlab.sim.result import SimResult
from smlab.sim.workloads.workload import Kernel


class Engine(Protocol):
    """Runs a lowered kernel, within ``max_cycles``, on so many ``threads``."""

    def __call__(
        self,
        lowered: LoweredKernel,
        keep: Record = ...,
        max_cycles: int | None = ...,
        progress: Progress | None = ...,
        threads: int | None = ...,
    ) -> SimResult: ...


def _compiled(
    lowered: LoweredKernel,
    keep: Record = Record.ATOMICS,
    max_cycles: int | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
) -> SimResult:
    # Numba takes a while to import, and much of smlab does without it.
    from smlab.sim.compiled import run

    return run(lowered, keep, max_cycles, progress, threads=threads)


def _reference(
    lowered: LoweredKernel,
    keep: Record = Record.ATOMICS,
    max_cycles: int | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
) -> SimResult:
    return reference.run(lowered, keep, max_cycles, progress)  # on one thread, whatever is asked for


ENGINES: dict[str, Engine] = {"compiled": _compiled, "simpy": _reference}
DEFAULT_ENGINE = "compiled"
MAX_CYCLES = 2**62
"""The engines count cycles in 64 bits."""


@dataclass(frozen=True, kw_only=True)
class SimulateOptions:
    """The options of `simulate`."""

    engine: str | None = None
    policy: str | None = None
    seed: int = 0
    keep: Record = Record.ATOMICS
    max_cycles: int | None = None
    progress: Progress | None = None
    threads: int | None = None


@by_keywords(SimulateOptions)
def simulate(kernel: Kernel, gpu: Gpu, options: SimulateOptions) -> SimResult:
    """Simulate ``kernel`` on ``gpu`` from launch to end.

    Args:
        engine: ``compiled`` (the default) or ``simpy``, the readable reference; their results are equal,
        event for event. policy: warp scheduler policy, instead of the description's. seed: root of all random
        streams; equal seeds give equal results. keep: how much to record, from totals to every change of a
        warp's state. max_cycles: give up (with an error) when the kernel runs longer. threads: on how many
        the compiled engine runs the SMs, by default as many as there are processors; results are the same.

    Raises:
        SmlabError: a kernel that the GPU cannot launch, an unknown engine or policy, ``max_cycles`` passed.
    """
    engine, max_cycles = options.engine or DEFAULT_ENGINE, options.max_cycles
    if engine not in ENGINES:
        raise SmlabError.at("engine", "unknown", engine, "one of " + ", ".join(ENGINES))
    if max_cycles is not None and not 1 <= max_cycles <= MAX_CYCLES:
        raise SmlabError.at("max_cycles", "out of range", max_cycles, "1 to 2**62")
    lowered = lower(kernel, machine_from(gpu, options.policy), options.seed)
    return ENGINES[engine](lowered, options.keep, max_cycles, options.progress, options.threads)
