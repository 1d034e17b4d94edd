"""How often the interval of ``smlab project`` held the time, where that is known: `HELD`, which the command
prints.

The interval is meant to hold 90 %, its width was fitted on measured kernels of a tuning space
(`smlab.models.projection.uncertainty`). Simulated kernels are of other kinds and other GPUs, so that they
judge it: how often it held is counted, apart for what an SM limits and what L2 or DRAM does. Made anew by
``python -m smlab.validation.projection``.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import write_atomic

HELD: Final = Path(__file__).with_name("held.json")
MADE_BY: Final = "python -m smlab.validation.campaigns.projection held"
NARROW: Final = 1.01
"""High over low below which an interval has no width: that of a kernel onto the GPU that it was measured
on."""
MOST: Final = 0.9
"""The share of the kernels that ``most_within_factor`` is for."""


@dataclass(frozen=True)
class IntervalCoverage:
    """Of ``n`` projections, ``inside`` percent had their time within the interval (or within 1 % of it), with
    the 95 % interval of that (Wilson). The middle was off by ``median_ape`` percent at the median and, for
    `MOST` of them, by no more than ``most_within_factor``."""

    n: int
    inside: float
    inside_low: float
    inside_high: float
    median_ape: float
    most_within_factor: float


@dataclass(frozen=True)
class CoverageRecords:
    """Over all projections, and over kernels drawn to be limited by an SM and by L2 or DRAM."""

    about: str
    every: IntervalCoverage
    by_sm: IntervalCoverage
    by_memory: IntervalCoverage


def write_coverage(records: CoverageRecords, path: Path = HELD) -> None:
    """Write what `shipped_coverage` reads."""
    write_atomic(path, json.dumps({"made_by": MADE_BY, **asdict(records)}, indent=1) + "\n")


@cache
def shipped_coverage() -> CoverageRecords:
    """The counts that come with smlab; `SmlabError` with the command that makes them if there are none."""
    try:
        document = json.loads(HELD.read_text(encoding="utf-8"))
        parts = {name: IntervalCoverage(**document[name]) for name in ("every", "by_sm", "by_memory")}
        return CoverageRecords(document["about"], **parts)
    except (OSError, ValueError, KeyError, TypeError) as error:
        said = f"cannot be read ({error})"
        raise SmlabError.at(str(HELD), said, expected=f"what `{MADE_BY}` writes") from None
