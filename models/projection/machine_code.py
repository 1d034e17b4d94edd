"""What a kernel executes on another GPU, from its machine code for both (Van Lanker et al. 2024, Section
4.2).

The counters say how many floating-point operations the source GPU executed. The machine code of both says by
how much a pass through each loop differs. The code does not say how often a loop is executed. If the two
codes differ in some loops and not in others, the ratio depends on that. So the ratio is an interval over
`LOOP_EXECUTIONS` (assumed), and over whether rare slow paths are taken. Where every loop has the same
operations, the ratio is exactly 1, whatever is executed how often.

The code also says what no counter of the source does: the registers and the shared memory that the target's
compiler takes, and what it spills. Warp-instructions and requests to memory change by the difference of the
two codes, each loop executed as often as makes the source's instructions those that were counted
(`executions_seen`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import PRECISIONS, KernelWork
from smlab.hw_bench.sass import CodeComparison, CodeComparisons, Precision
from smlab.models.projection.spills import with_local_memory

LOOP_EXECUTIONS: Final = (1.0, 10.0, 100.0, 1000.0)
TYPICAL_EXECUTIONS: Final = 100.0
"""Assumed: how often a loop's body is executed for each time that the loop is entered."""

_LETTERS: Final = {"fp16": "h", "fp32": "f", "fp64": "d"}
_OPERATIONS: Final = ("add", "mul", "fma")


@dataclass(frozen=True)
class OperationRatio:
    """Floating-point operations on the target over those on the source: of typical executions, and the
    interval.

    None where only the target's code has operations of this precision.
    """

    precision: Precision
    mid: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.mid is None or self.low is None or self.high is None:
            return f"{self.precision} only on the target"
        return f"{self.precision} x {self.mid:.3f} ({self.low:.3f} to {self.high:.3f})"


def operation_ratio(code: CodeComparison, precision: Precision) -> OperationRatio:
    """The ratio for one precision, with the interval over what the code cannot tell."""
    if code.same_operations:
        return OperationRatio(precision, 1.0, 1.0, 1.0)
    ratios = [
        code.ratio(precision, loop_executions=times, rare_share=rare)
        for times, rare in product(LOOP_EXECUTIONS, (0.0, 1.0))
    ]
    mid = code.ratio(precision, loop_executions=TYPICAL_EXECUTIONS)
    known = [ratio for ratio in ratios if ratio is not None]
    if mid is None or len(known) < len(ratios):
        return OperationRatio(precision, None, None, None)
    return OperationRatio(precision, mid, min(known), max(known))


def operation_ratios(code: CodeComparison) -> tuple[OperationRatio, ...]:
    """The ratios of all precisions, in the order of `PRECISIONS`."""
    return tuple(operation_ratio(code, precision) for precision in PRECISIONS)


def target_work(work: KernelWork, code: CodeComparisons, target: Gpu | None = None) -> KernelWork:
    """The same kernels with what they execute on the target, by name; see `work_by_code`."""
    return work_by_code(work, [code.of(str(name)) for name in work.kernel], target)


def work_by_code(
    work: KernelWork, code: Sequence[CodeComparison | None], target: Gpu | None = None
) -> KernelWork:
    """The same kernels with what they execute on the target, each by its code (None where there is none);
    for `smlab.models.roofline.project`.

    ``add``, ``mul`` and ``fma`` change, each kind by its own ratio (a kind that only the target's code has,
    in proportion to all operations of its precision); instructions, requests and shared wavefronts by the
    difference; registers and shared memory become the target's. What the target's code moves to and from
    local memory is added to the traffic as far as ``target`` tells where it goes
    (`smlab.models.projection.spills`). Each kernel that changes, and each without code, gets a flag.
    """
    names = (*_OPERATIONS, *_ISSUED, "registers_per_thread", "shared_bytes_per_block")
    counts = {name: getattr(work, name).copy() for name in names}
    per_thread, moved = np.zeros(len(work)), np.zeros(len(work))
    flagged = work
    for row, kernel_code in enumerate(code):
        here = np.arange(len(work)) == row
        if kernel_code is None:
            flagged = flagged.flagged(here, "not in both files of machine code: operations as on the source")
            continue
        if not kernel_code.same_operations:
            for column in range(len(PRECISIONS)):
                _scale(counts, row, column, kernel_code)
            ratios = ", ".join(str(r) for r in operation_ratios(kernel_code) if r.mid != 1.0)
            if ratios:
                flagged = flagged.flagged(here, f"operations from machine code: {ratios}")
        moved[row] = _issue(counts, work, row, kernel_code)
        notes = _reserve(counts, work, row, kernel_code)
        if kernel_code.target.footprint is not None:
            per_thread[row] = kernel_code.target.footprint.local_bytes or 0.0
        if moved[row] > 0:
            notes.append(f"{per_thread[row]:g} bytes of local memory a thread")
        if notes:
            flagged = flagged.flagged(here, f"the target's code takes {', '.join(notes)}")
    found_work = replace(flagged, **counts)
    return found_work if target is None else with_local_memory(found_work, target, per_thread, moved)


