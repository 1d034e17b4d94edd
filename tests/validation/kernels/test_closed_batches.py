"""What batches of operations without a result take with no code around them, in one block and in two."""

import numpy as np

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.calibrate.cases import WHERE, Cases
from smlab.validation.kernels.benchmark import closed_cycles


def test_what_a_block_does_not_hold_comes_in_two() -> None:
    values = {"warps": [16, 32, 48, 64], "lanes": 32, "same_word": 32, "same_bank": 1, "iterations": 1}
    where = np.array([np.broadcast_to(values.get(name, 0), 4) for name in WHERE])
    cases = Cases.build(["add"] * 4, "closed", where, np.ones(4), 1.0)
    cycles = closed_cycles(cases, load_gpu("v100"))
    # The unit is one for all blocks of an SM: each sixteen warps more take as long.
    assert np.allclose(np.diff(cycles), cycles[1] - cycles[0], rtol=0.01)
