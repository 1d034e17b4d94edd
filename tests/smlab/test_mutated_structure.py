"""Every file that we read, well formed and with something wrong in it, or with bytes changed: an answer, or
one line, in time and memory, with nothing left behind.

Seeded, each in a child process. A few of each kind run always. Marked thorough, one run has `STRUCTURAL`
changed structures, `RANDOM` changed bytes and `KERNELS` hostile kernels:

    pytest --thorough tests/smlab/test_mutated_structure.py -k seeded_run
"""

import functools
import random
import shutil
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from isolated import Isolated, isolated

from readers import (
    COMMANDS,
    FILE,
    KINDS,
    Kind,
    binaries,
    changed_kernel,
    kinds,
)
from smlab.cli.main import run
from smlab.cli.text import one_line
from smlab.examples import KERNEL
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.errors import SmlabError
from smlab.sim.isa.launch.launch_file import read_launch
from whole_files import KTT, LAUNCH

needs_compiler = pytest.mark.skipif(not has_compiler(), reason="no CUDA compiler is there")
FEW = 4
STRUCTURAL = 2000
RANDOM = 600
KERNELS = 400


def test_all_kinds_are_listed_and_whole_ones_are_read(tmp_path: Path) -> None:
    assert tuple(kinds()) == KINDS
    for label, kind in [*kinds().items(), *binaries().items()]:
        if label == "report":  # a whole one needs ncu-report
            continue
        for n, tree in enumerate(kind.whole):
            one = Kind((tree,), kind.name, kind.read, kind.beside)
            one.read(one.write(-1, tmp_path / f"{label}-{n}", label))


def reading(kind: Kind, path: Path) -> int:
    """Read a file as a command does that has nothing else to do."""
    try:
        kind.read(path)
    except SmlabError as error:
        print(f"smlab: {one_line(str(error))}", file=sys.stderr)
        return 2
    return 0


def read_isolated(kind: Kind, path: Path, folder: Path) -> Isolated:
    return isolated(lambda: reading(kind, path), folder / "isolated")


def arguments_of(name: str, seed: int, folder: Path) -> list[str]:
    """A command on a file that is written into the folder."""
    command = COMMANDS[name]
    launch = Kind((tomllib.loads(LAUNCH),), "l.toml", read_launch)
    kind = launch if command.kind == "run-launch" else kinds()[command.kind]
    words = {
        FILE: str(kind.write(seed, folder, name)),
        "OTHER": str(kind.write(-1, folder / "other", name)),
        "KERNEL": str(KERNEL),
    }
    return [
        functools.reduce(lambda text, word: text.replace(word, words[word]), words, argument)
        for argument in command.arguments
    ]


class Outcomes:
    """What became of each input, and all that went wrong; the files of what went wrong are kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ended: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.slowest: tuple[float, str] = (0.0, "")
        self.largest: tuple[float, str] = (0.0, "")

    def add(self, label: str, do: Callable[[Path], Isolated]) -> None:
        folder = self.folder / label
        folder.mkdir(parents=True)
        ended = do(folder)
        wrong = [f"{label}: {what}" for what in ended.wrong()]
        self.wrong += wrong
        self.ended["read" if ended.status == 0 else "refused" if ended.status == 2 else "broken"] += 1
        self.slowest = max(self.slowest, (ended.cpu_s, label))
        self.largest = max(self.largest, (ended.peak_bytes / 1e9, label))
        if not wrong:
            shutil.rmtree(folder)

    def structure(self, label: str, seed: int) -> None:
        kind = kinds()[label]
        self.add(
            f"structure-{label}-{seed}",
            lambda folder: read_isolated(kind, kind.write(seed, folder, label), folder),
        )

    def bytes(self, label: str, seed: int) -> None:
        kind = {**kinds(), **binaries()}[label]
        self.add(
            f"bytes-{label}-{seed}",
            lambda folder: read_isolated(kind, kind.write_bytes(seed, folder, label), folder),
        )

    def command(self, name: str, seed: int) -> None:
        def do(folder: Path) -> Isolated:
            arguments = arguments_of(name, seed, folder)
            return isolated(lambda: run(arguments), folder / "isolated")

        self.add(f"command-{name}-{seed}", do)

    def kernel(self, suffix: str, seed: int) -> None:
        def do(folder: Path) -> Isolated:
            path, launch = folder / f"k{suffix}", folder / "l.toml"
            path.write_bytes(changed_kernel(suffix, random.Random(f"{suffix} {seed}")))
            launch.write_text(LAUNCH)
            arguments = ["run", str(path), "--launch", str(launch), "--max-cycles", "20000"]
            return isolated(lambda: run(arguments), folder / "isolated")

        self.add(f"kernel{suffix}-{seed}", do)


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Outcomes]:
    told = Outcomes(tmp_path)
    yield told
    assert not told.wrong, "\n".join(told.wrong)


@pytest.fixture(scope="module")
def ready() -> None:
    """The engine loaded and tables made, where they never were: that is no command's time."""
    assert run(["simulate", "atomics", "--set", "iterations=1"]) == 0
    assert run(["run", "--example"]) == 0
    assert run(["utilization", "--example"]) == 0


