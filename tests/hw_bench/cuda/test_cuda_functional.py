"""Right results of all kernels under Numba's CPU simulator, and the arithmetic behind the checks."""

import pytest

pytest.importorskip(
    "numba.cuda", reason="kernels not simulated: this Numba has no CUDA target (smlab[cuda12] has)"
)

from smlab.hw_bench.cuda import registry
from smlab.hw_bench.cuda.kernels.points import AtomicPoint, Pattern, every_pattern, paper_points
from smlab.hw_bench.cuda.kernels.shared_atomics import TOTAL
from smlab.hw_bench.cuda.measuring import functional
from smlab.hw_bench.cuda.measuring.benchmarks.atomic_points import expected_sums
from smlab.hw_bench.errors import SmlabError
from smlab.sim.address_patterns import Grouped


def test_all_kernels_compute_what_they_should() -> None:
    results = functional.simulate()
    assert [f"{r.benchmark} {r.kernel}: {r.message}" for r in results if not r.ok] == []
    assert {(r.benchmark, r.kernel) for r in results} == {
        (s.benchmark, s.name) for s in registry.all_kernels()
    }
    assert [r.kernel for r in results if r.not_done] == ["butterfly", "warp-reduce", "neighbour-shuffle"]


@pytest.mark.parametrize("pattern", [p for p in every_pattern() if p.lanes in {1, 6, 24, 32}], ids=str)
def test_patterns_lie_as_in_the_simulation(pattern: Pattern) -> None:
    words = pattern.words()
    assert (
        words[: pattern.lanes] == Grouped(pattern.same_word, pattern.same_bank).words(pattern.lanes, 32)
    ).all()
    assert (words[pattern.lanes :] == -1).all()


def test_patterns_that_cannot_be_laid_out_are_refused() -> None:
    with pytest.raises(SmlabError, match="same_word: does not divide the active lanes"):
        Pattern(32, 3).words()
    with pytest.raises(SmlabError, match="same_bank: does not divide the 8 words"):
        Pattern(32, 4, 3).words()
    with pytest.raises(SmlabError, match="lanes: out of range"):
        Pattern(33).words()
    with pytest.raises(SmlabError, match="cas_warps: out of range"):
        AtomicPoint(2, Pattern(1), cas_warps=3)


def test_the_papers_points() -> None:
    every = paper_points([3], [1, 32])
    assert [(p.warps, p.pattern.lanes, p.cas_warps) for p in every] == [
        (3, e, c) for e in (1, 32) for c in range(4)
    ]
    assert [p.cas_warps for p in paper_points([32], [1], 2)] == [0, 16, 32]


@pytest.mark.parametrize(
    ("operation", "point", "iterations", "blocks", "limits"),
    [
        ("add", AtomicPoint(3, Pattern(5, 5)), 1, 1, [(15, 15)]),
        ("add", AtomicPoint(3, Pattern(5, 5)), 8, 2, [(80, 80), (40, 40)]),
        # One warp swaps 0 for 1, before the others add or never.
        ("add", AtomicPoint(3, Pattern(4, 2), cas_warps=1), 1, 1, [(8, 10)]),
        ("add", AtomicPoint(2, Pattern(4, 2), cas_warps=2), 8, 1, [(2, 2)]),
        ("add", AtomicPoint(2, Pattern(4), cas_warps=1, warp_stride_words=32), 1, 1, [(8, 8)]),
        ("max", AtomicPoint(4, Pattern(32, 4)), 8, 1, [(8, 8)]),
        ("none", AtomicPoint(4, Pattern(32, 4)), 1, 1, [(0, 0)]),
        ("load", AtomicPoint(4, Pattern(32, 4)), 1, 1, [(0, 0)]),
        ("store", AtomicPoint(2, Pattern(32), warp_stride_words=32), 1, 1, [(64, 64)]),
    ],
)
def test_what_the_counters_must_come_to(
    operation: str, point: AtomicPoint, iterations: int, blocks: int, limits: list[tuple[int, int]]
) -> None:
    found = expected_sums(operation, point, iterations, blocks)
    assert [(low[TOTAL], high[TOTAL]) for low, high in found] == limits


def test_sums_know_the_words() -> None:
    ((low, high),) = expected_sums("add", AtomicPoint(2, Pattern(4), warp_stride_words=32), 1, 1)
    words = [0, 1, 2, 3, 32, 33, 34, 35]
    assert low.tolist() == high.tolist() == [8, sum(word**2 + 1 for word in words)]
