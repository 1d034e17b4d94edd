"""Pairs of searches over one space on two GPUs, to judge `smlab port tune` by: measured ones cut into parts,
and ratios drawn for measured or modelled old times.

A rule that was chosen with a few measured pairs in view says little by finding their optima. So the pairs
here are many and of several kinds; each is made from its own stream of random numbers, and those a rule was
chosen by have other seeds than those that judge it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import NDArray

from smlab.hw_bench.datasets.timed_kernels import read_timed_kernels
from smlab.hw_bench.datasets.tuning import Parameter, TuningTimes, label_of
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.gpu.devices import gpu_called
from smlab.models.portability.launch_series import INITIAL_LAUNCHES
from smlab.validation.projection.tuning.guess import guessed_times
from smlab.validation.projection.tuning.judge import family_of

Floats = NDArray[np.float64]
Config = tuple[Parameter, ...]

MEASURED: Final = (
    ("kernel-tuner/convolution_milo_A100.json.gz", "kernel-tuner/convolution_milo_A4000.json.gz"),
    (
        "ktt-convolution/KTConvolutionOutput_2080Ti.json.gz",
        "ktt-convolution/KTConvolutionOutput_3090.json.gz",
    ),
)
"""Public searches in the folder of others' data, both directions of each."""

SMALLEST: Final = 100
"""A part of a space with fewer configurations is no search."""

QUARTERS: Final = 16


@dataclass(frozen=True, eq=False)
class SearchPair:
    """One space, ``config`` (configurations,), on two GPUs: ``old_s`` and ``new_s`` are seconds, infinite
    where a configuration does not run on the new one."""

    name: str
    kind: str
    old_s: Floats
    new_s: Floats
    config: tuple[Config, ...]

    def __len__(self) -> int:
        return len(self.old_s)

    def part(self, name: str, kind: str, rows: NDArray[np.int64]) -> SearchPair:
        """Some configurations alone."""
        config = tuple(self.config[row] for row in rows.tolist())
        return SearchPair(f"{self.name}, {name}", kind, self.old_s[rows], self.new_s[rows], config)

    @property
    def usable(self) -> bool:
        return int(np.isfinite(self.new_s).sum()) >= SMALLEST


def measured_pairs(folder: Path) -> list[SearchPair]:
    """Every public pair of searches, each way, as far as its files are in ``folder``."""
    found = []
    for names in MEASURED:
        paths = [folder / "tuning" / name for name in names]
        if all(path.is_file() for path in paths):
            first, second = (read_timed_kernels(path) for path in paths)
            found += [_pair(first, second), _pair(second, first)]
    return found


