"""Running parts of a job on several threads, with an end to all of them when one fails or Ctrl-C is
pressed; and how the threads of one run wait for each other in compiled code."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any, Final, TypeVar

from smlab.sim.compiled.jit import (
    add_atomic,
    address_of,
    call_yield,
    common_at,
    helper,
    load_atomic,
    store_atomic,
    swap_atomic,
    thread_at,
)
from smlab.sim.compiled.layout import COMMON, THREAD, Record, State, Word

Part = TypeVar("Part")
Result = TypeVar("Result")

WAIT_S = 0.1

Stopped = Callable[[], bool]
"""Asked between two calls of compiled code; once it says True, the part's result no longer matters."""


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_threads(work: Callable[[Part, Stopped], Result], parts: Sequence[Part], threads: int) -> list[Result]:
    """``work(part, stopped)`` for each part, at most ``threads`` at a time; results in the order of the
    parts."""
    stop = threading.Event()
    if threads == 1 or len(parts) == 1:
        return [work(part, stop.is_set) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        waiting = [pool.submit(work, part, stop.is_set) for part in parts]
        try:
            # In short waits, since an interrupt is not heard everywhere while a thread waits for another.
            left: set[Future[Result]] = set(waiting)
            while left:
                done, left = wait(left, WAIT_S, FIRST_EXCEPTION)
                for future in done:
                    future.result()  # raises what the part raised
            return [future.result() for future in waiting]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def yield_address() -> int:
    """Where the function of the C library lies that gives up the processor; 0 where there is none."""
    library: Any = getattr(ctypes, "windll", None)
    try:
        function = library.kernel32.SwitchToThread if library else ctypes.CDLL(None).sched_yield
    except (AttributeError, OSError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _bytes_of(record: Any, field: str) -> int:
    return int(record.fields[field][1])


LOCK_BYTES: Final = _bytes_of(COMMON, "lock")
CHANGES_BYTES: Final = _bytes_of(COMMON, "changes")
STOPPING_BYTES: Final = _bytes_of(COMMON, "stopping")
CLOCK_BYTES: Final = _bytes_of(THREAD, "clock")
PATIENCE: Final = 2000
"""Looks at what a thread waits for before it gives up the processor: some microseconds."""


@helper
def lock(st: State) -> None:
    common = common_at(st, 0)
    if common.threads == 1:
        return
    at, looks = address_of(common) + LOCK_BYTES, 0
    while swap_atomic(at, 1) != 0:
        while load_atomic(at, 0) != 0:
            looks += 1
            if looks > PATIENCE:
                give_way(st)


@helper
def unlock(st: State) -> None:
    store_atomic(address_of(common_at(st, 0)) + LOCK_BYTES, 0)


@helper
def give_way(st: State) -> None:
    """Let another thread have the processor."""
    yields = common_at(st, 0).yields
    if yields != 0:
        call_yield(yields)


@helper
def changed(common: Record) -> None:
    """Something happened that a thread may wait for."""
    if common.threads > 1:
        add_atomic(address_of(common) + CHANGES_BYTES, 1)


@helper
def clock_of(st: State, n: int) -> Word:
    """How far thread ``n`` has run its SM."""
    return load_atomic(address_of(thread_at(st, n)) + CLOCK_BYTES, 0)
