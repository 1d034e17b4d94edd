"""Hypothesis profiles and the ``--thorough`` option, for all tests."""

import io
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="session")
def warm_smlab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for PATH whose ``smlab`` runs in processes that have everything imported (`warm`).

    For tests of what commands say and write; what a start is like needs the real program.
    """
    from warm import warm_command  # of tests/helpers, which other checkouts with this file may not have

    with warm_command(tmp_path_factory.mktemp("warm")) as programs:
        yield programs


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


WIDTHS = (40, 60, 80, 120, 200)
WHOLE = 400
"""As wide as every table, so that nothing is folded."""
NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.,])")


@dataclass
class Prints:
    """What commands printed for people, to be printed again in a terminal of any width."""

    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)

    def at(self, width: int) -> str:
        from smlab.cli.terminal import Terminal

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", str(width))
            terminal = Terminal()
            terminal.file = io.StringIO()
            for values, options in self.calls:
                terminal.print(*values, **options)
            return terminal.file.getvalue()

    def check_every_width(self) -> None:
        """Nothing sticks out, and every number of a narrow table stands in the wide one: none is a piece of
        another. What is to be copied whole (a command, a path) may go beyond the edge."""
        tables = Prints([call for call in self.calls if not call[1].get("soft_wrap")])
        whole = set(NUMBER.findall(tables.at(WHOLE)))
        assert tables.calls
        for width in WIDTHS:
            text = tables.at(width)
            assert max(map(len, text.splitlines())) <= width, text
            assert "\N{HORIZONTAL ELLIPSIS}" not in text
            assert set(NUMBER.findall(text)) <= whole, (width, set(NUMBER.findall(text)) - whole)


@pytest.fixture(scope="session")
def recorded() -> Callable[[], AbstractContextManager[Prints]]:
    """``with recorded() as prints:`` what commands print on standard output within."""

    @contextmanager
    def recording() -> Iterator[Prints]:
        from smlab.cli.terminal import out

        prints, show = Prints(), out.print

        def print_and_keep(*values: Any, **options: Any) -> None:
            prints.calls.append((values, options))
            show(*values, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(out, "print", print_and_keep)
            yield prints

    return recording
