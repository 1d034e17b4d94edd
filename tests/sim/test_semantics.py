"""The rules of sim/SEMANTICS.md, one small kernel at a time; expected cycles are worked out by hand in
each test."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

from small_kernels import fp32, issues, run
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.sim import Duration, Instruction, Kernel, Loop, Program, Record, atomics, simulate
from smlab.sim.address_patterns import Affine, RandomBytes, RandomWords, Strided
from smlab.sim.lowering import lower
from smlab.sim.machine import (
    SECOND_HALF,
    TICK_BITS,
    TICKS_PER_CYCLE,
    CacheShape,
    ReadMerging,
    SliceTiming,
    groups_of_sms,
    machine_from,
)
from smlab.sim.policies import POLICIES
from smlab.sim.result import SimResult
from smlab.sim.simulate import ENGINES
from smlab.sim.workloads.workload import NO_WARP

pytestmark = pytest.mark.usefixtures("engine")

LAUNCH = 10  # sm.block_launch_cycles in these tests


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    return load_gpu("v100").with_values(
        {
            "sm.block_launch_cycles": LAUNCH,
            "pipe.fp32.interval_cycles": 2,
            "pipe.fp32.latency_cycles": 4,
            "sm.barrier_latency_cycles": 7,
            "sm.barrier_interval_cycles": 2,
            "mio.queue_entries": 5,
            "mio.front_cycles": 11,
            "mio.address_interval_cycles": 4,
            "mio.request_interval_cycles": 2,
            "atomic.address_interval_cycles": 4,
            "atomic.add.base_interval_cycles": 3.5,
            "atomic.add.pass_interval_cycles": 1.0,
            "atomic.add.latency_cycles": 36,
            "atomic.queue_entries": 16,
            "shared.interval_cycles_per_pass": 1,
            "shared.pass_latency_cycles": 1,
            "shared.load_latency_cycles": 19,
        },
        source="test",
    )


def test_a_chain_of_dependent_arithmetic_advances_by_its_latency(gpu: Gpu) -> None:
    result = run(gpu, fp32(name="a"), Loop(3, (fp32("a", name="b"), fp32("b", name="c"))))
    # a at 10; b needs a: 14; c needs b: 18; from then on b needs only a, so b follows c at the pipe's
    # interval.
    assert issues(result) == [10, 14, 18, 20, 24, 26, 30]
    assert result.cycles == 31
    assert result.stalls["wait"] == 3 + 3 + 3 + 3
    assert result.stalls["math_pipe_throttle"] == 1 + 1
    assert result.stalls["dispatch_stall"] == LAUNCH


def test_a_loop_waits_for_all_executions_of_what_it_needs(gpu: Gpu) -> None:
    previous = Instruction("shared-load", name="x", after=("x",))
    assert np.diff(issues(run(gpu, Loop(4, (previous,))))).tolist() == [19, 19, 19]
    free = Instruction("shared-load", name="x")
    # Four loads leave the sub-core 4 cycles apart.
    assert np.diff(issues(run(gpu, Loop(4, (free,)), fp32("x")))).tolist() == [1, 1, 1, 19 + 3 * 4 - 3]


def test_a_pipe_takes_one_instruction_every_interval(gpu: Gpu) -> None:
    assert np.diff(issues(run(gpu, Loop(4, (fp32(),))))).tolist() == [2, 2, 2]
    # Two warps of different schedulers have a pipe each.
    both = run(gpu, Loop(4, (fp32(),)), warps=2)
    assert both.cycles == run(gpu, Loop(4, (fp32(),))).cycles


def test_a_pipe_of_the_whole_sm_is_shared_by_its_schedulers(gpu: Gpu) -> None:
    shared = gpu.with_values({"pipe.fp64.shared_by": "sm", "pipe.fp64.interval_cycles": 16}, source="test")
    double = Instruction("fp64")
    assert issues(run(shared, double, warps=4)) == [10, 26, 42, 58]


def test_think_times_overlap_and_use_no_unit(gpu: Gpu) -> None:
    think = Instruction("think", name="t", duration=Duration(100))
    result = run(gpu, Loop(3, (think,)), fp32("t"))
    assert issues(result) == [10, 11, 12, 112]
    assert result.stalls["wait"] == 99


@pytest.mark.parametrize(("stride", "passes"), [(0, 1), (1, 1), (2, 2), (4, 4), (32, 32), (33, 1)])
def test_bank_conflicts_of_loads_count_distinct_words(gpu: Gpu, stride: int, passes: int) -> None:
    load = Instruction("shared-load", name="x", shared=Strided(stride))
    result = run(gpu, load, fp32("x"))
    assert np.diff(issues(result)).tolist() == [19 + passes - 1]
    assert result.jobs is not None
    assert result.jobs.passes.tolist() == [passes]
    assert result.stalls["short_scoreboard"] == 19 + passes - 2


def test_atomics_serialise_lanes_on_one_word_and_popc_inc_merges_them() -> None:
    gpu = load_gpu("a100-40")
    for op, same_word, same_bank, passes in (
        ("add", 32, 1, 32),
        ("cas", 32, 1, 32),
        ("popc-inc", 32, 1, 1),
        ("add", 4, 1, 4),
        ("add", 4, 2, 8),
        ("popc-inc", 4, 2, 2),
        ("add", 1, 32, 32),
        ("popc-inc", 1, 32, 32),
    ):
        result = simulate(atomics(warps=1, op=op, same_word=same_word, same_bank=same_bank), gpu)
        assert result.jobs is not None
        assert result.jobs.passes.tolist() == [passes], (op, same_word, same_bank)


def test_the_atomic_unit_carries_fractions_of_a_cycle(gpu: Gpu) -> None:
    result = run(gpu, Loop(4, (Instruction("atomic-add", lanes=1, returns=False),)))
    jobs = result.jobs
    assert jobs is not None
    # 11 cycles to leave the sub-core and 4 to each next; 4.5 cycles a job in the unit: 4, 5, 4, 5.
    assert jobs.issue.tolist() == [10, 11, 12, 13]
    assert jobs.taken.tolist() == [21, 25, 29, 33]
    assert jobs.start.tolist() == [21, 25, 30, 34]
    assert jobs.end.tolist() == [25, 30, 34, 39]
    # 36 cycles from issue to use in all, 11 + 5 of them before the end of one pass.
    assert jobs.completion.tolist() == [45, 50, 54, 59]
    truth = result.sms[0]
    assert truth.atomic_busy_cycles == 59 - 10
    assert truth.atomic_job_cycles == 35 + 39 + 42 + 46
    assert truth.atomic_occupied_cycles == 18
    assert truth.stage_occupied_cycles == 4
    # The warp has nothing to wait for but drains at its end.
    assert result.warps.finish.tolist() == [59]
    assert result.stalls["drain"] == 59 - 14


def test_a_full_sub_core_stalls_its_own_warps_and_the_arbiter_takes_turns(gpu: Gpu) -> None:
    narrow = gpu.with_values({"mio.queue_entries": 1}, source="test")
    result = run(narrow, Loop(3, (Instruction("atomic-add", lanes=1, returns=False),)), warps=4)
    jobs = result.jobs
    assert jobs is not None
    order = np.argsort(jobs.taken, kind="stable")
    assert jobs.warp[order].tolist() == [0, 1, 2, 3] * 3
    # A warp issues in the cycle in which its sub-core's only place is free.
    for warp in range(4):
        own = jobs.chosen(jobs.warp == warp)
        assert own.issue[1:].tolist() == own.taken[:-1].tolist()
    assert result.stalls["mio_throttle"] > 0


@pytest.mark.parametrize("entries", [1, 2, 5])
def test_no_more_jobs_wait_than_there_are_places(gpu: Gpu, entries: int) -> None:
    narrow = gpu.with_values({"mio.queue_entries": entries, "atomic.queue_entries": 3}, source="test")
    jobs = run(narrow, Loop(9, (Instruction("atomic-add", returns=False),)), warps=8).jobs
    assert jobs is not None
    cycles = np.arange(int(jobs.end.max()))[:, None]
    waiting = (jobs.issue <= cycles) & (cycles < jobs.taken)
    assert [int(waiting[:, jobs.warp % 4 == s].sum(axis=1).max()) for s in range(4)] == [entries] * 4
    assert int(((jobs.taken <= cycles) & (cycles < jobs.end)).sum(axis=1).max()) == 3


def test_unloaded_global_loads_take_the_latencies_of_the_description(gpu: Gpu) -> None:
    machine = machine_from(gpu)
    load = Instruction("global-load", name="x", after=("x",), memory=Affine(lane_stride_bytes=0))
    dram, l1_hit = np.diff(issues(run(gpu, Loop(2, (load,)), fp32("x")))).tolist()
    assert dram == machine.dram_latency_cycles
    assert l1_hit == machine.l1_latency_cycles
    # A store puts the sector into L2 and not into L1; the load after it hits in L2.
    store = Instruction("global-store", memory=Affine(lane_stride_bytes=0))
    pause = Instruction("think", name="t", duration=Duration(2000))
    late = dataclasses.replace(load, after=("t",))
    _, _, l2_hit = np.diff(issues(run(gpu, store, pause, late, fp32("x")))).tolist()
    assert l2_hit == machine.l2_latency_cycles
    assert run(gpu, load, fp32("x")).stalls["long_scoreboard"] == machine.dram_latency_cycles - 1


def test_a_coalescer_makes_one_read_of_several_by_a_group_of_sms(gpu: Gpu, engine: str) -> None:
    """Eight SMs read one sector at once, and L2 needs 100 cycles for each that it serves."""
    load = Instruction("global-load", name="x", lanes=1, memory=Affine(warp_stride_bytes=0))
    kernel = Kernel("k", (Program("p", (load, fp32("x"))),), ((0,),), blocks=8, sms=8)

    slow = dataclasses.replace(
        machine_from(gpu),
        l2_sector_ticks=100 << TICK_BITS,
        l2_line_ticks=100 << TICK_BITS,
        l2_slices=SliceTiming(),
    )

    def cycles(group_sms: int, merging: ReadMerging) -> int:
        machine = dataclasses.replace(slow, group_sms=group_sms, read_merging=merging)
        truth = ENGINES[engine](lower(kernel, machine), Record.ALL, None, None)
        assert truth.memory.l2_sector_hits == 7
        most = min(merging.reads, group_sms or 8)  # of which L2 reads one
        assert truth.memory.l2_sectors_merged == 8 - 8 // most
        return truth.cycles

    none = cycles(0, ReadMerging())
    one = cycles(0, ReadMerging(cycles=1, reads=8))
    # Merged, all eight wait for DRAM; else the last one is served 700 cycles after the first.
    assert none - one == pytest.approx(max(0, 700 - slow.dram_extra_cycles), abs=2)
    # By pairs of SMs four reads are served, and so they are where two reads at most merge.
    by_pairs = cycles(2, ReadMerging(cycles=1, reads=8))
    assert by_pairs == cycles(0, ReadMerging(cycles=1, reads=2))
    assert none - by_pairs == pytest.approx(min(400, 700 - slow.dram_extra_cycles), abs=2)
    # Answers take their time, merged or not.
    late = cycles(0, ReadMerging(cycles=1, reads=8, reply_ticks=2000 << TICK_BITS))
    assert late > one + 7 * 2000 - slow.dram_extra_cycles


def test_groups_are_of_pairs_and_as_equal_as_they_can_be(gpu: Gpu) -> None:
    sizes = [len(group) for group in groups_of_sms(132, 18)]
    assert (sorted(sizes), sum(sizes)) == ([16, 16, 16, 16, 16, 16, 18, 18], 132)
    assert [list(group) for group in groups_of_sms(5, 2)] == [[0, 1], [2, 3], [4]]
    assert groups_of_sms(7, 0) == [range(7)]
    with pytest.raises(SmlabError, match="gpu.group_sms: SMs come in pairs .got 17; expected an even number"):
        machine_from(load_gpu("h100-sxm").with_values({"gpu.group_sms": 17}, "a test"))


def test_each_half_of_l2_keeps_what_its_sms_read(gpu: Gpu, engine: str) -> None:
    """Both blocks read one line, the second one later; their SMs are of the same half of L2, or not."""
    load = Instruction("global-load", name="x", memory=Affine(warp_stride_bytes=0))
    pause = Instruction("think", name="t", duration=Duration(5000))
    late = dataclasses.replace(load, after=("t",), name="y")
    first, second = Program("p", (load, fp32("x"))), Program("q", (pause, late, fp32("y")))
    machine = machine_from(gpu)

    def cycles(
        halves: int, across: int = 90, roles: tuple[tuple[int, ...], ...] = ((0,), (0,), (1,), (1,))
    ) -> tuple[int, int]:
        m = dataclasses.replace(
            machine,
            l2=dataclasses.replace(machine.l2, halves=halves),
            l2_slices=SliceTiming(count=2, partitions=2, across_ticks=across << TICK_BITS),
        )
        kernel = Kernel("k", (first, second), roles, blocks=4, sms=4)
        truth = ENGINES[engine](lower(kernel, m), Record.ALL, None, None)
        return truth.cycles, truth.memory.dram_sectors

    whole, both, sooner = cycles(1), cycles(2), cycles(2, across=20)
    in_both = ((0,), (1,), (0,), (1,))
    assert cycles(2, roles=in_both) == cycles(1, roles=in_both)
    assert whole[1] == both[1] == machine.sectors_per_line
    # The line comes from the half of its slice, if the first reader was of the other one too.
    assert both[0] - sooner[0] == 90 - 20
    assert 0 < sooner[0] - whole[0] <= 20


def _added(gpu: Gpu, engine: str, stride_bytes: int, blocks: int = 4) -> float:
    """Cycles that one more line of additions by each of some SMs takes, the SMs that far from each other."""
    machine = dataclasses.replace(
        machine_from(gpu),
        l2_sector_ticks=1,
        l2_atomic_sector_ticks=1,
        l2_slices=SliceTiming(
            count=8,
            sector_ticks=TICKS_PER_CYCLE,
            atomic_sector_ticks=8 * TICKS_PER_CYCLE,
            atomic_line_ticks=3 * TICKS_PER_CYCLE,
        ),
    )

    def cycles(times: int) -> int:
        adds = Instruction("global-reduce", memory=Affine(warp_stride_bytes=stride_bytes))
        kernel = Kernel(
            "k", (Program("p", (Loop(times, (adds,)),)),), ((0,),), blocks, sms=blocks, in_l2=(0, 1 << 20)
        )
        return ENGINES[engine](lower(kernel, machine), Record.TOTALS, None, None).cycles

    return (cycles(24) - cycles(8)) / 16


def test_a_slice_of_l2_serves_the_lines_that_lie_in_it_one_after_the_other(gpu: Gpu, engine: str) -> None:
    """A line takes 3 + 4 x 8 cycles of its slice. Two lines share 256 bytes, which lie in one slice."""
    line = 35
    assert _added(gpu, engine, 0) == pytest.approx(4 * line, abs=1)
    assert _added(gpu, engine, 128, blocks=2) == pytest.approx(2 * line, abs=1)
    assert _added(gpu, engine, 256, blocks=2) == pytest.approx(line, abs=1)
    assert _added(gpu, engine, 256) == pytest.approx(2 * line, abs=1)  # 1 KiB lies in two slices


def test_slices_share_out_what_lies_in_a_row_and_what_lies_far_apart() -> None:
    slices = SliceTiming(count=36)
    for stride in (1, 8, 128, 1 << 13):
        found = np.bincount([slices.slice_of(n * stride) for n in range(1 << 14)], minlength=36)
        assert found.max() < 1.25 * found.mean()
        assert found.min() > 0.75 * found.mean()


@pytest.mark.parametrize(("size", "count"), [(6 << 20, 64), (5 * 98304, 4), (2 * 98304, 2)])
def test_slices_are_as_many_as_there_is_room_for_in_pairs(gpu: Gpu, size: int, count: int) -> None:
    assert machine_from(gpu.with_values({"l2.bytes": size}, source="test")).l2_slices.count == count


def test_the_sms_that_are_not_simulated_use_the_slices_as_well(gpu: Gpu, engine: str) -> None:
    """Of 12 SMs one: each sector of its additions has eleven others behind it in the slice."""
    adds = Instruction("global-reduce", memory=Affine(warp_stride_bytes=0))
    kernel = Kernel("k", (Program("p", (Loop(40, (adds,)),)),), ((0,),), in_l2=(0, 128))

    def cycles(all_sms: int) -> int:
        slices = SliceTiming(count=8, atomic_sector_ticks=2 << TICK_BITS, all_sms=all_sms)
        machine = dataclasses.replace(machine_from(gpu), l2_slices=slices)
        return ENGINES[engine](lower(kernel, machine), Record.TOTALS, None, None).cycles

    # And the last line's own sectors have the others' behind the ones before them.
    assert cycles(12) - cycles(1) == 39 * 11 * 8 + 3 * 11 * 2


def test_a_hit_in_l1_leaves_the_other_lines_alone(gpu: Gpu, engine: str) -> None:
    """Found by the comparison of the engines: completing hits once filled lines that nobody had asked for."""
    machine = dataclasses.replace(machine_from(gpu), l1=CacheShape(sets=1, ways=2))
    two_lines = Instruction(
        "global-load",
        name="x",
        after=("x",),
        lanes=1,
        memory=Affine(base_bytes=128, iteration_stride_bytes=0),
    )
    kernel = Kernel("k", (Program("p", (Loop(20, (two_lines,)),)),), ((0, 0),))
    (truth,) = ENGINES[engine](lower(kernel, machine), Record.ALL, None, None).sms
    # Each of the two warps misses its own line once, and then both lines stay.
    assert (truth.l1_sector_misses, truth.l1_sector_hits) == (2, 38)


def test_streaming_loads_run_at_the_bandwidth_of_the_narrowest_level(gpu: Gpu, engine: str) -> None:
    machine = machine_from(gpu)
    load = Instruction("global-load", name="x", memory=Affine(4, 128, 128 * 32))
    many = run(gpu, Loop(200, (load,)), warps=32)
    bytes_moved = 200 * 32 * 128
    assert many.memory.dram_sectors == bytes_moved // machine.sector_bytes
    port_cycles = bytes_moved // machine.sector_bytes * machine.port_sector_ticks / 2**20
    assert many.cycles == pytest.approx(port_cycles, rel=0.05)
    # 80 SMs that stream together are limited by DRAM instead: here one SM with a share of it.
    narrow = dataclasses.replace(machine, dram_sector_ticks=4 * machine.port_sector_ticks)
    kernel = Kernel("k", (Program("p", (Loop(200, (load,)),)),), ((0,) * 32,))
    assert ENGINES[engine](lower(kernel, narrow), Record.TOTALS, None, None).cycles == pytest.approx(
        4 * port_cycles, rel=0.05
    )


def test_misses_on_sectors_that_are_on_their_way_merge_between_warps(gpu: Gpu) -> None:
    same = Instruction("global-load", name="x", memory=Affine(lane_stride_bytes=4, warp_stride_bytes=0))
    alone, both = run(gpu, same, fp32("x")), run(gpu, same, fp32("x"), warps=2)
    # One line of four sectors is asked for once, whoever asks; both loads count their misses in L1.
    assert both.memory.l2_sector_hits + both.memory.l2_sector_misses == 4
    assert both.sms[0].l1_sector_misses == 8
    # Both warps go on when the first one's sectors are there.
    first, second = issues(both)[2:]
    assert first == second == issues(alone)[1]


def test_a_load_that_misses_more_than_is_on_its_way_asks_for_the_rest(gpu: Gpu) -> None:
    half = Instruction("global-load", name="x", memory=Affine(lane_stride_bytes=4, warp_stride_bytes=64))
    both = run(gpu, half, fp32("x"), warps=2)
    # Lines of 128 bytes: warp 1 shares two of its four sectors with warp 0.
    assert both.memory.l2_sector_hits + both.memory.l2_sector_misses == 6
    first, second = sorted(issues(both)[2:])
    assert first < second
    assert both.sms[0].l1_sector_misses == 8


def test_a_load_whose_sectors_are_on_their_way_is_looked_up_again(gpu: Gpu) -> None:
    """Four sub-cores load one line, and four a line each; the arbiter takes a request every two cycles."""

    def distances(stride_bytes: int, lookups: int) -> list[int]:
        keys = {"l1.pending_lookups": lookups, "mio.request_interval_cycles": 2}
        memory = Affine(lane_stride_bytes=4, warp_stride_bytes=stride_bytes)
        found = run(gpu.with_values(keys, source="test"), Instruction("global-load", memory=memory), warps=4)
        assert found.jobs is not None
        return [int(n) for n in np.diff(np.sort(found.jobs.taken))]

    # Nothing is on its way for the first load. The second and the third keep the next one waiting.
    assert distances(0, 1) == [2, 4, 4]
    assert distances(0, 2) == [2, 6, 6]
    assert distances(0, 0) == distances(128, 1) == [2, 2, 2]
    # Two of four sectors are on their way for the load before.
    assert distances(64, 1) == [2, 4, 4]


def test_stores_do_not_merge(gpu: Gpu) -> None:
    store = Instruction("global-store", memory=Affine(lane_stride_bytes=4, warp_stride_bytes=0))
    both = run(gpu, store, warps=2)
    assert both.memory.l2_sector_hits + both.memory.l2_sector_misses == 8


def _reductions(gpu: Gpu, op: str, lane_stride_bytes: int, warps: int = 1, **changed: float) -> SimResult:
    """Eight atomics on global memory by each warp, whose lines L2 holds."""
    keys = {key.replace("_", ".", 1): value for key, value in changed.items()}
    memory = Affine(lane_stride_bytes=lane_stride_bytes, warp_stride_bytes=128 if lane_stride_bytes else 0)
    kernel = Kernel(
        "k",
        (Program("p", (Loop(8, (Instruction(op, memory=memory),)),)),),
        ((0,) * warps,),
        in_l2=(0, 1 << 16),
    )
    quick = {"l2.atomic_interval_cycles": 0.5, "l2.atomic_sector_factor": 1, "l2.slice_bytes": 0, **keys}
    return simulate(kernel, gpu.with_values(quick, source="test"), keep=Record.ALL)


@pytest.mark.parametrize(("register_cycles", "spacing"), [(2, 6), (1, 4), (3, 9)])
def test_the_address_unit_reads_an_atomic_register_by_register(
    gpu: Gpu, register_cycles: int, spacing: int
) -> None:
    """Two registers of the address and one value: three of them, or the interval of 4."""
    jobs = _reductions(gpu, "global-reduce", 4, mio_atomic_register_cycles=register_cycles).jobs
    assert jobs is not None
    assert np.diff(jobs.taken).tolist() == [spacing] * 7


@pytest.mark.parametrize(
    ("op", "lane_stride_bytes", "spacing"),
    [
        ("global-reduce", 4, 5),  # 128 bytes at 25.6 a cycle, and four packets
        ("global-atomic", 4, 8),  # four packets, 2 cycles each
        ("global-reduce", 0, 32),  # 32 packets, a cycle each
        ("global-atomic", 0, 64),  # 32 packets, 2 cycles each
    ],
)
def test_the_port_takes_an_atomic_s_bytes_or_its_packets(
    gpu: Gpu, op: str, lane_stride_bytes: int, spacing: int
) -> None:
    keys = {
        "l1_atomic_bytes_per_cycle": 25.6,
        "l1_atomic_packet_cycles": 1.0,
        "l1_atomic_return_packet_cycles": 2.0,
        "l1_atomics_in_flight": 1000,
    }
    jobs = _reductions(gpu, op, lane_stride_bytes, warps=16, **keys).jobs
    assert jobs is not None
    assert np.diff(np.sort(jobs.completion))[-40:].tolist() == [spacing] * 40


def test_atomics_on_global_memory_take_their_places_in_turn(gpu: Gpu) -> None:
    jobs = _reductions(gpu, "global-reduce", 4, l1_atomics_in_flight=3).jobs
    assert jobs is not None
    # The address unit alone would have the next one ready long before.
    assert jobs.taken[3:].tolist() == jobs.completion[:-3].tolist()


def _many_reductions(gpu: Gpu, sms: int, policy: str = "glr", **changed: float) -> SimResult:
    """Thirty-two reductions on own words by each of 16 warps of a block for each SM."""
    keys = {key.replace("_", ".", 1): value for key, value in changed.items()}
    reduction = Instruction("global-reduce", memory=Affine(lane_stride_bytes=4, warp_stride_bytes=128))
    kernel = Kernel(
        "k", (Program("p", (Loop(32, (reduction,)),)),), ((0,) * 16,), blocks=sms, sms=sms, in_l2=(0, 1 << 18)
    )
    quick = {"l2.slice_bytes": 0, "l2.atomic_sector_factor": 1, "l2.bandwidth_bytes_per_s": 1e14, **keys}
    described = gpu.with_values({**quick, "gpu.sms": 4}, source="test")
    return simulate(kernel, described, keep=Record.ALL, policy=policy)


def test_sms_that_share_a_port_for_atomics_take_turns(gpu: Gpu) -> None:
    """Of four SMs the first two have ports of their own; all four have two ports."""
    few, all_of_them, alone = (
        int(_many_reductions(gpu, sms, l1_atomic_port_sms=shared).cycles)
        for sms, shared in ((2, 2), (4, 2), (4, 1))
    )
    assert few == pytest.approx(alone, abs=10)  # blocks come one after the other
    # 16 warps of 32 reductions, 128 bytes each at 25.6 a cycle: 5 cycles, 10 where two SMs share.
    assert all_of_them - few == pytest.approx(16 * 32 * 5, rel=0.01)


@pytest.mark.parametrize("policy", ["glr", "gto"])
def test_warps_take_turns_with_atomics_on_global_memory(gpu: Gpu, policy: str) -> None:
    """Four warps of a scheduler wait for room in its queue: under `glr` none leads by more than that."""
    result = _many_reductions(gpu, 1, policy=policy)
    assert result.issues is not None
    mine = result.issues.warp[result.issues.scheduler == 0]
    counts = {int(warp): 0 for warp in mine}
    lead = 0
    for warp in mine.tolist():
        counts[warp] += 1
        lead = max(lead, max(counts.values()) - min(counts.values()))
    assert (lead <= 6) == (policy == "glr")


def test_the_dispatcher_hands_out_a_block_after_the_other(gpu: Gpu) -> None:
    slow = gpu.with_values({"gpu.block_dispatch_cycles": 5, "gpu.warp_dispatch_cycles": 1.5}, source="test")
    result = run(slow, fp32(), warps=2, blocks=4, sms=4)
    # 5 + 2 x 1.5 cycles a block; all four have room at once, and wait for the dispatcher.
    assert sorted(set(issues(result))) == [LAUNCH, LAUNCH + 8, LAUNCH + 16, LAUNCH + 24]
    assert result.blocks.launch.tolist() == [0, 0, 0, 0]
    assert result.stalls["dispatch_stall"] == 2 * (4 * LAUNCH + 8 + 16 + 24)


def test_a_block_in_the_place_of_another_has_a_dispatch_of_its_own(gpu: Gpu) -> None:
    first = {"gpu.block_dispatch_cycles": 0, "gpu.warp_dispatch_cycles": 0}
    later = {"gpu.block_refill_cycles": 40, "gpu.warp_refill_cycles": 2}
    slow = gpu.with_values({**first, **later, "sm.max_blocks": 1}, source="test")
    alike = gpu.with_values({**first, "sm.max_blocks": 1}, source="test")
    # Two waves on two SMs: of the second, the second block waits for the first.
    waits = [run(described, fp32(), blocks=4, sms=2).cycles for described in (slow, alike)]
    assert waits[0] - waits[1] == 42


def test_one_warp_waits_for_another_at_a_barrier(gpu: Gpu) -> None:
    slow = Program(
        "slow",
        (Instruction("think", name="t", duration=Duration(50)), fp32("t"), Instruction("barrier"), fp32()),
    )
    quick = Program("quick", (Instruction("barrier"), fp32()))
    kernel = Kernel("k", (slow, quick), ((0, 1),))
    result = simulate(kernel, gpu, keep=Record.ALL)
    assert result.issues is not None
    # The slow warp arrives at 10 + 50 + 1; the unit takes 2 cycles, and the barrier opens 7 later for both.
    last = result.issues.cycle[-2:].tolist()
    assert last == [70, 70]
    assert result.stalls["barrier"] == (70 - 11) + (70 - 62)


def test_an_exit_completes_a_barrier(gpu: Gpu) -> None:
    leaves = Program("leaves", (Instruction("think", name="t", duration=Duration(30)), fp32("t")))
    waits = Program("waits", (Instruction("barrier"),))
    result = simulate(Kernel("k", (leaves, waits), ((0, 1),)), gpu, keep=Record.ALL)
    # The first warp issues its last instruction at 40 and exits at 41; the barrier opens at 48, which ends
    # the kernel.
    assert result.cycles == 48


def test_the_policies_choose_as_they_say(gpu: Gpu) -> None:
    def order(policy: str) -> list[int]:
        result = run(gpu, Loop(3, (Instruction("think", duration=Duration(1)),)), warps=12, policy=policy)
        assert result.issues is not None
        return [int(w) for w, s in zip(result.issues.warp, result.issues.scheduler, strict=True) if s == 0]

    assert order("gto") == [0, 0, 0, 4, 4, 4, 8, 8, 8]
    assert order("glr") == [0, 0, 0, 4, 4, 4, 8, 8, 8]
    assert order("lrr") == [0, 4, 8, 0, 4, 8, 0, 4, 8]
    assert order("oldest") == [0, 0, 0, 4, 4, 4, 8, 8, 8]
    # Greedy stays with a young warp that the oldest policy would leave: warp 0 rests while warp 4 issues.
    rest = Program("rest", (Instruction("think", name="t", duration=Duration(2)), fp32("t"), fp32("t")))
    work = Program("work", (Loop(5, (Instruction("think", duration=Duration(1)),)),))
    idle = Program("idle", (fp32(),))
    found = {}
    for policy in ("gto", "glr", "oldest"):
        kernel = Kernel("k", (rest, work, idle), ((0, 2, 2, 2, 1),))
        trace = simulate(kernel, gpu, keep=Record.ALL, policy=policy).issues
        assert trace is not None
        found[policy] = trace.warp[trace.scheduler == 0].tolist()
    assert found["gto"] == found["glr"] == [0, 4, 4, 4, 4, 4, 0, 0]
    assert found["oldest"] == [0, 4, 0, 4, 0, 4, 4, 4]
    # An empty place takes no slot: the second warp goes to the second scheduler.
    trace = simulate(
        Kernel("k", (rest, work), ((0, NO_WARP, NO_WARP, NO_WARP, 1),)), gpu, keep=Record.ALL
    ).issues
    assert trace is not None
    assert set(trace.scheduler.tolist()) == {0, 1}


MEASURED_SLOTS = {
    1: (3, 0, 1, 2),
    2: (0, 2, 4, 6),
    3: (1, 0, 7, 10),
    4: (0, 5, 10, 15),
    5: (1, 6, 11, 12),
    6: (1, 7, 13, 19),
    8: (2, 11, 16, 25),
    16: (0, 17, 34, 51),
}
"""Slots (``%warpid``) of the first warps of four blocks of one SM of an H100, by warps of a block."""


@pytest.mark.parametrize(("warps", "measured"), MEASURED_SLOTS.items())
def test_blocks_begin_with_one_scheduler_after_the_other(
    gpu: Gpu, warps: int, measured: tuple[int, ...]
) -> None:
    """Where the description has it; the first block begins with scheduler 0, on the card with any."""
    think, few = Instruction("think", duration=Duration(500)), {"shared_bytes": 1024, "sms": 1}
    turned = gpu.with_values({"sm.block_turn": 1}, source="test")
    slots = run(turned, think, warps=warps, blocks=4, **few).warps.slot
    assert sorted(slots.tolist()) == sorted({*slots.tolist()})
    assert [int(s) % 4 for s in slots[::warps]] == [(s - measured[0]) % 4 for s in measured]
    if measured[0] == 0:
        assert slots[::warps].tolist() == [*measured]
    assert run(gpu, think, warps=warps, blocks=4, **few).warps.slot.tolist() == list(range(4 * warps))


def test_turns_go_on_behind_blocks_that_are_gone(gpu: Gpu) -> None:
    think, turned = (
        Instruction("think", duration=Duration(500)),
        gpu.with_values({"sm.block_turn": 1}, source="test"),
    )
    slots = run(turned, think, warps=32, blocks=6, shared_bytes=1024, sms=1).warps.slot[::32]
    assert [int(s) % 4 for s in slots] == [0, 1, 2, 3, 0, 1]
    slots = run(turned, think, warps=7, blocks=40, shared_bytes=1024, sms=1).warps.slot
    assert slots.max() < 64


def test_blocks_wait_until_an_sm_has_room(gpu: Gpu) -> None:
    think = Instruction("think", name="t", duration=Duration(100))
    result = run(gpu, think, fp32("t"), warps=32, blocks=5)
    # 64 warps an SM: two blocks at a time, each 10 + 100 + 8 issue cycles (8 warps a scheduler) at the
    # longest.
    assert result.blocks.launch[:2].tolist() == [0, 0]
    assert result.blocks.launch[2] == result.blocks.retire[:2].min()
    assert result.blocks.launch[4] == np.sort(result.blocks.retire)[2]
    by_shared = run(gpu, think, blocks=5, shared_bytes=48 * 1024)
    assert by_shared.blocks.launch[:2].tolist() == [0, 0]
    assert by_shared.blocks.launch[2] > 0
    by_registers = run(gpu, think, warps=8, blocks=3, registers_per_thread=255)
    # 255 registers round up to 8,192 a warp, so eight warps fill the SM.
    assert by_registers.blocks.launch.tolist() == [0, *by_registers.blocks.retire[:2]]


def test_blocks_spread_over_sms(gpu: Gpu) -> None:
    result = run(gpu, fp32(), blocks=5, sms=4)
    assert result.blocks.sm.tolist() == [0, 1, 2, 3, 0]


def test_random_patterns_have_streams_of_their_own(gpu: Gpu) -> None:
    atomic = Instruction("atomic-add", shared=RandomWords(256), returns=False)
    base = run(gpu, Loop(50, (atomic,)), warps=2, seed=3)
    again = run(gpu, Loop(50, (atomic,)), warps=2, seed=3)
    other = run(gpu, Loop(50, (atomic,)), warps=2, seed=4)
    assert base.jobs is not None
    assert again.jobs is not None
    assert other.jobs is not None
    assert base.jobs.passes.tolist() == again.jobs.passes.tolist()
    assert base.jobs.passes.tolist() != other.jobs.passes.tolist()
    # Common random numbers: another instruction in front changes no warp's draws of this one by itself.
    with_more = run(
        gpu,
        Loop(50, (atomic,)),
        Loop(20, (Instruction("atomic-add", shared=RandomWords(64), returns=False),)),
        warps=2,
        seed=3,
    )
    assert with_more.jobs is not None
    mine = with_more.jobs.chosen(with_more.jobs.slot == 0)
    for warp in (0, 1):
        assert mine.passes[mine.warp == warp].tolist() == base.jobs.passes[base.jobs.warp == warp].tolist()


def test_random_bytes_into_256_bins_serialise_as_counted_elsewhere(gpu: Gpu) -> None:
    """Random bytes into 256 bins: 3.53 lanes on the fullest of 32 banks on average (worked out
    independently)."""
    result = run(
        gpu, Loop(400, (Instruction("atomic-add", shared=RandomWords(256), returns=False),)), warps=8
    )
    assert result.atomic.e_mean == pytest.approx(3.53, abs=0.05)
    assert result.atomic.lanes_mean == 32


def test_random_global_addresses_miss_a_large_buffer_and_hit_a_small_one(gpu: Gpu) -> None:
    def misses(size: int) -> float:
        load = Instruction("global-load", name="x", after=("x",), memory=RandomBytes(size))
        truth = run(gpu, Loop(60, (load,)), warps=4).sms[0]
        return truth.l1_sector_misses / (truth.l1_sector_hits + truth.l1_sector_misses)

    assert misses(1 << 28) > 0.99
    assert misses(1 << 12) < 0.1


@pytest.mark.parametrize("policy", POLICIES)
def test_the_looped_microbenchmark_runs_at_the_initiation_interval(gpu: Gpu, policy: str) -> None:
    result = simulate(atomics(warps=8, same_word=16, iterations=400), gpu, policy=policy)
    assert result.cycles / result.warp_instructions == pytest.approx(19.5, rel=0.005)
    assert result.atomic.service_cycles == pytest.approx(19.5, rel=0.005)


def test_results_are_the_same_from_run_to_run(gpu: Gpu) -> None:
    kernel = atomics(warps=8, same_word=4, iterations=50)
    first, second = (simulate(kernel, gpu, keep=Record.ALL) for _ in range(2))
    for trace in ("jobs", "issues", "spans", "warps", "blocks"):
        a, b = getattr(first, trace), getattr(second, trace)
        for name in a.__dataclass_fields__:
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_a_run_that_takes_too_long_is_given_up(gpu: Gpu) -> None:
    with pytest.raises(SmlabError, match="not finished after the allowed cycles.*got 100"):
        simulate(atomics(iterations=100), gpu, max_cycles=100)


class TestSimulationRefusals:
    def test_too_much_shared_memory(self, gpu: Gpu) -> None:
        with pytest.raises(
            SmlabError, match=r"test on v100.*shared memory.*got 200000; expected at most 98304"
        ):
            run(gpu, fp32(), shared_bytes=200_000)

    def test_a_word_outside_the_block(self, gpu: Gpu) -> None:
        with pytest.raises(
            SmlabError, match=r"shared-load.*beyond the block's own.*shared_bytes_per_block = 64"
        ):
            run(gpu, Instruction("shared-load"), shared_bytes=64)

    def test_a_loop_that_never_ends(self) -> None:
        with pytest.raises(SmlabError, match="loop: never ends"):
            Loop(float("inf"), (fp32(),))  # type: ignore[arg-type]
        with pytest.raises(SmlabError, match=r"loop: not a usable count \(got -1"):
            Loop(-1, (fp32(),))

    def test_nested_loops_that_end_after_ages(self, gpu: Gpu) -> None:
        body: tuple[Instruction | Loop, ...] = (fp32(),)
        for _ in range(4):
            body = (Loop(100_000, body),)
        with pytest.raises(SmlabError, match="runs practically for ever"):
            run(gpu, *body)

    def test_an_atomic_that_the_gpu_does_not_have(self, gpu: Gpu) -> None:
        with pytest.raises(SmlabError, match="v100: this GPU has no such shared-memory atomic.*popc-inc"):
            simulate(atomics(op="popc-inc"), gpu)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"same_word": 3}, "same_word: does not divide the active lanes .got 3"),
            ({"same_word": 16, "same_bank": 3}, "same_bank: 2 distinct words"),
            ({"lanes": 33}, "lanes: out of range .got 33"),
            ({"warps": 0}, "warps: out of range .got 0"),
            ({"op": "sub"}, "op: unknown operation .got 'sub'"),
            ({"cas_warps": 9}, "cas_warps: out of range .got 9"),
        ],
    )
    def test_microbenchmarks_that_cannot_be_laid_out(self, options: dict[str, int], message: str) -> None:
        with pytest.raises(SmlabError, match=message):
            atomics(**options)  # type: ignore[arg-type]

    def test_names_that_do_not_resolve(self, gpu: Gpu) -> None:
        with pytest.raises(SmlabError, match="waits for an instruction that is not there .got 'y'"):
            run(gpu, fp32("y"))
        with pytest.raises(SmlabError, match="waits for a result that never comes .got 'a'"):
            run(gpu, Instruction("atomic-add", name="a", returns=False), fp32("a"))


def test_machine_constants_are_whole_numbers(gpu: Gpu) -> None:
    machine = machine_from(gpu)
    assert machine.atomics["add"].interval_ticks(1) == round(4.5 * 2**20)
    numbers = [getattr(machine, f.name) for f in dataclasses.fields(machine)]
    assert not any(isinstance(n, float) for n in numbers)
    assert sum(isinstance(n, int) for n in numbers) > 25


def test_a_hash_spreads_lines_that_lie_far_apart_over_the_sets() -> None:
    """Neighbours of eight stay side by side; lines that are all in one set without it are not with it."""
    plain, hashed = CacheShape(64, 4), CacheShape(64, 4, hashed=True)
    far = [64 * k for k in range(256)]
    assert {plain.set_of(line) for line in far} == {0}
    assert len({hashed.set_of(line) for line in far}) == 8  # of each group of eight its first one
    # Lines in a row lie evenly in the sets, also where their number is no power of two.
    shape = CacheShape(24, 4, hashed=True, halves=1)
    counts = Counter(shape.set_of(line) for line in range(240))
    assert (len(counts), min(counts.values()), max(counts.values())) == (24, 9, 11)
    # Each of two halves has its own sets.
    halves = dataclasses.replace(shape, sets=48, halves=2)
    assert [halves.set_of(SECOND_HALF + line) for line in range(24)] == [
        24 + shape.set_of(n) for n in range(24)
    ]
    assert [hashed.set_of(line) - hashed.set_of(0) for line in range(8)] == list(range(8))
