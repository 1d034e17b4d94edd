"""Blame is not benefit: what each producer truly costs, by making it free and running again.

One such run tells a gain of a per cent or two only by chance: what is freed changes which warp comes first.
So the truth is a mean of gains, before and after each time with the same latencies and policy: over all
policies and several sets of latencies (an advisor knows neither; NVIDIA has not published its scheduler), as
blame is judged, and over more sets of latencies under one policy. Beside each stands its ceiling, what an
independent mean of the same size agrees with it, and one run as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.advisor.changes.apply_rewrites import rewritten
from smlab.models.advisor.changes.matching import Context
from smlab.models.advisor.changes.rewrites import Edit, Rewrite
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.estimates.gpa_equations import latency_hiding
from smlab.models.advisor.estimates.service_demands import Costs
from smlab.models.advisor.estimates.sm_model import KernelModel, model_of
from smlab.models.advisor.stall_causes.blame import blame
from smlab.models.advisor.stall_causes.latencies import described_latencies
from smlab.sim import Record
from smlab.validation.campaigns.advisor.kernels import StudyKernel
from smlab.validation.campaigns.advisor.simulate import POLICIES, execute

OTHER_POLICY: Final = "truth under another policy"
"""What the true gains of one other run would get: the same kernel, under another policy."""
ONE_RUN: Final = "one run"
ONE_POLICY: Final = "mean of latencies, one policy"
ALL_POLICIES: Final = "mean of policies and latencies"
TRUTHS: Final = (ALL_POLICIES, ONE_POLICY, ONE_RUN)
"""The first is the one that is judged by."""
RANKINGS: Final = ("spearman", "spearman_published", "spearman_blame", "ceiling")
SEEDS: Final[Mapping[str, int]] = {ALL_POLICIES: 3, ONE_POLICY: 5}
"""Sets of latencies of each mean, for each of its policies; its ceiling has as many others."""
Runs = tuple[tuple[str | None, int | None], ...]
"""Policy and seed of the latencies of each run; the description's own where None."""
REPLAYS: Final = 15
"""Of each producer: the kernel as it was fitted, then perturbed. The noise that is left in a mean of so many
decides between producers of nearly equal gain."""
PERTURBATION: Final = 0.1
"""By how much latencies beyond the queues are perturbed, as a share of each."""
AS_IT_IS: Final = Rewrite()
MOST_BLAMED: Final = 10
LEAST_PRODUCERS: Final = 5
WORTH: Final = 0.01


def judge_one(kernel: StudyKernel, gpu: Gpu) -> dict[str, Any]:
    """A kernel's most blamed producers: samples, estimated and true gain, rank correlations."""
    run = execute(kernel.launch(gpu.sm_architecture), gpu)
    samples, code = run.samples(), AdvisedCode(run.launch.image.function)
    latencies = described_latencies(gpu)
    result = blame(code, samples, "smlab", latencies)
    context = Context(code, samples, result, gpu, latencies)
    blamed = {n: s for n, s in result.by_cause().items() if code.kinds[n] not in ("barrier", "control")}
    chosen = sorted(blamed, key=lambda n: -blamed[n])[:MOST_BLAMED]
    published = blame(code, samples, "as-published").blame
    latency: dict[int, float] = {}
    for b in published:
        if b.reason != "selected":
            latency[b.cause] = latency.get(b.cause, 0.0) + b.latency
    own = run.lowered.machine.policy
    one = gains(kernel, gpu, chosen, ((None, None),))[0]
    others = gains(kernel, gpu, chosen, tuple((p, None) for p in POLICIES if p != own))
    true, again = true_gains(kernel, gpu, chosen, own)
    true[ONE_RUN] = one.tolist()
    ours = [counterfactual_gain_of(context, n) - 1 for n in chosen]
    matched = [min(latency.get(n, 0.0), float(samples.latency)) for n in chosen]
    paper = [latency_hiding(context.total, float(samples.active), m) - 1 for m in matched]
    ranked = dict(zip(RANKINGS, (ours, paper, [blamed[n] for n in chosen]), strict=False))
    return {
        "kernel": kernel.name,
        "producers": len(chosen),
        "estimated": ours,
        "true": true,
        "worth_more_than_1_percent": {name: sum(g > WORTH for g in gain) for name, gain in true.items()},
        **{
            how: {name: spearman(values, gain) for name, gain in true.items()}
            for how, values in ranked.items()
        },
        "ceiling": {name: spearman(gain, true[name]) for name, gain in again.items()},
        OTHER_POLICY: _mean(spearman(other.tolist(), true[ONE_RUN]) for other in others),
    }


