"""Kernels by others, each with one change by hand: what `smlab advise` says of the kernel before, and what
the change brings.

Ten rounds of fifteen, written by people who had seen no rule and no advice. Each was opened when the method
was frozen, and judged once. What rounds 10 to 17 showed changed the method (`first_runs.json` keeps what it
was when they were new), so they are kernels that it was made on. Rounds 18 and 19 judge it. The advice is
that of the command as it is called without options; the truth is the whole grid, simulated before and after
on the same GPU.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.child_python import run_python
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.validation.campaigns.advisor.pair_inputs import write_inputs
from smlab.validation.campaigns.advisor.speedups import (
    FIRST,
    NOT_FORESEEN,
    ChangeRow,
    FirstRow,
    numbers,
)
from smlab.validation.method.widths import left_out, width_factor

FOLDER: Final = Path(__file__).with_name("pairs")
FIVE: Final = 5
"""Pieces of advice that `smlab advise` gives by default."""
ALL: Final = 100
"""More than there are optimizers."""
HOWS: Final = ("tried", "probed", "replayed", "bound", "ranked")
"""How what is told of a change came."""
FEWEST: Final = 3
"""Numbers that a rank correlation is told of."""
RULES: Final[Mapping[str, tuple[str, ...]]] = {
    "coalesce": ("uncoalesced-access", "transposed-array", "interleaved", "lanes-along-rows"),
    "loads-early": (
        "loop-unrolling",
        "code-reordering",
        "batched-loads",
        "restricted-pointers",
        "loads-ahead",
    ),
    "stage-shared": ("memory-transaction-reduction", "uncoalesced-access", "shared-tiles"),
    "pad-shared": ("bank-conflicts", "bank-layout", "padded-rows"),
    "privatise-atomics": ("privatisation", "own-counters"),
    "aggregate-atomics": ("warp-aggregation",),
    "single-precision": ("fp64-constants", "fp64-precision", "conversions", "single-precision"),
    "more-work": ("more-work", "thread-increase", "grid"),
    "split-sums": ("split-sums", "loop-unrolling"),
    "unroll": ("loop-unrolling",),
    "double-buffer": ("loads-ahead", "code-reordering", "fewer-barriers", "warp-balance"),
    "register-sum": ("register-sum", "restricted-pointers"),
    "inline": ("function-inlining", "inlined"),
    "fewer-barriers": ("warp-balance", "fewer-barriers"),
    "fast-math": ("fast-math", "cheaper-functions"),
    "cheaper-integers": ("strength-reduction", "cheaper-integers"),
    "launch-shape": ("grid", "block-shape", "block-increase", "thread-increase", "block-size", "split-loop"),
    "registers": ("register-reuse", "more-registers", "fewer-registers"),
    "vector-loads": ("memory-transaction-reduction", "vector-loads"),
    "hoist": ("hoisted", "restricted-pointers", "register-sum"),
    "divergence": ("divergence", "lanes-along-rows"),
    "read-only": ("memory-transaction-reduction", "constant-table", "restricted-pointers"),
    "shuffles": ("warp-balance", "fewer-barriers"),
    "less-shared": ("less-shared", "block-increase"),
}
"""The pieces of advice that mean a change, by what they tell to do; of several the one that is told first
counts, its number is that of the first which was simulated, if one was. Written before any advice of rounds
14 and 15 was seen; rounds 12 and 13 were judged when new by fewer names of each change."""
SIMULATED: Final = ("tried", "probed")
RANK_ONLY: Final = "no number, only a place"
ENDS: Final = 0.95
"""That each end of an interval holds."""
MOST_OFF: Final = 0.10
"""By how much a number is off, at most, that is called right."""


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
    "twelfth_round": read_round("round_12", "a100-40"),
    "thirteenth_round": read_round("round_13", "v100"),
    "fourteenth_round": read_round("round_14", "a100-40"),
    "fifteenth_round": read_round("round_15", "a100-40"),
    "sixteenth_round": read_round("round_16", "h100-sxm"),
    "seventeenth_round": read_round("round_17", "h100-sxm"),
    "eighteenth_round": read_round("round_18", "h100-sxm"),
    "nineteenth_round": read_round("round_19", "h100-sxm"),
}
DEVELOPED: Final = (
    *("tenth_round", "eleventh_round", "twelfth_round", "thirteenth_round"),
    *("fourteenth_round", "fifteenth_round", "sixteenth_round", "seventeenth_round"),
)
"""Rounds that the method of today was made on; the others judge it."""


def judge_one(pair: ChangedKernel, _: Gpu) -> PairAnswer:
    """The change as it is advised and as it is; on the pair's own GPU."""
    with tempfile.TemporaryDirectory() as made:
        folder = with_inputs(pair, Path(made))
        before, after = (simulated(pair, folder, version)[0] for version in ("before", "after"))
        told = advised(pair, folder)
    true = before / after
    return answer_of(pair.name, pair.change, RULES[pair.change], true, told)


