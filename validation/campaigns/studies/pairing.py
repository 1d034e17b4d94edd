"""What common random numbers were worth in the studies that have replications."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from smlab.validation.campaigns.studies.newer_sm import answer as newer_sm
from smlab.validation.campaigns.studies.points import Points
from smlab.validation.campaigns.studies.policies import answer as policies
from smlab.validation.experiments.effects.paired import Paired
from smlab.validation.experiments.effects.plots import pairing
from smlab.validation.method.statistics import Interval
from smlab.validation.report import Section

POLICIES = "another policy"


def comparisons(by_study: Mapping[str, Mapping[str, Points]]) -> dict[str, dict[str, Paired]]:
    """Every paired comparison of cycles in the studies of policies and of newer SMs, by kernel and by what
    was compared.

    One without a variance reduction (too few replications, nothing random, no change at all) is not in it.
    """
    found: dict[str, dict[str, Paired]] = {POLICIES: {}}
    for cell in policies.cells(by_study["policies"]["study.toml"]):
        found[POLICIES][f"round robin for greedy, {policies.place(cell)}"] = cell.against["lrr"]
    for kernel, title in newer_sm.KERNELS.items():
        effects = by_study["newer-sm"][f"study-{kernel}.toml"].effects["cycles"].levels
        found[title] = {
            f"{title}, {newer_sm.short(e.factor)} {e.level:.3g}": e.against
            for e in effects
            if e.against is not None
        }
    usable = {
        group: {
            n: c for n, c in own.items() if c.variance_reduction is not None and c.difference.half_width > 0
        }
        for group, own in found.items()
    }
    return {group: own for group, own in usable.items() if own}


def gain(compared: Mapping[str, Paired]) -> Interval:
    """The median over the comparisons of how many times more runs independent variants need; from lower to
    upper quartile."""
    reductions = [
        c.variance_reduction.estimate for c in compared.values() if c.variance_reduction is not None
    ]
    low, middle, high = np.percentile(reductions, [25, 50, 75])
    return Interval(float(middle), float(low), float(high), 0.5, len(reductions))


def draw(section: Section, by_study: Mapping[str, Mapping[str, Points]], most: int = 10) -> None:
    """A figure of ``most`` comparisons, evenly over the range of gains; nothing where there are too few
    replications."""
    groups = comparisons(by_study)
    compared = {name: paired for own in groups.values() for name, paired in own.items()}
    if len(compared) < 2:
        return
    widths = {
        name: (c.difference.half_width, c.difference.half_width * math.sqrt(c.variance_reduction.estimate))
        for name, c in compared.items()
        if c.variance_reduction is not None
    }
    ordered = sorted(widths, key=lambda name: widths[name][1] / widths[name][0], reverse=True)
    chosen = sorted({round(k) for k in np.linspace(0, len(ordered) - 1, min(most, len(ordered)))})
    middle = gain(compared)
    medians = "; ".join(f"{group} {_words(gain(own))}" for group, own in groups.items())
    section.heading("What common random numbers save")
    section.text(
        "Variants of a study see the same random numbers, so what chance does to both cancels in their "
        f"difference. Over {len(compared)} comparisons of cycles, independent runs would need "
        f"{_words(middle)} times as many runs for the same interval (median, and quartiles). By what is "
        f"compared: {medians}. The gain is large where a change leaves the order of events alone, and "
        "nothing where it changes who comes first: then the same numbers soon fall on other events."
    )
    section.figure(
        "study-pairing",
        pairing({ordered[k]: widths[ordered[k]] for k in chosen}, "cycles"),
        {
            "comparison": ordered,
            "half_width_paired": [widths[name][0] for name in ordered],
            "half_width_independent": [widths[name][1] for name in ordered],
        },
        f"{len(chosen)} of the {len(compared)} comparisons, evenly over the range of gains: half width of "
        "the interval of the difference as it is, and as independent runs of the same number would give it.",
        "For each comparison two dots; the one with the same random numbers lies left of the other, far "
        "left at the top.",
    )


def _words(found: Interval) -> str:
    return f"{found.estimate:.1f} ({found.low:.1f} to {found.high:.1f})"
