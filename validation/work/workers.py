"""Who does the tasks: this process itself, processes beside it, or a Dask cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from smlab.hw_bench.errors import SmlabError
from smlab.validation.work.interface import Workers


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
