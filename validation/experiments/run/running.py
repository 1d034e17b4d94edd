"""Running a study: what is missing is evaluated, stored as it comes, and exported in the order of the
design."""

from __future__ import annotations

import importlib.util
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.errors import SmlabError
from smlab.validation.experiments.design.study import Study
from smlab.validation.experiments.run import export
from smlab.validation.experiments.run.outcome import MAX_FAILURES, Failure, Interrupted, StudyOutcome, Times
from smlab.validation.experiments.run.points import (
    Chunk,
    Numbering,
    Point,
    PointResult,
    PointStore,
    evaluate_chunk,
    packed,
)
from smlab.validation.experiments.run.stopping import Replications
from smlab.validation.work.interface import Workers
from smlab.validation.work.runner import Task, completed, open_workers
from smlab.validation.work.store import Store

STORE: Final = "points.sqlite"
CSV: Final = "points.csv"
PARQUET: Final = "points.parquet"

CHUNK_S: Final = 0.25
"""How long a chunk of points should take: what a killed process loses, at most, for each worker."""
MAX_POINTS: Final = 200
LOOKED_UP: Final = 500
"""Points that are looked up in the store at a time."""

Progress = Callable[[int, int, int], None]
"""Told: points done, points in all as far as it is known (stopping may add some), points that were run
now."""


def run_whatif(
    study: Study,
    folder: Path,
    *,
    jobs: int | None = None,
    dask: str | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    effects: bool = True,
) -> StudyOutcome:
    """Run a study into ``folder`` and make its files there.

    Args:
        jobs: worker processes of this machine; one a processor by default.
        dask: address of a Dask scheduler, to run on its workers instead.
        resume: keep the points that are in the folder; without it, a folder that holds some is refused.
        effects: whether to analyse the points as well.

    Raises:
        SmlabError: a folder that cannot be used, a cluster that cannot be reached, workers that keep dying.
        Interrupted: Ctrl-C; stored points stay.
    """
    began = time.perf_counter()
    if effects:  # what cannot be analysed is refused before the work
        from smlab.validation.experiments.effects import layout_of

        layout_of(study)
    path = folder / STORE
    with Store(path) as store:
        if store.count and not resume:
            raise SmlabError(f"{path}: holds an earlier run: continue it with --resume, or use another --out")
        points = PointStore(store, study.system.responses)
        runner, plan, held = _Runner(study, points, progress), Replications(study), store.count
        try:
            with open_workers(jobs, dask=dask) as workers:
                while counts := plan.next_round(runner.rows_of):
                    runner.run(workers, counts, plan.total)
        except KeyboardInterrupt:
            raise Interrupted(runner.done, plan.total) from None
        exporting = time.thread_time()
        failures = _write(study, runner, points, folder, plan)
        export_s = time.thread_time() - exporting
    notes = list(study.notes)
    if (others := held - runner.reused) > 0:
        what = "belong to another study or another version of the code, and were not used"
        notes.append(f"{others:,} of {held:,} points in {path} {what}")
    found = _effects(study, folder) if effects else None
    return StudyOutcome(
        points=plan.total,
        done=plan.total,
        failed=failures[0],
        ran=runner.ran,
        cases=study.design.size + 1,
        rounds=plan.rounds,
        loose=plan.loose,
        failures=tuple(failures[1]),
        notes=tuple(notes),
        times=Times(
            wall_s=time.perf_counter() - began,
            evaluation_s=runner.evaluation_s,
            simulation_s=runner.simulation_s,
            keeping_s=runner.keeping_s,
            export_s=export_s,
        ),
        effects=found,
        folder=folder,
    )


def _write(
    study: Study, runner: _Runner, store: PointStore, folder: Path, plan: Replications
) -> tuple[int, list[Failure]]:
    """CSV and Parquet of all points, in one pass each; how many failed, and the first of them."""
    failures: list[Failure] = []
    failed = 0

    def watched() -> Iterator[export.Row]:
        nonlocal failed
        for row in export.table_rows(study, runner.numbering, store, plan.counts):
            if row[-1]:
                failed += 1
                if len(failures) < MAX_FAILURES:
                    values = row[len(export.LEADING) : len(export.LEADING) + len(study.factors)]
                    settings = dict(zip((f.name for f in study.factors), values, strict=True))
                    failures.append(Failure(int(row[0] or 0), int(row[1] or 0), settings, str(row[-1])))
            yield row

    export.write_csv(folder / CSV, export.columns(study), watched())
    export.write_parquet(
        study, folder / PARQUET, export.table_rows(study, runner.numbering, store, plan.counts)
    )
    return failed, failures


