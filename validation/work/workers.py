"""Who does the tasks: an interface with three implementations, the first of them this process itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from smlab.hw_bench.errors import SmlabError

MAX_DEATHS: Final = 4
"""Times in a row that workers may die without finishing anything, before the work is given up."""

WAIT_S: Final = 0.2
"""How long a result is waited for at a time, so that Ctrl-C is heard."""


class WorkerLost(Exception):
    """The worker died with the task; it has to be run again."""


class Workers(Protocol):
    """Does tasks somewhere. A ticket is whatever stands for a task that was handed in."""

    @property
    def places(self) -> int:
        """Tasks that run at a time."""

    @property
    def inline_s(self) -> float:
        """Processor time that tasks took in the calling thread so far."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Hand in a call of a top-level function and get its ticket."""

    def finished(self, tickets: Collection[Any]) -> Collection[Any]:
        """Those of the tickets whose tasks are done; waits a moment for one, and may come back with none."""

    def result(self, ticket: Any) -> Any:
        """What a finished call returned or raised; `WorkerLost` where it has to be handed in again."""

    def close(self, *, at_once: bool) -> None:
        """Let go of everything; ``at_once``, of tasks in flight as well."""


class Inline:
    """Does tasks in this process, one whenever somebody waits for one."""

    places = 1

    def __init__(self) -> None:
        self.inline_s = 0.0
        self._calls: dict[int, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
        self._count = 0

    def submit(self, function: Callable[..., Any], *arguments: Any) -> int:
        self._count += 1
        self._calls[self._count] = function, arguments
        return self._count

    def finished(self, tickets: Collection[Any]) -> Collection[Any]:
        return [min(tickets)]

    def result(self, ticket: int) -> Any:
        function, arguments = self._calls.pop(ticket)
        began = time.thread_time()
        try:
            return function(*arguments)
        finally:
            self.inline_s += time.thread_time() - began

    def close(self, *, at_once: bool) -> None:
        self._calls.clear()


@contextmanager
def open_workers(jobs: int | None = None, *, dask: str | None = None) -> Iterator[Workers]:
    """Workers for the time of a block; leaving it by an exception, Ctrl-C included, ends them at once.

    Args:
        jobs: processes of this machine, one a processor by default; with 1 the work is done in this process.
        dask: the address of a Dask scheduler, whose workers do it instead.

    Raises:
        SmlabError: ``jobs`` below 1, or a scheduler that does not answer.
    """
    if jobs is not None and jobs < 1:
        raise SmlabError.at("jobs", "out of range", jobs, "at least 1")
    workers = _open(jobs, dask)
    at_once = True
    try:
        yield workers
        at_once = False
    finally:
        workers.close(at_once=at_once)


def _open(jobs: int | None, dask: str | None) -> Workers:
    if dask is not None:
        from smlab.validation.work.dask_cluster import DaskCluster

        return DaskCluster(dask)
    if jobs is None:
        from smlab.sim.compiled.threads import processors  # brings Numba, which a worker may not need

        jobs = processors()
    if jobs == 1 or os.name != "posix":
        return Inline()
    from smlab.validation.work.processes import Processes

    return Processes(jobs)
