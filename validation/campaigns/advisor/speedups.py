"""Estimated speedups against changes that were made: before and after simulated, intervals with the kernel
left out, and whether the best change is among the first advice."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy import stats

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.advisor.advice import Advice, advise, estimate, optimizer_of
from smlab.models.advisor.changes.matching import Context
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.stall_causes.blame import blame
from smlab.models.advisor.stall_causes.latencies import described_latencies
from smlab.models.advisor.track_record import ALL, BY_OTHERS
from smlab.sim import Record
from smlab.validation.campaigns.advisor.kernels import Change, StudyKernel
from smlab.validation.campaigns.advisor.simulate import JudgedRun, execute

LEVEL: Final = 0.9
NOT_FORESEEN: Final = "no rule matches it"
FIRST: Final = 2
UNPADDED_BYTES: Final = 32 * 32 * 4
"""Of a tile of 32 rows over 32 banks."""
NOTHING: Final = 1.05
"""More than this is not promised where there is nothing to gain."""


@dataclass(frozen=True)
class ChangeRow:
    """One change: true speedup, ours, that of Equations 2 to 10; ``rank`` of its optimizer among all
    advice, from 0, or None where it was not given; ``low`` and ``high`` from changes of other kinds. Where
    there is a ``doubt``, only the ``bound`` is told. ``how`` the number came is told by `smlab advise`."""

    kernel: str
    change: str
    optimizer: str
    true: float
    estimated: float
    published: float
    rank: int | None
    low: float = 0.0
    high: float = 0.0
    bound: float = 1.0
    doubt: str = ""
    how: str = "replayed"


@dataclass(frozen=True)
class FirstRow:
    """A kernel's advice: its best change that was made, and the optimizers of the first pieces of advice."""

    kernel: str
    best: str
    best_speedup: float
    first: tuple[str, ...]
    promised: float
    tuned: bool


def context_of(run: JudgedRun, gpu: Gpu) -> Context:
    """The advisor's view of a run, from emulated samples."""
    samples, code = run.samples(), AdvisedCode(run.launch.image.function)
    latencies = described_latencies(gpu)
    return Context(code, samples, blame(code, samples, "smlab", latencies), gpu, latencies)


def judge_one(kernel: StudyKernel, gpu: Gpu) -> tuple[list[ChangeRow], list[FirstRow]]:
    """Every change of a kernel, still without intervals; and the first advice, if it has changes or is
    tuned."""
    if not kernel.changes and not kernel.tuned:
        return [], []
    run = execute(kernel.launch(gpu.sm_architecture), gpu)
    context = context_of(run, gpu)
    advice = advise(context)
    rows = [_row(kernel, change, run, context, advice, gpu) for change in kernel.changes]
    best = max(rows, key=lambda r: r.true, default=None)
    first = FirstRow(
        kernel.name,
        "" if best is None else best.optimizer,
        1.0 if best is None else best.true,
        tuple(name for a in advice[:FIRST] for name in a.names),
        advice[0].speedup if advice else 1.0,
        kernel.tuned,
    )
    return rows, [first]


def _row(
    kernel: StudyKernel,
    change: Change,
    run: JudgedRun,
    context: Context,
    advice: tuple[Advice, ...],
    gpu: Gpu,
) -> ChangeRow:
    after = execute(kernel.launch(gpu.sm_architecture, change), gpu, keep=Record.TOTALS)
    answer = estimate_of(context, change, after.launch.shared_bytes - run.launch.shared_bytes)
    rank = next((n for n, a in enumerate(advice) if change.optimizer in a.names), None)
    return ChangeRow(
        kernel.name,
        change.name,
        change.optimizer,
        run.cycles / after.cycles,
        1.0 if answer is None else float(answer.speedup),
        1.0 if answer is None else float(answer.paper),
        rank if answer is not None else None,
        bound=1.0 if answer is None else float(answer.bound),
        doubt=NOT_FORESEEN if answer is None else answer.doubt,
    )


def estimate_of(context: Context, change: Change, tile_bytes: int = 0) -> Advice | None:
    """What the advisor promises for a change as it was made: so many rounds, chains or copies; loads written
    ahead, whose loop stays as it is; accesses through a tile of shared memory, which has padding unless the
    ``tile_bytes`` that the change adds are whole rows of all banks, one a lane."""
    made = change.defines
    factor = next((float(made[k]) for k in ("UNROLL", "CHAINS", "COPIES") if k in made), None)
    if change.optimizer == "uncoalesced-access" and tile_bytes and tile_bytes % UNPADDED_BYTES == 0:
        factor = 0.0
    if "AHEAD" in made:
        factor = 1.0
    return estimate(context, optimizer_of(change.optimizer), factor)


def with_intervals(rows: Iterable[ChangeRow], known: Iterable[ChangeRow]) -> list[ChangeRow]:
    """Intervals of `LEVEL` from what the estimates of all *other* kinds of changes among ``known``, to other
    kernels, were off by."""
    found, others = [], list(known)
    for row in rows:
        other = [r for r in others if r.kernel != row.kernel and r.optimizer != row.optimizer]
        low, high = spread(other)
        found.append(dataclasses.replace(row, low=row.estimated * low, high=row.estimated * high))
    return found


