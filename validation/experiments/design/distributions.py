"""Distributions of a factor's value, as functions from a quantile to a number.

Written out, since a study asks for one number at a time as its points stream by: a frozen distribution of
``scipy.stats`` takes 95 to 360 µs for it, these take 3, and a whole point of a study costs some 100.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from smlab.hw_bench.errors import SmlabError

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
