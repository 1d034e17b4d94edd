"""The cross-checks of ``smlab validate``, a module each.

Every module has ``tasks(plan)``, the work that may run side by side in other processes, and ``report(page,
plan, results)``, which turns the results (by task name) into checks, tables and figures of the report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.simulate import DEFAULT_ENGINE
from smlab.validation.work.runner import Task


@dataclass(frozen=True)
class Plan:
    """What a validation run is asked for. ``processes`` is how many tasks run at a time."""

    gpu: Gpu
    quick: bool
    seed: int
    processes: int
    engine: str = DEFAULT_ENGINE


Results = Mapping[str, Any]

__all__ = ["Plan", "Results", "Task", "shares"]


def shares(total: int, parts: int) -> list[int]:
    """``total`` cut into ``parts`` nearly equal whole numbers."""
    return [total // parts + (i < total % parts) for i in range(parts)]
