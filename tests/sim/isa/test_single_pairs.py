"""What only sm_100 and sm_103 have for singles: arithmetic on pairs, bit-equal with the same on one number
after the other, and the greatest of all lanes'."""

from collections.abc import Callable

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass import parse_listing
from smlab.hw_bench.sass.effects import effects_of
from smlab.sim import Record
from smlab.sim.counters import counter_table
from smlab.sim.execution.run import run_machine_code
from smlab.sim.execution.source import pipe_of, reads_of_one_bank
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.machine import machine_from

from .conftest import listing

Launch = Callable[..., MachineLaunch]
FORMS = [
    # the operands of the pair, those of its low number, those of its high one
    ("FADD2 R20, R4.F32x2.HI_LO, R6.F32x2.HI_LO", "FADD R20, R4, R6", "FADD R21, R5, R7"),
    ("FADD2 R20, R4.F32x2.HI_LO, -R6.F32x2.HI_LO", "FADD R20, R4, -R6", "FADD R21, R5, -R7"),
    ("FADD2 R20, -R4.F32x2.HI_LO.NP, R6.F32x2.HI_LO", "FADD R20, -R4, R6", "FADD R21, R5, R7"),
    ("FADD2 R20, R4.F32x2.HI_LO.NP, R6.F32x2.HI_LO", "FADD R20, R4, R6", "FADD R21, -R5, R7"),
    ("FADD2 R20, R4.F32x2.HI_LO, |R6|.F32x2.HI_LO", "FADD R20, R4, |R6|", "FADD R21, R5, |R7|"),
    ("FADD2 R20, R4.F32x2.HI_LO, -|R6|.F32x2.HI_LO", "FADD R20, R4, -|R6|", "FADD R21, R5, -|R7|"),
    ("FADD2 R20, R4.F32x2.HI_LO, UR6.F32", "FADD R20, R4, UR6", "FADD R21, R5, UR6"),
    ("FADD2.FTZ R20, R4.F32x2.HI_LO, 1.5", "FADD.FTZ R20, R4, 1.5", "FADD.FTZ R21, R5, 1.5"),
    ("FADD2.RZ R20, R4.F32x2.LO_HI, R6.F32", "FADD.RZ R20, R5, R6", "FADD.RZ R21, R4, R6"),
    ("FMUL2 R20, R5.F32, R6.F32", "FMUL R20, R5, R6", "FMUL R21, R5, R6"),
    ("FMUL2.RP R20, R4.F32x2.HI_LO, -2.5", "FMUL.RP R20, R4, -2.5", "FMUL.RP R21, R5, -2.5"),
    ("FMUL2.FTZ R20, R4.F32x2.HI_LO, UR6.F32x2.HI_LO", "FMUL.FTZ R20, R4, UR6", "FMUL.FTZ R21, R5, UR7"),
    (
        "FFMA2 R20, R4.F32x2.HI_LO, R6.F32x2.LO_HI, R8.F32x2.HI_LO",
        "FFMA R20, R4, R7, R8",
        "FFMA R21, R5, R6, R9",
    ),
    (
        "FFMA2.RM R20, R4.F32x2.HI_LO.reuse, -UR6.F32, -R8.F32x2.HI_LO.NP",
        "FFMA.RM R20, R4, -UR6, -R8",
        "FFMA.RM R21, R5, -UR6, R9",
    ),
    ("FFMA2 R20, R4.F32x2.HI_LO, R6.F32x2.HI_LO, RZ.F32", "FFMA R20, R4, R6, RZ", "FFMA R21, R5, R7, RZ"),
    ("FFMA2.FTZ R20, R4.F32x2.HI_LO, 1.5, R9.F32", "FFMA.FTZ R20, R4, 1.5, R9", "FFMA.FTZ R21, R5, 1.5, R9"),
    (
        "FFMA2.RZ R4, R4.F32x2.HI_LO, R6.F32x2.HI_LO, R4.F32x2.HI_LO",
        "FFMA.RZ R20, R4, R6, R4",
        "FFMA.RZ R21, R5, R7, R5",
    ),
]


def bits(count: int) -> np.ndarray:
    """Ordinary numbers, subnormal ones, infinities and what is no number."""
    random = np.random.default_rng(3)
    ordinary = random.normal(0, 9, count).astype(np.float32).view(np.uint32)
    rare = random.choice(
        [1, 0x80000003, 0x7F800000, 0xFF800000, 0x7FC00000, 0, 0x80000000, 0x7F7FFFFF], count
    )
    return np.where(random.random(count) < 0.3, rare, ordinary).astype(np.uint32)


def results(launch: Launch, lines: list[str], engine: str, first: int) -> np.ndarray:
    """The pair of registers from ``first`` on, of each lane."""
    given, made = bits(32 * 6).view(np.float32), np.zeros(64, np.uint32)
    load = [
        "S2R R0, SR_TID.X",
        "IMAD.WIDE R2, R0, 0x4, c[0x0][0x160]",
        *(f"LDG.E R{4 + n}, [R2+{hex(128 * n)}]" for n in range(6)),
        "ULDC UR6, c[0x0][0x170]",
        "ULDC UR7, c[0x0][0x174]",
        *lines,
        "IMAD.WIDE R2, R0, 0x8, c[0x0][0x168]",
        f"STG.E.64 [R2], R{first}",
        "EXIT",
    ]
    ready = launch(load, given, made, np.float32(1.25), np.float32(-3.5), shared=0)
    run_machine_code(ready, load_gpu("b200"), engine=engine)
    return made


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[0])
def test_a_pair_is_two_numbers(launch: Launch, form: tuple[str, str, str], engine: str) -> None:
    pair, low, high = form
    found = results(launch, [pair], engine, int(pair.split()[1].strip("R,")))
    assert np.array_equal(found, results(launch, [low, high], engine, 20))
    assert len(set(found.tolist())) > 16


