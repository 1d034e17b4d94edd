"""Reading samples by instruction from files: ncu's source page as CSV (SASS or source view), a table of
``smsp__pcsamp`` metrics by PC, and the simulator's own, which have the shape of the source page."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from smlab.hw_bench.csv_cells import check_cells
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import write_atomic
from smlab.hw_bench.profiles.pc_samples.samples import (
    REASONS,
    SELECTED,
    InstructionSamples,
    KernelSamples,
    LaunchFacts,
    reason_of,
)
from smlab.hw_bench.profiles.source import load

_STALL: Final = re.compile(r"stall_(?P<reason>\w+?)(?P<not> \(Not[ -]Issued\))?$")
_METRIC: Final = re.compile(r"smsp__pcsamp_warps_issue_stalled_(?P<reason>\w+?)(?P<not>_not_issued)?$")
_FACTS: Final = tuple(LaunchFacts.__dataclass_fields__)
_NOTE: Final = re.compile(r"#\s*(?P<key>[\w.]+)\s*=\s*(?P<value>.*)$")
_EXPECTED: Final = (
    "ncu --page source --csv, a table of smsp__pcsamp metrics by pc, or smlab run --samples; "
    "a kernel needs --launch"
)
MAX_ROWS: Final = 1 << 20
_COUNTED: Final = {
    "passes": "L1 Wavefronts Shared",
    "passes_ideal": "L1 Wavefronts Shared Ideal",
    "lines": "L1 Tag Requests Global",
    "sectors": "L2 Theoretical Sectors Global",
    "sectors_ideal": "L2 Theoretical Sectors Global Ideal",
}
"""Columns that count what the accesses of an instruction ask for."""


def read_samples(path: Path) -> KernelSamples:
    """Read one kernel's samples; a ``.ncu-rep`` is read by `ncu_rep_samples.read_report_samples`.

    Raises:
        SmlabError: naming file, line and column of what is not a table of samples.
    """
    where = str(path)
    content = load(path)
    check_cells(where, content)
    text = content.decode(errors="replace")
    lines = text.splitlines()
    at = next((n for n, line in enumerate(lines[:200]) if _is_header(line)), None)
    if at is None:
        raise SmlabError.at(where, "holds no samples by instruction", expected=_EXPECTED)
    notes = {m["key"]: m["value"].strip() for line in lines[:at] if (m := _NOTE.match(line.strip()))}
    try:
        rows = list(csv.reader(io.StringIO("\n".join(lines[at:]))))
    except csv.Error as error:
        raise SmlabError(f"{where}: line {at + 1} and on: no CSV: {error}") from error
    return _Table(where, at + 1, rows, notes).kernel()


def _is_header(line: str) -> bool:
    return ("stall_" in line and "Source" in line) or "smsp__pcsamp_warps_issue_stalled_" in line


class _Table:
    def __init__(self, where: str, first: int, rows: list[list[str]], notes: dict[str, str]) -> None:
        self.where, self.first, self.notes = where, first, notes
        self.header = [cell.strip() for cell in rows[0]]
        if "Kernel Name" in self.header:
            raise SmlabError.at(where, "ncu's raw page counts samples of whole kernels", expected=_EXPECTED)
        self.rows = rows[1:]
        self.reasons: list[tuple[int, str, bool]] = []
        seen = set()
        for column, name in enumerate(self.header):
            match = _STALL.match(name) or _METRIC.match(name)
            if match is None:
                continue
            reason = reason_of(match["reason"].removesuffix("_sampling"))
            if reason:
                key = (reason, match["not"] is not None)
                if key in seen:
                    raise SmlabError.at(f"{where}: line {first}", "a column that stands twice", name)
                seen.add(key)
                self.reasons.append((column, *key))
        if not any(not no for _, _, no in self.reasons):
            raise SmlabError.at(where, "has no column of stalls", expected=_EXPECTED)

    def column(self, *names: str) -> int | None:
        return next((self.header.index(n) for n in names if n in self.header), None)

    def kernel(self) -> KernelSamples:
        address_at, text_at = self.column("Address", "pc"), self.column("Source", "sass")
        line_at = self.column("Line", "line")
        number_at = self.column("#")
        executed_at = self.column("Instructions Executed", "# Warp Instructions Executed")
        counted = {name: self.column(column) for name, column in _COUNTED.items()}
        lanes_at = self.column("Avg. Threads Executed", "Avg. Thread Executed")
        by_line = address_at is None
        rows, source = [], {}
        for n, cells in enumerate(self.rows):
            row = self.first + 1 + n
            if len(cells) < len(self.header):
                if len(cells) == 0 or (len(cells) <= 2 and by_line):
                    continue  # a file's name between its lines
                raise SmlabError.at(
                    f"{self.where}: line {row}", "is cut off", f"{len(cells)} cells", f"{len(self.header)}"
                )
            stalled, waiting = self._counts(cells, row)
            text = cells[text_at].strip() if text_at is not None else ""
            line: int | None = None
            if by_line:
                if number_at is None or not cells[number_at].strip():
                    continue
                line = self._whole(cells[number_at], row, "#")
                source[line] = cells[text_at] if text_at is not None else ""
                if not stalled:
                    continue
                address = line
            else:
                assert address_at is not None
                address = self._address(cells[address_at], row)
                line = self._maybe(cells, line_at, row)
            times = self._maybe(cells, executed_at, row)
            counts = {name: self._maybe(cells, at, row) for name, at in counted.items()}
            means = {name: count / times for name, count in counts.items() if count and times}
            lines = means.pop("lines", None)
            means.setdefault("passes", lines) if lines else None
            lanes = self._real(cells, lanes_at, row)
            rows.append(InstructionSamples(address, text, line, stalled, waiting, times, lanes, **means))
        if not rows:
            raise SmlabError.at(self.where, "has no instruction with samples", expected=_EXPECTED)
        if len(rows) > MAX_ROWS:
            raise SmlabError.at(self.where, "too many rows", len(rows), f"at most {MAX_ROWS}")
        return KernelSamples(
            kernel=self.notes.get("kernel", Path(self.where).stem),
            rows=tuple(sorted(rows, key=lambda r: r.address)),
            where=self.where,
            architecture=self.notes.get("architecture"),
            device=self.notes.get("device"),
            by_line=by_line,
            launch=self._facts(),
            period_cycles=self._note_number("period_cycles", int),
            source=source,
            busy=self._shares("busy", 1.5),
            excess=self._shares("excess", 1e6) or _excess(rows),
        )

    def _counts(self, cells: Sequence[str], row: int) -> tuple[dict[str, int], dict[str, int]]:
        stalled: dict[str, int] = {}
        waiting: dict[str, int] = {}
        for column, reason, not_issued in self.reasons:
            text = cells[column].strip()
            if not text:
                continue
            count = self._whole(text, row, self.header[column])
            if count:
                (waiting if not_issued else stalled)[reason] = count
        for reason, count in waiting.items():
            # Of the sampling of a replayed kernel, the two columns may come from different passes.
            waiting[reason] = min(count, stalled.get(reason, 0))
        waiting.pop(SELECTED, None)
        return stalled, {reason: count for reason, count in waiting.items() if count}

    def _whole(self, text: str, row: int, name: str) -> int:
        digits = text.strip().replace(",", "")
        if not digits.isascii() or not digits.isdecimal() or len(digits) > 15:
            raise SmlabError.at(f"{self.where}: line {row}: {name}", "not a count", text, "a whole number")
        return int(digits)

    def _maybe(self, cells: Sequence[str], column: int | None, row: int) -> int | None:
        if column is None or not cells[column].strip():
            return None
        return self._whole(cells[column], row, self.header[column])

    def _real(self, cells: Sequence[str], column: int | None, row: int) -> float | None:
        if column is None or not cells[column].strip():
            return None
        try:
            value = float(cells[column].replace(",", ""))
        except ValueError:
            value = float("nan")
        if not 0 <= value <= 32:
            name = self.header[column]
            raise SmlabError.at(
                f"{self.where}: line {row}: {name}", "not a mean of lanes", cells[column], "0 to 32"
            )
        return value

    def _address(self, text: str, row: int) -> int:
        digits = text.strip().replace(" ", "").removeprefix("0x")
        try:
            value = int(digits, 16) if digits.isascii() and digits.isalnum() else -1
        except ValueError:
            value = -1
        if not 0 <= value < 1 << 64:
            raise SmlabError.at(
                f"{self.where}: line {row}", "not an address", text, "hexadecimal, at most 64 bits"
            )
        return value

    def _note_number(self, key: str, kind: type) -> int | None:
        text = self.notes.get(key)
        if text is None:
            return None
        try:
            value = kind(text)
        except ValueError:
            raise SmlabError.at(f"{self.where}: # {key}", "not a number", text) from None
        if not 0 < value < float("inf"):
            raise SmlabError.at(f"{self.where}: # {key}", "not positive", text)
        return value  # type: ignore[no-any-return]

    def _shares(self, table: str, most: float) -> dict[str, float]:
        shares = {}
        for key, text in self.notes.items():
            head, _, name = key.partition(".")
            if head != table or not name:
                continue
            value = self._note_number(key, float)
            if value is None or value > most:
                raise SmlabError.at(f"{self.where}: # {key}", "out of range", text, f"0 to {most:g}")
            shares[name] = float(value)
        return shares

    def _facts(self) -> LaunchFacts:
        values = {}
        for key in _FACTS:
            kind = float if key in ("warps_per_scheduler", "cycles") else int
            values[key] = self._note_number(key, kind)
        return LaunchFacts(**values)


def _excess(rows: Sequence[InstructionSamples]) -> dict[str, float]:
    """How many times as many sectors of L2 global accesses ask for as their bytes fill."""
    asked, ideal = (
        sum((count or 0.0) * (row.executed or 0) for row in rows for count in (getattr(row, name),))
        for name in ("sectors", "sectors_ideal")
    )
    return {"l2": asked / ideal} if asked and ideal else {}


_ABBREVIATED: Final = {
    "long_scoreboard": "long_sb",
    "short_scoreboard": "short_sb",
    "mio_throttle": "mio",
    "lg_throttle": "lg",
    "tex_throttle": "tex",
    "math_pipe_throttle": "math",
    "dispatch_stall": "dispatch",
    "no_instructions": "no_inst",
    "imc_miss": "imc",
}


def write_samples(samples: KernelSamples, path: Path) -> None:
    """Write samples as a CSV that `read_samples` reads: the shape of ncu's source page in its SASS view,
    after lines ``# key = value`` with what is known of the launch."""
    reasons = [r for r in REASONS if any(r in row.stalled for row in samples.rows)]
    text = io.StringIO()
    notes: dict[str, object] = {"kernel": samples.kernel, "architecture": samples.architecture}
    notes |= {"device": samples.device, "period_cycles": samples.period_cycles}
    notes |= {key: getattr(samples.launch, key) for key in _FACTS}
    notes |= {f"busy.{name}": f"{share:.4g}" for name, share in samples.busy.items()}
    notes |= {f"excess.{name}": f"{share:.4g}" for name, share in samples.excess.items()}
    text.writelines(f"# {key} = {value}\n" for key, value in notes.items() if value)
    writer = csv.writer(text, lineterminator="\n")
    columns = [f"stall_{_ABBREVIATED.get(r, r)}" for r in reasons]
    writer.writerow(
        [
            "#",
            "Address",
            "Source",
            "Line",
            "Instructions Executed",
            "Avg. Threads Executed",
            "L1 Wavefronts Shared",
            *columns,
            *(f"{c} (Not Issued)" for c in columns),
        ]
    )
    for n, row in enumerate(samples.rows):
        waves = "" if row.passes is None or row.executed is None else round(row.passes * row.executed)
        writer.writerow(
            [
                n,
                f"{row.address:#x}",
                row.text,
                "" if row.line is None else row.line,
                "" if row.executed is None else row.executed,
                "" if row.lanes is None else f"{row.lanes:.3f}",
                waves,
                *(row.stalled.get(r, 0) for r in reasons),
                *(row.not_issued.get(r, 0) for r in reasons),
            ]
        )
    write_atomic(path, text.getvalue())
