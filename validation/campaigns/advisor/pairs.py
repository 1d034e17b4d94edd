"""Kernels by others, each with one change by hand: what `smlab advise` says of the kernel before, and what
the change brings.

Two rounds of fifteen, written by two people who had seen no rule, no advice and no kernel of ours. The
estimators were frozen; each round is judged once. The advice is that of the command, with its numbers by
replay; the truth is the whole grid, simulated before and after on the same GPU.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.child_python import run_python
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.validation.campaigns.advisor.pair_inputs import write_inputs
from smlab.validation.campaigns.advisor.speedups import FIRST, NOT_FORESEEN, ChangeRow, FirstRow, summary

FOLDER: Final = Path(__file__).with_name("pairs")
FIVE: Final = 5
"""Pieces of advice that `smlab advise` gives by default."""
ALL: Final = 100
"""More than there are optimizers."""
RULES: Final[Mapping[str, tuple[str, ...]]] = {
    "coalesce": ("uncoalesced-access",),
    "loads-early": ("loop-unrolling", "code-reordering"),
    "stage-shared": ("memory-transaction-reduction", "uncoalesced-access"),
    "pad-shared": ("bank-conflicts", "bank-layout"),
    "privatise-atomics": ("privatisation",),
    "fewer-barriers": ("warp-balance",),
    "fast-math": ("fast-math",),
    "cheaper-integers": ("strength-reduction",),
    "launch-shape": ("grid", "block-shape", "block-increase", "thread-increase", "block-size"),
    "registers": ("register-reuse",),
    "vector-loads": ("memory-transaction-reduction",),
    "hoist": (),
    "divergence": ("divergence",),
    "read-only": ("memory-transaction-reduction",),
    "shuffles": ("warp-balance",),
}
"""The pieces of advice that mean a change, by what they tell to do; of several the one that is told first
counts. None says to move work out of a loop. Written before any of these kernels was advised on."""
TRIED: Final = "launch-shape"
"""The change whose number `smlab advise` finds by simulating it, which is no estimate: judged apart."""


@dataclass(frozen=True)
class ChangedKernel:
    """A kernel before and after one ``change``; ``source`` are all its files as one text."""

    round: str
    name: str
    change: str
    gpu: str
    source: str

    @property
    def folder(self) -> Path:
        return FOLDER / self.round / self.name


@dataclass(frozen=True)
class PairAnswer:
    """A change beside what is advised (`ChangeRow`), the kernel's first advice, and all that is told, a line
    each."""

    row: ChangeRow
    first: FirstRow
    told: tuple[str, ...]


def read_round(round_of: str, gpu: str) -> tuple[ChangedKernel, ...]:
    """All kernels of a folder, in order of their names."""
    found = []
    for folder in sorted(path for path in (FOLDER / round_of).iterdir() if path.is_dir()):
        source = "".join(path.read_text() for path in sorted(folder.iterdir()))
        change = tomllib.loads((folder / "about.toml").read_text())["change"]
        found.append(ChangedKernel(round_of, folder.name, change, gpu, source))
    return tuple(found)


PAIRS: Final[Mapping[str, tuple[ChangedKernel, ...]]] = {
    "tenth_round": read_round("round_10", "a100-40"),
    "eleventh_round": read_round("round_11", "v100"),
}


def judge_one(pair: ChangedKernel, _: Gpu) -> PairAnswer:
    """The change as it is advised and as it is; on the pair's own GPU."""
    with tempfile.TemporaryDirectory() as made:
        folder = with_inputs(pair, Path(made))
        before, after = (simulated(pair, folder, version)[0] for version in ("before", "after"))
        told = advised(pair, folder, FIVE)
        rank, one = _advice_for(pair, told)
        if one is None:
            rank, one = _advice_for(pair, advised(pair, folder, ALL))
            rank = None if rank is None else max(rank, FIVE)
    true = before / after
    row = _row(pair, true, rank, one)
    first = FirstRow(
        pair.name,
        row.optimizer,
        true,
        tuple(name for each in told[:FIRST] for name in _names(each)),
        told[0]["speedup"] if told else 1.0,
        False,
    )
    return PairAnswer(row, first, tuple(_line(each) for each in told))


def _row(pair: ChangedKernel, true: float, rank: int | None, one: dict[str, Any] | None) -> ChangeRow:
    """Of a bound the promise is the bound itself."""
    if one is None:
        name = RULES[pair.change][0] if RULES[pair.change] else ""
        return ChangeRow(pair.name, pair.change, name, true, 1.0, 1.0, None, 1.0, 1.0, doubt=NOT_FORESEEN)
    speedup = one["speedup"]
    return ChangeRow(
        pair.name,
        pair.change,
        next(name for name in _names(one) if name in RULES[pair.change]),
        true,
        speedup,
        one.get("speedup_published", speedup),
        rank,
        one["low"],
        one["high"],
        one.get("bound", speedup),
        one.get("doubt", ""),
    )


