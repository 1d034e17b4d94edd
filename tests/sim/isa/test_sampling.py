"""Samples of large grids: what neighbours fetch is in L2, the arrays are as the sample left them, and both
engines agree."""

from collections.abc import Callable

import numpy as np
import pytest

from smlab.commands.run import steady
from smlab.commands.run.steady import run_until_steady
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Record, SimResult
from smlab.sim.execution import functional_warming
from smlab.sim.execution.functional_warming import Neighbours
from smlab.sim.execution.run import MachineRun, MachineRunOptions, run_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.memory.global_memory import COMPARED_BYTES, ContentsBefore, GlobalMemory
from smlab.sim.lowering import LoweredKernel

Launch = Callable[..., MachineLaunch]
BLOCKS = 1200
LINES = [
    "S2R R0, SR_TID.X",
    "S2R R1, SR_CTAID.X",
    "MOV R24, c[0x0][0x160]",
    "MOV R25, c[0x0][0x164]",
    "IMAD R2, R1, 0x20, R0",
    "IMAD.WIDE.U32 R22, R2, 0x4, R24",
    "LDG.E.SYS R4, [R22]",
    "LDG.E.SYS R5, [R22+0x80]",
    "LDG.E.SYS R6, [R22+0x100]",
    "IADD3 R4, R4, R5, R6",
    "MOV R26, c[0x0][0x168]",
    "MOV R27, c[0x0][0x16c]",
    "IMAD.WIDE.U32 R28, R2, 0x4, R26",
    "STG.E.SYS [R28], R4",
    "EXIT",
]
"""Each block reads its own 32 words and those of the next two blocks."""


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(32 * (BLOCKS + 2), dtype=np.int32), np.zeros(32 * BLOCKS, dtype=np.int32)


def test_a_sector_belongs_to_the_wave_that_asks_for_it_first(launch: Launch) -> None:
    source, out = arrays()
    asked = launch(LINES, source, out, grid=BLOCKS)
    neighbours = Neighbours(asked, 32)
    assert neighbours.block_instructions(1) == len(LINES)
    chosen = np.array([100, 180, 260])
    found = neighbours.fetched(chosen, 1)
    again = neighbours.fetched(chosen, 1)  # from what was kept
    assert np.array_equal(found.bits, again.bits)
    assert found.read_each == again.read_each
    assert not out.any()  # executed on the side
    first = asked.allocations[0].address // 32
    own = {n for n in range(99 * 4, 263 * 4) if first + n not in found}
    assert own == {4 * b + 8 + n for b in chosen for n in range(4)}  # the last third: others had the rest
    # The first block's eight sectors are read by nobody before.
    assert found.read_each == (4 * 162 + 8) / 162