def answer_of(
    kernel: str, change: str, rules: tuple[str, ...], true: float, told: list[dict[str, Any]]
) -> PairAnswer:
    """A change of a kernel, which pieces of advice that are called as ``rules`` mean, beside all that is
    told."""
    row = _row(kernel, change, rules, true, told)
    first = FirstRow(
        kernel,
        row.optimizer,
        true,
        tuple(name for each in told[:FIRST] for name in _names(each)),
        (told[0]["speedup"] or 1.0) if told else 1.0,
        False,
    )
    return PairAnswer(row, first, tuple(_line(each) for each in told))


def _row(
    kernel: str, change: str, rules: tuple[str, ...], true: float, told: list[dict[str, Any]]
) -> ChangeRow:
    """What is told of the change. Of a bound the promise is the bound itself."""
    found = [(rank, one) for rank, one in enumerate(told) if set(rules).intersection(_names(one))]
    if not found:
        return ChangeRow(kernel, change, rules[0], true, 1.0, 1.0, None, 1.0, 1.0, doubt=NOT_FORESEEN)
    rank = found[0][0]
    one = next((each for _, each in found if each["how"] in SIMULATED), found[0][1])
    ranked_only = one["how"] == "ranked"
    speedup = 1.0 if ranked_only else one["speedup"]
    return ChangeRow(
        kernel,
        change,
        next(name for name in _names(one) if name in rules),
        true,
        speedup,
        one.get("speedup_published", speedup),
        rank,
        1.0 if ranked_only else one["low"],
        one["bound"] if ranked_only else one["high"],
        one.get("bound", speedup),
        RANK_ONLY if ranked_only else one["doubt"] if one["how"] == "bound" else "",
        one["how"],
    )


def _names(one: dict[str, Any]) -> tuple[str, ...]:
    return (one["optimizer"], *one.get("also", ()))


def _line(one: dict[str, Any]) -> str:
    if one["how"] == "ranked":
        return f"{', '.join(_names(one))}: no number"
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
    """The cycles of a ``version`` (``before``, ``after``, ``second``), and the arrays that come back."""
    result = folder / f"{version}.npz"
    launch = folder / f"launch_{version}.toml"
    if not launch.is_file():
        launch = folder / "launch.toml"
    source = str(folder / f"{version}.cu")
    told = command("run", source, *_common(pair, launch, sms), "--result", str(result))
    with np.load(result) as arrays:
        return float(told["cycles"]), dict(arrays)


def advised(pair: ChangedKernel, folder: Path) -> list[dict[str, Any]]:
    """All that `smlab advise` tells of the kernel before, in its order."""
    source, launch = str(folder / "before.cu"), str(folder / "launch.toml")
    told = command("advise", source, "--launch", launch, "--gpu", pair.gpu, "--json", "--top", str(ALL))
    (kernel,) = told["kernels"]
    advice: list[dict[str, Any]] = kernel["advice"]
    return advice


def _common(pair: ChangedKernel, launch: Path, sms: str) -> tuple[str, ...]:
    return ("--launch", str(launch), "--gpu", pair.gpu, "--sms", sms, "--json")


_SMLAB: Final = "from smlab.cli import main; main()"
TIMEOUT_S: Final = 1800.0


def command(*arguments: str) -> dict[str, Any]:
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


