"""Hypothesis profiles and the ``--thorough`` option, for all tests."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Timing is the benchmarks' business: a test that is slow on a busy machine has not failed.
settings.register_profile(
    "default", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough", action="store_true", help="the long profile: many more examples, and slow tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts the tests in the background has them ignore Ctrl-C, and so would every command that
    # they start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.load_profile("thorough" if config.getoption("--thorough") else "default")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--thorough"):
        skip = pytest.mark.skip(reason="only with --thorough")
        for item in items:
            if "thorough" in item.keywords:
                item.add_marker(skip)


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).parent.parent


SHARED_DATA = "SMLAB_SHARED_DATA"
"""The environment variable that names the folder of measurements by others."""


@pytest.fixture(scope="session")
def shared_data(repository: Path) -> Path:
    """Measurements by others; not part of the repository, so tests that need them may have to skip.

    The folder that `SHARED_DATA` names, else ``shared/data`` beside the checkout. A name that is given must
    be right: a wrong one fails, so that nobody takes skipped tests for passed ones.
    """
    named = os.environ.get(SHARED_DATA)
    folder = Path(named) if named else repository.parent / "shared" / "data"
    if folder.is_dir():
        return folder
    if named:
        pytest.fail(f"{SHARED_DATA}: not a folder (got {named!r}; expected the measurements by others)")
    pytest.skip(f"the measurements by others are not here ({SHARED_DATA} names no folder, {folder} is none)")


@pytest.fixture(scope="session")
def shared_papers(shared_data: Path) -> Path:
    """The papers as text, in the folder beside the measurements."""
    folder = shared_data.parent / "papers"
    if not folder.is_dir():
        pytest.skip(f"the papers' texts are not here ({folder})")
    return folder


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables as wide as in a pipe: pytest-xdist tells its workers that a terminal is 80 columns wide."""
    monkeypatch.delenv("COLUMNS", raising=False)
