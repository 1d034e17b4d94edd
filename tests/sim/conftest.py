"""One fixture runs every simulator test on both engines."""

import sys

import pytest


@pytest.fixture(params=["compiled", "simpy"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The engine that `simulate` uses when none is named, in turn."""
    name: str = request.param
    monkeypatch.setattr(sys.modules["smlab.sim.simulate"], "DEFAULT_ENGINE", name)
    return name
