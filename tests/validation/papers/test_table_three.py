"""Table III of Zhou et al. by our arithmetic, to the digit."""

import numpy as np
import pytest

from smlab.validation.papers.claims.published import advisor_table


def test_table_three_to_the_digit() -> None:
    rows = advisor_table().rows
    true, told = (np.array([getattr(r, name) for r in rows]) for name in ("achieved", "estimated"))
    ape = 100 * np.abs(told / true - 1)
    assert len(rows) == 26
    assert round(float(ape.mean()), 2) == pytest.approx(6.99)
    assert round(float(np.exp(np.log(ape).mean())), 2) == pytest.approx(4.07)
    assert round(float(100 * np.abs(1.15 / true - 1).mean()), 2) == pytest.approx(11.70)
    constants = np.arange(1, 2, 0.001)
    best = min(float(100 * np.abs(c / true - 1).mean()) for c in constants)
    assert round(best, 2) == pytest.approx(11.23)
    gain = 100 * np.abs((told - true) / (true - 1))
    assert float(np.median(gain)) == pytest.approx(34, abs=1)
    assert int((told > true).sum()) == 19
