"""Sensitivity over distributions of the factors: Sobol indices from a Saltelli design, rank regression
from a random one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.random import SeedSequence, default_rng
from numpy.typing import ArrayLike, NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.validation.method.statistics import Interval

Floats = NDArray[np.float64]

RESAMPLES = 1000
MIN_RESAMPLES = 100
MAX_DRAWN = 4_000_000
"""Drawn indices that SALib's bootstrap holds at a time: with more base samples there are fewer resamples."""
MIN_SAMPLES = 16
"""Fewer base samples give neither an index nor an interval worth printing."""


@dataclass(frozen=True)
class SobolIndex:
    """The share of a response's variance that is owed to one factor, or to a pair beyond its two members.

    ``index`` is the first-order index of a factor (the variance that would go if it were known) or the
    second-order one of a pair; ``total`` (one factor only) counts its interactions in. Fractions; the
    estimates may fall outside 0 to 1 by chance.
    """

    factors: tuple[str, ...]
    index: Interval
    total: Interval | None


def sobol_indices(
    values: ArrayLike,
    names: Sequence[str],
    *,
    second_order: bool,
    seed: int,
    level: float = 0.95,
    resamples: int | None = None,
) -> tuple[SobolIndex, ...]:
    """Indices of a Saltelli design by SALib, with its bootstrap intervals.

    ``values`` are the responses in the order of ``SALib.sample.sobol``: blocks of D + 2 rows (2 D + 2 with
    second order), D the number of ``names``. The interval is symmetric, the normal quantile times the
    bootstrap's standard deviation, over the base samples. Empty where the response does not vary.

    The bootstrap treats the base samples as independent. They are a low-discrepancy sequence, whose error is
    smaller, so the intervals hold the truth more often than they claim. (On the Ishigami function, 95 %
    intervals held it in 99 to 100 % of the cases from 256 base samples on; from independent points in 95 to
    97 %.)

    Raises:
        SmlabError: a number of values that no such design has, a value that is not finite, too few base
        samples.
    """
    from SALib.analyze import sobol

    y = np.asarray(values, dtype=np.float64)
    block = len(names) * (2 if second_order else 1) + 2
    if y.ndim != 1 or len(y) % block or len(y) < block * MIN_SAMPLES:
        expected = f"a multiple of {block}, at least {block * MIN_SAMPLES}"
        raise SmlabError.at("sobol", "unusable number of responses", y.shape, expected)
    if not np.isfinite(y).all():
        raise SmlabError.at(
            "sobol", "a response is missing", int(np.argmin(np.isfinite(y))), "finite responses"
        )
    if np.ptp(y) <= 1e-12 * np.abs(y).max():
        return ()
    problem = {"num_vars": len(names), "names": list(names), "bounds": [[0.0, 1.0]] * len(names)}
    # SALib takes a seed of 0 for none at all.
    nonzero = int(SeedSequence([seed, 8]).generate_state(1, np.uint32)[0]) | 1
    samples = len(y) // block
    if resamples is None:
        resamples = min(RESAMPLES, max(MIN_RESAMPLES, MAX_DRAWN // samples))
    found = sobol.analyze(
        problem, y, calc_second_order=second_order, num_resamples=resamples, conf_level=level, seed=nonzero
    )

    def interval(estimate: float, half: float) -> Interval:
        return Interval(float(estimate), float(estimate - half), float(estimate + half), level, samples)

    out = [
        SobolIndex((name,), interval(s1, s1_half), interval(st, st_half))
        for name, s1, s1_half, st, st_half in zip(
            names, found["S1"], found["S1_conf"], found["ST"], found["ST_conf"], strict=True
        )
    ]
    if second_order:
        for j, k in itertools.combinations(range(len(names)), 2):
            pair = interval(found["S2"][j, k], found["S2_conf"][j, k])
            out.append(SobolIndex((names[j], names[k]), pair, None))
    return tuple(out)


@dataclass(frozen=True)
class RankCoefficient:
    """A factor's standardised coefficient in the regression of the response's ranks on the factors' ranks.

    From -1 to 1 for factors that are drawn independently; the sign says which way the response goes.
    ``r_squared`` of that regression, the same for all factors: near 1 the response is monotone and the
    coefficients tell all, near 0 they tell nothing.
    """

    factor: str
    coefficient: Interval
    r_squared: float


def rank_coefficients(
    inputs: ArrayLike,
    values: ArrayLike,
    names: Sequence[str],
    *,
    seed: int,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> tuple[RankCoefficient, ...]:
    """Standardised rank regression (Saltelli et al., "Sensitivity Analysis", 2000), ``inputs`` (points,
    factors), ``values`` (points,), with percentile bootstrap intervals over the points. Empty where the
    response does not vary.
    """
    x, y = np.asarray(inputs, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if x.shape != (len(y), len(names)) or len(y) < MIN_SAMPLES + len(names):
        expected = f"(points, {len(names)}), {MIN_SAMPLES + len(names)} points or more"
        raise SmlabError.at("random design", "unusable points", x.shape, expected)
    if np.ptp(y) == 0:
        return ()
    ranks = np.column_stack([scipy.stats.rankdata(column) for column in (*x.T, y)])
    coefficients, r_squared = _regress(ranks)
    rng = default_rng(SeedSequence([seed, 9]))
    drawn = np.array([_regress(ranks[rng.integers(0, len(y), len(y))])[0] for _ in range(resamples)])
    tail = 100 * (1 - level) / 2
    lows, highs = np.percentile(drawn, [tail, 100 - tail], axis=0)
    return tuple(
        RankCoefficient(name, Interval(float(c), float(low), float(high), level, len(y)), r_squared)
        for name, c, low, high in zip(names, coefficients, lows, highs, strict=True)
    )


def _regress(ranks: Floats) -> tuple[Floats, float]:
    deviation = ranks.std(axis=0)
    z = (ranks - ranks.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    coefficients, *_ = np.linalg.lstsq(z[:, :-1], z[:, -1], rcond=None)
    residual = z[:, -1] - z[:, :-1] @ coefficients
    spread = float(np.sum(z[:, -1] ** 2))
    return coefficients, 1.0 - float(np.sum(residual**2)) / spread if spread > 0 else 0.0
