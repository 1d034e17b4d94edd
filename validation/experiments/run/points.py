"""Points of a study: one case in one replication, with the hash that it is stored under."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from smlab.validation.experiments.design.study import Study
from smlab.validation.experiments.design.values import Value

REPLICATION_STREAM = 0xA
"""Spawn key of the seeds of replications, apart from the design's."""


@dataclass(frozen=True)
class Point:
    """``case`` in ``replication``: what it sets, by key, its seed, and the hash of all that its responses
    depend on."""

    case: int
    replication: int
    values: tuple[Value, ...]
    settings: dict[str, Value]
    seed: int
    hash: bytes


@dataclass(frozen=True)
class PointResult:
    """What came of a point: its responses in the order of the system's, or the ``error`` for which it has
    none."""

    responses: tuple[float, ...]
    error: str


class Numbering:
    """The points of a study by case and replication."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._system = hashlib.blake2b(study.system.identity().encode(), digest_size=16)
        self._seeds: dict[int, int] = {}

    def point(self, case: int, replication: int, values: tuple[Value, ...] | None = None) -> Point:
        """The point; ``values`` spares asking the design again."""
        if values is None:
            values = self.study.design.values(case)
        settings = self.study.settings(values)
        seed = self.seed(case, replication)
        digest = self._system.copy()
        digest.update(json.dumps([sorted(settings.items()), seed]).encode())
        return Point(case, replication, values, settings, seed, digest.digest())

    def seed(self, case: int, replication: int) -> int:
        """One for all cases of a replication, unless the study wants them independent."""
        if self.study.common_random_numbers:
            if replication not in self._seeds:
                self._seeds[replication] = self._spawn(replication)
            return self._seeds[replication]
        return self._spawn(replication, case)

    def points(self, counts: Iterable[tuple[int, int, int]]) -> Iterator[Point]:
        """The points of cases from one replication up to another, ``(case, first, end)``, in that order."""
        for case, first, end in counts:
            values = self.study.design.values(case)
            for replication in range(first, end):
                yield self.point(case, replication, values)

    def _spawn(self, *key: int) -> int:
        stream = np.random.SeedSequence(self.study.seed, spawn_key=(REPLICATION_STREAM, *key))
        return int(stream.generate_state(1)[0])
