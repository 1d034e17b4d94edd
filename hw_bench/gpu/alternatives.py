"""What the evidence leaves open: sets of constants that a description carries side by side, with weights.

Measurements that decide between two mechanisms often do not exist. A description then says what the
mechanisms are, what each makes of the constants, and how much each is believed; an answer that hangs on the
choice gives all of them. In the file::

    [[alternatives]]
    name = "occupancy"      # the description's own values
    weight = 0.5
    source = "fit-8-warps"

    [[alternatives]]
    name = "rounds"
    weight = 0.5
    source = "fit-8-warps"
    values = { "atomic.add.base_interval_cycles" = 0.0, "atomic.round_gap_cycles" = 27 }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.constants import check_value
from smlab.hw_bench.gpu.schema import KEYS_BY_NAME
from smlab.hw_bench.gpu.tables import guess_at

ROUNDED = 1e-3
"""How far weights may be from adding up to 1, as thirds in decimals are."""


@dataclass(frozen=True)
class Alternative:
    """One reading of the evidence: the constants that it changes, and its weight among the others (they add
    up to 1)."""

    name: str
    weight: float
    source: str
    values: Mapping[str, float | int | str] = field(default_factory=dict)


AS_DESCRIBED = Alternative("as described", 1.0, "the description leaves no choice")


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(min_length=1)
    weight: float = Field(gt=0, le=1)
    source: str
    values: dict[str, float | int | str] = {}


def read_alternatives(where: str, entries: object, sources: Mapping[str, str]) -> tuple[Alternative, ...]:
    """The alternatives of a file; `SmlabError` naming what is wrong. The first is the description itself."""
    if not isinstance(entries, list) or not entries:
        raise SmlabError.at(f"{where}: alternatives", "is not a list of tables", entries, "[[alternatives]]")
    alternatives = []
    for index, entry in enumerate(entries):
        place = f"{where}: alternatives[{index}]"
        try:
            parsed = _Entry.model_validate(entry)
        except ValidationError as error:
            problem = error.errors()[0]
            key = ".".join(str(part) for part in problem["loc"])
            raise SmlabError.of_value(f"{place}.{key}", problem) from error
        if parsed.source not in sources:
            raise SmlabError.at(f"{place}.source", "unknown source", parsed.source, "an id of [sources]")
        for name, value in parsed.values.items():
            if name not in KEYS_BY_NAME:
                raise SmlabError.at(f"{place}.values", "unknown key", name, guess_at(name, KEYS_BY_NAME))
            check_value(f"{place}.values: {name}", KEYS_BY_NAME[name], value)
        alternatives.append(Alternative(parsed.name, parsed.weight, sources[parsed.source], parsed.values))
    if alternatives[0].values:
        raise SmlabError(f"{where}: alternatives[0].values: the first one is the description as it stands")
    if len({a.name for a in alternatives}) != len(alternatives):
        raise SmlabError(f"{where}: alternatives: two have one name")
    total = sum(a.weight for a in alternatives)
    if abs(total - 1) > ROUNDED:
        raise SmlabError.at(f"{where}: alternatives", "the weights do not add up", total, "a sum of 1")
    return tuple(replace(a, weight=a.weight / total) for a in alternatives)
