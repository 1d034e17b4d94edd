"""Random machine code in both engines, and that a difference would be found."""

import pytest

from smlab.sim.isa.meanings import memory
from smlab.sim.reference.constants import ConstantCaches
from smlab.sim.reference.fetch import FrontEnd
from smlab.validation.checks.random_code import compare, piece


@pytest.mark.parametrize("seed", range(40))
def test_engines_are_equal(seed: int) -> None:
    assert compare(seed).difference == ""


@pytest.mark.thorough
def test_engines_are_equal_on_many() -> None:
    assert [o.seed for o in map(compare, range(1000, 11_000)) if o.difference] == []


def test_pieces_differ_and_have_branches_memory_and_barriers() -> None:
    texts = {i.mnemonic for seed in range(60) for i in piece(seed).instructions}
    assert {"BSSY", "BSYNC", "BAR.SYNC", "ATOMS.CAS", "STS", "LDG.E.SYS", "FFMA", "DFMA"} <= texts


def test_a_planted_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = memory.combined
    monkeypatch.setattr(memory, "combined", lambda *given: right(*given) ^ 1)
    assert any(compare(seed).difference for seed in range(20))


@pytest.mark.parametrize("what", ["_look_up", "load", "operand"])
def test_a_planted_difference_in_caches_of_constants_is_found(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = getattr(ConstantCaches, what)
    monkeypatch.setattr(ConstantCaches, what, lambda *given: right(*given) + 1)
    assert any(compare(seed).difference for seed in range(20))


def test_a_planted_difference_in_fetching_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = FrontEnd._request
    monkeypatch.setattr(FrontEnd, "_request", lambda *given: right(*given) + 1)
    assert any(compare(seed).difference for seed in range(10))
