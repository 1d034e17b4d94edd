"""The part of the report: how far the estimates of utilization can be trusted, by estimator and family, and
what each set of counters tells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smlab.hw_bench.gpu.alternatives import Alternative
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.utilization.alternative_estimates import AlternativeEstimates
from smlab.models.utilization.counter_maps import CHANGES, FASTER, SPREAD, shipped_maps
from smlab.models.utilization.counter_sets import ATOMIC, REQUESTS, SAMPLES, SETS, STATES
from smlab.models.utilization.trust_map import CLOSED, CLOSED_BATCH, ESTIMATORS, MAKE, OCCUPANCY, shipped_map
from smlab.models.utilization.verdict import BOTTLENECK, CANNOT_TELL, GAIN, NOT
from smlab.validation.campaigns.utilization_maps.draws import (
    INDEPENDENT,
    LOCKSTEP,
    PART,
    campaign_parts,
    run_closed_systems,
)
from smlab.validation.campaigns.utilization_maps.families import HELD_OUT
from smlab.validation.campaigns.utilization_maps.fit import estimate_campaign, truth
from smlab.validation.campaigns.utilization_maps.indistinguishable import (
    KINDS,
    MIN_DIFFERENCE_POINTS,
    IndistinguishableKernels,
    draw_indistinguishable,
    least_error_points,
)
from smlab.validation.campaigns.utilization_maps.judge import (
    MIDDLE,
    PREDICTORS,
    FamilyRow,
    JudgedCampaign,
    JudgedSets,
    Reading,
    baseline_errors,
    by_family,
    estimated_by_set,
    judge,
    judge_sets,
    other_errors,
    row_of,
    set_rows,
    verdict_rows,
)
from smlab.validation.campaigns.utilization_maps.simulate import CampaignTable, run_part
from smlab.validation.checks import Plan, Results, Task
from smlab.validation.method.baseline import Baseline, compare_with_baseline, point_errors
from smlab.validation.method.metrics import PointErrors, error_table, points_table
from smlab.validation.report import Column, Report, Section
from smlab.validation.report.content import Finding
from smlab.validation.report.figures import error_by_regime, estimate_against_truth
from smlab.validation.service_tables import ServiceTables, simulate_tables

COUNT, QUICK_COUNT = 75, 7
"""Kernels of each family, under all readings together: 1,800 in all, or 168."""

CLOSED_SYSTEMS, QUICK_CLOSED = 2000, 300
"""Closed systems of independent warps; half as many in lockstep."""
INDISTINGUISHABLE_KERNELS, QUICK_TRIPLES = 120, 24
"""Triples of kernels under each reading that no launch or atomic counter tells apart."""

TARGET_P95 = 3.0
"""Percentage points of utilization that were asked for at the 95th percentile."""
COVERAGE = (87.0, 93.0)
"""What 90 % intervals shall cover."""
QUICK_COVERAGE = (80.0, 97.0)
"""The same where a campaign is too small to tell it closely."""

assert QUICK_COUNT <= PART


def tasks(plan: Plan) -> list[Task[str]]:
    readings = _readings(plan)
    count = -(-(QUICK_COUNT if plan.quick else COUNT) // len(readings))
    drawn = [
        Task(f"campaign-{which}-{i}", run_part, part)
        for which, (_, gpu) in enumerate(readings)
        for i, part in enumerate(campaign_parts(gpu, list(HELD_OUT), count, _seed(plan) + which))
    ]
    closed = QUICK_CLOSED if plan.quick else CLOSED_SYSTEMS
    triples = QUICK_TRIPLES if plan.quick else INDISTINGUISHABLE_KERNELS
    return [
        *(Task(_tables_of(which), tables, (gpu,)) for which, (_, gpu) in enumerate(readings)),
        Task(f"closed-{INDEPENDENT}", run_closed_systems, (plan.gpu, INDEPENDENT, closed, _seed(plan))),
        Task(f"closed-{LOCKSTEP}", run_closed_systems, (plan.gpu, LOCKSTEP, closed // 2, _seed(plan))),
        *(
            Task(f"twins-{which}", draw_indistinguishable, (gpu, triples, _seed(plan) + which))
            for which, (_, gpu) in enumerate(readings)
        ),
        *drawn,
    ]


def _readings(plan: Plan) -> tuple[tuple[Alternative, Gpu], ...]:
    """The GPU under each alternative of its description; a quick run takes the first."""
    return plan.gpu.variants()[: 1 if plan.quick else None]


def _tables_of(which: int) -> str:
    """The task that makes the tables of a reading; those of the first serve other checks as well."""
    return f"campaign-tables-{which}" if which else "campaign-tables"


def tables(gpu: Gpu) -> ServiceTables:
    """Both service tables; simulated anew, since a validation takes nothing from a cache."""
    return simulate_tables(gpu)


def _seed(plan: Plan) -> int:
    return plan.seed + 30_000  # far from the seeds that the shipped map was made with


def report(page: Report, plan: Plan, results: Results) -> None:
    readings = [
        Reading(a.name, a.weight, results[_tables_of(which)]) for which, (a, _) in enumerate(_readings(plan))
    ]
    trust = shipped_map()
    each = [judge(_drawn(results, which), readings, trust) for which in range(len(readings))]
    sets = [judge_sets(j, shipped_maps()) for j in each]
    judged = JudgedCampaign.joined(each)
    families = by_family(judged, plan.seed)
    everything = families[-1]
    closed = everything.errors[CLOSED]
    section = page.section(
        "campaign",
        "How far an estimated utilization can be trusted",
        f"{closed.n:,} kernels of {len(HELD_OUT)} families on simulated `{plan.gpu.name}`, **none of which "
        f"the intervals were fitted to**: the shipped map (`{MAKE}`) knows {trust.about['kernels']:,} "
        f"kernels of {len(trust.about['families'])} other families and {trust.about['random_families']} of "
        f"random programs, on {' and '.join(trust.about['gpus'])}. The machine is "
        f"{' or '.join(r.name for r in readings)}, each for a part of the kernels, and the estimates do not "
        "know which. Truth is the simulator's exact share of time with a job in the unit. "
        f"{everything.outside} kernels beyond the map's range are flagged and **counted in all figures**.",
    )
    _checks(page, plan, everything, sets)
    _findings(page, judged, plan)
    _target(section, everything)
    counter_sets_table(section, sets)
    section.fold(
        "Estimates drawn, errors by reading and family, closed systems, kernels with equal counters, "
        "what verdicts promise"
    )
    if len(readings) > 1:
        readings_table(section, [r.name for r in readings], sets)
    _figures(section, judged)
    section.point_errors(
        "campaign-errors",
        {name: everything.errors[name] for name in PREDICTORS},
        "All families. Absolute errors in percentage points of utilization. The last row needs no queue "
        "model: it lies halfway between the least and the most that the counters allow.",
        kinds=dict.fromkeys(PREDICTORS, "modelled"),
    )
    section.table(
        "campaign-families",
        [
            Column("family"),
            Column("kernels", digits=0),
            Column("occupancy", "points", "modelled", 2),
            Column("above 100 %", "cases", digits=0, key="above_100"),
            Column("closed, batch", "points", "modelled", 2, key="closed_batch"),
            Column("closed, looped", "points", "modelled", 2, key="closed_looped"),
            Column("95th percentile", "points", "modelled", 1, key="closed_p95"),
            Column("worst", "points", "modelled", 1, key="closed_worst"),
            Column("bias", "points", "modelled", 2, key="closed_bias"),
            Column("middle", "points", "modelled", 2),
            Column("intervals hold", "%", digits=1, key="covered"),
            Column("interval", "points wide", digits=1, key="width"),
            Column("outside the map", "kernels", digits=0, key="outside"),
            Column("n off by", "jobs", "modelled", 2, key="n_error"),
        ],
        [
            [
                row.family,
                row.errors[CLOSED].n,
                row.errors[OCCUPANCY].mean_points,
                row.errors[OCCUPANCY].above_100,
                row.errors[CLOSED_BATCH].mean_points,
                row.errors[CLOSED].mean_points,
                row.errors[CLOSED].p95_points,
                row.errors[CLOSED].worst_points,
                row.errors[CLOSED].bias_points,
                row.errors[MIDDLE].mean_points,
                row.covered_percent[CLOSED],
                row.width_points,
                row.outside,
                row.n_error,
            ]
            for row in families
        ],
        "Mean absolute errors by family; 95th percentile, worst and bias are of the closed network with "
        "looped rates, as are the "
        "intervals. Worst by far where warps put several atomics in at once or meet at barriers.",
    )
    _closed_systems(page, section, results, plan)
    indistinguishable_table(section, [results[f"twins-{which}"] for which in range(len(readings))], readings)
    _more_tables(section, judged, plan)


def _drawn(results: Results, which: int) -> CampaignTable:
    """The campaign under one reading, in the order of its parts."""
    head = f"campaign-{which}-"
    names = sorted((n for n in results if n.startswith(head)), key=lambda n: int(n.removeprefix(head)))
    return CampaignTable.joined(results[n] for n in names)


def _checks(page: Report, plan: Plan, everything: FamilyRow, sets: Sequence[JudgedSets]) -> None:
    closed, published = everything.errors[CLOSED], everything.errors[OCCUPANCY]
    covered = everything.covered_percent[CLOSED]
    low, high = QUICK_COVERAGE if plan.quick else COVERAGE
    page.check(
        "campaign-never-above-100",
        closed.above_100 == 0,
        f"the closed network never exceeds 100 %; the occupancy estimate does on {published.above_100} of "
        f"{closed.n} kernels",
        "campaign",
    )
    page.check(
        "campaign-coverage",
        low <= covered <= high,
        f"90 % intervals hold {covered:.1f} % of {closed.n} kernels of families that they were not fitted to",
        "campaign",
    )
    told = [row for row in set_rows(sets) if row.counters != ATOMIC]
    page.check(
        "campaign-coverage-by-counters",
        all(low <= row.utilization_covered <= high for row in told),
        "90 % intervals from more counters hold "
        + ", ".join(f"{row.utilization_covered:.1f} % ({row.counters})" for row in told),
        "campaign",
    )


def _findings(page: Report, judged: JudgedCampaign, plan: Plan) -> None:
    """The estimators beside the middle of the bounds, and the verdicts beside the commoner answer, by
    family."""
    whole = judged.table.whole
    families = judged.table.family[whole].tolist()
    exact = judged.table.utilization[whole]
    middle = Baseline("middle of the bounds", point_errors(judged.utilization[MIDDLE][whole], exact))
    for model, estimator in (("Dong & Pai", OCCUPANCY), ("closed network", CLOSED)):
        page.finding(
            Finding(
                "Utilization, kernels of new families",
                model,
                compare_with_baseline(
                    point_errors(judged.utilization[estimator][whole], exact),
                    [middle],
                    groups=families,
                    seed=plan.seed,
                ),
                unit="points",
                evidence="simulated",
                group="families",
                section="campaign",
            )
        )
    said = np.array([v.verdict for v in judged.verdicts])
    decided = whole & (said != CANNOT_TELL)
    gains = judged.table.gain[decided] >= GAIN
    wrong = (said[decided] == BOTTLENECK) != gains
    page.finding(
        Finding(
            f"Does a unit twice as fast bring {100 * (GAIN - 1):.0f} %",
            "smlab utilization, where it tells",
            compare_with_baseline(
                100.0 * wrong,
                [Baseline("always no", 100.0 * gains), Baseline("always yes", 100.0 * ~gains)],
                groups=judged.table.family[decided].tolist(),
                seed=plan.seed,
            ),
            unit="% wrong",
            evidence="simulated",
            group="families",
            section="campaign",
        )
    )


def _target(section: Section, everything: FamilyRow) -> None:
    """What was aimed at and what was reached; said in words, since it is a finding about counters and no
    defect of a run."""
    closed = everything.errors[CLOSED]
    met = closed.mean_points <= TARGET_MEAN and closed.p95_points <= TARGET_P95
    section.text(
        f"Aimed at: a mean error of {TARGET_MEAN} points and a 95th percentile of {TARGET_P95:g}. Reached: "
        f"**{closed.mean_points:.1f} and {closed.p95_points:.0f}**. "
        + (
            "The aim is met."
            if met
            else "The aim is **not met**: what counters see does not settle it (docs/findings/counters.md)."
        )
    )


def _closed_systems(page: Report, section: Section, results: Results, plan: Plan) -> None:
    """The closed network where its assumption holds, and where it is wrong in a way that no counter shows."""
    rows = []
    errors: dict[str, dict[str, PointErrors]] = {}
    for distribution in (INDEPENDENT, LOCKSTEP):
        drawn: CampaignTable = results[f"closed-{distribution}"]
        found = estimate_campaign(drawn, results["campaign-tables"]).utilization
        exact = truth(drawn)
        errors[distribution] = {e: points_table(found[e], exact, seed=plan.seed) for e in ESTIMATORS}
        for name in ESTIMATORS:
            error = errors[distribution][name]
            rows.append(
                [
                    distribution,
                    name,
                    error.n,
                    error.mean_points,
                    error.p95_points,
                    error.worst_points,
                    error.bias_points,
                    error.above_100,
                ]
            )
    best = errors[INDEPENDENT][CLOSED]
    # With few systems the percentile is uncertain: a quick run leaves room for that.
    room = 1.4 if plan.quick else 1.0
    page.check(
        "campaign-independent-warps",
        best.mean_points <= room * TARGET_MEAN
        and best.p95_points <= room * TARGET_P95
        and best.above_100 == 0,
        f"closed systems of independent warps: mean error {best.mean_points:.2f} points, 95th percentile "
        f"{best.p95_points:.1f}, never above 100 % ({best.n:,} kernels)",
        "campaign",
    )
    section.table(
        "campaign-closed-systems",
        [
            Column("think time"),
            Column("estimator"),
            Column("kernels", digits=0),
            Column("mean error", "points", "modelled", 2, key="mean_points"),
            Column("95th percentile", "points", "modelled", 1, key="p95_points"),
            Column("worst", "points", "modelled", 1, key="worst_points"),
            Column("bias", "points", "modelled", 2, key="bias_points"),
            Column("above 100 %", "cases", digits=0, key="above_100"),
        ],
        rows,
        "Closed systems: each warp thinks, does one atomic and waits for its result. With exponential times "
        "the closed network's "
        "assumption holds; with fixed times warps fall into step, or keep out of each other's way.",
    )


def _figures(section: Section, judged: JudgedCampaign) -> None:
    whole = judged.table.whole
    exact = 100 * judged.table.utilization[whole]
    shown = {name: 100 * judged.utilization[name][whole] for name in ESTIMATORS}
    section.figure(
        "campaign-estimates",
        estimate_against_truth(exact, {name: shown[name] for name in (CLOSED, OCCUPANCY)}),
        {
            "family": judged.table.family[whole].tolist(),
            "exact_percent": exact,
            **{name.replace(", ", "_").replace(" ", "_") + "_percent": v for name, v in shown.items()},
        },
        "Each point is a held-out kernel: estimated over exact utilization.",
        "The closed network's points lie on the diagonal or above it, up to 100 %; the occupancy estimate's "
        "below it and beyond.",
    )
    families = judged.table.family[whole]
    regimes = {
        str(f): {name: abs(shown[name] - exact)[families == f] for name in ESTIMATORS} for f in HELD_OUT
    }
    section.figure(
        "campaign-errors-by-family",
        error_by_regime(regimes, unit="percentage points", bounds=(0.7, 3.0, 10.0)),
        {
            "family": families.tolist(),
            **{name.replace(", ", "_").replace(" ", "_"): abs(v - exact) for name, v in shown.items()},
        },
        "The share of each family's kernels within a given error.",
        "The closed network leads where warps are independent, and all fail where atomics come in bursts.",
    )


def _more_tables(section: Section, judged: JudgedCampaign, plan: Plan) -> None:
    whole = judged.table.whole
    has_n = whole & (judged.table.n > 0)
    section.error_tables(
        "campaign-n",
        {
            "closed network": error_table(judged.n[has_n], judged.table.n[has_n], seed=plan.seed),
            "mean active warps": error_table(
                judged.table.warps[has_n], judged.table.n[has_n], seed=plan.seed
            ),
        },
        "The mean number of jobs in the unit over the kernel.",
    )
    rows = [
        [row.verdict, row.kernels, row.gaining, 100 * row.gaining / max(row.kernels, 1), row.median_gain]
        for row in verdict_rows(judged)
    ]
    section.table(
        "campaign-verdicts",
        [
            Column("verdict"),
            Column("kernels", digits=0),
            Column(
                f"at least {GAIN:g} x as fast with a unit twice as fast",
                "kernels",
                "simulated",
                0,
                key="gaining",
            ),
            Column("share", "%", digits=1),
            Column("median gain", "x", "simulated", 2),
        ],
        rows,
        "What the verdicts of `smlab utilization` are worth: every kernel was simulated again with an "
        "atomic unit that takes half the time for everything.",
    )
    each = ~whole
    if each.any():
        row = row_of(judged, "each SM of kernels on several", each, plan.seed)
        section.point_errors(
            "campaign-each-sm",
            {name: row.errors[name] for name in PREDICTORS},
            "The same, SM by SM, as nvprof counts, of the kernels that ran on several unequal SMs; "
            f"intervals hold {row.covered_percent[CLOSED]:.0f} %.",
            kinds=dict.fromkeys(PREDICTORS, "modelled"),
        )


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
            row.utilization_covered,
            row.utilization_width,
            row.gain_error[FASTER],
            row.gain_covered[FASTER],
            row.gain_error[SPREAD],
            row.gain_covered[SPREAD],
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
                *(row.utilization_covered for row in rows),
                *(row.utilization_points for row in rows),
            ]
            for name, rows in zip(names, ([*set_rows([own])] for own in judged), strict=True)
        ],
        "The same kernels' utilization by the machine that they ran on: an interval holds 90 % over all "
        "readings together, and more under one that lies between the others.",
    )


def _told(triples: IndistinguishableKernels, machine: Reading, readings: Sequence[Reading]) -> str:
    """The kernels with equal counters of one machine, by who does not know which reading it is."""
    parts = [
        AlternativeEstimates(r.name, r.weight, estimate_campaign(triples.table, r.tables)) for r in readings
    ]
    by_set = estimated_by_set(triples, parts, shipped_maps())
    each = ", ".join(
        f"{percent:.0f} % of the pairs from {SHOWN[which].removeprefix('and ')} ({points:.1f} points off)"
        for which, (percent, points) in by_set.items()
        if which != ATOMIC
    )
    return f"{each} under *{machine.name}*"


def indistinguishable_table(
    section: Section, drawn: Sequence[IndistinguishableKernels], readings: Sequence[Reading]
) -> None:
    """What launch and atomic counters cannot tell: kernels equal in them, with unequal utilization; and how
    many of them others do tell apart, on the machine of each reading."""
    triples = drawn[0]
    exact = 100 * triples.truth()
    found = estimate_campaign(triples.table, readings[0].tables)
    active = triples.table.active_cycles / triples.table.elapsed_cycles
    estimated = 100 * (found.utilization[CLOSED] * active).reshape(exact.shape)
    least = least_error_points(triples.truth())
    section.text(
        f"**Why not.** {len(exact)} times three kernels with equal warps, atomics and jobs and, by the "
        f"choice of their think time, equal elapsed cycles ({triples.left_out} more could not be made "
        f"equal). From launch and atomic counters one answer must serve all three; the best possible one is "
        f"off by **{least.mean():.1f} points** on average, so no estimator that works from *these* counters "
        f"can be right within {TARGET_MEAN} points on kernels like these, whatever it does. Other counters "
        f"differ: of two kernels that are {MIN_DIFFERENCE_POINTS:g} points or more apart, the busier one is "
        f"told in "
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
                float(triples.table.n.reshape(exact.shape)[:, i].mean()),
            ]
            for i, kind in enumerate(KINDS)
        ],
        "Means over the triples. Launch and atomic counters are equal, so the closed network's estimate is; "
        "the truth is not.",
    )
