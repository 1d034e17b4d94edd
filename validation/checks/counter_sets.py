"""What each set of counters tells of a kernel, in the report of ``smlab validate``: utilization, and what a
change would gain."""

from __future__ import annotations

from collections.abc import Sequence

from smlab.models.alternative_estimates import AlternativeEstimates
from smlab.models.counter_maps import CHANGES, FASTER, SPREAD, shipped_maps
from smlab.models.counter_sets import ATOMIC, REQUESTS, SAMPLES, SETS, STATES
from smlab.models.trust import CLOSED
from smlab.models.verdict import BOTTLENECK, GAIN, NOT
from smlab.validation.report import Column, Section
from smlab.validation.trust.fit import estimate_campaign
from smlab.validation.trust.judge import Reading
from smlab.validation.trust.judge_sets import (
    JudgedSets,
    baseline_errors,
    other_errors,
    set_rows,
    told_by_set,
)
from smlab.validation.trust.twins import APART_POINTS, KINDS, Twins, least_error_points

TARGET_MEAN = 0.7
"""Percentage points of utilization that were asked for, on average."""

SHOWN = {
    ATOMIC: "launch and atomic counters",
    REQUESTS: "and requests of the memory path",
    STATES: "and warp states",
    SAMPLES: "and samples at the atomics",
}


def counter_sets_table(section: Section, judged: Sequence[JudgedSets]) -> None:
    """A row for each set of counters, and one for what needs no map."""
    rows: list[list[str | float]] = [
        [
            SHOWN[row.counters],
            row.kernels,
            row.utilization_points,
            row.utilization_held,
            row.utilization_width,
            row.gain_error[FASTER],
            row.gain_held[FASTER],
            row.gain_error[SPREAD],
            row.gain_held[SPREAD],
            row.gaining_percent(BOTTLENECK),
            row.verdicts[BOTTLENECK][0],
            row.gaining_percent(NOT),
            row.verdicts[NOT][0],
            row.cannot_tell_percent,
        ]
        for row in set_rows(judged)
    ]
    section.table(
        "campaign-counter-sets",
        [
            Column("counters"),
            Column("kernels", digits=0),
            Column("mean error", "points", "modelled", 2, key="mean_points"),
            Column("intervals hold", "%", digits=1, key="held"),
            Column("interval", "points wide", digits=1, key="width"),
            Column("twice as fast: error", "x", "modelled", 4, key="faster_error"),
            Column("held", "%", digits=1, key="faster_held"),
            Column("e = 1: error", "x", "modelled", 4, key="no_conflicts_error"),
            Column("held ", "%", digits=1, key="no_conflicts_held"),
            Column(f"bottleneck: gain {100 * (GAIN - 1):.0f} %", "%", digits=1, key="bottleneck_gaining"),
            Column("of", "kernels", digits=0, key="bottleneck"),
            Column("not the bottleneck: gain", "%", digits=1, key="not_gaining"),
            Column("of ", "kernels", digits=0, key="not_the_bottleneck"),
            Column("cannot tell", "%", digits=1),
        ],
        rows,
        "What each set of counters tells, on the same kernels: utilization; how many times as fast the "
        "kernel is with an atomic unit that takes half the time, and with every lane of an atomic on a bank "
        "of its own; verdicts. Every kernel was simulated again with each change, with the same random "
        "numbers.",
    )
    others = "; ".join(f"{name} {error:.2f}" for name, error in other_errors(judged).items())
    errors = baseline_errors(judged)
    guesses = "; ".join(
        f"{change}: " + ", ".join(f"{name} {error:.4f}" for name, error in errors[change].items())
        for change in CHANGES
    )
    section.text(
        f"What needs no map, mean errors on the same kernels. Utilization, points: {others}. {guesses}."
    )


def readings_table(section: Section, names: Sequence[str], judged: Sequence[JudgedSets]) -> None:
    """How often intervals hold on the machine of each reading, told by who does not know which it is."""
    section.table(
        "campaign-readings",
        [
            Column("machine"),
            Column("kernels", digits=0),
            *(Column(SHOWN[which], "% held", digits=1, key=f"{which}_held") for which in SETS),
            *(Column(f"{SHOWN[which]} ", "points off", "modelled", 2, key=which) for which in SETS),
        ],
        [
            [
                name,
                rows[0].kernels,
                *(row.utilization_held for row in rows),
                *(row.utilization_points for row in rows),
            ]
            for name, rows in zip(names, ([*set_rows([own])] for own in judged), strict=True)
        ],
        "The same kernels' utilization by the machine that they ran on: an interval holds 90 % over all "
        "readings together, and more under one that lies between the others.",
    )


def _told(twins: Twins, machine: Reading, readings: Sequence[Reading]) -> str:
    """The twins of one machine, by who does not know which reading it is."""
    parts = [
        AlternativeEstimates(r.name, r.weight, estimate_campaign(twins.table, r.tables)) for r in readings
    ]
    by_set = told_by_set(twins, parts, shipped_maps())
    each = ", ".join(
        f"{percent:.0f} % of the pairs from {SHOWN[which].removeprefix('and ')} ({points:.1f} points off)"
        for which, (percent, points) in by_set.items()
        if which != ATOMIC
    )
    return f"{each} under *{machine.name}*"


def twins_table(section: Section, drawn: Sequence[Twins], readings: Sequence[Reading]) -> None:
    """What launch and atomic counters cannot tell: kernels equal in them, with unequal utilization; and how
    many of them others do tell apart, on the machine of each reading."""
    twins = drawn[0]
    exact = 100 * twins.truth()
    found = estimate_campaign(twins.table, readings[0].tables)
    active = twins.table.active_cycles / twins.table.elapsed_cycles
    estimated = 100 * (found.utilization[CLOSED] * active).reshape(exact.shape)
    least = least_error_points(twins.truth())
    section.text(
        f"**Why not.** {len(exact)} times three kernels with equal warps, atomics and jobs and, by the "
        f"choice of their think time, equal elapsed cycles ({twins.left_out} more triples could not be made "
        f"equal). From launch and atomic counters one answer must serve all three; the best possible one is "
        f"off by **{least.mean():.1f} points** on average, so no estimator that works from *these* counters "
        f"can be right within {TARGET_MEAN} points on kernels like these, whatever it does. Other counters "
        f"differ: of two twins that are {APART_POINTS:g} points or more apart, the busier one is told in "
        f"{'; '.join(_told(t, r, readings) for t, r in zip(drawn, readings, strict=True))}. Told the wrong "
        "way round is mostly one kind, where the unit has two pipes: four warps that a barrier lets go "
        "beside four atomics of one warp, which stay in one pipe. Those leave no trace in warp states of "
        "which reading holds, and under the others both are alike; by the machine's own tables nearly all "
        "are told."
    )
    section.table(
        "campaign-twins",
        [
            Column("atomics come"),
            Column("kernels", digits=0),
            Column("exact", "% busy", "simulated", 1),
            Column("closed network", "% busy", "modelled", 1, key="estimated"),
            Column("mean error", "points", "modelled", 1, key="error"),
            Column("jobs in the unit", "", "simulated", 2, key="n"),
        ],
        [
            [
                kind,
                len(exact),
                float(exact[:, i].mean()),
                float(estimated[:, i].mean()),
                float(abs(estimated - exact)[:, i].mean()),
                float(twins.table.n.reshape(exact.shape)[:, i].mean()),
            ]
            for i, kind in enumerate(KINDS)
        ],
        "Means over the triples. Launch and atomic counters are equal, so the closed network's estimate is; "
        "the truth is not.",
    )
