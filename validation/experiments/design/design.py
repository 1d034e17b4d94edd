"""Designs: which cases a study runs. Case 0 is the base; the others are numbered from 1 in a fixed order.

A design is asked for one case at a time, so that a grid of any size takes no memory. Only a Sobol sample is
held as an array, eight bytes a number.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from smlab.validation.experiments.design.factors import Factor
from smlab.validation.experiments.design.values import Value

DESIGN_STREAM = 0xD
"""Spawn key of the design's random numbers, apart from those of replications."""

BLOCK = 1024
"""Random cases that share a stream."""


class Design(Protocol):
    """The cases of a study beside the base."""

    @property
    def size(self) -> int:
        """How many cases there are, not counting the base."""

    def values(self, case: int) -> tuple[Value, ...]:
        """The values of all factors in a case, 1 .. size; case 0 is the base."""

    def changed(self, case: int) -> str:
        """The one factor that a case changes; empty where there is not one."""


@dataclass(frozen=True)
class Grid:
    """All combinations of levels, the last factor changing fastest."""

    factors: tuple[Factor, ...]

    @property
    def size(self) -> int:
        return math.prod(len(factor.levels) for factor in self.factors)

    def values(self, case: int) -> tuple[Value, ...]:
        if case == 0:
            return _base(self.factors)
        rest, found = case - 1, []
        for factor in reversed(self.factors):
            rest, level = divmod(rest, len(factor.levels))
            found.append(factor.levels[level])
        return tuple(reversed(found))

    def changed(self, case: int) -> str:
        return ""


@dataclass(frozen=True)
class OneAtATime:
    """Each level of each factor that differs from the base, all other factors as in the base."""

    factors: tuple[Factor, ...]

    @cached_property
    def _cases(self) -> list[tuple[int, Value]]:
        return [(i, level) for i, f in enumerate(self.factors) for level in f.levels if level != f.base]

    @property
    def size(self) -> int:
        return len(self._cases)

    def values(self, case: int) -> tuple[Value, ...]:
        found = list(_base(self.factors))
        if case:
            place, level = self._cases[case - 1]
            found[place] = level
        return tuple(found)

    def changed(self, case: int) -> str:
        return self.factors[self._cases[case - 1][0]].name if case else ""


@dataclass(frozen=True)
class Random:
    """``samples`` independent cases."""

    factors: tuple[Factor, ...]
    samples: int
    seed: int

    @property
    def size(self) -> int:
        return self.samples

    @cached_property
    def _latest(self) -> dict[int, NDArray[np.float64]]:
        return {}

    def values(self, case: int) -> tuple[Value, ...]:
        if case == 0:
            return _base(self.factors)
        block, row = divmod(case - 1, BLOCK)
        if block not in self._latest:
            self._latest.clear()
            stream = np.random.SeedSequence(self.seed, spawn_key=(DESIGN_STREAM, block))
            self._latest[block] = np.random.default_rng(stream).random((BLOCK, len(self.factors)))
        return tuple(f.at(u) for f, u in zip(self.factors, self._latest[block][row].tolist(), strict=True))

    def changed(self, case: int) -> str:
        return ""


@dataclass(frozen=True)
class CaseList:
    """The cases of a list: a row each, a value for each factor."""

    factors: tuple[Factor, ...]
    rows: tuple[tuple[Value, ...], ...]

    @property
    def size(self) -> int:
        return len(self.rows)

    def values(self, case: int) -> tuple[Value, ...]:
        return _base(self.factors) if case == 0 else self.rows[case - 1]

    def changed(self, case: int) -> str:
        return ""


@dataclass(frozen=True)
class Sobol:
    """Saltelli's sample, in the order in which `SALib.analyze.sobol` wants the responses.

    A. Saltelli, "Making best use of model evaluations to compute sensitivity indices", Comput. Phys. Commun.
    145, 2002.
    """

    factors: tuple[Factor, ...]
    samples: int
    second_order: bool
    seed: int

    @property
    def size(self) -> int:
        k = len(self.factors)
        return self.samples * ((2 * k + 2) if self.second_order else (k + 2))

    @cached_property
    def _quantiles(self) -> NDArray[np.float64]:
        from SALib.sample import sobol

        state = np.random.SeedSequence(self.seed, spawn_key=(DESIGN_STREAM,)).generate_state(1)[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sample = sobol.sample(
                problem(self.factors),
                self.samples,
                calc_second_order=self.second_order,
                seed=1 + int(state) % (2**31 - 2),  # SALib takes 0 for no seed at all
            )
        return np.asarray(sample, dtype=np.float64)

    def values(self, case: int) -> tuple[Value, ...]:
        if case == 0:
            return _base(self.factors)
        row = self._quantiles[case - 1].tolist()
        return tuple(f.at(u) for f, u in zip(self.factors, row, strict=True))

    def changed(self, case: int) -> str:
        return ""


def make_design(
    kind: str,
    factors: tuple[Factor, ...],
    samples: int,
    second_order: bool,
    seed: int,
    rows: tuple[tuple[Value, ...], ...] = (),
) -> Design:
    """The design of that kind; ``samples``, ``second_order`` and ``rows`` as far as it knows them."""
    if kind == "listed":
        return CaseList(factors, rows)
    if kind == "grid":
        return Grid(factors)
    if kind == "one-at-a-time":
        return OneAtATime(factors)
    if kind == "random":
        return Random(factors, samples, seed)
    return Sobol(factors, samples, second_order, seed)


def problem(factors: tuple[Factor, ...]) -> dict[str, Any]:
    """The factors as SALib wants them: by quantile, since `Factor.at` turns quantiles into values."""
    return {
        "num_vars": len(factors),
        "names": [f.name for f in factors],
        "bounds": [[0.0, 1.0]] * len(factors),
    }


def _base(factors: tuple[Factor, ...]) -> tuple[Value, ...]:
    return tuple(factor.base for factor in factors)
