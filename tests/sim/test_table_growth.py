"""The compiled engine's tables grow while it runs: results are those of tables that were large enough."""

import pytest

from smlab.sim import compiled
from smlab.sim.compiled import kernel_arrays
from smlab.sim.lowering import LoweredKernel
from smlab.sim.reference import Record
from smlab.sim.traces.compare import first_difference
from smlab.validation.laws.strategies import for_each_drawn, lowered_kernels

SIZES = ((1, 64), (40, 16), (300, 500))
"""Rows and accesses that the tables begin with."""


def test_results_do_not_hang_on_how_large_tables_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """Growth comes at another event with each size: while SMs run, while blocks are launched, and while the
    requests of a window are served. A kernel takes far longer to draw than to run, so each is run with all
    sizes."""
    several = []

    def one(lowered: LoweredKernel) -> None:
        expected = compiled.run(lowered, Record.ALL)
        for rows, accesses in SIZES:
            with monkeypatch.context() as patch:
                patch.setattr(kernel_arrays, "FIRST_ROWS", rows)
                patch.setattr(kernel_arrays, "FIRST_ACCESSES", accesses)
                found = compiled.run(lowered, Record.ALL)
            assert first_difference(expected, found) is None, (rows, accesses)
        several.append(lowered.kernel.sms > 1)

    for_each_drawn(lowered_kernels(), 200, 1, one)
    assert any(several)
