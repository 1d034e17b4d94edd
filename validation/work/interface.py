"""What the runner asks of whoever does its tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, Protocol

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
