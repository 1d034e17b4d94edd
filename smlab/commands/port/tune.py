"""``smlab.port_tune``: which configurations to measure on a new GPU, from a space measured on an old one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from smlab.commands.arguments import a_gpu, a_path, a_whole, check_keywords
from smlab.commands.frames import TabularResult, dataframe
from smlab.hw_bench.datasets.timed_kernels import read_timed_kernels
from smlab.hw_bench.datasets.tuning import TuningTimes, label_of
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.image import CompiledResources, resources_of
from smlab.models.portability.advice import EVIDENCE, Evidence, changes_from, foreseen_changes
from smlab.models.portability.launch_series import INITIAL_LAUNCHES
from smlab.models.portability.ratio_model import RatioModel
from smlab.models.portability.transfer import SearchSpace, TransferSearch, planned, search_space
from smlab.models.projection.parallelism import resident_blocks
from smlab.validation.projection.tuning_code import TuningSource
from smlab.validation.projection.tuning_guess import compiled_times, guessed_times

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

SEEDS: Final = 20
CURVE: Final = (5, 10, 20, 50)
"""Budgets of the curves that a replay gives."""

RUNS: Final = 7
"""Launches of each configuration to take, the first of which is left out."""

WIDE: Final = 1.645


@dataclass(frozen=True, repr=False)
class TuneResult(TabularResult):
    """Rows to measure on the target, in order, with the times predicted when each was chosen; ``low_s`` to
    ``high_s`` hold 90 %.

    ``evidence`` is what the order rests on: projected times, or the source's. ``foreseen`` are the labels of
    configurations that cannot run on the target. ``replayed`` holds, for each budget, the fractions of the
    target's optimum that were reached: one a seed by this search and by random ones, one number by the
    source's best.
    """

    source: Gpu
    target: Gpu
    labels: tuple[str, ...]
    rows: tuple[int, ...]
    predicted_s: Floats
    low_s: Floats
    high_s: Floats
    measured_s: Mapping[int, float]
    evidence: Evidence
    foreseen: tuple[str, ...]
    advice: tuple[Mapping[str, Any], ...]
    replayed: Mapping[int, Replayed]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<{len(self.rows)} of {len(self.labels):,} configurations to measure on {self.target.name}>"

    def to_dataframe(self) -> pd.DataFrame:
        """One row a configuration to measure, with the keys of ``smlab port tune --json``."""
        return dataframe(tune_rows(self))


@dataclass(frozen=True, eq=False)
class Replayed:
    """Fractions of the optimum: ``found`` and ``random`` (seeds,), ``old_best`` by the source's best ones."""

    found: Floats
    random: Floats
    old_best: float


class TuneKeywords(TypedDict, total=False):
    """Further keywords of `port_tune`."""

    kernel: str | Path | None
    compile_all: bool
    seeds: int
    curve: Sequence[int]
    progress: Callable[[int, int], None] | None


