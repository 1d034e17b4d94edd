"""Instructions that each arithmetic pipe executed, from whatever a profile tells of it.

A pipe's counters come as counts, as cycles in which it was busy, or as a share of its peak. A share goes over
the cycles in which the schedulers worked, which are the executed instructions over the share of cycles that
issue one: neither hangs on a clock. The peak is one instruction in the pipe's interval, which the GPU's
description tells.

Where the ALU was not counted, it had what is left: FP32 and integer instructions run on the multiply-add
pipe, on the ALU (comparisons, minima, logic, sums of integers) or as a special function, and the first and
the last were counted. Threads that a predicate switched off are in no count by kind, but take their turn in a
pipe as the others do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from smlab.hw_bench.profiles.work.kernel_work import Floats
from smlab.hw_bench.profiles.work.roofline_counters import CounterReader

_PARTS: Final = {"fma": ("fmaheavy", "fmalite")}
"""Pipes that newer profilers count in two."""

_DESCRIBED: Final = {"fma": "fp32", "alu": "int32", "xu": "sfu"}
"""The descriptions' names of the pipes."""

_KINDS: Final = ("fp16", "fp32", "fp64", "integer", "control", "memory", "misc", "conversion")
"""By which thread-instructions are counted; every instruction is of one kind."""

_INST: Final = ("inst",)


@dataclass(frozen=True, eq=False)
class PipeInstructions:
    """Warp-instructions by pipe, (launches,) each; NaN where nothing tells.

    ``fma`` has FP32 multiply-adds, sums and products and integer multiply-adds, ``alu`` comparisons and all
    other integer instructions, ``xu`` special functions and conversions.
    """

    fma: Floats
    alu: Floats
    xu: Floats


def pipe_instructions(read: CounterReader, instructions: Floats, thread: Floats) -> PipeInstructions:
    """Of every launch, which executed ``instructions`` with ``thread`` active threads together, (launches,).

    Shares of a peak and busy cycles need a GPU. `SmlabError` for a share or a unit that cannot be.
    """
    fma, alu, xu = (_of_pipe(read, pipe, instructions) for pipe in _DESCRIBED)
    rest = _left_for_alu(read, instructions, thread, fma, xu)
    read.flag(
        np.isnan(alu) & ~np.isnan(rest),
        "instructions of the ALU from what the multiply-add and special-function pipes leave",
    )
    return PipeInstructions(fma, np.where(np.isnan(alu), rest, alu), xu)


def _of_pipe(read: CounterReader, pipe: str, instructions: Floats) -> Floats:
    get = read.pivot.get
    counted = read.first(_names("inst_executed_pipe_{}.sum", pipe), _INST)
    for parts in [_PARTS[pipe]] if pipe in _PARTS else []:
        both = [read.first(_names("inst_executed_pipe_{}.sum", part), _INST) for part in parts]
        counted = np.where(np.isnan(counted), np.sum(both, axis=0), counted)
    if read.gpu is None:
        return counted
    interval = float(read.gpu.number(f"pipe.{_DESCRIBED[pipe]}.interval_cycles"))
    busy = get(f"smsp__pipe_{pipe}_cycles_active.sum", ("cycle",))
    percent = read.first(
        tuple(
            name
            for stem in ("inst_executed_pipe_{}", "pipe_{}_cycles_active")
            for name in _names(stem + ".avg.pct_of_peak_sustained_active", pipe)
        ),
        ("%",),
    )
    issuing = get("smsp__issue_active.avg.pct_of_peak_sustained_active", ("%",)) / 100
    with np.errstate(divide="ignore", invalid="ignore"):
        scheduler_cycles = np.where(issuing > 0, instructions / issuing, np.nan)
    told = np.where(np.isnan(busy), percent / 100 * scheduler_cycles, busy) / interval
    return np.where(np.isnan(counted), np.minimum(told, instructions), counted)


def _left_for_alu(
    read: CounterReader, instructions: Floats, thread: Floats, fma: Floats, xu: Floats
) -> Floats:
    """FP32 and integer instructions that neither the multiply-add pipe nor the special functions had."""
    kinds = {k: read.first(_names("sass_thread_inst_executed_op_{}_pred_on.sum", k), _INST) for k in _KINDS}
    executed = np.sum(list(kinds.values()), axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        lanes = thread / instructions
        switched_off = np.where(executed > 0, np.maximum(thread / executed, 1.0), 1.0)
        both = (kinds["fp32"] + kinds["integer"]) * switched_off / lanes
    return np.maximum(both - fma - np.nan_to_num(xu), 0.0)


def _names(stem: str, of: str) -> tuple[str, ...]:
    return tuple(f"{unit}__{stem.format(of)}" for unit in ("smsp", "sm"))
