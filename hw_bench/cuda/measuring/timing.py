"""The time of launches by the GPU's events, and the GPU's own clocks.

Between two events that surround one launch from Python lies what Python takes to launch, 50 to 80 us, unless
the GPU is held back until all three have been queued: a kernel before the first event waits for a flag that
the host sets behind the second (as nvbench does). What is left besides the kernel is the launch on the GPU,
which an empty kernel tells (`empty_seconds`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from smlab.hw_bench.cuda.kernels.timing import CYCLES, GAVE_UP, GO, NANOSECONDS, PATIENCE_CYCLES, SIGNATURES
from smlab.hw_bench.cuda.measuring.driver import cuda
from smlab.hw_bench.cuda.toolkit import SIMULATED

Enough = Callable[[list[float]], bool]
"""Told the seconds of all launches so far: whether they are enough."""
_CLOCK_CYCLES: Final = 500_000
"""Of one reading of the clocks: a third of a millisecond, of which the timers' steps are a small part."""
_SHORT_CYCLES: Final = 200_000
_EMPTY_LAUNCHES: Final = 20
_WARMING: Final = 200
_SETTLED: Final = 0.01


def once(seconds: list[float]) -> bool:
    return True


def launches(launch: Callable[[], None], enough: Enough) -> tuple[float, ...]:
    """The seconds of each launch, until it is enough."""
    seconds: list[float] = []
    while not seconds or not enough(seconds):
        seconds.append(seconds_of(launch))
    return tuple(seconds)


def seconds_of(launch: Callable[[], None]) -> float:
    """The time of what ``launch`` launches, by the GPU's events, without what launching takes."""
    if SIMULATED:
        began = time.perf_counter()
        launch()
        return time.perf_counter() - began
    begin, end = cuda.event(timing=True), cuda.event(timing=True)
    with _deferred_frees(), _HeldQueue():
        begin.record()
        launch()
        end.record()
    end.synchronize()
    return float(cuda.event_elapsed_time(begin, end)) / 1e3


def _deferred_frees() -> AbstractContextManager[None]:
    """Freeing memory waits for the GPU, which may be held: arrays that go in here are freed behind it."""
    return nullcontext() if cuda.stand_in is not None else cuda.defer_cleanup()


_under_profiler: list[bool] = []


@contextmanager
def under_profiler(yes: bool) -> Iterator[None]:
    """Within, if so, no kernel is launched around those that are measured: a profiler counts each launch, and
    has the host wait for it, which never comes to release one that is held."""
    _under_profiler.append(yes)
    try:
        yield
    finally:
        _under_profiler.pop()


def _without_hold() -> bool:
    """Whether the benchmarks' kernels are launched alone."""
    return SIMULATED or cuda.stand_in is not None or any(_under_profiler)


class _HeldQueue:
    """The GPU does nothing of what is queued inside before all of it is queued. A stand-in needs no holding:
    its events are exact."""

    def __enter__(self) -> None:
        if not _without_hold():
            flags = _flags()
            flags[GO] = 0
            _kernel("hold")[1, 1](flags, np.int32(PATIENCE_CYCLES))

    def __exit__(self, *exception: object) -> None:
        if not _without_hold():
            _flags()[GO] = 1


@dataclass(frozen=True)
class ClockRate:
    """The SM's clock, measured: cycles over the time of the events, and over the GPU's global timer."""

    hz_by_events: float
    hz_by_global_timer: float | None


def clock_rate(cycles: int = _CLOCK_CYCLES) -> ClockRate | None:
    """The SM's clock as it runs now; None in Numba's simulator and on a stand-in, which have none, and
    under a profiler."""
    if _without_hold():
        return None
    out, kernel = cuda.to_device(np.zeros(2, dtype=np.int64)), _kernel("run_for")[1, 1]
    seconds = seconds_of(lambda: kernel(np.int64(cycles), out)) - empty_seconds(3)
    clocks = out.copy_to_host()
    ran, nanoseconds = int(clocks[CYCLES]), int(clocks[NANOSECONDS])
    return ClockRate(ran / seconds, 1e9 * ran / nanoseconds if nanoseconds > 0 else None)


def settled_clock_rate() -> ClockRate | None:
    """As `clock_rate`, once it has come up: a GPU that was idle begins with a slow clock."""
    before = clock_rate(_SHORT_CYCLES)
    for _ in range(_WARMING):
        now = clock_rate(_SHORT_CYCLES)
        if before is None or now is None or abs(now.hz_by_events / before.hz_by_events - 1) < _SETTLED:
            break
        before = now
    return clock_rate()


def clock_mhz() -> int | None:
    """The SM's clock just now, from a reading of a tenth of a millisecond or two."""
    rate = clock_rate(_SHORT_CYCLES)
    return None if rate is None else round(rate.hz_by_events / 1e6)


def empty_seconds(count: int = _EMPTY_LAUNCHES) -> float:
    """What a kernel that does nothing takes between two events, the median of ``count`` launches: a part of
    every launch's seconds."""
    if _without_hold():
        return 0.0
    kernel, flags = _kernel("nothing")[1, 1], _flags()
    return float(np.median([seconds_of(lambda: kernel(flags)) for _ in range(count)]))


def launches_not_held() -> int:
    """How many launches the GPU began before they were wholly queued, since it had lost patience."""
    return int(_flags()[GAVE_UP]) if _flags.cache_info().currsize else 0


@cache
def _flags() -> Any:
    """Two words that host and GPU share."""
    return cuda.mapped_array(2, dtype=np.int32)


@cache
def _kernel(name: str) -> Any:
    function, signature = SIGNATURES[name]
    kernel = cuda.jit(signature, lto=False)(function)
    # Loaded now: loading waits for the GPU, and would wait for one that is held.
    next(iter(kernel.overloads.values())).bind()
    return kernel
