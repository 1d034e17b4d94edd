"""``smlab.project``: the kernels of a profile on another GPU, as intervals, and how wrong that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np

from smlab.commands.arguments import a_gpu, a_path, check_keywords
from smlab.commands.frames import TabularResult, dataframe
from smlab.commands.profiles import profile_of
from smlab.commands.project.code import KernelCode
from smlab.commands.project.errors import ProjectionErrors, errors_of
from smlab.commands.project.measured_times import Matched, match, read_truth
from smlab.commands.project.rows import agreed_row
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import Floats, KernelWork
from smlab.hw_bench.profiles.work.roofline_quantities import roofline_quantities
from smlab.hw_bench.sass.linking import called, readable_name
from smlab.models.projection.projection import Projection, ProjectionSwitches, overhead_known
from smlab.models.projection.projection import project as project_work
from smlab.models.projection.uncertainty import LAUNCH_S
from smlab.models.roofline.clock import ran_at
from smlab.models.roofline.compiler_alternatives import mixed

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class ProjectResult(TabularResult):
    """The projection of one profile, beside the truth where there is one; ``work`` is all that was read.
    ``simulated_s`` are the times by running the machine code on both GPUs, NaN for kernels without."""

    profile: Path
    source: Gpu
    target: Gpu
    work: KernelWork
    projection: Projection
    skipped: tuple[tuple[str, int, str], ...]
    notes: tuple[str, ...]
    matched: Matched | None
    errors: ProjectionErrors | None
    simulated_s: Floats | None = None

    def __repr__(self) -> str:
        return (
            f"<projection of {len(self.projection):,} kernels of {self.profile.name} from {self.source.name} "
            f"to {self.target.name}>"
        )

    def plot(self) -> Figure:
        """Each kernel's time, here and there with its interval; a Matplotlib figure."""
        from smlab.commands.project.plot import projection_figure

        return projection_figure([(self.projection, self.matched)], self.source, self.target)

    def to_dataframe(self) -> pd.DataFrame:
        """One row a kernel, with the keys of ``smlab project --json``."""
        return dataframe(rows_of(self))


class ProjectKeywords(TypedDict, total=False):
    """Further keywords of `project`: what is known of the kernels beside their profile."""

    cubins: tuple[str | Path, str | Path] | None
    code: KernelCode | None
    launch: str | Path | None
    working_sets: Mapping[str, float] | None


