"""The study file: a question to the simulator, written in TOML, checked whole before anything runs.

::

    title = "What do latency and interval of the atomic unit cost?"
    question = "..."                        # optional, for the report
    responses = ["cycles", "utilization", "speedup"]
    level = 0.95                            # of all intervals

    [base]
    gpu = "v100"                            # a name, or a description's path from this file
    workload = "atomics"                    # built-in, or a workload file's path from this file
    set.warps = 16                          # settings for all points, by key
    set.gpu.atomic.queue_entries = 8

    [factors]
    warps = [4, 8, 16]                      # a key and its values
    gpu.sm.scheduler_policy = ["gto", "lrr"]
    gpu.atomic.add.latency_cycles = { range = [10, 100], levels = 4 }

    [factors.interval]                      # a name of your own, and the keys that it scales
    scale = ["gpu.atomic.add.base_interval_cycles", "gpu.atomic.add.pass_interval_cycles"]
    values = [0.5, 1, 2]

    [design]
    kind = "grid"                           # grid, one-at-a-time, sobol or random
    replications = 4
    seed = 1

*Keys.* ``gpu.KEY`` is a constant of the GPU (`smlab gpus NAME` lists them), ``gpu`` the GPU itself. Any
other key is the workload's: an argument of a built-in one (``warps``), or the place of a value in a
workload file, with numbers for lists (``kernel.blocks``, ``program.0.body.0.loop``). ``model =
"ishigami"`` in place of ``gpu`` and ``workload`` makes a study of a closed form;
`smlab.validation.experiments.systems.formulas` has them. Keys may be quoted (``"gpu.sm.schedulers"``) or
not.

*A kernel.* In place of ``workload``, ``kernel`` is the path of a ``.cu``, ``.cubin`` or ``.sass`` file
and ``launch`` that of its launch (see `smlab.sim.isa.launch.launch_file`); ``name`` says which kernel
of several, ``sms`` how many SMs run. Its keys and responses are those of
`smlab.validation.experiments.systems.machine_code`: ``define.TILE``, ``launch.block.x``; ``count.fp32``.

*Factors.* A factor sets the key that it is named after; ``keys = [...]`` sets several keys to one value;
``scale = [...]`` multiplies what they are in the base. It goes over one of

- ``[...]`` or ``values = [...]``: equally likely where it is drawn;
- ``of = ["v100", "a100-40"]``: the values of the key on those GPUs;
- ``range = [low, high]``, ``log_range = [low, high]``: uniform, or uniform in the logarithm; with ``levels
  = 5`` in a grid;
- ``distribution``, one of ``"uniform"`` and ``"log-uniform"`` (``low``, ``high``), ``"triangular"``
  (``low``, ``mode``, ``high``), ``"normal"`` (``mean``, ``sd``) and ``"lognormal"`` (``median``, and
  ``spread``, its geometric standard deviation). The last two may be cut off at ``low`` and ``high``.

``base = VALUE`` gives it another value in the base than the GPU or the workload has.

*Designs.* ``grid``: all combinations of levels. ``one-at-a-time``: each level of each factor, the others
as in the base. ``sobol``: Saltelli's sample of ``samples`` (a power of two) times (factors + 2), or times
(2 factors + 2) with ``second_order = true``. ``random``: ``samples`` independent points. ``listed``: the
lines of ``cases``, a CSV file beside the study with a column for each factor (a tuning space). The base
is case 0 of every design, run once and shared.

*Replications.* Replication r has the same seed in all cases, so that differences from the base are
paired; ``common_random_numbers = false`` makes them independent. Where nothing is random, one replication
is run.

*Stopping.* With a table ``[stop]``, cases are replicated until their interval is as tight as asked::

    [stop]
    response = "cycles"
    of = "ratio"                            # to the base (paired), or "difference", or the "mean" itself
    half_width = 0.01                       # or relative_half_width = 0.01, of the estimate
    most_replications = 100

*Alternatives.* Where the description of the base's GPU carries alternatives and the kernel uses what they
are of, ``smlab whatif`` asks the study under each: GPUs are taken under their alternative of that name,
and what the study sets comes on top. A study that is about a value that the alternative has not cannot be
asked.

*Responses* of the simulator: ``cycles``, ``seconds`` (cycles over ``gpu.clock.sm_hz``), ``speedup`` (the
base's seconds over them), ``warp_instructions``, ``instructions_per_cycle`` (an SM), ``resident_warps``
(mean over active cycles); of the atomic unit ``jobs``, ``utilization``, ``n_mean``, ``e_mean``,
``c_mean``, ``service_cycles`` (see `smlab.sim.result.AtomicSummary`); ``utilization_occupancy`` and
``utilization_closed``, the estimates from what a profiler counts, ``error_occupancy_points`` and
``error_closed_points``, estimate less truth in percentage points; ``stall.REASON``, the share of resident
warp cycles, and ``stalls`` for all of them.
"""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.csv_cells import check_cells
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import check_lines, load_toml, read_bytes, resolved
from smlab.validation.experiments.design.design import Design, make_design
from smlab.validation.experiments.design.factors import Factor, make_factor
from smlab.validation.experiments.design.values import Value
from smlab.validation.experiments.design.written import File, Stop, checked, factor_tables, flat
from smlab.validation.experiments.systems.base import SPEEDUP, asked_responses, make_system, value_on
from smlab.validation.experiments.systems.systems import System

