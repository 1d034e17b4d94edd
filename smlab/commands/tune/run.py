"""What ``smlab tune`` does: search, show progress, print the ranking, write the files."""

from __future__ import annotations

import json
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar, shown
from smlab.commands.gpu_choice import GpuChoice, chosen_gpu, clock_text
from smlab.commands.port.result import same_everywhere
from smlab.commands.tune.api import RESULTS, TuningResult, ranking_rows, tune
from smlab.examples import TUNING_SPACE
from smlab.hw_bench.files import write_atomic
from smlab.sim.simulate import looks_cold, warm
from smlab.validation.experiments.run.export import write_csv
from smlab.validation.tuning.search import (
    LONGEST,
    SETTLED,
    SearchInterrupted,
    SearchOptions,
    SearchProgress,
)
from smlab.validation.tuning.space import TuningSpace
from smlab.validation.tuning.space_file import SpaceAsked, read_space

RANKING, PROGRESS = "ranking.csv", "progress.json"
EVERY_S: Final = 2.0
"""How often the file of progress is written."""
SHORT: Final = 5
"""Rows that are shown without --details: verdict and table are twelve lines at most."""
TELL_FROM: Final = 1.2
"""From which ratio on a gain is told as a factor, else in percent."""


@dataclass(frozen=True)
class TuneSpaceOptions:
    """What ``smlab tune`` was asked for; ``space`` None is the example."""

    space: str | None
    gpu: GpuChoice
    source: Path | None
    launch: Path | None
    name: str | None
    top: int
    budget_cpu_s: float | None
    draw: int | None
    seed: int
    truth: Path | None
    out: Path | None
    jobs: int | None
    dask: str | None
    resume: bool
    details: bool
    as_json: bool


def run_tune_space(options: TuneSpaceOptions) -> None:
    """Search and print; an example's times are kept nowhere."""
    gpu = chosen_gpu(options.gpu)
    SearchOptions(budget_cpu_s=options.budget_cpu_s)  # refused before the work
    space = read_space(
        options.space or TUNING_SPACE,
        SpaceAsked(options.source, options.launch, options.name, gpu.sm_architecture),
    )
    if options.dask is None and looks_cold():
        warm()
    with _folder(options, space) as folder:
        try:
            with _progress(space, folder) as told:
                result = tune(
                    space,
                    gpu=gpu,
                    out=folder,
                    truth=options.truth,
                    top=options.top,
                    budget_cpu_s=options.budget_cpu_s,
                    draw=options.draw,
                    seed=options.seed,
                    jobs=options.jobs,
                    dask=options.dask,
                    resume=options.resume,
                    progress=told,
                )
        except SearchInterrupted as stopped:
            if options.space is not None:
                _tell_kept(options, folder, stopped)
            raise
        _write_ranking(result)
        if options.as_json:
            print_json(tuning_document(result))
        else:
            _print(result, options)
        if options.space is not None:
            err.print(f"wrote {folder}: {RANKING}, {PROGRESS}", markup=False, soft_wrap=True)


@contextmanager
def _folder(options: TuneSpaceOptions, space: TuningSpace) -> Iterator[Path]:
    if options.out is None and options.space is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
        return
    yield RESULTS / space.title.replace("/", "-") if options.out is None else options.out


def _tell_kept(options: TuneSpaceOptions, folder: Path, stopped: SearchInterrupted) -> None:
    given: dict[str, object] = {"--gpu": options.gpu.gpu, "--source": options.source}
    given |= {"--launch": options.launch, "--name": options.name, "--truth": options.truth}
    given |= {
        "--budget-cpu-s": options.budget_cpu_s,
        "--draw": options.draw,
        "--clock": options.gpu.clock_mhz,
    }
    given |= {"--top": options.top, "--seed": options.seed}
    words = ["smlab", "tune", str(options.space)]
    words += [word for option, value in given.items() if value is not None for word in (option, str(value))]
    words += [word for setting in options.gpu.settings for word in ("--set", setting)]
    again = shlex.join([*words, "--out", str(folder), "--resume"])
    kept = f"{stopped.done:,} of {stopped.total:,}"
    err.print(f"kept {kept} screened times; to go on: {again}", markup=False, soft_wrap=True)