def parts(pair: SearchPair, seed: int) -> Iterator[SearchPair]:
    """Random quarters of a space, and its slices: one parameter held at one value, or in one half of its
    values."""
    rng = default_rng(SeedSequence([seed, len(pair)]))
    for number in range(QUARTERS):
        rows = rng.permutation(len(pair))[: len(pair) // 4]
        yield pair.part(f"quarter {number}", "quarters", rows)
    for column, values in enumerate(zip(*pair.config, strict=True)):
        known = sorted(set(values))
        if len(known) < 2:
            continue
        at = np.array([known.index(value) for value in values])
        for number, value in enumerate(known):
            yield pair.part(f"parameter {column} = {value}", "slices", np.flatnonzero(at == number))
        if len(known) > 3:
            for half in (0, 1):
                rows = np.flatnonzero((at >= len(known) / 2) == half)
                yield pair.part(f"half {half} of parameter {column}", "slices", rows)


def with_drawn_ratio(pair: SearchPair, number: int, seed: int) -> SearchPair:
    """The old times with a ratio drawn anew: effects of some parameters and of some pairs of them, each
    configuration's own, and now and then a few configurations that a compiler spoiled."""
    rng = default_rng(SeedSequence([seed, number]))
    few = min(len(pair), SMALLEST * 3)
    rows = rng.choice(len(pair), size=int(rng.integers(few, len(pair) + 1)), replace=False)
    drawn = pair.part(f"drawn ratio {number}", "drawn ratios", rows)
    ratio = np.exp(_drawn_log_ratio(drawn.config, rng))
    return SearchPair(drawn.name, drawn.kind, drawn.old_s, drawn.old_s * ratio, drawn.config)


def _drawn_log_ratio(config: Sequence[Config], rng: Generator) -> Floats:
    columns = [c for c in zip(*config, strict=True) if len(set(c)) > 1]
    codes = [np.unique([sorted(set(c)).index(v) for v in c], return_inverse=True)[1] for c in columns]
    ratio = np.zeros(len(config))
    for code in codes:
        count = int(code.max()) + 1
        size = rng.choice([0.0, 0.05, 0.15, 0.4], p=[0.3, 0.3, 0.25, 0.15])
        effect = rng.standard_normal(count)
        effect = np.cumsum(effect) / np.sqrt(count) if count > 2 else effect
        ratio += size * (effect - effect.mean())[code]
    for _ in range(int(rng.integers(0, 3))):
        a, b = rng.choice(len(codes), 2, replace=len(codes) < 2)
        table = rng.standard_normal((int(codes[a].max()) + 1, int(codes[b].max()) + 1))
        ratio += rng.choice([0.05, 0.15, 0.3]) * table[codes[a], codes[b]]
    ratio += rng.choice([0.02, 0.05, 0.1, 0.2]) * rng.standard_normal(len(ratio))
    if rng.random() < 0.3:
        spoiled = rng.random(len(ratio)) < 0.05
        ratio += np.where(spoiled, np.abs(rng.standard_normal(len(ratio))), 0)
    return ratio


@dataclass(frozen=True, eq=False)
class ProjectedSearch:
    """A measured pair whose old GPU's search holds counters: ``guess_s`` (configurations,) are times
    projected by them, ``family`` the name of each one's tile. ``rows`` are those of ``times``, the search
    itself, whose steady times are ``steady_s``."""

    pair: SearchPair
    guess_s: Floats
    family: NDArray[np.str_]
    times: TuningTimes
    steady_s: Floats
    rows: tuple[int, ...]
    gpus: tuple[Gpu, Gpu]


def projected_searches(folder: Path) -> list[ProjectedSearch]:
    """The measured pairs, as far as they are in ``folder``, whose times can be projected."""
    found = []
    for names in MEASURED:
        paths = [folder / "tuning" / name for name in names]
        if not all(path.is_file() for path in paths):
            continue
        first, second = (read_timed_kernels(path) for path in paths)
        for old, new in ((first, second), (second, first)):
            gpus = [gpu_called(times.device) for times in (old, new)]
            if old.counters is None or gpus[0] is None or gpus[1] is None:
                continue
            steady = np.array([_steady_s(runs) for runs in old.runs])
            guess = guessed_times(old, steady, gpus[0], gpus[1])
            pair, rows = _pair(old, new), _rows_of_both(old, new)
            if guess.evidence == "projected":
                family = np.array([family_of(old, row) for row in rows])
                known = old, steady, tuple(rows), (gpus[0], gpus[1])
                found.append(ProjectedSearch(pair, guess.seconds[rows], family, *known))
    return found


def _rows_of_both(old: TuningTimes, new: TuningTimes) -> list[int]:
    """The rows of ``old`` whose configuration ran or failed on the new GPU."""
    ran, failed = set(new.config), {label for label, _ in new.failed}
    return [
        row
        for row, config in enumerate(old.config)
        if config in ran or label_of(old.parameters, config) in failed
    ]


def _pair(old: TuningTimes, new: TuningTimes) -> SearchPair:
    at = {config: row for row, config in enumerate(new.config)}
    rows = _rows_of_both(old, new)
    new_s = [_steady_s(new.runs[at[c]]) if (c := old.config[row]) in at else np.inf for row in rows]
    old_s = np.array([_steady_s(old.runs[row]) for row in rows])
    chosen = tuple(old.config[row] for row in rows)
    return SearchPair(f"{old.device} to {new.device}", "whole", old_s, np.array(new_s), chosen)


def _steady_s(runs: Sequence[float]) -> float:
    return float(np.median(runs[INITIAL_LAUNCHES:] or runs))