def spread(rows: Iterable[ChangeRow]) -> tuple[float, float]:
    """The factors of an estimate between which `LEVEL` of true speedups are expected: order statistics, as
    wide as a future one needs."""
    logs = np.array([math.log(row.true / row.estimated) for row in rows if not row.doubt])
    n, tail = len(logs), (1 - LEVEL) / 2
    ends = [max(0.0, tail * (n + 1) - 1), min(n - 1.0, (1 - tail) * (n + 1) - 1)]
    low, high = (float(x) for x in np.quantile(logs, np.array(ends) / max(n - 1, 1)))
    return math.exp(low), math.exp(high)


def errors(estimated: np.ndarray, true: np.ndarray) -> dict[str, float]:
    """MAPE and median error of the speedup, median error of the gain where there was one of 5 % or more."""
    ape = 100 * np.abs(estimated / true - 1)
    gained = np.abs(true - 1) >= 0.05
    gain = 100 * np.abs((estimated - true)[gained] / (true - 1)[gained])
    return {
        "mape": float(ape.mean()),
        "median_ape": float(np.median(ape)),
        "worst_ape": float(ape.max()),
        "median_error_of_gain": float(np.median(gain)) if len(gain) else 0.0,
    }


def held(rows: Iterable[ChangeRow]) -> dict[str, float]:
    """The share of true speedups within their intervals, with its own (95 %, binomial)."""
    return _share(r.low <= r.true <= r.high for r in rows)


def _share(held_by: Iterable[bool]) -> dict[str, float]:
    inside = list(held_by)
    if not inside:
        return {"n": 0, "share": 0.0, "low": 0.0, "high": 1.0}
    interval = stats.binomtest(sum(inside), len(inside)).proportion_ci(0.95)
    share = {"share": sum(inside) / len(inside), "low": float(interval.low), "high": float(interval.high)}
    return {"n": len(inside), **share}


def summary(rows: list[ChangeRow], firsts: list[FirstRow]) -> dict[str, Any]:
    """Everything that is said of the estimates; ``numbers`` are those that are told as numbers, ``bounds``
    how often what is told as no more than a bound is one."""
    true = np.array([r.true for r in rows])
    known = [f for f in firsts if f.best_speedup >= NOTHING and not f.tuned]
    right = sum(f.best in f.first for f in known)
    return {
        "changes": len(rows),
        "kernels": len({r.kernel for r in rows}),
        "smlab": errors(np.array([r.estimated for r in rows]), true),
        "published_equations": errors(np.array([r.published for r in rows]), true),
        "constant": best_constant(true),
        "held": held(rows),
        "numbers": numbers([r for r in rows if not r.doubt]),
        "bounds": _share(r.true <= r.bound for r in rows if r.doubt and r.doubt != NOT_FORESEEN),
        "first_advice": {
            "kernels": len(known),
            "right": right,
            "share": right / len(known) if known else 0.0,
            "missed": [f.kernel for f in known if f.best not in f.first],
        },
        "nothing_to_gain": {f.kernel: f.promised for f in firsts if f.tuned},
    }


def numbers(rows: list[ChangeRow]) -> dict[str, Any]:
    """How good the estimates are that are told as numbers: errors beside the best constant's, rank
    correlation, the share within the intervals, and promises above twice the truth."""
    true, estimated = np.array([r.true for r in rows]), np.array([r.estimated for r in rows])
    return {
        "changes": len(rows),
        **errors(estimated, true),
        "constant": best_constant(true),
        "spearman": float(stats.spearmanr(estimated, true)[0]),
        "held": held(rows),
        "above_twice": [f"{r.kernel}: {r.change}" for r in rows if r.estimated > 2 * r.true],
    }


def best_constant(true: np.ndarray) -> dict[str, float]:
    """The constant with the least MAPE, and its errors."""
    constants = np.linspace(0.8, 5, 841)
    best = float(constants[np.argmin([np.abs(c / true - 1).mean() for c in constants])])
    return {"value": best, **errors(np.full(len(true), best), true)}


def track_record(
    rows: list[ChangeRow], by_others: list[ChangeRow], ends: tuple[float, float] = (1.0, 1.0)
) -> list[dict[str, Any]]:
    """What `smlab.models.advisor.track_record` ships: by optimizer, and all. Each one's interval comes from
    changes of other kinds. One more record is of the numbers told for kernels that others wrote, with the
    factors that nine of ten simulated numbers lay between (``ends``)."""
    told, sure = [], [r for r in rows if not r.doubt]
    for name in (*sorted({r.optimizer for r in sure}), ALL):
        mine = [r for r in sure if name in (ALL, r.optimizer)]
        low, high = spread(r for r in sure if r.optimizer != name)
        mape = float(100 * np.mean([abs(r.estimated / r.true - 1) for r in mine]))
        told.append({"optimizer": name, "n": len(mine), "mape": mape, "low": low, "high": high})
    sure = [r for r in by_others if not r.doubt]
    if sure:
        of = numbers(sure)
        errors_of = {"mape": of["mape"], "low": ends[0], "high": ends[1]}
        errors_of |= {"constant_mape": of["constant"]["mape"]}
        told.append({"optimizer": BY_OTHERS, "n": len(sure), **errors_of})
    return told
