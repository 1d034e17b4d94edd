"""Evaluating points, in whatever process: chunks of them in, responses out."""

from __future__ import annotations

import math
import pickle
import time
from dataclasses import dataclass
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.validation.experiments.design.values import Settings
from smlab.validation.experiments.run.points import PointResult
from smlab.validation.experiments.systems.systems import System

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
