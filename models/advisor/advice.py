"""Advice: every optimizer that matches, with its estimates, the most promising first."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.models.advisor.changes.additional_optimizers import ADDITIONAL_OPTIMIZERS
from smlab.models.advisor.changes.apply_rewrites import rewritten
from smlab.models.advisor.changes.gpa_optimizers import GPA_OPTIMIZERS
from smlab.models.advisor.changes.matching import LEAST_SHARE, Context, Match, Optimizer
from smlab.models.advisor.changes.matrix_kernels import MATRIX_OPTIMIZERS
from smlab.models.advisor.changes.rewrites import Rewrite
from smlab.models.advisor.estimates import gpa_equations
from smlab.models.advisor.estimates.bounds import most_gained, why_no_number
from smlab.models.advisor.estimates.sm_model import model_of

OPTIMIZERS: Final = (*GPA_OPTIMIZERS, *ADDITIONAL_OPTIMIZERS, *MATRIX_OPTIMIZERS)


@dataclass(frozen=True)
class Advice:
    """One optimizer's answer: ``speedup`` is our estimate, at most ``bound``, ``paper`` that of Equations 2
    to 10 as they are. Where ``doubt`` says why, the estimate is no number to tell, and only the bound is.
    ``rewrite`` is the change that was replayed, ``also`` names the optimizers that advise the same."""

    optimizer: Optimizer
    match: Match
    speedup: float
    paper: float
    bound: float
    doubt: str = ""
    rewrite: Rewrite | None = None
    also: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All optimizers whose advice this is."""
        return (self.optimizer.name, *self.also)


def advise(context: Context) -> tuple[Advice, ...]:
    """All matching advice, by expected speedup; the same change once, by the first of its optimizers."""
    advices: list[Advice] = []
    for optimizer in OPTIMIZERS:
        advice = estimate(context, optimizer)
        if advice is None:
            continue
        same = next((n for n, a in enumerate(advices) if a.rewrite and a.rewrite == advice.rewrite), None)
        if same is None or advice.rewrite == Rewrite():
            advices.append(advice)
        else:
            advices[same] = dataclasses.replace(advices[same], also=(*advices[same].also, optimizer.name))
    return tuple(sorted(advices, key=lambda a: -a.speedup))


def estimate(context: Context, optimizer: Optimizer, factor: float | None = None) -> Advice | None:
    """What one optimizer would bring; None where it does not match (or less than `LEAST_SHARE`)."""
    match = optimizer.match(context, optimizer.factor if factor is None else factor)
    if match is None or match.matched < LEAST_SHARE * context.total:
        return None
    speedup, rewrite = expected(context, match)
    bound = most_gained(context, match)
    model = model_of(context)
    doubt = why_no_number(context, match, model)
    paper = published(context, optimizer, match)
    return Advice(optimizer, match, min(speedup, bound), paper, bound, doubt, rewrite)


def expected(context: Context, match: Match) -> tuple[float, Rewrite | None]:
    """Our estimate, and the change that was replayed for it: the kernel replayed before and after. Where it
    cannot be replayed, what it gains at most. Less than 1 where what the change adds costs more than it
    saves."""
    model = model_of(context) if match.rewrites else None
    if model is None:
        return most_gained(context, match), None
    after, best = min(((rewritten(model, change), change) for change in match.rewrites), key=lambda x: x[0])
    speedup = min(model.before.cycles / max(after, 1), gpa_equations.MAX_SPEEDUP)
    return (speedup if any(change.adds for change in match.rewrites) else max(speedup, 1.0)), best


def published(context: Context, optimizer: Optimizer, match: Match) -> float:
    """Equations 2 to 10 as the paper has them, for a match."""
    total, active = context.total, float(context.samples.active)
    if match.paper is not None:
        return match.paper
    if optimizer.category == "stall elimination":
        return gpa_equations.stall_elimination(total, min(match.matched, total))
    latency = min(match.latency, total)
    if match.scopes:
        return gpa_equations.latency_hiding_in_scopes(
            total, [_inside(scope, total) for scope in match.scopes]
        )
    return gpa_equations.latency_hiding(total, active, latency)


def _inside(scope: tuple[float, float], total: float) -> tuple[float, float]:
    return min(scope[0], total), min(scope[1], total)


def optimizer_of(name: str) -> Optimizer:
    for optimizer in OPTIMIZERS:
        if optimizer.name == name:
            return optimizer
    raise SmlabError.at("optimizer", "unknown", name, "one of " + ", ".join(o.name for o in OPTIMIZERS))