def test_blocks_of_one_wave_share_what_they_ask_for(launch: Launch) -> None:
    """Each line but the first two of a wave is asked for by three blocks, so each of them owns a third of it:
    not the first one all. (In the grid's first wave it is the one that comes first.)"""
    source, out = arrays()
    asked = launch(LINES, source, out, grid=BLOCKS)
    neighbours = Neighbours(asked, 32)
    first, half = asked.allocations[0].address // 32, BLOCKS // 2
    for lead in range(3):  # as likely by the first as by the last of the three
        chosen = np.arange(half + lead, BLOCKS, 3)
        found = neighbours.fetched(chosen, half)
        own = [n for n in range(4 * half + 8, 4 * BLOCKS) if first + n not in found]
        assert 0.94 < len(own) / (4 * len(chosen)) < 1.06
        place = np.bincount([(n // 4 - lead) % 3 for n in own], minlength=3)
        assert place.min() > 0.9 * place.mean()  # in the line of the block's own, the next one's, that after


ONE_LINE_AFTER_ANOTHER = [
    "MOV R24, c[0x0][0x160]",
    "MOV R25, c[0x0][0x164]",
    "MOV R3, RZ",
    ".L_again:",
    "LDG.E.SYS R4, [R24]",
    "IADD3 R24, P0, R24, R4, RZ",
    "IADD3.X R25, R25, RZ, RZ, P0, !PT",
    "IADD3 R3, R3, 0x1, RZ",
    "ISETP.LT.AND P1, PT, R3, 0x40, PT",
    "@P1 BRA `(.L_again)",
    "EXIT",
]
"""All blocks follow one chain of 64 lines."""


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
def test_blocks_that_begin_together_wait_for_the_same_dram(launch: Launch, engine: str) -> None:
    """One of them fetches a line, and the others' requests come while it is on its way: not one block of a
    sample finds it in L2, whoever fetches it."""
    gpu = load_gpu("v100").with_values({"gpu.sms": 16}, source="assumed: a small GPU", where="test")
    runs = [
        run_machine_code(
            launch(ONE_LINE_AFTER_ANOTHER, np.full(32 * 65, 128, np.int32), grid=16),
            gpu,
            sms=sms,
            engine=engine,
            keep=Record.TOTALS,
        )
        for sms in ("all", 1)
    ]
    whole, part = runs
    assert whole.result.memory.dram_sectors == 64
    assert part.result.memory.dram_sectors < 16  # of one in sixteen blocks
    assert part.cycles == pytest.approx(whole.cycles, rel=0.02)
    assert whole.cycles > 64 * gpu.number("dram.latency_cycles")


def test_who_comes_to_a_sector_first_fetches_it(launch: Launch) -> None:
    """A block waits for its own line before it reads the next block's: that is in L2 by then. What all ask
    for at once is on its way, but only in the grid's first wave."""
    source, out = arrays()
    asked = launch(LINES, source, out, grid=BLOCKS)
    first = asked.allocations[0].address // 32
    found = Neighbours(asked, 32).fetched(np.arange(0, BLOCKS, 2), BLOCKS)
    sectors = np.arange(4 * BLOCKS - 8)
    own = np.array([first + n not in found for n in sectors.tolist()])
    assert (own == (sectors // 4 % 2 == 0)).all()  # each block its own line
    assert not any(found.arrives(first + int(n)) for n in sectors[~own])
    asked = launch(ONE_LINE_AFTER_ANOTHER, np.full(32 * 65, 128, np.int32), grid=16)
    first = asked.allocations[0].address // 32
    found = Neighbours(asked, 32).fetched(np.array([3]), 16)
    foreign = [n for n in range(first, first + 4 * 64, 4) if n in found]
    assert len(foreign) > 48
    assert all(found.arrives(n) for n in foreign)
    later = Neighbours(asked, 32).fetched(np.array([13]), 8)
    assert not any(later.arrives(n) for n in foreign)


def test_a_sample_of_the_fullest_sms_has_its_blocks_share(launch: Launch) -> None:
    """Of 24 blocks on 16 SMs eight have two. Each of these asks for a twelfth of all, not a sixteenth."""
    gpu = load_gpu("v100").with_values(
        {"gpu.sms": 16, "dram.sustained_bandwidth_bytes_per_s": 60e9},
        source="assumed: a small GPU",
        where="test",
    )

    def run(sms: int | str, engine: str = "compiled") -> MachineRun:
        source = np.zeros(24 * 4096, dtype=np.int32)
        return run_machine_code(
            launch(PHASES, source, grid=24, block=1024), gpu, sms=sms, engine=engine, samples=1
        )

    whole, part = run("all"), run(1)
    assert part.cycles == pytest.approx(whole.cycles, rel=0.05)  # 1.3 times as many by its SM's share
    assert run(1, "simpy").cycles == part.cycles


def test_a_sample_reads_from_dram_what_the_whole_grid_reads(launch: Launch) -> None:
    gpu = load_gpu("v100").with_values({"gpu.sms": 16}, source="assumed: a small GPU", where="test")
    source, out = arrays()
    whole = run_machine_code(launch(LINES, source, out, grid=BLOCKS), gpu, keep=Record.TOTALS)
    assert np.array_equal(out, source[:-64] + source[32:-32] + source[64:])
    source, out = arrays()
    part = run_machine_code(launch(LINES, source, out, grid=BLOCKS), gpu, sms=2, keep=Record.TOTALS)
    assert 0 < part.blocks_simulated < BLOCKS
    assert whole.dram_sectors_read == 4 * (BLOCKS + 2)
    assert abs(part.dram_sectors_read / whole.dram_sectors_read - 1) < 0.02


PHASES = [
    "S2R R0, SR_TID.X",
    "S2R R1, SR_CTAID.X",
    "MOV R24, c[0x0][0x160]",
    "MOV R25, c[0x0][0x164]",
    "IMAD R2, R1, 0x1000, R0",
    "IMAD.WIDE.U32 R22, R2, 0x4, R24",
    *(f"LDG.E.SYS R{4 + n}, [R22+{4096 * n:#x}]" for n in range(4)),
    *("IADD3 R4, R4, R5, R6" for _ in range(100)),
    "EXIT",
]
"""A block of 1,024 threads reads 16 KiB, and computes then for 1,500 cycles."""


def test_dram_is_not_idle_while_a_sampled_sm_has_nothing_to_ask_for(launch: Launch) -> None:
    """The other SMs have its share meanwhile, and it theirs: at the DRAM's limit a sample takes nearly what
    the whole grid takes. (20 % more if its share of the time were lost.)"""
    gpu = load_gpu("v100").with_values(
        {"gpu.sms": 16, "dram.sustained_bandwidth_bytes_per_s": 250e9},
        source="assumed: a small GPU",
        where="test",
    )
    blocks, few = 320, 80

    def run(sms: int | str, engine: str = "compiled", grid: int = blocks) -> MachineRun:
        source = np.zeros(grid * 4096, dtype=np.int32)
        asked = launch(PHASES, source, grid=grid, block=1024, shared=48 << 10)
        return run_machine_code(asked, gpu, sms=sms, engine=engine, samples=1)

    whole, part = run("all"), run(1)
    assert whole.cycles > 0.97 * blocks * 4096 * 4 / 250e9 * 1.38e9  # DRAM is the limit
    assert part.cycles == pytest.approx(whole.cycles, rel=0.1)
    assert run(1, "simpy", few).cycles == run(1, grid=few).cycles


def test_the_first_sample_alone_is_recorded(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings are large, and only the first sample's is given. The time is that of all."""
    gpu = load_gpu("v100").with_values({"gpu.sms": 16}, source="assumed: a small GPU", where="test")
    kept = []
    plain = MachineRunOptions.simulate

    def watched(options: MachineRunOptions, lowered: LoweredKernel) -> SimResult:
        kept.append(options.keep)
        return plain(options, lowered)

    monkeypatch.setattr(MachineRunOptions, "simulate", watched)
    recorded, told = (
        run_machine_code(launch(LINES, *arrays(), grid=BLOCKS), gpu, sms=2, keep=keep)
        for keep in (Record.ALL, Record.TOTALS)
    )
    assert kept == [Record.ALL, Record.TOTALS, Record.TOTALS, *[Record.TOTALS] * 3]
    assert recorded.result.spans is not None
    assert (recorded.cycles, recorded.cycles_low) == (told.cycles, told.cycles_low)


def test_both_engines_find_the_same_in_l2(launch: Launch) -> None:
    gpu = load_gpu("v100").with_values({"gpu.sms": 40}, source="assumed: a small GPU", where="test")
    runs = [
        run_machine_code(launch(LINES, *arrays(), grid=BLOCKS), gpu, sms=1, engine=engine, keep=Record.TOTALS)
        for engine in ("compiled", "simpy")
    ]
    assert runs[0].cycles == runs[1].cycles
    assert runs[0].result.memory == runs[1].result.memory
    assert 0 < runs[0].result.memory.dram_sectors < 12 * runs[0].blocks_simulated


def test_a_grid_of_fewer_blocks_than_sms_is_sampled(launch: Launch) -> None:
    gpu = load_gpu("v100")
    for blocks, sms in ((1, 3), (16, 8), (16, 30)):
        source, out = arrays()
        found = run_machine_code(launch(LINES, source, out, grid=blocks), gpu, sms=sms, keep=Record.TOTALS)
        assert found.blocks_simulated == min(blocks, sms)


TAKES_WORK = [
    "S2R R0, SR_TID.X",
    "ISETP.NE.AND P0, PT, R0, RZ, PT",
    "MOV R24, c[0x0][0x160]",
    "MOV R25, c[0x0][0x164]",
    "MOV R26, c[0x0][0x168]",
    "MOV R27, c[0x0][0x16c]",
    "MOV R5, 0x1",
    ".L_next:",
    "@!P0 ATOMG.E.ADD.STRONG.GPU PT, R4, [R24.64], R5",
    "SHFL.IDX PT, R4, R4, RZ, 0x1f",
    "ISETP.GE.AND P1, PT, R4, 0x100, PT",
    "@P1 EXIT",
    "IMAD R6, R4, 0x20, R0",
    "IMAD.WIDE.U32 R22, R6, 0x4, R26",
    "STG.E.SYS [R22], R4",
    "BRA `(.L_next)",
]
"""Warps take the next of 256 pieces of work from a counter in memory."""


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
def test_blocks_that_depend_on_each_other_are_told(launch: Launch, engine: str) -> None:
    gpu = load_gpu("v100").with_values({"gpu.sms": 8}, source="assumed: a small GPU", where="test")

    def run(sms: int | str) -> tuple[MachineRun, np.ndarray, np.ndarray]:
        counter, out = np.zeros(1, dtype=np.int32), np.full(32 * 256, -1, dtype=np.int32)
        made = launch(TAKES_WORK, counter, out, grid=64)
        return run_machine_code(made, gpu, sms=sms, engine=engine, keep=Record.TOTALS), counter, out

    done, counter, out = run("all")
    assert done.notes == ()
    assert out.tolist() == [n // 32 for n in range(32 * 256)]
    part, counter, out = run(1)
    told = part.notes[0]
    assert "blocks depend on each other, block (" in told
    assert "reads what block (" in told
    assert "byte 0 of argument 1), at 0x70 @!P0 ATOMG.E.ADD.STRONG.GPU" in told
    assert told.endswith("; --sms all runs them all")
    # Each sample has found all of the work: 256 pieces and, for each warp, the end.
    assert counter[0] == 256 + part.blocks_simulated
    assert part.cycles_high - part.cycles_low < 0.35 * part.cycles
    assert out.tolist() == [n // 32 for n in range(32 * 256)]


def test_each_sample_begins_with_the_same_arrays(launch: Launch) -> None:
    """A block that two samples run changes its words in place once."""
    gpu = load_gpu("v100").with_values({"gpu.sms": 8}, source="assumed: a small GPU", where="test")
    values = np.arange(32 * 8, dtype=np.int32)
    done = run_machine_code(launch(IN_PLACE, values, grid=8), gpu, sms=3, keep=Record.TOTALS)
    assert done.notes == ()
    changed = values != np.arange(32 * 8)
    assert changed.all(), "three times three of eight blocks ran, and what each wrote is there"
    assert np.array_equal(values, 2 * np.arange(32 * 8) + 3), "one of them twice, on the same words"


IN_PLACE = [
    *LINES[:4],
    "IMAD R2, R1, 0x20, R0",
    "IMAD.WIDE.U32 R22, R2, 0x4, R24",
    "LDG.E.SYS R4, [R22]",
    "IADD3 R4, R4, R4, 0x3",
    "STG.E.SYS [R22], R4",
    "EXIT",
]


def test_sms_are_added_until_the_time_stands_still(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = load_gpu("v100").with_values({"gpu.sms": 32}, source="assumed: a small GPU", where="test")
    whole = run_machine_code(launch(IN_PLACE, np.arange(32 * BLOCKS, dtype=np.int32), grid=BLOCKS), gpu)
    monkeypatch.setattr(steady, "SMALL_GRID", 0)
    values = np.arange(32 * BLOCKS, dtype=np.int32)
    done = run_until_steady(launch(IN_PLACE, values, grid=BLOCKS), gpu, keep=Record.TOTALS)
    *_, before, last = done.attempts
    assert [a.sms for a in done.attempts] == [2**n for n in range(len(done.attempts))]
    assert not done.whole
    assert (last.sms, last.cycles, last.cycles_low) == (done.sms, done.cycles, done.cycles_low)
    assert abs(before.cycles / last.cycles - 1) < steady.STEADY
    assert (
        done.why == f"within {100 * abs(before.cycles / last.cycles - 1):.1f} % of the time by {before.sms}"
    )
    assert done.cycles_low < whole.cycles < done.cycles_high
    changed = values != np.arange(32 * BLOCKS)
    assert 0 < changed.sum() < len(values)
    assert np.array_equal(
        values[changed], (2 * np.arange(32 * BLOCKS) + 3)[changed]
    )  # by the last time alone


def test_what_does_not_stand_still_runs_whole(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = load_gpu("v100").with_values({"gpu.sms": 8}, source="assumed: a small GPU", where="test")
    monkeypatch.setattr(steady, "SMALL_GRID", 0)
    monkeypatch.setattr(steady, "STEADY", 0.0)
    values = np.arange(32 * BLOCKS, dtype=np.int32)
    done = run_until_steady(launch(IN_PLACE, values, grid=BLOCKS), gpu, keep=Record.TOTALS)
    assert done.whole
    assert done.sms == 8
    assert len(done.attempts) > 1
    assert done.why.startswith("the grid runs whole: ")
    assert np.array_equal(values, 2 * np.arange(32 * BLOCKS) + 3)


def test_atomics_of_blocks_outside_of_a_sample_come_to_the_same_words(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = load_gpu("v100").with_values({"gpu.sms": 8}, source="assumed: a small GPU", where="test")

    def run(sms: int | str, code: list[str], engine: str = "compiled", grid: int = 4096) -> MachineRun:
        words = np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int32)
        made = launch(code, *words, grid=grid)
        return run_machine_code(made, gpu, sms=sms, engine=engine, keep=Record.TOTALS)

    adds = [line for line in TAKES_WORK if line.startswith("MOV R")]
    adds += ["RED.E.ADD.STRONG.GPU [R24.64], R5"] * 8 + ["EXIT"]
    whole, part = run("all", adds), run(1, adds)
    # 4,096 blocks of a warp add eight times, 1.2 cycles (or what the description says) a lane.
    bound = 4096 * 32 * 8 * gpu.number("l2.atomic_interval_cycles")
    assert whole.cycles >= bound
    assert part.cycles == pytest.approx(whole.cycles, rel=0.1)
    assert run(1, adds, "simpy", 1024).cycles == run(1, adds, grid=1024).cycles
    # Without the others, a sample has only the lanes of its own blocks at the word.
    monkeypatch.setattr(
        functional_warming._Askers, "other_atomics", lambda self, others: np.zeros(0, np.int64)
    )
    assert bound > 2 * run(1, adds).cycles


def test_engines_agree_where_slices_of_l2_wait_for_the_lanes(launch: Launch) -> None:
    """Hopper's slices have the lanes of all SMs; nothing is added to the word's own queue."""
    gpu = load_gpu("h100-sxm").with_values({"gpu.sms": 8}, source="assumed: a small GPU", where="test")
    adds = [line for line in TAKES_WORK if line.startswith("MOV R")]
    adds += ["RED.E.ADD.STRONG.GPU [R24.64], R5"] * 4 + ["EXIT"]

    def cycles(engine: str, sms: int | str) -> float:
        words = np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int32)
        made = launch(adds, *words, grid=2048)
        return run_machine_code(made, gpu, sms=sms, engine=engine, keep=Record.TOTALS).cycles

    part = cycles("compiled", 1)
    assert part == cycles("simpy", 1)
    assert part == pytest.approx(cycles("compiled", "all"), rel=0.15)


def test_other_atomics_are_as_many_as_the_part_of_other_blocks_that_ask() -> None:
    askers = functional_warming._Askers(64)
    for n in range(32):
        everyone, a_pair, alone, few = 0, 1 + n // 2, 20 + n, 60 + (n >= 12)
        askers.ask(np.array([everyone, a_pair, alone, few]) << 1, own=n in (4, 5, 6, 7))
    found = askers.other_atomics(others=7).view(np.uint8)
    assert found[0] == 7
    assert found[[24, 25, 26, 27]].tolist() == [0, 0, 0, 0]
    assert found[[3, 4]].tolist() == [0, 0]
    assert found[60] == 2  # 8 of 28 others for 4 of 4: 0.29 times 7


def test_more_sms_do_not_help_blocks_that_depend_on_each_other(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = load_gpu("v100").with_values({"gpu.sms": 8}, source="assumed: a small GPU", where="test")
    monkeypatch.setattr(steady, "SMALL_GRID", 0)
    counter, out = np.zeros(1, dtype=np.int32), np.full(32 * 256, -1, dtype=np.int32)
    done = run_until_steady(launch(TAKES_WORK, counter, out, grid=64), gpu, keep=Record.TOTALS)
    assert [a.sms for a in done.attempts] == [1]
    assert done.why.startswith("blocks depend on each other")
    assert done.notes[0].endswith("; --sms all runs them all")


def test_contents_go_back_and_come_together() -> None:
    memory = GlobalMemory()
    rng = np.random.default_rng(1)
    arrays = [rng.integers(0, 256, size, dtype=np.uint8) for size in (5, 3 * COMPARED_BYTES + 7, 1, 0)]
    for n, array in enumerate(arrays):
        memory.allocate(str(n), array)
    begun = [array.copy() for array in arrays]
    before = ContentsBefore(memory.allocations)
    arrays[0][2] += 1
    arrays[1][[5, COMPARED_BYTES, -1]] += 1
    before.go_back(keep=True)
    assert all(np.array_equal(a, b) for a, b in zip(arrays, begun, strict=True))
    arrays[1][[5, 6]] += 2
    before.put_in()
    begun[0][2] += 1
    begun[1][[COMPARED_BYTES, -1]] += 1
    begun[1][[5, 6]] += 2
    assert all(np.array_equal(a, b) for a, b in zip(arrays, begun, strict=True))
