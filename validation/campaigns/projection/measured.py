"""Making the records anew from the data of others."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from smlab.hw_bench.datasets import read_dataset, read_tuning
from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu
from smlab.models.operators import OperatorSwitches
from smlab.models.projection.projection import Projection, ProjectionSwitches, project
from smlab.validation.campaigns.projection.coverage import operator_cases, operator_coverage, tuning_coverage
from smlab.validation.campaigns.projection.judge import OURS_SWITCHES
from smlab.validation.campaigns.projection.kernels import REGIMES
from smlab.validation.campaigns.projection.records import EACH, MeasuredRecords, MechanismGain, PairRecord
from smlab.validation.campaigns.projection.repeats import projected_streams, repeated_streams
from smlab.validation.campaigns.projection.simulate import Simulated, simulate_kernels, simulate_reuse
from smlab.validation.method.baseline import Baseline, compare_with_baseline, relative_errors
from smlab.validation.method.interval_errors import best_constant
from smlab.validation.projection.gpu_parts import part_of
from smlab.validation.projection.operators import MIN_S, baseline_times, judge_projection, variants
from smlab.validation.projection.tuning import MECHANISMS, TuningJudgement, judge_tuning, switched

Floats = NDArray[np.float64]
Told = Callable[[str], None]

TUNING: Final = (
    ("tuned convolution, with counters", "ktt", "tuning/ktt-convolution", "rtx-2080-ti", "rtx-3090"),
    ("tuned convolution, times only", "kernel-tuner", "tuning/kernel-tuner", "a100-40", "rtx-a4000"),
    ("tuned convolution, times only", "kernel-tuner", "tuning/kernel-tuner", "rtx-a4000", "a100-40"),
    ("tuned convolution, times only", "ktt", "tuning/ktt-convolution", "rtx-3090", "rtx-2080-ti"),
)
SIMULATED, REUSED, GPUS = 100, 40, ("v100", "a100-40")
SEED: Final = 0


def judge_measured(folder: Path, told: Told = print) -> MeasuredRecords:
    """All records from the data in ``folder``: ``neusight``, ``tuning/ktt-convolution`` and
    ``tuning/kernel-tuner``. `SmlabError` where one of them is not there."""
    pairs: list[PairRecord] = []
    mechanism_gain: list[MechanismGain] = []
    for kind, format_, place, here, there in TUNING:
        told(f"{kind}, {here} to {there}")
        sets = read_tuning(f"{format_}:{folder / place}")
        judged = judge_tuning(sets, load_gpu(here), load_gpu(there))
        pairs.append(_tuned(kind, judged))
        if isinstance(judged.projection, Projection):
            assert judged.every is not None
            for name, errors in judged.without:
                if name.startswith("without "):
                    cases = f"KTT, {here} to {there}"
                    with_it, without = judged.every.projected.mape, errors.projected.mape
                    mechanism_gain.append(_mechanism_gain(name, cases, errors.projected.n, with_it, without))
    told("operators")
    operators, of_operators = _operators(folder / "neusight")
    told("simulated kernels")
    return MeasuredRecords(
        about="NeuSight's operators, KTT's and Kernel Tuner's searches of a convolution",
        made_on=datetime.datetime.now(datetime.UTC).date().isoformat(),
        pairs=(*pairs, *operators),
        mechanism_gain=(*mechanism_gain, *of_operators, *simulated_ablation(), repeated_ablation()),
    )


def _mechanism_gain(name: str, cases: str, n: int, with_it: float, without: float) -> MechanismGain:
    return MechanismGain(name.removeprefix("without "), cases, n, round(with_it, 2), round(without, 2))


def _tuned(kind: str, judged: TuningJudgement) -> PairRecord:
    assert judged.actual_s is not None
    assert judged.every is not None
    p, known = judged.projection, ~np.isnan(judged.actual_s)
    before, mid, truth = p.source_s[known], p.mid_s[known], judged.actual_s[known]
    held, said = judged.every.coverage, "fitted on both searches, in view"
    if isinstance(p, Projection):
        held, said = 100 * tuning_coverage(judged).pooled, "without the tile shape"
    groups = [f for f, k in zip(judged.family, known, strict=True) if k]
    interval = held, judged.every.median_width
    times = _Times(before, mid, truth, groups)
    return _record(kind, judged.source, judged.target, times, interval, said)


@dataclass(frozen=True, eq=False)
class _Times:
    """Seconds on one card, as projected to the other, and as measured there; the rows' families, if any."""

    before: Floats
    mid: Floats
    truth: Floats
    families: list[str]


