"""Reading what the suite measured (`smlab.hw_bench.cuda`) into cases, everything that is left out listed
with its reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from smlab.hw_bench.cuda.measuring.dataset import find_table, read_table, table_bytes
from smlab.hw_bench.cuda.measuring.plan import ATOMIC_COLUMNS, LATENCY_COLUMNS
from smlab.hw_bench.errors import SmlabError
from smlab.validation.calibrate.cases import WHERE, Cases, SkippedCase

_WITH_RESULT: Final = ("add-result", "max", "exchange")
_WITHOUT: Final = ("add", "popc-inc")
_REASONS: Final = {
    "float-add": "a loop of loads and compare-and-swaps, each lane in turn: the simulator has no such "
    "instruction",
    "independent": "four operations of a warp under way at a time: not a form of the simulator's table",
    "store/batch": "a store and the load behind it: the simulator's stores give no result to wait for",
    "none": "the frame of several warps: how far apart they start, which the simulator does not take over",
}

Table = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class MeasuredSet:
    """A data set as cases of the atomic unit and of the shared-memory pipe.

    The cases of both units contain those of the frame, one warp that does nothing, where that was measured.
    """

    folder: Path
    about: Mapping[str, Any]
    digest: str
    atomics: Cases
    shared: Cases
    skipped: tuple[SkippedCase, ...]

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
    table = _table(path, ATOMIC_COLUMNS)
    digest = sha256(table_bytes(path))
    skipped: list[SkippedCase] = []
    counting = tuple(map(int, str(about.get("compute_capability")).split("."))) >= (8, 0)
    frame = _frame(table, str(path))
    atomics = Cases.join([frame, _atomics(table, str(path), counting, skipped)])
    parts = []
    banks, latency = find_table(folder, "shared-banks"), find_table(folder, "latency")
    if banks is not None:
        digest.update(table_bytes(banks))
        parts.append(_banks(_table(banks, ATOMIC_COLUMNS), str(banks), skipped))
    if latency is not None:
        digest.update(table_bytes(latency))
        parts.append(_chains(_table(latency, LATENCY_COLUMNS), str(latency)))
    shared = Cases.join([frame, *parts]) if parts else Cases.none()
    return MeasuredSet(folder, about, digest.hexdigest(), atomics, shared, tuple(skipped))


def _about(path: Path) -> dict[str, Any]:
    try:
        about = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise SmlabError(
            f"{path}: cannot be read ({why}); a data set is a folder that `smlab bench run` wrote"
        ) from error
    if not isinstance(about, dict) or about.get("benchmark") != "shared-atomics":
        raise SmlabError.at(str(path), "is not the note of a data set", expected="benchmark: shared-atomics")
    parts = str(about.get("compute_capability")).split(".")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
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
    """One warp that does nothing: no operation, or a chain of nothing but links."""
    alone = (table["operation"] == "none") & (table["warps"] == 1)
    parts = [Cases.none()]
    for form in ("batch", "dependent"):
        rows = alone & (table["form"] == form)
        part = _cases(table, where, rows, "frame", table["cycles_median"][rows], 1.0)
        if form == "batch":
            part = Cases(**{**vars(part), "iterations": 0 * part.iterations})
        parts.append(part)
    return Cases.join(parts)


def _cases(table: Table, where: str, rows: NDArray[np.bool_], form: str, cycles: Any, weight: float) -> Cases:
    at = np.flatnonzero(rows)
    cycles = np.asarray(cycles, dtype=np.float64)
    bad = np.flatnonzero(cycles <= 0)
    if len(bad):
        row = int(at[bad[0]]) + 2
        raise SmlabError.at(f"{where}, row {row}", "takes no time", cycles[bad[0]])
    columns = np.array([table[c][rows].astype(np.int64) for c in WHERE])
    return Cases.build(table["operation"][rows].tolist(), form, columns, cycles, weight)


def _differences(
    table: Table, where: str, rows: NDArray[np.bool_], form: str, skipped: list[SkippedCase]
) -> list[Cases]:
    """Cycles of one round, from the same loops run with two numbers of iterations: free of beginning and
    end."""
    if not rows.any():
        return []
    counts = np.unique(table["iterations"][rows])
    operation = str(table["operation"][rows][0])
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
    chosen = np.zeros(len(rows), dtype=bool)
    chosen[[at for at, before in pairs if before is not None]] = True
    before = np.array([b for _, b in pairs if b is not None], dtype=np.float64)
    cycles = (table["cycles_median"][chosen] - before) / (high - low)
    return [_cases(table, where, chosen, form, cycles, (high - low) / float(np.hypot(high, low)))]


def _atomics(table: Table, where: str, counting: bool, skipped: list[SkippedCase]) -> Cases:
    parts = []
    operations, forms = table["operation"].astype("U16"), table["form"].astype("U16")
    for operation in dict.fromkeys(operations.tolist()):
        for form in dict.fromkeys(forms[operations == operation].tolist()):
            rows = (operations == operation) & (forms == form)
            count = int(rows.sum())
            if operation == "none":
                rest = int((rows & ~((table["warps"] == 1) & np.isin(forms, ("batch", "dependent")))).sum())
                if rest:
                    skipped.append(SkippedCase(f"none {form}", rest, _REASONS["none"]))
                continue
            if operation not in _WITH_RESULT + _WITHOUT:
                reason = _REASONS.get(operation, "an operation that the simulator does not have")
                skipped.append(SkippedCase(f"{operation} {form}", count, reason))
            elif form in {"batch", "burst"}:
                parts.append(_cases(table, where, rows, form, table["cycles_median"][rows], 1.0))
            elif form == "dependent":
                parts += _differences(table, where, rows, "looped", skipped)
            elif form == "independent" and operation in _WITHOUT:
                parts += _differences(table, where, rows, "stream", skipped)
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
            parts.append(_cases(table, where, rows, "batch", table["cycles_median"][rows], 1.0))
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
