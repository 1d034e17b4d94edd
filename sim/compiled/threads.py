"""Running parts of a job on several threads, with an end to all of them when one fails or Ctrl-C is
pressed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TypeVar

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
