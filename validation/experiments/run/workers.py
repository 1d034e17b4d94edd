"""Who evaluates chunks of points: this process, or worker processes of this machine."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Collection
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait as wait_for
from typing import Any, Protocol

from smlab.hw_bench.errors import SmlabError
from smlab.validation.experiments.run.evaluate import Chunk, Work, evaluate_chunk

MOST_DEATHS = 4
"""Times in a row that workers may die without finishing anything, before the study is given up."""

WAIT_S = 0.2


class WorkerLost(Exception):
    """The worker died with the chunk; it has to be run again."""


class Workers(Protocol):
    """Evaluates chunks somewhere. A ticket is whatever stands for a chunk that was handed in."""

    @property
    def places(self) -> int:
        """Chunks that run at a time."""

    def submit(self, system: bytes, work: Work) -> Any:
        """Hand in a chunk and get its ticket."""

    def finished(self, tickets: Collection[Any]) -> Collection[Any]:
        """Those of the tickets whose chunks are done; waits a moment for one, and may come back with none."""

    def result(self, ticket: Any) -> Chunk:
        """What came of a finished chunk; `WorkerLost` where it has to be handed in again."""

    def close(self, *, at_once: bool) -> None:
        """Let go of everything; ``at_once``, of chunks in flight as well."""


class Inline:
    """Evaluates in this process, one chunk whenever somebody waits for one."""

    places = 1

    def __init__(self) -> None:
        self._work: dict[int, tuple[bytes, Work]] = {}
        self._done: dict[int, Chunk] = {}
        self._count = 0

    def submit(self, system: bytes, work: Work) -> int:
        self._count += 1
        self._work[self._count] = system, work
        return self._count

    def finished(self, tickets: Collection[Any]) -> Collection[Any]:
        first = min(tickets)
        self._done[first] = evaluate_chunk(*self._work.pop(first))
        return [first]

    def result(self, ticket: int) -> Chunk:
        return self._done.pop(ticket)

    def close(self, *, at_once: bool) -> None:
        pass


class Processes:
    """Worker processes of this machine. One that dies costs what it had in hand, which is run again."""

    def __init__(self, places: int) -> None:
        self.places = places
        self._deaths = 0
        self._pool = self._start()

    def submit(self, system: bytes, work: Work) -> Future[Chunk]:
        try:
            return self._pool.submit(evaluate_chunk, system, work)
        except BrokenProcessPool:
            self._restart()
            return self._pool.submit(evaluate_chunk, system, work)

    def finished(self, tickets: Collection[Any]) -> Collection[Any]:
        # In short waits, so that Ctrl-C is heard.
        return wait(tickets, WAIT_S, FIRST_COMPLETED).done

    def result(self, ticket: Future[Chunk]) -> Chunk:
        try:
            chunk = ticket.result()
        except BrokenProcessPool:
            raise WorkerLost from None
        self._deaths = 0
        return chunk

    def close(self, *, at_once: bool) -> None:
        if at_once:
            for process in list((self._pool._processes or {}).values()):
                process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=at_once)

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self.places, mp_context=get_context("spawn"), initializer=_begin)

    def _restart(self) -> None:
        self._deaths += 1
        if self._deaths > MOST_DEATHS:
            raise SmlabError(
                f"worker processes died {self._deaths} times in a row and finished nothing (out of memory?); "
                "what was finished is kept"
            )
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._start()


def _begin() -> None:
    """Leave Ctrl-C to the parent, and never outlive it: a parent that was killed cannot say goodbye."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_leave_with, args=(parent.sentinel,), daemon=True).start()


def _leave_with(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)
