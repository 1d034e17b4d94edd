"""How wrong the occupancy estimator is across Ampere-like SMs, and what the error hangs on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from smlab.validation.campaigns.studies.answer import Answer, StudyEstimate, scaled
from smlab.validation.campaigns.studies.figures import scatter
from smlab.validation.campaigns.studies.points import Points
from smlab.validation.experiments.effects.plots import sobol_bars
from smlab.validation.method.statistics import Interval, binomial_interval, mean_interval
from smlab.validation.report import Section

Floats = NDArray[np.float64]

ESTIMATORS = {"occupancy": "occupancy estimate", "closed": "closed network"}
REGIMES = {"under 50 %": (0.0, 0.5), "50 to 95 %": (0.5, 0.95), "95 % and more": (0.95, 1.01)}


def independent(points: Points) -> tuple[dict[str, Floats], Floats]:
    """Errors by estimator, in percentage points, and the true utilization, of the points A and B of each
    block: within these no point repeats values of another."""
    layout = points.layout
    block = len(layout.names) * (2 if layout.second_order else 1) + 2
    rows = points.frame[np.isin(np.arange(len(points.frame)) % block, (0, block - 1))]
    errors = {name: rows[f"error_{name}_points"].to_numpy(dtype=np.float64) for name in ESTIMATORS}
    known = np.isfinite(errors["occupancy"])
    utilization = rows["utilization"].to_numpy(dtype=np.float64)[known]
    return {name: e[known] for name, e in errors.items()}, utilization


def answer(by_file: Mapping[str, Points]) -> Answer:
    points = by_file["study.toml"]
    errors, truth = independent(points)
    findings = []

    def add(name: str, what: str, value: Interval, unit: str = "points", digits: int = 2) -> None:
        findings.append(StudyEstimate(name, what, value, unit, digits))

    for name, label in ESTIMATORS.items():
        add(f"{name}-mean", f"{label}: mean absolute error", mean_interval(np.abs(errors[name])))
        add(f"{name}-bias", f"{label}: mean error, estimated less true", mean_interval(errors[name]))
        for regime, (low, high) in REGIMES.items():
            inside = (truth >= low) & (truth < high)
            if inside.sum() >= 5:
                what = f"{label}: mean error where the unit is truly busy {regime}"
                add(f"{name}-{low:g}", what, mean_interval(errors[name][inside]))
    # Half of the points tell the mean utilization, the other half are judged by it.
    constant = mean_interval(100 * np.abs(truth[1::2] - truth[0::2].mean()))
    add("constant-mean", "guessing the mean utilization of other points: mean absolute error", constant)
    over = 100 * truth + errors["occupancy"] > 100 + 1e-9
    add(
        "over",
        "occupancy estimates above 100 %",
        scaled(binomial_interval(int(over.sum()), len(over)), 100),
        "%",
        1,
    )
    indices = [i for i in points.effects["error_occupancy_points"].sobol if i.total is not None]
    for index in indices:
        assert index.total is not None
        what = f"share of the error's variance that {_label(index.factors[0])} has a part in (total index)"
        add(f"total-{index.factors[0]}", what, scaled(index.total, 100), "%", 0)
    shown = {f.name: f for f in findings}
    largest = sorted(indices, key=lambda i: i.total.estimate, reverse=True)[:2]  # type: ignore[union-attr]
    text = (
        "On SMs with the A100's warps and an atomic unit anywhere in its plausible range, the occupancy "
        f"estimate is off by {shown['occupancy-mean'].words()} on average; the closed network, from the same "
        f"counters, by {shown['closed-mean'].words()}; guessing the mean utilization, by "
        f"{shown['constant-mean'].words()}. Of the estimates, {shown['over'].words()} exceed 100 %. The "
        f"errors have two signs: {_signed(shown, 'occupancy-0')} where the unit is busy less than half the "
        f"time, {_signed(shown, 'occupancy-0.95')} where it is saturated. What decides is the load: "
        f"{_label(largest[0].factors[0])} has a part in {shown['total-' + largest[0].factors[0]].words()} of "
        f"the error's variance and {_label(largest[1].factors[0])} in "
        f"{shown['total-' + largest[1].factors[0]].words()}; the queue's depth in "
        f"{shown['total-gpu.atomic.queue_entries'].words()}. (Random think times, warps that do not know of "
        "each other: the closed network's home ground.)"
    )
    return Answer(text, tuple(findings))


def _signed(shown: Mapping[str, StudyEstimate], name: str) -> str:
    if name not in shown:
        return "not known"
    value = shown[name].value
    return f"{value.estimate:+.1f} ({value.low:+.1f} to {value.high:+.1f}) points"


def _label(factor: str) -> str:
    return {
        "gpu.atomic.add.latency_cycles": "the unit's latency",
        "gpu.atomic.queue_entries": "the queue's depth",
        "interval": "the initiation interval",
        "warps": "the number of warps",
        "think": "the time between atomics",
        "lanes": "the lanes on a word",
    }.get(factor, factor)


def draw(section: Section, by_file: Mapping[str, Points]) -> None:
    points = by_file["study.toml"]
    errors, truth = independent(points)
    section.figure(
        "study-occupancy-error",
        scatter(
            100 * truth,
            {label: errors[name] for name, label in ESTIMATORS.items()},
            "True utilization (%)",
            "Estimated less true (percentage points)",
            neutral=0.0,
        ),
        {
            "utilization_percent": (100 * truth).tolist(),
            **{f"error_{n}_points": e.tolist() for n, e in errors.items()},
        },
        "Each dot is an SM and a workload: the estimate's error over the true utilization of the atomic "
        "unit.",
        "The occupancy estimate falls below the line in the middle and rises far above it at 100 %; the "
        "closed network stays near it.",
    )
    indices = points.effects["error_occupancy_points"].sobol
    if indices:
        section.figure(
            "study-occupancy-sobol",
            sobol_bars(indices, "the occupancy estimate's error"),
            {
                "factor": [i.factors[0] for i in indices if i.total],
                **{
                    f"{which}_{end}": [getattr(getattr(i, which), end) for i in indices if i.total]
                    for which in ("index", "total")
                    for end in ("estimate", "low", "high")
                },
            },
            "What the error of the occupancy estimate hangs on: Sobol indices over SMs and workloads, with "
            "bootstrap intervals.",
            "Bars of first-order and total indices; the time between atomics and the number of warps lead.",
        )
