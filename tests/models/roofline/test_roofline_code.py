"""What the target's machine code says that no counter of the source does: registers, spills, instructions."""

from __future__ import annotations

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.hw_bench.sass import (
    CodeComparison,
    CodeComparisons,
    Footprint,
    Function,
    Operand,
    Predicate,
    SassInstruction,
    count_issued,
)
from smlab.hw_bench.sass.compare import profile_code
from smlab.models.projection.machine_code import executions_seen, target_work
from smlab.models.projection.projection import project
from smlab.models.projection.spills import with_local_memory

HERE, THERE = load_gpu("rtx-2080-ti"), load_gpu("rtx-3090")
BLOCKS, THREADS = 68 * 82, 128


def code(loop: list[str], outside: list[str], footprint: Footprint | None = None) -> CodeComparison:
    """A loop of ``loop``, its branch, then ``outside`` and EXIT, against itself."""
    instructions = [SassInstruction(16 * n, op) for n, op in enumerate(["MOV", *loop])]
    instructions.append(SassInstruction(16 * len(instructions), "BRA", (Operand("0x10"),), Predicate("P0")))
    instructions += [
        SassInstruction(16 * (len(instructions) + n), op) for n, op in enumerate([*outside, "EXIT"])
    ]
    regions = profile_code(Function("k", "sm_75", tuple(instructions)), footprint)
    return CodeComparison(regions, regions)


def pair(source: CodeComparison, target: CodeComparison) -> CodeComparison:
    return CodeComparison(source.source, target.target)


def work(instructions_a_warp: float, **given: float) -> KernelWork:
    warps = BLOCKS * THREADS / 32
    base = {
        "fp32_fma": 1e9,
        "instructions": instructions_a_warp * warps,
        "thread_instructions": 32 * instructions_a_warp * warps,
        "memory_requests": 10.0 * warps,
        "shared_wavefronts": 10.0 * warps,
        "l2_bytes": 1e6,
        "dram_bytes": 1e6,
        "blocks": BLOCKS,
        "threads_per_block": THREADS,
        "registers_per_thread": 32,
        "shared_bytes_per_block": 1024,
    }
    return KernelWork.of(["k"], [1e-3], **{**base, **given})


def test_instructions_are_counted_by_space_and_width() -> None:
    ops = ["LDS.128", "STS", "LDG.E.64", "ATOMG.ADD", "LDL.64", "STL", "STL.128", "NOP", "FFMA"]
    found = count_issued([SassInstruction(16 * n, op) for n, op in enumerate(ops)])
    assert (found.instructions, found.shared, found.global_memory, found.local) == (8, 2, 2, 3)
    assert found.local_bytes == 8 + 4 + 16
    assert found.requests == 7


@pytest.mark.parametrize("times", [1.0, 7.0, 250.0])
def test_executions_of_a_loop_are_those_that_give_the_counted_instructions(times: float) -> None:
    both = code(["FFMA", "LDS"], ["FADD"])
    executed = 1 + 3 * times + 2  # MOV; the loop with its branch; FADD and EXIT
    assert executions_seen(work(executed), 0, both) == pytest.approx(times, rel=1e-6)


def test_executions_are_not_known_without_a_launch_or_instructions() -> None:
    both = code(["FFMA"], [])
    assert executions_seen(work(100, blocks=np.nan), 0, both) is None
    assert executions_seen(work(np.nan), 0, both) is None


def test_registers_and_shared_memory_become_the_targets() -> None:
    before = code(["FFMA"], [], Footprint(32, 1024, 0))
    after = code(["FFMA"], [], Footprint(200, 3072, 0))
    found = target_work(work(100), CodeComparisons((pair(before, after),), ()), THERE)
    assert found.registers_per_thread[0] == 200
    assert found.shared_bytes_per_block[0] == 3072
    assert any("200 registers (32 on the source)" in flag for flag in found.flags[0])
    slower = project(work(100), HERE, THERE, target_work=found)
    assert slower.mid_s[0] > project(work(100), HERE, THERE).mid_s[0]  # a fourth of the warps hides less


def test_more_instructions_on_the_target_are_executed_as_often_as_the_loop_that_has_them() -> None:
    """Two more shared loads in a loop of 50: 100 more requests a warp."""
    before, after = code(["FFMA", "LDS"], []), code(["FFMA", "LDS", "LDS", "LDS"], [])
    found = target_work(work(1 + 50 * 3 + 1), CodeComparisons((pair(before, after),), ()), THERE)
    warps = BLOCKS * THREADS / 32
    assert found.instructions[0] == pytest.approx((1 + 50 * 5 + 1) * warps)
    assert found.memory_requests[0] == pytest.approx((10 + 100) * warps)
    assert found.shared_wavefronts[0] == pytest.approx(30 * warps)


def test_the_same_code_changes_nothing() -> None:
    both = code(["FFMA", "LDS"], [], Footprint(32, 1024, 0))
    before = work(500)
    found = target_work(before, CodeComparisons((both,), ()), THERE)
    for name in ("instructions", "memory_requests", "shared_wavefronts", "l2_bytes", "registers_per_thread"):
        assert getattr(found, name)[0] == pytest.approx(getattr(before, name)[0])
    assert found.flags[0] == ()


def test_spills_go_as_far_as_caches_do_not_hold_them() -> None:
    moved = np.array([1e9])
    before = work(100, l1_bytes=1e6)
    l1, l2 = THERE.integer("l1.bytes"), THERE.integer("l2.bytes")

    def beyond(per_thread: float) -> tuple[float, float]:
        found = with_local_memory(before, THERE, np.array([per_thread]), moved)
        assert found.l1_bytes[0] == pytest.approx(1e6 + 1e9)
        return (found.l2_bytes[0] - 1e6) / 1e9, (found.dram_bytes[0] - 1e6) / 1e9

    resident = 1536  # threads of an SM: 32 registers and 1 KiB of shared memory limit nothing
    fits = (l1 - 12 * 2048) / resident
    assert beyond(0.9 * fits) == (0.0, 0.0)
    some, dram = beyond(1.2 * fits)
    assert 0.5 < some < 0.7  # between a sixth (no order) and all (cyclic)
    assert dram > 0 or 1.2 * fits * resident * THERE.integer("gpu.sms") <= l2
    assert min(beyond(100 * fits)) > 0.95


def test_spills_of_the_targets_code_are_added() -> None:
    before = code(["FFMA"], [], Footprint(64, 0, 0))
    after = code(["FFMA"], ["STL.128"] * 50 + ["LDL.128"] * 50, Footprint(255, 0, 800))
    found = target_work(work(200, l1_bytes=1e6), CodeComparisons((pair(before, after),), ()), THERE)
    assert found.l1_bytes[0] == pytest.approx(1e6 + BLOCKS * THREADS * 1600)
    assert found.l2_bytes[0] > 1e6
    assert any("800 bytes of local memory a thread" in flag for flag in found.flags[0])
