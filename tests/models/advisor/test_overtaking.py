"""Turns and bursts as samples tell them, what follows in a sector, what other warps have brought."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles.pc_samples.samples import KernelSamples, LaunchFacts
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.stall_causes.addresses import address_of, thread_step
from smlab.models.advisor.stall_causes.arrivals import MissCase
from smlab.models.advisor.stall_causes.blame import blame
from smlab.models.advisor.stall_causes.issue_rates import ExecutionTiming, Outstanding
from smlab.models.advisor.stall_causes.l1_hits import miss_chance
from smlab.models.advisor.stall_causes.latencies import described_latencies

CodeOf = Callable[[str], AdvisedCode]

BURST = """
MOV R2, c[0x0][0x160]
MOV R3, c[0x0][0x164]
LDG.E R4, [R2] | write=1
LDG.E R5, [R2+0x4] | write=1
LDG.E R6, [R2+0x8] | write=1
LDG.E R7, [R2+0xc] | write=1
FADD R8, R4, R7 | waits=1
EXIT
"""
"""Four words of one sector, which all threads load."""

ROWS = """
S2R R0, SR_TID.X | write=0
S2R R5, SR_CTAID.X | write=0
IMAD R0, R5, c[0x0][0x0], R0 | waits=0
MOV R9, 0x4
IMAD.WIDE R2, R0, R9, c[0x0][0x160]
LDG.E R4, [R2] | write=1
IADD3 R0, R0, 0x20, RZ
ISETP.NE.AND P0, PT, R0, R11, PT
FADD R8, R4, R8 | waits=1
@P0 BRA 0x40
EXIT
"""
"""A word of each thread's own, 128 bytes on in each round: where another warp was the round before."""


COUNTERS = """
S2R R0, SR_TID.X | write=5
SHF.L.U32 R7, R0, 0x2, RZ | waits=5
ATOMS.ADD RZ, [R7], R6 | read=0
ATOMS.ADD RZ, [R7+0x4], R6 | read=0
ATOMS.ADD RZ, [R7+0x8], R6 | read=0
ATOMS.ADD RZ, [R7+0xc], R6 | read=0
IADD3 R6, R6, 0x1, RZ | waits=0
EXIT
"""
"""Four atomics whose operands must have been read before one of them changes."""


def sampled(code: AdvisedCode, waits: dict[int, int], samples_of: Callable[..., Any]) -> KernelSamples:
    """100 executions, so many cycles of waiting for a place at each load, 80 at the use."""
    stalls = {n: {"selected": 100, "lg_throttle": 100 * w} for n, w in waits.items()}
    stalls |= {6: {"selected": 100, "long_scoreboard": 8000}}
    stalls |= {n: {"selected": 100} for n in (0, 1, 7)}
    launch = LaunchFacts(blocks=16, threads_per_block=256, sms=4, warps_per_scheduler=8.0)
    samples: KernelSamples = samples_of(code, stalls, launch=launch)
    return samples


def measured(code: AdvisedCode, samples: KernelSamples) -> ExecutionTiming:
    executed = dict.fromkeys(range(len(code)), 100.0)
    return ExecutionTiming.measured(code, samples, executed, described_latencies(load_gpu("v100")))


def test_a_wait_longer_than_the_usual_one_is_an_interruption(code_of: CodeOf, samples_of: Any) -> None:
    code = code_of(BURST)
    round_robin = measured(code, sampled(code, {2: 20, 3: 20, 4: 20, 5: 20}, samples_of))
    assert list(round_robin.uninterrupted.begins) == list(
        round_robin.begins
    )  # all wait alike: nothing is left out
    bursts = measured(code, sampled(code, {2: 40, 3: 2, 4: 2, 5: 60}, samples_of))
    assert bursts.begins[5] - bursts.begins[2] == pytest.approx(2 + 2 + 60 + 3)
    # The queue of each of four schedulers has a place every four cycles; one passes while a load is issued.
    begins = bursts.uninterrupted.begins
    assert begins[5] - begins[2] == pytest.approx(2 + 2 + (4 - 1) + 3)
    # Each other warp takes four cycles of a round; who is overtaken waits as long as the first at least.
    assert bursts.overtaken == {5: (1.0, 57.0)}
    assert bursts.uninterrupted.begins[2] == bursts.begins[2]  # the first waits for its warp's turn
    assert bursts.waited == bursts.uninterrupted.waited


