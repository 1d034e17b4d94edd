"""Factors of a study: what is varied, over which values.

A factor is a list of values, a range, a log range, the values that a key has on other GPUs, or a
distribution. Each can be asked for its levels (grid, one at a time) and for the value at a quantile 0 ..
1 (random, Sobol). A range is uniform, a log range is uniform in the logarithm, and the values of a list
are equally likely.

Distributions are functions from a quantile to a number. They are written out, since a study asks for one
number at a time: a frozen distribution of ``scipy.stats`` takes 95 to 360 µs for it, these take 3, and a
whole point of a study costs some 100.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from smlab.hw_bench.errors import SmlabError
from smlab.validation.experiments.design.values import Key, Value

PARAMETERS: Final = {
    "uniform": (("low", "high"), ()),
    "log-uniform": (("low", "high"), ()),
    "triangular": (("low", "mode", "high"), ()),
    "normal": (("mean", "sd"), ("low", "high")),
    "lognormal": (("median", "spread"), ("low", "high")),
}
"""By shape: the parameters that it needs, and those that it may have."""

TAIL: Final = 1e-9
"""How close to 0 and 1 the quantile of a distribution without ends is taken."""

_STANDARD: Final = NormalDist()


@dataclass(frozen=True)
class Distribution:
    """A distribution over numbers: ``shape``, one of `PARAMETERS`, between ``low`` and ``high``.

    ``triangular`` has its mode at ``centre``; ``normal`` has mean ``centre`` and standard deviation
    ``scale``; ``lognormal`` has median ``centre`` and geometric standard deviation ``scale``. The last two
    are cut off at ``low`` and ``high``, which may be infinite.
    """

    shape: str
    low: float
    high: float
    centre: float = 0.0
    scale: float = 1.0

    def at(self, quantile: float) -> float:
        """The value below which the share ``quantile`` (0 .. 1) lies."""
        if self.shape == "uniform":
            return self.low + quantile * (self.high - self.low)
        if self.shape == "log-uniform":
            return float(min(max(self.low * (self.high / self.low) ** quantile, self.low), self.high))
        if self.shape == "triangular":
            width, left = self.high - self.low, self.centre - self.low
            if quantile * width < left:
                return self.low + math.sqrt(quantile * width * left)
            return self.high - math.sqrt((1 - quantile) * width * (width - left))
        below, above = (_STANDARD.cdf(self._standard(x)) for x in (self.low, self.high))
        share = below + quantile * (above - below)
        standard = _STANDARD.inv_cdf(min(max(share, TAIL), 1 - TAIL))
        found = (
            self.centre + standard * self.scale
            if self.shape == "normal"
            else self.centre * self.scale**standard
        )
        return float(min(max(found, self.low), self.high))

    def _standard(self, value: float) -> float:
        if self.shape == "normal":
            return (value - self.centre) / self.scale
        return math.log(value / self.centre) / math.log(self.scale) if value > 0 else -math.inf

    @property
    def bounded(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)


def make_distribution(where: str, shape: str, parameters: dict[str, float]) -> Distribution:
    """The distribution with these parameters by name; `SmlabError` with the place for what is missing or
    cannot be."""
    needed, allowed = PARAMETERS[shape]
    for name in needed:
        if name not in parameters:
            raise SmlabError.at(f"{where}.{name}", "is missing", expected=f"a number, for {shape}")
    for name, value in parameters.items():
        if name not in (*needed, *allowed):
            raise SmlabError.at(f"{where}.{name}", f"has no meaning for {shape}", value)
        if not math.isfinite(value):
            raise SmlabError.at(f"{where}.{name}", "is not finite", value)
    low, high = parameters.get("low", -math.inf), parameters.get("high", math.inf)
    centre = next((parameters[n] for n in ("mode", "mean", "median") if n in parameters), 0.0)
    scale = next((parameters[n] for n in ("sd", "spread") if n in parameters), 1.0)
    if not low < high:
        raise SmlabError.at(where, "ends before it begins", [low, high], "low below high")
    if shape == "log-uniform" and low <= 0:
        raise SmlabError.at(where, "a range of logarithms begins above 0", low)
    if shape == "triangular" and not low <= centre <= high:
        raise SmlabError.at(f"{where}.mode", "not between low and high", centre, f"{low:g} to {high:g}")
    if shape == "normal" and scale <= 0:
        raise SmlabError.at(f"{where}.sd", "not a standard deviation", scale, "above 0")
    if shape == "lognormal" and centre <= 0:
        raise SmlabError.at(f"{where}.median", "not the median of a lognormal", centre, "above 0")
    if shape == "lognormal" and scale <= 1:
        raise SmlabError.at(f"{where}.spread", "not a geometric standard deviation", scale, "above 1")
    found = Distribution(shape, low, high, centre, scale)
    if found.at(0.0) >= found.at(1.0):
        raise SmlabError.at(where, "has nothing between low and high", [low, high])
    return found


Number = StrictInt | StrictFloat
Given = StrictBool | StrictInt | StrictFloat | StrictStr

LEVELS = 3
"""Of a range or a distribution where the study does not say how many."""


class Written(BaseModel):
    """A factor as the study file writes it; `smlab.validation.experiments.design.study` tells what the
    words mean."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keys: Annotated[list[StrictStr], Field(min_length=1)] | None = None
    scale: Annotated[list[StrictStr], Field(min_length=1)] | None = None
    values: Annotated[list[Given], Field(min_length=1)] | None = None
    of: Annotated[list[StrictStr], Field(min_length=1)] | None = None
    range: tuple[Number, Number] | None = None
    log_range: tuple[Number, Number] | None = None
    distribution: Literal["uniform", "log-uniform", "triangular", "normal", "lognormal"] | None = None
    low: Number | None = None
    mode: Number | None = None
    high: Number | None = None
    mean: Number | None = None
    sd: Number | None = None
    median: Number | None = None
    spread: Number | None = None
    levels: Annotated[StrictInt, Field(ge=1, le=10_000)] | None = None
    base: Given | None = None


