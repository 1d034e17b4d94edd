"""Addresses as sums, what L1 is expected to have, and whom a wait on both is owed to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.stall_causes.addresses import address_of, places_of, step_of
from smlab.models.advisor.stall_causes.arrivals import cases_of
from smlab.models.advisor.stall_causes.blame import blame
from smlab.models.advisor.stall_causes.issue_rates import ExecutionTiming, Outstanding
from smlab.models.advisor.stall_causes.l1_hits import OUTSIDE, leader, miss_chance
from smlab.models.advisor.stall_causes.latencies import described_latencies

CodeOf = Callable[[str], AdvisedCode]

OVER_AND_OVER = """
MOV R6, RZ
MOV R9, 0x4
LOP3.LUT R4, R6, 0x40, RZ, 0xc0, !PT
IMAD.WIDE R4, R4, R9, c[0x0][0x160]
LDG.E R8, [R4] | write=1
IADD3 R6, R6, 0x40, RZ
ISETP.NE.AND P0, PT, R6, R11, PT
FADD R7, R8, R7 | waits=1
@P0 BRA 0x20
EXIT
"""
"""A table's two rows in turn: of what grows by 64 in each round a mask leaves one bit."""

WINDOW = """
S2R R0, SR_TID.X | write=0
MOV R9, 0x4
IADD3 R6, R0, 0x10, RZ | waits=0
IADD3 R2, R6, -0x10, RZ
IMAD.WIDE R2, R2, R9, c[0x0][0x160]
LDG.E R4, [R2] | write=1
LDG.E R5, [R2+0x8] | write=1
LDG.E R7, [R2+0x800] | write=1
IADD3 R6, R6, 0x200, RZ
ISETP.NE.AND P0, PT, R6, R8, PT
FADD R4, R4, R5 | waits=1
@P0 BRA 0x30
EXIT
"""
"""A window of a thread's own: by an index that moves on by 0x800 bytes a round."""

TABLE = """
S2R R0, SR_TID.X | write=0
MOV R9, 0x4
IMAD.WIDE R6, R0, R9, c[0x0][0x168] | waits=0
LDG.E R8, [R6] | write=5
MOV R2, c[0x0][0x160]
MOV R3, c[0x0][0x164]
LDG.E R4, [R2] | write=1
LDG.E R5, [R2+0x4] | write=1
LDG.E R10, [R2+0x104] | write=2
IADD3 R2, R2, 0x8, RZ
ISETP.NE.AND P0, PT, R2, R11, PT
FFMA R8, R4, R5, R8 | waits=15
FADD R8, R8, R10 | waits=2
@P0 BRA 0x60
EXIT
"""
"""A table that all threads walk through, 8 bytes a round, and a number of each thread's own before it."""


def test_addresses_are_sums_of_what_a_loop_moves(code_of: CodeOf) -> None:
    code = code_of(WINDOW)
    first, near, far = (address_of(code, n) for n in (5, 6, 7))
    assert first is not None
    assert near is not None
    assert far is not None
    assert first.terms == near.terms == far.terms
    assert (near.offset - first.offset, far.offset - first.offset) == (8, 0x800)
    (loop,) = code.loops
    assert step_of(code, first, loop) == 0x800  # 0x200 elements of 4 bytes


def test_a_leader_brings_the_sector_and_a_round_the_next_one(code_of: CodeOf) -> None:
    code = code_of(WINDOW)
    executed = dict.fromkeys(range(3, 12), 16.0) | dict.fromkeys(range(3), 1.0)
    assert [leader(code, n) for n in (5, 6, 7)] == [5, 5, 7]
    assert miss_chance(code, 5, executed) == 0  # the round before loaded it from 0x800 farther on
    assert miss_chance(code, 7, executed) is None
    other_place = code_of(WINDOW.replace("0x800", "0x804"))
    assert miss_chance(other_place, 5, executed) is None


