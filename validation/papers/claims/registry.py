"""The quantities that a claim can be judged by: registered functions, each with its unit and the evidence
it rests on."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal

from smlab.hw_bench.errors import SmlabError, nearest
from smlab.validation.papers.judging import Scale

Evidence = Literal["simulated", "measured", "published"]
"""``simulated``: the simulator gave it in this run. ``measured``: a data set of hardware in the repository,
or a compiler run here. ``published``: arithmetic on figures, tables and equations that others published, and
on specifications."""

EVIDENCE: Final[tuple[Evidence, ...]] = ("simulated", "measured", "published")


@dataclass(frozen=True)
class Observed:
    """A computed number with the interval in which it lies (equal to it where it is exact) and, if useful,
    words beside it.

    The interval is a 95 % one where chance plays a part, and the rounding of printed figures where they do.
    """

    value: float
    low: float
    high: float
    detail: str = ""

    @classmethod
    def exactly(cls, value: float, detail: str = "") -> Observed:
        value = float(value)
        return cls(value, value, value, detail)


Function = Callable[..., Observed]


@dataclass(frozen=True)
class Quantity:
    """A registered function: ``unit`` and ``scale`` of its value; ``quick`` if it takes well under a
    second."""

    name: str
    unit: str
    evidence: Evidence
    quick: bool
    function: Function
    scale: Scale = Scale.FIGURE

    @property
    def doc(self) -> str:
        """What it computes, in a sentence."""
        return inspect.getdoc(self.function) or ""

    def check_arguments(self, where: str, arguments: Mapping[str, Any]) -> None:
        """`SmlabError` where the function cannot be called with these."""
        try:
            inspect.signature(self.function).bind(**arguments)
        except TypeError as error:
            expected = str(inspect.signature(self.function)).split(" ->")[0]
            raise SmlabError.at(where, f"{self.name}: {error}", dict(arguments), expected) from error

    def compute(self, arguments: Mapping[str, Any]) -> Observed:
        """The number; `SmlabError` if it is not one, since a claim is never judged by a NaN."""
        found = self.function(**arguments)
        if not (math.isfinite(found.value) and found.low <= found.value <= found.high):
            raise SmlabError.at(
                f"quantity {self.name}",
                "not a number inside its interval",
                (found.low, found.value, found.high),
            )
        return found


_QUANTITIES: dict[str, Quantity] = {}

_MODULES: Final = (
    "service_table",
    "estimators",
    "histogram_layout",
    "histogram_study",
    "specifications",
    "projection",
    "projection_simulated",
    "advisor_table",
    "advisor_method",
    "portability_tables",
    "portability_simulated",
    "compiler",
)


def quantity(
    name: str, *, unit: str, evidence: Evidence, scale: Scale = Scale.FIGURE, quick: bool = True
) -> Callable[[Function], Function]:
    """Register a function as the quantity ``name``, which is how claims.toml calls it."""

    def register(function: Function) -> Function:
        if name in _QUANTITIES:
            raise SmlabError.at("quantity", "registered twice", name)
        _QUANTITIES[name] = Quantity(name, unit, evidence, quick, function, scale)
        return function

    return register


def quantities() -> Mapping[str, Quantity]:
    """All registered quantities by name."""
    for module in _MODULES:
        import_module(f"smlab.validation.papers.claims.quantities.{module}")
    return _QUANTITIES


def find_quantity(where: str, name: str) -> Quantity:
    """The quantity of that name; `SmlabError` with the nearest name otherwise."""
    known = quantities()
    if name not in known:
        guess = nearest(name, known)
        raise SmlabError.at(where, "unknown quantity", name, f"perhaps {guess}" if guess else None)
    return known[name]
