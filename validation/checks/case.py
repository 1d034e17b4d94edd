"""Dong & Pai's case study on a reduced grid: Figures 3 to 5, the estimators' errors, and what holds of the
findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.validation.checks import Plan, Results, Task
from smlab.validation.method.baseline import Baseline, compare_with_baseline, point_errors
from smlab.validation.method.metrics import PointErrors
from smlab.validation.papers.histogram.facts import Fact, facts, shape
from smlab.validation.papers.histogram.files import figures
from smlab.validation.papers.histogram.images import PAPERS
from smlab.validation.papers.histogram.study import CasePoint, Spec, errors, parts, run_point, with_speedups
from smlab.validation.report import Column, Report, Section
from smlab.validation.report.content import Finding

GPUS = ("titan-v", "a6000")
"""The paper's, whatever GPU the rest of the report is about."""
AS_IT_STANDS = ""
PATHS, QUICK_PARTS = 12, 4

THREADS = (32, 64, 256, 512, 1024)
SIZES, LARGEST = (2**13, 2**16, 2**20), 2**22
BETWEEN_SIZE = 2**18
BETWEEN = ("solid-opaque", "solid-two", "solid-coloured", "gradient", "scene", "noise-8")


def specs_of(quick: bool) -> dict[str, list[Spec]]:
    """The reduced grid by GPU. The A6000 is there for POPC.INC against ADD; large sizes where findings are
    about them."""
    papers, ops, original = ("solid", "uniform"), ("add", "popc-inc"), ("original",)
    if quick:
        two = (256, 1024)
        titan = _crossed(("add",), papers, (2**13, 2**18), two)
        titan += _crossed(("add",), ("solid",), (LARGEST,), two, original)
        titan += _crossed(("add",), BETWEEN[:1], (2**16,), (1024,))
        return {"titan-v": titan, "a6000": _crossed(ops, ("solid",), (LARGEST,), two, original)}
    large = (256, 512, 1024)
    titan = _crossed(("add",), papers, SIZES, THREADS)
    titan += _crossed(("add",), papers, (LARGEST,), large, original)
    titan += _crossed(("add",), BETWEEN, (BETWEEN_SIZE,), (256, 1024))
    ampere = _crossed(ops, papers, (2**13, 2**17), THREADS)
    return {"titan-v": titan, "a6000": [*ampere, *_crossed(ops, ("solid",), (LARGEST,), large, original)]}


def _crossed(
    ops: Sequence[str],
    images: Sequence[str],
    sizes: Sequence[int],
    threads: Sequence[int],
    variants: Sequence[str] = ("original", "reordered"),
) -> list[Spec]:
    return [
        Spec(o, i, s, t, v) for o in ops for i in images for s in sizes for t in threads for v in variants
    ]


def run_specs(gpu: Gpu, specs: Sequence[Spec], seed: int) -> list[CasePoint]:
    """Simulate some points, one after the other."""
    return [run_point(gpu, spec, seed) for spec in specs]


def tasks(plan: Plan) -> list[Task[str]]:
    found = []
    for name, specs in specs_of(plan.quick).items():
        # Dealt out by size, so that the parts take about the same time.
        by_size = sorted(specs, key=lambda spec: (-spec.pixels, spec))
        count = (QUICK_PARTS if plan.quick else PATHS) // len(GPUS)
        for under, gpu in _readings(name, plan):
            found += [
                Task(_key(name, under, k), run_specs, (gpu, by_size[k::count], plan.seed))
                for k in range(count)
            ]
    return found


def _readings(name: str, plan: Plan) -> list[tuple[str, Gpu]]:
    """A GPU under each alternative that its description carries, by name; a quick run takes the first."""
    variants = [(alternative.name, gpu) for alternative, gpu in load_gpu(name).variants()]
    return variants[:1] if plan.quick else variants


def _key(gpu: str, under: str, part: int | str = "") -> str:
    return f"case-{gpu}-if-{under}-{part}"


def points_of(plan: Plan, results: Results) -> dict[str, dict[str, list[CasePoint]]]:
    """The points by alternative and GPU, in the order of the grid, with speedups. The descriptions as they
    stand are the alternative without a name."""
    found: dict[str, dict[str, list[CasePoint]]] = {AS_IT_STANDS: {}}
    for name, specs in specs_of(plan.quick).items():
        for place, (under, _) in enumerate(_readings(name, plan)):
            prefix = _key(name, under)
            of = {p.spec: p for task, part in results.items() if task.startswith(prefix) for p in part}
            own = found.setdefault(under if place else AS_IT_STANDS, {})
            own[name] = with_speedups(of[spec] for spec in specs)
    return found


