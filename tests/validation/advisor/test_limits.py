"""The bound on blame by worked numbers, the nearest run, and which truth judges worth."""

import numpy as np
import pytest

from smlab.validation.advisor import worth
from smlab.validation.advisor.blaming import agreement
from smlab.validation.advisor.limits import SeenRun, _limit, bound, nearest, total_variation

HALF = np.array([[0.0, 0.0], [50.0, 50.0]])
"""Truths of two instructions' stalls, by (stalled, producer)."""
FIRST = np.array([[0.0, 0.0], [90.0, 10.0]])


def test_total_variation_of_tables_with_other_sums() -> None:
    assert total_variation(HALF, 3 * HALF) == 0.0
    assert total_variation(HALF, FIRST) == pytest.approx(0.4)
    assert total_variation(np.eye(2), 1 - np.eye(2)) == 1.0


def test_bound_is_met_by_the_mean_of_both_truths_and_by_none_exceeded() -> None:
    overlap = agreement(FIRST, HALF)
    assert (overlap, bound(overlap), bound(0.0), bound(1.0)) == pytest.approx((0.6, 0.8, 0.5, 1.0))
    between = (FIRST + HALF) / 2
    assert agreement(between, FIRST) == agreement(between, HALF) == pytest.approx(0.8)
    random = np.random.default_rng(1)
    for _ in range(200):
        first, second, answer = random.dirichlet(np.full(6, 0.3), 3)
        most = bound(agreement(first, second))
        assert min(agreement(answer, first), agreement(answer, second)) <= most + 1e-12


def run(policy: str, seed: int, samples: list[float], truth: np.ndarray, ours: float = 0.8) -> SeenRun:
    truths, own = {"last": truth, "shared": truth}, {"last": ours, "shared": ours}
    return SeenRun(policy, seed, np.array(samples), 1000, truths, own)  # type: ignore[arg-type]


def test_policies_that_samples_tell_apart_are_no_limit() -> None:
    runs = []
    for seed in range(1, 7):
        for policy in ("gto", "gty", "oldest"):
            runs.append(run(policy, seed, [40 + seed, 60.0], FIRST))
        runs.append(run("lrr", seed, [60 + seed, 40.0], HALF, ours=0.7))
    found = _limit(runs, "shared")
    assert found["ours"] == 0.7
    assert "lrr" in found["policies"]
    assert found["bound"] == pytest.approx(0.8)
    assert found["apart"] > found["seeds"]
    assert (found["told"], found["nearest"]) == (1.0, 1.0)
    assert 0 < found["drawn"] < 0.1
    assert nearest(runs[0], runs).seed == 2


def test_policies_with_the_same_samples_are_one() -> None:
    runs = [
        run(policy, seed, [50 + seed, 50.0], HALF if policy == "lrr" else FIRST)
        for seed in range(1, 7)
        for policy in ("lrr", "gto", "gty", "oldest")
    ]
    found = _limit(runs, "last")
    assert found["apart"] == 0.0
    assert found["nearest"] == pytest.approx(0.6)


def row(estimated: list[float], true: dict[str, list[float]]) -> dict[str, object]:
    count = {name: sum(g > worth.WORTH for g in gains) for name, gains in true.items()}
    ranks = {name: worth.spearman(estimated, gains) for name, gains in true.items()}
    ceiling = {name: 1.0 for name in true if name != worth.ONE_RUN}
    rest = dict.fromkeys(("spearman_published", "spearman_blame"), ranks)
    return {"worth_more_than_1_percent": count, "spearman": ranks, "ceiling": ceiling, **rest} | {
        worth.OTHER_POLICY: 0.5
    }


def test_each_truth_judges_the_kernels_with_five_producers_by_itself() -> None:
    up, down = [0.02, 0.03, 0.04, 0.05, 0.06], [0.06, 0.05, 0.04, 0.03, 0.02]
    rows = [
        row(up, {worth.ALL_POLICIES: up, worth.ONE_POLICY: down, worth.ONE_RUN: down}),
        row(up, {worth.ALL_POLICIES: [g / 10 for g in up], worth.ONE_POLICY: up, worth.ONE_RUN: up}),
    ]
    found = worth.summary(rows)
    assert found["kernels"] == 2
    assert [found[t]["judged"] for t in worth.TRUTHS] == [1, 2, 2]
    assert [found[t]["spearman"] for t in worth.TRUTHS] == pytest.approx([1.0, 0.0, 0.0])
    assert (found[worth.ALL_POLICIES]["ceiling"], found[worth.ONE_RUN]["ceiling"]) == (1.0, None)


def test_interval_of_a_median_holds_nine_in_ten() -> None:
    assert worth.median_interval([3.0, 1.0, 2.0]) == [1.0, 3.0]
    assert worth.median_interval([float(n) for n in range(1, 22)]) == [7.0, 15.0]
    random = np.random.default_rng(4)
    for size in (10, 25, 44):
        draws = random.random((400, size)) ** 3  # the median is 1/8
        held = [low <= 1 / 8 <= high for low, high in map(worth.median_interval, draws.tolist())]
        assert np.mean(held) >= 0.9 - 3 * 0.015  # of 400 draws
