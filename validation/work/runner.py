"""Handing tasks to workers (this process, processes beside it, or a Dask cluster) and taking their results
as they come.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from smlab.hw_bench.errors import SmlabError
from smlab.validation.work.interface import WorkerLost, Workers


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


K = TypeVar("K")

Progress = Callable[[int, int], None]
"""Told: tasks done, tasks in all."""


@dataclass(frozen=True)
class Task(Generic[K]):
    """A call of a top-level function (so that another process can import it); ``key`` says which it is."""

    key: K
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


Split = Callable[[Task[K]], Sequence[Task[K]]]
"""What to run in place of a task whose worker died."""


def completed(
    workers: Workers, tasks: Iterable[Task[K]], split: Split[K] | None = None
) -> Iterator[tuple[Task[K], Any]]:
    """Do the tasks and give each with its result, in the order in which they are done.

    ``tasks`` is asked for more only as places come free (two tasks are handed in for each), so that it may
    size a task by what came of those before. A task whose worker died is run again, whole or as ``split``
    says. What a task raises ends the work.
    """
    left = iter(tasks)
    again: deque[Task[K]] = deque()
    flying: dict[Any, Task[K]] = {}
    while True:
        while len(flying) < 2 * workers.places:
            task = again.popleft() if again else next(left, None)
            if task is None:
                break
            flying[workers.submit(task.function, *task.arguments)] = task
        if not flying:
            return
        for ticket in workers.finished(flying.keys()):
            task = flying.pop(ticket)
            try:
                result = workers.result(ticket)
            except WorkerLost:
                again.extend([task] if split is None else split(task))
                continue
            yield task, result


def run_tasks(
    tasks: Sequence[Task[K]],
    keep: Callable[[K, Any], None],
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Do the tasks on ``jobs`` processes (one a processor by default; with 1, in this one), handing each
    result to ``keep`` with its key as it comes.

    Ctrl-C ends the workers and is raised again; what was kept by then is the caller's.
    """
    if not tasks:
        return
    with open_workers(jobs) as workers:
        for done, (task, result) in enumerate(completed(workers, tasks), start=1):
            keep(task.key, result)
            if progress is not None:
                progress(done, len(tasks))
