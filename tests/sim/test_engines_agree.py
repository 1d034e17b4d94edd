"""The compiled engine gives the events of the reference, each at its cycle, whatever runs on whatever GPU."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Duration, Instruction, Kernel, Loop, Program, Record, compiled, reference
from smlab.sim.address_patterns import Affine, RandomBytes, RandomWords
from smlab.sim.instructions import Unit
from smlab.sim.lowering import LoweredKernel, lower
from smlab.sim.machine import (
    TICKS_PER_CYCLE,
    CacheShape,
    GlobalAtomicTiming,
    Machine,
    ReadMerging,
    SliceTiming,
    StoreTiming,
    machine_from,
)
from smlab.sim.policies import POLICIES
from smlab.sim.traces.compare import first_difference
from smlab.sim.workloads.workload import NO_WARP
from smlab.validation.laws.strategies import kernels, machines


def assert_engines_agree(lowered: LoweredKernel) -> None:
    expected = reference.run(lowered, Record.ALL)
    for keep in Record:
        found = compiled.run(lowered, keep)
        difference = first_difference(thinned(expected, keep), found)
        assert difference is None, f"with {keep.name}: {difference}"


def thinned(result, keep: Record):
    """What the reference would have kept; its totals do not depend on it."""
    if keep is Record.ALL:
        return result
    jobs = None if keep is Record.TOTALS else result.jobs.of_unit(Unit.ATOMIC)
    return dataclasses.replace(result, jobs=jobs, issues=None, spans=None)


@st.composite
def unusual_machines(draw: st.DrawFn) -> Machine:
    """Machines further from any real one, above all in what global memory does: latencies down to nothing,
    any speed."""
    short = st.integers(1, 40)
    ticks = st.integers(1, 4 * TICKS_PER_CYCLE)
    shapes = st.builds(CacheShape, sets=st.integers(1, 5), ways=st.integers(1, 5), hashed=st.booleans())
    level_two = st.builds(
        CacheShape,
        sets=st.sampled_from([2, 4, 6, 16, 32]),
        ways=st.integers(1, 5),
        hashed=st.booleans(),
        halves=st.integers(1, 2),
    )
    machine = draw(machines())
    pipes = {
        name: dataclasses.replace(
            pipe,
            interval_cycles=draw(st.integers(1, 6)),
            latency_cycles=draw(st.integers(1, 12)),
            per_sm=draw(st.booleans()),
        )
        for name, pipe in machine.pipes.items()
    }
    return dataclasses.replace(
        machine,
        schedulers=draw(st.integers(1, 4)),
        max_blocks=draw(st.integers(1, 4)),
        pipes=pipes,
        mio_queue_entries=draw(st.integers(1, 16)),
        access_latency_cycles={name: draw(short) for name in machine.access_latency_cycles},
        l1=draw(shapes),
        l2=draw(level_two),
        l1_latency_cycles=draw(short),
        l2_latency_cycles=draw(short),
        read_merging=ReadMerging(
            draw(st.integers(0, 300)), draw(st.integers(1, 4)), draw(st.integers(0, 2 * TICKS_PER_CYCLE))
        ),
        group_sms=draw(st.sampled_from([0, 2, 4])),
        dram_latency_cycles=draw(short),
        port_sector_ticks=draw(ticks),
        stores=StoreTiming(draw(ticks), draw(ticks), draw(ticks), draw(ticks)),
        block_turnover_cycles=draw(st.integers(0, 400)),
        l1_tag_banks=draw(st.sampled_from([0, 1, 2, 4])),
        pending_cycles=draw(st.integers(0, 5)),
        fetch=dataclasses.replace(machine.fetch, l0_sub_cores=draw(st.sampled_from([1, 2, 4]))),
        warp_launch_ticks=draw(st.integers(0, 5 * TICKS_PER_CYCLE)),
        dram_drain_cycles=draw(st.integers(0, 900)),
        dram_read_cycles=draw(st.integers(0, 900)),
        l1_register_bytes=draw(st.sampled_from([0, 64, 128])),
        l1_address_line_ticks=draw(st.integers(0, 3 * TICKS_PER_CYCLE)),
        global_atomics=GlobalAtomicTiming(
            register_ticks=draw(ticks),
            byte_ticks=draw(st.integers(1, TICKS_PER_CYCLE)),
            packet_ticks=draw(ticks),
            return_packet_ticks=draw(ticks),
            word_ticks=draw(ticks),
            float_word_ticks=draw(ticks),
            in_flight=draw(st.integers(1, 5)),
        ),
        l2_sector_ticks=draw(ticks),
        l2_line_ticks=draw(ticks),
        dram_sector_ticks=draw(ticks),
        dram_write_ticks=draw(ticks),
        shares_dram=draw(st.booleans()),
        l2_slices=SliceTiming(
            count=draw(st.sampled_from([0, 1, 2, 6])),
            across_ticks=draw(ticks),
            part_bits=draw(st.integers(0, 3)),
            region_bits=draw(st.integers(1, 5)),
            sector_ticks=draw(ticks),
            atomic_sector_ticks=draw(ticks),
            atomic_line_ticks=draw(ticks),
            sms=draw(st.integers(1, 3)),
            all_sms=draw(st.integers(3, 100)),
            waits_for_lanes=draw(st.booleans()),
            spread_ticks=draw(st.integers(0, 100)) * TICKS_PER_CYCLE,
            partitions=draw(st.integers(1, 2)),
        ),
    )


SEEDS = st.integers(0, 2**32 - 1)


@given(machines(), kernels(), SEEDS)
def test_all_events_are_equal(machine: Machine, kernel: Kernel, seed: int) -> None:
    assert_engines_agree(lower(kernel, machine, seed))


@given(unusual_machines(), kernels(max_warps=6, max_blocks=12, max_sms=4), SEEDS)
def test_all_events_are_equal_on_unusual_machines(machine: Machine, kernel: Kernel, seed: int) -> None:
    assert_engines_agree(lower(kernel, machine, seed))


def busy_kernel() -> Kernel:
    """Everything at once, on several SMs, with blocks that wait for room and differ in their length."""
    load = Instruction("global-load", name="x", after=("x",), memory=RandomBytes(1 << 14))
    work = Program(
        "work",
        (
            Loop(
                12,
                (
                    load,
                    Instruction("fp32", name="y", after=("x",)),
                    Instruction("sfu", after=("y",)),
                    Instruction("fp64", name="z", after=("z",)),
                    Loop(2, (Instruction("atomic-add", shared=RandomWords(64), returns=False),)),
                    Instruction("barrier"),
                ),
            ),
            Instruction("global-store", after=("z",), memory=Affine(-36, 128, -256, 1 << 20)),
        ),
    )
    wait = Program(
        "wait",
        (
            Loop(
                12,
                (
                    Instruction("think", name="t", after=("t",), duration=Duration(60, "exponential")),
                    Instruction("shared-load", name="s", shared=RandomWords(512)),
                    Instruction(
                        "atomic-cas", name="c", after=("s", "t"), duration=Duration(5, "exponential")
                    ),
                    Instruction("barrier", after=("c",)),
                ),
            ),
        ),
    )
    short = Program("short", (Instruction("shared-store"), Instruction("control")))
    roles = tuple((0, NO_WARP, b % 3, 1, 2, 0) for b in range(17))
    return Kernel("busy", (work, wait, short), roles, 17, 4096, sms=3)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("gpu", ["v100", "h100-sxm"])
def test_a_kernel_that_uses_everything(gpu: str, policy: str) -> None:
    machine = dataclasses.replace(machine_from(load_gpu(gpu), policy), max_blocks=2, l1=CacheShape(4, 2))
    assert_engines_agree(lower(busy_kernel(), machine, seed=7))