def _record(
    kind: str, source: Gpu, target: Gpu, times: _Times, interval: tuple[float, float], said: str
) -> PairRecord:
    before, mid, truth = times.before, times.mid, times.truth
    guesses = baseline_times("", before, truth, source, target)
    baselines = [
        Baseline(name, relative_errors(guesses[name], truth)) for name in ("FP32 ratio", "bandwidth ratio")
    ]
    constant = before * best_constant(before, truth)
    flat = np.ptp(mid / before) <= 1e-9 * float((mid / before).max())
    rank = None if flat else round(float(spearmanr(mid / before, truth / before).statistic), 3)
    return PairRecord(
        kind=kind,
        source=source.name,
        target=target.name,
        comparison=compare_with_baseline(
            relative_errors(mid, truth), baselines, groups=times.families or None, seed=SEED
        ),
        constant=round(float(relative_errors(constant, truth).mean()), 2),
        held=round(interval[0], 1),
        width=round(interval[1], 1),
        rank=rank,
        left_out=said,
    )


@dataclass(frozen=True, eq=False)
class _OnePair:
    """An operator's errors from one card to another, to be pooled."""

    kind: str
    pair: str
    errors: Floats
    baselines: dict[str, Floats]
    constant: float
    held: float
    width: float


def _pooled(parts: list[_OnePair]) -> PairRecord:
    """All pairs of cards together; each pair has one say in the interval."""
    n = np.array([len(p.errors) for p in parts])
    baselines = [
        Baseline(name, np.concatenate([p.baselines[name] for p in parts])) for name in parts[0].baselines
    ]
    groups = [p.pair for p in parts for _ in p.errors]

    def mean(values: list[float]) -> float:
        return round(float(np.average(values, weights=n)), 1)

    return PairRecord(
        kind=parts[0].kind,
        source=EACH,
        target=EACH,
        comparison=compare_with_baseline(
            np.concatenate([p.errors for p in parts]), baselines, groups=groups, seed=SEED
        ),
        constant=mean([p.constant for p in parts]),
        held=mean([p.held for p in parts]),
        width=mean([p.width for p in parts]),
        rank=None,
        left_out="without the target",
    )


def _operators(folder: Path) -> tuple[list[PairRecord], list[MechanismGain]]:
    times = read_dataset(f"neusight:{folder}")
    inside = {
        (c.operator, c.source, c.target): 100 * c.coverage for c in operator_coverage(operator_cases(times))
    }
    records: list[PairRecord] = []
    kept: list[_OnePair] = []
    errors: dict[str, list[Floats]] = {}
    for a, b in itertools.permutations(sorted(set(times.gpu) & set(list_gpus())), 2):
        source, target = load_gpu(a), load_gpu(b)
        judged = judge_projection(times, source, target, parts=False)
        assert judged.actual_s is not None
        rows, truth = judged.source_rows, judged.actual_s
        long = (rows.seconds > MIN_S) & (truth > MIN_S)
        errors.setdefault("ours", []).append(relative_errors(judged.projection.mid_s, truth)[long])
        for name, on in variants_of():
            other = judge_projection(times, source, target, on, parts=False)
            errors.setdefault(name, []).append(relative_errors(other.projection.mid_s, truth)[long])
        for operator in sorted(set(rows.operator[long])):
            of = long & (rows.operator == operator)
            held = inside[str(operator), a, b]
            high, middle = judged.projection.high_s[of], judged.projection.mid_s[of]
            width = 100 * float(np.median(high / middle) - 1)
            before, mid = rows.seconds[of], judged.projection.mid_s[of]
            kind, said = f"operator: {operator}", "without the target"
            interval = held, width
            records.append(_record(kind, source, target, _Times(before, mid, truth[of], []), interval, said))
            guesses = baseline_times(str(operator), before, truth[of], source, target)
            names = ("FP32 ratio", "bandwidth ratio")
            kept.append(
                _OnePair(
                    kind,
                    f"{a} to {b}",
                    relative_errors(mid, truth[of]),
                    {name: relative_errors(guesses[name], truth[of]) for name in names},
                    float(relative_errors(before * best_constant(before, truth[of]), truth[of]).mean()),
                    held,
                    width,
                )
            )
    everywhere = [_pooled([r for r in kept if r.kind == kind]) for kind in sorted({r.kind for r in kept})]
    records += everywhere
    pooled = {name: np.concatenate(parts) for name, parts in errors.items()}
    ours = float(pooled["ours"].mean())
    mechanism_gain = [
        _mechanism_gain(f"{name} (operators)", "NeuSight, all pairs", len(e), ours, float(e.mean()))
        for name, e in pooled.items()
        if name.startswith("without ")
    ]
    return records, mechanism_gain


