"""What timed kernels do, as far as their file tells: counters where it holds some, the launch in any case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.datasets.tuning import TuningTimes
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import KernelWork, object_array
from smlab.hw_bench.profiles.work.roofline_quantities import roofline_quantities

_LAUNCH: Final = ("blocks", "threads_per_block", "registers_per_thread", "shared_bytes_per_block")
_STALLED: Final = re.compile(r"(?:issue_stalled|warps_issue_stalled|stall)_(\w+?)(?:_not_issued|_per_|\.|$)")


def work_of_times(
    times: TuningTimes, rows: NDArray[np.int64], seconds: NDArray[np.float64], gpu: Gpu
) -> KernelWork:
    """The work of some rows, with ``seconds`` as their times, (rows,).

    Rows that were not profiled have their launch alone; all else of them is NaN.
    """
    launch = {name: getattr(times, name)[rows] for name in _LAUNCH}
    launch = {n: np.where(v > 0, v, np.nan) if n in _LAUNCH[:2] else v for n, v in launch.items()}
    names = [str(k) for k in times.kernel[rows]]
    bare = KernelWork.of(names, seconds, launch=rows, **launch)
    if times.counters is None:
        return bare
    try:
        counted = roofline_quantities(times.profile(), gpu).work
    except SmlabError:
        return bare  # times alone, no counter that tells of work
    at = {int(number): i for i, number in enumerate(counted.launch)}
    have = [i for i, row in enumerate(rows.tolist()) if row in at]
    if not have:
        return bare
    picked = counted.take(np.array([at[int(rows[i])] for i in have]))
    merged = {}
    for name in KernelWork.__dataclass_fields__:
        values, values_of_own = getattr(bare, name).copy(), getattr(picked, name)
        if name in _LAUNCH:
            values_of_own = np.where(np.isnan(values_of_own), values[have], values_of_own)
        values[have] = object_array(values_of_own) if values.dtype == object else values_of_own
        merged[name] = values
    merged["seconds"] = np.asarray(seconds, dtype=np.float64).copy()
    # A profiler runs a kernel more slowly than its time was taken: its clock is not that of the time.
    with np.errstate(invalid="ignore", divide="ignore"):
        disagrees = np.abs(merged["cycles"] / merged["clock_hz"] / merged["seconds"] - 1) > CLOCK_APPLIES
    merged["clock_hz"] = np.where(disagrees, np.nan, merged["clock_hz"])
    return KernelWork(**merged)


CLOCK_APPLIES: Final = 0.03
"""Up to this relative difference, the profiled run and the timed one are one."""


def stalls_of(times: TuningTimes) -> Mapping[int, Mapping[str, float]]:
    """Of each row whose stalls were counted: the share of each reason in all stalled warp-cycles."""
    if times.counters is None:
        return {}
    table = times.counters
    reasons = {c: m.group(1) for c in set(table.counter.tolist()) if (m := _STALLED.search(c))}
    wanted = np.flatnonzero(np.isin(table.counter.astype(str), list(reasons)))
    stalls: dict[int, dict[str, float]] = {}
    for at in wanted.tolist():
        if table.value[at] >= 0:
            stalls.setdefault(int(table.launch[at]), {}).setdefault(
                reasons[str(table.counter[at])], float(table.value[at])
            )
    totals = {row: sum(values.values()) for row, values in stalls.items()}
    return {
        row: {reason: value / totals[row] for reason, value in values.items()}
        for row, values in stalls.items()
        if totals[row] > 0
    }