def intervals(rows: Sequence[ChangeRow], rounds: Sequence[str] | None = None) -> dict[str, Any]:
    """Between which factors of a simulated number, ``low`` and ``high``, the true gain of the author's change
    lies in nine cases of ten, each kind of change having the same say. The two ends have a factor each, as
    authors do more than the change that was simulated more often than less. Each holds 95 %, with the
    correction of split conformal prediction for the number of cases. How often that holds for the changes of
    a kind when the factors are those of all other kinds, and for those of a round when they are those of all
    others (`smlab.validation.method.widths`); ``rounds`` are those of the rows.
    """
    every = zip(rows, rounds or [""] * len(rows), strict=True)
    of = [(row, r) for row, r in every if row.how in SIMULATED]
    error = np.array([math.log(row.true / row.estimated) for row, _ in of])
    same, kinds = np.ones(len(of)), [row.change for row, _ in of]
    level = min(1.0, ENDS * (1 + 1 / len(of)))
    sides = {"low": np.maximum(-error, 0.0), "high": np.maximum(error, 0.0)}

    def held(families: list[str]) -> tuple[int, dict[str, dict[str, float]]]:
        found: dict[str, dict[str, float]] = {}
        for end, side in sides.items():
            for one in left_out(side, same, families, kinds, level):
                found.setdefault(one.family, {})[end] = one.factor
        within = (-found[f]["low"] <= e <= found[f]["high"] for e, f in zip(error, families, strict=True))
        return int(sum(within)), {
            f: {"low": math.exp(-w["low"]), "high": math.exp(w["high"])} for f, w in found.items()
        }

    by_kind, factors = held(kinds)
    of_round = [r for _, r in of]
    by_round = {} if len(set(of_round)) < 2 else {"held_rounds": held(of_round)[0]}
    return {
        "n": len(of),
        "held": by_kind,
        **by_round,
        "low": math.exp(-width_factor(sides["low"], same, kinds, level)),
        "high": math.exp(width_factor(sides["high"], same, kinds, level)),
        "kinds": factors,
    }


def with_intervals(answers: list[PairAnswer], found: dict[str, Any]) -> list[PairAnswer]:
    """Simulated numbers with the interval that changes of all other kinds give them (`intervals`)."""
    told = []
    for answer in answers:
        row = answer.row
        if row.how in SIMULATED:
            factors = found["kinds"][row.change]
            row = replace(row, low=row.estimated * factors["low"], high=row.estimated * factors["high"])
        told.append(replace(answer, row=row))
    return told


def all_judged(asked: Mapping[str, list[PairAnswer]]) -> dict[str, Any]:
    """All rounds, by name, those that the method was made on as one set, and those that judged it; the
    intervals come from all of them, kinds of changes left out in turn."""
    every = [(one, name) for name, of in asked.items() for one in of]
    found = intervals([one.row for one, _ in every], [name for _, name in every])
    answers = {name: with_intervals(of, found) for name, of in asked.items()}
    developed = [one for name, of in answers.items() if name in DEVELOPED for one in of]
    new = [one for name, of in answers.items() if name not in DEVELOPED for one in of]
    return {name: judged(of) for name, of in answers.items()} | {
        "developed": judged(developed)["summary"],
        "summary": judged(new)["summary"],
        "intervals": found,
    }


def judged(answers: list[PairAnswer]) -> dict[str, Any]:
    """A round, or several: how good all numbers are, those that were simulated and those that were replayed,
    whether bounds hold, and among how many first pieces of advice the change is."""
    rows = [answer.row for answer in answers]
    ranks = [row.rank for row in rows]
    told = [row for row in rows if not row.doubt]
    bounds = [row.true <= row.bound for row in rows if row.how == "bound"]
    return {
        "summary": {
            "pairs": len(rows),
            **{how: sum(row.how == how and row.rank is not None for row in rows) for how in HOWS},
            "not_told": sum(rank is None for rank in ranks),
            "among_the_first": {
                str(n): sum(rank is not None and rank < n for rank in ranks) for n in (1, FIRST, FIVE)
            },
            "numbers": _numbers(told),
            "simulated": _numbers([row for row in told if row.how in SIMULATED]),
            "replayed_numbers": _numbers([row for row in told if row.how == "replayed"]),
            "bounds": {"n": len(bounds), "hold": sum(bounds)},
        },
        "rows": [asdict(row) for row in rows],
        "first_advice": [asdict(answer.first) for answer in answers],
        "told": {answer.row.kernel: answer.told for answer in answers},
    }


def _numbers(rows: list[ChangeRow]) -> dict[str, Any]:
    """`speedups.numbers`, with those that are right within `MOST_OFF`; of two numbers or fewer how many."""
    within = {"right": sum(abs(row.estimated / row.true - 1) <= MOST_OFF for row in rows)}
    return {"changes": len(rows), **within} if len(rows) < FEWEST else {**numbers(rows), **within}


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
