"""Which rows of a data set may be fitted: those of kernels that ran the machine code they should, and counted
right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.cuda.measuring.plan import AGAIN
from smlab.validation.calibrate.cases import SkippedCase


def trusted_rows(
    table: Mapping[str, NDArray[Any]], about: Mapping[str, Any], skipped: list[SkippedCase]
) -> dict[str, NDArray[Any]]:
    """The rows of ``table`` without those of kernels whose machine code broke the contract, or of launches
    with wrong results, as the data set's note ``about`` tells; what is left out is added to ``skipped``."""
    names = [f"{op}/{form}" for op, form in zip(table["operation"], table["form"], strict=True)]
    kernels = np.array(names, dtype="U48")
    kept = np.ones(len(kernels), dtype=bool)
    for name, code in about.get("machine_code", {}).items():
        if code.get("keeps_contract") is False:
            _leave_out(kernels == name, kept, skipped, name, f"its machine code: {code.get('fault')}")
    loops = [f"{n}/{b}" for n, b in zip(table["iterations"], table["blocks"], strict=True)]
    batches = np.char.add(np.char.add(kernels, "/"), np.array(loops, dtype="U24"))
    for name, batch in about.get("batches", {}).items():
        if batch.get("wrong_results"):
            _leave_out(
                batches == name.removesuffix(AGAIN),
                kept,
                skipped,
                name,
                f"{batch['wrong_results']} wrong results",
            )
    return {column: values[kept] for column, values in table.items()}


def _leave_out(
    rows: NDArray[np.bool_], kept: NDArray[np.bool_], skipped: list[SkippedCase], what: str, reason: str
) -> None:
    if (rows & kept).any():
        skipped.append(SkippedCase(what, int((rows & kept).sum()), reason))
    kept &= ~rows