def test_the_shared_reading_knows_bursts_from_turns(code_of: CodeOf, samples_of: Any) -> None:
    spaced = BURST.replace("0x4]", "0x20]").replace("0x8]", "0x40]").replace("0xc]", "0x60]")
    code, latencies = code_of(spaced), described_latencies(load_gpu("v100"))

    def first(waits: dict[int, int], reading: Any) -> float:
        result = blame(code, sampled(code, waits, samples_of), "smlab", latencies, reading)
        mine = {b.cause: b.samples for b in result.blame if b.reason == "long_scoreboard"}
        assert sum(mine.values()) == 8000
        return mine.get(2, 0.0) / 8000

    # As much waiting in all: in a burst all are out for most of the stall, in turns the first is back sooner.
    burst, round_robin = {2: 40, 3: 2, 4: 2, 5: 140}, {2: 40, 3: 48, 4: 48, 5: 48}
    assert first(burst, "shared") > 0.2 > first(round_robin, "shared")
    assert first(burst, "last") == first(round_robin, "last")


@pytest.mark.parametrize(
    ("waits", "shares"),
    [
        # Who gets its places one after the other has all four in the queue, an interval apart, when it begins
        # to wait: a quarter of it is shared by four, the next by three, then two, and the last has its own.
        pytest.param((900, 125, 125, 125), (1 / 16, 7 / 48, 13 / 48, 25 / 48), id="a burst"),
        # In turns, the first three have been read when the last one is issued.
        pytest.param((900, 900, 900, 900), (0.0, 0.0, 0.0, 1.0), id="turns"),
        # Overtaken every other time before the last: then it alone is waited for.
        pytest.param((900, 125, 125, 125 + 450), (1 / 32, 7 / 96, 13 / 96, 73 / 96), id="overtaken"),
    ],
)
def test_operands_are_read_an_interval_apart(
    code_of: CodeOf, samples_of: Any, waits: tuple[int, ...], shares: tuple[float, ...]
) -> None:
    code = code_of(COUNTERS)
    stalls = {n + 2: {"selected": 100, "mio_throttle": 100 * w} for n, w in enumerate(waits)}
    stalls |= {6: {"selected": 100, "short_scoreboard": 51_200}} | {n: {"selected": 100} for n in (0, 1, 7)}
    launch = LaunchFacts(blocks=16, threads_per_block=256, sms=4, warps_per_scheduler=8.0)
    samples = samples_of(code, stalls, launch=launch, passes=dict.fromkeys(range(2, 6), 32.0))
    result = blame(code, samples, "smlab", described_latencies(load_gpu("v100")), "shared")
    mine = {b.cause: b.samples for b in result.blame if b.stalled == 6 and b.reason == "short_scoreboard"}
    total = sum(mine.values())
    assert [mine.get(n, 0.0) / total for n in range(2, 6)] == pytest.approx(shares, abs=0.03)


def test_what_follows_in_a_sector_comes_with_it() -> None:
    found = tuple(Outstanding(n, cycles, True) for n, cycles in ((3, 10.0), (2, 20.0), (1, 100.0)))
    followed = (None, (2, 5.0), None)
    case = MissCase(found, (90.0, 80.0, 60.0), (False,) * 3, (0.0, 1.0, 2.0), 10.0, (False,) * 3, followed)
    assert case.delayed(120.0) == pytest.approx([120.0, 100.0, 70.0])
    assert case.delayed_by_sector(120.0) == pytest.approx([120.0, 70.0, 70.0])
    late = dataclasses.replace(case, followed=(None, (2, 75.0), None))
    assert late.delayed_by_sector(120.0)[1] == 75.0  # L1 itself takes as long


def test_a_row_is_new_by_what_neighbours_have_not_brought(code_of: CodeOf) -> None:
    code = code_of(ROWS)
    address = address_of(code, 5)
    assert address is not None
    assert thread_step(code, address) == 4
    executed = dict.fromkeys(range(4, 10), 16.0) | dict.fromkeys(range(4), 1.0)
    # In 16 rounds the whole row of 256 threads once, then 128 of its 1024 bytes.
    assert miss_chance(code, 5, executed, 256.0) == pytest.approx((1 + 15 / 8) / 16)
    assert miss_chance(code, 5, executed) is None  # one warp alone has no neighbour
    # A word on in each round: a new sector in every eighth, which of eight warps only the last asks for.
    by_words = code_of(ROWS.replace("IADD3 R0, R0, 0x20", "IADD3 R0, R0, 0x1"))
    assert miss_chance(by_words, 5, executed, 256.0) == pytest.approx((1 + 15 / 8 / 8) / 16)
    strided = code_of(ROWS.replace("MOV R9, 0x4", "MOV R9, 0x40"))
    assert miss_chance(strided, 5, executed, 256.0) is None  # there are gaps between threads


def test_what_all_load_first_is_new_to_warps_that_begin_together(code_of: CodeOf, samples_of: Any) -> None:
    code = code_of(BURST)
    timing = measured(code, sampled(code, {2: 1, 3: 1, 4: 1, 5: 1}, samples_of))
    assert (timing.begun, timing.miss_chance(code, 2)) == (1.0, 1.0)  # all are resident
    samples = sampled(code, {2: 1}, samples_of)
    launch = dataclasses.replace(samples.launch, blocks=64)
    assert measured(code, dataclasses.replace(samples, launch=launch)).begun == 0.25
