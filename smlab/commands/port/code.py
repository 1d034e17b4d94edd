"""Machine code of the kernels of ``smlab port``: compiled from their source for both GPUs, or from cubins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.commands.project.code import KernelCode
from smlab.hw_bench.datasets.tuning import TuningTimes
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.hw_bench.sass import CodeComparison
from smlab.models.projection.machine_code import work_by_code
from smlab.models.projection.spills import with_local_memory
from smlab.validation.projection.tuning_code import TuningSource

Progress = Callable[[int, int], None]

OF_LAUNCHES: Final = {"blocks", "threads", "size", "config", "grid", "block"}
"""Parameters by which files of launches name their rows: macros of no source."""

Floats = NDArray[np.float64]

_LAUNCH: Final = ("blocks", "threads_per_block", "registers_per_thread", "shared_bytes_per_block")
_MEASURED: Final = ("seconds", "cycles", "clock_hz", "kernel", "launch", "flags", "row")


@dataclass(frozen=True)
class PortCode:
    """``source`` is CUDA C, compiled with ``defines`` and, of a tuner's file, each configuration's
    parameters, and headers in ``folders``; ``cubins`` are by the names of the platforms. False where there
    is neither."""

    source: Path | None = None
    defines: tuple[tuple[str, str], ...] = ()
    cubins: Mapping[str, Path] = field(default_factory=dict)
    folders: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if self.source is not None and self.cubins:
            raise SmlabError.at("--cubin", "goes without --source", str(self.source), "one of the two")

    def __bool__(self) -> bool:
        return self.source is not None or bool(self.cubins)

    def of(
        self,
        times: TuningTimes,
        rows: Sequence[int],
        names: tuple[str, str],
        gpus: tuple[Gpu, Gpu],
        progress: Progress | None = None,
    ) -> list[CodeComparison | None]:
        """Both platforms' code of some rows of the source's file.

        Raises:
            SmlabError: source that does not compile, or no cubin that runs on the target.
        """
        if self.source is not None and not set(times.parameters) <= OF_LAUNCHES:
            return TuningSource(self.source, self.defines, self.folders).compare(times, rows, *gpus, progress)
        cubins = tuple(self.cubins[name] for name in names if name in self.cubins)
        if self.cubins and not cubins:
            return [None] * len(rows)
        code, _ = KernelCode(self.source, self.defines, cubins, self.folders).compare(*gpus)
        return [code.of(str(times.kernel[row])) for row in rows]


def with_code(
    there: KernelWork, work: KernelWork, codes: Sequence[CodeComparison | None], target: Gpu
) -> KernelWork:
    """The target's work ``there``, where it was not counted, by the source's ``work`` and both codes; what
    was counted or told on the target stays."""
    coded = work_by_code(work, codes, target)
    missing = np.isnan(there.instructions) & np.array([code is not None for code in codes])
    values: dict[str, NDArray[Any]] = {}
    for name in KernelWork.__dataclass_fields__:
        if name in _MEASURED:
            continue
        own, told = getattr(there, name), getattr(coded, name)
        known = ~np.isnan(own) if name in _LAUNCH else np.zeros(len(own), dtype=bool)
        taken = (missing & ~known) if own.ndim == 1 else missing[:, None]
        values[name] = np.where(taken, told, own)
    return there.with_values(**values)


def with_spills(
    there: KernelWork, work: KernelWork, local_bytes_per_thread: tuple[Floats, Floats], target: Gpu
) -> KernelWork:
    """The target's work ``there``, where it was not counted. It follows from the source's counters, and from
    the local memory that a thread has on both. Each byte that it has more on the target is stored and loaded
    once. How often a loop comes back to it nothing tells."""
    here, far = local_bytes_per_thread
    threads = work.blocks * work.threads_per_block
    moved = np.nan_to_num(2 * np.maximum(far - here, 0) * threads)
    rows = (moved > 0) & (np.nan_to_num(work.instructions) > 0) & np.isnan(there.instructions)
    if not rows.any():
        return there
    launch = {name: getattr(there, name) for name in _LAUNCH}
    spilled = with_local_memory(work.with_values(**launch), target, np.nan_to_num(far), moved * rows)
    words = moved / (4 * target.integer("sm.warp_lanes"))
    spilled = spilled.with_values(
        instructions=work.instructions + words, memory_requests=work.memory_requests + words
    )
    values: dict[str, Any] = {}
    for name in KernelWork.__dataclass_fields__:
        if name not in (*_MEASURED, *_LAUNCH):
            own, told = getattr(there, name), getattr(spilled, name)
            values[name] = np.where(rows if own.ndim == 1 else rows[:, None], told, own)
    return there.with_values(**values)
