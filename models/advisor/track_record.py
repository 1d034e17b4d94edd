"""How such advice fared in simulation: what `smlab.validation.campaigns.advisor` found, shipped as
`track_record.json`.

For each optimizer the changes that were made and simulated: how many, the error of the estimated speedup, and
between which factors of the estimate nine in ten true speedups lay. The same of kernels that others wrote, in
simulation and measured on a card: an interval is never narrower than theirs, since their errors are those
that a user has to expect.
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
ON_A_CARD: Final = "on a card"
"""Simulated numbers that were told for kernels that others wrote, beside what their own change gained on a
real GPU."""


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


def on_a_card() -> TrackRecord:
    """The same, of gains that were measured: the interval that simulated numbers are told with."""
    return track_records()[ON_A_CARD]


def as_made_by_others() -> str:
    """What is said beside numbers."""
    card = on_a_card()
    return (
        "Each number is what the change gains as smlab makes it, simulated. On a real H100 another hand's "
        f"change gained between {card.low:.2f} and {card.high:.2f} times as much in nine cases of ten "
        f"({card.n} measured). {by_other_hands().text}."
    )


@functools.cache
def track_records() -> dict[str, TrackRecord]:
    """By optimizer, `ALL` for those of which no change was made, `BY_OTHERS` and `ON_A_CARD`."""
    text = resources.files("smlab.models.advisor").joinpath(FILE).read_text()
    rows = json.loads(text)["records"]
    return {row["optimizer"]: TrackRecord(**row) for row in rows}


def record_of(optimizer: str) -> TrackRecord:
    """The record that an optimizer's advice is told with: its own, with an interval that is at least as wide
    as that of kernels by others on a card."""
    records = track_records()
    own, card = records.get(optimizer) or records[ALL], on_a_card()
    return replace(own, low=min(own.low, card.low), high=max(own.high, card.high))
