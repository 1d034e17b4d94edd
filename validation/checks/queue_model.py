"""Dong & Pai's utilization estimate against the simulator's exact one, over closed workloads."""

from __future__ import annotations

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from smlab.models import ServiceTable, estimate_utilization, read_atomic_counters
from smlab.models.utilization.atomic_queue import UtilizationEstimate
from smlab.models.utilization.trust_map import CLOSED, AtomicLoad, estimate_all
from smlab.validation.checks import Plan, Results, Task, shares
from smlab.validation.laws.closed_system import ObservedWorkload, observe
from smlab.validation.method.baseline import Baseline, compare_with_baseline, point_errors, relative_errors
from smlab.validation.method.metrics import error_table, points_table
from smlab.validation.report import Column, Report
from smlab.validation.report.content import Finding
from smlab.validation.report.figures import error_by_regime, estimate_against_truth
from smlab.validation.service_tables import ServiceTables, simulate_tables

BORROWED = ("table",)
"""Results of other checks' tasks that this one reads."""

WORKLOADS, QUICK_WORKLOADS, PATHS = 2000, 400, 4
REGIMES = {"under 50 % utilized": (0.0, 0.5), "50 to 95 %": (0.5, 0.95), "95 % and more": (0.95, 1.01)}


def tasks(plan: Plan) -> list[Task[str]]:
    total = QUICK_WORKLOADS if plan.quick else WORKLOADS
    streams = SeedSequence([plan.seed, 6]).generate_state(2 * PATHS, np.uint32).tolist()
    judged = [
        Task(f"queue-{i}", observe, (plan.gpu, count, streams[i], plan.engine))
        for i, count in enumerate(shares(total, PATHS))
    ]
    others = Task("queue-baseline", observe, (plan.gpu, 60, streams[PATHS], plan.engine))
    return [Task("queue-tables", simulate_tables, (plan.gpu,)), *judged, others]


def report(page: Report, plan: Plan, results: Results) -> None:
    observed: list[ObservedWorkload] = [o for i in range(PATHS) for o in results[f"queue-{i}"]]
    others: list[ObservedWorkload] = results["queue-baseline"]
    table = ServiceTable(results["table"])
    estimates = [
        estimate_utilization(read_atomic_counters(o.counters, o.max_warps), table)[0] for o in observed
    ]
    exact = np.array([o.utilization for o in observed])
    n_busy = np.array([o.n_busy_mean for o in observed])
    n_mean = np.array([o.n_mean for o in observed])
    utilization = np.array([e.utilization for e in estimates])
    n_hat = np.array([e.n for e in estimates])
    guess = float(np.mean([o.utilization for o in others]))
    n_guess = float(np.exp(np.mean(np.log([o.n_mean for o in others]))))
    errors = {
        "Dong & Pai, n = mean active warps": points_table(utilization, exact, seed=plan.seed),
        "constant: mean of 60 other workloads": points_table(
            np.full(len(exact), guess), exact, seed=plan.seed
        ),
    }
    paper = errors["Dong & Pai, n = mean active warps"]
    over = int((utilization > 1).sum())

    section = page.section(
        "queue-model",
        "Dong & Pai's estimate against the exact utilization",
        f"{len(observed)} closed workloads on simulated `{plan.gpu.name}`: 1 to {observed[0].max_warps} "
        "warps that think (5 to 5,000 cycles, fixed or exponential) and do atomics. These are of 1 to 32 "
        "lanes on one word, and some are compare-and-swap. The simulator writes the counters that a profiler "
        "would give. The paper's Tables 1 and 2 turn them into a utilization. No counter shows the queue "
        "length n, so they take the mean number of active warps. **In the "
        "simulation the truth is known exactly.**",
    )
    n_errors = error_table(n_hat, n_busy, seed=plan.seed)
    _findings(page, plan, observed, others, estimates, results["queue-tables"])
    section.text(
        f"The estimate is off by {paper.mean_points:.1f} points on average and by {paper.p95_points:.0f} at "
        f"the 95th percentile, and over 100 % on {over} of {len(observed)} workloads. Its n is off by "
        f"{n_errors.median_ape:.0f} % in the median and {n_errors.bias:.1f} times too large (geometric mean)."
    )
    columns: dict[str, NDArray[np.float64]] = {
        "utilization_exact": exact,
        "utilization_estimated": utilization,
        "n_exact_mean": n_mean,
        "n_exact_busy_mean": n_busy,
        "n_estimated": n_hat,
    }
    section.figure(
        "utilization-estimates",
        estimate_against_truth(100 * exact, {"Dong & Pai": 100 * utilization}),
        {
            **{name: values.tolist() for name, values in columns.items()},
            "warps": [o.workload.warps for o in observed],
            "lanes": [o.workload.lanes for o in observed],
            "cas_warps": [o.workload.cas_warps for o in observed],
            "think_cycles": [o.workload.think_cycles for o in observed],
            "distribution": [o.workload.distribution for o in observed],
        },
        "Each point is a workload: estimated over exact utilization of the atomic unit.",
        "Estimates scatter around and above the diagonal, many beyond 100 %, where the exact utilization "
        "cannot go.",
    )
    section.fold("Errors by estimator and by how busy the unit is; why")
    section.point_errors(
        "utilization-errors",
        errors,
        "Absolute errors in percentage points of utilization. A relative error would reward estimates of "
        "idle units.",
        kinds=dict.fromkeys(errors, "modelled"),
    )
    section.error_tables(
        "queue-length-errors",
        {
            "mean active warps for n (over the kernel)": error_table(
                n_hat, n_mean, baseline=np.full(len(n_mean), n_guess), seed=plan.seed
            ),
            "mean active warps for n (while busy)": error_table(
                n_hat, n_busy, baseline=np.full(len(n_mean), n_guess), seed=plan.seed
            ),
        },
        "The queue length that the estimate takes, against the exact one: its average over the kernel, and "
        "over the busy time only. Baseline: the geometric mean of n over 60 other workloads.",
    )
    regimes = {
        name: (exact >= low) & (exact < high)
        for name, (low, high) in REGIMES.items()
        if ((exact >= low) & (exact < high)).any()
    }
    section.figure(
        "utilization-errors-by-regime",
        error_by_regime(
            {
                name: {
                    "Dong & Pai": 100 * np.abs(utilization - exact)[chosen],
                    "constant": 100 * np.abs(guess - exact)[chosen],
                }
                for name, chosen in regimes.items()
            },
            unit="percentage points",
            bounds=(5.0, 10.0, 25.0),
        ),
        {
            "exact_percent": (100 * exact).tolist(),
            "absolute_error_points": (100 * np.abs(utilization - exact)).tolist(),
            "constant_error_points": (100 * np.abs(guess - exact)).tolist(),
        },
        "Where the error comes from: the share of workloads within a given error, by how busy the unit "
        "really is.",
        "The estimate is closest where the unit is idle and furthest off in between.",
    )
    section.table(
        "queue-model-regimes",
        [
            Column("exact utilization"),
            Column("workloads"),
            Column("mean error", unit="points", kind="modelled", digits=1),
            Column("bias", unit="points", kind="modelled", digits=1),
            Column("estimates over 100 %", key="over_100"),
        ],
        [
            [
                name,
                int(chosen.sum()),
                float(100 * np.abs(utilization - exact)[chosen].mean()),
                float(100 * (utilization - exact)[chosen].mean()),
                int((utilization[chosen] > 1).sum()),
            ]
            for name, chosen in regimes.items()
        ],
        "Errors by how busy the unit really is.",
    )
    section.text(
        "Two things pull in opposite directions. Where the unit is saturated, B = N T(n) / n charges every "
        "job the filling and draining that a batch of n pays once, so the estimate **exceeds 100 %**. Where "
        "it is not, fewer jobs are in the unit than there are active warps, S(n) is read off at too large an "
        "n, and the estimate is too low. `docs/findings/queue-model.md` says why."
    )