Gains = dict[str, list[float]]


def true_gains(kernel: StudyKernel, gpu: Gpu, chosen: Sequence[int], policy: str) -> tuple[Gains, Gains]:
    """Mean gains of each producer by truth, and independent ones of the same size. ``policy`` is that of
    `ONE_POLICY`."""
    found: tuple[Gains, Gains] = ({}, {})
    for name, policies in ((ALL_POLICIES, tuple(POLICIES)), (ONE_POLICY, (policy,))):
        for n, mean in enumerate(found):
            seeds = range(1 + n * SEEDS[name], 1 + (n + 1) * SEEDS[name])
            runs = tuple((p, seed) for p in policies for seed in seeds)
            mean[name] = gains(kernel, gpu, chosen, runs).mean(axis=0).tolist()
    return found


def gains(kernel: StudyKernel, gpu: Gpu, chosen: Sequence[int], runs: Runs) -> NDArray[np.float64]:
    """What the launch gains when each of some instructions is made free, array of shape (runs, chosen)."""

    def cycles(policy: str | None, seed: int | None, free: int | None = None) -> int:
        launch = kernel.launch(gpu.sm_architecture)
        run = execute(launch, gpu, policy=policy, jitter_seed=seed, free=free, keep=Record.TOTALS)
        return run.cycles

    found = []
    for run in runs:
        before = cycles(*run)
        found.append([before / cycles(*run, n) - 1 for n in chosen])
    return np.array(found).reshape(len(runs), len(chosen))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def spearman(first: list[float], second: list[float]) -> float | None:
    """Rank correlation; None where either does not vary."""
    if len(first) < 3 or len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return float(stats.spearmanr(first, second).statistic)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """By each truth medians over the kernels that have at least five producers worth more than 1 % by it."""
    told: dict[str, Any] = {"kernels": len(rows)}
    for truth in TRUTHS:
        fitting = [r for r in rows if r["worth_more_than_1_percent"][truth] >= LEAST_PRODUCERS]
        by = {how: _median(r[how].get(truth) for r in fitting) for how in RANKINGS}
        interval = median_interval([v for r in fitting if (v := r["spearman"][truth]) is not None])
        told[truth] = {"judged": len(fitting), "interval": interval} | by
        if truth == ONE_RUN:
            told[truth][OTHER_POLICY] = _median(r[OTHER_POLICY] for r in fitting)
    return told


def median_interval(values: Sequence[float]) -> list[float]:
    """Of a median of independent draws, at least 90 %: between two of them in order, as far from the ends as
    the binomial of 1/2 says (no more is assumed of their distribution)."""
    ordered = sorted(values)
    from_end = max(int(stats.binom.ppf(0.05, len(ordered), 0.5)), 1) if ordered else 0
    return [ordered[from_end - 1], ordered[-from_end]] if ordered else []


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def counterfactual_gain_of(context: Context, number: int, replays: int = REPLAYS) -> float:
    """The speedup expected when an instruction takes no time and no resource; 1 where the kernel cannot be
    replayed. Which warp goes first decides a few per cent of a kernel's time, as much as most producers gain:
    so it is the mean over replays with latencies perturbed, alike before and after."""
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
