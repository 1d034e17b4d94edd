"""The blamer on hand-made code: the paper's own example, scoreboards, and exact conservation."""

from collections.abc import Callable

import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.stall_causes.blame import MODES, blame, dependences, prune
from smlab.models.advisor.stall_causes.latencies import described_latencies, published_latencies
from smlab.models.advisor.stall_causes.slicing import covered, definitions

FIGURE_4 = """
IMAD R5, R6, R7, R8
@!P0 LDC R0, c[0x3][R2] | write=0
MOV R9, R10
@P0 LDG.E R0, [R12] | write=0
IADD3 R1, R0, R5, RZ | waits=0
EXIT
"""
"""The paper's Figure 4: LDC under !P0 lies twice as far from the use as LDG under P0; IMAD defines R5."""

LATENCIES = described_latencies(load_gpu("v100"))


def shares(result, stalled: int) -> dict[int, float]:  # type: ignore[no-untyped-def]
    found: dict[int, float] = {}
    for b in result.blame:
        if b.stalled == stalled and b.reason == "long_scoreboard":
            found[b.cause] = found.get(b.cause, 0) + b.samples
    return found


def test_figure_4_slices_prunes_and_apportions(code_of: Callable, samples_of: Callable) -> None:  # type: ignore[type-arg]
    code = code_of(FIGURE_4)
    edges = dependences(code, 4)
    assert set(edges) == {0, 1, 3}  # the search goes on past LDG, whose predicate does not cover the use
    kept = prune(code, 4, "long_scoreboard", edges, published_latencies(), coded=False)
    assert set(kept) == {1, 3}  # an IMAD cannot cause a memory dependence
    # LDC has twice the issued samples and three times the path: 2/3 to 1.
    stalls = {1: {"selected": 2}, 3: {"selected": 1}, 4: {"selected": 1, "long_scoreboard": 40}}
    result = blame(code, samples_of(code, stalls), "as-published")
    assert shares(result, 4) == pytest.approx({1: 16, 3: 24}, abs=1e-5)


def test_equal_shares_where_issued_samples_and_path_cancel(code_of: Callable, samples_of: Callable) -> None:  # type: ignore[type-arg]
    code = code_of(FIGURE_4.replace("MOV R9, R10\n", ""))
    stalls = {1: {"selected": 2}, 2: {"selected": 1}, 3: {"selected": 1, "long_scoreboard": 40}}
    result = blame(code, samples_of(code, stalls), "as-published")
    assert shares(result, 3) == pytest.approx({1: 20, 2: 20}, abs=1e-5)  # as in Figure 4d


def test_predicates_cover() -> None:
    assert covered(frozenset({"P0", "!P0"}), "_")
    assert covered(frozenset({"P0"}), "P0")
    assert not covered(frozenset({"P0"}), "_")
    assert covered(frozenset({"_"}), "P3")


def test_a_barrier_register_is_followed_without_a_register(code_of: Callable, samples_of: Callable) -> None:  # type: ignore[type-arg]
    # The paper's Figure 3: BRA reads no R0 but waits for the scoreboard that LDG raised.
    code = code_of("LDG.E R0, [R2] | write=0\nMOV R4, R5\nBRA 0x30 | waits=0\nEXIT")
    stalls = {2: {"long_scoreboard": 9}}
    for mode in MODES:
        assert shares(blame(code, samples_of(code, stalls), mode, LATENCIES), 2) == {0: 9}


def test_dominators_prune(code_of: Callable, samples_of: Callable) -> None:  # type: ignore[type-arg]
    code = code_of("LDG.E R0, [R2] | write=0\nFADD R1, R0, R0 | waits=0\nFMUL R4, R0, R1\nEXIT")
    assert 0 in dependences(code, 2)
    assert 0 not in prune(
        code, 2, "long_scoreboard", dependences(code, 2), published_latencies(), coded=False
    )


