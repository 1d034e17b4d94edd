"""Reading what the suite measured (`smlab.hw_bench.cuda`) into cases. Rows whose kernel ran other machine
code than it should, or counted wrong, are left out; everything that is left out is listed with its
reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.cuda.measuring.dataset import find_table, read_note, read_table, table_bytes
from smlab.hw_bench.cuda.measuring.plan import AGAIN, ATOMIC_COLUMNS, LATENCY_COLUMNS
from smlab.hw_bench.errors import SmlabError
from smlab.validation.calibrate.cases import WHERE, Cases, Floats, Ints, Measured, SkippedCase
from smlab.validation.calibrate.noise import noise_of_median, noise_of_repetitions, outlier_shift


def trusted_rows(
    table: Mapping[str, NDArray[Any]], about: Mapping[str, Any], skipped: list[SkippedCase]
) -> dict[str, NDArray[Any]]:
    """The rows of ``table`` without those of kernels whose machine code broke the contract, or of launches
    with wrong results, as the data set's note ``about`` tells; what is left out is added to ``skipped``."""
    names = [f"{op}/{form}" for op, form in zip(table["operation"], table["form"], strict=True)]
    kernels = np.array(names, dtype="U48")
    kept = np.ones(len(kernels), dtype=bool)
    for name, code in about.get("machine_code", {}).items():
        if code.get("keeps_contract") is False:
            _leave_out(kernels == name, kept, skipped, name, f"its machine code: {code.get('fault')}")
    loops = [f"{n}/{b}" for n, b in zip(table["iterations"], table["blocks"], strict=True)]
    batches = np.char.add(np.char.add(kernels, "/"), np.array(loops, dtype="U24"))
    for name, batch in about.get("batches", {}).items():
        if batch.get("wrong_results"):
            _leave_out(
                batches == name.removesuffix(AGAIN),
                kept,
                skipped,
                name,
                f"{batch['wrong_results']} wrong results",
            )
    return {column: values[kept] for column, values in table.items()}


def _leave_out(
    rows: NDArray[np.bool_], kept: NDArray[np.bool_], skipped: list[SkippedCase], what: str, reason: str
) -> None:
    if (rows & kept).any():
        skipped.append(SkippedCase(what, int((rows & kept).sum()), reason))
    kept &= ~rows


_WITH_RESULT: Final = ("add-result", "max", "exchange")
WITHOUT_RESULT: Final = ("add", "popc-inc")
_REASONS: Final = {
    "float-add": "a loop of loads and compare-and-swaps, each lane in turn: the simulator has no such "
    "instruction",
    "independent": "four operations of a warp under way at a time: not a form of the simulator's table",
    "store/batch": "a store and the load behind it: the simulator's stores give no result to wait for",
    "none": "the frame of several warps, or of a chain without operations, whose code is another",
    "closing": "an operation without a result and the load behind it: when that load returns is not modelled",
    "mixed": "few warps with two kinds of operation: which comes first, or ends last, is a part of the time",
    "filling": "a stream of few warps: the queues are still filling while it is timed",
    "longer": "the longer loop took no longer than the shorter one: one of the two was disturbed",
    "apart": "warps that start far apart for what they take, which the simulator does not take over",
}
_MAX_SPREAD: Final = 0.03
"""Warps start together where the last start is within this share of the time from the first."""
_MAX_LOOP_SPREAD: Final = 0.25
_MIXED: Final = 16
"""From so many warps on, which kind of operation comes first, or ends last, is a small part of the time."""
_STREAMING: Final = 8
"""From so many warps on, a stream has filled the queues when its timed part begins, and a warp alone on its
sub-core is not held up by its own loop where the unit is fast."""

_CODE_CYCLES: Final = 0.8
"""Standard deviation of a cycle more or less by where the assembler places the clock, and of another by whole
cycles, each evenly spread."""
_LEAST_NOISE: Final = 0.01
"""Of a time against the simulator, whose own shortcuts are no better."""

_FAR: Final = 6.0
"""A repetition so many standard deviations from its row's median is no noise."""

_OF_LAUNCH: Final = ("operation", "form", "iterations", "blocks")
"""Columns in which neighbouring launches differ."""

