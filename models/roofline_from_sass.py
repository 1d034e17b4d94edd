"""What a kernel executes on another GPU, from its machine code for both (Van Lanker et al. 2024, Section
4.2).

The counters say how many floating-point operations the source GPU executed. The machine code of both says by
how much a pass through each loop differs. How often a loop is executed, the code does not say: where the two
differ in some loops and not in others, the ratio depends on it, so it is given as an interval over
`LOOP_EXECUTIONS` (assumed), and over whether rare slow paths are taken. Where every loop has the same
operations, the ratio is exactly 1, whatever is executed how often.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np
from smlab.hw_bench.profiles.kernel_work import PRECISIONS, KernelWork
from smlab.hw_bench.sass import CodeComparison, CodeComparisons, Precision

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
    found = [
        code.ratio(precision, loop_executions=times, rare_share=rare)
        for times, rare in product(LOOP_EXECUTIONS, (0.0, 1.0))
    ]
    mid = code.ratio(precision, loop_executions=TYPICAL_EXECUTIONS)
    known = [ratio for ratio in found if ratio is not None]
    if mid is None or len(known) < len(found):
        return OperationRatio(precision, None, None, None)
    return OperationRatio(precision, mid, min(known), max(known))


def operation_ratios(code: CodeComparison) -> tuple[OperationRatio, ...]:
    """The ratios of all precisions, in the order of `PRECISIONS`."""
    return tuple(operation_ratio(code, precision) for precision in PRECISIONS)


def target_work(work: KernelWork, code: CodeComparisons) -> KernelWork:
    """The same kernels with the operations that they execute on the target; for
    `smlab.models.roofline.project`.

    ``add``, ``mul`` and ``fma`` change, each kind by its own ratio (a kind that only the target's code has,
    in proportion to all operations of its precision). Each kernel that changes, and each that is not in both
    files, gets a flag. The number of instructions and the memory traffic stay: spills and the like are not
    compared.
    """
    counts = {name: getattr(work, name).copy() for name in _OPERATIONS}
    flagged = work
    for row, name in enumerate(work.kernel.tolist()):
        here = np.arange(len(work)) == row
        found = code.of(str(name))
        if found is None:
            flagged = flagged.flagged(here, "not in both files of machine code: operations as on the source")
            continue
        if found.same_operations:
            continue
        for column in range(len(PRECISIONS)):
            _scale(counts, row, column, found)
        told = ", ".join(str(r) for r in operation_ratios(found) if r.mid != 1.0)
        if told:
            flagged = flagged.flagged(here, f"operations from machine code: {told}")
    return replace(flagged, **counts)


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
