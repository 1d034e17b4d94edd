"""Two independent accounts of the same rules: residency and waves in `smlab.models.projection.parallelism`
against the simulator's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu
from smlab.models.projection.parallelism import compute_saturating_warps, parallelism, resident_blocks
from smlab.sim import Instruction, Kernel, Loop, Program, simulate
from smlab.sim.machine import machine_from
from smlab.sim.workloads.workload import blocks_per_sm

GPUS = [load_gpu(name) for name in list_gpus()]
ONE = Program("one", (Instruction("fp32"),))


def in_the_simulator(gpu: Gpu, warps: int, registers: int, shared: int) -> int:
    kernel = Kernel(
        "k", (ONE,), ((0,) * warps,), shared_bytes_per_block=shared, registers_per_thread=registers
    )
    return blocks_per_sm(kernel, machine_from(gpu))


@given(
    gpu=st.sampled_from(GPUS),
    warps=st.integers(1, 32),
    registers=st.integers(1, 255),
    shared=st.integers(0, 48 * 1024),
)
def test_residency_agrees(gpu: Gpu, warps: int, registers: int, shared: int) -> None:
    """Each scheduler has its part of the registers, of which odd blocks can waste some."""
    assert resident_blocks(gpu, 32 * warps, registers, shared) == in_the_simulator(
        gpu, warps, registers, shared
    )


def test_a_block_of_three_warps_wastes_registers_of_a_scheduler() -> None:
    """3,328 registers a warp: 4 warps a quarter, 16 in all, 5 blocks of three; the file as a whole would
    hold 6."""
    v100 = load_gpu("v100")
    assert resident_blocks(v100, 96, 104) == 5
    assert in_the_simulator(v100, 3, 104, 0) == 5


def test_an_h100_holds_as_many_blocks_of_three_warps_as_its_driver_says() -> None:
    """Measured by us on an H100 SXM (driver 580): 16 blocks of 96 threads with 40 registers."""
    assert in_the_simulator(load_gpu("h100-sxm"), 3, 40, 0) == 16


@pytest.mark.parametrize("warps", [2, 4])
@pytest.mark.parametrize("blocks", [1, 3, 4, 5, 9, 17, 30])
def test_waves_and_tail_agree_with_simulated_grids(warps: int, blocks: int) -> None:
    """A chain of dependent multiply-adds on 4 SMs that hold 4 blocks each: its time follows the predicted
    fraction.

    Warps take turns: greedy-then-oldest would starve the youngest of three and run it alone at the end. What
    is left over is the filling of pipes, under 3 % of 4,000 cycles a block.
    """
    gpu = load_gpu("v100").with_values({"gpu.sms": 4, "sm.block_launch_cycles": 0}, source="a test")
    held = 24 * 1024  # 4 blocks in 96 KiB
    chain = Program("chain", (Loop(1000, (Instruction("fp32", name="a", after=("a",)),)),))
    kernel = Kernel(
        "k", (chain,), ((0,) * warps,), blocks, shared_bytes_per_block=held, registers_per_thread=32, sms=4
    )
    resident = resident_blocks(gpu, 32 * warps, 32, held)
    assert resident == 4
    grid = parallelism(gpu, blocks, 32 * warps, resident, saturating_warps=compute_saturating_warps(gpu))
    best = blocks * warps * 1000 * gpu.number("pipe.fp32.interval_cycles") / 4 / 4  # schedulers, SMs
    assert simulate(kernel, gpu, policy="lrr").cycles == pytest.approx(best / float(grid.fraction), rel=0.03)
