"""What machine code does: divergence, loops, barriers, exchange, memory, in both engines; and what stops
it."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Record
from smlab.sim.execution import functional
from smlab.sim.execution.run import MachineRun, run_machine_code
from smlab.sim.execution.source import lower_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.memory.global_memory import GlobalMemory
from smlab.sim.machine import machine_from
from smlab.sim.simulate import ENGINES
from smlab.sim.traces.compare import first_difference

Launch = Callable[..., MachineLaunch]
POINTER = [
    "S2R R0, SR_TID.X",
    "MOV R24, c[0x0][0x160]",
    "MOV R25, c[0x0][0x164]",
    "IMAD.WIDE.U32 R22, R0, 0x4, R24",
]


@pytest.fixture(params=["compiled", "simpy"])
def run(request: pytest.FixtureRequest) -> Callable[[MachineLaunch], MachineRun]:
    return lambda launch: run_machine_code(launch, load_gpu("v100"), engine=request.param, keep=Record.ALL)


def test_a_loop_that_lanes_leave_at_different_times(launch: Launch, run: Callable[..., MachineRun]) -> None:
    out = np.zeros(32, dtype=np.int32)
    lines = [
        *POINTER,
        "MOV R2, RZ",
        "MOV R3, R0",
        "BSSY B0, `(.L_end)",
        ".L_again:",
        "IADD3 R2, R2, R3, RZ",
        "IADD3 R3, R3, -0x1, RZ",
        "ISETP.GE.AND P0, PT, R3, RZ, PT",
        "@P0 BRA `(.L_again)",
        ".L_end:",
        "BSYNC B0",
        "STG.E.SYS [R22], R2",
        "EXIT",
    ]
    done = run(launch(lines, out))
    assert out.tolist() == [n * (n + 1) // 2 for n in range(32)]
    store = next(i for i in done.instructions if i.text.startswith("STG"))
    assert (store.executed, store.lanes) == (1, 32)  # the lanes are together again


@pytest.mark.parametrize(("first", "jumps"), [("0x8", False), ("0x0", True)])
def test_a_unanimous_branch_is_taken_by_all_lanes_or_by_none(
    first: str, jumps: bool, launch: Launch, run: Callable[..., MachineRun]
) -> None:
    """CUDA for sm_100 writes ``@P2 BRA.U`` in front of a branch that the lanes then take one by one. A warp
    that it split met the block's barrier in parts."""
    out = np.zeros(32, dtype=np.int32)
    lines = [
        *POINTER,
        "MOV R2, RZ",
        f"ISETP.GE.AND P2, PT, R0, {first}, PT",
        "@P2 BRA.U `(.L_behind)",
        "MOV R2, 0x1",
        "@P2 BRA `(.L_behind)",
        "MOV R2, 0x2",
        ".L_behind:",
        "WARPSYNC 0xffffffff",
        "STG.E.SYS [R22], R2",
        "EXIT",
    ]
    done = run(launch(lines, out))
    assert out.tolist() == ([0] * 32 if jumps else [2] * 8 + [1] * 24)
    assert next(i for i in done.instructions if i.text.startswith("STG")).lanes == 32


def test_sums_of_two_words_carry(launch: Launch, run: Callable[..., MachineRun]) -> None:
    """CUDA 13.4 writes sums for sm_120 so; one with a carry in names one predicate, not two."""
    out = np.zeros(64, dtype=np.int32)
    lines = [
        *POINTER,
        "ISETP.GE.AND P1, PT, R0, RZ, PT",  # no other predicate is a carry
        "ISETP.GE.AND P0, PT, R0, RZ, PT",
        "MOV R3, 0x10",
        "IADD R4, P2, R0, -R3",
        "IADD.X R5, RZ, ~RZ, P2",
        "IADD R4, R4, 0x100",
        "STG.E.SYS [R22], R4",
        "STG.E.SYS [R22+0x80], R5",
        "EXIT",
    ]
    run(launch(lines, out))
    assert out.tolist() == [*(n - 16 + 256 for n in range(32)), *(-(n < 16) for n in range(32))]


