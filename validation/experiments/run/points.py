"""Points of a study: one case in one replication, with the hash that it is stored under; the store that
resumes; and their evaluation in chunks, in whatever process.
"""

from __future__ import annotations

import hashlib
import json
import math
import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.validation.experiments.design.study import Study
from smlab.validation.experiments.design.values import Settings, Value
from smlab.validation.experiments.systems.systems import System
from smlab.validation.work.store import Entry, Store

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


class PointStore:
    """Finished points in ``store``, with responses in the order of ``names``."""

    def __init__(self, store: Store, names: Sequence[str]) -> None:
        self.store = store
        self.names = tuple(names)

    def add(self, finished: Iterable[tuple[Point, PointResult]]) -> None:
        """Keep points, all of them or (if the process dies) none."""
        self.store.add(
            Entry(
                point.hash,
                {"settings": point.settings, "seed": point.seed},
                dict(zip(self.names, found.responses, strict=False)),
                found.error,
            )
            for point, found in finished
        )

    def known(self, hashes: Sequence[bytes]) -> set[bytes]:
        """Which of them are stored."""
        return self.store.known(hashes)

    def get(self, hashes: Sequence[bytes]) -> dict[bytes, PointResult]:
        """The finished points among them, by hash."""
        return {
            key: PointResult(
                tuple(entry.result[name] for name in self.names) if not entry.error else (), entry.error
            )
            for key, entry in self.store.get(hashes).items()
        }


Work = tuple[tuple[Settings, int], ...]
"""Settings and seed of each point of a chunk."""

_KEPT: Final[dict[bytes, tuple[System, str]]] = {}
"""The latest system of this process, with its identity as this process's code gives it."""


@dataclass(frozen=True)
class Chunk:
    """What came of a chunk, in its order. ``identity`` is the system's where it was evaluated; ``elapsed_s``
    covers the chunk; ``evaluation_s`` and ``simulation_s`` are processor time, of the chunk and of the
    simulations in it.
    """

    finished: tuple[PointResult, ...]
    identity: str
    elapsed_s: float
    evaluation_s: float
    simulation_s: float


def packed(system: System) -> bytes:
    """A system for travelling."""
    return pickle.dumps(system)


def evaluate(system: System, settings: Settings, seed: int) -> tuple[PointResult, float]:
    """The responses of one point, or why it has none, and the processor time spent simulating."""
    try:
        answer = system.answer(settings, seed)
    except SmlabError as error:
        return PointResult((), str(error)), 0.0
    values = tuple(v if type(v) is int else float(v) for v in answer.responses)
    for name, value in zip(system.responses, values, strict=True):
        if not math.isfinite(value):
            return PointResult((), f"{name} is not a finite number: {value}"), answer.simulation_s
    return PointResult(values, ""), answer.simulation_s


def evaluate_chunk(system: bytes, work: Work) -> Chunk:
    """Evaluate points one after the other; ``system`` is what `packed` gave."""
    began, began_cpu = time.perf_counter(), time.thread_time()
    found = _KEPT.get(system)
    if found is None:
        loaded: System = pickle.loads(system)
        found = loaded, loaded.identity()
        _KEPT.clear()
        _KEPT[system] = found
    own, identity = found
    finished, simulation_s = [], 0.0
    for settings, seed in work:
        stored, spent_s = evaluate(own, settings, seed)
        finished.append(stored)
        simulation_s += spent_s
    elapsed_s, evaluation_s = time.perf_counter() - began, time.thread_time() - began_cpu
    return Chunk(tuple(finished), identity, elapsed_s, evaluation_s, simulation_s)
