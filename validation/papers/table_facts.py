"""What Dong & Pai report of their measured service table (Section 3.2, Figure 1), asked of any T(n, e, c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from smlab.validation.papers.judging import PaperVerdict, Range, Scale, how_far_met, verdict_of

ONE_BLOCK: Final = 32
"""Warps of one block of 1,024 threads."""

Floats = NDArray[np.float64]
INFINITE: Final = float("inf")
BELOW_ONE, ABOVE_ZERO = float(np.nextafter(1.0, 0.0)), float(np.nextafter(0.0, 1.0))


Condition = tuple[Range, Scale, float]
"""The confirming range, the kind of number, and the number."""


@dataclass(frozen=True)
class TableFact:
    """A statement about the table, what was seen, and the verdict."""

    claim: str
    seen: str
    verdict: PaperVerdict


def largest_rise_with_n(t: Floats, n: NDArray[np.int64]) -> float:
    """The largest of S(n + 1) - S(n), in units of 1/n: what one whole cycle more in T(n + 1) would be.

    ``t`` has shape (n, e). T is a whole number of cycles, so S is known to 1/n only.
    """
    s = t / n[:, None]
    return float(((s[1:] - s[:-1]) * n[1:, None]).max())


def largest_ratio_on_doubling(t: Floats, n: NDArray[np.int64]) -> float:
    """The largest S(2n) / S(n) over all n whose double is there, and all e: below 1 where S falls over every
    doubling. ``t`` has shape (n, e)."""
    s = t / n[:, None]
    half = [k for k in n.tolist() if 2 * k in n]
    return float(max((s[n == 2 * k] / s[n == k]).max() for k in half))


def least_step_with_e(t: Floats) -> float:
    """The least growth of T from one lane to the next, in cycles; ``t`` has shape (n, e)."""
    return float(np.diff(t, axis=1).min())


def largest_bend_in_c(t: Floats, n: NDArray[np.int64]) -> tuple[float, float]:
    """How far T(n, e, c) is from the straight line between c = 0 and c = n: in cycles, and as a percentage of
    T.

    ``t`` has shape (n, e, c) with c = 0, 1, 2, ... and NaN where c > n.
    """
    c = np.arange(t.shape[2])[None, None, :]
    ends = np.take_along_axis(t, n[:, None, None].repeat(t.shape[1], axis=1), axis=2)
    line = t[:, :, :1] + (ends - t[:, :, :1]) * c / n[:, None, None]
    off = np.abs(t - line)
    return float(np.nanmax(off)), float(np.nanmax(100 * off / t))


def one_block(table: xr.DataArray) -> xr.DataArray:
    """The part of a table in which all jobs come from one block."""
    return table.sel(n=[k for k in table.n.values if k <= ONE_BLOCK], c=slice(0, ONE_BLOCK))


def saturation_in_c(row: Floats, jobs: int) -> float:
    """How far T of ``jobs`` has come on its way from no to only compare-and-swap jobs when half of them are:
    0.5 on a line. ``row`` is T over c, shape (c,)."""
    return float((row[jobs // 2] - row[0]) / (row[jobs] - row[0]))


def least_and_greatest_s(table: xr.DataArray) -> tuple[float, float]:
    """The least S(n, e, 0) and the greatest S(n, e, c) with c = 0 or c = n, in cycles."""
    n = table.n.values
    fetch = table.sel(c=0).values / n[:, None]
    cas = np.array([table.sel(n=k, c=k).values for k in n]) / n[:, None]
    return float(fetch.min()), float(max(fetch.max(), cas.max()))


def table_facts(table: xr.DataArray) -> dict[str, TableFact]:
    """The paper's statements judged on a table of all n, e and c, by name."""
    n = table.n.values
    fetch = table.sel(c=0).values
    within = one_block(table)
    found: dict[str, TableFact] = {}

    def say(
        name: str, claim: str, seen: str, condition: Condition, necessary: Sequence[Condition] = ()
    ) -> None:
        conditions = (condition, *necessary)
        met = [how_far_met(asked, scale, value, value, value) for asked, scale, value in conditions]
        found[name] = TableFact(claim, seen, verdict_of(met, [c is not condition for c in conditions]))

    ratio, rise = largest_ratio_on_doubling(fetch, n), largest_rise_with_n(fetch, n)
    say(
        "s-falls-with-n",
        "S falls with n",
        f"S(2n) / S(n) is {ratio:.3f} at most; from n to n + 1 S never rises by more than {rise:.2f} of what "
        f"the rounding of T to whole cycles makes",
        (Range(-INFINITE, BELOW_ONE), Scale.FIGURE, ratio),
        necessary=[(Range(-INFINITE, 1), Scale.FIGURE, rise)],
    )
    step = least_step_with_e(fetch)
    say(
        "s-rises-with-e",
        "S rises with e",
        f"with every lane T grows by at least {step:.0f} cycles",
        (Range(ABOVE_ZERO, INFINITE), Scale.FIGURE, step),
    )
    bend, percent = largest_bend_in_c(within.values, within.n.values)
    say(
        "linear-in-c",
        f"nearly linear in c for n <= {ONE_BLOCK}",
        f"T is within {bend:.1f} cycles ({percent:.1f} %) of a line in c (bound 5 %)",
        (Range(0, 5), Scale.ERROR, percent),
    )
    least, greatest = least_and_greatest_s(table)
    say(
        "tenfold-spread",
        "S varies more than tenfold",
        f"S varies {greatest / least:.1f} times between best and worst pattern (over 10)",
        (Range(10, INFINITE), Scale.RATIO, greatest / least),
    )
    jobs = int(n.max())
    if jobs > ONE_BLOCK:
        way = float(np.mean([saturation_in_c(row, jobs) for row in table.sel(n=jobs).values]))
        say(
            "saturates-in-c",
            f"for n > {ONE_BLOCK}, mixing saturates at the compare-and-swap time",
            f"with half of {jobs} jobs compare-and-swap, T has come {100 * way:.0f} % of its way: the "
            f"mechanism knows jobs, not blocks (docs/findings/queue-model.md)",
            (Range(0.9, 1.1), Scale.FIGURE, way),
        )
    return found
