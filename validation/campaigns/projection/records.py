"""The kept results: `PairRecord` by kind of kernel and pair of cards, `MechanismGain` by mechanism and
set."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import write_atomic
from smlab.validation.method.baseline import Comparison

RECORDS: Final = Path(__file__).with_name("records.json")
EACH: Final = "each other"
"""Source and target of a record over all pairs of cards of its set."""
MADE_BY: Final = "python -m smlab.validation.campaigns.projection measured FOLDER"


@dataclass(frozen=True)
class PairRecord:
    """Projections of one kind of kernel from one card to another: absolute errors in per cent against the
    best baseline that needs no counter and no truth; ``constant`` is the MAPE of the best constant, which is
    fitted to the truth. ``held`` is the percentage of times in the 90 % interval, its width fitted as
    ``left_out`` says, ``width`` how far its upper end lies above the prediction at the median, in per cent.
    ``rank`` is the rank correlation of predicted and actual ratios, None where all predicted ratios are
    equal."""

    kind: str
    source: str
    target: str
    comparison: Comparison
    constant: float
    held: float
    width: float
    rank: float | None
    left_out: str


@dataclass(frozen=True)
class MechanismGain:
    """The MAPE of one set of kernels with a mechanism and without it, in per cent."""

    mechanism: str
    cases: str
    n: int
    with_it: float
    without: float


@dataclass(frozen=True)
class MeasuredRecords:
    """What was found, and of which data on which day."""

    about: str
    made_on: str
    pairs: tuple[PairRecord, ...]
    mechanism_gain: tuple[MechanismGain, ...]


def write_records(records: MeasuredRecords, path: Path = RECORDS) -> None:
    """Write what `shipped_records` reads."""
    write_atomic(path, json.dumps({"made_by": MADE_BY, **asdict(records)}, indent=1) + "\n")


@cache
def shipped_records() -> MeasuredRecords:
    """The results that come with smlab; `SmlabError` with the command that makes them if there are none."""
    try:
        document = json.loads(RECORDS.read_text(encoding="utf-8"))
        pairs = [{**p, "comparison": Comparison(**p["comparison"])} for p in document["pairs"]]
        return MeasuredRecords(
            document["about"],
            document["made_on"],
            tuple(PairRecord(**p) for p in pairs),
            tuple(MechanismGain(**b) for b in document["mechanism_gain"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        said = f"cannot be read ({error})"
        raise SmlabError.at(str(RECORDS), said, expected=f"what `{MADE_BY}` writes") from None