@pytest.mark.parametrize("shift", [0, 7, 31])
def test_a_shifted_word_is_taken_from_a_number_of_two(
    launch: Launch, run: Callable[..., MachineRun], shift: int
) -> None:
    """``b - (a << shift)`` of 64 bits: nothing is borrowed where the lower word of what is taken is zero."""
    out = np.zeros(64, dtype=np.int32)
    lines = [
        *POINTER,
        "MOV R3, 0x20",
        f"LEA R4, P0, -R0, R3, {shift:#x}",
        "IADD3.X R5, RZ, -0x1, RZ, P0, !PT",  # the upper word of what is taken is zero, its complement is -1
        f"LEA R6, P0, R0, -R3, {shift:#x}",
        "IADD3.X R7, RZ, -0x1, RZ, P0, !PT",
        "IADD3 R4, R4, R6, RZ",
        "STG.E.SYS [R22], R5",
        "STG.E.SYS [R22+0x80], R4",
        "EXIT",
    ]
    run(launch(lines, out))
    taken = [(n << shift) % 2**32 for n in range(32)]
    assert out.tolist() == [*(-(one > 32) for one in taken), *([0] * 32)]


def test_the_upper_word_of_minus_a_shifted_word_is_refused(
    launch: Launch, run: Callable[..., MachineRun]
) -> None:
    with pytest.raises(SmlabError, match="LEA.HI.*a minus in an upper word"):
        run(launch(["LEA.HI R4, -R0, R3, RZ, 0x7", "EXIT"], np.zeros(1, dtype=np.int32)))


def test_a_copy_to_a_uniform_register_s_place(launch: Launch, run: Callable[..., MachineRun]) -> None:
    """Triton writes a register, a uniform one and an offset, where the copy may lack its predicate too."""
    out = np.arange(64, dtype=np.int32)
    lines = [
        *POINTER,
        "UMOV UR4, 0x200",
        "SHF.L.U32 R3, R0, 0x2, RZ",
        "LDGSTS.E [R3+UR4+0x40], [R22.64]",
        "LDGDEPBAR",
        "DEPBAR.LE SB0, 0x0",
        "LDS R4, [R3+0x240]",
        "STG.E.SYS [R22+0x80], R4",
        "EXIT",
    ]
    run(launch(lines, out, shared=1024))
    assert out.tolist() == [*range(32), *range(32)]


def test_minima_of_uniform_words_of_64_bits(launch: Launch, run: Callable[..., MachineRun]) -> None:
    """As CUDA 13 writes them for sm_120."""
    out = np.zeros(64, dtype=np.int32)
    lines = [
        *POINTER,
        *("UMOV UR4, 0xffffffff", "UMOV UR5, 0xfffffffe", "UMOV UR6, 0x5", "UMOV UR7, URZ"),
        "UIMNMX.S64 UPT, UPT, UR8, UR4, UR6, UPT, !UPT",
        "UIMNMX.S64 UPT, UPT, UR10, UR4, UR6, !UPT, !UPT",
        "IMAD.U32 R4, RZ, RZ, UR9",
        "IMAD.U32 R5, RZ, RZ, UR10",
        "STG.E.SYS [R22], R4",
        "STG.E.SYS [R22+0x80], R5",
        "EXIT",
    ]
    run(launch(lines, out))
    assert out.tolist() == [*([-2] * 32), *([5] * 32)]


def test_halves_and_singles_mix(launch: Launch, run: Callable[..., MachineRun]) -> None:
    """What CUDA 13 writes from sm_100 on for sums and products of halves in singles."""
    out = np.zeros((5, 32), dtype=np.float32)
    lines = [
        *POINTER,
        "I2F.RP R2, R0",
        "F2FP.F16.F32.PACK_AB R3, R2, RZ",  # the upper half is the lane's number
        "F2FP.BF16.F32.PACK_AB R4, RZ, R2",
        "FADD R5, R2, 0.25",
        "FHADD R6, R3.H1, R5",
        "FHADD.BF16 R7, R4, -R5",
        "FHFMA R8, R3.reuse.H1, R3.H1, R5",
        "FHFMA.BF16.SAT R9, -R4, R4, R5",
        "FHADD R10, -R3.H1, R5",
        *(f"STG.E.SYS [R22+{128 * n:#x}], R{6 + n}" for n in range(5)),
        "EXIT",
    ]
    run(launch(lines, out))
    n = np.arange(32, dtype=np.float32)
    assert np.array_equal(
        out,
        [
            2 * n + 0.25,
            np.full(32, -0.25),
            n * n + n + 0.25,
            (n + 0.25 - n * n).clip(0, 1),
            np.full(32, 0.25),
        ],
    )


