"""Blame is not benefit: what each producer is truly worth, by making it free and running again."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from scipy import stats

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.advisor.blame import blame
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.estimators import latency_hiding
from smlab.models.advisor.latencies import described_latencies
from smlab.models.advisor.matching import Context
from smlab.models.advisor.rewrite import Edit, Rewrite
from smlab.models.advisor.rewriting import rewritten
from smlab.models.advisor.sm_model import model_of
from smlab.sim import Record
from smlab.validation.advisor.kernels import StudyKernel
from smlab.validation.advisor.simulate import execute

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
    true, ours, paper = [], [], []
    for n in chosen:
        without = execute(kernel.launch(gpu.sm_architecture), gpu, free=n, keep=Record.TOTALS)
        true.append(run.cycles / without.cycles - 1)
        ours.append(worth_of(context, n) - 1)
        matched = min(latency.get(n, 0.0), float(samples.latency))
        paper.append(latency_hiding(context.total, float(samples.active), matched) - 1)
    return {
        "kernel": kernel.name,
        "producers": len(chosen),
        "worth_more_than_1_percent": sum(gain > WORTH for gain in true),
        "true": true,
        "spearman": spearman(ours, true),
        "spearman_published": spearman(paper, true),
        "spearman_blame": spearman([blamed[n] for n in chosen], true),
    }


def worth_of(context: Context, number: int) -> float:
    """The speedup expected when one instruction takes no time and no resource: the kernel replayed without
    what it takes."""
    model = model_of(context)
    if model is None:
        return 1.0
    free = Rewrite(edits={number: Edit(free=True)})
    return model.before.cycles / max(rewritten(model, free), 1)


def spearman(first: list[float], second: list[float]) -> float | None:
    """Rank correlation; None where either does not vary."""
    if len(first) < 3 or len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return float(stats.spearmanr(first, second).statistic)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the kernels with at least five producers worth more than 1 %."""
    fitting = [r for r in rows if r["worth_more_than_1_percent"] >= LEAST_PRODUCERS]
    told: dict[str, Any] = {"kernels": len(rows), "judged": len(fitting)}
    for key in ("spearman", "spearman_published", "spearman_blame"):
        values = [r[key] for r in fitting if r[key] is not None]
        told[key] = float(np.median(values)) if values else None
    return told
