"""How such advice fared in simulation: what `smlab.validation.campaigns.advisor` found, shipped as
`track_record.json`.

For each optimizer the changes that were made and simulated: how many, the error of the estimated speedup, and
between which factors of the estimate nine in ten true speedups lay.
"""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass
from importlib import resources
from typing import Final

FILE: Final = "track_record.json"
ALL: Final = "all"


@dataclass(frozen=True)
class TrackRecord:
    """``n`` changes, the mean absolute percentage error of their estimates; true over estimated *gain in log
    speedup* lies between ``low`` and ``high`` for 90 % (as factors of the speedup)."""

    optimizer: str
    n: int
    mape: float
    low: float
    high: float

    def interval(self, speedup: float) -> tuple[float, float]:
        """Where a change with this estimate is expected to end up in nine cases of ten."""
        return speedup * self.low, speedup * self.high

    @property
    def text(self) -> str:
        """In words."""
        what = "changes of all kinds" if self.optimizer == ALL else "such change" + "s" * (self.n != 1)
        return f"{self.n} {what} simulated: estimates off by {self.mape:.0f} % in the mean"


@functools.cache
def track_records() -> dict[str, TrackRecord]:
    """By optimizer, and `ALL` for those of which no change was made."""
    text = resources.files("smlab.models.advisor").joinpath(FILE).read_text()
    rows = json.loads(text)["records"]
    return {row["optimizer"]: TrackRecord(**row) for row in rows}


def record_of(optimizer: str) -> TrackRecord:
    """The record that an optimizer's advice is told with."""
    records = track_records()
    if optimizer in records:
        return records[optimizer]
    return records.get(ALL, TrackRecord(ALL, 0, math.nan, 0.5, 2.0))