def test_what_all_threads_walk_through_misses_by_its_step(code_of: CodeOf) -> None:
    code = code_of(TABLE)
    executed = dict.fromkeys(range(6, 14), 16.0) | dict.fromkeys(range(6), 1.0)
    assert miss_chance(code, 6, executed) == pytest.approx(8 / 32)
    assert [leader(code, n) for n in (6, 7, 8)] == [6, 6, 8]
    still = code_of(TABLE.replace("IADD3 R2, R2, 0x8, RZ", "IADD3 R11, R11, 0x8, RZ"))
    assert miss_chance(still, 6, executed) == pytest.approx(1 / 16)  # in the first round
    assert miss_chance(code_of("MOV R2, c[0x0][0x160]\nLDG.E R4, [R2] | write=1\nEXIT"), 1, {}) == OUTSIDE
    gathered = code_of(TABLE.replace("IADD3 R2, R2, 0x8, RZ", "IADD3 R2, R4, 0x8, RZ"))
    assert miss_chance(gathered, 6, executed) is None  # its address is loaded


def test_what_comes_to_few_places_over_and_over_is_new_once_in_each(code_of: CodeOf) -> None:
    executed = dict.fromkeys(range(2, 9), 16.0) | dict.fromkeys(range(2), 1.0)

    def places_and_chance(mask: int, growing: int = 0x40) -> tuple[object, float | None]:
        listing = OVER_AND_OVER.replace("0x40, RZ, 0xc0", f"{mask:#x}, RZ, 0xc0")
        code = code_of(listing.replace("IADD3 R6, R6, 0x40", f"IADD3 R6, R6, {growing:#x}"))
        address = address_of(code, 4)
        assert address is not None
        (loop,) = code.loops
        return places_of(code, address, loop), miss_chance(code, 4, executed)

    assert places_and_chance(0x40) == ((2, 256), 2 / 16)
    assert places_and_chance(0xC0) == ((4, 256), 4 / 16)
    assert places_and_chance(0x7, 1) == ((8, 4), 1 / 16)  # eight words of one sector
    assert places_and_chance(0x3F, 1) == ((64, 4), 8 / 16)
    assert places_and_chance(0x40, 0x20) == (None, 1.0)  # goes on before the mask sees it: not told
    assert places_and_chance(0x50) == (None, 1.0)  # a mask with a hole


@pytest.mark.parametrize(("waited", "least", "most"), [(12, 0.5, 1.0), (150, 0.05, 0.5)])
def test_the_mean_wait_says_what_it_was_spent_on(
    code_of: CodeOf, samples_of: Callable[..., Any], waited: int, least: float, most: float
) -> None:
    """Of a short mean wait in 16 rounds most is the first round's for the thread's own number; of a long one
    most is the table's, which is waited for in each."""
    code = code_of(TABLE)
    stalls = {n: {"selected": 16} for n in range(6, 14)} | {n: {"selected": 1} for n in range(6)}
    stalls[11] = {"selected": 16, "long_scoreboard": 16 * waited}
    samples = samples_of(code, stalls)
    rows = tuple(dataclasses.replace(row, executed=row.issued) for row in samples.rows)
    samples = dataclasses.replace(samples, rows=rows)
    result = blame(code, samples, "smlab", described_latencies(load_gpu("v100")))
    mine = {b.cause: b.samples for b in result.blame if b.stalled == 11 and b.reason == "long_scoreboard"}
    assert set(mine) <= {3, 6, 7}
    assert least < mine[3] / sum(mine.values()) <= most


