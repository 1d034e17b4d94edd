"""A kernel replayed: steps whose cycles follow from the rules, paths from counts, changes, the fit."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from smlab.hw_bench.profiles.pc_samples.samples import LaunchFacts
from smlab.models.advisor import advice
from smlab.models.advisor.advice import model_of
from smlab.models.advisor.changes.apply_rewrites import rewritten
from smlab.models.advisor.changes.matching import Context
from smlab.models.advisor.changes.rewrites import Edit, Rewrite
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.estimates.replay import (
    ATOMIC,
    BARRIER,
    EXCHANGE,
    GLOBAL,
    PIPE,
    RESULT,
    WORK,
    Frame,
    ReplayResult,
    Steps,
    replay,
)
from smlab.models.advisor.stall_causes.blame import blame
from smlab.models.advisor.stall_causes.slicing import same_for_all
from smlab.models.advisor.stall_causes.warp_paths import PathReading, WarpPath, paths_of, uneven_loops
from smlab.validation.campaigns.advisor.producer_gains import counterfactual_gain_of

LOOP = """
MOV R1, R2 | line=1 stall=4
LDG.E R0, [R2] | write=0 line=2
FADD R4, R0, R4 | waits=0 stall=4 line=2
IADD3 R2, R2, 0x4, RZ | line=2 stall=4
ISETP.NE.AND P0, PT, R2, R9, PT | line=2 stall=12
@P0 BRA 0x10 | stall=5 line=2
STG.E [R6], R4 | read=1 line=3
EXIT | line=3
"""
ROUNDS = 16


def frame(warps: int = 1, resident: int = 1, blocks: int = 1) -> Frame:
    return Frame(
        schedulers=4, pipes=1, queue_entries=5, front=11, address_interval=4, atomic_address_interval=4,
        request_interval=1, atomic_pipes=1, atomic_entries=16, barrier_latency=20, barrier_interval=2,
        launch_cycles=0, code_lines=96, prefetch_lines=8, fetch_cycles=0, warps_of_block=warps,
        resident=resident, blocks=blocks,
    )  # fmt: skip


def steps(
    rows: list[tuple[int, int, int]], waits: dict[int, int], work: dict[int, tuple[float, ...]]
) -> Steps:
    """Rows of (unit, stall, latency or tail); ``waits`` says whose result a step needs."""
    count = len(rows)
    whole = lambda values: np.array(values, dtype=np.int64)  # noqa: E731
    begins = np.concatenate([[0], np.cumsum([s in waits for s in range(count)])]).astype(np.int64)
    order = sorted(waits)
    loads = np.zeros((count, len(WORK)))
    for s, values in work.items():
        loads[s, : len(values)] = values
    return Steps(
        instruction=whole(range(count)), line=whole([0] * count),
        stall=whole([r[1] for r in rows]), unit=whole([r[0] for r in rows]),
        pipe=whole([0 if r[0] == PIPE else -1 for r in rows]), interval=whole([2] * count),
        latency=whole([r[2] for r in rows]), reading=whole([9] * count),
        tail=np.array([float(r[2]) for r in rows]), near=np.full(count, 20.0), miss=np.ones(count),
        work=loads, first=whole([0, count]), begins=begins,
        waited=whole([waits[s] for s in order]), what=whole([RESULT] * len(order)),
    )  # fmt: skip


def played(
    rows: list[tuple[int, int, int]], waits: dict[int, int] | None = None, **more: Any
) -> ReplayResult:
    work = more.pop("work", {})
    return replay(steps(rows, waits or {}, work), frame(**more))


def test_a_chain_takes_its_stall_counts_and_others_hide_it() -> None:
    chain = [(PIPE, 4, 4)] * 10
    alone = played(chain).cycles
    assert alone == 9 * 4 + 1
    assert played(chain, warps=4).cycles == alone  # a scheduler each
    assert played(chain, warps=8).cycles <= alone + 4  # two of a scheduler, in turn
    assert played(chain, warps=16).cycles == 4 * 10 * 2 - 1  # four of one: its pipe takes one in two cycles


def test_warps_of_a_full_pipe_share_it_only_where_they_take_turns() -> None:
    """Three warps of one scheduler: oldest first, two of them keep the pipe and the third begins late; in
    turn each step of each waits."""
    chain = [(PIPE, 4, 4)] * 20
    rotated, oldest = (
        replay(steps(chain, {}, {}), frame(warps=12)._replace(recent_last=recent)).spent.tolist()
        for recent in (True, False)
    )
    assert rotated[1:] == [4 * 3 * 6] * 19
    assert oldest[0] > 5 * rotated[0]
    assert oldest[10] == 4 * 3 * 4


def test_a_result_is_waited_for_and_told() -> None:
    found = played([(EXCHANGE, 1, 8), (PIPE, 4, 4)], {1: 0}, work={0: (1.0,)})
    assert found.cycles == 11 + 1 + 8 + 1  # through the front, one pass, its tail, and the use
    assert found.waits.tolist() == [19.0]
    assert found.issued == 2


def test_a_unit_serves_one_at_a_time() -> None:
    atomics = [(ATOMIC, 1, 8)] * 20
    few, many = (played(atomics, warps=n, work=dict.fromkeys(range(20), (32.0, 35.0))) for n in (1, 4))
    assert few.cycles == pytest.approx(20 * 35, rel=0.1)
    assert many.cycles == pytest.approx(80 * 35, rel=0.05)


def test_what_misses_waits_behind_others_and_what_hits_does_not() -> None:
    base = steps([(GLOBAL, 1, 100)] * 40, {}, dict.fromkeys(range(40), (1.0, 0.0, 0.0, 50.0)))
    all_miss, none, one_in_four = (
        replay(base._replace(instruction=0 * base.instruction, miss=np.full(40, share)), frame())
        for share in (1.0, 0.0, 0.25)
    )
    assert all_miss.cycles == pytest.approx(11 + 40 * 50 + 100, abs=15)  # one after the other at L2
    assert none.cycles == pytest.approx(50 + 11 + 39 * 4 + 21, abs=100)  # first of all misses, cold
    assert one_in_four.cycles == pytest.approx(11 + 10 * 50 + 100, abs=60)


def test_atomics_follow_each_other_at_their_words() -> None:
    words = (1.0, 0.0, 0.0, 2.0, 0.0, 90.0)
    once, four = (
        replay(steps([(GLOBAL, 1, 100)] * 10, {}, dict.fromkeys(range(10), words)), frame(warps=n))
        for n in (1, 4)
    )
    assert once.cycles == pytest.approx(10 * 90 + 100, rel=0.05)
    assert four.cycles == pytest.approx(40 * 90 + 100, rel=0.02)


def test_code_that_is_not_there_is_fetched_with_what_follows() -> None:
    rows = [(PIPE, 1, 4)] * 160
    cold = frame()._replace(fetch_cycles=79)
    line = np.arange(160) // 8
    straight = replay(steps(rows, {}, {})._replace(line=line), cold)
    assert straight.cycles < 79 + 2 * 79 + 2 * 160 + 10  # lines ahead come while others are executed
    jumping = replay(steps(rows, {}, {})._replace(line=10 * line), cold)
    assert jumping.cycles > 20 * 79
    small = cold._replace(code_lines=12, prefetch_lines=0)
    again = replay(steps(rows + rows, {}, {})._replace(line=np.tile(line, 2)), small)
    assert again.cycles > 40 * 79  # twenty lines in a cache of twelve: least recently used, none is found


def test_warps_meet_at_a_barrier_and_blocks_follow_each_other() -> None:
    once = played([(PIPE, 4, 4), (BARRIER, 1, 1), (PIPE, 4, 4)], warps=8)
    assert once.cycles > 20
    twice = played([(PIPE, 4, 4), (BARRIER, 1, 1), (PIPE, 4, 4)], warps=8, blocks=2)
    assert once.cycles < twice.cycles <= 2 * once.cycles + 1
    assert twice.issued == 2 * once.issued == 48


def executed(code: AdvisedCode, warps: int = 1) -> dict[int, float]:
    return {n: float(warps * (ROUNDS if 1 <= n <= 5 else 1)) for n in range(len(code))}


def test_a_path_goes_round_as_often_as_counted(code_of: Callable[[str], AdvisedCode]) -> None:
    code = code_of(LOOP)
    (path,) = paths_of(code, executed(code), 1, 1)
    assert path.steps == (0, *(ROUNDS * [1, 2, 3, 4, 5]), 6, 7)
    assert [lap.number for lap in path.laps] == list(range(ROUNDS))
    some = executed(code, 8) | {6: 2.0, 7: 2.0}  # two of eight warps store
    spread, gathered = paths_of(code, some, 8, 8), paths_of(code, some, 8, 8, PathReading(gathered=True))
    assert sorted(6 in p.steps for p in spread) == [False, True]
    assert [6 in p.steps for p in gathered] == [True, True] + 6 * [False]


def test_warps_with_unequal_work(code_of: Callable[[str], AdvisedCode]) -> None:
    code = code_of(LOOP)
    assert uneven_loops(code) == {1}
    paths = paths_of(code, executed(code, 8), 8, 8, PathReading(skew=0.5))
    rounds = [len(p.laps) for p in paths]
    assert rounds == sorted(rounds)
    assert sum(rounds) == pytest.approx(8 * ROUNDS, abs=4)
    assert (rounds[0], rounds[-1]) == (pytest.approx(6, abs=1), pytest.approx(23.4, abs=1))
    barred = LOOP.replace("FADD R4, R0, R4 | waits=0", "BAR.SYNC 0x0 | waits=0")
    assert not uneven_loops(code_of(barred))


@pytest.fixture
def context(context_of: Callable[..., Context]) -> Context:
    made = context_of(LOOP, {})
    launch = LaunchFacts(blocks=4, threads_per_block=64, sms=4, registers_per_thread=16, cycles=7000.0)
    counts = executed(made.code, 8)
    stalled = {1: {"selected": 8 * ROUNDS}, 2: {"selected": 8 * ROUNDS, "long_scoreboard": 8 * ROUNDS * 400}}
    rows = tuple(
        dataclasses.replace(
            row, executed=int(counts[n]), stalled=stalled.get(n, {"selected": int(counts[n])})
        )
        for n, row in enumerate(made.samples.rows)
    )
    return dataclasses.replace(
        made, samples=dataclasses.replace(made.samples, rows=rows, launch=launch), cache={}
    )


def test_the_fit_waits_as_the_samples_say(context: Context) -> None:
    model = model_of(context)
    assert model is not None
    assert model_of(context) is model
    assert model.error < 0.05
    assert model.before.cycles == pytest.approx(ROUNDS * 430, rel=0.15)


def test_changes_gain_what_they_must(context: Context) -> None:
    model = model_of(context)
    assert model is not None
    before, header = model.before.cycles, frozenset({1})
    assert rewritten(model, Rewrite()) == before
    overhead = frozenset({3, 4, 5})
    by_two, by_four = (
        rewritten(model, Rewrite(order="unrolled", factor=n, loops=header, overhead=overhead)) for n in (2, 4)
    )
    assert before / by_two == pytest.approx(2, rel=0.1)
    assert before / by_four == pytest.approx(4, rel=0.15)
    prefetched = rewritten(model, Rewrite(order="prefetched", loops=header, overhead=overhead))
    assert by_two < prefetched < 1.01 * before
    assert rewritten(model, Rewrite(edits={1: Edit(free=True)})) < before / 8
    assert rewritten(model, Rewrite(removed=frozenset({1}))) < before / 8
    longer = rewritten(model, Rewrite(edits={2: Edit(added=10)}))
    assert longer == pytest.approx(before + ROUNDS * 40, rel=0.05)
    repeated = rewritten(model, Rewrite(repeated=header, times=2))  # all but the load
    assert repeated == pytest.approx(before + ROUNDS * 25, rel=0.02)


def test_worth_is_a_mean_of_replays_and_the_same_every_time(context: Context) -> None:
    gain = [counterfactual_gain_of(context, n) for n in (1, 3, 7)]
    assert gain == [counterfactual_gain_of(context, n) for n in (1, 3, 7)]
    assert gain[0] > 8
    assert gain[1:] == [pytest.approx(1, abs=0.02)] * 2
    unknown = dataclasses.replace(context.samples, rows=context.samples.rows[:0])
    assert counterfactual_gain_of(dataclasses.replace(context, samples=unknown, cache={}), 1) == 1.0


def test_one_change_is_advised_once(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    blamed = blame(context.code, context.samples, "smlab", context.latencies)
    context = dataclasses.replace(context, blamed=blamed, cache={})
    unrolling = advice.optimizer_of("loop-unrolling")
    same = dataclasses.replace(unrolling, name="the same by another rule")
    monkeypatch.setattr(advice, "OPTIMIZERS", (unrolling, same, advice.optimizer_of("code-reordering")))
    found = {a.optimizer.name: a.also for a in advice.advise(context)}
    assert found == {"loop-unrolling": ("the same by another rule",), "code-reordering": ()}


def test_what_l1_is_expected_to_have(code_of: Callable[[str], AdvisedCode]) -> None:
    alike = """
    S2R R8, SR_TID.X | write=0
    MOV R2, 0x10
    LDG.E R0, [R2] | write=1
    LDG.E R4, [R8] | waits=0 write=2
    EXIT
    """
    assert same_for_all(code_of(alike), 2)
    assert not same_for_all(code_of(alike), 3)


def test_what_changes_add_takes_time(context: Context) -> None:
    model = model_of(context)
    assert model is not None
    before = model.before.cycles
    latency = context.gpu.number("constant.latency_cycles")
    loaded = rewritten(model, Rewrite(edits={1: Edit(constant=True)}))
    assert rewritten(model, Rewrite(removed=frozenset({1}))) + ROUNDS * latency / 2 < loaded < before
    staged = rewritten(model, Rewrite(edits={1: Edit(staged=True)}))
    assert staged > before + ROUNDS * 2 * context.gpu.number("sm.barrier_latency_cycles")
    padded, bare = (rewritten(model, Rewrite(edits={1: Edit(tiled=n)})) for n in (1.0, 32.0))
    assert before < padded < bare - ROUNDS * 31 * 0.9  # a store and a load more, whose lanes take turns
    flushed = rewritten(model, Rewrite(flushed=1))
    assert before + 200 < flushed < 1.2 * before
    assert not Rewrite(edits={1: Edit(free=True)}, even=True).adds


BRANCHED = """
MOV R1, R2 | stall=4
ISETP.NE.AND P0, PT, R2, R9, PT | stall=12
@P0 BRA 0x50 | stall=5
FADD R4, R0, R4 | stall=4
BRA 0x70 | stall=5
FMUL R4, R0, R4 | stall=4
FMUL R4, R0, R4 | stall=4
IADD3 R2, R2, 0x4, RZ | stall=4
@P1 BRA 0x10 | stall=5
EXIT
"""


def test_lanes_that_go_one_way_have_warps_of_their_own(code_of: Callable[[str], AdvisedCode]) -> None:
    code = code_of(BRANCHED)
    counts = dict.fromkeys(range(len(code)), 8.0 * ROUNDS) | {0: 8.0, 9: 8.0}
    counts |= dict.fromkeys((3, 4), 2.0 * ROUNDS) | dict.fromkeys((5, 6), 6.0 * ROUNDS)
    paths = paths_of(code, counts, 8, 8, PathReading(regrouped=True))
    assert [p.steps.count(3) for p in paths] == 2 * [ROUNDS] + 6 * [0]
    assert [p.steps.count(6) for p in paths] == 2 * [0] + 6 * [ROUNDS]
    assert {p.steps.count(7) for p in paths} == {ROUNDS}


def test_paths_without_a_step_are_no_model(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a kernel whose samples are all of what its counts say was not executed."""
    monkeypatch.setattr("smlab.models.advisor.estimates.fitting.paths_of", lambda *_: (WarpPath((), ()),))
    assert model_of(dataclasses.replace(context, cache={})) is None
