"""The part of the report: the roofline against simulated kernels, and how far projections are off."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.profiles.work.kernel_work import Floats
from smlab.models.roofline.ceilings import RESOURCES
from smlab.validation.campaigns.projection.judge import (
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
from smlab.validation.campaigns.projection.kernels import REGIMES
from smlab.validation.campaigns.projection.simulate import Simulated, joined, simulate_kernels, simulate_probe
from smlab.validation.checks import Plan, Results, Task, shares
from smlab.validation.figure_style import FAINT, INK, SOFT, look, new_figure, styled
from smlab.validation.method.baseline import Baseline, compare_with_baseline, relative_errors
from smlab.validation.method.metrics import error_table
from smlab.validation.projection.gpu_parts import PART, part_of
from smlab.validation.report import Column, Report, Section
from smlab.validation.report.content import Finding

GPUS: Final = ("v100", "a100-40")
KERNELS, QUICK_KERNELS, PATHS, QUICK_PARTS = 500, 80, 8, 2

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
    parts = QUICK_PARTS if plan.quick else PATHS
    return [
        *(
            Task(f"roofline-{part}", simulate_kernels, (gpus, numbered[part::parts], plan.seed, plan.engine))
            for part in range(parts)
        ),
        Task("roofline-probe", simulate_probe, (gpus, plan.engine)),
    ]


def report(page: Report, plan: Plan, results: Results) -> None:
    parts = QUICK_PARTS if plan.quick else PATHS
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
        f"`{GPUS[1]}`. Of each GPU one part in {PART} is simulated: that many of its SMs, under L2 and "
        "memory of as much less bandwidth and capacity. The counters go through the reader that reads "
        "Nsight Compute's. Here every count is exact and the hardware's limits are known, so a kernel that "
        "is faster than a bound is a bug, of the model or of the simulator.",
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
            f"reaches {closest:.2f} % of one)"
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
        "**published ceilings** take more: that transfers of different levels never overlap (Eq. 6 to 8 add "
        "their times), and that floating-point instructions have as many active threads as the kernel's "
        "instructions on average (Eq. 3). Neither must be so, and a kernel that overlaps its transfers is "
        "faster than its own ceiling."
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
        "how many are faster than the published ceilings.",
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
            "definitions cannot be the reason here: it is the model's bound or the simulator's count.",
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
        "control pipes are no resources of a roofline; a kernel that they limit shows as bound by its "
        "instructions, and reaches less of it.",
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
            "but for the best constant, which is fitted to these very cases. Baseline column: the ratio of "
            "the rated FP32 peaks.",
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
        "and on, told the working set, and told the target's counters. The last is no prediction: what is "
        "left there is not the traffic's.",
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
        "it). The interval spans the levels of memory, not what is uncertain: where one ceiling limits all "
        "levels it is a point.",
    )


def _findings(page: Report, plan: Plan, regimes: NDArray[np.object_], d: Direction) -> None:
    """The published projection and ours beside ratios that need no counter."""
    baselines = [
        Baseline(name, relative_errors(predicted, d.truth_s), fitted=name == BEST_CONSTANT)
        for name, predicted in d.baselines.items()
    ]
    for model, method in (("Van Lanker et al.", PUBLISHED), ("smlab project", OURS)):
        page.finding(
            Finding(
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
        )


def _key(name: str) -> str:
    return re.sub(r"\W+", "_", name)


SOURCE: Final = (
    "Van Lanker, Taboada, Brunet and Trahay, 2024, Predicting GPU kernel's performance on upcoming "
    "architectures, Euro-Par 2024, hal-04614350"
)


@dataclass(frozen=True)
class PublishedError:
    """One published error. ``mape`` in per cent, None where the paper prints none; ``said`` is what it says
    in words.

    ``regimes`` are our simulated regimes that come closest, none where there is no counterpart;
    ``comparison`` says what can be compared.
    """

    application: str
    where: str
    mape: float | None
    said: str
    regimes: tuple[str, ...]
    comparison: str


PUBLISHED_ERRORS: Final = (
    PublishedError(
        "Hydro1D",
        "section 5.2",
        None,
        "Errors of -5.83 to 4.45 % by kernel",
        ("DRAM",),
        "same limiter; theirs moves 50 million cells, far more than L2 holds, ours about as much as L2 holds",
    ),
    PublishedError(
        "UVMBench, kernels that fill the GPU",
        "section 5.3",
        None,
        "Mostly correctly predicted, some intervals wide",
        ("FP32", "L1", "L2", "DRAM"),
        "no figure printed; ours by limiter",
    ),
    PublishedError(
        "UVMBench, kernels that under-use it",
        "section 5.3",
        None,
        "The predictions are inaccurate",
        ("small grid", "latency"),
        "same cause: the case that the parallelism ceiling is for",
    ),
    PublishedError(
        "Quicksilver",
        "section 5.4",
        5.9,
        "6 of 32 threads active; fewer than 30 blocks excluded",
        (),
        "no counterpart: a Monte Carlo kernel in unified memory",
    ),
    PublishedError(
        "LULESH",
        "section 5.5",
        20.26,
        "The V100's L2 is too small for what the others' hold",
        ("DRAM",),
        "same cause: traffic that a larger L2 saves",
    ),
    PublishedError(
        "miniMDock",
        "section 5.6",
        10.2,
        "26 of 32 threads active",
        ("mixed precisions", "shared memory"),
        "similar limiter; theirs includes what the target's compiler changed",
    ),
    PublishedError(
        "all, by target GPU",
        "section 1",
        None,
        "MAPE of 10.3 to 17.0 %",
        (),
        "their applications; ours are weighted evenly over regimes",
    ),
)
"""In the order of the paper's sections. Their targets are A100-40, A100-80 and H100 together, from V100 with
measured maxima and the code of each target; ours are two simulated GPUs with the same code."""


def published_table(
    section: Section, regimes: NDArray[np.object_], direction: Direction, theirs: str, ours: str
) -> None:
    """The published errors beside those of two methods, ``theirs`` and ``ours``, over the regimes that
    compare."""
    rows: list[list[Any]] = []
    for one in PUBLISHED_ERRORS:
        chosen = np.isin(regimes, one.regimes)
        mapes = [direction.mape(name, chosen) if chosen.any() else None for name in (theirs, ours)]
        ground = f"Ours: {', '.join(one.regimes)}" if one.regimes else "None of ours"
        told = f"{one.said}. {ground}; {one.comparison}"
        rows.append([f"{one.application} ({one.where})", one.mape, *mapes, told])
    section.table(
        "roofline-published",
        [
            Column("Application", key="application"),
            Column("Theirs", "MAPE, %", "published", 1, key="published_mape"),
            Column("Their method", "MAPE, %", "modelled", 1, key="as_published_mape"),
            Column("Ours", "MAPE, %", "modelled", 1, key="ours_mape"),
            Column("What the paper says, and what can be compared", key="comparison"),
        ],
        rows,
        f"{SOURCE}: from a real V100 to real A100 and H100 GPUs, beside their method and ours on simulated "
        f"{direction.name}. "
        "The figures are of other kernels on other machines: what can be compared is which regime is hard.",
    )


_ROW_IN = 0.34
_JITTER = 0.32


@styled
def shares_of_ceilings(
    regimes: Sequence[str], of_bound: Mapping[str, Floats], of_published: Mapping[str, Floats]
) -> Figure:
    """How much of its bound, and of its published ceilings, each kernel reaches; a series for each GPU.

    ``regimes`` (kernels,) and each series (kernels,), 1 = exactly at the ceiling. Both panels share a
    logarithmic axis in per cent; beyond 100 % the ground is grey.
    """
    names = list(dict.fromkeys(regimes))
    fig = new_figure(7.2, 1.3 + _ROW_IN * len(names))
    axes = fig.subplots(1, 2, sharey=True, sharex=True)
    highest = max(float(np.max(v)) for m in (of_bound, of_published) for v in m.values())
    for ax, series, title in (
        (axes[0], of_bound, "Bounds: one resource at a time"),
        (axes[1], of_published, "Published ceilings: Eq. 3, 6 to 8"),
    ):
        _strips(ax, names, regimes, {k: 100 * np.maximum(v, 0.01) for k, v in series.items()})
        ax.axvspan(100, 400, color=FAINT, alpha=0.7, lw=0, zorder=0)
        ax.axvline(100, color=INK, lw=0.9)
        ax.set_title(title, loc="left")
        ax.set_xlim(1, max(130.0, 115 * highest))
        ax.xaxis.set_major_locator(FixedLocator([1, 3, 10, 30, 100, 300]))
    fig.supxlabel("Reached of the ceiling (%, logarithmic)", fontsize=10)
    _legend(fig, list(of_bound))
    return fig


@styled
def predicted_over_actual(regimes: Sequence[str], ratios: Mapping[str, Mapping[str, Floats]]) -> Figure:
    """Predicted over actual time, a panel for each method, a series for each direction: ``{method:
    {direction: (kernels,)}}``."""
    names = list(dict.fromkeys(regimes))
    fig = new_figure(2.6 + 2.3 * len(ratios), 1.3 + _ROW_IN * len(names))
    axes = fig.subplots(1, len(ratios), sharey=True, sharex=True, squeeze=False)[0]
    for ax, (method, series) in zip(axes, ratios.items(), strict=True):
        _strips(ax, names, regimes, {k: np.clip(v, 0.24, 4.2) for k, v in series.items()})
        ax.axvspan(0.9, 1.1, color=FAINT, alpha=0.9, lw=0, zorder=0)
        ax.axvline(1, color=INK, lw=0.9)
        ax.set_title(method, loc="left")
        ax.set_xlim(0.24, 4.2)
        ax.xaxis.set_major_locator(FixedLocator([0.25, 0.5, 1, 2, 4]))
    outside = sum(int(np.sum((v < 0.24) | (v > 4.2))) for s in ratios.values() for v in s.values())
    beyond = f"; {outside} beyond the edges" if outside else ""
    fig.supxlabel(f"Predicted / simulated time (logarithmic; grey: within 10 %{beyond})", fontsize=10)
    _legend(fig, list(next(iter(ratios.values()))))
    return fig


def _strips(ax: Axes, names: list[str], regimes: Sequence[str], series: Mapping[str, Floats]) -> None:
    rows = np.array([names.index(regime) for regime in regimes], dtype=np.float64)
    shift = (np.modf(np.arange(len(rows)) * 0.618)[0] - 0.5) * _JITTER
    count = len(series)
    for number, values in enumerate(series.values()):
        drawn = look(number)
        offset = (number - (count - 1) / 2) * 0.36
        ax.scatter(
            values, rows + offset + shift, s=7, marker=drawn.marker, color=drawn.colour, alpha=0.6, lw=0
        )
        for row in range(len(names)):
            middle = float(np.median(values[rows == row]))
            ax.plot([middle] * 2, [row + offset - 0.2, row + offset + 0.2], color=drawn.colour, lw=2.2)
    for row in range(1, len(names)):
        ax.axhline(row - 0.5, color=FAINT, lw=0.6)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")
    ax.set_xscale("log")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))


def _legend(fig: Figure, names: list[str]) -> None:
    handles = [
        Line2D([], [], color=look(i).colour, marker=look(i).marker, ms=4, ls="none", label=name)
        for i, name in enumerate(names)
    ]
    handles.append(Line2D([], [], color=SOFT, lw=2.2, label="median"))
    fig.legend(handles=handles, loc="outside upper left", ncols=len(handles))
