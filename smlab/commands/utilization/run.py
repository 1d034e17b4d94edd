"""``smlab utilization PROFILE...``: how busy the shared-memory atomic unit was in each kernel, how sure
that is, the verdict."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from smlab.cli.fast_start import PROFILE_OR_HOW
from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar, shown
from smlab.commands.profiles import chosen_profiles, label, short_label
from smlab.commands.utilization.api import utilization
from smlab.commands.utilization.command import UtilizationOptions
from smlab.commands.utilization.printing import print_answer, print_compared
from smlab.commands.utilization.rows import compare_rows
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.profiles import how

HOW_GPU = "v100"
"""Whose counters ``--how`` names where ``--gpu`` does not say: those of compute capability 7.0 serve most."""


def run_utilization(options: UtilizationOptions) -> None:
    """``smlab utilization PROFILE...``."""
    compare, plot, as_json = options.compare, options.plot, options.as_json
    if options.show_how:
        return _show_how(load_gpu(options.gpu or HOW_GPU), as_json)
    profiles = chosen_profiles(tuple(options.profiles or ()), options.example, PROFILE_OR_HOW)
    if compare and len(profiles) != 2:
        raise SmlabError.at("--compare", "wrong number of profiles", len(profiles), "two: before and after")
    if plot is not None:
        from smlab.commands.plots import check_plot

        check_plot(plot, profiles)
    answers = []
    for path in profiles:
        with progress_bar("simulating service tables") as advance:
            answers.append(
                utilization(
                    path, gpu=options.gpu, table=options.table, samples=options.samples, progress=advance
                )
            )
    several = len(answers) > 1
    if plot is not None:
        from smlab.commands.utilization.figure import draw

        alike = len({short_label(a.profile) for a in answers}) < len(answers)
        legend = label if alike else short_label
        for path in draw({legend(a.profile): a.kernels for a in answers}, plot):
            err.print(f"wrote {path}", markup=False)
    for a in answers:
        for note in a.notes:
            err.print(f"{label(a.profile)}: {note}", markup=False)
    compared = compare_rows(answers[0].kernels, answers[1].kernels) if compare else None
    if as_json:
        document: dict[str, Any] = {"kernels": [], "skipped": []}
        for a in answers:
            name = {"profile": label(a.profile)} if several else {}
            document["kernels"] += [{**row.as_json(), **name} for row in a.kernels]
            document["skipped"] += [{"kernel": k, "reason": r, **name} for k, r in a.skipped]
        if compared is not None:
            document["compare"] = compared
        print_json(document)
        return None
    if compared is not None:
        print_compared(compared, *answers)
    else:
        for a in answers:
            print_answer(a, options.details)
    return None


def _show_how(gpu: Gpu, as_json: bool) -> None:
    tools = [how(gpu, "ncu")]
    if tuple(int(x) for x in gpu.compute_capability.split(".")) <= (7, 2):
        tools.append(how(gpu, "nvprof"))
    if as_json:
        print_json({"gpu": gpu.name, "how": [asdict(t) for t in tools]})
        return
    for tool in tools:
        out.print(f"[bold]{tool.tool}[/bold] on {shown(gpu.title)}")
        out.print(tool.command, soft_wrap=True, markup=False)
        listed = Listing("quantity", "counter", "unit", "what it counts", "or else")
        for need in tool.counters:
            listed.add_row(need.quantity, need.counter, need.unit, need.doc, ", ".join(need.fallbacks))
        out.print(listed)