STUDY_FILE: Final = "study.toml"

RESERVED: Final = ("case", "replication", "seed", "error")
"""Columns of the table of points that no factor may be called."""

ENOUGH: Final = 10
"""Replications for stopping to begin with; `smlab.validation.experiments.run.stopping` tells what fewer
cost."""

TRIED_CASES: Final = 64
"""Other cases in which a level is tried that the base does not allow, before the study is refused."""


@dataclass(frozen=True, eq=False)
class Study:
    """A checked study.

    ``responses`` are what it asks for; ``system.responses`` what is stored of a point (``speedup`` is made of
    ``seconds`` and the base's). ``random`` says whether anything in it depends on the seed; ``replications``
    is 1 where nothing does. ``origin`` is what it was read from, and ``alternative`` the reading of the
    evidence that its GPUs are taken under, or None for that of their descriptions.
    """

    name: str
    where: str
    title: str
    question: str
    system: System
    factors: tuple[Factor, ...]
    responses: tuple[str, ...]
    level: float
    kind: str
    samples: int
    second_order: bool
    rows: tuple[tuple[Value, ...], ...]
    replications: int
    seed: int
    common_random_numbers: bool
    stop: Stop | None
    random: bool
    notes: tuple[str, ...]
    origin: tuple[Mapping[str, Any], str, Path, str]
    alternative: str | None = None

    def under(self, alternative: str) -> Study:
        """The same study with its GPUs under their alternative of that name.

        `SmlabError` where a level is impossible there, or where a factor is about what the alternative sets:
        its list or its stated base has the description's own value and not the alternative's.
        """
        found = parse_study(*self.origin, alternative)
        for here, there in zip(self.factors, found.factors, strict=True):
            for own, other in zip(here.keys, there.keys, strict=True):
                if here.scales or own.base == other.base:
                    continue
                listed = here.distribution is None and own.base in here.levels
                stated = own.base in (None, here.base) and there.base == here.base
                if stated or (listed and other.base not in there.levels):
                    said = f"is about {own.name} = {here.base}, which is {other.base} under {alternative!r}"
                    raise SmlabError(f"{self.where}: factors.{here.name}: {said}")
        return found

    @cached_property
    def design(self) -> Design:
        """The cases, the base being number 0."""
        return make_design(self.kind, self.factors, self.samples, self.second_order, self.seed, self.rows)

    def settings(self, values: tuple[Value, ...]) -> dict[str, Value]:
        """What a case sets, by key, from the values of its factors."""
        found: dict[str, Value] = {}
        for factor, value in zip(self.factors, values, strict=True):
            found.update(factor.settings(value))
        return found