Table = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class MeasuredSet:
    """A data set as cases of the atomic unit and of the shared-memory pipe.

    The cases of both units contain those of the frame, one warp that does nothing, where that was measured.
    Where a repetition lay far from the others, the time is corrected for what that does to a median
    (`undisturbed`): in ``disturbed_rows``.
    """

    folder: Path
    about: Mapping[str, Any]
    digest: str
    atomics: Cases
    shared: Cases
    skipped: tuple[SkippedCase, ...]
    disturbed_rows: int

    @property
    def simulated(self) -> bool:
        """Whether the data set was made by the simulator."""
        return "simulated_truth" in self.about or "SIMULATED" in self.about

    def name(self) -> str:
        """Where the data came from, in words."""
        by = "SIMULATED, not measured: " if self.simulated else "measured on "
        return f"{by}{self.about.get('gpu')}, {self.about.get('began', 'undated')}"


def read_set(folder: Path) -> MeasuredSet:
    """Read ``shared-atomics``, and ``shared-banks`` and ``latency`` where they are there.

    Raises:
        SmlabError: a folder without ``shared-atomics.csv`` and its JSON, or a row that cannot be; file and
        row are named.
    """
    about = _about(folder / "shared-atomics.json")
    path = find_table(folder, "shared-atomics")
    if path is None:
        raise SmlabError(f"{folder / 'shared-atomics.csv'}: there is no such file, nor one ending in .csv.gz")
    skipped: list[SkippedCase] = []
    table, disturbed = undisturbed(trusted_rows(_table(path, ATOMIC_COLUMNS), about, skipped))
    digest = sha256(table_bytes(path))
    counting = tuple(map(int, str(about.get("compute_capability")).split("."))) >= (8, 0)
    frame = _frame(table, str(path))
    atomics = Cases.join([frame, _atomics(table, str(path), counting, skipped)])
    parts = []
    banks, latency = find_table(folder, "shared-banks"), find_table(folder, "latency")
    if banks is not None:
        digest.update(table_bytes(banks))
        note = _about(folder / "shared-banks.json", "shared-banks")
        of_banks, more = undisturbed(trusted_rows(_table(banks, ATOMIC_COLUMNS), note, skipped))
        disturbed += more
        parts.append(_banks(of_banks, str(banks), skipped))
    if latency is not None:
        digest.update(table_bytes(latency))
        parts.append(_chains(_table(latency, LATENCY_COLUMNS), str(latency)))
    shared = Cases.join([frame, *parts]) if parts else Cases.none()
    # Launches of two benchmarks, between which others ran: when each was is not known.
    shared = replace(shared, moment=0 * shared.moment)
    return MeasuredSet(folder, about, digest.hexdigest(), atomics, shared, tuple(skipped), disturbed)


def _about(path: Path, benchmark: str = "shared-atomics") -> dict[str, Any]:
    try:
        about = read_note(path)
    except SmlabError as error:
        raise SmlabError(f"{error}; a data set is a folder that `smlab bench run` wrote") from error
    if about.get("benchmark") != benchmark:
        raise SmlabError.at(str(path), "is not the note of a data set", expected=f"benchmark: {benchmark}")
    if about.get("complete") is False:
        why = about.get("failure")
        raise SmlabError(
            f"{path}: the run did not end{f' ({why})' if why else ''}; `smlab bench run --resume` measures "
            "the rest"
        )
    parts = str(about.get("compute_capability")).split(".")
    if len(parts) != 2 or not all(re.fullmatch("[0-9]{1,2}", part) for part in parts):
        raise SmlabError.at(
            f"{path}: compute_capability", "is not a version", about.get("compute_capability")
        )
    return about


def _table(path: Path, columns: tuple[str, ...]) -> Table:
    table = read_table(path)
    missing = [column for column in columns if column not in table]
    if missing:
        raise SmlabError.at(str(path), "lacks a column", missing[0], ", ".join(columns))
    for column in columns:
        if column in {"operation", "form", "kernel"}:
            continue
        values = table[column]
        bad = [at for at, value in enumerate(values) if not _usable(value)]
        if bad:
            raise SmlabError.at(
                f"{path}, row {bad[0] + 2}, {column}", "is not a number of 0 or more", str(values[bad[0]])
            )
    return table


