"""What a producer is worth: the kernel replayed as if one of its instructions took no time and no resource.

A replay has one order of events of many. Which warp comes first decides a few per cent of a kernel's time
either way, as much as most producers are worth; so latencies are *shaken*, alike before and after, and the
mean over several replays is what a producer is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from smlab.models.advisor.costs import Costs
from smlab.models.advisor.matching import Context
from smlab.models.advisor.rewrite import Edit, Rewrite
from smlab.models.advisor.rewriting import rewritten
from smlab.models.advisor.sm_model import KernelModel, model_of

REPLAYS: Final = 15
"""Of each producer: the kernel as it was fitted, then shaken. What the mean of so many has left of chance
decides between producers that are worth nearly the same."""
SHAKEN: Final = 0.1
"""By how much latencies beyond the queues are shaken, as a share of each."""
AS_IT_IS: Final = Rewrite()


def worth_of(context: Context, number: int, replays: int = REPLAYS) -> float:
    """The speedup expected when an instruction takes no time and no resource; 1 where the kernel cannot be
    replayed."""
    model = model_of(context)
    if model is None:
        return 1.0
    free = Rewrite(edits={number: Edit(free=True)})
    before = _before(context, model, replays)
    after = [rewritten(model, free, costs) for costs in _shaken(model.costs, replays)]
    return float(np.mean([b / max(a, 1) for b, a in zip(before, after, strict=True)]))


def _before(context: Context, model: KernelModel, replays: int) -> Sequence[int]:
    """Cycles of the kernel as it is, in each of the replays."""
    key = f"shaken {replays}"
    if key not in context.cache:
        context.cache[key] = [rewritten(model, AS_IT_IS, costs) for costs in _shaken(model.costs, replays)]
    known = context.cache[key]
    assert isinstance(known, list)
    return known


def _shaken(costs: Costs, replays: int) -> Sequence[Costs]:
    """The same every time: a seed for each replay, and none for the first."""
    found = [costs]
    for seed in range(1, replays):
        factors = np.random.default_rng(seed).uniform(1 - SHAKEN, 1 + SHAKEN, len(costs.tail))
        copy = costs.copy()
        copy.tail, copy.near = copy.tail * factors, copy.near * factors
        found.append(copy)
    return found
