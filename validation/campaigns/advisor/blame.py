"""The blame of every mode against exact truth: last finisher and shared, over policies and jittered
latencies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.pc_samples.samples import KernelSamples
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.stall_causes.blame import Blamed, Mode, blame
from smlab.models.advisor.stall_causes.latencies import described_latencies
from smlab.models.advisor.stall_causes.scoreboards import Reading
from smlab.validation.campaigns.advisor.kernels import StudyKernel
from smlab.validation.campaigns.advisor.simulate import POLICIES, JudgedRun, execute

SEEDS: Final = (1, 2, 3)
SIZES: Final = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
READINGS: Final[tuple[tuple[Mode, Reading], ...]] = (
    ("as-published", "last"),
    ("as-coded", "last"),
    ("smlab", "last"),
    ("smlab", "shared"),
)
OTHER_LATENCIES: Final = "truth under other latencies"
OTHER_POLICY: Final = "truth under another policy"
"""What a reading would get that divides each instruction's stalls as they were truly divided in another run
of the same kernel: with the next seed of latencies, or under the next policy."""
SCOREBOARDS: Final = ("long_scoreboard", "short_scoreboard")


@dataclass(frozen=True)
class BlameRow:
    """One run of a kernel: the shares of scoreboard-stall cycles that each mode blames as the truth does."""

    kernel: str
    policy: str
    seed: int
    cycles: int
    stall_cycles: int
    unexplained: int
    conserved: bool
    last: dict[str, float]
    shared: dict[str, float]


def matrix(blamed: Blamed, size: int) -> NDArray[np.float64]:
    """Scoreboard stalls by (stalled, cause)."""
    found = np.zeros((size, size))
    for b in blamed.blame:
        if b.reason in SCOREBOARDS:
            found[b.stalled, b.cause] += b.samples
    return found


def agreement(blamed: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """The share of the truth's cycles that are blamed on the same producer."""
    total = truth.sum()
    return float(np.minimum(blamed, truth).sum() / total) if total else 1.0


def judged(run: JudgedRun, gpu: Gpu, kernel: str, policy: str, seed: int) -> BlameRow:
    """All modes on one run, from all of its warp-cycles (no sampling noise)."""
    samples, truth = run.every_warp_cycle(), run.truth
    code, latencies = AdvisedCode(run.launch.image.function), described_latencies(gpu)
    last, shared, conserved = {}, {}, True
    for mode, reading in READINGS:
        result = blame(code, samples, mode, latencies, reading)
        conserved &= sum(b.samples for b in result.blame) + result.unattributed_samples == samples.samples
        found = matrix(result, len(code))
        name = mode if reading == "last" else f"{mode} ({reading})"
        last[name], shared[name] = agreement(found, truth.last), agreement(found, truth.shared)
    return BlameRow(
        kernel, policy, seed, run.cycles, truth.cycles, truth.unexplained, conserved, last, shared
    )


def judge_one(kernel: StudyKernel, gpu: Gpu) -> list[BlameRow]:
    """A kernel under every policy with every seed of latencies."""
    rows: list[BlameRow] = []
    truths: dict[tuple[int, int], NDArray[np.float64]] = {}
    for p, policy in enumerate(POLICIES):
        for s, seed in enumerate(SEEDS):
            run = execute(kernel.launch(gpu.sm_architecture), gpu, policy=policy, jitter_seed=seed)
            rows.append(judged(run, gpu, kernel.name, policy, seed))
            truths[p, s] = run.truth.shared
    for (p, s), row in zip(truths, rows, strict=True):
        here = truths[p, s]
        for name, other in (
            (OTHER_LATENCIES, (p, (s + 1) % len(SEEDS))),
            (OTHER_POLICY, ((p + 1) % len(POLICIES), s)),
        ):
            row.shared[name] = agreement(as_shared(truths[other], here), here)
    return rows


def as_shared(there: NDArray[np.float64], here: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each consumer's stalls ``here`` divided as its stalls ``there`` were."""
    totals = there.sum(axis=1, keepdims=True)
    shares: NDArray[np.float64] = np.divide(there, totals, out=np.zeros_like(there), where=totals > 0)
    return np.asarray(shares * here.sum(axis=1, keepdims=True))


def summary(rows: list[BlameRow]) -> dict[str, Any]:
    """Means and minima over all runs; errors beside that of ``as-published``."""
    told: dict[str, Any] = {
        "kernels": len({r.kernel for r in rows}),
        "runs": len(rows),
        "unexplained_cycles": sum(r.unexplained for r in rows),
        "conserved": all(r.conserved for r in rows),
    }
    for truth in ("last", "shared"):
        names = list(getattr(rows[0], truth))
        told[truth] = {
            name: {
                "mean": float(np.mean([getattr(r, truth)[name] for r in rows])),
                "min": min(getattr(r, truth)[name] for r in rows),
                "worst": min(rows, key=lambda r: getattr(r, truth)[name]).kernel,
            }
            for name in names
        }
    return told


def worst_runs(rows: list[BlameRow]) -> dict[str, dict[str, float]]:
    """By kernel the least agreement of ``smlab`` over all runs, each reading by its own truth."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        own = {"last": row.last["smlab"], "shared": row.shared["smlab (shared)"]}
        known = found.get(row.kernel, own)
        found[row.kernel] = {truth: min(own[truth], known[truth]) for truth in own}
    return found


def by_samples_one(kernel: StudyKernel, gpu: Gpu, seed: int = 1) -> dict[int, float]:
    """A kernel's agreement with the last finisher by the number of samples: all warp-cycles drawn from as a
    profiler would, each sample one cycle of one warp. Sizes without a scoreboard stall among them are left
    out."""
    random = np.random.default_rng([seed, *kernel.name.encode()])
    run = execute(kernel.launch(gpu.sm_architecture), gpu)
    code, latencies = AdvisedCode(run.launch.image.function), described_latencies(gpu)
    truth, full = run.truth.last / run.truth.last.sum(), run.every_warp_cycle()
    found = {}
    for size in SIZES:
        blamed = matrix(blame(code, thinned(full, size, random), "smlab", latencies), len(code))
        if blamed.sum():
            found[size] = agreement(blamed / blamed.sum(), truth)
    return found


def by_samples(found: Iterable[Mapping[int, float]]) -> list[dict[str, Any]]:
    """Mean and worst kernel by the number of samples."""
    kernels = list(found)
    values = {size: [f[size] for f in kernels if size in f] for size in SIZES}
    return [{"samples": n, "mean": float(np.mean(v)), "min": float(min(v))} for n, v in values.items()]


def thinned(samples: KernelSamples, size: int, random: np.random.Generator) -> KernelSamples:
    """``size`` samples drawn from all of a kernel's."""
    import dataclasses

    keys = [(n, reason) for n, row in enumerate(samples.rows) for reason in row.stalled]
    weights = np.array([samples.rows[n].stalled[reason] for n, reason in keys], dtype=np.float64)
    drawn = random.multinomial(size, weights / weights.sum())
    stalled: list[dict[str, int]] = [{} for _ in samples.rows]
    for (n, reason), count in zip(keys, drawn, strict=True):
        if count:
            stalled[n][reason] = int(count)
    rows = tuple(
        dataclasses.replace(
            row,
            stalled=stalled[n],
            not_issued={r: c for r, c in stalled[n].items() if r in row.not_issued},
        )
        for n, row in enumerate(samples.rows)
    )
    return dataclasses.replace(samples, rows=rows)