def read_study(path: Path, settings: Mapping[str, Any] | None = None) -> Study:
    """Read and check a study: a file, or the folder of one that is called ``study.toml``, which then gives it
    its name. ``settings`` by key go before what its base sets.

    `SmlabError` with the place on anything that is wrong or impossible.
    """
    if path.is_dir():
        path = path / STUDY_FILE
    name = resolved(path).parent.name if path.name == STUDY_FILE else path.stem
    raw = load_toml(path)
    base = raw.get("base")
    if settings and isinstance(base, dict) and isinstance(base.get("set", {}), dict):
        base["set"] = {**flat(base.get("set", {})), **settings}
    return parse_study(raw, str(path), path.parent, name)


def parse_study(
    raw: Mapping[str, Any], where: str, folder: Path, name: str, alternative: str | None = None
) -> Study:
    """A study from its parsed file. ``where`` names the file in messages; paths in it start from ``folder``;
    GPUs are taken under their ``alternative`` of that name."""
    file = checked(File, dict(raw), where)
    written = factor_tables(where, file.factors)
    responses = asked_responses(where, file)
    system = make_system(where, folder, file, responses, written, alternative)
    value_of = partial(value_on, folder, alternative)
    factors = tuple(
        make_factor(f"{where}: factors.{key}", key, factor, system.key, value_of)
        for key, factor in written.items()
    )
    _check_names(where, factors, responses)
    samples = _check_design(where, file, factors)
    study = Study(
        name=name,
        where=where,
        title=file.title,
        question=file.question,
        system=system,
        factors=factors,
        responses=responses,
        level=float(file.level),
        kind=file.design.kind,
        samples=samples,
        second_order=bool(file.design.second_order),
        rows=_listed(where, folder, file, factors),
        replications=file.design.replications,
        seed=file.design.seed,
        common_random_numbers=file.design.common_random_numbers,
        stop=file.stop,
        random=False,
        notes=(),
        origin=(raw, where, folder, name),
        alternative=alternative,
    )
    return _tried(study)


def _check_names(where: str, factors: tuple[Factor, ...], responses: tuple[str, ...]) -> None:
    by_key: dict[str, str] = {}
    for factor in factors:
        if factor.name in (*RESERVED, *responses):
            what = "a factor needs another name: the table of points has a column of this one"
            raise SmlabError.at(
                f"{where}: factors.{factor.name}", what, expected="keys = [...] with a name of your own"
            )
        for key in factor.keys:
            if key.name in by_key:
                what = f"is set by factor {by_key[key.name]} already"
                raise SmlabError.at(f"{where}: factors.{factor.name}", what, key.name)
            by_key[key.name] = factor.name


def _check_design(where: str, file: File, factors: tuple[Factor, ...]) -> int:
    """The number of samples, once everything that does not go together is refused."""
    design, stop = file.design, file.stop
    drawn = design.kind in ("sobol", "random")
    if drawn and design.samples is None:
        raise SmlabError.at(f"{where}: design.samples", "missing", expected=f"how many, for {design.kind}")
    if not drawn and design.samples is not None:
        raise SmlabError.at(f"{where}: design.samples", f"has no meaning for {design.kind}", design.samples)
    if design.kind != "sobol" and design.second_order is not None:
        raise SmlabError.at(
            f"{where}: design.second_order", f"has no meaning for {design.kind}", design.second_order
        )
    samples = design.samples or 0
    if design.kind == "sobol" and (samples & (samples - 1) or samples < 2):
        raise SmlabError.at(
            f"{where}: design.samples", "not a power of two", samples, "a power of two, such as 256"
        )
    if design.kind == "sobol":
        for factor in factors:
            if factor.distribution is None and len(factor.levels) < 2:
                place, what = f"{where}: factors.{factor.name}", "has one value, so it explains no variance"
                raise SmlabError.at(place, what, expected="two values or more")
    if stop is not None:
        if (stop.half_width is None) == (stop.relative_half_width is None):
            raise SmlabError.at(
                f"{where}: stop", "needs half_width or relative_half_width", expected="one of them"
            )
        if stop.response == SPEEDUP:
            expected = 'seconds, with of = "ratio"'
            raise SmlabError.at(f"{where}: stop.response", "is itself a ratio to the base", SPEEDUP, expected)
        if design.kind == "sobol":
            what = "Sobol indices get tighter with more samples, not with more replications"
            raise SmlabError.at(f"{where}: stop", what, expected="no table [stop], or another design")
        if design.replications < 2 or design.replications > stop.most_replications:
            expected = f"2 to stop.most_replications = {stop.most_replications}, to begin with"
            raise SmlabError.at(
                f"{where}: design.replications", "out of range", design.replications, expected
            )
    return samples


