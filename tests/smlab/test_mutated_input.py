"""Profiles and workloads with something wrong in them, through the commands: read, or refused in one line."""

import functools
import random
import re
import shutil
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

from hostile import mutated_bytes
from smlab.cli.main import run
from smlab.examples import KERNEL, PROFILE

MAX_S = 10.0  # of processor time
MAX_WALL_S = 120.0  # on a busy machine
MAX_BYTES = 2 * 10**9
END_S = 8.0  # a study that runs so long was read
ENDED = (
    0,
    2,
    130,
    -signal.SIGINT,
)
"""The last where all was done and Python was on its way out; a shell says 130."""


NUMBERS = (b"0", b"1", b"2", b"3", b"7", b"31", b"1000", b"1000000", b"1000000000000", b"-1", b"1.5", b"true")


def other_numbers(data: bytes, rng: random.Random) -> bytes:
    """One to three of the numbers are others: what is written may well be a file of its kind."""
    out = data
    for _ in range(rng.choice([1, 1, 2, 3])):
        place = rng.choice(list(re.finditer(rb"(?<![\w.\"-])\d+(?![\w.\"-])", out)))
        out = out[: place.start()] + rng.choice(NUMBERS) + out[place.end() :]
    return out


COMMANDS = (
    ("utilization", "--gpu", "a100-40"),
    ("roofline",),
    ("project", "--from", "a100-40", "--to", "h100-pcie"),
    ("simulate", "--gpu", "a100-40", "--max-cycles", "1000000"),
    ("whatif", "--jobs", "2"),
)
ADVISE = ("advise", "--gpu", "v100", "--code", str(KERNEL))
STUDIES = Path(__file__).parents[2] / "examples" / "studies"


def sources(command: str) -> list[Path]:
    """What the command is made to read, mutated."""
    if command == "simulate":
        return sorted(PROFILE.parent.glob("*.toml"))
    if command == "whatif":
        return sorted(STUDIES.glob("*/study*.toml"))
    return [simulated_samples()] if command == "advise" else [PROFILE]


_KEPT = tempfile.TemporaryDirectory()


@functools.cache
def simulated_samples() -> Path:
    """Samples by instruction of the kernel that ships."""
    path = Path(_KEPT.name) / "samples.csv"
    assert run(["run", "--example", "--samples", str(path)]) == 0
    return path


def written(command: str, seed: int, folder: Path) -> Path:
    rng = random.Random(seed)
    source = rng.choice(sources(command))
    path = folder / str(seed) / source.name
    path.parent.mkdir()
    for beside in source.parent.glob("kernel*.toml"):  # that a study names
        shutil.copy(beside, path.parent)
    change = rng.choice([mutated_bytes, other_numbers]) if source.suffix == ".toml" else mutated_bytes
    path.write_bytes(change(source.read_bytes(), rng))
    return path


@pytest.fixture(scope="module")
def ready() -> None:
    """The engine loaded, or compiled where it never was: that is no command's time."""
    assert run(["simulate", "atomics", "--set", "iterations=1"]) == 0


@pytest.mark.parametrize(
    "seeds", [range(10), pytest.param(range(10, 310), marks=pytest.mark.thorough)], ids=["ten", "300"]
)
@pytest.mark.parametrize("command", [*COMMANDS[:-1], ADVISE], ids=lambda command: command[0])
@pytest.mark.usefixtures("ready")
def test_mutated_input_is_read_or_refused(
    command: tuple[str, ...], seeds: range, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in seeds:
        path = written(command[0], seed, tmp_path)
        capsys.readouterr()
        began = time.process_time()
        status = run([command[0], str(path), *command[1:]])
        assert time.process_time() - began < MAX_S, seed
        told = capsys.readouterr().err
        assert status in (0, 2), seed
        if status == 2:
            assert [line.startswith("smlab: ") for line in told.splitlines()].count(True) == 1, (seed, told)


EACH = 20


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("command", "first"),
    [
        (command, first)
        for command in COMMANDS
        for first in range(1000, 1300 if sources(command[0]) == [PROFILE] else 1100, EACH)
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else str(value),
)
@pytest.mark.usefixtures("ready")
def test_mutated_input_by_the_real_command(
    command: tuple[str, ...], first: int, tmp_path: Path, smlab_command, record_property
) -> None:
    """Processes that begin cold, with their memory, their time and what they leave behind. A study may be
    long and right: it is ended, and must leave nothing."""
    worst: dict[str, float] = {"cpu_s": 0, "wall_s": 0, "peak_bytes": 0}
    statuses: list[int] = []
    for seed in range(first, first + EACH):
        path = written(command[0], seed, tmp_path)
        arguments = (command[0], str(path), *command[1:])
        if command[0] == "whatif":
            arguments += ("--out", str(tmp_path / f"out-{seed}"))
        ended = smlab_command(
            *arguments, timeout_s=MAX_WALL_S, end_s=END_S if command[0] == "whatif" else None
        )
        statuses.append(ended.status)
        assert ended.status in (ENDED if command[0] == "whatif" else (0, 2)), (seed, ended)
        assert "Traceback" not in ended.err, (seed, ended.err)
        if ended.status == 2:
            ended.refused()
        assert ended.left == (), seed
        assert ended.peak_bytes < MAX_BYTES, seed
        assert ended.cpu_s < MAX_S or ended.status in ENDED[2:], seed
        worst = {key: max(value, getattr(ended, key)) for key, value in worst.items()}
    record_property("worst", worst)
    print(f"{command[0]} {first}: {Counter(statuses)} {worst}")
