"""The papers' own tables, kept as printed in ``validation/papers/claims/tables``: what arithmetic on
published figures starts from."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import load_toml

FOLDER: Final = Path(__file__).parent / "tables"


@functools.cache
def _read(name: str) -> dict[str, Any]:
    return load_toml(FOLDER / f"{name}.toml")


@dataclass(frozen=True)
class AdvisorRow:
    """A row of Zhou et al.'s Table III; speedups are rounded to 0.01, ``error_percent`` to 1."""

    name: str
    optimization: str
    achieved: float
    estimated: float
    error_percent: float


@dataclass(frozen=True)
class AdvisorTable:
    """Zhou et al., Table III; ``told`` are the achieved speedups that the text repeats: (name,
    optimization, speedup)."""

    rows: tuple[AdvisorRow, ...]
    told: tuple[tuple[str, str, float], ...]

    def find(self, name: str, optimization: str) -> AdvisorRow:
        """The row whose name begins so."""
        for row in self.rows:
            if row.name.startswith(name) and row.optimization == optimization:
                return row
        raise SmlabError.at("Zhou et al., Table III", "no such row", (name, optimization))


@functools.cache
def advisor_table() -> AdvisorTable:
    content = _read("zhou2021")
    rows = tuple(AdvisorRow(n, o, a, e, err) for n, o, a, e, err in content["rows"])
    return AdvisorTable(rows, tuple((n, o, s) for n, o, s in content["told"]))


@dataclass(frozen=True)
class GridTable:
    """Coyne's differences of run time by ``blocks``, A100 against V100 in % (below 0: the A100 is faster)."""

    title: str
    blocks: tuple[int, ...]
    initial: tuple[float, ...]
    steady: tuple[float, ...]

    def state(self, name: str) -> tuple[float, ...]:
        """``initial``: while the first launches run; ``steady``: afterwards."""
        if name not in ("initial", "steady"):
            raise SmlabError.at("state", "unknown", name, "initial or steady")
        return self.initial if name == "initial" else self.steady


def grid_table(name: str) -> GridTable:
    """One of Coyne's Tables 5.1 to 5.5, by its key in the file."""
    tables = _read("coyne2025")["grid"]
    if name not in tables:
        raise SmlabError.at("grid", "unknown", name, "one of " + ", ".join(tables))
    t = tables[name]
    return GridTable(t["title"], tuple(t["blocks"]), tuple(t["initial"]), tuple(t["steady"]))


def grid_names() -> tuple[str, ...]:
    """The keys of Tables 5.1 to 5.5."""
    return tuple(_read("coyne2025")["grid"])


def portability(section: str) -> dict[str, Any]:
    """Another section of Coyne's tables, as in the file."""
    found: dict[str, Any] = _read("coyne2025")[section]
    return found


@dataclass(frozen=True)
class SustainedMaxima:
    """A column of Van Lanker et al.'s Table 1, in the units printed there."""

    compute_capability: str
    perf_gflops: float
    dram_gb_per_s: float
    l2_gb_per_s: float
    l1_gb_per_s: float

    def value(self, row: str) -> float:
        """``perf``, ``dram``, ``l2`` or ``l1``."""
        values = {
            "perf": self.perf_gflops,
            "dram": self.dram_gb_per_s,
            "l2": self.l2_gb_per_s,
            "l1": self.l1_gb_per_s,
        }
        if row not in values:
            raise SmlabError.at("row of Table 1", "unknown", row, "one of " + ", ".join(values))
        return values[row]


def sustained_maxima(gpu: str) -> SustainedMaxima:
    columns = _read("vanlanker2024")["gpu"]
    if gpu not in columns:
        raise SmlabError.at("column of Table 1", "unknown GPU", gpu, "one of " + ", ".join(columns))
    return SustainedMaxima(**columns[gpu])


def projection_errors() -> dict[str, Any]:
    """Van Lanker et al.'s errors as the abstract, the sections and the introduction give them."""
    found: dict[str, Any] = _read("vanlanker2024")["mape"]
    return found
