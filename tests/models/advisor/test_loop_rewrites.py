"""Rounds in another order: words that come in pairs, rounds of outer loops side by side, loads ahead."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from smlab.hw_bench.profiles.pc_samples.samples import LaunchFacts
from smlab.models.advisor.changes.apply_rewrites import rewritten
from smlab.models.advisor.changes.matching import Context
from smlab.models.advisor.changes.reordering import widened
from smlab.models.advisor.changes.rewrites import Rewrite
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.estimates.sm_model import KernelModel, model_of
from smlab.models.advisor.stall_causes.addresses import address_of, begins_aligned

ROUNDS, OUTER = 16, 8
ROWS = """
IMAD.SHL.U32 R2, R0, {pitch}, RZ | stall=4
LDS R3, [R2] | write=0
FADD R4, R3, R4 | waits=0 stall=4
IADD3 R2, R2, 0x4, RZ | stall=4
IADD3 R1, R1, 0x1, RZ | stall=4
ISETP.NE.AND P0, PT, R1, R9, PT | stall=12
@P0 BRA 0x10 | stall=5
EXIT
"""
NEST = """
IADD3 R1, R1, 0x1, RZ | stall=4
MOV R2, {start} | stall=4
MOV R5, RZ | stall=4
FFMA R2, R2, R2, R2 | stall=4
IADD3 R5, R5, 0x1, RZ | stall=4
ISETP.NE.AND P0, PT, R5, R9, PT | stall=12
@P0 BRA 0x30 | stall=5
FADD R4, R2, R4 | stall=4
ISETP.NE.AND P1, PT, R1, R9, PT | stall=12
@P1 BRA 0x0 | stall=5
EXIT
"""


def modelled(made: Context, counts: Mapping[int, float], passes: float = 1.0) -> KernelModel:
    rows = tuple(
        dataclasses.replace(
            row, executed=round(counts[n]), stalled={"selected": round(counts[n])}, passes=passes
        )
        for n, row in enumerate(made.samples.rows)
    )
    launch = LaunchFacts(blocks=1, threads_per_block=32, sms=1, registers_per_thread=16, cycles=2000.0)
    samples = dataclasses.replace(made.samples, rows=rows, launch=launch)
    found = model_of(dataclasses.replace(made, samples=samples, cache={}))
    assert found is not None
    return found


@pytest.mark.parametrize(("pitch", "pairs"), [("0x80", True), ("0x84", False), ("0x4", False)])
def test_words_come_in_pairs_where_rows_begin_at_one(
    code_of: Callable[[str], AdvisedCode], pitch: str, pairs: bool
) -> None:
    code = code_of(ROWS.format(pitch=pitch))
    (loop,) = code.loops
    assert widened(code, loop, 4) == ({1: 2} if pairs else {})


TWO_ROWS = ROWS.replace("FADD R4, R3, R4 | waits=0 stall=4", """LDS R5, [R2+{second}] | write=1
FADD R4, R3, R4 | waits=01 stall=4""")  # fmt: skip


def test_a_load_is_as_wide_as_the_middle_of_its_pointers_words(code_of: Callable[[str], AdvisedCode]) -> None:
    """As NVRTC makes them of one and of two rows; what begins at an odd word is not widened."""
    one, two = code_of(ROWS.format(pitch="0x80")), code_of(TWO_ROWS.format(pitch="0x80", second="0x40"))
    assert [widened(one, one.loops[0], rounds) for rounds in (2, 4, 8, 16)] == [{}, {1: 2}, {1: 4}, {1: 4}]
    assert [widened(two, two.loops[0], rounds) for rounds in (4, 8)] == [{1: 4, 2: 4}] * 2


def test_a_mask_aligns(code_of: Callable[[str], AdvisedCode]) -> None:
    masked = "LOP3.LUT R2, R0, 0xfffffff8, RZ, {}, !PT | stall=4"
    for table, aligned in (("0xc0", True), ("0xfc", False)):
        code = code_of(ROWS.replace("IMAD.SHL.U32 R2, R0, {pitch}, RZ | stall=4", masked.format(table)))
        address = address_of(code, 1)
        assert address is not None
        assert begins_aligned(code, address, code.loops[0], 8) is aligned


def test_a_pair_takes_the_passes_of_one(context_of: Callable[..., Any]) -> None:
    made = context_of(ROWS.format(pitch="0x80"), {})
    counts = {n: float(ROUNDS if 1 <= n <= 6 else 1) for n in range(8)}
    model = modelled(made, counts, passes=32.0)
    (loop,) = made.code.loops
    header, overhead = frozenset({loop.header}), frozenset({4, 5, 6})
    plain = Rewrite(order="unrolled", factor=4, loops=header, overhead=overhead)
    single = rewritten(model, plain)
    paired = rewritten(model, dataclasses.replace(plain, widened=widened(made.code, loop, 4)))
    assert single - paired == pytest.approx(ROUNDS / 2 * 32, rel=0.15)
    by_two = dataclasses.replace(plain, factor=2, widened=widened(made.code, loop, 4))
    assert rewritten(model, by_two) == rewritten(model, dataclasses.replace(plain, factor=2))
