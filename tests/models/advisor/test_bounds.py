"""What a change is promised at most, and where there is no number."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from smlab.hw_bench.profiles.pc_samples.samples import LaunchFacts
from smlab.models.advisor.changes.matching import Context, Match
from smlab.models.advisor.changes.rewrites import Edit, Rewrite
from smlab.models.advisor.estimates.bounds import most_gained, why_no_number
from smlab.models.advisor.estimates.sm_model import KernelModel, model_of

LOOP = """
MOV R1, R2
LDG.E R0, [R2] | write=0 stall=4
FADD R4, R0, R4 | waits=0 stall=4
@P0 BRA 0x10 | stall=5
EXIT
"""
STALLS: Mapping[int, Mapping[str, int]] = {
    1: {"selected": 100},
    2: {"long_scoreboard": 800, "selected": 50},
    3: {"selected": 50},
}


def match(matched: float, *rewrites: Rewrite) -> Match:
    return Match(matched, matched, (), "", rewrites=rewrites)


@pytest.mark.parametrize(("share", "most"), [(0.5, 4.0), (0.8, 25.0), (0.0, 1.0), (1.0, 100.0)])
def test_the_others_go_by_the_same_share_at_most(
    context_of: Callable[..., Context], share: float, most: float
) -> None:
    context = context_of(LOOP, STALLS)
    assert most_gained(context, match(share * context.total)) == pytest.approx(most)


def test_dram_stays_as_busy_unless_it_is_relieved(context_of: Callable[..., Context]) -> None:
    context = context_of(LOOP, STALLS, busy={"dram": 0.8})
    half = 0.5 * context.total
    assert most_gained(context, match(half, Rewrite(order="unrolled", factor=4))) == pytest.approx(1.25)
    assert most_gained(context, match(half, Rewrite(removed=frozenset({1})))) == pytest.approx(4)
    assert most_gained(context, match(half, Rewrite(edits={1: Edit(dram=0.5)}))) == pytest.approx(4)
    assert most_gained(context_of(LOOP, STALLS), match(half, Rewrite(spread=3.0))) == pytest.approx(3)


def test_there_is_no_number_where_the_replay_misses(context_of: Callable[..., Context]) -> None:
    facts = LaunchFacts(blocks=1, threads_per_block=32, sms=1)
    context = context_of(LOOP, STALLS, launch=facts)
    change = match(0.5 * context.total, Rewrite(order="unrolled", factor=4))
    model: Any = model_of(context)
    assert isinstance(model, KernelModel)
    assert "does not tell the kernel's time" in why_no_number(context, change, model)
    model.ratio = 1.05
    assert why_no_number(context, change, model) == ""
    model.ratio = 0.8
    assert "comes 20 % too early" in why_no_number(context, change, model)
    model.ratio = 1.2
    assert "comes 20 % too late" in why_no_number(context, change, model)
    assert "no replay knows" in why_no_number(context, match(9.0), model)
    assert "no counts" in why_no_number(context, change, None)


def test_there_is_no_number_by_few_samples(context_of: Callable[..., Context]) -> None:
    facts = LaunchFacts(blocks=1, threads_per_block=32, sms=80)
    context = context_of(LOOP, STALLS, launch=facts)
    model: Any = model_of(context)
    model.ratio = 1.0
    half = match(0.5 * context.total, Rewrite(order="unrolled", factor=4))
    assert why_no_number(context, half, model) == ""
    most = dataclasses.replace(half, matched=0.95 * context.total)
    assert "samples leave it open" in why_no_number(context, most, model)
