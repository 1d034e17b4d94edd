"""Causes of the ratios of ``smlab port``, and what ratios are expected, from descriptions and counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from smlab.commands.port.code import with_code, with_spills
from smlab.hw_bench.datasets.timed_work import work_of_times
from smlab.hw_bench.datasets.tuning import TuningTimes
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.gpu.devices import gpu_called
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.hw_bench.sass import CodeComparison
from smlab.models.portability.causes import CAUSES, Causes, causes
from smlab.models.portability.ratios import Ratios
from smlab.models.roofline.ceilings import ceilings

Floats = NDArray[np.float64]
Expect = Literal["same", "peak", "roofline", "project"]
EXPECT: Final = get_args(Expect)

TITLES: Final[Mapping[str, str]] = {
    "launch_overhead": "launch overhead",
    "sms": "number of SMs",
    "tail": "tail of the grid",
    "occupancy": "occupancy",
    "clock": "clock",
    "dram": "DRAM",
    "l2": "L2",
    "shared": "L1 and shared memory",
    "arithmetic": "pipes and issue",
    "code": "compiled code",
    "unexplained": "unexplained",
    "sms and tail": "SMs and tail",
    "nothing": "nothing to explain",
}
"""The terms as tables name them."""

assert set(CAUSES) < set(TITLES)


@dataclass(frozen=True, eq=False)
class Explained:
    """Causes of the ratios of one platform: of the matched ``rows`` that have a launch or counters.

    ``expected`` is the ratio expected of each matched row, NaN where there is no saying.
    """

    rows: NDArray[np.int64]
    causes: Causes | None
    expected: Floats


def gpu_of(name: str, times: TuningTimes, gpus: Mapping[str, Gpu]) -> Gpu | None:
    """The description of a platform: the one given, or that of its name, or of the device that its file
    names."""
    if name in gpus:
        return gpus[name]
    try:
        return load_gpu(name)
    except SmlabError:
        return gpu_called(times.device) if times.device else None


def at_clock(name: str, gpu: Gpu | None, clock_hz: float | None) -> Gpu | None:
    """The GPU at the SM clock that it was seen to run at; as it is without one."""
    if clock_hz is None or gpu is None:
        return gpu
    return gpu.with_values({"clock.sm_hz": clock_hz}, "seen while it ran", "measured", f"--clock {name}")


def explain(
    times: tuple[TuningTimes, TuningTimes],
    rows: NDArray[np.int64],
    steady_s: Floats,
    gpus: tuple[Gpu | None, Gpu | None],
    pair: tuple[NDArray[np.int64], Ratios] | None,
    expect: Expect,
    codes: Sequence[CodeComparison | None] | None = None,
) -> Explained:
    """Causes for the matched ``rows`` (matched, 2) of two platforms with ``steady_s`` (matched, 2); ``codes``
    is the machine code of each on both, where it is known."""
    count = len(rows)
    expected = np.full(count, 1.0 if expect == "same" else np.nan)
    source, target = gpus
    if source is None or target is None:
        if expect != "same":
            raise SmlabError.at("--expect", "needs a description of both GPUs", expect, "--gpu NAME=GPU")
        return Explained(np.arange(0), None, expected)
    if expect == "peak":
        expected[:] = source.number("peak.fp32_flops_per_s") / target.number("peak.fp32_flops_per_s")
    work = work_of_times(times[0], rows[:, 0], steady_s[:, 0], source)
    there = work_of_times(times[1], rows[:, 1], steady_s[:, 1], target)
    log_ratio = np.log(steady_s[:, 1] / steady_s[:, 0])
    error = np.zeros(count)
    if pair is not None:
        log_ratio[pair[0]] = np.log(pair[1].ratio)
        error[pair[0]] = np.log(pair[1].high / pair[1].low) / 2
    told = np.flatnonzero(~np.isnan(work.blocks) | (np.nan_to_num(work.instructions) > 0))
    if not len(told):
        if expect in ("roofline", "project"):
            raise SmlabError.at("--expect", f"{times[0].path} has neither launches nor counters", expect)
        return Explained(told, None, expected)
    uncounted = np.isnan(there.instructions)
    local = (times[0].local_bytes_per_thread[rows[:, 0]], times[1].local_bytes_per_thread[rows[:, 1]])
    if codes is not None:
        # The target's cubin alone tells of no change; what the files tell of local memory does.
        alone = [code is not None and code.source.footprint is None for code in codes]
        known = [None if a and m else c for c, a, m in zip(codes, alone, local[1] > local[0], strict=True)]
        there = with_code(there, work, known, target)
    there = with_launch_of(there, work)
    there = with_spills(there, work, local, target)
    found = causes(
        work.take(told),
        source,
        target,
        log_ratio[told],
        error[told],
        target_work=there.take(told),
        by_code=(uncounted & ~np.isnan(there.instructions))[told],
    )
    if expect == "project":
        expected[told] = np.exp(found.modelled)
    elif expect == "roofline":
        bounds = [ceilings(w, g).bound_s for w, g in ((work, source), (work, target))]
        with np.errstate(invalid="ignore", divide="ignore"):
            expected = np.where(bounds[0] > 0, bounds[1] / bounds[0], np.nan)
    return Explained(told, found, expected)


def with_launch_of(there: KernelWork, work: KernelWork) -> KernelWork:
    """The target's work with the source's launch where its own is not known."""
    names = ("blocks", "threads_per_block", "registers_per_thread", "shared_bytes_per_block")
    values: dict[str, Any] = {
        n: np.where(np.isnan(getattr(there, n)), getattr(work, n), getattr(there, n)) for n in names
    }
    return there.with_values(**values)


def terms_of(causes: Causes, row: int) -> dict[str, Any]:
    """The keys of a row of ``kernels`` that tell of causes."""
    terms = {
        name: {
            "log": float(causes.terms[row, c]),
            "low": float(causes.low[row, c]),
            "high": float(causes.high[row, c]),
        }
        for c, name in enumerate(CAUSES)
    }
    left = (causes.unexplained[row], causes.unexplained_low[row], causes.unexplained_high[row])
    return {
        "terms": terms,
        "unexplained": dict(zip(("log", "low", "high"), map(float, left), strict=True)),
        "dominant": causes.dominant(row),
        "counted": bool(causes.counted[row]),
    }


def stall_difference(source: Mapping[str, float], target: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Shares of the stalled warp-cycles by reason on both GPUs, the largest change first."""
    both = {r: (source.get(r, 0.0), target.get(r, 0.0)) for r in {*source, *target}}
    order = sorted(both, key=lambda r: (-abs(both[r][1] - both[r][0]), r))
    return {r: {"source": both[r][0], "target": both[r][1], "change": both[r][1] - both[r][0]} for r in order}


def checked_expect(word: str) -> Expect:
    """``word`` if it is one of `EXPECT`, else `SmlabError`."""
    if word not in EXPECT:
        raise SmlabError.at("--expect", "unknown expectation", word, "one of " + ", ".join(EXPECT))
    return cast(Expect, word)
