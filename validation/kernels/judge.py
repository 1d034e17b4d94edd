"""Measured and executed side by side: ratios of counters, errors of times, and baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import spearmanr

from smlab.hw_bench.datasets.tuning import TuningTimes
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.validation.method.metrics import ErrorTable, error_table
from smlab.validation.projection.operators.judge import best_constant

Floats = NDArray[np.float64]

ALIKE: Final = 1.5
"""Registers of our compiler over theirs, or theirs over ours, up to which it is taken for the same kernel."""
_KIND: Final = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
_WAVEFRONTS: Final = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
COUNTERS: Final = {
    "executed instructions": (("smsp__inst_executed.sum",), ("warp_instructions",), 1.0),
    **{
        f"{name} operations": ((_KIND.format(kind),), (f"count.{kind}",), 1.0)
        for name, kind in (
            *(("FP32", "fp32"), ("integer", "integer"), ("control", "control"), ("memory", "memory")),
            ("other", "misc"),
        )
    },
    "shared wavefronts": (
        (_WAVEFRONTS.format("ld"), _WAVEFRONTS.format("st")),
        ("count.shared_wavefronts_load", "count.shared_wavefronts_store"),
        1.0,
    ),
    "global load requests": (
        ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",),
        ("count.global_requests_load",),
        1.0,
    ),
    "DRAM sectors read": (("dram__bytes_read.sum",), ("count.dram_sectors_read",), 32.0),
    "DRAM sectors written": (("dram__bytes_write.sum",), ("count.global_lanes_store",), 4.0),
}
"""Measured counters (summed), our responses (summed), and what a measured one is divided by. L2 still holds
some of what was written when a kernel ends, and each word of this one's result is written once: so words
stored stand for sectors written."""


@dataclass(frozen=True)
class CounterRatio:
    """Ours over measured, row by row; ``equal`` counts the rows that agree exactly."""

    counter: str
    n: int
    equal: int
    median: float
    p5: float
    p95: float


@dataclass(frozen=True)
class TimeErrors:
    """Errors of predicted times of one group of rows, at one clock."""

    rows: str
    clock: str
    clock_hz: float
    errors: ErrorTable
    spearman: float
    baselines: dict[str, ErrorTable]

    def as_json(self) -> dict[str, Any]:
        return {
            **{"rows": self.rows, "clock": self.clock, "clock_hz": self.clock_hz, "spearman": self.spearman},
            **self.errors.as_row(),
            "baselines": {name: table.as_row() for name, table in self.baselines.items()},
        }


def measured_columns(times: TuningTimes, rows: list[int], clock_hz: float) -> pd.DataFrame:
    """What was measured of the rows: seconds, registers, local bytes, every counter, and the clock of the run
    as its counters tell it (NaN where there are none)."""
    frame = pd.DataFrame(
        {
            "measured_s": times.seconds[rows],
            "measured_registers": times.registers_per_thread[rows],
            "measured_local_bytes": times.local_bytes_per_thread[rows],
        }
    )
    if times.counters is not None:
        table, place = times.counters, {row: n for n, row in enumerate(rows)}
        for i in range(len(table)):
            row = place.get(int(table.launch[i]))
            if row is not None:
                frame.loc[row, str(table.counter[i])] = float(table.value[i])
    return frame


def told_clock_hz(frame: pd.DataFrame, schedulers: int) -> float:
    """The median clock that counters tell: instructions over schedulers and the share of cycles in which they
    issued are the cycles of the run. NaN where nothing was counted."""
    share = "smsp__issue_active.avg.pct_of_peak_sustained_active"
    if share not in frame:
        return float("nan")
    cycles = frame["smsp__inst_executed.sum"] / schedulers / (frame[share] / 100)
    return float(np.median(cycles / frame["measured_s"]))


def counter_ratios(frame: pd.DataFrame) -> list[CounterRatio]:
    """Of all counters that were measured."""
    found = []
    for name, (theirs, ours, unit) in COUNTERS.items():
        if all(t in frame for t in theirs):
            measured = frame[list(theirs)].sum(axis=1).to_numpy() / unit
            own = frame[list(ours)].sum(axis=1).to_numpy()
            ratio = own / measured
            equal = int(np.sum(np.abs(own - measured) < 0.5))
            low, middle, high = np.percentile(ratio, (5, 50, 95))
            found.append(CounterRatio(name, len(ratio), equal, float(middle), float(low), float(high)))
    return found


def time_errors(frame: pd.DataFrame, gpu: Gpu) -> list[TimeErrors]:
    """At the description's clock, and at the one that the run's own counters tell; all rows, those whose
    registers agree, and those whose threads have as much altogether, in registers and spilled."""
    groups = {
        f"registers within {ALIKE}": _alike(frame["registers"], frame["measured_registers"]),
        f"registers and spills within {ALIKE}": _alike(
            4 * frame["registers"] + frame["local_bytes"],
            4 * frame["measured_registers"] + frame["measured_local_bytes"],
        ),
        "all": np.ones(len(frame), dtype=bool),
    }
    clocks = {"description": gpu.number("clock.sm_hz")}
    told = told_clock_hz(frame, gpu.integer("gpu.sms") * gpu.integer("sm.schedulers"))
    if np.isfinite(told):
        clocks["counters of the run"] = told
    found = []
    for clock, hz in clocks.items():
        predicted = frame["cycles"].to_numpy() / hz
        others = baselines(frame, gpu, hz)
        for name, rows in groups.items():
            if rows.sum() < 2:
                continue
            truth = frame["measured_s"].to_numpy()[rows]
            told_by = {
                key: error_table(value[rows] * (best_constant(value[rows], truth) if scaled else 1.0), truth)
                for key, (value, scaled) in others.items()
            }
            peak = others["peak"][0][rows]
            table = error_table(predicted[rows], truth, baseline=peak)
            rank = float(spearmanr(predicted[rows], truth).statistic)
            found.append(TimeErrors(name, clock, hz, table, rank, told_by))
    return found


def _alike(ours: pd.Series[float], theirs: pd.Series[float]) -> NDArray[np.bool_]:
    return np.asarray(np.maximum(ours / theirs, theirs / ours) <= ALIKE)


def baselines(frame: pd.DataFrame, gpu: Gpu, hz: float) -> Mapping[str, tuple[Floats, bool]]:
    """Seconds by simpler means, from our own counts; the last one gets the constant that suits the truth
    best.

    *peak*: operations over the FP32 peak at the clock. *roofline*: the greater of that and of DRAM's bytes
    over the sustained bandwidth. *busiest unit*: the greatest of FP32, wavefronts, issue and DRAM, no
    latency. *counts with occupancy*: issue cycles over the share of warps that are resident, times a constant
    fitted to the measured times.
    """
    sms, schedulers = gpu.integer("gpu.sms"), gpu.integer("sm.schedulers")
    flops = 2 * frame["count.fp32"].to_numpy()
    per_cycle = 2 * 32 * sms * schedulers / gpu.number("pipe.fp32.interval_cycles")
    peak = flops / per_cycle / hz
    moved = (32 * frame["count.dram_sectors_read"] + 4 * frame["count.global_lanes_store"]).to_numpy()
    dram = moved / gpu.number("dram.sustained_bandwidth_bytes_per_s")
    issue = frame["warp_instructions"].to_numpy() / (sms * schedulers * hz)
    shared = (frame["count.shared_wavefronts_load"] + frame["count.shared_wavefronts_store"]).to_numpy()
    wavefronts = shared * gpu.number("shared.interval_cycles_per_pass") / (sms * hz)
    share = frame["resident_warps"].to_numpy() / gpu.integer("sm.max_warps")
    return {
        "peak": (peak, False),
        "roofline": (np.maximum(peak, dram), False),
        "busiest unit": (np.max([peak, dram, issue, wavefronts], axis=0), False),
        "counts with occupancy": (issue / share, True),
    }


def best_of(frame: pd.DataFrame, count: int = 10) -> float:
    """How much slower the best of the ``count`` rows predicted fastest is than the best of all, percent."""
    chosen = frame.nsmallest(count, "cycles")["measured_s"].min()
    return float(100 * (chosen / frame["measured_s"].min() - 1))