_ISSUED: Final = ("instructions", "thread_instructions", "memory_requests", "shared_wavefronts")
MOST_EXECUTIONS, HALVINGS = 1e6, 60


def executions_seen(work: KernelWork, row: int, code: CodeComparison) -> float | None:
    """How often each loop's body was executed for each time that it was entered: one number for all loops of
    the source's code. With it the code has the warp-instructions that were counted. None where that is not
    known.
    """
    warps = _warps(work, row)
    executed = float(work.instructions[row]) / warps if warps else np.nan
    if not executed > 0:
        return None
    low, high = np.log(1 / MOST_EXECUTIONS), np.log(MOST_EXECUTIONS)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        fewer = code.source.issued(float(np.exp(middle))).instructions < executed
        low, high = (middle, high) if fewer else (low, middle)
    return float(np.exp(high))


def _warps(work: KernelWork, row: int) -> float:
    """Warps of the grid; 0 where the launch is not known."""
    blocks, threads = float(work.blocks[row]), float(work.threads_per_block[row])
    return 0.0 if np.isnan(blocks * threads) else blocks * np.ceil(threads / 32)


def _issue(counts: dict[str, np.ndarray], work: KernelWork, row: int, code: CodeComparison) -> float:
    """Add what the target's code issues more, in place; bytes moved to and from local memory beyond what
    the source's code moves (0 or more)."""
    times = executions_seen(work, row, code)
    if times is None:
        return 0.0
    before, after = code.source.issued(times), code.target.issued(times)
    warps = _warps(work, row)
    grown = max(1.0 + warps * (after.instructions - before.instructions) / counts["instructions"][row], 0.1)
    counts["instructions"][row] *= grown
    counts["thread_instructions"][row] *= grown
    more = warps * (after.requests - before.requests)
    counts["memory_requests"][row] = max(counts["memory_requests"][row] + more, 0.0)
    if before.shared > 0:
        counts["shared_wavefronts"][row] *= after.shared / before.shared
    return max(0.0, warps * 32 * (after.local_bytes - before.local_bytes))


def _reserve(counts: dict[str, np.ndarray], work: KernelWork, row: int, code: CodeComparison) -> list[str]:
    """Registers and shared memory of the target's code, in place; what changed, in words."""
    before, after = code.source.footprint, code.target.footprint
    if after is None:
        return []
    notes = []
    if work.registers_per_thread[row] != after.registers:
        notes.append(f"{after.registers} registers ({work.registers_per_thread[row]:g} on the source)")
    counts["registers_per_thread"][row] = after.registers
    if before is not None and None not in (before.shared_bytes, after.shared_bytes):
        assert before.shared_bytes is not None
        assert after.shared_bytes is not None
        if after.shared_bytes != before.shared_bytes:
            notes.append(f"{after.shared_bytes:,} bytes of shared memory")
            counts["shared_bytes_per_block"][row] += after.shared_bytes - before.shared_bytes
    return notes


def _scale(counts: dict[str, np.ndarray], row: int, column: int, code: CodeComparison) -> None:
    """Scale the operations of one kernel and precision, in place."""
    letter = _LETTERS[PRECISIONS[column]]
    of_source, of_target = (s.total(TYPICAL_EXECUTIONS) for s in (code.source, code.target))
    before, after = (
        {kind: float(getattr(side, f"{letter}{kind}")) for kind in _OPERATIONS}
        for side in (of_source, of_target)
    )
    executed = {kind: float(counts[kind][row, column]) for kind in _OPERATIONS}
    all_before, all_executed = sum(before.values()), float(np.nansum(list(executed.values())))
    for kind in _OPERATIONS:
        if before[kind] > 0:
            counts[kind][row, column] = executed[kind] * after[kind] / before[kind]
        elif after[kind] > 0 and all_before > 0:
            counts[kind][row, column] = after[kind] * all_executed / all_before