@pytest.mark.parametrize(
    "line",
    [
        "FFMA2 R20, R4.F32x2.LO_HI.NP, R6.F32, R8.F32",  # seen of no compiler: which sign?
        "FFMA2 R20, R4.F32.NP, R6.F32, R8.F32",
        "FFMA2.SAT R20, R4.F32, R6.F32, R8.F32",
        "FADD2 R20, R4, R6",
        "FMUL2 R20, R4.F32x2.HI_HI, R6.F32",
    ],
)
def test_a_form_that_no_compiler_was_seen_to_write_is_refused(launch: Launch, line: str) -> None:
    with pytest.raises(SmlabError, match=f"the instruction {line.split()[0]} at 0x0 is not one"):
        run_machine_code(launch([line, "EXIT"]), load_gpu("b200"))


def test_a_pair_counts_as_two_operations_a_lane(launch: Launch) -> None:
    lines = ["FFMA R20, R4, R7, RZ", "FFMA2 R20, R4.F32x2.HI_LO, R6.F32, RZ.F32", "EXIT"]
    done = run_machine_code(launch(lines, shared=0), load_gpu("b200"), keep=Record.TOTALS)
    table = counter_table(done.result)
    counters = dict(zip(table.counter, table.value, strict=True))
    assert counters["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] == 3 * 32


def test_which_registers_a_pair_reads_and_writes() -> None:
    lines = ["FFMA2 R20, R4.F32x2.HI_LO, UR6.F32, -R9.F32", "EXIT"]
    effects = effects_of(parse_listing(listing(lines))[0].instructions[0])
    assert effects.writes == {"R20", "R21"}
    assert effects.reads == {"R4", "R5", "UR6", "R9"}


@pytest.mark.parametrize(
    ("line", "cycles"),
    [
        ("FFMA R20, R4, R7, RZ", 1),
        ("FFMA2 R20, R4.F32x2.HI_LO, R6.F32, RZ.F32", 2),
        ("FADD2 R20, R4.F32x2.HI_LO, 1.5", 2),
        ("FADD2 R20, R4.F32x2.HI_LO, R6.F32x2.HI_LO", 2),
        ("FFMA2 R20, R4.F32x2.HI_LO, R6.F32x2.HI_LO, R9.F32", 3),  # three of the odd registers' bank
    ],
)
def test_a_pair_takes_the_pipe_for_twice_as_long(launch: Launch, line: str, cycles: int) -> None:
    machine, code = machine_from(load_gpu("b200")), launch([line, "EXIT"], shared=0).code
    reads = reads_of_one_bank(code, machine.register_banks)[0]
    timing = pipe_of(code[0], reads, machine) or machine.pipes["fp32"]
    assert timing.interval_cycles == cycles


def greatest(values: list[float], absolute: bool, nan_wins: bool) -> float:
    """PTX: numbers that are none count only with ``.NaN``, and -0 is below +0."""
    numbers = [abs(v) if absolute else v for v in values]
    if any(np.isnan(numbers)) and (nan_wins or all(np.isnan(numbers))):
        return float("nan")
    return max((v for v in numbers if not np.isnan(v)), key=lambda v: (v, np.copysign(1, v)))


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
@pytest.mark.parametrize("kind", ["MAX", "MIN", "MAXABS", "MINABS"])
@pytest.mark.parametrize("nan", ["", ".NAN"])
@pytest.mark.parametrize("drawn", ["mixed", "negative", "zeros", "none", "no numbers"])
def test_the_greatest_of_all_lanes(launch: Launch, engine: str, kind: str, nan: str, drawn: str) -> None:
    random = np.random.default_rng(2)
    values = random.normal(0, 5, 32).astype(np.float32)
    given = {
        "mixed": np.where(np.arange(32) == 7, np.nan, values),
        "negative": -np.abs(values),
        "zeros": np.where(np.arange(32) % 3 == 1, np.float32(-0.0), np.float32(0.0)),
        "none": values,
        "no numbers": np.full(32, np.nan),
    }[drawn].astype(np.float32)
    made = np.zeros(32, np.float32)
    lines = [
        "S2R R0, SR_TID.X",
        "IMAD.WIDE R2, R0, 0x4, c[0x0][0x160]",
        "LDG.E R4, [R2]",
        f"CREDUX.{kind}.F32{nan} UR6, {'-' if kind.startswith('MIN') else ''}R4",
        "IMAD.WIDE R2, R0, 0x4, c[0x0][0x168]",
        "MOV R5, UR6",
        "STG.E [R2], R5",
        "EXIT",
    ]
    run_machine_code(launch(lines, given.copy(), made, shared=0), load_gpu("b200"), engine=engine)
    numbers, absolute = given.tolist(), kind.endswith("ABS")
    if kind == "MINABS":
        want = -greatest([-abs(v) for v in numbers], False, bool(nan))
    elif kind == "MIN":  # the least of the negated is the greatest, negated
        want = -greatest(numbers, False, bool(nan))
    else:
        want = greatest(numbers, absolute, bool(nan))
    assert np.array_equal(made, np.full(32, want, np.float32), equal_nan=True)
    assert np.isnan(want) or (np.signbit(made) == np.signbit(want)).all()
