"""Estimates under several alternatives taken together: one is itself, several are a mixture, and a verdict
on which they differ is none."""

import dataclasses

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.models.utilization.alternative_estimates import (
    AlternativeEstimates,
    joint_verdict,
    mean_over,
    mixed_interval,
)
from smlab.models.utilization.trust_map import CLOSED, AtomicLoad, estimate_all, shipped_map
from smlab.models.utilization.verdict import BOTTLENECK, CANNOT_TELL, NOT, Verdict
from smlab.sim.simulate import simulate
from smlab.sim.workloads.atomics_benchmark import atomics
from smlab.validation.service_tables import fetch_add_tables

TRUST = shipped_map()


def parts(weights: tuple[float, float], count: int = 40) -> list[AlternativeEstimates]:
    """Kernels whose counters are strewn, by the tables of two readings of the V100."""
    rng = np.random.default_rng(4)
    given = (
        np.exp(rng.uniform(5, 7, count)),
        1e5,
        np.exp(rng.uniform(0, 4, count)),
        rng.uniform(1, 32, count),
        0,
    )
    found = []
    for weight, (alternative, gpu) in zip(weights, load_gpu("v100").variants()[:2], strict=True):
        both = fetch_add_tables(gpu)
        estimates = estimate_all(AtomicLoad(*given), both.looped, both.batch)
        found.append(AlternativeEstimates(alternative.name, weight, estimates))
    return found


def test_one_alternative_is_its_own_interval() -> None:
    first = parts((1.0, 0.0))[:1]
    mixed, alone = (
        mixed_interval(first, TRUST, 0.9, CLOSED),
        TRUST.interval(first[0].estimates, 0.9, CLOSED),
    )
    np.testing.assert_array_equal(mixed.low, alone.low)
    np.testing.assert_array_equal(mixed.high, alone.high)


def test_a_mixture_of_equals_is_the_interval_of_each_at_the_level_of_mixtures() -> None:
    first = parts((1.0, 0.0))[0]
    twice = [dataclasses.replace(first, weight=0.3), dataclasses.replace(first, weight=0.7)]
    level = TRUST.estimators[CLOSED].mixture_level(0.9)
    mixed, alone = (
        mixed_interval(twice, TRUST, 0.9, CLOSED),
        TRUST.interval(first.estimates, level, CLOSED),
    )
    assert 0.85 < level < 0.95
    np.testing.assert_allclose(mixed.low, alone.low, atol=0.02)
    np.testing.assert_allclose(mixed.high, alone.high, atol=0.02)


def test_a_mixture_lies_within_the_union_and_hangs_on_the_weights() -> None:
    even, heavy = parts((0.5, 0.5)), parts((0.99, 0.01))
    alone = [TRUST.interval(p.estimates, 0.95, CLOSED) for p in even]
    mixed = mixed_interval(even, TRUST, 0.9, CLOSED)
    assert (mixed.low >= np.minimum(alone[0].low, alone[1].low) - 1e-9).all()
    assert (mixed.high <= np.maximum(alone[0].high, alone[1].high) + 1e-9).all()
    first = TRUST.interval(even[0].estimates, 0.9, CLOSED)
    nearly = mixed_interval(heavy, TRUST, 0.9, CLOSED)
    np.testing.assert_allclose(nearly.low, first.low, atol=0.05)
    np.testing.assert_allclose(nearly.high, first.high, atol=0.05)
    values = [p.estimates.features.floor for p in even]
    np.testing.assert_allclose(mean_over(even, values), (values[0] + values[1]) / 2)


def test_a_mixture_holds_as_often_as_its_parts() -> None:
    """Truths drawn from the alternatives' own distributions, as often from each as its weight says."""
    mixture = parts((0.25, 0.75), 400)
    rng = np.random.default_rng(5)
    mixed = mixed_interval(mixture, TRUST, 0.8, CLOSED)
    held = []
    for p in mixture:
        ends = [TRUST.interval(p.estimates, x, CLOSED) for x in (0.5, 0.7, 0.9)]
        quantiles = np.stack([i.low for i in reversed(ends)] + [i.high for i in ends], axis=1)
        at = rng.uniform(0.05, 0.95, len(quantiles))
        truth = np.array(
            [
                np.interp(a, (0.05, 0.15, 0.25, 0.75, 0.85, 0.95), q)
                for a, q in zip(at, quantiles, strict=True)
            ]
        )
        # Where the ends are cut at 0 or 1, intervals hold more than they claim.
        inside = np.all([(i.low > 0.01) & (i.high < 0.99) for i in ends], axis=0)
        assert inside.sum() > 100
        held.append(((mixed.low <= truth) & (truth <= mixed.high))[inside].mean())
    # The draws leave the outermost tenth out, which an interval of 80 % leaves out as well, half of it.
    assert 0.25 * held[0] + 0.75 * held[1] == pytest.approx(0.8 / 0.9, abs=0.05)


def test_verdicts_that_differ_are_none() -> None:
    sure, spare = Verdict(BOTTLENECK, "full", ("do this",)), Verdict(NOT, "room")
    told = joint_verdict(("a", "b"), (sure, spare), sure)
    assert told.verdict == CANNOT_TELL
    assert "bottleneck if a; not the bottleneck if b" in told.reason
    assert told.advice == ("do this",)
    mixed = Verdict(BOTTLENECK, "full, by the mixture")
    assert joint_verdict(("a", "b"), (sure, sure), mixed) is mixed


@pytest.mark.parametrize("alternative", [0, 1, 2])
def test_the_floor_is_the_share_that_a_fed_unit_is_at_work(alternative: int) -> None:
    """What bounds throughput: where the unit never idles it is 1, and with half of the work a half."""
    _, gpu = load_gpu("v100").variants()[alternative]
    both = fetch_add_tables(gpu)
    result = simulate(atomics(warps=32, blocks=2, same_word=8, iterations=200), gpu)
    jobs, cycles = result.atomic.jobs, result.cycles
    full = estimate_all(AtomicLoad(jobs, cycles, 64, 8, 0), both.looped).features.floor[0]
    assert full == pytest.approx(1, abs=0.03)
    half = estimate_all(AtomicLoad(jobs, 2 * cycles, 64, 8, 0), both.looped).features.floor[0]
    assert half == pytest.approx(full / 2)
