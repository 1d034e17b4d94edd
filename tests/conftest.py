"""Hypothesis profiles and the ``--thorough`` option, for all tests."""

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


@pytest.fixture(scope="session")
def shared_data(repository: Path) -> Path:
    """Measurements by others; not part of the repository, so tests that need them may have to skip."""
    folder = repository.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the measurements by others (shared/data) are not here")
    return folder