def test_tiles_that_synchronise_stay_together(launch: Launch, run: Callable[..., MachineRun]) -> None:
    """Each lane names its tile of eight. All are here, so that they go on as one: a uniform register that is
    written behind still has its value for each of them."""
    out = np.zeros(32, dtype=np.int32)
    lines = [
        *POINTER,
        "UMOV UR4, 0x5",
        "LOP3.LUT R2, R0, 0x18, RZ, 0xc0, !PT",
        "MOV R3, 0xff",
        "SHF.L.U32 R3, R3, R2, RZ",
        "WARPSYNC R3",
        "IMAD.U32 R4, RZ, RZ, UR4",
        "UMOV UR4, 0x7",
        "STG.E.SYS [R22], R4",
        "EXIT",
    ]
    run(launch(lines, out))
    assert out.tolist() == [5] * 32


def test_a_spin_lock_between_lanes_of_one_warp_ends(launch: Launch, run: Callable[..., MachineRun]) -> None:
    """Lane by lane takes the lock: who holds it must get a turn while the others spin."""
    words = np.zeros(2, dtype=np.int32)
    lines = [
        "MOV R24, c[0x0][0x160]",
        "MOV R25, c[0x0][0x164]",
        "BSSY B0, `(.L_end)",
        ".L_again:",
        "MOV R4, 0x1",
        "ATOMG.E.CAS.STRONG.GPU PT, R2, [R24], RZ, R4",
        "ISETP.NE.AND P0, PT, R2, RZ, PT",
        "@P0 BRA `(.L_again)",
        "LDG.E.SYS R3, [R24+0x4]",
        "IADD3 R3, R3, 0x1, RZ",
        "STG.E.SYS [R24+0x4], R3",
        "ATOMG.E.EXCH.STRONG.GPU PT, RZ, [R24], RZ",
        ".L_end:",
        "BSYNC B0",
        "EXIT",
    ]
    run(launch(lines, words))
    assert words.tolist() == [0, 32]


def test_lanes_exchange_and_vote(launch: Launch, run: Callable[..., MachineRun]) -> None:
    out = np.zeros((4, 32), dtype=np.int32)
    lines = [
        *POINTER,
        "SHFL.BFLY PT, R2, R0, 0x1, 0x1f",
        "SHFL.UP P1, R3, R0, 0x3, RZ",
        "ISETP.GT.AND P0, PT, R0, 0x1b, PT",
        "VOTE.ANY R4, PT, P0",
        "SEL R5, R0, 0x63, P1",
        "STG.E.SYS [R22], R2",
        "STG.E.SYS [R22+0x80], R3",
        "STG.E.SYS [R22+0x100], R4",
        "STG.E.SYS [R22+0x180], R5",
        "EXIT",
    ]
    run(launch(lines, out))
    lanes = np.arange(32)
    assert out[0].tolist() == (lanes ^ 1).tolist()
    assert out[1].tolist() == np.where(lanes >= 3, lanes - 3, lanes).tolist()
    assert set(out[2].view(np.uint32)) == {0xF0000000}
    assert out[3].tolist() == np.where(lanes >= 3, lanes, 99).tolist()


def test_a_barrier_between_warps(launch: Launch, run: Callable[..., MachineRun]) -> None:
    out = np.zeros(64, dtype=np.int32)
    lines = [
        *POINTER,
        "IMAD.SHL.U32 R1, R0, 0x4, RZ",
        "STS [R1], R0",
        "BAR.SYNC 0x0",
        "LOP3.LUT R1, R1, 0xfc, RZ, 0x3c, !PT",
        "LDS.U R2, [R1]",
        "STG.E.SYS [R22], R2",
        "EXIT",
    ]
    done = run(launch(lines, out, block=64))
    assert out.tolist() == list(range(63, -1, -1))
    assert done.result.sms[0].shared_load_passes == 2  # the words lie backwards, all on banks of their own


def test_atomics_on_one_word_need_as_many_passes_as_lanes(
    launch: Launch, run: Callable[..., MachineRun]
) -> None:
    lines = ["MOV R2, RZ", "STS [R2], RZ", "MOV R3, 0x1", "ATOMS.ADD RZ, [R2], R3", "EXIT"]
    assert run(launch(lines)).result.atomic.e_mean == 32


