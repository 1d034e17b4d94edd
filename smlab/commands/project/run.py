"""``smlab project PROFILE... --from G --to G``: a kernel's time on another GPU, as an interval, and how
wrong it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlab.cli.fast_start import PROFILE_OR_DATASET
from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, shown
from smlab.commands.arguments import macros_of
from smlab.commands.gpu_choice import GpuChoice, chosen_gpu
from smlab.commands.profiles import chosen_profiles, kernel_column, label, longest
from smlab.commands.project.api import ProjectResult, project, rows_of
from smlab.commands.project.code import KernelCode
from smlab.commands.project.command import ProjectOptions
from smlab.examples import TARGET
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.linking import readable_name
from smlab.models.projection.projection import ProjectionSwitches
from smlab.models.projection.uncertainty import LEVEL
from smlab.validation.projection.coverage_records import NARROW, IntervalCoverage, shipped_coverage


def run_project(options: ProjectOptions) -> None:
    """``smlab project``."""
    truth, plot = options.truth, options.plot
    if options.dataset is not None:
        profiles = tuple(options.profiles or ())
        if profiles or options.example:
            raise SmlabError.at("--dataset", "takes no profile", str((*profiles, "--example")[0]))
    else:
        profiles = chosen_profiles(tuple(options.profiles or ()), options.example, PROFILE_OR_DATASET)
    if options.simulate != (options.launch is not None):
        raise SmlabError("--simulate, --launch: one goes with the other (expected both, or none)")
    if options.simulate and options.code_source is None and not options.cubins:
        raise SmlabError("--simulate: no machine code to run (expected --source, or --cubin for both GPUs)")
    to = options.target or (TARGET if options.example else None)
    if to is None:
        raise SmlabError.at("--to", "no GPU given", expected="a GPU's name or a description's path")
    given = [f for f in (truth, options.cubin_from, options.cubin_to) if f is not None]
    if plot is not None:
        from smlab.commands.plots import check_plot

        check_plot(plot, [*profiles, *given])
    if options.dataset is not None:
        if options.source is None:
            raise SmlabError.at("--from", "no GPU given", expected="a GPU of the data set")
        _run_dataset(options, options.dataset, options.source, to)
        return
    if (options.cubin_from is None) != (options.cubin_to is None):
        raise SmlabError("--cubin-from, --cubin-to: one goes with the other (expected both, or none)")
    if options.draw is not None:
        raise SmlabError.at("--draw", "draws rows of a tuning set", options.draw, "with --dataset")
    if truth is not None and len(profiles) > 1:
        raise SmlabError.at("--truth", "goes with one profile", len(profiles), "one profile")
    target = chosen_gpu(GpuChoice(to, None, tuple(options.settings or ())))
    working_sets = dict(_working_set(text) for text in options.working_sets or ())
    cubins = None
    if options.cubin_from is not None and options.cubin_to is not None:
        cubins = (options.cubin_from, options.cubin_to)
    defines, folders = tuple(macros_of(options.defines or ()).items()), tuple(options.folders or ())
    code = KernelCode(options.code_source, defines, tuple(options.cubins or ()), folders)
    if cubins is not None and code:
        raise SmlabError.at("--cubin-from", "goes without --source and --cubin", str(options.cubin_from))
    answers = [
        project(
            path,
            options.source,
            target,
            switches=options.switches,
            truth=truth,
            cubins=cubins,
            code=code if code else None,
            launch=options.launch,
            working_sets=working_sets,
        )
        for path in profiles
    ]
    for a in answers:
        for note in a.notes:
            err.print(f"{label(a.profile)}: {note}", markup=False)
    source = answers[0].source
    if any(a.source.name != source.name for a in answers):
        names = ", ".join(sorted({a.source.name for a in answers}))
        raise SmlabError.at("PROFILE", "profiles of several GPUs", names, "of one, or a command for each")
    if plot is not None:
        from smlab.commands.project.plot import draw_projection

        for path in draw_projection([(a.projection, a.matched) for a in answers], source, target, plot):
            err.print(f"wrote {path}", markup=False)
    if options.as_json:
        print_json(_document(answers, source, target, options.switches))
        return
    for a in answers:
        _print_answer(a, options.details, options.switches.target_clock_hz)


def _run_dataset(options: ProjectOptions, dataset: str, source: str, to: str) -> None:
    """Others' measurements in place of a profile."""
    from smlab.hw_bench.datasets import is_tuning_set

    if is_tuning_set(dataset):
        from smlab.commands.project.tuning import run_tuning_projection

        if options.cubins:
            expected = "--source, compiled for each configuration"
            raise SmlabError.at("--cubin", "is one configuration's", str(options.cubins[0]), expected)
        run_tuning_projection(dataset, source, to, options)
        return
    from smlab.commands.project.dataset import run_dataset_projection

    for name, given in (("--source", options.code_source), ("--draw", options.draw)):
        if given is not None:
            raise SmlabError.at(
                name, "goes with a tuning set or a profile", str(given), "ktt:DIR and its like"
            )
    run_dataset_projection(dataset, source, to, options.switches, plot=options.plot, as_json=options.as_json)


def _working_set(text: str) -> tuple[str, float]:
    """``KERNEL=BYTES`` of ``--working-set``."""
    name, equals, number = text.rpartition("=")
    try:
        bytes_ = float(number)
    except ValueError as error:
        raise SmlabError.at(
            f"--working-set {text}", "not a number of bytes", number, "KERNEL=BYTES"
        ) from error
    if not equals or not name:
        raise SmlabError.at(f"--working-set {text}", "not a working set", number, "KERNEL=BYTES")
    return name, bytes_


