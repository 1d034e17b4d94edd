"""One mechanism fitted to all published measurements of the atomic unit."""

from dataclasses import replace

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.validation.calibrate.joint_fits import load_joint_fits
from smlab.validation.campaigns.calibration import joint
from smlab.validation.campaigns.calibration.joint import MECHANISMS, atomic_rows, fit_constants, simulate_rows

OCCUPANCY = MECHANISMS[0]
TRUTH = np.array([4.0, 1.5, 40.0, 10.0])
"""base, pass, latency and what a compare-and-swap adds."""


def planted() -> list[joint.AtomicMeasurement]:
    """Some rows of each kind, with values that the mechanism gives."""
    rows = [r for r in atomic_rows() if not r.bound and "rate" not in r.label][::2]
    values = simulate_rows(OCCUPANCY, TRUTH, rows)
    return [replace(row, measured=float(value)) for row, value in zip(rows, values, strict=True)]


def test_planted_constants_are_found() -> None:
    found = fit_constants(OCCUPANCY, planted())
    assert found.determined.all()
    assert found.values[:2] == pytest.approx(TRUTH[:2], rel=0.01)
    assert found.values[2:] == pytest.approx(TRUTH[2:], abs=1.2)  # the machine rounds latencies


def test_a_constant_that_no_row_hangs_on_is_told() -> None:
    """Rates of many warps do not tell a latency."""
    rows = [r for r in planted() if r.source == "Jia and Van Sandt"]
    found = fit_constants(OCCUPANCY, rows)
    determined = dict(zip(OCCUPANCY.free, found.determined, strict=True))
    assert determined == {"base": True, "pass": True, "latency": False, "cas_extra": False}
    assert found.values[:2] == pytest.approx(TRUTH[:2], rel=0.03)


def test_bounds_take_no_part_but_are_judged() -> None:
    rows = [r for r in atomic_rows() if r.bound]
    with pytest.raises(SmlabError, match="no measurement is left"):
        fit_constants(OCCUPANCY, rows)
    errors = joint.errors_of(np.array([2 * rows[0].measured, *(r.measured / 2 for r in rows[1:])]), rows)
    assert errors[0] == pytest.approx(1.0)
    assert (errors[1:] == 0).all()


def test_what_is_stored_is_of_the_rows_that_are_there() -> None:
    fits = load_joint_fits()
    assert [(f.cards, f.mechanism) for f in fits] == [(c, m.name) for c in joint.CARDS for m in MECHANISMS]
    sources = {r.source for r in atomic_rows() if not r.bound}
    assert set(fits[0].left_out) == sources
    for fit in fits:
        for value, low, high in fit.constants.values():
            assert low <= value <= high


def test_a_spoilt_table_is_refused(tmp_path) -> None:
    (tmp_path / "joint.json").write_text('[{"mechanism": "a"}]')
    with pytest.raises(SmlabError, match="not a stored joint fit"):
        load_joint_fits(tmp_path / "joint.json")
