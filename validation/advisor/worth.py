"""Blame is not benefit: what each producer is truly worth, by making it free and running again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from scipy import stats

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.advisor.blame import blame
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.estimators import latency_hiding
from smlab.models.advisor.latencies import described_latencies
from smlab.models.advisor.matching import Context
from smlab.models.advisor.worth import worth_of
from smlab.sim import Record
from smlab.sim.policies import POLICIES
from smlab.validation.advisor.kernels import StudyKernel
from smlab.validation.advisor.simulate import execute

OTHER_POLICY: Final = "truth under another policy"
"""What the true gains of another run would get: the same kernel, under another policy."""
POLICY_MEAN: Final = "mean of the policies"
"""Our estimate against the mean of the true gains over all policies."""
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
    true = gains(kernel, gpu, chosen)
    others = [gains(kernel, gpu, chosen, p) for p in POLICIES if p != run.lowered.machine.policy]
    ours = [worth_of(context, n) - 1 for n in chosen]
    matched = [min(latency.get(n, 0.0), float(samples.latency)) for n in chosen]
    paper = [latency_hiding(context.total, float(samples.active), m) - 1 for m in matched]
    return {
        "kernel": kernel.name,
        "producers": len(chosen),
        "worth_more_than_1_percent": sum(gain > WORTH for gain in true),
        "true": true,
        "estimated": ours,
        "spearman": spearman(ours, true),
        "spearman_published": spearman(paper, true),
        "spearman_blame": spearman([blamed[n] for n in chosen], true),
        OTHER_POLICY: _mean(spearman(other, true) for other in others),
        POLICY_MEAN: spearman(ours, np.mean([true, *others], axis=0).tolist()),
    }


def gains(kernel: StudyKernel, gpu: Gpu, chosen: Sequence[int], policy: str | None = None) -> list[float]:
    """What the launch gains when each of some instructions is made free, under a policy."""

    def cycles(free: int | None = None) -> int:
        launch = kernel.launch(gpu.sm_architecture)
        return execute(launch, gpu, policy=policy, free=free, keep=Record.TOTALS).cycles

    before = cycles()
    return [before / cycles(n) - 1 for n in chosen]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def spearman(first: list[float], second: list[float]) -> float | None:
    """Rank correlation; None where either does not vary."""
    if len(first) < 3 or len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return float(stats.spearmanr(first, second).statistic)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the kernels with at least five producers worth more than 1 %."""
    fitting = [r for r in rows if r["worth_more_than_1_percent"] >= LEAST_PRODUCERS]
    told: dict[str, Any] = {"kernels": len(rows), "judged": len(fitting)}
    for key in ("spearman", "spearman_published", "spearman_blame", OTHER_POLICY, POLICY_MEAN):
        values = [r[key] for r in fitting if r[key] is not None]
        told[key] = float(np.median(values)) if values else None
    return told
