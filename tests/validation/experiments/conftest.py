"""Small studies that run in no time."""

from collections.abc import Callable
from pathlib import Path

import pytest

from smlab.validation.experiments.design.study import Study, read_study

ATOMICS = """
title = "small"
responses = ["cycles", "utilization", "speedup"]

[base]
gpu = "v100"
workload = "atomics"
set.iterations = 3

[factors]
warps = [1, 2, 8]
gpu.atomic.queue_entries = [2, 8]

[design]
kind = "grid"
"""

QUEUE = """
title = "waits"
responses = ["wait", "response_time"]

[base]
model = "mm1-run"
set.customers = 200

[factors]
arrival_rate = [0.3, 0.6, 0.8]
service_rate = { values = [1, 1.25], base = 1.1 }

[design]
kind = "grid"
replications = 4
seed = 7
"""

LONG = """
title = "long enough to be killed"
responses = ["wait", "response_time"]

[base]
model = "mm1-run"
set.customers = 80_000

[factors]
arrival_rate = { range = [0.2, 0.8], levels = 14 }
service_rate = { range = [1, 2], levels = 10 }

[design]
kind = "grid"
replications = 2
"""

Make = Callable[..., Study]
"""A study from one of the texts with replacements ``(old, new)``, each of which must apply."""


def changed(text: str, changes: tuple[tuple[str, str], ...]) -> str:
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


@pytest.fixture(scope="session")
def long_text() -> str:
    """A study that is long enough to be interrupted: 2 (14 x 10 + 1) points."""
    return LONG


@pytest.fixture
def atomics_text() -> str:
    return ATOMICS


@pytest.fixture
def queue_text() -> str:
    return QUEUE


@pytest.fixture
def atomics(tmp_path: Path) -> Make:
    """A study of the simulator."""
    return lambda *changes: _read(tmp_path / "atomics.toml", changed(ATOMICS, changes))


@pytest.fixture
def queue(tmp_path: Path) -> Make:
    """A study of a queue with random times, which takes microseconds a point."""
    return lambda *changes: _read(tmp_path / "queue.toml", changed(QUEUE, changes))


def _read(path: Path, text: str) -> Study:
    path.write_text(text)
    return read_study(path)
