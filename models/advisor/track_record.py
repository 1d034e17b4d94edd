"""How such advice fared in simulation: what `smlab.validation.campaigns.advisor` found, shipped as
`track_record.json`.

For each optimizer the changes that were made and simulated: how many, the error of the estimated speedup, and
between which factors of the estimate nine in ten true speedups lay. The same of kernels that others wrote: an
interval is never narrower than theirs, since their errors are those that a user has to expect.
"""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass, replace
from importlib import resources
from typing import Final

FILE: Final = "track_record.json"
ALL: Final = "all"
BY_OTHERS: Final = "by others"
"""All numbers that were told for kernels that others wrote, beside what their own change gained."""


@dataclass(frozen=True)
class TrackRecord:
    """``n`` changes, the mean absolute percentage error of their estimates, and that of the best constant
    where it was asked; true over estimated *gain in log speedup* lies between ``low`` and ``high`` for 90 %
    (as factors of the speedup)."""

    optimizer: str
    n: int
    mape: float
    low: float
    high: float
    constant_mape: float = math.nan

    def interval(self, speedup: float) -> tuple[float, float]:
        """Where a change with this estimate is expected to end up in nine cases of ten."""
        return speedup * self.low, speedup * self.high

    @property
    def text(self) -> str:
        """In words."""
        if self.optimizer == BY_OTHERS:
            return (
                f"On new kernels {self.n} such numbers were {self.mape:.0f} % off in the mean; the best "
                f"constant was {self.constant_mape:.0f} % off"
            )
        what = "changes of all kinds" if self.optimizer == ALL else "such change" + "s" * (self.n != 1)
        return f"{self.n} {what} simulated: estimates off by {self.mape:.0f} % in the mean"


def by_other_hands() -> TrackRecord:
    """The record of kernels by others: ``low`` and ``high`` are the factors of what was simulated that nine
    in ten of their authors' changes lay between, kinds of changes left out in turn."""
    return track_records()[BY_OTHERS]


def as_made_by_others() -> str:
    """What is said beside numbers."""
    others = by_other_hands()
    return (
        "Each number is what the change gains as smlab makes it. As another hand makes it, it gains between "
        f"{others.low:.2f} and {others.high:.2f} times as much in nine cases of ten. {others.text}."
    )


@functools.cache
def track_records() -> dict[str, TrackRecord]:
    """By optimizer, `ALL` for those of which no change was made, and `BY_OTHERS`."""
    text = resources.files("smlab.models.advisor").joinpath(FILE).read_text()
    rows = json.loads(text)["records"]
    return {row["optimizer"]: TrackRecord(**row) for row in rows}


def record_of(optimizer: str) -> TrackRecord:
    """The record that an optimizer's advice is told with: its own, with an interval that is at least as wide
    as that of kernels by others."""
    records = track_records()
    own = records.get(optimizer) or records[ALL]
    others = records[BY_OTHERS]
    return replace(own, low=min(own.low, others.low), high=max(own.high, others.high))
