"""What a kernel asks of global memory is the same when only the instructions run that tell it."""

from collections.abc import Callable

import numpy as np
import pytest

from smlab.hw_bench.sass.image import listed_image
from smlab.sim.execution import functional_warming
from smlab.sim.execution.address_slice import ADDRESSED, EXECUTED, LEFT_OUT, slice_for_addresses
from smlab.sim.execution.functional_warming import Neighbours
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.validation.checks.random_code import REGISTERS, WORDS, piece

Launch = Callable[..., MachineLaunch]
Asked = tuple[list[tuple[list[tuple[int, int]], bool]], str | None, int]


def asked(launch: MachineLaunch) -> Asked:
    """What each block touches, how far it has come then, and whether it ends; how blocks depend; instructions
    covered."""
    neighbours = Neighbours(launch, 32)
    touched = [neighbours._touched(block) for block in range(launch.blocks)]
    told = [(sorted(zip(t.sectors.tolist(), t.steps.tolist(), strict=True)), t.ended) for t in touched]
    return told, neighbours.dependence(), neighbours.covered


def asked_twice(make: Callable[[], MachineLaunch], monkeypatch: pytest.MonkeyPatch) -> tuple[Asked, Asked]:
    """By the slice, and with everything executed."""
    sliced = asked(make())
    with monkeypatch.context() as patch:
        patch.setattr(
            functional_warming, "slice_for_addresses", lambda code: np.full(len(code), EXECUTED, np.int8)
        )
        return sliced, asked(make())


@pytest.mark.parametrize("seed", range(40))
def test_random_code_asks_for_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    function = piece(seed)

    def make() -> MachineLaunch:
        random = np.random.default_rng(seed)
        blocks, threads = 4, int(random.integers(8, 65))
        values = random.integers(-9, 9, WORDS).astype(np.int32)
        out = np.zeros(blocks * threads * REGISTERS, dtype=np.int32)
        return MachineLaunch(
            listed_image(function),
            (blocks, 1, 1),
            (threads, 1, 1),
            [values, out],
            dynamic_shared_bytes=4 * WORDS + 256,
        )

    sliced, whole = asked_twice(make, monkeypatch)
    assert sliced == whole
    assert any(sectors for sectors, _ in whole[0])


PRODUCT = [
    "S2R R0, SR_TID.X",
    "IMAD.SHL.U32 R1, R0, 0x4, RZ",
    "MOV R24, c[0x0][0x160]",
    "MOV R25, c[0x0][0x164]",
    "IMAD.WIDE.U32 R22, R0, 0x4, R24",
    "LDG.E.SYS R4, [R22]",
    "STS [R1], R4",
    "BAR.SYNC 0x0",
    "LDS R5, [R1]",
    "FFMA R6, R5, R5, R5",
    "STG.E.SYS [R22+0x80], R6",
    "EXIT",
]
"""A value goes through shared memory and arithmetic to a store."""


def actions(launch: MachineLaunch) -> dict[str, int]:
    found = slice_for_addresses(launch.code)
    return {
        f"{m.instruction.opcode} {n}": int(a) for n, (m, a) in enumerate(zip(launch.code, found, strict=True))
    }


def test_values_that_no_address_takes_are_left_out(launch: Launch) -> None:
    told = actions(launch(PRODUCT, np.zeros(64, np.float32)))
    assert {name for name, action in told.items() if action == LEFT_OUT} == {
        "IMAD 1",
        "STS 6",
        "LDS 8",
        "FFMA 9",
    }
    assert {name for name, action in told.items() if action == ADDRESSED} == {"LDG 5", "STG 10"}


GUARDED = [
    *PRODUCT[:4],
    "LDS R22, [R1]",
    "FADD R6, R22, R22",
    "ISETP.GE.U32.AND P0, PT, R0, 0x10, PT",
    "@P0 IMAD.WIDE.U32 R22, R0, 0x4, R24",
    "@P0 LDG.E.SYS R4, [R22]",
    "IMAD.WIDE.U32 R26, R0, 0x4, R24",
    "STG.E.SYS [R26+0x80], R6",
    "EXIT",
]
"""Registers of a value from shared memory hold an address afterwards, in some lanes."""


@pytest.mark.parametrize(
    ("at", "line", "left_out"),
    [
        (8, GUARDED[8], True),
        (8, "@!P0 LDG.E.SYS R4, [R22]", False),
        (7, "@!P0 IMAD.WIDE.U32 R22, R0, 0x4, R24", False),
        (8, "LDG.E.SYS R4, [R22]", False),
    ],
)
def test_what_a_guard_writes_is_not_needed_before_where_the_same_guard_reads_it(
    launch: Launch, monkeypatch: pytest.MonkeyPatch, at: int, line: str, left_out: bool
) -> None:
    lines = [*GUARDED]
    lines[at] = line

    def make() -> MachineLaunch:
        return launch(lines, np.zeros(64, np.float32))

    assert (actions(make())["LDS 4"] == LEFT_OUT) == left_out
    sliced, whole = asked_twice(make, monkeypatch)
    assert sliced == whole


def test_a_guard_that_changes_between_is_another_one(launch: Launch) -> None:
    lines = [*GUARDED]
    lines.insert(8, "ISETP.GE.U32.AND P0, PT, R0, 0x8, PT")
    assert actions(launch(lines, np.zeros(64, np.float32)))["LDS 4"] == EXECUTED


def test_an_address_through_shared_memory_brings_its_way_with_it(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [*PRODUCT]
    lines[9] = "IMAD.WIDE.U32 R22, R5, 0x4, R24"
    values = np.arange(64, dtype=np.int32)[::-1].copy() // 2

    def make() -> MachineLaunch:
        return launch(lines, values.copy())

    told = actions(make())
    # The store's value matters too: a block may load what another one stored.
    assert set(told.values()) == {EXECUTED}
    sliced, whole = asked_twice(make, monkeypatch)
    assert sliced == whole


def test_a_register_is_followed_through_a_loop_and_a_guard(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address of the next turn is made in this one, in half of the lanes."""
    lines = [
        *PRODUCT[:5],
        "MOV R7, 0x4",
        "ISETP.GE.AND P0, PT, R0, 0x10, PT",
        ".L_again:",
        "LDG.E.SYS R8, [R22]",
        "FADD R9, R8, R9",
        "@P0 IADD3 R22, R22, 0x20, RZ",
        "IADD3 R7, R7, -0x1, RZ",
        "ISETP.GT.AND P1, PT, R7, RZ, PT",
        "@P1 BRA `(.L_again)",
        "MOV R22, R9",
        "EXIT",
    ]

    def make() -> MachineLaunch:
        return launch(lines, np.zeros(256, np.float32))

    told = actions(make())
    left_out = {name.split()[0] for name, action in told.items() if action == LEFT_OUT}
    assert left_out == {"IMAD", "FADD", "MOV"}, "of IMAD the place in shared memory, of MOV the last"
    assert told["IADD3 9"] == EXECUTED
    sliced, whole = asked_twice(make, monkeypatch)
    assert sliced == whole
