"""The roofline against simulated kernels: nothing may be faster than its bounds, and how far projections
are off."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.models.roofline.ceilings import RESOURCES
from smlab.validation.checks import Plan, Results, Task, shares
from smlab.validation.method.baseline import Baseline, compare_with_baseline, relative_errors
from smlab.validation.method.metrics import error_table
from smlab.validation.projection.simulated.figures import predicted_over_actual, shares_of_ceilings
from smlab.validation.projection.simulated.gpus import PART, part_of
from smlab.validation.projection.simulated.judge import (
    BEST_CONSTANT,
    EXACT,
    METHODS,
    ORACLE,
    WORKING_SET,
    Beaten,
    Direction,
    judge_ceilings,
    judge_projection,
)
from smlab.validation.projection.simulated.kernels import REGIMES
from smlab.validation.projection.simulated.published import published_table
from smlab.validation.projection.simulated.simulate import Simulated, joined, simulate_kernels, simulate_probe
from smlab.validation.report import Column, Report, Section

GPUS: Final = ("v100", "a100-40")
KERNELS, QUICK_KERNELS, PARTS, QUICK_PARTS = 500, 80, 8, 2

PUBLISHED, WITH_PARALLELISM, WITHOUT, OURS = METHODS
_SHORT: Final = {
    PUBLISHED: "Published",
    WITH_PARALLELISM: "+ parallelism",
    WITHOUT: "Ours, off",
    OURS: "Ours",
    WORKING_SET: "+ working set",
    ORACLE: "+ counters",
    "peak ratio": "Peak",
    "bandwidth ratio": "Bandwidth",
    "best constant": "Constant",
}
"""Column headings: Van Lanker et al. without and with the parallelism ceiling, ours without and with it,
and so on."""


def tasks(plan: Plan) -> list[Task[str]]:
    gpus = tuple(part_of(load_gpu(name)) for name in GPUS)
    each = shares(QUICK_KERNELS if plan.quick else KERNELS, len(REGIMES))
    numbered = [(r, i) for r, count in zip(REGIMES, each, strict=True) for i in range(count)]
    parts = QUICK_PARTS if plan.quick else PARTS
    return [
        *(
            Task(f"roofline-{part}", simulate_kernels, (gpus, numbered[part::parts], plan.seed, plan.engine))
            for part in range(parts)
        ),
        Task("roofline-probe", simulate_probe, (gpus, plan.engine)),
    ]


def report(page: Report, plan: Plan, results: Results) -> None:
    parts = QUICK_PARTS if plan.quick else PARTS
    seen = joined([results[f"roofline-{part}"] for part in range(parts)])
    gpus = [part_of(load_gpu(name)) for name in GPUS]
    beaten = [judge_ceilings(work, gpu) for work, gpu in zip(seen.work, gpus, strict=True)]
    directions = [
        judge_projection(seen.work[a], seen.work[b], seen.working_set_bytes, gpus[a], gpus[b])
        for a, b in ((0, 1), (1, 0))
    ]
    regimes = np.array(seen.regimes, dtype=object)
    section = page.section(
        "roofline-judge",
        "The roofline, with the simulator as second judge",
        f"{len(regimes)} simulated kernels of {len(REGIMES)} regimes, the same on simulated `{GPUS[0]}` and "
        f"`{GPUS[1]}`. "
        f"Of each GPU one part in {PART} is simulated: that many of its SMs, under L2 and memory of as much "
        f"less bandwidth "
        "and capacity. The counters go through the reader that reads Nsight Compute's. Here every count is "
        "exact and the "
        "hardware's limits are known, so a kernel that is faster than a bound is a bug, of the model or of "
        "the simulator.",
    )
    _ceilings(page, section, seen, regimes, beaten)
    _banks(section, results["roofline-probe"], gpus)
    _projections(page, section, plan, regimes, directions)
    section.fold("Beside the published errors")
    published_table(section, regimes, directions[0], PUBLISHED, OURS)


def _ceilings(
    page: Report, section: Section, seen: Simulated, regimes: NDArray[np.object_], beaten: list[Beaten]
) -> None:
    violations = [(b, i) for b in beaten for i in b.violations.tolist()]
    faster = " and ".join(str(int(b.beats_published.sum())) for b in beaten)
    furthest = max(float(b.beyond.max()) for b in beaten)
    closest = 100 * max(float(b.of_bound.max()) for b in beaten)
    if violations:
        first = seen.work[0].kernel[violations[0][1]]
        told = f"{len(violations)} of {2 * len(regimes)} runs are faster than a bound, the first {first}"
    else:
        told = (
            f"none of {len(regimes)} simulated kernels on 2 GPUs is faster than its bounds (the closest "
            f"reaches "
            f"{closest:.2f} % of one)"
        )
    page.check(
        "roofline-ceilings",
        not violations,
        f"{told}; {faster} are faster than the published ceilings, up to {furthest:.1f} times",
        "roofline-judge",
    )
    section.fold("How much of its ceiling each kernel reaches")
    section.figure(
        "roofline-shares",
        shares_of_ceilings(
            seen.regimes,
            {b.gpu.name: b.of_bound for b in beaten},
            {b.gpu.name: b.beyond for b in beaten},
        ),
        {
            "kernel": seen.work[0].kernel.tolist(),
            "regime": regimes.tolist(),
            **{f"{b.gpu.name}_limiter": b.limiter.tolist() for b in beaten},
            **{f"{b.gpu.name}_of_bound": b.of_bound.tolist() for b in beaten},
            **{f"{b.gpu.name}_of_published": b.beyond.tolist() for b in beaten},
        },
        "Each point is a kernel: how much of its ceiling it reaches. No point of the left panel may lie "
        "beyond 100 %.",
        "Left, all points lie at or below 100 per cent; right, many kernels limited by L1, L2 and DRAM lie "
        "beyond.",
    )
    section.fold("What bounds the kernels, regime by regime")
    section.text(
        "A **bound** takes one resource alone: the work that must pass it over the most that it can do. The "
        "**published ceilings** "
        "take more: that transfers of different levels never overlap (Eq. 6 to 8 add their times), and that "
        "floating-point instructions have as many active threads as the kernel's instructions on average "
        "(Eq. 3). "
        "Neither must be so, and a kernel that overlaps its transfers is faster than its own ceiling."
    )
    rows: list[list[Any]] = []
    for regime in REGIMES:
        chosen = regimes == regime
        for b in beaten:
            names, counts = np.unique(b.limiter[chosen].astype(str), return_counts=True)
            rows.append(
                [
                    regime,
                    b.gpu.name,
                    f"{names[counts.argmax()]} ({100 * counts.max() / chosen.sum():.0f} %)",
                    float(100 * np.median(b.of_bound[chosen])),
                    float(100 * b.of_bound[chosen].max()),
                    int(b.beats_published[chosen].sum()),
                    float(b.beyond[chosen].max()),
                ]
            )
    section.table(
        "roofline-regimes",
        [
            Column("Regime"),
            Column("GPU"),
            Column("Most by", key="limiter"),
            Column("Median", "% of bound", digits=0, key="median_of_bound"),
            Column("Most", "% of bound", digits=2, key="most_of_bound"),
            Column("Over published", "kernels", digits=0, key="over_published"),
            Column("by at most", "×", digits=2, key="beyond_published"),
        ],
        rows,
        "What limits most kernels of each regime by their counters, how much of that bound they reach, and "
        "how many are "
        "faster than the published ceilings.",
    )
    if violations:
        section.table(
            "roofline-violations",
            [
                Column("Kernel"),
                Column("GPU"),
                Column("Resource"),
                Column("Of the bound", "%", "simulated", 3, key="of_bound"),
            ],
            [
                [
                    str(seen.work[0].kernel[i]),
                    b.gpu.name,
                    str(b.limiter[i]),
                    100 * float(b.of_bound[i]),
                ]
                for b, i in violations
            ],
            f"Kernels faster than a bound by more than {100 * EXACT:.2f} %. A profiler's clock and counter "
            f"definitions "
            "cannot be the reason here: it is the model's bound or the simulator's count.",
        )
    section.table(
        "roofline-limiters",
        [Column("Limiter"), *(Column(name, "% of kernels", "simulated", 1, key=name) for name in GPUS)],
        [
            [name, *(float(100 * np.mean(b.limiter == name)) for b in beaten)]
            for name in RESOURCES
            if any((b.limiter == name).any() for b in beaten)
        ],
        "The share of kernels by the resource that bounds them closest. Integer, special-function and "
        "control pipes are no "
        "resources of a roofline; a kernel that they limit shows as bound by its instructions, and reaches "
        "less of it.",
    )


def _banks(section: Section, probe: Simulated, gpus: list[Gpu]) -> None:
    found = [judge_ceilings(work, gpu) for work, gpu in zip(probe.work, gpus, strict=True)]
    reached = " and ".join(f"{100 * float(b.of_bound[0]):.1f} % on {b.gpu.name}" for b in found)
    section.text(
        "None of these regimes has shared atomics. A kernel of shared loads and shared atomics at once, "
        f"which ask for all that the banks have, reaches {reached} of what the banks can do: both pass the "
        "one data stage (`sim/SEMANTICS.md`, 6.5)."
    )


def _projections(
    page: Report,
    section: Section,
    plan: Plan,
    regimes: NDArray[np.object_],
    directions: list[Direction],
) -> None:
    section.fold("Projection from one simulated GPU to the other, method by method and regime by regime")
    for d in directions:
        _findings(page, plan, regimes, d)
        tables = {
            name: error_table(predicted, d.truth_s, baseline=d.baselines["peak ratio"], seed=plan.seed)
            for name, predicted in {**d.predicted, **d.baselines}.items()
        }
        section.error_tables(
            f"roofline-errors-{d.source.name}-to-{d.target.name}",
            tables,
            f"{d.name}: the middle of the projected interval against the simulated time. Nothing is fitted, "
            f"but for the best "
            "constant, which is fitted to these very cases. Baseline column: the ratio of the rated FP32 "
            "peaks.",
            kinds=dict.fromkeys(tables, "modelled"),
        )
    names = [PUBLISHED, WITH_PARALLELISM, WITHOUT, OURS, WORKING_SET, ORACLE]
    baselines = list(directions[0].baselines)
    section.table(
        "roofline-projection-regimes",
        [
            Column("Direction"),
            Column("Regime"),
            *(Column(_SHORT[name], "%", digits=1, key=_key(name)) for name in (*names, *baselines)),
        ],
        [
            [d.name, regime, *(d.mape(name, chosen) for name in (*names, *baselines))]
            for d in directions
            for regime, chosen in ((r, regimes == r) for r in REGIMES)
        ],
        "MAPE by regime: the published method without and with the parallelism ceiling, ours with it off "
        "and on, told the working "
        "set, and told the target's counters. The last is no prediction: what is left there is not the "
        "traffic's.",
    )
    section.figure(
        "roofline-projection",
        predicted_over_actual(
            regimes.tolist(),
            {
                title: {d.name: d.predicted[name] / d.truth_s for d in directions}
                for title, name in (("As published", PUBLISHED), ("Ours", OURS))
            },
        ),
        {
            "regime": regimes.tolist(),
            **{
                f"{d.source.name}_to_{d.target.name}_{key}": values.tolist()
                for d in directions
                for key, values in {"simulated_s": d.truth_s, **d.predicted, **d.baselines}.items()
            },
        },
        "Predicted over simulated time by regime; each point is a kernel, bars are medians.",
        "As published, small grids and latency-bound kernels are off by a factor of about one and a half, "
        "in both directions.",
    )
    section.table(
        "roofline-intervals",
        [Column("Direction"), *(Column(_SHORT[name], "%", digits=0, key=_key(name)) for name in names)],
        [[d.name, *(100 * d.inside(name) for name in names)] for d in directions],
        "The share of kernels whose simulated time lies inside the projected interval (or within 1 % of "
        "it). The interval "
        "spans the levels of memory, not what is uncertain: where one ceiling limits all levels it is a "
        "point.",
    )


def _findings(page: Report, plan: Plan, regimes: NDArray[np.object_], d: Direction) -> None:
    """The published projection and ours beside ratios that need no counter."""
    baselines = [
        Baseline(name, relative_errors(predicted, d.truth_s), fitted=name == BEST_CONSTANT)
        for name, predicted in d.baselines.items()
    ]
    for model, method in (("Van Lanker et al.", PUBLISHED), ("smlab project", OURS)):
        page.finding(
            f"Time, {d.source.name} to {d.target.name}",
            model,
            compare_with_baseline(
                relative_errors(d.predicted[method], d.truth_s),
                baselines,
                groups=regimes.tolist(),
                seed=plan.seed,
            ),
            unit="%",
            evidence="simulated",
            group="regimes",
            section="roofline-judge",
        )


def _key(name: str) -> str:
    return re.sub(r"\W+", "_", name)
