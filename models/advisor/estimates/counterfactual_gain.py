"""The counterfactual gain of a producer: the kernel replayed as if one of its instructions took no time.

One replay has one order of events of many. Which warp goes first decides a few per cent of a kernel's time,
as much as most producers gain. So latencies are perturbed, alike before and after, and the gain is the mean
over several replays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from smlab.models.advisor.changes.apply_rewrites import rewritten
from smlab.models.advisor.changes.matching import Context
from smlab.models.advisor.changes.rewrites import Edit, Rewrite
from smlab.models.advisor.estimates.service_demands import Costs
from smlab.models.advisor.estimates.sm_model import KernelModel, model_of

REPLAYS: Final = 15
"""Of each producer: the kernel as it was fitted, then perturbed. The noise that is left in a mean of so many
decides between producers of nearly equal gain."""
PERTURBATION: Final = 0.1
"""By how much latencies beyond the queues are perturbed, as a share of each."""
AS_IT_IS: Final = Rewrite()


def counterfactual_gain_of(context: Context, number: int, replays: int = REPLAYS) -> float:
    """The speedup expected when an instruction takes no time and no resource; 1 where the kernel cannot be
    replayed."""
    model = model_of(context)
    if model is None:
        return 1.0
    free = Rewrite(edits={number: Edit(free=True)})
    before = _before(context, model, replays)
    after = [rewritten(model, free, costs) for costs in _perturbed(model.costs, replays)]
    return float(np.mean([b / max(a, 1) for b, a in zip(before, after, strict=True)]))


def _before(context: Context, model: KernelModel, replays: int) -> Sequence[int]:
    """Cycles of the kernel as it is, in each of the replays."""
    key = f"perturbed {replays}"
    if key not in context.cache:
        context.cache[key] = [rewritten(model, AS_IT_IS, costs) for costs in _perturbed(model.costs, replays)]
    known = context.cache[key]
    assert isinstance(known, list)
    return known


def _perturbed(costs: Costs, replays: int) -> Sequence[Costs]:
    """The same every time: a seed for each replay, and none for the first."""
    variants = [costs]
    for seed in range(1, replays):
        factors = np.random.default_rng(seed).uniform(1 - PERTURBATION, 1 + PERTURBATION, len(costs.tail))
        copy = costs.copy()
        copy.tail, copy.near = copy.tail * factors, copy.near * factors
        variants.append(copy)
    return variants
