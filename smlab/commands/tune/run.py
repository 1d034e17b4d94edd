"""What ``smlab tune`` does: search, show progress, print the ranking, write the files."""

from __future__ import annotations

import json
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar, shown
from smlab.commands.gpu_choice import GpuChoice, chosen_gpu, clock_text
from smlab.commands.port.result import same_everywhere
from smlab.commands.tune.api import RESULTS, TuningResult, ranking_rows, tune
from smlab.commands.tune.command import TuneSpaceOptions
from smlab.examples import TUNING_SPACE
from smlab.hw_bench.files import write_atomic
from smlab.sim.object_code.loading import ready
from smlab.validation.experiments.run.export import write_csv
from smlab.validation.tuning.ranking import ExpectedLoss, RankedTime
from smlab.validation.tuning.search import LONGEST, SETTLED, SearchInterrupted, SearchOptions, SearchProgress
from smlab.validation.tuning.space import TuningSpace
from smlab.validation.tuning.space_file import SpaceAsked, read_space

RANKING, PROGRESS = "ranking.csv", "progress.json"
EVERY_S: Final = 2.0
"""How often the file of progress is written."""
LINES, HEADING, SHORT = 12, 2, 6
"""Lines that are printed without --details, those of a table's heading, and rows at most."""


def run_tune_space(options: TuneSpaceOptions) -> None:
    """Search and print; an example's times are kept nowhere."""
    gpu = chosen_gpu(GpuChoice(options.gpu, options.clock_mhz, tuple(options.settings or ())))
    SearchOptions(budget_cpu_s=options.budget_cpu_s)  # refused before the work
    space = read_space(
        options.space or TUNING_SPACE,
        SpaceAsked(options.source, options.launch, options.name, gpu.sm_architecture),
    )
    if options.dask is None:
        ready("engine", "machine_code")  # once, before the processes that would each wait for it
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
    given: dict[str, object] = {"--gpu": options.gpu, "--source": options.source}
    given |= {"--launch": options.launch, "--name": options.name, "--truth": options.truth}
    given |= {"--budget-cpu-s": options.budget_cpu_s, "--draw": options.draw, "--clock": options.clock_mhz}
    given |= {"--top": options.top, "--seed": options.seed}
    words = ["smlab", "tune", str(options.space)]
    words += [word for option, value in given.items() if value is not None for word in (option, str(value))]
    words += [word for setting in options.settings or () for word in ("--set", setting)]
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
        "losses": [asdict(loss) for loss in result.losses],
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
    same = same_everywhere([space.label(n) for members in found.groups.values() for n in members])
    lines = [*_verdict(result, same), *_rest(result)]
    for line in lines:
        out.print(line, markup=False)
    if result.ranking:
        out.print(_table(result, same, options, sum(-(-len(line) // out.width) for line in lines)))
    if options.details:
        for line in _details(result, same):
            out.print(line, markup=False)


def _varying(label: str, same: set[str]) -> str:
    return ", ".join(part for part in label.split(", ") if part not in same)


def _verdict(result: TuningResult, same: set[str]) -> list[str]:
    """The best, its time, what it gains."""
    space, found = result.space, result.search
    if not result.ranking:
        return [f"{space.title} on {result.gpu.name}: no configuration has a time"]
    best = result.ranking[0]
    seconds = f"{_us(best.seconds)} us" if best.time.whole else f"{_us(best.seconds)} us ({_interval(best)})"
    real = "" if result.real is None else "; real card {} to {} (90 %)".format(*map(_us, result.real))
    lines = [
        f"{space.title} on {result.gpu.name}: best of {found.drawn:,} configurations",
        _varying(space.label(best.numbers[0]), same),
        f"takes {seconds}{real}",
    ]
    if result.gain is not None:
        factor, low, high = result.gain
        between = "" if low == high else f" ({low:.2f} to {high:.2f})"
        first = _varying(space.label(space.first), same)
        told = "is the best itself" if factor == 1 else f"takes {factor:.2f} times as long{between}"
        lines.append(f"the first, {first}, {told}")
    return lines


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:,.4g}" if seconds < 0.01 else f"{1e6 * seconds:,.0f}"


def _interval(row: RankedTime) -> str:
    return "exact" if row.time.whole else f"{_us(row.low)} to {_us(row.high)}"


def _table(result: TuningResult, same: set[str], options: TuneSpaceOptions, above: int) -> Listing:
    """The first ones: with --details as many as were asked for, else those for which twelve lines have
    room."""
    rows = options.top if options.details else max(1, min(SHORT, options.top, LINES - HEADING - above))
    table = Listing()
    table.add_column("", justify="right")
    table.add_column("configuration", fold=True)
    table.add_column("us", justify="right")
    table.add_column("95 %", justify="right", drop=1)
    if options.details:
        table.add_column("by", drop=2)
    shown_rows: list[list[str]] = []
    for rank, row in enumerate(result.ranking[:rows], start=1):
        alike = f" (+{len(row.numbers) - 1} alike)" if len(row.numbers) > 1 else ""
        label = shown(_varying(result.space.label(row.numbers[0]), same) + alike)
        by = "whole grid" if row.time.whole else str(row.sample)
        shown_rows.append([str(rank), label, _us(row.seconds), _interval(row), by])
    wide = 30  # numbers beside the configuration
    if not options.details:
        room = LINES - HEADING - above
        while (
            len(shown_rows) > 1 and sum(-(-len(c[1]) // max(12, out.width - wide)) for c in shown_rows) > room
        ):
            shown_rows.pop()
    for cells in shown_rows:
        table.add_row(*cells[: 4 + options.details])
    return table


def _rest(result: TuningResult) -> list[str]:
    """How many were simulated, how the search ended, what failed, how the order fits."""
    found, space = result.search, result.space
    screened = len(found.times[0])
    told = f"{screened:,} codes simulated"
    if screened < len(found.groups):
        told += f", {len(found.groups) - screened:,} not reached"
    if space.restricted:
        told += f", {space.restricted:,} excluded"
    if found.ended == SETTLED:
        why = "the order is settled"
    else:
        reason = "longest sample" if found.ended == LONGEST else "budget used"
        why = f"{reason}, {len(found.open)} cannot be told apart"
    lines = [f"{told}; {why}"]
    if len(result.ranking) > 1:
        first, some = result.losses
        lines.append(
            f"on a card number 1 is {_behind(first)} slower than the best; the fastest of the first "
            f"{some.measured}, {_behind(some)}"
        )
    if result.failed:
        lines.append("without a time: " + ", ".join(f"{len(f.numbers):,} {f.reason}" for f in result.failed))
    if result.truth is not None:
        t = result.truth
        lines.append(
            f"of {t.n:,} measured: rank correlation {t.spearman:.3f}, the best is number {t.best_place} here"
        )
    return lines


def _behind(loss: ExpectedLoss) -> str:
    return f"{100 * loss.mean:.0f} % (up to {100 * loss.high:.0f} %)"


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
    if result.truth is not None:
        t = result.truth
        lines.append(f"the best measured is {_varying(t.best, same)}; the first here reaches ")
        lines[-1] += f"{t.fraction_first:.3f} of it, the best of the first ten {t.fraction_ten:.3f}"
    lines += list(result.space.notes)
    each = found.cpu_s / max(1, sum(map(len, found.times)))
    lines.append(
        f"{found.cpu_s:,.0f} s of processor time, {each:.2f} s a simulated code; {result.wall_s:,.0f} s"
    )
    return lines
