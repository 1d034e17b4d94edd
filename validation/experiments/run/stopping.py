"""How many replications each case gets: a fixed number, or as many as its interval needs to be as tight as
asked.

Replications are added in rounds. After a round, a case whose interval is too wide gets as many more as its
width asks for (it falls as the square root of their number), at most doubling. What is decided depends on
finished rounds alone, so that a study that was interrupted, or that runs on other workers, decides the same.

The interval is looked at more than once, and a case stops when it happens to look narrow, so it covers less
than its level says. Of nominal 95 %, begun with 10 replications: 93 to 95 % on normal responses, 86 to 90 %
on exponential ones; begun with 4: 91 to 95 and 82 to 88 % (4,000 trials each). So begin with ten or more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from smlab.validation.experiments.design.study import Study
from smlab.validation.experiments.run.points import Point, PointResult

if TYPE_CHECKING:
    from smlab.validation.method.statistics import Interval

Counts = Iterable[tuple[int, int, int]]
"""Replications by case: ``(case, first, end)``."""

Fetch = Callable[[Counts], Iterator[tuple[Point, PointResult]]]


class Replications:
    """The replications of each case, ``counts`` (cases + 1,), as far as they are decided."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.counts = np.zeros(study.design.size + 1, dtype=np.int64)
        self.rounds = 0
        self.loose = 0

    @property
    def total(self) -> int:
        """Points decided so far."""
        return int(self.counts.sum())

    def next_round(self, fetch: Fetch) -> Counts:
        """What the next round has to run, after the one before it has; nothing when all is done."""
        before = self.counts.copy()
        if self.rounds == 0:
            self.counts[:] = self.study.replications
        elif self.study.stop is not None:
            self._extend(fetch)
        if np.array_equal(before, self.counts):
            return ()
        self.rounds += 1
        after = self.counts.copy()
        changed = np.flatnonzero(after > before)
        return _Round(before, after, changed)

    def _extend(self, fetch: Fetch) -> None:
        """Give more replications to the cases that need them, and to the base as many as any case has."""
        stop = self.study.stop
        assert stop is not None
        base = self._responses(fetch, 0)
        wanted = self.counts.copy()
        self.loose = 0
        for case in range(1, len(self.counts)):
            have = int(self.counts[case])
            own = self._responses(fetch, case)
            if any(math.isnan(x) for x in (*own, *base[:have])):
                continue  # a case that cannot be evaluated has no interval; it is among the failures
            width = self._excess(own, base[:have])
            if width <= 1:
                continue
            if have >= stop.most_replications:
                self.loose += 1
                continue
            wanted[case] = min(
                stop.most_replications, max(have + 1, min(2 * have, math.ceil(have * width**2)))
            )
        wanted[0] = max(wanted[0], wanted.max())
        self.counts = wanted

    def _excess(self, own: list[float], base: list[float]) -> float:
        """The interval's half-width over the one that is asked for."""
        stop = self.study.stop
        assert stop is not None
        interval = self._interval(own, base)
        if stop.half_width is not None:
            return interval.half_width / float(stop.half_width)
        asked = float(stop.relative_half_width or 0) * abs(interval.estimate)
        return interval.half_width / asked if asked > 0 else (math.inf if interval.half_width > 0 else 0.0)

    def _interval(self, own: list[float], base: list[float]) -> Interval:
        from smlab.validation.method.statistics import (  # brings SciPy, which takes a while
            geometric_ratio_interval,
            mean_interval,
        )

        stop = self.study.stop
        assert stop is not None
        if stop.of == "mean":
            return mean_interval(own, self.study.level)
        if stop.of == "difference":
            return mean_interval(np.subtract(own, base), self.study.level)
        return geometric_ratio_interval(own, base, self.study.level)

    def _responses(self, fetch: Fetch, case: int) -> list[float]:
        """The watched response of a case, by replication; NaN where it failed."""
        stop = self.study.stop
        assert stop is not None
        place = self.study.system.responses.index(stop.response)
        return [
            math.nan if stored.error else stored.responses[place]
            for _, stored in fetch([(case, 0, int(self.counts[case]))])
        ]


class _Round:
    """The replications that a round adds, by case; may be gone through more than once."""

    def __init__(self, before: np.ndarray, after: np.ndarray, changed: np.ndarray) -> None:
        self._before, self._after, self._changed = before, after, changed

    def __bool__(self) -> bool:
        return bool(len(self._changed))

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        for case in self._changed.tolist():
            yield case, int(self._before[case]), int(self._after[case])
