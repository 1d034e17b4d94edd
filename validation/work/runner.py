"""Handing tasks to workers, and taking their results as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from smlab.validation.work.interface import WorkerLost, Workers
from smlab.validation.work.workers import open_workers

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
