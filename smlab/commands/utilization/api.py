"""``smlab.utilization``: how busy the shared-memory atomic unit was in the kernels of a profile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from smlab.commands.arguments import a_path
from smlab.commands.frames import TabularResult, dataframe
from smlab.commands.profiles import profile_of, short_label
from smlab.commands.utilization.rows import AlternativeTables, KernelRow, TablePair, estimate_rows
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles import atomic_quantities
from smlab.hw_bench.profiles.atomics.atomic_samples import AtomicSamples, atomic_samples
from smlab.hw_bench.profiles.atomics.warp_counters import path_counters
from smlab.hw_bench.profiles.pc_samples.ncu_report import read_report_samples
from smlab.hw_bench.profiles.pc_samples.sample_files import read_samples
from smlab.models.utilization.service_table import ServiceTable
from smlab.models.utilization.trust_map import CoverageRecord, shipped_map

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class UtilizationResult(TabularResult):
    """What a profile says: rows, launches left out with the reason, and notes on how the file was understood.
    It also says how often intervals such as these held where the truth is known."""

    profile: Path
    gpu: Gpu
    kernels: tuple[KernelRow, ...]
    skipped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    held: CoverageRecord

    def __repr__(self) -> str:
        return f"<utilization of {len(self.kernels):,} launches of {self.profile.name} on {self.gpu.name}>"

    def plot(self) -> Figure:
        """Utilization with its interval, by kernel; a Matplotlib figure."""
        from smlab.commands.utilization.figure import utilization_figure

        return utilization_figure({short_label(self.profile): self.kernels})

    def to_dataframe(self) -> pd.DataFrame:
        """One row a launch (or SM of it), with the keys of ``smlab utilization --json``."""
        return dataframe([row.as_json() for row in self.kernels])


def utilization(
    profile: str | Path,
    *,
    gpu: str | Path | Gpu | None = None,
    table: str | Path | None = None,
    samples: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> UtilizationResult:
    """How busy the shared-memory atomic unit was in each kernel of a profile, with interval and verdict.

    Args:
        profile: output of ncu, nvprof or smlab.
        gpu: the GPU that was profiled: a name, a description's path or a description; None takes what the
            profile tells.
        table: a service table's file to estimate with, instead of simulating those of the GPU.
        samples: samples by instruction of one of its kernels or more: ncu's source page as CSV, or a report
            (``.ncu-rep``).
        progress: told ``(done, total)`` while service tables are simulated.

    Raises:
        SmlabError: an unusable profile, GPU or table, in one line.
    """
    path = a_path("profile", profile)
    read, found_gpu, note = profile_of(path, gpu)
    quantities = atomic_quantities(read, found_gpu)
    notes = [*filter(None, [note]), *read.notes]
    rows: list[KernelRow] = []
    held = shipped_map().held()
    if len(quantities):
        own = None if table is None else a_path("table", table)
        tables = tables_for(found_gpu, own, progress)
        beside = path_counters(read, quantities)
        sampled, told = _samples(samples, quantities.kernel.tolist())
        notes += told
        rows = estimate_rows(quantities, tables, found_gpu, path=beside, samples=sampled)
        held = shipped_map().held(tables[0].tables.estimator)
    skipped = tuple((s.kernel, s.reason) for s in quantities.skipped)
    return UtilizationResult(path, found_gpu, tuple(rows), skipped, tuple(notes), held)


def _samples(given: str | Path | None, kernels: list[str]) -> tuple[list[AtomicSamples], list[str]]:
    """The samples at the atomics of the profile's kernels, and notes on those that say nothing of them."""
    if given is None:
        return [], []
    path = a_path("samples", given)
    read = read_report_samples(path) if path.suffix == ".ncu-rep" else (read_samples(path),)
    found, notes = [], []
    for own in read:
        told = atomic_samples(own)
        # A source page as CSV does not say whose it is: with one kernel in the profile, it is that one's.
        name = own.kernel if own.kernel in kernels or len(set(kernels)) > 1 else kernels[0]
        if told is None:
            notes.append(f"{path.name}: the samples of {own.kernel} tell no atomic apart")
        elif name not in kernels:
            notes.append(f"{path.name}: samples of {own.kernel}, which the profile does not have")
        else:
            found.append(replace(told, kernel=name))
    return found, notes


def tables_for(
    gpu: Gpu, table: Path | None, progress: Callable[[int, int], None] | None = None
) -> tuple[AlternativeTables, ...]:
    """The table in a file, or both forms for ``gpu`` under each alternative that its description carries,
    simulated on first use and kept in the user's cache folder."""
    if table is not None:
        own = ServiceTable.read(table)
        if own.attrs["form"] == "row":
            raise SmlabError.at(
                str(table), "a table of one warp's jobs", "form: row", "form: looped or batch"
            )
        pair = TablePair(own, None) if own.attrs["form"] == "looped" else TablePair(None, own)
        return (AlternativeTables("the table given", 1.0, pair),)
    from smlab.validation.service_tables import tables_of

    found = []
    variants = gpu.variants()
    for number, (alternative, described) in enumerate(variants):

        def advance(done: int, total: int, before: int = number) -> None:
            if progress is not None:
                progress(before * total + done, len(variants) * total)

        both = tables_of(described, progress=advance)
        pair = TablePair(both.looped, both.batch, both.row)
        found.append(AlternativeTables(alternative.name, alternative.weight, pair))
    return tuple(found)
