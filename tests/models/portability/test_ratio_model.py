"""What a few ratios tell of the others: against a Gaussian process written out, and by coverage."""

import numpy as np
import pytest

from smlab.models.portability.ratio_model import ACROSS, LENGTH, OF_ALL, SCALES, Parameters, RatioModel

RNG = np.random.default_rng(3)
PARAMETERS = Parameters(
    sizes=RNG.standard_normal((40, 2)), switches=RNG.integers(0, 2, (40, 1)).astype(np.int64)
)


def covariance(scale: np.ndarray, a: int, b: int) -> float:
    """Of two configurations' ratios, as the module's docstring has it."""
    switch = float(PARAMETERS.switches[a, 0] == PARAMETERS.switches[b, 0])
    sizes = np.exp(-np.abs(PARAMETERS.sizes[a] - PARAMETERS.sizes[b]) / LENGTH)
    combined = np.prod(ACROSS + (1 - ACROSS) * np.array([switch, *sizes]))
    parts = [switch, sizes.mean(), combined, float(a == b)]
    return float(OF_ALL**2 + (scale**2 * parts).sum())


def test_it_is_the_gaussian_process_of_each_scale_weighted_by_its_likelihood() -> None:
    seen, ratios = [4, 11, 30], np.array([0.3, -0.1, 0.5])
    model = RatioModel(PARAMETERS)
    for row, ratio in zip(seen, ratios, strict=True):
        model.tell(row, float(ratio))
    logs, means, variances = [], [], []
    for scale in SCALES:
        among = np.array([[covariance(scale, a, b) for b in seen] for a in seen])
        across = np.array([covariance(scale, 7, b) for b in seen])
        sign, log_determinant = np.linalg.slogdet(among)
        assert sign > 0
        logs.append(-0.5 * ratios @ np.linalg.solve(among, ratios) - 0.5 * log_determinant)
        means.append(across @ np.linalg.solve(among, ratios))
        variances.append(covariance(scale, 7, 7) - across @ np.linalg.solve(among, across))
    weights = np.exp(np.array(logs) - max(logs))
    found = model.predicted(np.array([7]))
    likely = np.argsort(-weights, kind="stable")[: len(found.weight)]
    assert found.weight == pytest.approx(weights[likely] / weights[likely].sum())
    assert found.mean[:, 0] == pytest.approx(np.array(means)[likely], abs=1e-6)
    assert found.variance[:, 0] == pytest.approx(np.array(variances)[likely], abs=1e-6)


def test_what_a_switch_does_stays_unknown_until_it_was_seen() -> None:
    model = RatioModel(PARAMETERS)
    off, on = (np.flatnonzero(PARAMETERS.switches[:, 0] == code) for code in (0, 1))
    for row in off[:6].tolist():
        model.tell(row, 0.2)
    before = model.predicted(on).moments()[1]
    assert before.min() > 1.5 * model.predicted(off[6:]).moments()[1].max()
    model.tell(int(on[0]), 0.7)
    mean, after = model.predicted(on[1:]).moments()
    assert (after < before[1:]).all()
    assert mean.mean() == pytest.approx(0.7, abs=0.15)


def test_intervals_hold_ratios_drawn_from_such_parts() -> None:
    """Ratios with parts of drawn sizes: nine of ten lie in the 90 % interval after eight were seen."""
    rng = np.random.default_rng(8)
    held = []
    for _ in range(60):
        scale = SCALES[rng.integers(len(SCALES))]
        rows = rng.permutation(40)
        whole = np.array([[covariance(scale, a, b) for b in range(40)] for a in range(40)])
        true = np.linalg.cholesky(whole + 1e-9 * np.eye(40)) @ rng.standard_normal(40)
        model = RatioModel(PARAMETERS)
        for row in rows[:8].tolist():
            model.tell(row, float(true[row]))
        mean, deviation = model.predicted(rows[8:]).moments()
        held.append(np.mean(np.abs(true[rows[8:]] - mean) < 1.645 * deviation))
    assert 0.86 < np.mean(held) < 0.95


def test_a_space_of_one_switch_or_of_nothing_is_no_error() -> None:
    for sizes, switches in ((0, 1), (1, 0), (0, 0)):
        model = RatioModel(Parameters(np.zeros((3, sizes)), np.zeros((3, switches), dtype=np.int64)))
        assert model.predicted(np.arange(3)).moments()[1].shape == (3,)
        model.tell(0, 0.1)
        assert model.predicted(np.arange(3)).moments()[0] == pytest.approx(np.full(3, 0.1), abs=0.05)
