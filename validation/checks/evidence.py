"""Against hardware: every published measurement of the memory path beside what the simulator gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from smlab.hw_bench.datasets.evidence import Evidence, load_evidence
from smlab.hw_bench.gpu.descriptions import list_gpus, load_gpu
from smlab.validation.calibrate.joint_fits import LEVEL, JointFit, load_joint_fits
from smlab.validation.channel_histograms import (
    ENTRIES,
    SOURCE,
    ChannelHistogram,
    ChannelResult,
    simulate_entry,
)
from smlab.validation.checks import Plan, Results, Task, shares
from smlab.validation.evidence import EXPERIMENTS
from smlab.validation.report import Column, Report, Section

WORST: Final = 2
"""Missed rows that the headline names."""

PATHS = 4


@dataclass(frozen=True)
class EvidenceResult:
    """A row of evidence and what each alternative of its GPU gives for it, the description itself first."""

    row: Evidence
    alternatives: tuple[str, ...]
    values: tuple[float, ...]

    def error(self, value: float) -> float:
        """Relative, against the nearest value of the range; 0 for a bound that is kept."""
        low, high = self.row.low or self.row.value, self.row.high or self.row.value
        if self.row.bound:
            return max(0.0, value / high - 1)
        return value / low - 1 if value < low else max(0.0, value / high - 1)

    @property
    def holds(self) -> tuple[bool, ...]:
        """Under each alternative, whether the row's own tolerance is kept."""
        tolerance = 0.0 if self.row.bound else self.row.within
        return tuple(abs(self.error(v)) <= tolerance + 1e-9 for v in self.values)


def simulate_rows(rows: list[Evidence]) -> list[EvidenceResult]:
    """Make the experiments of some rows again."""
    found = []
    for row in rows:
        variants = load_gpu(row.gpu).variants()
        values = tuple(EXPERIMENTS[row.experiment](gpu, **row.parameters) for _, gpu in variants)
        found.append(EvidenceResult(row, tuple(a.name for a, _ in variants), values))
    return found


def simulate_histograms() -> list[tuple[str, ChannelHistogram, ChannelResult]]:
    """The H100's histograms of many channels, under each alternative of its description."""
    return [
        (alternative.name, entry, simulate_entry(gpu, entry))
        for alternative, gpu in load_gpu("h100-sxm").variants()
        for entry in ENTRIES
    ]


def tasks(plan: Plan) -> list[Task[str]]:
    rows = load_evidence()
    counts = shares(len(rows), PATHS)
    parts = [Task(f"evidence-{k}", simulate_rows, (rows[k::PATHS],)) for k in range(len(counts))]
    return [*parts, Task("evidence-histograms", simulate_histograms, ())]


def report(page: Report, plan: Plan, results: Results) -> None:
    order = {row.id: k for k, row in enumerate(load_evidence())}
    found: list[EvidenceResult] = sorted(
        (s for k in range(PATHS) for s in results[f"evidence-{k}"]), key=lambda s: order[s.row.id]
    )
    judged = [s for s in found if s.row.used == "judged"]
    bounds = [s for s in judged if s.row.bound]
    broken = [s.row.id for s in bounds if not all(s.holds)]
    points = [s for s in judged if not s.row.bound]
    missed = [s for s in points if not all(s.holds)]
    worst = sorted(missed, key=lambda s: -abs(s.error(s.values[0])))[:WORST]
    left = f"; and {len(missed) - len(worst)} more" if len(missed) > len(worst) else ""
    section = page.section(
        "against-hardware",
        "Against hardware: the path between scheduler and banks",
        "Published single measurements, each made again on the simulated card with the loop written out. "
        "**Fitted** rows gave a constant of the description, **judged** ones did not; an upper bound (a "
        "whole kernel) is held if the simulation is no slower. Where a description carries alternatives, "
        "each is shown.",
    )
    page.headline(
        "judged measurements of the memory path that the simulator meets",
        f"{len(points) - len(missed)} of {len(points)}",
        kind="simulated",
        note="; ".join(f"{s.row.gpu} {s.row.quantity}: {100 * s.error(s.values[0]):+.1f} %" for s in worst)
        + left,
    )
    page.check(
        "evidence-bounds",
        not broken,
        f"no alternative is slower than any of {len(bounds)} upper bounds of time"
        if not broken
        else "slower than an upper bound: " + ", ".join(broken),
        "against-hardware",
    )
    exact = [s for s in found if s.row.experiment in ("issue_cycle", "barrier")]
    page.check(
        "evidence-cycles",
        all(all(s.holds) for s in exact),
        f"{sum(all(s.holds) for s in exact)} of {len(exact)} measured issue cycles and barriers are met "
        "within a cycle",
        "against-hardware",
    )
    section.fold(
        "The evidence of each GPU, the histograms of an H100, and every measurement beside its simulation"
    )
    _summary(section, found)
    _histograms(section, results["evidence-histograms"])
    _joint(section, load_joint_fits())
    section.table(
        "against-hardware-rows",
        [
            Column("quantity"),
            Column("GPU"),
            Column("measured", kind="published", digits=4),
            Column("unit"),
            Column("simulated", kind="simulated", digits=4),
            Column("error", unit="%", digits=1),
            Column("used"),
            Column("alternatives"),
        ],
        [
            [
                s.row.quantity + (" (upper bound)" if s.row.bound else ""),
                s.row.gpu,
                s.row.value,
                s.row.unit,
                s.values[0],
                100 * s.error(s.values[0]),
                s.row.used,
                _alternatives(s),
            ]
            for s in found
        ],
        "Sources and conditions: hw_bench/datasets/published/memory_path.toml. The error of a range is that "
        "from its nearer end.",
    )


