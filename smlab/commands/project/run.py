"""``smlab project PROFILE... --from G --to G``: a kernel's time on another GPU, as an interval, and how
wrong it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Table

from smlab.cli.terminal import err, out, print_json
from smlab.commands.project.errors import ProjectionErrors, errors_of
from smlab.commands.project.truth import Matched, match, read_truth
from smlab.commands.roofline.rows import short_name
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.profiles import read_profile
from smlab.hw_bench.profiles.kernel_work import KernelWork
from smlab.hw_bench.profiles.roofline_quantities import roofline_quantities
from smlab.models.roofline import Projection, ProjectionSwitches, project
from smlab.models.roofline.projection import overhead_s

PRINTED_ROWS = 40


@dataclass(frozen=True)
class ProjectionAnswer:
    """The projection of one profile, beside the truth where there is one; ``work`` is all that was read."""

    profile: Path
    work: KernelWork
    projection: Projection
    skipped: tuple[tuple[str, int, str], ...]
    notes: tuple[str, ...]
    matched: Matched | None
    errors: ProjectionErrors | None


def run_projection(
    profiles: Sequence[Path],
    source_name: str | None,
    target_name: str | None,
    switches: ProjectionSwitches,
    *,
    truth: Path | None = None,
    dataset: str | None = None,
    cubins: tuple[Path | None, Path | None] = (None, None),
    working_sets: Sequence[str] = (),
    plot: Path | None = None,
    as_json: bool = False,
) -> None:
    """``smlab project``."""
    for option, name in (("--from", source_name), ("--to", target_name)):
        if name is None:
            raise SmlabError.at(option, "no GPU given", expected="a GPU's name or a description's path")
    assert source_name is not None
    assert target_name is not None
    if plot is not None:
        from smlab.commands.roofline.files import check_plot

        check_plot(plot, [*profiles, *filter(None, (truth, *cubins))])
    if dataset is not None:
        if profiles:
            raise SmlabError.at("--dataset", "takes no profile", str(profiles[0]))
        from smlab.commands.project.dataset import run_dataset_projection

        run_dataset_projection(dataset, source_name, target_name, switches, plot=plot, as_json=as_json)
        return
    if not profiles:
        raise SmlabError("PROFILE: no profile given (expected a profiler's output, or --dataset)")
    if (cubins[0] is None) != (cubins[1] is None):
        raise SmlabError("--cubin-from, --cubin-to: one goes with the other (expected both, or none)")
    if truth is not None and len(profiles) > 1:
        raise SmlabError.at("--truth", "goes with one profile", len(profiles), "one profile")
    source, target = load_gpu(source_name), load_gpu(target_name)
    answers = [answer(path, source, target, switches, truth, cubins, working_sets) for path in profiles]
    for a in answers:
        for note in a.notes:
            err.print(f"{a.profile}: {note}", markup=False)
    if plot is not None:
        from smlab.commands.project.plot import draw_projection

        for path in draw_projection([(a.projection, a.matched) for a in answers], source, target, plot):
            err.print(f"wrote {path}", markup=False)
    if as_json:
        print_json(_document(answers, source, target, switches))
        return
    for a in answers:
        _print_answer(a, source, target)


def answer(
    path: Path,
    source: Gpu,
    target: Gpu,
    switches: ProjectionSwitches,
    truth: Path | None = None,
    cubins: tuple[Path | None, Path | None] = (None, None),
    working_sets: Sequence[str] = (),
) -> ProjectionAnswer:
    """Read one profile and project all of it."""
    quantities = roofline_quantities(read_profile(path, gpu=source), source)
    work = _with_working_sets(quantities.work, working_sets)
    notes = list(quantities.notes)
    silent = [g.name for g in (source, target) if switches.launch_overhead and not overhead_s(g, switches)]
    if silent:
        notes.append(
            f"launch overhead of {' and '.join(silent)} is not known: taken as 0 (--overhead-us tells)"
        )
    there: KernelWork | None = None
    if cubins[0] is not None and cubins[1] is not None:
        from smlab.hw_bench.sass import compare_files
        from smlab.models.roofline_from_sass import target_work

        code = compare_files(cubins[0], cubins[1])
        there = target_work(work, code)
        notes += [f"machine code of {name}: the other file has none" for name in code.unmatched]
        notes += [f"machine code of {c.kernel}: {said}" for c in code.comparisons for said in c.differences()]
    found = project(work, source, target, switches, target_work=there)
    skipped = [(s.kernel, s.launch, s.reason) for s in quantities.skipped]
    skipped += [(str(work.kernel[i]), int(work.launch[i]), reason) for i, reason in found.skipped]
    if not len(found):
        raise SmlabError(f"{path}: no kernel can be projected: {skipped[0][0]}: {skipped[0][2]}")
    matched, errors = None, None
    if truth is not None:
        matched = match(read_truth(truth, target), found.kernel, found.launch)
        errors = errors_of(work, source, target, switches, found, matched.actual_s, there)
    return ProjectionAnswer(path, work, found, tuple(skipped), tuple(notes), matched, errors)


def _with_working_sets(work: KernelWork, given: Sequence[str]) -> KernelWork:
    """The working sets that ``--working-set KERNEL=BYTES`` tells; the name may be the part before the
    parameters."""
    values = work.working_set_bytes.copy()
    for text in given:
        name, equals, number = text.rpartition("=")
        where = f"--working-set {text}"
        try:
            bytes_ = float(number)
        except ValueError as error:
            raise SmlabError.at(where, "not a number of bytes", number, "KERNEL=BYTES") from error
        if not equals or not np.isfinite(bytes_) or bytes_ <= 0:
            raise SmlabError.at(where, "not a working set", number, "KERNEL=BYTES, bytes above 0")
        chosen = np.array([name in (str(k), short_name(str(k), 10_000)) for k in work.kernel])
        if not chosen.any():
            known = ", ".join(sorted({short_name(str(k)) for k in work.kernel})[:5])
            raise SmlabError.at(where, "no such kernel in the profile", name, known)
        values[chosen] = bytes_
    return work.with_values(working_set_bytes=values)


def _document(
    answers: Sequence[ProjectionAnswer], source: Gpu, target: Gpu, switches: ProjectionSwitches
) -> dict[str, Any]:
    several = len(answers) > 1
    kernels, skipped, unmatched = [], [], []
    for a in answers:
        name = {"profile": str(a.profile)} if several else {}
        kernels += [{**row, **name} for row in rows_of(a)]
        skipped += [{"kernel": k, "launch": n, "reason": r, **name} for k, n, r in a.skipped]
        if a.matched is not None:
            unmatched += [{"kernel": k, "where": "profile"} for k in a.matched.only_projected]
            unmatched += [{"kernel": k, "where": "truth"} for k in a.matched.only_truth]
    first = answers[0].errors
    return {
        "from": source.name,
        "to": target.name,
        "switches": {name: getattr(switches, name) for name in switches.__dataclass_fields__},
        "kernels": kernels,
        "skipped": skipped,
        "unmatched": unmatched,
        "errors": None if first is None else first.as_json(),
    }


def rows_of(a: ProjectionAnswer) -> list[dict[str, Any]]:
    """One row a kernel with the agreed keys, ``actual_s`` where there is a truth."""
    p = a.projection
    rows = []
    for i in range(len(p)):
        row = {
            "kernel": p.kernel[i],
            "launch": p.launch[i],
            "source_s": p.source_s[i],
            "low_s": p.low_s[i],
            "mid_s": p.mid_s[i],
            "high_s": p.high_s[i],
            "limiter": p.limiter[i],
            "flags": list(p.flags[i]),
        }
        if a.matched is not None:
            row["actual_s"] = a.matched.actual_s[i]
        rows.append(row)
    return rows


def _print_answer(a: ProjectionAnswer, source: Gpu, target: Gpu) -> None:
    p = a.projection
    out.print(
        f"[bold]{escape(str(a.profile))}[/bold]: {len(p):,} kernels from {escape(source.title)} to "
        f"{escape(target.title)}"
    )
    order = np.argsort(-p.source_s, kind="stable")[:PRINTED_ROWS]
    if len(p) > PRINTED_ROWS:
        out.print(f"the {PRINTED_ROWS} longest (--json gives all)")
    listed = Table(box=box.SIMPLE, pad_edge=False)
    listed.add_column("kernel", overflow="ellipsis", no_wrap=True, max_width=40)
    headings = ["launch", "here us", "there us", "interval us", "speed-up"]
    if a.matched is not None:
        headings += ["actual us", "off"]
    for heading in headings:
        listed.add_column(heading, justify="right", no_wrap=True)
    listed.add_column("limiter there", no_wrap=True)
    for i in order.tolist():
        cells = [
            escape(short_name(str(p.kernel[i]))),
            str(p.launch[i]),
            f"{1e6 * p.source_s[i]:,.1f}",
            f"{1e6 * p.mid_s[i]:,.1f}",
            f"{1e6 * p.low_s[i]:,.1f} to {1e6 * p.high_s[i]:,.1f}",
            f"{p.source_s[i] / p.mid_s[i]:.2f}x",
        ]
        if a.matched is not None:
            actual = a.matched.actual_s[i]
            known = not np.isnan(actual)
            cells += [f"{1e6 * actual:,.1f}" if known else "-"]
            cells += [f"{100 * (p.mid_s[i] / actual - 1):+.1f} %" if known else "-"]
        listed.add_row(*cells, str(p.limiter[i]))
    out.print(listed)
    out.print(
        f"all of them: {1e3 * p.source_s.sum():,.3f} ms here, {1e3 * p.mid_s.sum():,.3f} ms there "
        f"({1e3 * p.low_s.sum():,.3f} to {1e3 * p.high_s.sum():,.3f})"
    )
    if a.errors is not None:
        a.errors.print(out)
    if a.matched is not None:
        for what, names in (
            ("in the profile only", a.matched.only_projected),
            ("in the truth only", a.matched.only_truth),
        ):
            if names:
                shown = ", ".join(short_name(n) for n in names[:5])
                out.print(f"[yellow]not matched[/yellow], {what} ({len(names):,}): {escape(shown)}")
    for flag, count in Counter(f for flags in p.flags for f in flags).most_common():
        out.print(f"[yellow]note[/yellow]: {escape(flag)} ({count:,} kernels)")
    for reason, count in Counter(reason for _, _, reason in a.skipped).most_common():
        out.print(f"skipped {count:,} kernels: {escape(reason)}")
