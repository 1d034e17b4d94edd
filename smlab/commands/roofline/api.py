"""``smlab.roofline``: a profile's kernels under their ceilings, what limits them, and who is faster than a
ceiling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np

from smlab.commands.arguments import a_path, check_keywords
from smlab.commands.frames import TabularResult, dataframe
from smlab.commands.gpu_choice import at_clock as gpu_at_clock
from smlab.commands.gpu_choice import with_settings
from smlab.commands.profiles import profile_of
from smlab.commands.roofline.rows import kernel_rows
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles import Profile
from smlab.hw_bench.profiles.work.roofline_counters import CLOCK_TOLERANCE
from smlab.hw_bench.profiles.work.roofline_quantities import RooflineQuantities, roofline_quantities
from smlab.models.projection.peak_rates import checked_maxima, maxima_of
from smlab.models.roofline.ceilings import Ceilings, CeilingSwitches, ceilings
from smlab.models.roofline.violations import RooflineViolation, bound_violations, ceiling_violations

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class RooflineResult(TabularResult):
    """What a profile says: ceilings, kernels left out with the reason, kernels faster than a bound or than
    a ceiling."""

    profile: Path
    gpu: Gpu
    found: Ceilings
    skipped: tuple[tuple[str, int, str], ...]
    notes: tuple[str, ...]
    violations: tuple[RooflineViolation, ...]
    above_ceilings: tuple[RooflineViolation, ...]

    def __repr__(self) -> str:
        return f"<roofline of {len(self.found):,} kernels of {self.profile.name} on {self.gpu.name}>"

    def plot(self) -> Figure:
        """The kernels under their roofs; a Matplotlib figure."""
        from smlab.commands.roofline.plot import roofline_figure

        return roofline_figure([self.found])

    def to_dataframe(self) -> pd.DataFrame:
        """One row a kernel, with the keys of ``smlab roofline --json``; nested ones as ``intensity.dram``."""
        return dataframe(kernel_rows(self.found, self.violations))


def quantities_of(
    path: Path, given: str | Path | Gpu | None, settings: Sequence[str] = (), clock_mhz: float | None = None
) -> tuple[RooflineQuantities, Gpu, tuple[str, ...]]:
    """The work in a profile, the GPU it is of (told, or found out; with its ``settings``), and notes on how
    the file was understood. ``clock_mhz`` is the clock of the kernels for which the profile tells none."""
    profile, gpu, note = profile_of(path, given)
    gpu = with_settings(gpu, settings)
    quantities = roofline_quantities(profile, gpu_at_clock(gpu, clock_mhz))
    notes = [*filter(None, [note]), *quantities.notes, *_doubts(profile, quantities, gpu)]
    if clock_mhz is not None:
        work = quantities.work
        told = ~np.isnan(work.clock_hz)
        others = told & ~np.isclose(work.clock_hz, 1e6 * clock_mhz, rtol=CLOCK_TOLERANCE)
        if others.any():
            mean = np.median(work.clock_hz[others]) / 1e6
            notes.append(
                f"it tells another clock than {clock_mhz:,.0f} MHz, and is believed: {mean:,.0f} MHz in the "
                f"median (kernels: {np.count_nonzero(others):,})"
            )
        work = work.with_values(clock_hz=np.where(told, work.clock_hz, 1e6 * clock_mhz))
        quantities = replace(quantities, work=work)
    return quantities, gpu, tuple(notes)


def _doubts(profile: Profile, quantities: RooflineQuantities, gpu: Gpu) -> list[str]:
    """What in the profile speaks against its being of ``gpu``, or of all of it."""
    found = []
    implied = quantities.work.dram_peak_bytes_per_s
    rated = float(gpu.number("dram.bandwidth_bytes_per_s"))
    if np.count_nonzero(~np.isnan(implied)):
        least = float(np.nanpercentile(implied, 90))
        if least > 1.02 * rated:
            found.append(
                f"its percentages of peak imply a memory of at least about {least / 1e9:,.0f} GB/s; "
                f"{gpu.name} has "
                f"{rated / 1e9:,.0f}: it is of another card"
            )
    sms = set(profile.table.values("device__attribute_multiprocessor_count").values())
    if sms and min(sms) < gpu.integer("gpu.sms"):
        found.append(
            f"its counters are of {min(sms):.0f} SMs; the ceilings are of all {gpu.integer('gpu.sms')} of "
            f"{gpu.name}"
        )
    return found


class RooflineKeywords(TypedDict, total=False):
    """Further keywords of `roofline`: what is known of the GPU as it ran."""

    clock_mhz: float | None
    settings: Sequence[str]


def roofline(
    profile: str | Path,
    *,
    gpu: str | Path | Gpu | None = None,
    maxima: str = "sustained",
    parallelism: bool = True,
    issue: bool = True,
    at_clock: bool = False,
    **more: Unpack[RooflineKeywords],
) -> RooflineResult:
    """Every kernel of a profile under the roofs of its GPU and under ceilings of its own.

    Args:
        profile: output of ncu, nvprof or smlab.
        gpu: the GPU that was profiled: a name, a description's path or a description; None takes what the
            profile tells.
        maxima: ``sustained`` (published measurements) or ``spec`` (rated peaks).
        parallelism: whether what the grid can use of the GPU counts.
        issue: whether the rate of instructions counts among the ceilings.
        at_clock: whether the SM's ceilings are scaled to the clock in the profile.
        clock_mhz: the clock of the SMs, where the profile tells none and somebody saw it: cycles become times
            by it, and the SM's ceilings are scaled to it.
        settings: ``gpu.KEY=VALUE``, constants of the GPU that are to be others.

    Raises:
        SmlabError: an unusable profile, GPU or argument, in one line.
    """
    path = a_path("profile", profile)
    check_keywords("roofline", more, RooflineKeywords)
    clock_mhz = more.get("clock_mhz")
    quantities, found_gpu, notes = quantities_of(path, gpu, more.get("settings", ()), clock_mhz)
    top = maxima_of(found_gpu, checked_maxima(maxima))
    switches = CeilingSwitches(
        at_clock=at_clock or clock_mhz is not None, issue=issue, parallelism=parallelism
    )
    found = ceilings(quantities.work, found_gpu, top, switches)
    return RooflineResult(
        path,
        found_gpu,
        found,
        tuple((s.kernel, s.launch, s.reason) for s in quantities.skipped),
        notes,
        tuple(bound_violations(found, maxima_of(found_gpu, "spec"))),
        tuple(ceiling_violations(found)),
    )