def test_the_last_issued_of_a_queue_is_blamed(code_of: Callable, samples_of: Callable) -> None:  # type: ignore[type-arg]
    code = code_of("LDG.E R0, [R2] | write=0\nLDG.E R1, [R4] | write=0\nFADD R6, R0, R1 | waits=0\nEXIT")
    samples = samples_of(code, {2: {"selected": 1, "long_scoreboard": 100}})
    assert shares(blame(code, samples, "smlab", LATENCIES), 2) == {1: 100}
    divided = shares(blame(code, samples, "smlab", LATENCIES, "shared"), 2)
    assert divided[0] == pytest.approx(50, abs=2)


def test_operands_that_must_have_been_read_are_short(code_of: Callable, samples_of: Callable) -> None:  # type: ignore[type-arg]
    code = code_of("STG.E [R2], R4 | read=1\nMOV R4, R5 | waits=1\nEXIT")
    result = blame(code, samples_of(code, {1: {"short_scoreboard": 5}}), "smlab", LATENCIES)
    assert [(b.cause, b.samples) for b in result.blame if b.reason == "short_scoreboard"] == [(0, 5)]


def test_drain_is_blamed_on_the_stores(code_of: Callable, samples_of: Callable) -> None:  # type: ignore[type-arg]
    code = code_of("STG.E [R2], R4\nMOV R4, R5\nRED.E.ADD [R2], R4\nEXIT")
    result = blame(code, samples_of(code, {3: {"drain": 8}}), "smlab", LATENCIES)
    assert {b.cause: b.samples for b in result.blame if b.reason == "drain"} == {0: 4, 2: 4}
    alone = code_of("MOV R4, R5\nEXIT")
    result = blame(alone, samples_of(alone, {1: {"drain": 8}}), "smlab", LATENCIES)
    assert {b.cause: b.samples for b in result.blame if b.reason == "drain"} == {1: 8}


@pytest.mark.parametrize("mode", MODES)
def test_samples_are_conserved_exactly(mode: str, code_of: Callable, samples_of: Callable) -> None:  # type: ignore[type-arg]
    code = code_of(FIGURE_4)
    reasons = ("selected", "long_scoreboard", "short_scoreboard", "wait", "barrier", "math_pipe_throttle")
    stalls = {n: {r: 7 * n + 3 * k + 1 for k, r in enumerate(reasons)} for n in range(len(code))}
    samples = samples_of(code, stalls)
    result = blame(code, samples, mode, LATENCIES)  # type: ignore[arg-type]
    assert sum(b.samples for b in result.blame) + result.unattributed_samples == samples.samples
    waiting = sum(row.latency for row in samples.rows)
    missing = sum(samples.rows[n].not_issued.get(r, 0) for n, r in result.unattributed)
    assert sum(b.latency for b in result.blame) + missing == waiting


def test_unknown_modes_are_refused(code_of: Callable, samples_of: Callable) -> None:  # type: ignore[type-arg]
    code = code_of("EXIT")
    with pytest.raises(SmlabError, match="mode"):
        blame(code, samples_of(code, {}), "best", LATENCIES)  # type: ignore[arg-type]


def test_a_definition_is_found_however_long_the_block(code_of: Callable[[str], AdvisedCode]) -> None:
    """The search goes from definition to definition: 4,000 instructions between are four steps."""
    between = ["FADD R9, R8, R9"] * 2000
    listing = [
        "MOV R4, R5",
        "@P1 MOV R4, R6",
        *between,
        "FADD R7, R4, R4",
        *between,
        "FADD R8, R4, R7",
        "EXIT",
    ]
    code = code_of("\n".join(listing))
    paths = definitions(code, 4003, "R4").paths
    assert {n: (p.lengths, p.later, p.users) for n, p in paths.items()} == {
        1: ([4002], [0], frozenset({2002})),
        0: ([4003], [1], frozenset({2002})),
    }
    assert set(definitions(code, 4003, "R4", horizon_cycles=40).paths) == set()
    assert not definitions(code, 4003, "R4").cut_off
