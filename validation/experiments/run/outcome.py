"""What running a study gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final


@dataclass(frozen=True)
class Failure:
    """A point that could not be evaluated, and why."""

    case: int
    replication: int
    settings: dict[str, Any]
    error: str


@dataclass(frozen=True)
class Times:
    """Where the time went: ``wall_s``, and processor time.

    ``simulation_s`` (estimates included) and ``evaluation_s`` (which holds it) add up over all workers;
    ``keeping_s`` is spent in this process on finding, handing out and storing points, ``export_s`` on the
    files.
    """

    wall_s: float
    evaluation_s: float
    simulation_s: float
    keeping_s: float
    export_s: float

    def overhead_s_per_point(self, points: int) -> float:
        """All that is not simulation, a point that was run."""
        spent = self.evaluation_s - self.simulation_s + self.keeping_s + self.export_s
        return spent / points if points else 0.0


@dataclass(frozen=True)
class StudyOutcome:
    """A finished study.

    ``points`` of the design (cases times replications, with the base), of which ``ran`` were evaluated now
    and the others had been; ``failed`` of them have no responses, and ``failures`` holds the first ones.
    ``loose`` counts the cases whose interval is not as tight as asked. ``effects`` are what
    `smlab.validation.experiments.effects` makes of the points.
    """

    points: int
    done: int
    failed: int
    ran: int
    cases: int
    rounds: int
    loose: int
    failures: tuple[Failure, ...]
    notes: tuple[str, ...]
    times: Times
    effects: Any
    folder: Path


MAX_FAILURES: Final = 20
"""How many failed points an outcome names; the table of points has all."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C: what was done is kept. ``done`` of ``points``."""

    def __init__(self, done: int, points: int) -> None:
        super().__init__()
        self.done, self.points = done, points