def _findings(
    page: Report,
    plan: Plan,
    observed: list[ObservedWorkload],
    others: list[ObservedWorkload],
    estimates: list[UtilizationEstimate],
    tables: ServiceTables,
) -> None:
    """The estimates of the utilization, and of the n that goes into the paper's, beside guesses."""
    exact = np.array([o.utilization for o in observed])
    jobs, cas_jobs, cycles, e, warps = (
        np.array([getattr(estimate, name) for estimate in estimates])
        for name in ("jobs", "cas_jobs", "elapsed_cycles", "e", "n")
    )
    peak = np.array([o.workload.warps for o in observed])
    counted = estimate_all(AtomicLoad(jobs, cycles, warps, e, cas_jobs / jobs, peak), tables.looped)
    middle = (counted.features.floor + counted.features.ceiling) / 2
    constant = float(np.mean([o.utilization for o in others]))
    baselines = [
        Baseline("middle of the bounds", point_errors(middle, exact)),
        Baseline("mean of 60 other workloads", point_errors(np.full(len(exact), constant), exact)),
    ]
    models = {
        "Dong & Pai": np.array([estimate.utilization for estimate in estimates]),
        "closed network": counted.utilization[CLOSED],
    }
    for model, estimated in models.items():
        page.finding(
            Finding(
                "Utilization, closed workloads",
                model,
                compare_with_baseline(point_errors(estimated, exact), baselines, seed=plan.seed),
                unit="points",
                evidence="simulated",
                section="queue-model",
            )
        )
    n_busy = np.array([o.n_busy_mean for o in observed])
    n_guess = float(np.exp(np.mean(np.log([o.n_busy_mean for o in others]))))
    page.finding(
        Finding(
            "Queue length n, closed workloads",
            "mean active warps",
            compare_with_baseline(
                relative_errors(warps, n_busy),
                [
                    Baseline(
                        "mean of 60 other workloads", relative_errors(np.full(len(n_busy), n_guess), n_busy)
                    )
                ],
                seed=plan.seed,
            ),
            unit="%",
            evidence="simulated",
            section="queue-model",
        )
    )