def _document(
    answers: Sequence[ProjectResult], source: Gpu, target: Gpu, switches: ProjectionSwitches
) -> dict[str, Any]:
    several = len(answers) > 1
    kernels, skipped, unmatched = [], [], []
    for a in answers:
        name = {"profile": label(a.profile)} if several else {}
        kernels += [{**row, **name} for row in rows_of(a)]
        skipped += [{"kernel": k, "launch": n, "reason": r, **name} for k, n, r in a.skipped]
        if a.matched is not None:
            unmatched += [{"kernel": k, "where": "profile"} for k in a.matched.only_projected]
            unmatched += [{"kernel": k, "where": "truth"} for k in a.matched.only_truth]
    first = answers[0].errors
    return {
        "from": source.name,
        "to": target.name,
        "clock_hz": switches.target_clock_hz or float(target.number("clock.sm_hz")),
        "switches": {name: getattr(switches, name) for name in switches.__dataclass_fields__},
        "kernels": kernels,
        "skipped": skipped,
        "unmatched": unmatched,
        "held": asdict(shipped_coverage()),
        "errors": None if first is None else first.as_json(),
    }


def _span(low_s: float, high_s: float) -> str:
    """The interval in microseconds, or a dash where it is too narrow to mean something."""
    return "-" if high_s < NARROW * low_s else f"{1e6 * low_s:,.1f} to {1e6 * high_s:,.1f}"


def _print_coverage(narrow: NDArray[np.bool_], details: bool) -> None:
    """How often such intervals held, and how far off the middle was, where that is known."""
    held = shipped_coverage()
    if not narrow.all():
        sm, memory = held.by_sm, held.by_memory
        of = f" ({held.about})" if details else ""
        out.print(
            f"{100 * LEVEL:.0f} % intervals; of simulated kernels{of} they cover {sm.inside:.0f} % where an "
            f"SM limits, {memory.inside:.0f} % where L2 or DRAM may"
            + (f"; 9 in 10 times were {_most(held.every)}" if details else "")
        )
    if narrow.any():
        out.print(
            "-: an interval without a width: the same GPU, or the levels of the published method agree."
        )


def _most(held: IntervalCoverage) -> str:
    """How far most times were from the middle: the same factor up and down."""
    most = held.most_within_factor
    return f"{100 * (1 - 1 / most):.0f} % below to {100 * (most - 1):.0f} % above"


def _print_answer(a: ProjectResult, details: bool, clock_hz: float | None) -> None:
    p = a.projection
    at = "" if clock_hz is None else f" at {clock_hz / 1e6:,.0f} MHz"
    here_ms, there_ms = 1e3 * p.source_s.sum(), 1e3 * p.mid_s.sum()
    out.print(
        f"[bold]{shown(label(a.profile))}[/bold]: {len(p):,} kernel{'' if len(p) == 1 else 's'} would take "
        f"{there_ms:,.3f} ms on {shown(a.target.title)}{at}, {here_ms / there_ms:.2f} times as fast as on "
        f"{shown(a.source.title)} ({here_ms:,.3f} ms)"
    )
    order = longest(p.source_s)
    listed = Listing()
    kernel_column(listed)
    again = details or len(set(p.kernel.tolist())) < len(p)
    headings = [*(["launch"] if again else []), "here us", "there us", "interval us", "speed-up"]
    if a.simulated_s is not None:
        headings.append("simulated us")
    if a.matched is not None:
        headings += ["actual us", "off"]
    for heading in headings:
        listed.add_column(heading, justify="right", drop={"launch": 1, "speed-up": 3}.get(heading, 0))
    listed.add_column("limiter there", drop=2)
    for i in order.tolist():
        cells = [
            shown(readable_name(str(p.kernel[i]))),
            *([str(p.launch[i])] if again else []),
            f"{1e6 * p.source_s[i]:,.1f}",
            f"{1e6 * p.mid_s[i]:,.1f}",
            _span(float(p.low_s[i]), float(p.high_s[i])),
            f"{p.source_s[i] / p.mid_s[i]:.2f}x",
        ]
        if a.simulated_s is not None:
            by_code = a.simulated_s[i]
            cells.append("-" if np.isnan(by_code) else f"{1e6 * by_code:,.1f}")
        if a.matched is not None:
            actual = a.matched.actual_s[i]
            known = not np.isnan(actual)
            cells += [f"{1e6 * actual:,.1f}" if known else "-"]
            cells += [f"{100 * (p.mid_s[i] / actual - 1):+.1f} %" if known else "-"]
        listed.add_row(*cells, str(p.limiter[i]))
    out.print(listed)
    _print_coverage(p.high_s < NARROW * p.low_s, details)
    if a.errors is not None:
        a.errors.print(out)
    if a.matched is not None:
        for what, names in (
            ("in the profile only", a.matched.only_projected),
            ("in the truth only", a.matched.only_truth),
        ):
            if names:
                some = ", ".join(readable_name(n) for n in names[:5])
                out.print(f"[yellow]not matched[/yellow], {what} ({len(names):,}): {shown(some)}")
    for flag, count in Counter(f for flags in p.flags for f in flags).most_common():
        out.print(f"[yellow]note[/yellow]: {shown(flag)} ({count:,} kernels)")
    for reason, count in Counter(reason for _, _, reason in a.skipped).most_common():
        out.print(f"left out, {shown(reason)}: {count:,} kernels")