def test_less_waiting_than_expected_is_fewer_misses_and_shorter_stalls(code_of: CodeOf) -> None:
    code, latencies = code_of(TABLE), described_latencies(load_gpu("v100"))
    executed = dict.fromkeys(range(6, 14), 16.0) | dict.fromkeys(range(6), 1.0)
    expected = tuple(latencies.expected(i) for i in code.instructions)
    timing = ExecutionTiming(executed, [0.0] * len(code), code.begins([0.0] * len(code)), latency=expected)
    path = [Outstanding(6, 5.0, True)]

    def missing(waited: float) -> tuple[float, float]:
        told = list(cases_of(code, [(1.0, path)], latencies, timing, waited))
        if waited:
            assert sum(chance * length for chance, _, length in told) == pytest.approx(waited)
        (_, _, _), (chance, _, length) = told
        return chance, length

    chance, length = missing(0.0)
    assert chance == pytest.approx(8 / 32)
    hit = latencies.hit_cycles - 5.0
    whole = chance * length + (1 - chance) * hit
    rarer, shorter = missing(whole / 2)
    assert rarer < chance
    assert shorter < length
    assert rarer * length + (1 - rarer) * hit == pytest.approx(whole / 2**0.5, rel=1e-3)  # half of it each


def test_a_loop_begins_with_what_is_new_to_all(code_of: CodeOf) -> None:
    code = code_of(TABLE.replace("IADD3 R2, R2, 0x8, RZ", "IADD3 R11, R11, 0x8, RZ"))
    executed = dict.fromkeys(range(6, 14), 16.0) | dict.fromkeys(range(6), 1.0)
    assert miss_chance(code, 6, executed, begun=0.75) == pytest.approx(1 / 16)
    assert miss_chance(code, 6, executed, begun=0.75, first_round=True) == pytest.approx(0.75)
    timing = ExecutionTiming(executed, [], [], begun=0.75)
    assert (timing.miss_chance(code, 6), timing.first_miss_chance(code, 6)) == (1 / 16, 0.75)


def test_what_all_threads_load_one_of_the_sms_brings_from_dram(code_of: CodeOf) -> None:
    """Where nothing else is waited for, and for the shared reading alone: its misses take that much more."""
    code, latencies = code_of(TABLE), described_latencies(load_gpu("v100"))
    executed = dict.fromkeys(range(6, 14), 16.0) | dict.fromkeys(range(6), 1.0)
    expected = tuple(latencies.expected(i) for i in code.instructions)
    begins = code.begins([0.0] * len(code))
    timing = ExecutionTiming(executed, [0.0] * len(code), begins, latency=expected, first_sm_cycles=40.0)
    table, own = Outstanding(6, 5.0, True), Outstanding(3, 9.0, True)

    def longest(path: list[Outstanding], rounds_differ: bool) -> float:
        cases = cases_of(code, [(1.0, path)], latencies, timing, 0.0, rounds_differ)
        return max(case.ends[0] for _, case, _ in cases)

    far = latencies.expected(code.instructions[6]) - 5.0
    assert longest([table], False) == pytest.approx(far)
    assert longest([table], True) == pytest.approx(far + 40.0)
    assert longest([table, own], True) == pytest.approx(far)


def test_a_path_from_before_a_loop_is_its_first_round(code_of: CodeOf) -> None:
    still = code_of(TABLE.replace("IADD3 R2, R2, 0x8, RZ", "IADD3 R11, R11, 0x8, RZ"))
    latencies = described_latencies(load_gpu("v100"))
    executed = dict.fromkeys(range(6, 14), 16.0) | dict.fromkeys(range(6), 1.0)
    expected = tuple(latencies.expected(i) for i in still.instructions)
    begins = still.begins([0.0] * len(still))
    timing = ExecutionTiming(executed, [0.0] * len(still), begins, latency=expected, begun=0.75)
    table, own = Outstanding(6, 5.0, True), Outstanding(3, 9.0, True)

    def missing(path: list[Outstanding], rounds_differ: bool) -> float:
        told = cases_of(still, [(1.0, path)], latencies, timing, 0.0, rounds_differ)
        return sum(chance for chance, case, _ in told if case.brought[0])

    assert missing([table], True) == pytest.approx(1 / 16)  # any round's
    assert missing([table, own], True) == pytest.approx(0.75)  # the first one's: a load from before is out
    assert missing([table, own], False) == pytest.approx(1 / 16)