def variants_of() -> list[tuple[str, OperatorSwitches]]:
    """The operators' method with each mechanism off."""
    return [(name, on) for name, on in variants(OperatorSwitches()) if name.startswith("without ")]


def simulated_ablation(kernels: int = SIMULATED) -> list[MechanismGain]:
    """What each mechanism buys on simulated kernels, both directions together; their working sets are told,
    as by ``--working-set``."""
    gpus = [part_of(load_gpu(name)) for name in GPUS]
    regimes = list(REGIMES)
    numbered = [(regimes[i % len(regimes)], i // len(regimes)) for i in range(kernels)]
    cases = f"simulated, {' and '.join(GPUS)}, each to the other, working sets told"
    drawn = simulate_kernels(gpus, numbered, SEED, "compiled")
    reuse = simulate_reuse(gpus, REUSED, SEED, "compiled")
    return [
        *_ablated(drawn, gpus, cases, (*MECHANISMS, "latency")),
        *_ablated(reuse, gpus, f"{cases}, one buffer again and again", ("cache",)),
    ]


def _ablated(
    seen: Simulated, gpus: Sequence[Gpu], cases: str, mechanisms: Sequence[str]
) -> Iterator[MechanismGain]:
    """What each of ``mechanisms`` buys on kernels that two GPUs were simulated with."""
    touched = np.where(seen.working_set_bytes > 0, seen.working_set_bytes, np.nan)

    def mape(on: ProjectionSwitches) -> float:
        both = []
        for a, b in ((0, 1), (1, 0)):
            work = seen.work[a].with_values(working_set_bytes=touched)
            found = project(work, gpus[a], gpus[b], on)
            both.append(relative_errors(found.mid_s, seen.work[b].seconds[found.index]))
        return round(float(np.concatenate(both).mean()), 2)

    ours = mape(OURS_SWITCHES)
    for name in mechanisms:
        yield _mechanism_gain(name, cases, 2 * len(touched), ours, mape(switched(OURS_SWITCHES, name)))


def repeated_ablation() -> MechanismGain:
    """What it buys that L2 keeps something of one run for the next, on simulated streams that are run again
    and again, both directions together."""
    gpus = [part_of(load_gpu(name)) for name in GPUS]
    streams = repeated_streams(gpus)

    def mape(on: OperatorSwitches) -> float:
        both = [
            relative_errors(projected_streams(streams, a, gpus, on), streams.seconds[1 - a]) for a in (0, 1)
        ]
        return float(np.concatenate(both).mean())

    without = mape(replace(OperatorSwitches(), repeats=False))
    cases = f"simulated, {' and '.join(GPUS)}, streams run again and again"
    n = streams.seconds.size
    return _mechanism_gain("repeats (operators)", cases, n, mape(OperatorSwitches()), without)