def port_tune(
    file: str | Path,
    source: str | Path | Gpu,
    target: str | Path | Gpu,
    *,
    measured: str | Path | None = None,
    truth: str | Path | None = None,
    budget: int = 10,
    **more: Unpack[TuneKeywords],
) -> TuneResult:
    """Which configurations of a space to measure on ``target``, when all were measured on ``source``.

    Args:
        file: the space on the source: a tuner's output or any table of times.
        source: the GPU that it was measured on.
        target: the new GPU.
        measured: what was measured on the target so far; the next are chosen after it.
        truth: the whole space on the target: measurements are replayed from it, and the result is judged.
        kernel: CUDA C of the kernel; what does not fit the target once compiled is not proposed.
        compile_all: compile every configuration that may not fit, not only those that are proposed (seconds
            each).
        budget: how many configurations to measure in all.
        seeds: replays; each takes another launch of those that the truth holds.
        curve: more budgets to replay.
        progress: told ``(compiled, asked)``.

    Raises:
        SmlabError: an unusable file or argument, or files that share no configuration.
    """
    check_keywords("port_tune", more, TuneKeywords)
    kernel, compile_all = more.get("kernel"), more.get("compile_all", False)
    seeds, curve, progress = more.get("seeds", SEEDS), more.get("curve", ()), more.get("progress")
    here, there = a_gpu("source", source), a_gpu("target", target)
    a_whole("budget", budget, 1), a_whole("seeds", seeds, 1)
    times = read_timed_kernels(a_path("file", file))
    labels = _labels(times)
    if len(set(times.kernel.tolist())) > 1:
        raise SmlabError.at(
            str(times.path), "holds several kernels", str(times.kernel[1]), "one space a file"
        )
    steady = np.array([_steady(run) for run in times.runs])
    guess = guessed_times(times, steady, here, there)
    notes = (
        [] if guess.evidence == "projected" else ["no counters: the source's own order is the first guess"]
    )
    code = None if kernel is None else TuningSource(a_path("kernel", kernel))
    compiled = None if code is None else CompiledConfigurations(code, there, progress)
    runs_there = _fits(times, there)
    if compiled is not None and compile_all:
        runs_there &= compiled.fit_all(times)
    space = search_space(guess.seconds, times.config, runs_there)
    known = _measured(measured, labels)
    if measured is not None and not known:
        raise SmlabError.at(str(measured), "no configuration of the space in it", expected=labels[0])
    replayed: dict[int, Replayed] = {}
    taken: dict[int, float] = dict(known)
    if truth is not None:
        runs = _runs_of(truth, labels)
        for size in sorted({budget, *curve}):
            replayed[size] = _replay(space, steady, runs, size, seeds)
        played = _play_known(space, runs, budget)
        rows, taken = played.rows, played.taken
    else:
        search = TransferSearch(space, budget)
        for row, seconds in known.items():
            search.tell(row, seconds)
        rows = _proposed(search, max(0, budget - len(known)), times, compiled)
        told = TransferSearch(space, budget)
        for row, seconds in taken.items():
            told.tell(row, seconds)
        played = _Played(rows, taken, [told.expected(row) for row in rows])
    mean, deviation = np.array(played.expected).reshape(-1, 2).T
    return TuneResult(
        source=here,
        target=there,
        labels=labels,
        rows=tuple(rows),
        predicted_s=np.exp(mean),
        low_s=np.exp(mean - WIDE * deviation),
        high_s=np.exp(mean + WIDE * deviation),
        measured_s=taken,
        evidence=guess.evidence,
        foreseen=tuple(
            dict.fromkeys(
                (*(labels[i] for i in np.flatnonzero(~space.runs)), *(compiled.refused if compiled else ()))
            )
        ),
        advice=_advice(
            _Guess(times, steady, space, guess.evidence), rows, taken, (here, there), code, progress
        ),
        replayed=replayed,
        notes=tuple(notes),
    )


def tune_rows(result: TuneResult) -> list[dict[str, Any]]:
    """The rows of ``tune`` in the JSON document."""
    return [
        {
            "config": result.labels[row],
            "predicted_s": float(result.predicted_s[i]),
            "low": float(result.low_s[i]),
            "high": float(result.high_s[i]),
            "runs": RUNS,
            "measured_s": result.measured_s.get(row),
        }
        for i, row in enumerate(result.rows)
    ]


def _labels(times: TuningTimes) -> tuple[str, ...]:
    return tuple(label_of(times.parameters, config) for config in times.config)


def _steady(runs: Sequence[float]) -> float:
    return float(np.median(runs[INITIAL_LAUNCHES:] if len(runs) > INITIAL_LAUNCHES else runs))


def _fits(times: TuningTimes, gpu: Gpu) -> NDArray[np.bool_]:
    """Whether a block fits an SM of the target, as far as the file tells launches."""
    threads = np.where(times.threads_per_block > 0, times.threads_per_block, 1)
    registers, shared = (np.nan_to_num(x) for x in (times.registers_per_thread, times.shared_bytes_per_block))
    return np.asarray(resident_blocks(gpu, threads, registers, shared) > 0)


def _measured(path: str | Path | None, labels: tuple[str, ...]) -> dict[int, float]:
    if path is None:
        return {}
    times = read_timed_kernels(a_path("measured", path))
    at = {label: row for row, label in enumerate(labels)}
    return {at[g]: _steady(run) for g, run in zip(_labels(times), times.runs, strict=True) if g in at}


