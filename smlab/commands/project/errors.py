"""How wrong a projection is where the truth is known: beside trivial baselines, and with each part of the
method off."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich.console import Console

from smlab.cli.tables import Listing
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import Floats, KernelWork
from smlab.models.projection.projection import PAPER, Projection, ProjectionSwitches, project
from smlab.validation.method.interval_errors import IntervalErrors, TimedIntervals, interval_errors
from smlab.validation.method.metrics import ErrorTable, error_table

PATHS = ("parallelism", "cache", "launch_overhead", "issue", "latency")


@dataclass(frozen=True)
class ProjectionErrors:
    """Errors of the middle of the interval; of baselines, and of the method with one part changed, by name.

    The best constant is fitted to the truth that it is judged on: no method that does not know it can have
    it.
    """

    errors: IntervalErrors
    parts: tuple[tuple[str, ErrorTable], ...]

    def as_json(self) -> dict[str, Any]:
        return {**self.errors.as_json(), "parts": {name: table.as_row() for name, table in self.parts}}

    def print(self, console: Console) -> None:
        e = self.errors
        console.print(error_listing("", (("projection", e.projected), *e.baselines, *self.parts)))
        console.print(f"actual time within the interval: {e.coverage:.0f} % of the kernels")


def error_listing(heading: str, rows: Iterable[tuple[str, ErrorTable]]) -> Listing:
    """Error tables by name, for people."""
    listed = Listing(heading)
    for title, drop in (
        ("n", 3),
        ("MAPE", 0),
        ("95 % interval", 0),
        ("median", 1),
        ("worst", 2),
        ("bias", 0),
    ):
        listed.add_column(title, justify="right", drop=drop)
    for name, t in rows:
        listed.add_row(
            name,
            f"{t.n:,}",
            f"{t.mape:.1f} %",
            "-" if np.isnan(t.mape_low) else f"{t.mape_low:.1f} to {t.mape_high:.1f}",
            f"{t.median_ape:.1f} %",
            f"{t.worst_ape:.1f} %",
            f"{t.bias:.3f}",
        )
    return listed


def peak_ratio(source: Gpu, target: Gpu) -> float:
    """Time on the target over time on the source by FP32 peaks alone."""
    key = "peak.fp32_flops_per_s"
    return float(source.number(key)) / float(target.number(key))


def bandwidth_ratio(source: Gpu, target: Gpu) -> float:
    """Time on the target over time on the source by the rated DRAM bandwidths alone."""
    key = "dram.bandwidth_bytes_per_s"
    return float(source.number(key)) / float(target.number(key))


def errors_of(
    work: KernelWork,
    source: Gpu,
    target: Gpu,
    switches: ProjectionSwitches,
    projection: Projection,
    actual_s: Floats,
    target_work: KernelWork | None = None,
) -> ProjectionErrors:
    """The errors of the kernels of ``projection`` whose ``actual_s`` is known."""
    known = ~np.isnan(actual_s)
    truth, before = actual_s[known], projection.source_s[known]
    baselines = {
        "peak ratio": before * peak_ratio(source, target),
        "bandwidth ratio": before * bandwidth_ratio(source, target),
    }
    index = projection.index[known]
    parts = {}
    for name, changed in variants(switches):
        other = project(work, source, target, changed, target_work=target_work)
        place = {int(i): k for k, i in enumerate(other.index)}
        if all(int(i) in place for i in index):
            parts[name] = other.mid_s[[place[int(i)] for i in index]]
    peak = baselines["peak ratio"]
    times = TimedIntervals(before, projection.low_s[known], projection.mid_s[known], projection.high_s[known])
    return ProjectionErrors(
        interval_errors(times, truth, baselines, "peak ratio"),
        tuple((name, error_table(p, truth, baseline=peak)) for name, p in parts.items()),
    )


def variants(switches: ProjectionSwitches) -> list[tuple[str, ProjectionSwitches]]:
    """The method as published, and as asked for with each part the other way."""
    found = [("as published", replace(PAPER, maxima=switches.maxima))] if switches != PAPER else []
    for part in PATHS:
        is_on = getattr(switches, part)
        changed: dict[str, Any] = {part: not is_on}
        name = part.replace("_", " ")
        found.append((f"{'without' if is_on else 'with'} {name}", replace(switches, **changed)))
    other = "spec" if switches.maxima == "sustained" else "sustained"
    found.append((f"with {other} maxima", replace(switches, maxima=other)))  # type: ignore[arg-type]
    return found