def test_the_global_timer_tells_nanoseconds(launch: Launch, run: Callable[..., MachineRun]) -> None:
    """Between two readings lie as many nanoseconds as cycles of the SM's clock at its rate."""
    out = np.zeros(4, dtype=np.uint32)
    lines = [
        "MOV R24, c[0x0][0x160]",
        "MOV R25, c[0x0][0x164]",
        "S2R R4, SR_CLOCKLO",
        "S2R R5, SR_GLOBALTIMERLO",
        "S2R R6, SR_GLOBALTIMERHI",
        "STG.E.SYS [R24], R4",
        "STG.E.SYS [R24+0x4], R5",
        "STG.E.SYS [R24+0x8], R6",
        "EXIT",
    ]
    run(launch(lines, out))
    clock, low, high = out[:3].tolist()
    hz = float(load_gpu("v100").number("clock.sm_hz"))
    assert high == 0
    assert 1e9 * clock / hz <= low <= 1e9 * (clock + 40) / hz


def test_the_clock_is_the_simulated_one(launch: Launch, run: Callable[..., MachineRun]) -> None:
    out = np.zeros(4, dtype=np.int64)
    lines = [
        "MOV R24, c[0x0][0x160]",
        "MOV R25, c[0x0][0x164]",
        "CS2R R2, SR_CLOCKLO",
        "NOP",
        "NOP",
        "CS2R R4, SR_CLOCKLO",
        "STG.E.64.SYS [R24], R2",
        "STG.E.64.SYS [R24+0x8], R4",
        "EXIT",
    ]
    run(launch(lines, out))
    assert out[1] - out[0] == 45  # three stalls of 15


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (
            [*POINTER, "LDG.E.SYS R2, [R22+0x1000]", "EXIT"],
            "out of bounds: 0x7f0000001000, .* behind the end of",
        ),
        (
            [*POINTER, "STG.E.SYS [R22+0x2], R0", "EXIT"],
            "misaligned address: 0x7f0000000002, byte 2 of argument 1",
        ),
        (
            ["MOV R2, 0x100", "STS [R2], R2", "EXIT"],
            "out of bounds: 0x100, of the block's 256 bytes of shared",
        ),
        (
            [
                "S2R R0, SR_LANEID",
                "ISETP.GT.AND P0, PT, R0, 0x7, PT",
                "BSSY B0, `(.L_end)",
                "@P0 BRA `(.L_end)",
                "BAR.SYNC 0x0",
                ".L_end:",
                "BSYNC B0",
                "EXIT",
            ],
            "a barrier that not all threads of the warp reach",
        ),
        (["MOV R2, 0x1008", "MOV R3, RZ", "RET.REL.NODEC R2 0x0", "EXIT"], "a jump to no instruction"),
        (["NOP", "NOP"], "a jump to no instruction"),
    ],
    ids=["bounds", "alignment", "shared-bounds", "barrier", "target", "end"],
)
def test_faults_say_what_and_where(
    launch: Launch, run: Callable[..., MachineRun], lines: list[str], what: str
) -> None:
    with pytest.raises(SmlabError, match=what) as raised:
        run(launch(lines, np.zeros(32, dtype=np.int32)))
    assert "block (0, 0, 0), thread (" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "line",
    [
        "HMMA.884.F32.F16.STEP0 R4, R8, R12, R4",
        "OMMA.SF.16864.F32.E2M1.E2M1.E8 R4, R8, R12, R4",
        "IADD3.NEW R1, R2, R3, R4",
        "SHF.L.U32 R1, R2",
        "LDS.U R1, [R2.X3]",
    ],
)
def test_what_has_no_row_is_refused_by_name(launch: Launch, line: str) -> None:
    with pytest.raises(SmlabError, match=f"{line.split()[0]} at 0x0 is not one that is executed here"):
        functional.run(launch([line, "EXIT"]))


def test_without_timing_the_results_are_the_same(launch: Launch) -> None:
    lines = [*POINTER, "IMAD R2, R0, R0, RZ", "STG.E.SYS [R22], R2", "EXIT"]
    out = np.zeros(32, dtype=np.int32)
    done = functional.run(launch(lines, out))
    assert out.tolist() == [n * n for n in range(32)]
    assert done.warp_instructions == 7


def test_arguments_must_fit(launch: Launch) -> None:
    with pytest.raises(SmlabError, match="block: x is out of range"):
        launch(["EXIT"], block=2048)
    with pytest.raises(SmlabError, match="argument 1: is not contiguous"):
        launch(["EXIT"], np.zeros((4, 4))[:, ::2])


