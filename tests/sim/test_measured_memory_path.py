"""Rules of the memory path, and of blocks that follow each other, that an H100 showed; each is switched on by
a key of its description. Expected cycles are worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.instruction import SassInstruction
from smlab.sim import Duration, Instruction, Kernel, Loop, Program, Record
from smlab.sim.address_patterns import Affine, Strided
from smlab.sim.instructions import CLASSES
from smlab.sim.isa.decode.control import asks_l2
from smlab.sim.lowering import LoweredKernel, lower
from smlab.sim.machine import TICK_BITS, CacheShape, Machine, SliceTiming, StoreTiming, machine_from
from smlab.sim.result import SimResult
from smlab.sim.simulate import ENGINES

ONE_PLACE = Affine(lane_stride_bytes=0, warp_stride_bytes=0)


@pytest.fixture(scope="module")
def machine() -> Machine:
    """An L2 that all lies in one place and takes next to nothing, so that what is asked for is felt alone."""
    found = machine_from(load_gpu("v100"))
    return replace(found, l2_slices=SliceTiming(), l2_sector_ticks=1, l2_atomic_sector_ticks=1)


def _run(engine: str, lowered: LoweredKernel) -> SimResult:
    return ENGINES[engine](lowered, Record.ALL, None, None)


def _kernel(*body: Instruction | Loop, **shape: int) -> Kernel:
    return Kernel("k", (Program("p", body),), ((0,),), in_l2=(0, 1 << 20), **shape)


def _past_l1(lowered: LoweredKernel) -> LoweredKernel:
    """The same kernel with strong loads."""
    (program,) = lowered.programs

    def strong(operation: object) -> object:
        loads = getattr(getattr(operation, "cls", None), "operation", "") == "load"
        return replace(operation, past_l1=True) if loads else operation  # type: ignore[type-var]

    code = tuple(strong(item) for item in program.code)
    changed = replace(program, code=code, operations=tuple(strong(item) for item in program.operations))
    return replace(lowered, programs=(changed,))


def test_a_strong_load_asks_l2_for_what_l1_holds(machine: Machine, engine: str) -> None:
    load = Instruction("global-load", name="x", after=("x",), memory=ONE_PLACE)
    lowered = lower(_kernel(Loop(9, (load,)), Instruction("fp32", after=("x",))), machine)
    plain, strong = _run(engine, lowered), _run(engine, _past_l1(lowered))
    assert (plain.sms[0].l1_sector_hits, plain.sms[0].l1_sector_misses) == (8, 1)
    assert (strong.sms[0].l1_sector_hits, strong.sms[0].l1_sector_misses) == (0, 9)
    assert strong.cycles - plain.cycles == 8 * (machine.l2_latency_cycles - machine.l1_latency_cycles)


def test_strong_loads_do_not_wait_for_each_other_s_sectors(machine: Machine, engine: str) -> None:
    """Two warps ask for one sector at once: plain loads make one request of it, strong ones two."""
    load = Instruction("global-load", name="x", memory=ONE_PLACE)
    kernel = replace(_kernel(load, Instruction("fp32", after=("x",))), roles=((0, 0),))
    lowered = lower(kernel, machine)
    assert _run(engine, lowered).memory.l2_sector_hits == 1
    assert _run(engine, _past_l1(lowered)).memory.l2_sector_hits == 2


@pytest.mark.parametrize(
    ("opcode", "modifiers", "expected"),
    [
        ("LDG", ("E", "STRONG", "GPU"), True),
        ("LD", ("E", "128", "STRONG", "SYS"), True),
        ("LDG", ("E", "STRONG", "SM"), False),
        ("LDG", ("E", "CONSTANT"), False),
        ("STG", ("E", "STRONG", "GPU"), False),
    ],
)
def test_loads_of_a_scope_beyond_the_sm_are_strong(
    opcode: str, modifiers: tuple[str, ...], expected: bool
) -> None:
    instruction = SassInstruction(0, ".".join((opcode, *modifiers)))
    assert asks_l2(instruction) is expected


@pytest.mark.parametrize(("width", "cycles"), [(32, 1), (64, 2), (128, 4)])
def test_a_wide_load_takes_l1_as_long_as_its_registers(
    machine: Machine, engine: str, width: int, cycles: int
) -> None:
    load = Instruction("global-load", memory=ONE_PLACE, width=width)
    for register_bytes, expected in ((0, 1), (128, cycles)):
        lowered = lower(_kernel(Loop(10, (load,))), replace(machine, l1_register_bytes=register_bytes))
        assert _run(engine, lowered).sms[0].stage_occupied_cycles == 10 * expected


def test_a_load_keeps_its_address_unit_for_each_of_its_lines(machine: Machine, engine: str) -> None:
    """One warp's loads of 32 lines come at twice the data stage's time; those of two sub-cores overlap."""

    def added(line_cycles: int, warps: int) -> int:
        changed = replace(
            machine, l1_address_line_ticks=line_cycles << TICK_BITS, port_sector_ticks=1, mio_queue_entries=2
        )
        load = Instruction("global-load", memory=Affine(lane_stride_bytes=128, warp_stride_bytes=0))

        def cycles(times: int) -> int:
            kernel = replace(_kernel(Loop(times, (load,))), roles=((0,) * warps,))
            return _run(engine, lower(kernel, changed)).cycles

        return cycles(30) - cycles(10)

    assert added(0, 1) == added(0, 2) // 2 == 20 * 32
    assert added(2, 1) == 20 * 64
    assert added(2, 2) == pytest.approx(20 * 64, abs=32)


def test_a_shared_load_keeps_its_address_unit_for_each_of_its_passes(machine: Machine, engine: str) -> None:
    """Eight lanes on a bank: eight passes, which take the address unit 16 cycles."""
    load = Instruction("shared-load", shared=Strided(8))

    def added(line_cycles: int) -> int:
        changed = replace(machine, l1_address_line_ticks=line_cycles << TICK_BITS)

        def cycles(times: int) -> int:
            return _run(
                engine, lower(_kernel(Loop(times, (load,)), shared_bytes_per_block=4096), changed)
            ).cycles

        return cycles(30) - cycles(10)

    assert added(0) == 20 * 8
    assert added(2) == 20 * 16


@pytest.mark.parametrize(
    ("stride", "sectors", "lines", "whole"), [(4, 4, 1, True), (8, 8, 2, False), (128, 32, 32, False)]
)
def test_a_store_takes_its_port_by_sectors_and_by_lines_with_holes(
    machine: Machine, engine: str, stride: int, sectors: int, lines: int, whole: bool
) -> None:
    stores = StoreTiming(5 << TICK_BITS, 7 << TICK_BITS, 1)
    changed = replace(machine, stores=stores)

    def cycles(times: int) -> int:
        store = Instruction("global-store", memory=Affine(lane_stride_bytes=stride, warp_stride_bytes=0))
        return _run(engine, lower(_kernel(Loop(times, (store,))), changed)).cycles

    assert cycles(30) - cycles(10) == 20 * (5 * sectors + (0 if whole else 7 * lines))


def test_what_all_sms_share_takes_longer_for_stores(machine: Machine, engine: str) -> None:
    """A sector written takes L2 three cycles here, and a line with holes two more."""
    stores = StoreTiming(1, 0, 3 << TICK_BITS, 2 << TICK_BITS)
    changed = replace(machine, stores=stores)

    def cycles(times: int, stride: int) -> int:
        store = Instruction("global-store", memory=Affine(lane_stride_bytes=stride, warp_stride_bytes=0))
        return _run(engine, lower(_kernel(Loop(times, (store,))), changed)).cycles

    assert cycles(60, 4) - cycles(20, 4) == 40 * 4 * 3
    assert cycles(60, 8) - cycles(20, 8) == 40 * (8 * 3 + 2 * 2)


def test_a_slice_serves_all_lanes_on_a_word_before_the_next_sector(machine: Machine, engine: str) -> None:
    """Two warps add to two words of one slice, all lanes of each to one: 32 lanes after the other, twice."""

    def cycles(waits: bool, times: int) -> int:
        slices = SliceTiming(count=8, atomic_sector_ticks=1 << TICK_BITS, waits_for_lanes=waits)
        atomics = replace(machine.global_atomics, word_ticks=2 << TICK_BITS, packet_ticks=1, in_flight=1000)
        changed = replace(machine, l2_slices=slices, global_atomics=atomics)
        add = Instruction("global-reduce", memory=Affine(lane_stride_bytes=0, warp_stride_bytes=128))
        kernel = replace(
            _kernel(Loop(times, (add,)), blocks=2, sms=2), programs=(Program("p", (Loop(times, (add,)),)),)
        )
        return _run(engine, lower(kernel, changed)).cycles

    assert cycles(False, 60) - cycles(False, 20) == 40 * 32 * 2
    assert cycles(True, 60) - cycles(True, 20) == 40 * 2 * (1 + 31 * 2)


@pytest.mark.parametrize(("operation", "passes"), [("global-reduce", 1), ("global-atomic", 2)])
def test_half_of_the_sms_ask_a_slice_of_their_own_partition_first(
    machine: Machine, engine: str, operation: str, passes: int
) -> None:
    """Two warps add to a line each, in the two slices of L2, which lie across from each other: each slice has
    four sectors of its own a round, and half of four others, twice where a result comes back. Two warps on
    one slice wait for its own eight alone. In a sample of one of 12 SMs all that comes twelve times."""

    def cycles(partitions: int, stride: int, times: int, all_sms: int) -> int:
        slices = SliceTiming(
            count=2,
            atomic_sector_ticks=10 << TICK_BITS,
            partitions=partitions,
            sms=2,
            all_sms=all_sms,
        )
        atomics = replace(machine.global_atomics, word_ticks=1, in_flight=1000)
        changed = replace(machine, l2_slices=slices, global_atomics=atomics)
        add = Instruction(operation, memory=Affine(lane_stride_bytes=4, warp_stride_bytes=stride))
        kernel = replace(
            _kernel(Loop(times, (add,)), blocks=2, sms=2), programs=(Program("p", (Loop(times, (add,)),)),)
        )
        return _run(engine, lower(kernel, changed)).cycles

    def added(partitions: int, stride: int, all_sms: int = 2) -> int:
        return cycles(partitions, stride, 60, all_sms) - cycles(partitions, stride, 20, all_sms)

    assert added(1, 256) == 40 * 4 * 10
    assert added(2, 256) == 40 * 4 * (10 + 5 * passes)
    assert added(2, 128) == 2 * added(1, 256)
    assert added(2, 256, all_sms=24) == pytest.approx(12 * added(2, 256), rel=0.01)


def test_each_slice_lies_across_from_one_other() -> None:
    slices = SliceTiming(count=80)
    assert sorted(map(slices.across, range(80))) == list(range(80))
    assert all(slices.across(slices.across(n)) == n != slices.across(n) for n in range(80))


def test_slices_lie_at_several_distances_and_the_description_tells_the_middle(
    machine: Machine, engine: str
) -> None:
    spread = 100

    def cycles(line: int, ticks: int) -> int:
        changed = replace(machine, l2_slices=SliceTiming(count=64, spread_ticks=ticks))
        load = Instruction("global-load", name="x", memory=Affine(base_bytes=128 * line, lane_stride_bytes=0))
        return _run(engine, lower(_kernel(load, Instruction("fp32", after=("x",))), changed)).cycles

    alone = cycles(0, 0)
    found = [cycles(line, spread << TICK_BITS) - alone for line in range(0, 512, 16)]
    assert min(found) >= -spread // 2
    assert max(found) <= spread // 2 + 1
    assert max(found) - min(found) > spread // 2
    assert abs(sum(found) / len(found)) < spread / 5


def test_a_block_begins_so_long_after_the_one_in_its_room_left(machine: Machine, engine: str) -> None:
    """Of three blocks two find room; the third takes that of the one which ends first, and no other waits."""
    body = (Instruction("think", name="t", duration=Duration(100)), Instruction("fp32", after=("t",)))
    kernel = Kernel("k", (Program("p", body),), ((0,),), blocks=5, shared_bytes_per_block=40_000)

    def result(turnover: int) -> SimResult:
        changed = replace(machine, block_turnover_cycles=turnover, max_blocks=2)
        return _run(engine, lower(kernel, replace(changed, block_dispatch_ticks=0, warp_dispatch_ticks=0)))

    early, late = result(0), result(500)
    assert early.issues is not None
    assert late.issues is not None
    first, exits = min(late.issues.cycle.tolist()), late.blocks.retire.tolist()
    assert first == min(early.issues.cycle.tolist())  # the first blocks follow none
    assert late.cycles - early.cycles == 2 * (500 - machine.block_launch_cycles)
    begun = sorted(late.issues.cycle.tolist())
    assert exits[0] + 500 in begun


def test_the_warps_of_a_block_begin_one_after_the_other(machine: Machine, engine: str) -> None:
    kernel = replace(_kernel(Instruction("fp32")), roles=((0,) * 4,))

    def begun(ticks: int) -> list[int]:
        result = _run(engine, lower(kernel, replace(machine, warp_launch_ticks=ticks)))
        assert result.issues is not None
        return sorted((result.issues.cycle - result.issues.cycle.min()).tolist())

    assert begun(0) == [0, 0, 0, 0]  # four schedulers
    assert begun(7 << TICK_BITS - 1) == [0, 3, 7, 10]  # 3.5 cycles


def _waits(machine: Machine, engine: str, writes: int, pause: int = 0) -> list[int]:
    """What loads of one line each wait beyond one with nothing before it. Before each go ``writes`` sectors
    that are evicted from L2, dirty. All begins after a pause of so many cycles."""
    dram = replace(
        machine,
        l2=CacheShape(1, 1),
        l1=CacheShape(1, 1),
        dram_sector_ticks=1 << TICK_BITS,
        dram_write_ticks=8 << TICK_BITS,
        l2_slices=SliceTiming(count=8, sector_ticks=1),
    )
    body = [
        Instruction("think", name="pause", duration=Duration(max(1, pause))),
        Instruction("fp32", after=("pause",)),
    ]
    for n in range(64):
        for k in range(writes):
            place = Affine(base_bytes=(1 << 24) + 4096 * (writes * n + k), lane_stride_bytes=0)
            body.append(Instruction("global-store", memory=place))
        place = Affine(base_bytes=1024 * n, lane_stride_bytes=0)
        body.append(Instruction("global-load", name=f"x{n}", after=(f"x{n - 1}",) * bool(n), memory=place))

    def latencies(drain: int, of_reads: int) -> list[int]:
        kernel = replace(_kernel(*body), in_l2=(0, 0))
        changed = replace(dram, dram_drain_cycles=drain, dram_read_cycles=of_reads)
        jobs = _run(engine, lower(kernel, changed)).jobs
        assert jobs is not None
        loads = np.isin(jobs.op, [CLASSES["global-load"].code])
        return (jobs.completion - jobs.issue)[loads].tolist()

    return [a - b for a, b in zip(latencies(900, 0), latencies(0, 0), strict=True)]


def test_reads_wait_for_the_writes_that_dram_is_at(machine: Machine, engine: str) -> None:
    """Without writes nobody waits. With more of them the wait grows, and it differs from region to region."""
    none, few, many = (_waits(machine, engine, writes) for writes in (0, 1, 3))
    assert set(none) == {0}
    assert 0 < np.mean(few[32:]) < np.mean(many[32:])
    assert np.std(many[32:]) > np.mean(many[32:]) / 2


def test_what_dram_did_long_ago_does_not_count(machine: Machine, engine: str) -> None:
    """A launch that begins with 200,000 idle cycles waits for writes as another one, soon after."""
    soon, late = (np.mean(_waits(machine, engine, 3, pause)[32:]) for pause in (1, 200_000))
    assert soon > 20
    assert late == pytest.approx(soon, rel=0.15)


def test_lengths_of_waits_are_those_of_a_queue_that_never_runs_dry() -> None:
    """Exponential in their mean and their spread; the lines of one slice's part of a region have one, and of
    32 regions at distances of 16 KiB the longest is 4.06 of the mean (the 32nd harmonic number)."""
    slices = SliceTiming(count=80, part_bits=1, region_bits=3)
    parts = np.array([[slices.wait_parts(line) for line in range(8 * n, 8 * n + 8)] for n in range(20_000)])
    assert parts.mean() / 1024 == pytest.approx(1, abs=0.02)
    assert parts[:, 0].std() / 1024 == pytest.approx(1, abs=0.05)
    assert all(len(set(row)) <= 2 for row in parts.tolist())
    assert parts.max(axis=1).mean() / 1024 == pytest.approx(1.5, abs=0.03)
    distant = np.array([slices.wait_parts(128 * n) for n in range(32 * 2_000)]).reshape(-1, 32)
    assert distant.max(axis=1).mean() / 1024 == pytest.approx(4.06, rel=0.05)


@pytest.mark.parametrize(("stride", "longer"), [(128, 32 * 30), (64, 16 * 20), (32, 0), (4, 0)])
def test_l2_reads_parts_of_lines_as_long_as_it_looks_lines_up(
    machine: Machine, engine: str, stride: int, longer: int
) -> None:
    """A sector takes 10 cycles and a line 40 at least: one sector of it 30 more, two 20, all four nothing."""

    def cycles(line_cycles: int) -> int:
        changed = replace(machine, l2_sector_ticks=10 << TICK_BITS, l2_line_ticks=line_cycles << TICK_BITS)
        load = Instruction("global-load", name="x", memory=Affine(lane_stride_bytes=stride))
        return _run(engine, lower(_kernel(load, Instruction("fp32", after=("x",))), changed)).cycles

    # The latency of a load of one sector, with its line's 30 cycles more, stays what the description says.
    assert cycles(40) - cycles(10) == longer - 30