_EXTENTS = ("values", "of", "range", "log_range", "distribution")
_NUMBERS = ("low", "mode", "high", "mean", "sd", "median", "spread")


@dataclass(frozen=True)
class Factor:
    """One factor: ``keys`` that it sets to its value or, with ``scales``, whose values in the base it
    multiplies by it.

    ``levels`` are its values in a grid and one at a time; ``distribution`` is None for a list, whose values
    are equally likely; ``whole`` whether it takes whole numbers only; ``base`` is its value in the base.
    """

    name: str
    keys: tuple[Key, ...]
    scales: bool
    levels: tuple[Value, ...]
    distribution: Distribution | None
    whole: bool
    base: Value

    @property
    def is_number(self) -> bool:
        """Whether all its values are numbers, so that a response can be drawn against them."""
        return all(isinstance(v, int | float) and not isinstance(v, bool) for v in (*self.levels, self.base))

    @property
    def ends(self) -> tuple[Value, ...]:
        """The values between which it goes (all of a list): what a study tries before it begins."""
        if self.distribution is None:
            return self.levels
        tail = 0.0 if self.distribution.bounded else 1e-4
        return (self.at(tail), *self.levels, self.at(1 - tail))

    def at(self, quantile: float) -> Value:
        """The value at a quantile, 0 .. 1; equal shares of the quantiles for each whole number or value of
        a list."""
        if self.distribution is None:
            return self.levels[min(int(quantile * len(self.levels)), len(self.levels) - 1)]
        if not self.whole:
            return self.distribution.at(quantile)
        if self.distribution.shape == "uniform":
            low, high = int(self.distribution.low), int(self.distribution.high)
            return low + min(int(quantile * (high - low + 1)), high - low)
        return round(self.distribution.at(quantile))

    def settings(self, value: Value) -> dict[str, Value]:
        """What the factor sets at ``value``, by key."""
        if not self.scales:
            return {key.name: value for key in self.keys}
        found: dict[str, Value] = {}
        for key in self.keys:
            assert isinstance(key.base, int | float)
            assert isinstance(value, int | float)
            found[key.name] = round(key.base * value) if key.whole else float(key.base * value)
        return found


def make_factor(
    where: str,
    name: str,
    written: Written,
    find: Callable[[str, str], Key],
    value_of: Callable[[str, str, str], Value],
) -> Factor:
    """The factor, checked by itself.

    ``find(where, name)`` gives a key, ``value_of(where, gpu, key)`` the value of a key on another GPU.
    `SmlabError` with the place for what is not there and for what does not go together.
    """
    names, part = _names(where, name, written)
    keys = tuple(find(f"{where}{part}", key) for key in names)
    kind = _kind(where, name, written, keys)
    levels, distribution = _extent(where, written, kind, names, value_of)
    base = kind.base if written.base is None else kind.value(f"{where}.base", written.base)
    if base is None:
        raise SmlabError.at(where, "has no one value in the base", expected="base = VALUE beside its values")
    return Factor(name, keys, written.scale is not None, levels, distribution, kind.whole, base)