def _runs_of(truth: str | Path, labels: tuple[str, ...]) -> dict[int, tuple[float, ...] | None]:
    """Launches on the target of each row of the space that it holds; None for one that did not run."""
    times = read_timed_kernels(a_path("truth", truth))
    own = dict(zip(_labels(times), times.runs, strict=True))
    failed = {label for label, _ in times.failed}
    found: dict[int, tuple[float, ...] | None] = {}
    for row, label in enumerate(labels):
        if label in own:
            found[row] = own[label]
        elif label in failed:
            found[row] = None
    if not any(found.values()):
        raise SmlabError.at(str(truth), "no configuration of the space in it", next(iter(own)), labels[0])
    return found


@dataclass(frozen=True)
class _Played:
    """``rows`` are in the order in which they were chosen. It also has what those that ran took, and what was
    told when each one was chosen: mean and standard deviation of its logarithm of time."""

    rows: list[int]
    taken: dict[int, float]
    expected: list[tuple[float, float]]


def _play(
    search: TransferSearch,
    runs: Mapping[int, tuple[float, ...] | None],
    budget: int,
    rng: np.random.Generator | None,
) -> _Played:
    """Search with measurements replayed: one launch of each configuration, or its steady time without
    ``rng``."""
    rows: list[int] = []
    taken: dict[int, float] = {}
    expected: list[tuple[float, float]] = []
    while len(rows) < budget:
        row = search.next()
        if row is None:
            break
        launches = runs[row]
        rows.append(row)
        expected.append(search.expected(row))
        if launches is None:
            search.tell(row, None)
            continue
        later = launches[INITIAL_LAUNCHES:] or launches
        seconds = _steady(launches) if rng is None else float(later[int(rng.integers(len(later)))])
        taken[row] = seconds
        search.tell(row, seconds)
    return _Played(rows, taken, expected)


def _play_known(space: SearchSpace, runs: Mapping[int, tuple[float, ...] | None], budget: int) -> _Played:
    """Search the configurations that the truth holds, which may be fewer than the source's."""
    known = sorted(runs)
    own = {i: runs[row] for i, row in enumerate(known)}
    played = _play(TransferSearch(space.take(np.array(known)), budget), own, budget, None)
    taken = {known[i]: seconds for i, seconds in played.taken.items()}
    return _Played([known[i] for i in played.rows], taken, played.expected)


def _replay(
    space: SearchSpace, steady: Floats, runs: Mapping[int, tuple[float, ...] | None], budget: int, seeds: int
) -> Replayed:
    """``seeds`` searches over the configurations that the truth holds."""
    rows = np.array(sorted(runs), dtype=np.int64)
    local = space.take(rows)
    own = {i: runs[row] for i, row in enumerate(rows.tolist())}
    true_s = np.array([np.inf if own[i] is None else _steady(own[i] or ()) for i in range(len(rows))])
    best = float(true_s.min())

    def fraction(chosen: Sequence[int] | NDArray[np.int64]) -> float:
        return best / float(true_s[np.asarray(chosen)].min())

    found: list[float] = []
    random: list[float] = []
    exact = all(launches is None or len(launches) == 1 for launches in own.values())
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        if not exact or not found:
            found.append(fraction(_play(TransferSearch(local, budget), own, budget, rng).rows))
        else:
            found.append(found[0])  # one launch each: every seed sees the same
        random.append(fraction(rng.choice(len(rows), size=min(budget, len(rows)), replace=False)))
    old = fraction(np.argsort(steady[rows], kind="stable")[:budget])
    return Replayed(np.array(found), np.array(random), old)


def _proposed(
    search: TransferSearch, count: int, times: TuningTimes, compiled: CompiledConfigurations | None
) -> list[int]:
    """The next rows to measure; those that do not fit once compiled are passed over."""
    if compiled is None:
        return planned(search, count)
    rows: list[int] = []
    while len(rows) < count:
        row = search.next()
        if row is None:
            break
        if compiled.fits(times, row):
            rows.append(row)
            search.tell(row, float(np.exp(search.predicted()[0][row])))
        else:
            search.tell(row, None)
    return rows