def _effects(study: Study, folder: Path) -> Any:
    """The analysis of the points, and its files."""
    if importlib.util.find_spec("smlab.validation.experiments.effects") is None:
        return None
    from smlab.validation.experiments.effects import summarise, write_outputs

    frame = export.read_points(folder / PARQUET)
    effects = summarise(study, frame)
    write_outputs(study, frame, effects, folder)
    return effects


class _Runner:
    """Brings the store up to date, round by round."""

    def __init__(self, study: Study, store: PointStore, progress: Progress | None) -> None:
        self.study = study
        self.store = store
        self.progress = progress
        self.numbering = Numbering(study)
        self.system = packed(study.system)
        self.identity = study.system.identity()
        self.done = 0
        self.ran = 0
        self.reused = 0
        self.evaluation_s = 0.0
        self.simulation_s = 0.0
        self.keeping_s = 0.0
        self._point_s = 0.0  # a worker's recent mean time for a point
        self._in_hand: set[bytes] = set()  # hashes that are waiting or in flight
        self._total = 0

    def rows_of(self, counts: Iterable[tuple[int, int, int]]) -> Iterator[tuple[Point, PointResult]]:
        """Finished points, as stopping wants to see them."""
        return export.finished_points(self.numbering, self.store, counts)

    def run(self, workers: Workers, counts: Iterable[tuple[int, int, int]], total: int) -> None:
        """Evaluate and store what is missing of the points ``(case, first replication, end)``."""
        self._total = total
        began, before_s = time.thread_time(), workers.inline_s
        try:
            for task, found in completed(workers, self._tasks(counts), _halves):
                self._keep(task.key, found)
        finally:
            self.keeping_s += time.thread_time() - began - (workers.inline_s - before_s)

    def _tasks(self, counts: Iterable[tuple[int, int, int]]) -> Iterator[Task[list[Point]]]:
        """The missing points in chunks, each as large as the time of those before it tells."""
        missing = self._missing(counts)
        while chunk := list(itertools.islice(missing, self._chunk_size())):
            yield self._task(chunk)

    def _task(self, chunk: list[Point]) -> Task[list[Point]]:
        work = tuple((point.settings, point.seed) for point in chunk)
        return Task(chunk, evaluate_chunk, (self.system, work))

    def _missing(self, counts: Iterable[tuple[int, int, int]]) -> Iterator[Point]:
        """The points that are neither stored nor in hand. Two cases with the same settings are one point
        in the store."""
        points = self.numbering.points(counts)
        while True:
            block = list(itertools.islice(points, LOOKED_UP))
            if not block:
                return
            known = self.store.known([point.hash for point in block])
            wanted = []
            for point in block:
                if point.case == 0 and point.hash in known:
                    self._check_base(self.store.get([point.hash])[point.hash])
                if point.hash in known or point.hash in self._in_hand:
                    self.done += 1
                    self.reused += point.hash in known
                else:
                    self._in_hand.add(point.hash)
                    wanted.append(point)
            self._tell()
            yield from wanted

    def _chunk_size(self) -> int:
        if self._point_s == 0:
            return 1
        return max(1, min(MAX_POINTS, round(CHUNK_S / self._point_s)))

    def _keep(self, chunk: list[Point], result: Chunk) -> None:
        if result.identity != self.identity:
            raise SmlabError(
                "a worker has another version of smlab than this process; install the same on both"
            )
        self.store.add(zip(chunk, result.finished, strict=True))
        for point, stored in zip(chunk, result.finished, strict=True):
            if point.case == 0:
                self._check_base(stored)
        self._in_hand.difference_update(point.hash for point in chunk)
        self.done += len(chunk)
        self.ran += len(chunk)
        self.evaluation_s += result.evaluation_s
        self.simulation_s += result.simulation_s
        self._point_s = max(1e-6, result.elapsed_s / len(chunk))
        self._tell()

    def _check_base(self, stored: PointResult) -> None:
        """Without the base there is nothing to compare with."""
        if stored.error:
            raise SmlabError(f"{self.study.where}: base: cannot be evaluated: {stored.error}")

    def _tell(self) -> None:
        if self.progress is not None:
            self.progress(self.done, self._total, self.ran)


def _halves(task: Task[list[Point]]) -> list[Task[list[Point]]]:
    """The two halves of a chunk whose worker died: a point that kills its worker is thus found alone."""
    system, work = task.arguments
    half = len(work) // 2
    cuts = [slice(None, half), slice(half, None)] if half else [slice(None)]
    return [Task(task.key[cut], task.function, (system, work[cut])) for cut in cuts]