def _advice_for(
    pair: ChangedKernel, told: list[dict[str, Any]]
) -> tuple[int, dict[str, Any]] | tuple[None, None]:
    rules = set(RULES[pair.change])
    found = ((rank, one) for rank, one in enumerate(told) if rules.intersection(_names(one)))
    return next(found, (None, None))


def _names(one: dict[str, Any]) -> tuple[str, ...]:
    return (one["optimizer"], *one.get("also", ()))


def _line(one: dict[str, Any]) -> str:
    interval = f"{one['low']:.2f} to {one['high']:.2f}"
    return f"{', '.join(_names(one))}: {one['speedup']:.2f} ({one['how']}; {interval})"


def with_inputs(pair: ChangedKernel, folder: Path) -> Path:
    """The pair's files in ``folder``, with its arrays."""
    shutil.copytree(pair.folder, folder, dirs_exist_ok=True)
    write_inputs(pair.name, folder)
    return folder


def simulated(
    pair: ChangedKernel, folder: Path, version: str, sms: str = "all"
) -> tuple[float, dict[str, np.ndarray]]:
    """The cycles of a ``version`` (``before``, ``after``), and the arrays that come back."""
    result = folder / f"{version}.npz"
    launch = folder / "launch_after.toml"
    if version == "before" or not launch.is_file():
        launch = folder / "launch.toml"
    source = str(folder / f"{version}.cu")
    told = _command("run", source, *_common(pair, launch, sms), "--result", str(result))
    with np.load(result) as arrays:
        return float(told["cycles"]), dict(arrays)


def advised(pair: ChangedKernel, folder: Path, top: int) -> list[dict[str, Any]]:
    """What `smlab advise` tells of the kernel before, in its order. Only where the change is one of the
    launch does the command try changes."""
    source, tries = str(folder / "before.cu"), () if pair.change == TRIED else ("--try-seconds", "0")
    common = _common(pair, folder / "launch.toml", "all")
    told = _command("advise", source, *common, "--top", str(top), *tries)
    (kernel,) = told["kernels"]
    advice: list[dict[str, Any]] = kernel["advice"]
    return advice


def _common(pair: ChangedKernel, launch: Path, sms: str) -> tuple[str, ...]:
    return ("--launch", str(launch), "--gpu", pair.gpu, "--sms", sms, "--json")


_SMLAB: Final = "from smlab.cli import main; main()"
TIMEOUT_S: Final = 1800.0


def _command(*arguments: str) -> dict[str, Any]:
    """The answer of a command of smlab. It is the front door that is judged, which no room imports.

    Raises:
        SmlabError: what the command says against it.
    """
    pipe = subprocess.PIPE
    done = run_python(_SMLAB, *arguments, timeout_s=TIMEOUT_S, stdout=pipe, stderr=pipe, text=True)
    if done.returncode:
        raise SmlabError(f"smlab {' '.join(arguments)}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def judged(answers: list[PairAnswer]) -> dict[str, Any]:
    """A round, or both: the summary of changes that are estimated, those tried apart, how many are told as
    numbers, and among how many first pieces of advice the change is. All other errors of `summary` would take
    bounds for estimates."""
    rows = [answer.row for answer in answers]
    kept = [answer for answer in answers if answer.row.change != TRIED]
    told = summary([answer.row for answer in kept], [answer.first for answer in kept])
    ranks = [row.rank for row in rows]
    return {
        "summary": {
            "pairs": len(rows),
            "told_as_numbers": sum(not row.doubt for row in rows),
            "told_as_bounds": sum(row.doubt not in ("", NOT_FORESEEN) for row in rows),
            "not_told": sum(rank is None for rank in ranks),
            "among_the_first": {
                str(n): sum(rank is not None and rank < n for rank in ranks) for n in (1, FIRST, FIVE)
            },
            **{key: told[key] for key in ("changes", "kernels", "numbers", "bounds", "first_advice")},
            "tried": [asdict(answer.row) for answer in answers if answer.row.change == TRIED],
        },
        "rows": [asdict(row) for row in rows],
        "first_advice": [asdict(answer.first) for answer in answers],
        "told": {answer.row.kernel: answer.told for answer in answers},
    }


def answers_of(part: dict[str, Any]) -> list[PairAnswer]:
    """The answers in a stored round."""
    return [
        PairAnswer(
            ChangeRow(**row),
            FirstRow(**{**first, "first": tuple(first["first"])}),
            tuple(part["told"][row["kernel"]]),
        )
        for row, first in zip(part["rows"], part["first_advice"], strict=True)
    ]