@pytest.mark.parametrize("label", KINDS)
def test_a_changed_structure_is_read_or_refused(label: str, told: Outcomes) -> None:
    for seed in range(FEW):
        told.structure(label, seed)


def test_changed_bytes_are_read_or_refused(told: Outcomes) -> None:
    for label in (*KINDS, *binaries()):
        told.bytes(label, 0)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.usefixtures("ready")
def test_a_changed_structure_through_the_command(name: str, told: Outcomes) -> None:
    told.command(name, 0)


@pytest.mark.parametrize(
    "suffix",
    [
        ".sass",
        pytest.param(".cu", marks=needs_compiler),
        pytest.param(".cubin", marks=needs_compiler),
    ],
)
@pytest.mark.usefixtures("ready")
def test_hostile_kernels_are_run_or_refused(suffix: str, told: Outcomes) -> None:
    for seed in range(FEW):
        told.kernel(suffix, seed)


def shares(total: int, labels: tuple[str, ...], first: int) -> Iterator[tuple[str, int]]:
    """Each label with seeds from ``first``, ``total`` or a few more in all."""
    for label in labels:
        for seed in range(first, first - (-total // len(labels))):
            yield label, seed


@pytest.mark.thorough
@pytest.mark.usefixtures("ready")
def test_the_seeded_run(
    told: Outcomes, capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    suffixes = (".sass", ".cu", ".cubin") if has_compiler() else (".sass",)
    counts = Counter[str]()
    parts = {
        "structure of files": (told.structure, shares(STRUCTURAL * 7 // 10, KINDS, 1000)),
        "structure through commands": (told.command, shares(STRUCTURAL * 3 // 10, tuple(COMMANDS), 2000)),
        "bytes": (told.bytes, shares(RANDOM, (*KINDS, *binaries()), 3000)),
        "kernels": (told.kernel, shares(KERNELS, suffixes, 4000)),
    }
    for part, (do, inputs) in parts.items():
        for label, seed in inputs:
            do(label, seed)
            counts[part] += 1
    figures = {
        **counts,
        **told.ended,
        "slowest": f"{told.slowest[0]:.1f} s, {told.slowest[1]}",
        "largest": f"{told.largest[0]:.2f} GB, {told.largest[1]}",
        "wrong": len(told.wrong),
    }
    record_property("figures", figures)
    with capsys.disabled():
        print(figures)
    assert counts["structure of files"] + counts["structure through commands"] >= STRUCTURAL
    assert counts["bytes"] >= RANDOM
    assert counts["kernels"] >= KERNELS
    assert told.ended["read"] > 100


def test_the_fuzzer_finds_a_defect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails where a reader raises anything else."""
    monkeypatch.setitem(kinds(), "ktt", Kind((KTT,), "k.json", lambda path: 1 / 0))
    told = Outcomes(tmp_path)
    told.structure("ktt", 0)
    assert "ZeroDivisionError" in told.wrong[0]
    assert told.wrong[0].startswith("structure-ktt-0: ")
    assert list((tmp_path / "structure-ktt-0").glob("k.json"))
