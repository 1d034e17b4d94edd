"""The slides' curve through machine code (Jia and Van Sandt, GTC 2021)."""

import pytest

from smlab.validation.kernels.curve import CurvePoint, curve_points, mape


@pytest.fixture(scope="module", name="points")
def points_fixture() -> list[CurvePoint]:
    return curve_points()


@pytest.mark.parametrize(("gpu", "op"), [("v100", "add"), ("a100-40", "add"), ("a100-40", "popc-inc")])
def test_machine_code_gives_the_curve_within_two_percent(points: list[CurvePoint], gpu: str, op: str) -> None:
    own = [p for p in points if (p.gpu, p.op) == (gpu, op)]
    assert len(own) == 6
    assert mape(own) < 2


def test_points_that_made_no_constant_are_within_two_percent(points: list[CurvePoint]) -> None:
    between = [p for p in points if p.same_word not in (1, 32)]
    assert len(between) == 12
    assert max(abs(p.error_percent) for p in between) < 2