LOOP = [
    "S2R R0, SR_TID.X",
    "MOV R3, 0x40",
    ".L_again:",
    "FFMA R4, R4, R4, R4",
    "IADD3 R3, R3, -0x1, RZ",
    "ISETP.GT.AND P0, PT, R3, RZ, PT",
    "@P0 BRA `(.L_again)",
    "EXIT",
]
UNEVEN = [
    "S2R R0, SR_CTAID.X",
    "IMAD R3, R0, 0x9e3779b1, RZ",
    "SHF.R.U32.HI R3, RZ, 0x1a, R3",
    "IADD3 R3, R3, 0x10, RZ",
    *LOOP[2:],
]
STREAM = [
    "S2R R0, SR_TID.X",
    "S2R R1, SR_CTAID.X",
    "IMAD R0, R1, c[0x0][0x0], R0",
    "MOV R24, c[0x0][0x160]",
    "MOV R25, c[0x0][0x164]",
    "IMAD.WIDE.U32 R22, R0, 0x4, R24",
    "LDG.E.SYS R2, [R22]",
    "IADD3 R2, R2, 0x1, RZ",
    "STG.E.SYS [R22], R2",
    "EXIT",
]


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
def test_a_taken_branch_keeps_its_warp(launch: Launch, engine: str) -> None:
    """At least so long. What the compiler writes behind it counts towards that."""
    gpus = [
        load_gpu("v100").with_values({"sm.taken_branch_cycles": n}, source="test") for n in (0, 1, 30, 35)
    ]
    cycles = [run_machine_code(launch(LOOP), gpu, engine=engine).cycles for gpu in gpus]
    assert cycles[1] == cycles[0] < cycles[2]
    assert cycles[3] - cycles[2] == 5 * 63  # the last of 64 is not taken


@pytest.mark.parametrize("lines", [LOOP, UNEVEN, STREAM], ids=["loop", "uneven", "stream"])
def test_a_sample_agrees_with_the_whole(launch: Launch, lines: list[str]) -> None:
    """Two SMs, some waves: the whole run's cycles lie in the interval, whether blocks keep step, have
    different lengths, or wait for DRAM. The whole run is a second launch: the first leaves in L2 what must be
    written back, and a sample tells the time of launches that follow others."""
    gpu = load_gpu("rtx-2060")
    array = [np.zeros(30 * 200 * 256, dtype=np.int32)] if lines is STREAM else []

    def made(memory: GlobalMemory) -> MachineLaunch:
        return launch(lines, *array, grid=30 * 200, block=256, memory=memory)

    first = run_machine_code(made(GlobalMemory()), gpu, keep=Record.TOTALS)
    whole = run_machine_code(made(first.launch.memory.after()), gpu, keep=Record.TOTALS)
    part = run_machine_code(made(GlobalMemory()), gpu, sms=2, keep=Record.TOTALS)
    assert part.blocks_simulated < whole.blocks
    assert part.cycles_low <= whole.cycles <= part.cycles_high
    assert part.cycles == pytest.approx(whole.cycles, rel=0.03)
    assert part.cycles_high < 1.25 * part.cycles_low


def test_both_engines_place_local_memory_alike(launch: Launch) -> None:
    """By places on SMs, of which a small grid takes fewer than there are."""
    lines = [
        "S2R R0, SR_TID.X",
        "LOP3.LUT R1, R0, 0x3, RZ, 0xc0, !PT",
        "IMAD.SHL.U32 R1, R1, 0x4, RZ",
        "STL [R1], R0",
        "LDL R2, [R1]",
        "MOV R4, c[0x0][0x160]",
        "MOV R5, c[0x0][0x164]",
        "IMAD.WIDE.U32 R6, R0, 0x4, R4",
        "STG.E.SYS [R6], R2",
        "EXIT",
    ]
    results = []
    for engine in ("compiled", "simpy"):
        out = np.zeros(64, np.int32)
        made = launch(lines, out, grid=5, block=64)
        image = dataclasses.replace(made.image, local_bytes=64)
        local = dataclasses.replace(made, image=image, memory=GlobalMemory())
        lowered = lower_machine_code(local, machine_from(load_gpu("v100")), 2)
        results.append(ENGINES[engine](lowered, Record.ALL, None, None))
        assert out.tolist() == list(range(64))
    assert first_difference(*results) is None
