"""One constant of a GPU description: its record in the TOML file, and the checks of it alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict, StrictFloat, StrictInt, StrictStr, ValidationError

from smlab.hw_bench.errors import SmlabError, nearest
from smlab.hw_bench.gpu.schema import KINDS, ConstantKey

SEEN: Final = "seen by the user"
"""The source of a value that somebody gives who has looked."""


@dataclass(frozen=True)
class Constant:
    """A value with its unit, where it comes from, and how far it may be off.

    ``source`` is the full citation; that of an assumed value is a sentence that says why. ``low`` and
    ``high`` bound the value in the same unit; None where no interval is known.
    """

    key: str
    value: float | int | str
    unit: str
    kind: str
    source: str
    low: float | None = None
    high: float | None = None
    note: str | None = None

    @property
    def interval(self) -> tuple[float, float, float]:
        """A number's low end, value and high end; the value for an end that the description does not have."""
        value = float(self.value)
        return (
            value if self.low is None else float(self.low),
            value,
            value if self.high is None else float(self.high),
        )


class _Record(BaseModel):
    """A constant as the TOML file writes it, an inline table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    value: StrictInt | StrictFloat | StrictStr
    unit: StrictStr
    kind: StrictStr
    source: StrictStr
    low: StrictInt | StrictFloat | None = None
    high: StrictInt | StrictFloat | None = None
    note: StrictStr | None = None


def parse_constant(file: str, key: ConstantKey, entry: object, sources: Mapping[str, str]) -> Constant:
    """The constant that ``entry`` writes down; `SmlabError` naming file and key for whatever is wrong."""
    where = f"{file}: {key.name}"
    if not isinstance(entry, dict):
        raise SmlabError.at(
            where, "is not an inline table", entry, "{ value = ..., unit = ..., kind = ..., source = ... }"
        )
    try:
        record = _Record.model_validate(entry)
    except ValidationError as error:
        raise _first_problem(where, key, entry, error) from error
    if record.unit != key.unit:
        raise SmlabError.at(where, "wrong unit", record.unit, repr(key.unit))
    if record.kind not in KINDS:
        raise SmlabError.at(where, "unknown kind", record.kind, "one of " + ", ".join(KINDS))
    if record.source not in sources:
        guess = nearest(record.source, sources)
        expected = "an id of the table [sources]" + (f", perhaps {guess}" if guess else "")
        raise SmlabError.at(where, "unknown source", record.source, expected)
    source = sources[record.source]
    if (record.kind == "assumed") != source.startswith("assumed:"):
        rule = "an assumed value's source says why, as 'assumed: ...', and no other value's does"
        raise SmlabError.at(where, f"kind {record.kind} does not go with its source", record.source, rule)
    check_value(where, key, record.value)
    _check_interval(where, record.value, record.low, record.high)
    return Constant(
        key.name, record.value, key.unit, record.kind, source, record.low, record.high, record.note
    )


def check_value(where: str, key: ConstantKey, value: object) -> None:
    """`SmlabError` unless ``value`` is of the key's type and in its range."""
    if key.type is str:
        if not isinstance(value, str) or not (value in key.choices if key.choices else value.isidentifier()):
            raise SmlabError.at(where, "not a possible value", value, key.expected())
        return
    if isinstance(value, bool) or not isinstance(value, int if key.type is int else int | float):
        raise SmlabError.at(where, "wrong type", value, key.expected())
    if not math.isfinite(value):
        raise SmlabError.at(where, "is not finite", value, key.expected())
    if (key.minimum is not None and value < key.minimum) or (key.maximum is not None and value > key.maximum):
        raise SmlabError.at(where, "out of range", value, key.expected())


def _check_interval(where: str, value: float | int | str, low: float | None, high: float | None) -> None:
    for name, bound in (("low", low), ("high", high)):
        if bound is None:
            continue
        if isinstance(value, str):
            raise SmlabError.at(f"{where}.{name}", "a name has no interval", bound)
        if not math.isfinite(bound):
            raise SmlabError.at(f"{where}.{name}", "is not finite", bound)
        if (bound > value) if name == "low" else (bound < value):
            side = "most" if name == "low" else "least"
            raise SmlabError.at(
                f"{where}.{name}", "does not enclose the value", bound, f"at {side} {value!r}"
            )


def _first_problem(
    where: str, key: ConstantKey, entry: Mapping[str, object], error: ValidationError
) -> SmlabError:
    """The first thing that is wrong with the record, in our words."""
    problem = error.errors()[0]
    field = str(problem["loc"][0])
    if problem["type"] == "missing":
        expected = (
            repr(key.unit) if field == "unit" else "one of " + ", ".join(KINDS) if field == "kind" else None
        )
        return SmlabError.at(where, f"{field} is missing", expected=expected)
    if problem["type"] == "extra_forbidden":
        guess = nearest(field, _Record.model_fields)
        return SmlabError.at(
            f"{where}.{field}", "unknown field", expected=f"perhaps {guess}" if guess else None
        )
    if field == "value":
        return SmlabError.at(where, "wrong type", entry["value"], key.expected())
    return SmlabError.at(
        f"{where}.{field}", "wrong type", entry[field], "a number" if field in ("low", "high") else "a string"
    )