def _histograms(section: Section, found: list[tuple[str, ChannelHistogram, ChannelResult]]) -> None:
    section.table(
        "against-hardware-histograms",
        [
            Column("entry", digits=0),
            Column("alternative"),
            Column("measured", unit="ms", kind="published", digits=3),
            Column("simulated", unit="ms", kind="simulated", digits=3),
            Column("error", unit="%", digits=0),
            Column("long scoreboard, measured", digits=2),
            Column("simulated", digits=2, key="long_scoreboard"),
            Column("MIO throttle, measured", digits=2),
            Column("simulated", digits=2, key="mio_throttle"),
            Column("issue active, measured", unit="%", digits=1),
            Column("simulated", unit="%", digits=1, key="issue_active"),
            Column("data stage", unit="%", digits=1),
        ],
        [
            [
                entry.entry,
                name,
                entry.ms,
                r.ms,
                100 * (r.ms / entry.ms - 1),
                entry.long_scoreboard,
                r.long_scoreboard,
                entry.mio_throttle,
                r.mio_throttle,
                entry.issue_active_percent,
                r.issue_active_percent,
                r.stage_percent,
            ]
            for name, entry, r in found
        ],
        "Histograms of 512 channels on an H100 SXM, as workloads (`validation/channel_histograms.py`) "
        f"and simulated on one SM with its share of L2 and DRAM. Stalls in cycles an instruction. {SOURCE}.",
    )


def _joint(section: Section, fits: list[JointFit]) -> None:
    sources = sorted({source for f in fits for source in f.left_out})

    def interval(f: JointFit, name: str) -> str:
        if name not in f.constants:
            return ""
        value, low, high = f.constants[name]
        return f"{value:.2f} ({low:.2f} to {high:.2f})"

    names = list(dict.fromkeys(name for f in fits for name in f.constants))
    section.table(
        "against-hardware-joint",
        [
            Column("cards"),
            Column("mechanism"),
            *(Column(f"{source}, left out", unit="%", digits=0) for source in sources),
            Column("mean left out", unit="%", digits=1),
            Column("mean fitted", unit="%", digits=1),
            Column("bounds broken", digits=0),
            *(Column(name.replace("_", " "), unit="cycles") for name in names),
        ],
        [
            [
                f.cards,
                f.mechanism,
                *(None if (e := f.left_out.get(source)) is None else 100 * e for source in sources),
                100 * f.mean_left_out,
                100 * float(np.mean(list(f.fitted.values()))),
                len(f.broken),
                *(interval(f, name) for name in names),
            ]
            for f in fits
        ],
        "A row is one mechanism of the atomic unit, with one set of constants for all its cards. It is "
        "fitted to every published measurement of shared atomics at once "
        "(`validation/campaigns/calibration`; read from its stored result). Errors are mean absolute errors "
        "of a source's rows, with that source left out of the fit. A dash: the others leave open what it "
        f"depends on. Intervals of {100 * LEVEL:.0f} % come from leaving each source out. If one source "
        "alone determines a constant, they are the constant's limits.",
    )


def _alternatives(s: EvidenceResult) -> str:
    if len(set(np.round(s.values, 3))) == 1:
        return ""
    return ", ".join(f"{name} {value:.4g}" for name, value in zip(s.alternatives, s.values, strict=True))


def _summary(section: Section, found: list[EvidenceResult]) -> None:
    rows = []
    for gpu in list_gpus():
        own = [s for s in found if s.row.gpu == gpu]
        judged = [s for s in own if s.row.used == "judged"]
        errors = [100 * abs(s.error(s.values[0])) for s in judged if not s.row.bound]
        rows.append(
            [
                gpu,
                sum(s.row.used == "fitted" for s in own),
                len(judged),
                sum(any(s.holds) for s in judged),
                float(np.mean(errors)) if errors else None,
                max(errors) if errors else None,
                "" if own else "no measurement read here touches it",
            ]
        )
    section.table(
        "against-hardware-gpus",
        [
            Column("GPU"),
            Column("fitted", digits=0),
            Column("judged", digits=0),
            Column("met", digits=0),
            Column("mean error", unit="%", digits=1),
            Column("largest", unit="%", digits=1),
            Column("note"),
        ],
        rows,
        "By GPU: the rows that gave a constant, those that judge, those met within their tolerance, and "
        "the errors of the judged ones (bounds left out).",
    )
