"""What warps do, counted by the instruction that they are at: equal in both engines, and it adds up."""

from dataclasses import replace

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import compiled, reference
from smlab.sim.address_patterns import Grouped
from smlab.sim.instructions import Reason
from smlab.sim.lowering import lower
from smlab.sim.machine import machine_from
from smlab.sim.reference import Record
from smlab.sim.workloads.workload import Duration, Instruction, Kernel, Loop, Program

MACHINE = machine_from(load_gpu("v100"))


def kernel(blocks: int = 3) -> Kernel:
    """Two roles with loops, a barrier, an atomic whose result is used and one whose result is not."""
    think = Instruction("think", name="thought", after=("count",), duration=Duration(40.0, "exponential"))
    count = Instruction("atomic-add", name="count", after=("thought",), lanes=8, shared=Grouped(8))
    blind = replace(count, name="", returns=False)
    use, barrier = Instruction("int32", after=("count",)), Instruction("barrier")
    body = replace(think, after=()), blind, blind, barrier
    programs = (
        Program("counting", (Loop(9, (think, count, use, barrier)),)),
        Program("blind", (Loop(9, body), replace(use, after=()))),
    )
    return Kernel("roles", programs, ((0, 0, 1, 0, 1, 1),), blocks, shared_bytes_per_block=128)


@pytest.mark.parametrize("keep", [Record.TOTALS, Record.ALL])
def test_both_engines_count_the_same_and_all_that_is_not_after_the_end(keep: Record) -> None:
    lowered = replace(lower(kernel(), MACHINE, 5), by_instruction=True)
    fast, readable = compiled.run(lowered, keep), reference.run(lowered, keep)
    stalls = fast.instruction_stalls
    assert stalls is not None
    np.testing.assert_array_equal(stalls, readable.instruction_stalls)
    assert stalls.shape == (9, len(Reason))
    by_reason = fast.warps.stall_cycles.sum(axis=0)
    kept = [r for r in Reason if r is not Reason.DRAIN]
    np.testing.assert_array_equal(stalls.sum(axis=0)[kept], by_reason[kept])
    assert stalls[:, Reason.SELECTED].sum() == fast.warp_instructions
    assert stalls[2, Reason.SHORT_SCOREBOARD] == by_reason[Reason.SHORT_SCOREBOARD] > 0
    assert stalls[[3, 7], Reason.BARRIER].all()


def test_nothing_is_counted_by_instruction_unless_asked_for() -> None:
    plain = lower(kernel(), MACHINE, 5)
    for engine in (compiled, reference):
        assert engine.run(plain, Record.TOTALS).instruction_stalls is None