@contextmanager
def _progress(space: TuningSpace, folder: Path) -> Iterator[Callable[[SearchProgress], None]]:
    """A bar for each sample on a terminal, and a file that says the same."""
    written = [0.0]
    with progress_bar(f"simulating {space.title}") as advance:

        def told(where: SearchProgress) -> None:
            advance(where.done, where.total)
            now = time.monotonic()
            if now - written[0] < EVERY_S and where.done < where.total:
                return
            written[0] = now
            best = None if where.best is None else space.settings(where.best)
            content = {
                "space": space.title,
                "sample": {"sms": where.sample.sms, "samples": where.sample.samples},
                "done": where.done,
                "total": where.total,
                "cpu_s": where.cpu_s,
                "best": best,
                "best_s": where.best_s,
            }
            write_atomic(folder / PROGRESS, json.dumps(content, indent=1) + "\n")

        yield told


def tuning_document(result: TuningResult) -> dict[str, Any]:
    """The JSON document."""
    found, space = result.search, result.space
    best = result.ranking[0] if result.ranking else None
    document: dict[str, Any] = {
        "space": space.title,
        "gpu": result.gpu.name,
        "clock_hz": float(result.gpu.number("clock.sm_hz")),
        "configurations": found.drawn,
        "restricted": space.restricted,
        "codes": len(found.groups),
        "screened": len(found.times[0]),
        "failed": [
            {"reason": f.reason, "configurations": len(f.numbers), "example": f.example}
            for f in result.failed
        ],
        "ended": found.ended,
        "open": len(found.open),
        "best": None,
        "first": None,
        "gain": None,
        "ranking": ranking_rows(result),
        "truth": None,
        "cpu_s": found.cpu_s,
        "wall_s": result.wall_s,
        "out": str(result.folder),
        "notes": list(space.notes),
    }
    if best is not None:
        real = result.real or (None, None)
        document["best"] = {
            "settings": space.settings(best.numbers[0]),
            "seconds": best.seconds,
            "low": best.low,
            "high": best.high,
            "real_low": real[0],
            "real_high": real[1],
        }
    document["first"] = space.settings(space.first)
    if result.gain is not None:
        document["gain"] = dict(zip(("factor", "low", "high"), result.gain, strict=True))
    if result.truth is not None:
        t = result.truth
        document["truth"] = {
            "n": t.n,
            "spearman": t.spearman,
            "best_place": t.best_place,
            "best": t.best,
            "fraction_first": t.fraction_first,
            "fraction_ten": t.fraction_ten,
        }
    return document


def _write_ranking(result: TuningResult) -> None:
    """A row a configuration: those with a time by rank, then those that failed, then those not reached."""
    space, found = result.space, result.search
    names = ("rank", *space.parameters, "seconds", "low", "high", "sample", "registers", "reason")
    rows: list[tuple[Any, ...]] = []
    for rank, row in enumerate(result.ranking, start=1):
        told = (row.seconds, row.low, row.high, str(row.sample), row.time.registers, "")
        rows += [(rank, *space.configurations[n], *told) for n in row.numbers]
    failed = {n: f.reason for f in result.failed for n in f.numbers}
    known = {n for row in result.ranking for n in row.numbers}
    for members in found.groups.values():
        for n in members:
            if n not in known:
                reason = failed.get(n, "not reached")
                rows.append((None, *space.configurations[n], *[None] * 5, reason))
    write_csv(result.folder / RANKING, names, rows)


def _print(result: TuningResult, options: TuneSpaceOptions) -> None:
    space, found = result.space, result.search
    labels = [space.label(n) for members in found.groups.values() for n in members]
    same = same_everywhere(labels)
    for line in _verdict(result, same):
        out.print(line, markup=False, soft_wrap=True)
    if result.ranking:
        out.print(_table(result, same, options.top if options.details else min(SHORT, options.top)))
    for line in _rest(result):
        out.print(line, markup=False, soft_wrap=True)
    if options.details:
        for line in _details(result, same):
            out.print(line, markup=False, soft_wrap=True)


