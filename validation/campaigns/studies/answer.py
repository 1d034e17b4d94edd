"""The shape of an answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from smlab.validation.method.statistics import Interval
from smlab.validation.report import Column


@dataclass(frozen=True)
class StudyEstimate:
    """One figure of an answer: what it is, under which name, with its interval; NaN ends where nothing is
    random."""

    name: str
    what: str
    value: Interval
    unit: str
    digits: int = 2

    def words(self) -> str:
        """As it is said in a sentence: the estimate with its interval."""
        value = self.value
        shown = f"{value.estimate:.{self.digits}f}"
        if not math.isfinite(value.low):
            return shown + self._unit
        return f"{shown} ({value.low:.{self.digits}f} to {value.high:.{self.digits}f}){self._unit}"

    @property
    def _unit(self) -> str:
        return f" {self.unit}" if self.unit else ""


@dataclass(frozen=True)
class Answer:
    """What a study says: a few sentences with the figures in them, and all findings."""

    text: str
    findings: tuple[StudyEstimate, ...]

    def __getitem__(self, name: str) -> StudyEstimate:
        return next(f for f in self.findings if f.name == name)


FINDING_COLUMNS = (
    Column("Finding", key="finding"),
    Column("Estimate", key="estimate", kind="simulated"),
    Column("95 % low", key="low"),
    Column("high", key="high"),
    Column("Unit", key="unit"),
    Column("from", unit="pairs or runs", key="count", digits=0),
)


def finding_rows(findings: Sequence[StudyEstimate]) -> list[list[object]]:
    """Rows for `FINDING_COLUMNS`."""
    return [[f.what, f.value.estimate, f.value.low, f.value.high, f.unit, f.value.count] for f in findings]


def exact(value: float, level: float = 0.95) -> Interval:
    """A figure that has no interval, since nothing behind it is random."""
    return Interval(value, math.nan, math.nan, level, 1)


def scaled(interval: Interval, by: float, plus: float = 0.0) -> Interval:
    """The interval of ``by`` times a quantity plus a constant."""
    ends = (
        sorted((interval.low * by + plus, interval.high * by + plus))
        if np.isfinite(interval.low)
        else [math.nan] * 2
    )
    return Interval(interval.estimate * by + plus, ends[0], ends[1], interval.level, interval.count)
