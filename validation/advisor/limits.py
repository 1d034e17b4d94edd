"""Whether samples could tell more: where blame falls short, is it for want of samples or of an estimator?

Two runs with the same samples get the same blame. If their truths overlap by v, then the agreements with the
two add up to 1 + v at most (total variation is a distance), so on the worse of the two nobody who reads
samples gets more than (1 + v) / 2. Two policies of the scheduler are such runs as far as their samples differ
no more than those of two sets of latencies under one policy do. Where samples do tell the policies apart, the
bound holds for those alone who do not look, and there is a better answer to be had: `nearest` divides stalls
as they truly were in that other run of the kernel, under any policy and with other latencies, whose samples
are the most alike. It is no estimator, since it has seen the truth of other runs, but it reads samples only
to choose.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.advisor.blame import blame
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.latencies import described_latencies
from smlab.models.advisor.scoreboards import Reading
from smlab.sim.policies import POLICIES
from smlab.validation.advisor.blaming import SEEDS, BlameRow, agreement, as_shared, matrix, worst_runs
from smlab.validation.advisor.kernels import StudyKernel
from smlab.validation.advisor.simulate import execute

Floats = NDArray[np.float64]
ASKED: Final = 0.85
"""Of the worst run, by either truth."""
MORE_SEEDS: Final = (*SEEDS, 4, 5, 6)
"""Sets of latencies among which the nearest run is looked for."""
TRUTHS: Final[tuple[Reading, ...]] = ("last", "shared")


def total_variation(first: Floats, second: Floats) -> float:
    """Between two tables of counts, each as shares of its sum: 0 alike, 1 nothing in common."""
    return float(0.5 * np.abs(first / first.sum() - second / second.sum()).sum())


def bound(overlap: float) -> float:
    """The most that one answer can agree with the worse of two truths that overlap so far."""
    return (1 + overlap) / 2


@dataclass(frozen=True)
class SeenRun:
    """One run: its samples and truth, how far our blame agrees; a profile has ``drawn`` samples."""

    policy: str
    seed: int
    samples: Floats
    drawn: int
    truth: dict[Reading, Floats]
    ours: dict[Reading, float]


def judge_one(kernel: StudyKernel, gpu: Gpu) -> dict[str, Any]:
    """A kernel's worst pair of policies by each truth."""
    runs = [_run(kernel, gpu, *which) for which in itertools.product(POLICIES, MORE_SEEDS)]
    return {"kernel": kernel.name} | {truth: _limit(runs, truth) for truth in TRUTHS}


def _run(kernel: StudyKernel, gpu: Gpu, policy: str, seed: int) -> SeenRun:
    run = execute(kernel.launch(gpu.sm_architecture), gpu, policy=policy, jitter_seed=seed)
    code, latencies = AdvisedCode(run.launch.image.function), described_latencies(gpu)
    samples = run.every_warp_cycle()
    truth: dict[Reading, Floats] = {"last": run.truth.last, "shared": run.truth.shared}
    ours = {
        reading: agreement(matrix(blame(code, samples, "smlab", latencies, reading), len(code)), true)
        for reading, true in truth.items()
    }
    stalls = run.result.instruction_stalls
    assert stalls is not None
    return SeenRun(policy, seed, stalls.astype(float), int(run.table().stalled.sum()), truth, ours)


def _limit(runs: Sequence[SeenRun], reading: Reading) -> dict[str, Any]:
    """``ours`` on the worst run; the ``bound`` of the two policies (at the same latencies) whose truths
    overlap least; how far ``apart`` their samples are, and those of two ``seeds`` of one of the two at most,
    and of two profiles ``drawn`` from one run; of the runs under the two the share whose nearest is under the
    same; and what the ``nearest`` run's division gets at worst."""
    at = {(r.policy, r.seed): r for r in runs}
    pairs = [
        (1 - total_variation(at[p, s].truth[reading], at[q, s].truth[reading]), p, q, s)
        for (p, q), s in itertools.product(itertools.combinations(POLICIES, 2), SEEDS)
    ]
    overlap, first, second, seed = min(pairs)
    two = [r for r in runs if r.policy in (first, second)]
    return {
        "ours": min(r.ours[reading] for r in runs if r.seed in SEEDS),
        "policies": [first, second],
        "overlap": overlap,
        "bound": bound(overlap),
        "apart": total_variation(at[first, seed].samples, at[second, seed].samples),
        "seeds": max(
            total_variation(a.samples, b.samples)
            for a, b in itertools.combinations(two, 2)
            if a.policy == b.policy
        ),
        "drawn": _drawn_apart(at[first, seed]),
        "told": float(np.mean([nearest(r, two).policy == r.policy for r in two])),
        "nearest": min(_divided_as(nearest(r, runs), r, reading) for r in runs),
    }


def nearest(run: SeenRun, others: Iterable[SeenRun]) -> SeenRun:
    """The run with other latencies whose samples are the most alike."""
    return min(
        (r for r in others if r.seed != run.seed), key=lambda r: total_variation(r.samples, run.samples)
    )


def _divided_as(other: SeenRun, run: SeenRun, reading: Reading) -> float:
    truth = run.truth[reading]
    return agreement(as_shared(other.truth[reading], truth), truth)


def _drawn_apart(run: SeenRun) -> float:
    """Between two profiles of a run, of as many samples as it has."""
    random = np.random.default_rng(run.seed)
    shares = run.samples.ravel() / run.samples.sum()
    return total_variation(*(random.multinomial(run.drawn, shares).astype(float) for _ in range(2)))


def short_of(rows: Iterable[BlameRow]) -> set[str]:
    """Kernels whose worst run falls short by either truth."""
    return {kernel for kernel, least in worst_runs(list(rows)).items() if min(least.values()) < ASKED}


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Over the kernels and truths that fall short."""
    short = [r[truth] for r in rows for truth in TRUTHS if r[truth]["ours"] < ASKED]
    return {
        "short": len(short),
        "below_by_bound": sum(s["bound"] < ASKED for s in short),
        "policies_as_near_as_seeds": sum(s["apart"] <= s["seeds"] for s in short),
        "told": float(np.mean([s["told"] for s in short])) if short else None,
        "below_by_nearest": sum(s["nearest"] < ASKED for s in short),
    }
