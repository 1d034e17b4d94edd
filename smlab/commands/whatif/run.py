"""What ``smlab whatif`` does: run a study, show progress, print its effects."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, shown
from smlab.commands.whatif.command import WhatifOptions
from smlab.hw_bench.errors import SmlabError
from smlab.sim.object_code.loading import ready

if TYPE_CHECKING:
    from smlab.commands.whatif.api import StudyAlternative
    from smlab.validation.experiments.design.study import Study
    from smlab.validation.experiments.effects.results import Effects
    from smlab.validation.experiments.run.outcome import StudyOutcome
    from smlab.validation.experiments.run.running import Progress as Told
    from smlab.validation.method.statistics import Interval

MAX_ANSWERS = 4
"""Lines that answer the question, before the table."""
MAX_ROWS, MAX_COLUMNS = 40, 4
"""Effects and responses that the terminal shows; the report has all."""


def write_example(path: Path | None) -> None:
    """``smlab whatif --example``: write a study to a file that is not there yet, or print it."""
    from smlab.validation.experiments.design.example import EXAMPLE

    if path is None:
        print(EXAMPLE, end="")
        return
    try:
        with path.open("x", encoding="utf-8") as f:
            f.write(EXAMPLE)
    except FileExistsError:
        expected = "a name that is free"
        raise SmlabError.at(str(path), "is there already, and is left as it is", expected=expected) from None
    except OSError as error:
        raise SmlabError(f"{path}: cannot be written: {error.strerror}") from error
    err.print(f"wrote {path}; run it with: smlab whatif {shlex.quote(str(path))}", soft_wrap=True)


def run_whatif(path: Path, options: WhatifOptions) -> bool:
    """``smlab whatif STUDY``, the study of ``path``; whether every point has its responses."""
    from smlab.commands.gpu_choice import constants_of
    from smlab.commands.whatif.api import RESULTS, whatif
    from smlab.validation.experiments.design.study import read_study
    from smlab.validation.experiments.run.outcome import Interrupted

    given = options.settings or []
    settings = constants_of(given, options.clock)
    study = read_study(path, settings)
    if options.dask is None:
        ready("engine")
    folder = RESULTS / study.name if options.out is None else options.out
    try:
        with _progress(study.name) as told:
            found = whatif(
                study, out=folder, jobs=options.jobs, dask=options.dask, resume=options.resume, progress=told
            )
    except KeyboardInterrupt as stopped:
        kept = f"{stopped.done:,} of {stopped.points:,}" if isinstance(stopped, Interrupted) else "all"
        changes = [] if options.clock is None else ["--clock", f"{options.clock:g}"]
        changes += [word for text in given for word in ("--set", text)]
        again = shlex.join(["smlab", "whatif", str(path), "--out", str(folder), *changes, "--resume"])
        err.print(f"kept {kept} points; to go on: {again}", markup=False, soft_wrap=True)
        raise
    outcome = found.outcome
    each = found.alternatives
    if options.as_json:
        document = {**_document(study, outcome), "set": settings}
        document["alternatives"] = [
            {"name": a.name, "weight": a.weight}
            | ({"impossible": a.reason} if a.outcome is None else _document(study, a.outcome))
            for a in each
        ]
        print_json(document)
    else:
        _show(study, outcome)
        if settings:
            each_set = ", ".join(f"{key} = {value}" for key, value in settings.items())
            out.print(f"set for every point: {each_set}", markup=False, soft_wrap=True)
        _show_alternatives(each)
    return not any(o.failed for o in (outcome, *(a.outcome for a in each)) if o is not None)


@contextmanager
def _progress(what: str) -> Iterator[Told | None]:
    """A bar with rate and time left, where standard error is a terminal."""
    if not err.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bars:
        task = bars.add_task(what, total=None, rate="")
        first: list[tuple[float, int]] = []

        def told(done: int, total: int, ran: int) -> None:
            # The rate is that of the workers once they are there.
            if ran and not first:
                first.append((time.monotonic(), ran))
            since = time.monotonic() - first[0][0] if first else 0.0
            rate = f"{(ran - first[0][1]) / since:,.0f} points/s" if since > 0 else ""
            bars.update(task, completed=done, total=total, rate=rate)

        yield told


def _document(study: Study, outcome: StudyOutcome) -> dict[str, Any]:
    times = outcome.times
    return {
        "study": study.name,
        "points": outcome.points,
        "done": outcome.done,
        "failed": outcome.failed,
        "effects": outcome.effects.as_json() if outcome.effects is not None else None,
        "ran": outcome.ran,
        "cases": outcome.cases,
        "rounds": outcome.rounds,
        "loose": outcome.loose,
        "failures": [
            {"case": f.case, "replication": f.replication, "settings": f.settings, "error": f.error}
            for f in outcome.failures
        ],
        "notes": list(outcome.notes),
        "wall_s": times.wall_s,
        "simulation_s": times.simulation_s,
        "overhead_s_per_point": times.overhead_s_per_point(outcome.ran),
        "out": str(outcome.folder),
    }


def _show(study: Study, outcome: StudyOutcome) -> None:
    out.print(study.title, style="bold", markup=False, soft_wrap=True)
    times = outcome.times
    before = outcome.points - outcome.ran
    out.print(
        f"{outcome.points:,} points ({outcome.cases:,} cases, the base among them), {outcome.ran:,} run now "
        f"in "
        f"{times.wall_s:.1f} s"
        + (f", {before:,} not: stored before, or the same as another" if before else ""),
        soft_wrap=True,
    )
    effects = outcome.effects
    if effects is not None:
        _show_effects(effects)
    for note in (*outcome.notes, *(effects.notes if effects is not None else ())):
        err.print(f"note: {note}", markup=False, soft_wrap=True)
    if outcome.loose:
        err.print(f"{outcome.loose:,} cases are not as tight as asked after stop.most_replications")
    if outcome.failed:
        err.print(f"{outcome.failed:,} points failed; the first ones:")
        for f in outcome.failures[:5]:
            settings = ", ".join(f"{key}={value}" for key, value in f.settings.items())
            err.print(f"  case {f.case} ({settings}): {f.error}", markup=False, soft_wrap=True)
    files = "points.csv, points.parquet" + (", report.html" if effects is not None else "")
    err.print(f"wrote {outcome.folder}: {files}", markup=False, soft_wrap=True)


def _show_alternatives(each: Sequence[StudyAlternative]) -> None:
    """What the leading answers are under each alternative of the GPU's description, where it leaves a
    choice."""
    for a in each:
        if a.outcome is None:
            err.print(f"note: cannot be asked under {a.name}: {a.reason}", markup=False, soft_wrap=True)
    told = [(a, a.outcome) for a in each if a.outcome is not None and a.outcome.effects is not None]
    if len(told) < 2:
        return
    from smlab.validation.experiments.effects.answers import answers

    lines = [dict(answers(outcome.effects)) for _, outcome in told]
    out.print("The evidence leaves open how this GPU's atomic unit works. The same under each alternative:")
    for what in list(lines[0])[:MAX_ANSWERS]:
        values = "; ".join(
            f"{line.get(what, 'not told')} if {a.name} (weight {a.weight:g})"
            for (a, _), line in zip(told, lines, strict=True)
        )
        out.print(f"  {shown(what)}: {values}", markup=False, soft_wrap=True)
    for a, outcome in told[1:]:
        err.print(f"wrote {outcome.folder}: the study under {a.name}", markup=False, soft_wrap=True)


def _show_effects(effects: Effects) -> None:
    """The answer, then the effects with their intervals: a column a response, a row a level of a factor, or
    a factor."""
    from smlab.validation.experiments.effects.answers import answers

    for what, value in answers(effects)[:MAX_ANSWERS]:
        out.print(f"{shown(what)}: {value}", markup=False, soft_wrap=True)
    first = effects.responses[:MAX_COLUMNS]
    rows: dict[tuple[str, str], dict[str, str]] = {}

    def add(response: str, heading: tuple[str, str], text: str) -> None:
        rows.setdefault(heading, {})[response] = text

    for response in first:
        name = response.response
        for e in response.levels:
            if e.against is not None:
                heading = (e.factor, f"{_plain(e.level)} for {_plain(e.reference)}")
                shares = name.startswith(("utilization", "error_", "stall."))
                if shares or e.against.ratio is None:
                    add(name, heading, _interval(e.against.difference, "+.4g"))
                else:
                    add(name, heading, "x " + _interval(e.against.ratio))
        for s in response.sobol:
            factor = " x ".join(s.factors)
            add(name, (factor, "Sobol index"), _interval(s.index))
            if s.total is not None:
                add(name, (factor, "Sobol index, total"), _interval(s.total))
        for r in response.ranks:
            add(name, (r.factor, "rank coefficient"), _interval(r.coefficient, "+.3f"))
        for c in response.ranking:
            add(name, (f"case {c.case}", c.label), _interval(c.mean))
    if not rows:
        return
    table = Listing("factor", "effect")
    for response in first:
        table.add_column(response.response, justify="right", fold=True)
    for place, cells in list(rows.items())[:MAX_ROWS]:
        table.add_row(*map(shown, place), *(cells.get(response.response, "") for response in first))
    out.print(table)
    left = [f"{len(rows) - MAX_ROWS} more effects"] if len(rows) > MAX_ROWS else []
    left += [r.response for r in effects.responses[MAX_COLUMNS:]]
    if left:
        out.print("In the report as well: " + ", ".join(left), soft_wrap=True)


def _interval(found: Interval, form: str = ".4g") -> str:
    """The estimate and, where there is one, its interval."""
    text = f"{found.estimate:{form}}"
    return f"{text} ({found.low:{form}} to {found.high:{form}})" if found.low < found.high else text


def _plain(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