def _listed(
    where: str, folder: Path, file: File, factors: tuple[Factor, ...]
) -> tuple[tuple[Value, ...], ...]:
    """The cases of a list, one value a factor each."""
    place, listed = f"{where}: design.cases", file.design.kind == "listed"
    if file.design.cases is None or not listed:
        if listed or file.design.cases is not None:
            what = "missing" if listed else f"has no meaning for {file.design.kind}"
            raise SmlabError.at(
                place, what, file.design.cases, "a CSV file's path from here, with kind = listed"
            )
        return ()
    path = folder / file.design.cases
    content = read_bytes(path, "a list of cases (CSV)")
    check_lines(str(path), content)
    check_cells(str(path), content)
    with io.StringIO(content.decode("utf-8", "replace"), newline="") as f:
        table = csv.DictReader(f)
        names = [factor.name for factor in factors]
        if sorted(table.fieldnames or ()) != sorted(names):
            found = ", ".join(table.fieldnames or ()) or "none"
            raise SmlabError.at(str(path), "has other columns than factors", found, ", ".join(names))
        rows = []
        for line in table:
            at = f"{path}: line {table.line_num}"
            rows.append(tuple(_of_factor(f"{at}: {x.name}", x, line[x.name]) for x in factors))
    if not rows:
        raise SmlabError.at(str(path), "has no case", None, "a line each")
    return tuple(rows)


def _of_factor(where: str, factor: Factor, text: str | None) -> Value:
    """The value of a factor that a cell means; of a list of values, one of them."""
    for level in factor.levels:
        if text is not None and text.strip() == str(level):
            return level
    if factor.distribution is not None and text is not None:
        with contextlib.suppress(ValueError):
            return int(text) if factor.whole else float(text)
    raise SmlabError.at(where, "not a value of the factor", text, ", ".join(map(str, factor.levels[:12])))


def _tried(study: Study) -> Study:
    """The study with what trying its levels tells: whether anything is random. `SmlabError` for a level
    that cannot be."""
    try:
        random = study.system.check(study.settings(study.design.values(0)))
    except SmlabError as error:
        raise SmlabError(f"{study.where}: base: cannot run: {error}") from error
    for i, factor in enumerate(study.factors):
        for value in dict.fromkeys(factor.ends):
            random |= _try_level(study, i, value)
    notes, replications, stop = [], study.replications, study.stop
    if not random and (replications > 1 or stop is not None):
        notes.append("nothing in this study is random: one replication tells all")
        replications, stop = 1, None
    if stop is not None and replications < ENOUGH:
        notes.append(
            f"stopping begins with {replications} replications, so that intervals cover less than they say: "
            f"begin with {ENOUGH} or more"
        )
    return replace(study, random=random, replications=replications, stop=stop, notes=tuple(notes))


def _try_level(study: Study, place: int, value: Value) -> bool:
    """Whether a level is random; refused if neither the base nor any other case that is tried can have it."""
    factor = study.factors[place]
    first: SmlabError | None = None
    cases = range(0, study.design.size + 1, max(1, study.design.size // TRIED_CASES))
    for case in cases if study.kind != "one-at-a-time" else [0]:
        values = study.design.values(case)
        try:
            return study.system.check(study.settings((*values[:place], value, *values[place + 1 :])))
        except SmlabError as error:
            first = first or error
    where = f"{study.where}: factors.{factor.name}"
    raise SmlabError(f"{where}: impossible at {value!r}: {first}") from first