def _varying(label: str, same: set[str]) -> str:
    return ", ".join(part for part in label.split(", ") if part not in same)


def _verdict(result: TuningResult, same: set[str]) -> list[str]:
    space, found = result.space, result.search
    if not result.ranking:
        return [f"{space.title} on {result.gpu.name}: no configuration has a time"]
    best = result.ranking[0]
    lines = [
        f"{space.title} on {result.gpu.name}: best of {found.drawn:,} configurations",
        _varying(space.label(best.numbers[0]), same),
        f"{_us(best.seconds)} us ({_us(best.low)} to {_us(best.high)} beside the others)",
    ]
    if result.real is not None:
        low, high = result.real
        lines[-1] += f"; on a real card {_us(low)} to {_us(high)} (90 %)"
    if result.gain is not None:
        factor, low, high = result.gain
        first = _varying(space.label(space.first), same)
        told = (
            "is the best itself"
            if factor == 1
            else f"takes {factor:.2f} times as long ({low:.2f} to {high:.2f})"
        )
        lines.append(f"the first configuration ({first}) {told}")
    return lines


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:,.4g}" if seconds < 0.01 else f"{1e6 * seconds:,.0f}"


def _table(result: TuningResult, same: set[str], rows: int) -> Listing:
    table = Listing()
    table.add_column("", justify="right")
    table.add_column("configuration", fold=True)
    table.add_column("us", justify="right")
    table.add_column("95 %", justify="right", drop=1)
    table.add_column("by", drop=2)
    for rank, row in enumerate(result.ranking[:rows], start=1):
        alike = f" (+ {len(row.numbers) - 1} of equal code)" if len(row.numbers) > 1 else ""
        table.add_row(
            str(rank),
            shown(_varying(result.space.label(row.numbers[0]), same) + alike),
            _us(row.seconds),
            f"{_us(row.low)} to {_us(row.high)}",
            str(row.sample),
        )
    return table


def _rest(result: TuningResult) -> list[str]:
    """How the search ended, what failed, how the order fits."""
    found, space = result.search, result.space
    screened = len(found.times[0])
    told = f"{screened:,} different codes of {found.drawn:,} configurations simulated"
    if screened < len(found.groups):
        told += f", {len(found.groups) - screened:,} not reached"
    if space.restricted:
        told += f"; {space.restricted:,} excluded by restrictions"
    if found.ended == SETTLED:
        why = "the order of the first is settled"
    else:
        reason = "the longest sample is reached" if found.ended == LONGEST else "the budget is used"
        why = f"{reason}; {len(found.open)} cannot be told from the best"
    lines = [f"{told}; {why}"]
    if result.failed:
        parts = ", ".join(f"{len(f.numbers):,} {f.reason}" for f in result.failed)
        lines.append(f"without a time: {parts}; such as {result.failed[0].example}")
    if result.truth is not None:
        t = result.truth
        lines.append(
            f"against {t.n:,} measured times: rank correlation {t.spearman:.3f}, the best measured is number "
            f"{t.best_place} here; the first reaches {t.fraction_first:.3f} of it, the best of ten "
            f"{t.fraction_ten:.3f}"
        )
    return lines


def _details(result: TuningResult, same: set[str]) -> list[str]:
    found = result.search
    lines = [f"all with {', '.join(sorted(same))}"] if same else []
    lines += [f"at {clock_text(result.gpu)}"]
    for number, (ratio, spread) in enumerate(zip(found.ratio, found.spread, strict=True), start=1):
        lines.append(
            f"{len(found.times[number]):,} by a longer sample: {ratio:.3f} times the time before, scatter "
            f"{100 * spread:.1f} %"
        )
    lines += [f"{f.reason}: {len(f.numbers):,}, such as {f.example}" for f in result.failed]
    lines += list(result.space.notes)
    each = found.cpu_s / max(1, sum(map(len, found.times)))
    lines.append(
        f"{found.cpu_s:,.0f} s of processor time, {each:.2f} s a simulated code; {result.wall_s:,.0f} s"
    )
    return lines
