"""The thesis's kernels, executed: what the record holds, and what cannot be one."""

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.validation.papers.claims.executed_grids import executed_grids
from smlab.validation.papers.claims.published import grid_table

KERNELS = (
    *("butterfly", "neighbour", "bank-4", "bank-8", "bank-16", "bank-32"),
    *("scan-conflicts", "scan-padded"),
)


@pytest.mark.parametrize("table", KERNELS)
def test_every_grid_of_the_thesis_was_run(table: str) -> None:
    grids, printed = executed_grids(table), grid_table(table)
    ratio = grids.ratio(printed.blocks)
    assert ((ratio > 0.4) & (ratio < 1.2)).all()
    # At the descriptions' own clocks the A100, whose clock is higher, is ahead by just that.
    at = [grids.blocks.index(b) for b in printed.blocks]
    assert np.allclose((grids.new_s / grids.old_s)[at] * grids.clocks_hz[1] / grids.clocks_hz[0], ratio)


def test_a_grid_that_was_not_run_is_told() -> None:
    with pytest.raises(SmlabError, match="no such grid was run"):
        executed_grids("butterfly").ratio((8, 9))
    with pytest.raises(SmlabError, match="not executed"):
        executed_grids("permutation")