def project(
    profile: str | Path,
    source: str | Path | Gpu | None = None,
    target: str | Path | Gpu | None = None,
    *,
    switches: ProjectionSwitches | None = None,
    truth: str | Path | None = None,
    **more: Unpack[ProjectKeywords],
) -> ProjectResult:
    """Every kernel's time on another GPU, as an interval; how wrong that is where the truth is known.

    Args:
        profile: output of ncu, nvprof or smlab, from the GPU ``source``.
        source: the GPU that was profiled: a name, a description's path or a description; None takes what the
            profile tells.
        target: the GPU to project to, likewise; it must be given.
        switches: the parts of the method; None for all of the defaults.
        truth: times on the target, a profile or CSV ``kernel,seconds[,launch]``.
        cubins: machine code of the kernels for source and target.
        code: their source, or machine code by architecture (`smlab.commands.project.code.KernelCode`).
        launch: with ``code``, runs it on both GPUs, with the arguments of this file (as of ``smlab run``).
        working_sets: bytes that a kernel uses again, by its name.

    Raises:
        SmlabError: an unusable file, GPU or argument, or no kernel that can be projected, in one line.
    """
    check_keywords("project", more, ProjectKeywords)
    cubins, code, launch = more.get("cubins"), more.get("code"), more.get("launch")
    path, there_gpu = a_path("profile", profile), a_gpu("target", target)
    switches = ProjectionSwitches() if switches is None else switches
    if not isinstance(switches, ProjectionSwitches):
        raise SmlabError.at("switches", "not the parts of the method", switches, "ProjectionSwitches")
    read, here, note = profile_of(path, source, "--from")
    quantities = roofline_quantities(read, here)
    work = _with_working_sets(quantities.work, more.get("working_sets") or {})
    work = ran_at(work, switches.source_clock_hz)
    notes = [*filter(None, [note]), *quantities.notes]
    silent = [g.name for g in (here, there_gpu) if not overhead_known(g, switches)]
    if silent:
        notes.append(
            f"launch overhead of {' and '.join(silent)} is not known: taken as {1e6 * LAUNCH_S / 2:g} us, "
            f"0 to {1e6 * LAUNCH_S:g} in the interval (--overhead-us tells)"
        )
    there: KernelWork | None = None
    if cubins is not None or code is not None:
        from smlab.models.projection.machine_code import target_work

        if cubins is not None:
            from smlab.hw_bench.sass import compare_files

            compared = compare_files(*(a_path("cubins", c) for c in cubins))
        else:
            assert code is not None
            compared, said_of_code = code.compare(here, there_gpu)
            notes += said_of_code
        there = target_work(work, compared, there_gpu)
        notes += [f"machine code of {name}: the other file has none" for name in compared.unmatched]
        notes += [
            f"machine code of {c.kernel}: {said}" for c in compared.comparisons for said in c.differences()
        ]
    found = project_work(work, here, there_gpu, switches, target_work=there)
    if code is not None and code.source is not None:
        found = mixed(found, project_work(work, here, there_gpu, switches))
    skipped = [(s.kernel, s.launch, s.reason) for s in quantities.skipped]
    skipped += [(str(work.kernel[i]), int(work.launch[i]), reason) for i, reason in found.skipped]
    if not len(found):
        raise SmlabError(f"{path}: no kernel can be projected: {skipped[0][0]}: {skipped[0][2]}")
    simulated_s = None
    if launch is not None and code is not None:
        from smlab.commands.project.simulated import simulated_seconds

        chosen = work.take(found.index)
        simulated_s, told = simulated_seconds(
            chosen, code, a_path("launch", launch), here, there_gpu, switches.target_clock_hz
        )
        notes.append(told)
    matched, errors = None, None
    if truth is not None:
        matched = match(read_truth(a_path("truth", truth), there_gpu), found.kernel, found.launch)
        errors = errors_of(work, here, there_gpu, switches, found, matched.actual_s, there)
    return ProjectResult(
        path, here, there_gpu, work, found, tuple(skipped), tuple(notes), matched, errors, simulated_s
    )


def _with_working_sets(work: KernelWork, given: Mapping[str, float]) -> KernelWork:
    """``given`` bytes by kernel; the name may be the part before the parameters."""
    values = work.working_set_bytes.copy()
    for name, number in given.items():
        where = f"working set of {name}"
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise SmlabError.at(where, "not a number of bytes", number)
        if not np.isfinite(number) or number <= 0:
            raise SmlabError.at(where, "not a working set", number, "bytes above 0")
        chosen = np.array([called(str(k), name) for k in work.kernel])
        if not chosen.any():
            known = ", ".join(sorted({readable_name(str(k)) for k in work.kernel})[:5])
            raise SmlabError.at(where, "no such kernel in the profile", name, known)
        values[chosen] = number
    return work.with_values(working_set_bytes=values)


def rows_of(a: ProjectResult) -> list[dict[str, Any]]:
    """One row a kernel with the agreed keys, ``actual_s`` where there is a truth."""
    p = a.projection
    rows = []
    for i in range(len(p)):
        named = {"kernel": p.kernel[i], "launch": p.launch[i]}
        row = agreed_row(p, i, p.source_s[i], list(p.flags[i]), **named)
        if a.simulated_s is not None:
            row["simulated_s"] = None if np.isnan(a.simulated_s[i]) else a.simulated_s[i]
        if a.matched is not None:
            row["actual_s"] = a.matched.actual_s[i]
        rows.append(row)
    return rows