@dataclass(frozen=True, eq=False)
class _Guess:
    """What is known of a space before anything is measured on the target; ``steady`` is on the source."""

    times: TuningTimes
    steady: Floats
    space: SearchSpace
    evidence: Evidence


def _advice(
    known: _Guess,
    rows: Sequence[int],
    taken: Mapping[int, float],
    gpus: tuple[Gpu, Gpu],
    code: TuningSource | None,
    progress: Callable[[int, int], None] | None,
) -> tuple[Mapping[str, Any], ...]:
    """One-parameter changes of the best configuration known (else of the first proposed), best first; where
    there are counters and source, by the code of both ends of each change."""
    if not rows and not taken:
        return ()
    times, steady, space, evidence = known.times, known.steady, known.space, known.evidence
    start = min(taken, key=lambda row: taken[row]) if taken else rows[0]
    changes = [(other, column) for other, column in changes_from(times.config, start) if space.runs[other]]
    others = np.array([other for other, _ in changes], dtype=np.int64)
    guess = space.guess.copy()
    if code is not None and evidence == "projected" and changes:
        ends = np.array([start, *others])
        seconds = compiled_times(times, ends.tolist(), steady, *gpus, code, progress)
        if np.isfinite(seconds).all():
            guess[ends], evidence = np.log(seconds), "compiled"
    model = RatioModel(space.parameters, EVIDENCE[evidence].spread)
    for row, seconds_there in taken.items():
        model.tell(row, float(np.log(seconds_there) - guess[row]))
    foreseen = foreseen_changes(guess, model, start, others, evidence)
    found: list[dict[str, Any]] = [
        {
            "from": label_of(times.parameters, times.config[start]),
            "parameter": times.parameters[column],
            "value": times.config[start][column],
            "to": times.config[other][column],
            "target_change": float(np.expm1(foreseen.log_change[i])),
            "source_change": float(steady[other] / steady[start] - 1),
            "confidence": float(foreseen.chance[i]),
            "evidence": evidence,
        }
        for i, (other, column) in enumerate(changes)
        if other not in taken
    ]
    return tuple(sorted(found, key=lambda row: row["target_change"]))


class CompiledConfigurations:
    """Compiles a configuration's CUDA C for a GPU when it is asked for. Configurations that differ only in
    macros which the source never names are compiled once. ``refused`` holds the labels of those that do not
    fit."""

    def __init__(self, source: TuningSource, gpu: Gpu, progress: Callable[[int, int], None] | None) -> None:
        source.text()  # a file that cannot be read is told before anything else
        self._source, self._gpu, self._progress = source, gpu, progress
        self.refused: list[str] = []
        self._resources: dict[tuple[object, ...], CompiledResources] = {}

    def fits(self, times: TuningTimes, row: int) -> bool:
        """Whether a block of the configuration fits an SM of the GPU; compiles it."""
        compiled = self._compiled(times, row)
        registers, static = compiled.registers, compiled.static_shared_bytes
        shared = max(static, int(np.nan_to_num(times.shared_bytes_per_block[row])))
        threads = times.threads_per_block[row]
        fits = bool(resident_blocks(self._gpu, threads if threads > 0 else 1, registers, shared) > 0)
        if not fits:
            self.refused.append(label_of(times.parameters, times.config[row]))
        return fits

    def _compiled(self, times: TuningTimes, row: int) -> CompiledResources:
        key = self._source.macros_read(times, row)
        if key not in self._resources:
            cubin = self._source.cubin(times, row, self._gpu)
            where = f"{self._source.path} (compiled)"
            self._resources[key] = resources_of(cubin, str(times.kernel[row]), where)
        return self._resources[key]

    def fit_all(self, times: TuningTimes) -> NDArray[np.bool_]:
        """The same of every configuration, (rows,); those that fit with any number of registers are not
        compiled."""
        most = self._gpu.integer("sm.max_registers_per_thread")
        threads = np.where(times.threads_per_block > 0, times.threads_per_block, 1)
        fit = np.asarray(resident_blocks(self._gpu, threads, most) > 0)
        doubtful = np.flatnonzero(~fit).tolist()
        for done, row in enumerate(doubtful, start=1):
            fit[row] = self.fits(times, row)
            if self._progress is not None:
                self._progress(done, len(doubtful))
        return fit
