"""What measuring gives: one batch of rows at a time, and when a series of launches has been enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.cuda.measuring.steadiness import Stopping, Verdict, steady_from

_UNRECOVERABLE: Final = 3
"""Times as many launches as a series needs, all of them with the GPU held back, end it."""
_SETTLED: Final = 0.001
"""What two launches of a simulated GPU may differ by and be called equally long."""
_MOST: Final = 6
"""Launches of a simulated GPU at most."""
Throttled = Callable[[], bool]
"""Asked after each launch whose seconds count: whether the GPU was held back in it."""


@dataclass(frozen=True)
class Batch:
    """One launch's rows: ``samples`` are arrays with a row for each row of the table, measurements in
    order. ``held_back`` names the series in which the GPU was held back in every launch: such a batch does
    not tell what the GPU can do."""

    name: str
    rows: list[dict[str, Any]]
    samples: dict[str, NDArray[Any]]
    about: dict[str, Any]
    wrong: list[str]
    held_back: tuple[str, ...] = ()


class Watch:
    """Decides when a series of launches is enough, and keeps apart those in which the GPU was held back."""

    def __init__(
        self, limit_s: float, throttled: Throttled, least: int = 10, patience_s: float = 10.0
    ) -> None:
        self._stopping = Stopping(least=least if limit_s else 1, limit_s=limit_s, patience_s=patience_s)
        self._throttled = throttled
        self.slow: list[bool] = []
        self.verdict: Verdict = "noisy"

    def enough(self, seconds: list[float]) -> bool:
        self.slow.append(self._throttled())
        good = [second for second, slow in zip(seconds, self.slow, strict=True) if not slow]
        if not good and len(self.slow) >= _UNRECOVERABLE * self._stopping.least:
            return True
        verdict = self._stopping.verdict(good)
        self.verdict = verdict or self.verdict
        return verdict is not None

    @property
    def held_back(self) -> bool:
        """Whether the GPU was held back in every launch."""
        return all(self.slow)

    def steady(self, seconds: tuple[float, ...]) -> tuple[int, list[float]]:
        """Where the steady part begins among the samples kept, and those samples; all, where every one was
        slow."""
        start, _, steady = self.parts(seconds)
        return start, steady

    def parts(self, seconds: tuple[float, ...]) -> tuple[int, list[float], list[float]]:
        """As `steady`, with the initial part in between (empty where none stands out)."""
        good = [second for second, slow in zip(seconds, self.slow, strict=True) if not slow] or list(seconds)
        start = int(steady_from(good)[0])
        return start, good[:start], good[start:]


class Settling(Watch):
    """The same on a simulated GPU, which has no noise: a launch differs from the one before it by what that
    one left in L2 alone. The series ends when two launches take equally long: its first one is the initial
    part, its last one the steady."""

    def __init__(self) -> None:
        super().__init__(0.0, lambda: False)

    def enough(self, seconds: list[float]) -> bool:
        super().enough(seconds)
        settled = len(seconds) > 1 and abs(seconds[-1] - seconds[-2]) <= _SETTLED * seconds[-1]
        self.verdict = "quiet" if settled else "noisy"
        return settled or len(seconds) >= _MOST

    def parts(self, seconds: tuple[float, ...]) -> tuple[int, list[float], list[float]]:
        return len(seconds) - 1, list(seconds[:1]), list(seconds[-1:])


def padded(series: list[tuple[float, ...]]) -> NDArray[np.float64]:
    """Series of different lengths as rows, NaN behind the shorter ones."""
    rows = np.full((len(series), max(map(len, series))), np.nan)
    for row, values in zip(rows, series, strict=True):
        row[: len(values)] = values
    return rows