def report(page: Report, plan: Plan, results: Results) -> None:
    points_under = points_of(plan, results)
    by_gpu = points_under.pop(AS_IT_STANDS)
    found = facts(by_gpu)
    others = {under: facts(points) for under, points in points_under.items()}
    titan = by_gpu["titan-v"]
    section = page.section(
        "case",
        "Dong & Pai's histogram, simulated",
        f"Section 4 of the paper on {sum(map(len, by_gpu.values()))} points of its grid. Listings 1 and 2 "
        "run with the addresses of real image bytes, one block an SM, on a simulated Titan V and RTX A6000. "
        "What the paper leaves open is assumed by name (`sim/workloads/histogram.py`)"
        + ("; what the evidence leaves open of the atomic unit is asked each way" if others else "")
        + ". **Nothing is fitted to it.** `smlab case histogram` runs the whole grid.",
    )
    _statements(page, section, plan, {"": found, **others})
    _findings(page, plan, [(name, p) for name, points in by_gpu.items() for p in points if p.image in PAPERS])
    off = errors([p for points in by_gpu.values() for p in points if p.image in PAPERS])
    section.text(
        f"Of {len(found)} statements of the paper {_counted(found)} in part"
        + "".join(f"; if {under}, {_counted(own)}" for under, own in others.items())
        + ". On the paper's images estimates of the unit's utilization are off, in points: "
        + "; ".join(
            f"{name} **{row.mean_points:.1f}** (at worst {row.worst_points:.0f})" for name, row in off.items()
        )
        + "."
    )
    section.fold("Figures 3 to 5, the estimators' errors, and what holds of the paper's statements")
    drawings = [*figures(titan), *(d for d in figures(by_gpu["a6000"]) if "popc" in d.name)]
    for drawn in drawings:
        section.figure(f"case-{drawn.name}", drawn.figure, drawn.data, drawn.caption, drawn.alt)
    section.heading("The estimators over the study")
    listed: dict[str, PointErrors] = {}
    for name, points in by_gpu.items():
        for part, own in parts(points).items():
            if part in ("the paper's images", "POPC.INC", "images between"):
                listed |= {f"{estimator} ({name}, {part})": row for estimator, row in errors(own).items()}
    section.point_errors(
        "case-errors",
        listed,
        "Absolute errors in percentage points of the exact utilization. The trivial baseline is the middle "
        "of the bounds that hold whatever the arrivals are like. Each warp leaves four atomics in flight, "
        "which all estimators take for one.",
        kinds=dict.fromkeys(listed, "modelled"),
    )
    section.heading("What holds of the paper's findings")
    section.table(
        "case-facts",
        [
            Column("fact"),
            Column("statement"),
            Column("seen", kind="simulated"),
            Column("expected"),
            Column("verdict"),
            Column("in the range", unit="% of points", key="share", digits=0),
            *(column for under in others for column in _columns(under)),
        ],
        [_row(f, [own.get(f.name) for own in others.values()]) for f in found.values()],
        "Judged in this run, on the reduced grid; `smlab case histogram` gives the figures behind each. "
        "Ranges are the paper's words as numbers.",
    )


def _statements(
    page: Report, section: Section, plan: Plan, facts_under: Mapping[str, Mapping[str, Fact]]
) -> None:
    """How much of what any sound simulation should show of the paper is seen. A finding: some readings of the
    atomic unit that the evidence leaves open do not show all of it."""
    for under, found in facts_under.items():
        name = f"simulator, if {under}" if under else "simulator, as described"
        must = shape(found)
        page.finding(
            Finding(
                "Dong & Pai's statements, points outside their range",
                name,
                compare_with_baseline(
                    [100 * (1 - found[statement].share) for statement in must],
                    [Baseline("a toss for each point", [50.0] * len(must))],
                    seed=plan.seed,
                ),
                unit="% of points",
                evidence="published",
                section="case",
            )
        )
        missing = [f"{s} ({_seen(found[s])})" for s, holds in must.items() if not holds]
        partly = [s for s in must if found[s].verdict == "holds in part"]
        section.text(
            f"{name.capitalize()}: {len(must) - len(missing)} of {len(must)} statements that any sound "
            "simulation should show are seen"
            + (f", {len(partly)} of them only in part ({', '.join(partly)})" if partly else "")
            + (f"; not seen: {', '.join(missing)}" if missing else "")
            + "."
        )


def _findings(page: Report, plan: Plan, points: Sequence[tuple[str, CasePoint]]) -> None:
    """The estimators beside the middle of the bounds. The sizes and blocks of one image, kernel and
    instruction are a
    line of a figure, not cases of their own."""
    exact = [p.utilization for _, p in points]
    lines = [(gpu, p.image, p.variant, p.op) for gpu, p in points]
    middle = Baseline("middle of the bounds", point_errors([p.utilization_middle for _, p in points], exact))
    for model, field in (("Dong & Pai", "utilization_occupancy"), ("closed network", "utilization_closed")):
        estimated = [getattr(p, field) for _, p in points]
        page.finding(
            Finding(
                "Utilization, Dong & Pai's histograms",
                model,
                compare_with_baseline(point_errors(estimated, exact), [middle], groups=lines, seed=plan.seed),
                unit="points",
                evidence="simulated",
                group="lines of their figures",
                section="case",
            )
        )


def _columns(under: str) -> tuple[Column, Column]:
    seen = Column(f"seen if {under}", kind="simulated", key=f"seen_if_{under}")
    return seen, Column(f"verdict if {under}", key=f"verdict_if_{under}")


def _seen(f: Fact) -> str:
    return f"{f.value:.4g} {f.unit}, {f.expected}"


def _counted(found: Mapping[str, Fact]) -> str:
    verdicts = Counter(f.verdict.value for f in found.values())
    return f"{verdicts['holds']} hold, {verdicts['holds in part']}"


def _row(f: Fact, others: Sequence[Fact | None]) -> list[object]:
    row: list[object] = [f.name, f.claim, f"{f.value:.4g} {f.unit}", f.expected, f.verdict, 100 * f.share]
    for there in others:
        row += [f"{there.value:.4g} {there.unit}", there.verdict] if there else ["", ""]
    return row
