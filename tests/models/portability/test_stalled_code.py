"""Samples of two GPUs side by side: by source line, else aligned by opcode."""

import pytest

from smlab.hw_bench.profiles.pc_samples.samples import InstructionSamples, KernelSamples
from smlab.models.portability.stalled_code import opcode_of, stalled_places


def row(address: int, text: str, line: int | None = None, **stalled: int) -> InstructionSamples:
    return InstructionSamples(address, text, line, stalled, {})


def side(*rows: InstructionSamples, **more: object) -> KernelSamples:
    return KernelSamples("k", rows, "k.csv", **more)  # type: ignore[arg-type]


OLD = (
    row(0, "LDG.E R0, [R2]", selected=5, long_scoreboard=1),
    row(16, "SHFL.BFLY R1, R0", selected=9, short_scoreboard=40),
    row(32, "@!P0 IADD3 R0, R0, R1", selected=9, wait=9),
    row(48, "STG.E [R2], R0", selected=1, drain=50),
)
NEW = (
    row(0, "LDG.E.64 R4, [R2.64]", selected=2, long_scoreboard=60),
    row(16, "REDUX.SUM UR4, R4", selected=1, short_scoreboard=20),
    row(32, "STG.E [R2.64], R4", selected=7, drain=20),
)


def test_instructions_are_aligned_by_opcode() -> None:
    found = {opcode_of(place.text): place for place in stalled_places(side(*OLD), side(*NEW))}
    assert found["LDG"].source == pytest.approx(0.01)
    assert found["LDG"].target == pytest.approx(0.6)
    assert next(iter(found["LDG"].reasons)) == "long_scoreboard"
    assert found["STG"].change == pytest.approx(-0.3)
    assert (found["SHFL"].source, found["SHFL"].target) == (pytest.approx(0.4), None)
    assert (found["REDUX"].source, found["REDUX"].target) == (None, pytest.approx(0.2))
    assert sum(place.change for place in found.values()) == pytest.approx(0)


def test_lines_are_places_where_both_sides_know_them() -> None:
    old = side(
        *(
            row(16 * n, r.text, line, **r.stalled)
            for n, (r, line) in enumerate(zip(OLD, (3, 4, 4, 5), strict=True))
        ),
        source={4: "  sum += other;"},
    )
    new = side(
        *(
            row(16 * n, r.text, line, **r.stalled)
            for n, (r, line) in enumerate(zip(NEW, (3, 4, 5), strict=True))
        )
    )
    places = {place.line: place for place in stalled_places(old, new)}
    assert places[4].source == pytest.approx(0.49)
    assert places[4].target == pytest.approx(0.2)
    assert places[4].text == "sum += other;"
    assert places[3].text == "LDG.E.64 R4, [R2.64]"
    assert stalled_places(old, new)[0].line == 3


def test_a_side_without_samples_has_no_shares() -> None:
    empty = side(row(0, "EXIT"))
    found = stalled_places(empty, side(row(0, "EXIT", drain=4)))
    assert [(place.source, place.target) for place in found] == [(0.0, 1.0)]
    assert opcode_of("") == ""