def _usable(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and 0 <= float(value) < np.inf


def _frame(table: Table, where: str) -> Cases:
    """One warp that does nothing. Its code is not that around an operation, so it tells an operation's frame
    to within a cycle or two, which counts for little only where noise is larger."""
    rows = (table["operation"] == "none") & (table["warps"] == 1) & (table["form"] == "batch")
    part = _cases(table, where, rows, "frame", table["cycles_median"][rows], 1.0)
    noise = max(float(np.median(noise_of_rows(table))), _LEAST_NOISE)
    weight = noise / np.hypot(noise, _CODE_CYCLES / part.cycles)
    return Cases(**{**vars(part), "iterations": 0 * part.iterations, "weight": weight})


def _cases(
    table: Table,
    where: str,
    rows: NDArray[np.bool_],
    form: str,
    cycles: Any,
    weight: float,
    moments: Floats | None = None,
) -> Cases:
    at = np.flatnonzero(rows)
    cycles = np.asarray(cycles, dtype=np.float64)
    bad = np.flatnonzero(cycles <= 0)
    if len(bad):
        row = int(at[bad[0]]) + 2
        raise SmlabError.at(f"{where}, row {row}", "takes no time", cycles[bad[0]])
    columns = np.array([table[c][rows].astype(np.int64) for c in WHERE])
    operations = table["operation"][rows].tolist()
    # A difference of two launches has what is wrong with either; bursts of each length are a launch.
    of_length = table["iterations"][rows].tolist() if form == "burst" else ["" for _ in operations]
    launch = [
        "/".join(map(str, (operation, form, *which)))
        for operation, *which in zip(
            operations, table["blocks"][rows].tolist(), of_length, times_before(table)[rows], strict=True
        )
    ]
    if moments is None:
        moments = moments_of(table)[rows]
    return Cases.build(
        operations, form, columns, cycles, weight, Measured(launch, noise_of_rows(table)[rows], moments)
    )


def _launches_of(table: Table) -> tuple[Ints, Table]:
    """The number of the launch of each row, and what launches are told apart by. Rows lie in the order of
    launches."""
    parts = {name: np.asarray(table[name]).astype("U16") for name in _OF_LAUNCH}
    changes = np.zeros(len(table["operation"]), dtype=bool)
    for part in parts.values():
        changes[1:] |= part[1:] != part[:-1]
    return np.cumsum(changes), parts


def moments_of(table: Table) -> Floats:
    """When in the run each row's launch was: 0 the first, 1 the last."""
    launch, _ = _launches_of(table)
    return np.asarray(launch / max(int(launch.max(initial=0)), 1), dtype=np.float64)


def times_before(table: Table) -> Ints:
    """How many launches of the same kernel, iterations and blocks there were before that of each row."""
    launch, parts = _launches_of(table)
    seen: dict[tuple[str, ...], int] = {}
    before = []
    for first in np.unique(launch, return_index=True)[1]:
        name = tuple(str(part[first]) for part in parts.values())
        before.append(seen.get(name, 0))
        seen[name] = before[-1] + 1
    return np.array(before, dtype=np.int64)[launch]


def noise_of_rows(table: Table) -> Floats:
    """The relative noise of each row's median, as its repetitions tell it."""
    told: Floats = table["relative_noise"].astype(np.float64)
    return told * noise_of_median(table["samples"].astype(np.int64))


def undisturbed(table: Table) -> tuple[Table, int]:
    """The table with the medians of what was not disturbed, and how many rows were.

    A median stands a few outliers, but not without a shift: with one far above, that of five repetitions is
    the third of the other four. Where the largest or the smallest repetition lies further off than noise
    explains, the shift is taken away in the mean. Without it, all times of a set with outliers are a little
    too long together, which no interval of independent errors covers.
    """
    samples = table["samples"].astype(np.int64) - table["steady_from"].astype(np.int64)
    told = noise_of_repetitions(table["relative_noise"], samples)
    # Rows of few repetitions tell little each: as in the test of lack of fit, all tell it together.
    noise = float(np.median(told[told > 0])) if (told > 0).any() else 0.0
    medians = table["cycles_median"].astype(np.float64)
    shifts = {int(n): outlier_shift(int(n)) for n in np.unique(samples)}
    shift = np.array([shifts[int(n)] for n in samples], dtype=np.float64)
    known = np.isfinite(shift) & (medians > 0)
    far = np.maximum(_FAR * noise * medians, 1.0)
    above = known & (table["cycles_max"] - medians > far)
    below = known & (medians - table["cycles_min"] > far)
    # Two on opposite sides leave the median where it is.
    sides = above.astype(np.int64) - below
    off = sides * np.where(known, shift, 0.0) * noise
    return {**table, "cycles_median": medians * (1 - off)}, int((off != 0).sum())


def starts_at_once(table: Table, spread: float = _MAX_SPREAD) -> NDArray[np.bool_]:
    """Rows whose warps start together, as those of a batch or a burst must: within the share ``spread`` of
    their time."""
    starts, cycles = table["issue_cycles_median"], table["cycles_median"]
    return np.asarray(starts <= np.maximum(spread * cycles, 1))


def _batches(
    table: Table, where: str, rows: NDArray[np.bool_], operation: str, skipped: list[SkippedCase]
) -> Cases:
    """All warps at once, where they do start at once."""
    cycles = table["cycles_median"]
    n, c = table["warps"], table["cas_warps"]
    spread = ~starts_at_once(table)
    _skip(skipped, f"{operation} batch", rows & spread, "apart")
    few = rows & ~spread & (c > 0) & (c < n) & (n < _MIXED)
    _skip(skipped, f"{operation} batch", few, "mixed")
    kept = rows & ~spread & ~few
    return _cases(table, where, kept, "batch", cycles[kept], 1.0)


def _skip(skipped: list[SkippedCase], what: str, rows: NDArray[np.bool_], why: str) -> None:
    if rows.any():
        skipped.append(SkippedCase(what, int(rows.sum()), _REASONS[why]))


def _differences(
    table: Table, where: str, rows: NDArray[np.bool_], form: str, skipped: list[SkippedCase]
) -> list[Cases]:
    """Cycles of one round, from the same loops run with two numbers of iterations: free of beginning and
    end."""
    if not rows.any():
        return []
    operation = str(table["operation"][rows][0])
    # When warps start counts for nothing in a difference, unless they hardly run together.
    spread = rows & ~starts_at_once(table, _MAX_LOOP_SPREAD)
    _skip(skipped, f"{operation} {form}", spread, "apart")
    rows = rows & ~spread
    if not rows.any():
        return []
    counts = np.unique(table["iterations"][rows])
    if len(counts) < 2:
        reason = "loops were run with one number of iterations only"
        skipped.append(SkippedCase(f"{operation} {form}", int(rows.sum()), reason))
        return []
    low, high = int(counts[0]), int(counts[-1])
    keys = ("warps", "cas_warps", "lanes", "same_word", "same_bank")
    first = rows & (table["iterations"] == low)
    known = {
        key: cycles
        for *key_parts, cycles in zip(
            *(table[k][first] for k in keys), table["cycles_median"][first], strict=True
        )
        for key in [tuple(key_parts)]
    }
    second = np.flatnonzero(rows & (table["iterations"] == high))
    pairs = [(at, known.get(tuple(table[k][at] for k in keys))) for at in second]
    lone = sum(before is None for _, before in pairs) + (len(known) - sum(b is not None for _, b in pairs))
    if lone:
        skipped.append(
            SkippedCase(f"{operation} {form}", lone, "measured with one number of iterations only")
        )
    cycles_of = table["cycles_median"]
    both = [(at, before) for at, before in pairs if before is not None]
    kept = [(at, before) for at, before in both if cycles_of[at] > before]
    chosen, disturbed = np.zeros((2, len(rows)), dtype=bool)
    chosen[[at for at, _ in kept]] = True
    disturbed[[at for at, _ in both]] = True
    _skip(skipped, f"{operation} {form}", disturbed & ~chosen, "longer")
    cycles = (cycles_of[chosen] - np.array([b for _, b in kept], dtype=np.float64)) / (high - low)
    # A drift from one launch to the other counts in full, and more than once, in their difference.
    at = moments_of(table)
    moments = (high * at[chosen] - low * at[first].mean()) / (high - low)
    weight = (high - low) / float(np.hypot(high, low))
    return [_cases(table, where, chosen, form, cycles, weight, moments)]


def _atomics(table: Table, where: str, counting: bool, skipped: list[SkippedCase]) -> Cases:
    parts = []
    operations, forms = table["operation"].astype("U16"), table["form"].astype("U16")
    for operation in dict.fromkeys(operations.tolist()):
        for form in dict.fromkeys(forms[operations == operation].tolist()):
            rows = (operations == operation) & (forms == form)
            count = int(rows.sum())
            if operation == "none":
                rest = int((rows & ~((table["warps"] == 1) & (forms == "batch"))).sum())
                if rest:
                    skipped.append(SkippedCase(f"none {form}", rest, _REASONS["none"]))
                continue
            if operation not in _WITH_RESULT + WITHOUT_RESULT:
                reason = _REASONS.get(operation, "an operation that the simulator does not have")
                skipped.append(SkippedCase(f"{operation} {form}", count, reason))
            elif form == "batch" and operation in WITHOUT_RESULT:
                skipped.append(SkippedCase(f"{operation} {form}", count, _REASONS["closing"]))
            elif form == "batch":
                parts.append(_batches(table, where, rows, operation, skipped))
            elif form == "burst":
                kept = rows & starts_at_once(table)
                _skip(skipped, f"{operation} burst", rows & ~kept, "apart")
                parts.append(_cases(table, where, kept, form, table["cycles_median"][kept], 1.0))
            elif form == "dependent":
                mixed = (table["cas_warps"] > 0) & (table["cas_warps"] < table["warps"])
                few = rows & mixed & (table["warps"] < _MIXED)
                _skip(skipped, f"{operation} {form}", few, "mixed")
                parts += _differences(table, where, rows & ~few, "looped", skipped)
            elif form == "independent" and operation in WITHOUT_RESULT:
                few = rows & (table["warps"] < _STREAMING)
                _skip(skipped, f"{operation} {form}", few, "filling")
                parts += _differences(table, where, rows & ~few, "stream", skipped)
            else:
                reason = _REASONS.get(form, "a form that the simulator does not have")
                skipped.append(SkippedCase(f"{operation} {form}", count, reason))
    if not parts:
        raise SmlabError.at(where, "has no rows to compare with the simulator")
    cases = Cases.join(parts)
    # The counting instruction exists from Ampere on; before, the same source is an addition.
    operation = (
        cases.operation if counting else np.where(cases.operation == "popc-inc", "add", cases.operation)
    )
    cases = Cases(**{**vars(cases), "operation": operation})
    mixed = (cases.operation == "popc-inc") & (cases.cas_warps > 0) & (cases.same_bank > 1)
    if mixed.any():
        reason = "counting beside compare-and-swap, with several words on a bank"
        skipped.append(SkippedCase("popc-inc", int(mixed.sum()), reason))
    return cases.select(~mixed)


def _banks(table: Table, where: str, skipped: list[SkippedCase]) -> Cases:
    parts = [Cases.none()]
    operations, forms = table["operation"].astype("U16"), table["form"].astype("U16")
    pairs = dict.fromkeys(zip(operations.tolist(), forms.tolist(), strict=True))
    for operation, form in pairs:
        rows = (operations == operation) & (forms == form)
        if (operation, form) == ("load", "batch"):
            parts.append(_batches(table, where, rows, operation, skipped))
        elif (operation, form) == ("load", "dependent"):
            parts += _differences(table, where, rows, "looped", skipped)
        elif (operation, form) == ("store", "independent"):
            parts += _differences(table, where, rows, "stream", skipped)
        else:
            reason = _REASONS.get(f"{operation}/{form}") or _REASONS.get(
                form, "not among the simulator's forms"
            )
            skipped.append(SkippedCase(f"{operation} {form}", int(rows.sum()), reason))
    return Cases.join(parts)


def _chains(table: Table, where: str) -> Cases:
    """Load to load of the pointer chase in shared memory."""
    rows = table["kernel"].astype("U32") == "shared"
    cycles = table["cycles_per_link_median"][rows].astype(np.float64)
    if (cycles <= 0).any():
        raise SmlabError.at(where, "a chain of loads takes no time", float(cycles.min()))
    columns = np.ones((len(WHERE), len(cycles)), dtype=np.int64)
    columns[WHERE.index("cas_warps")] = 0
    return Cases.build(["load"] * len(cycles), "chain", columns, cycles, 1.0)