def _names(where: str, name: str, written: Written) -> tuple[list[str], str]:
    if written.keys is not None and written.scale is not None:
        raise SmlabError.at(where, "has both keys and scale", expected="one of them")
    names, part = [name], ""
    if written.keys is not None:
        names, part = written.keys, ".keys"
    elif written.scale is not None:
        names, part = written.scale, ".scale"
    for i, key in enumerate(names):
        if key in names[:i]:
            raise SmlabError.at(f"{where}{part}", "names a key twice", key)
    return names, part


def _kind(where: str, name: str, written: Written, keys: tuple[Key, ...]) -> Key:
    """What the factor's own value may be, and what it is in the base."""
    if written.scale is not None:
        for key in keys:
            if not key.number or not isinstance(key.base, int | float):
                expected = "a key with a number in the base"
                raise SmlabError.at(f"{where}.scale", "cannot be scaled", key.name, expected)
        return Key(name, (float,), 1.0)
    shared = tuple(t for t in keys[0].types if all(t in key.types for key in keys))
    if not shared:
        raise SmlabError.at(f"{where}.keys", "do not take the same values", [key.name for key in keys])
    return Key(name, shared, keys[0].base if len({repr(key.base) for key in keys}) == 1 else None)


def _extent(
    where: str, written: Written, kind: Key, names: list[str], value_of: Callable[[str, str, str], Value]
) -> tuple[tuple[Value, ...], Distribution | None]:
    """The levels, and the distribution unless it is a list."""
    said = [field for field in _EXTENTS if getattr(written, field) is not None]
    if len(said) != 1:
        found, expected = ", ".join(said) or "nothing", "one of " + ", ".join(_EXTENTS)
        raise SmlabError.at(where, "does not say over what it goes", found, expected)
    place = f"{where}.{said[0]}"
    numbers = {n: float(getattr(written, n)) for n in _NUMBERS if getattr(written, n) is not None}
    if written.distribution is None and (
        numbers or (written.levels is not None and said[0] in ("values", "of"))
    ):
        extra = next(iter(numbers), "levels")
        raise SmlabError.at(f"{where}.{extra}", f"has no meaning beside {said[0]}")
    if written.values is not None or written.of is not None:
        given = written.values or []
        if written.of is not None and (written.scale is not None or len(names) != 1):
            raise SmlabError.at(place, "takes the values of one key", names)
        levels = [kind.value(f"{place}[{i}]", value) for i, value in enumerate(given)]
        for gpu in written.of or []:
            value = kind.value(place, value_of(place, gpu, names[0]))
            if value not in levels:  # GPUs may share a value
                levels.append(value)
        for i, value in enumerate(levels):
            if repr(value) in map(repr, levels[:i]):
                raise SmlabError.at(place, "has a value twice", value)
        return tuple(levels), None
    if not kind.number:
        raise SmlabError.at(place, f"{kind.name} takes no numbers", expected="values = [...]")
    if written.distribution is not None:
        distribution = make_distribution(where, written.distribution, numbers)
    else:
        low, high = written.range or written.log_range or (0, 0)
        shape = "uniform" if written.range is not None else "log-uniform"
        distribution = make_distribution(place, shape, {"low": low, "high": high})
    if kind.whole and distribution.bounded:
        kind.value(place, distribution.low), kind.value(place, distribution.high)
    return _levels(distribution, kind.whole, written.levels or LEVELS), distribution


def _levels(distribution: Distribution, whole: bool, count: int) -> tuple[Value, ...]:
    """Evenly spread over a range or log range, ends included; the middles of equal shares of any other
    distribution."""
    ends = distribution.shape in ("uniform", "log-uniform") and count > 1
    at = [i / (count - 1) if ends else (i + 0.5) / count for i in range(count)]
    values: list[Value] = [distribution.at(q) for q in at]
    if whole:
        values = list(dict.fromkeys(round(float(v)) for v in values))
    return tuple(values)
