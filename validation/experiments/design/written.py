"""The study file as it is written: its tables, checked one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
)

from smlab.hw_bench.errors import SmlabError, nearest
from smlab.validation.experiments.design.factors import Number, Written


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Base(_Strict):
    gpu: StrictStr | None = None
    workload: StrictStr | None = None
    kernel: StrictStr | None = None
    launch: StrictStr | None = None
    name: StrictStr | None = None
    sms: Annotated[StrictInt, Field(ge=1)] | Literal["all"] = "all"
    model: StrictStr | None = None
    engine: Literal["compiled", "simpy"] = "compiled"
    max_cycles: Annotated[StrictInt, Field(ge=1)] = 2_000_000_000
    set: dict[str, Any] = {}


class DesignTable(_Strict):
    kind: Literal["grid", "one-at-a-time", "sobol", "random", "listed"]
    cases: StrictStr | None = None
    samples: Annotated[StrictInt, Field(ge=1, le=2**24)] | None = None
    second_order: StrictBool | None = None
    replications: Annotated[StrictInt, Field(ge=1, le=100_000)] = 1
    seed: Annotated[StrictInt, Field(ge=0, lt=2**63)] = 1
    common_random_numbers: StrictBool = True


class Stop(_Strict):
    """When a case has been replicated enough: once the interval of ``of`` the ``response`` is as tight as
    asked.

    ``half_width`` is in the response's unit (in 1 for a ratio), ``relative_half_width`` a share of the
    estimate.
    """

    response: StrictStr
    of: Literal["ratio", "difference", "mean"] = "ratio"
    half_width: Annotated[StrictInt | StrictFloat, Field(gt=0)] | None = None
    relative_half_width: Annotated[StrictInt | StrictFloat, Field(gt=0)] | None = None
    most_replications: Annotated[StrictInt, Field(ge=2, le=100_000)]


class File(_Strict):
    title: StrictStr
    question: StrictStr = ""
    responses: Annotated[list[StrictStr], Field(min_length=1)]
    level: Annotated[Number, Field(gt=0, lt=1)] = 0.95
    base: Base
    factors: dict[str, Any]
    design: DesignTable
    stop: Stop | None = None


def checked(model: type[File] | type[Written], raw: Any, where: str) -> Any:
    """Validate with pydantic and tell the first problem as one line with its place."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        # A word that is not known may be one that is missing, misspelt.
        first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
        steps = [str(step) for step in first["loc"]]
        place = f"{where}: {'.'.join(steps)}" if ": " not in where else ".".join([where, *steps])
        if first["type"] == "extra_forbidden":
            inner: dict[str, type[BaseModel]] = {"base": Base, "design": DesignTable, "stop": Stop}
            known = inner.get(steps[0], model)
            guess = nearest(steps[-1], known.model_fields)
            expected = f"perhaps {guess}" if guess else "one of " + ", ".join(known.model_fields)
            raise SmlabError.at(place, "unknown key", expected=expected) from None
        if first["type"] == "missing":
            raise SmlabError.at(place, "missing key") from None
        raise SmlabError.of_value(place, first) from None


def factor_tables(where: str, tables: Mapping[str, Any], prefix: str = "") -> dict[str, Written]:
    """The factors by name. A table without a factor's words is a part of a dotted name."""
    found: dict[str, Written] = {}
    for name, entry in tables.items():
        full = f"{prefix}{name}"
        place = f"{where}: factors.{full}"
        if isinstance(entry, list):
            entry = {"values": entry}
        if not isinstance(entry, dict):
            raise SmlabError.at(
                place, "not a factor", entry, "a list of values, or a table such as { range = [1, 8] }"
            )
        if not entry:
            raise SmlabError.at(
                place, "does not say over what it goes", expected="such as { range = [1, 8] }"
            )
        if all(isinstance(e, dict) for e in entry.values()) or not set(entry) & set(Written.model_fields):
            found.update(factor_tables(where, entry, f"{full}."))
        else:
            found[full] = checked(Written, entry, place)
    if not found:
        raise SmlabError.at(f"{where}: factors", "none", expected="at least one")
    return found


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings by dotted key."""
    found: dict[str, Any] = {}
    for name, entry in settings.items():
        found.update(
            flat(entry, f"{prefix}{name}.") if isinstance(entry, dict) else {f"{prefix}{name}": entry}
        )
    return found
