"""How far a projected time may be off: named parts, and an interval that holds with a stated level.

Each part is the half width, in logarithms, of what one thing that is not known makes of the time:

- ``efficiency``: whether what a kernel lost on the source is cycles of waiting, which stay, or a share of its
  bound, which scales (`smlab.models.projection.residency`): the distance between the two readings;
- ``latency``: whether what warps wait for takes as many cycles, or the latencies of both descriptions: half
  the distance;
- ``level``: which level of memory sets the time, where no resource of an SM does: half the span of all
readings;
- ``cache``: what another L2 makes of the traffic beyond it, where no resource of an SM sets the time and
  nobody said how much memory the kernel comes back to (`CACHE`);
- ``clock``: what of a clock above the rating the target has (`smlab.models.roofline.clock`);
- ``launch``: a launch's cost that no description tells, between nothing and `LAUNCH_S`, of which the middle
  is taken;
- ``occupancy``: the registers that the target's compiler gives, within a fourth of the source's, where no
  code was given;
- ``code``: half the distance between two readings of what the target's compiler makes of the source
  (`smlab.models.roofline.compiler_alternatives`), where code was compiled here;
- ``launch unknown``: neither grid nor block known, so nothing of the above but the level;
- ``unexplained``: what is left in kernels in which all parts are small, `UNEXPLAINED`.

They add up as independent things do (root of the sum of squares). `FACTOR` makes of that the half width of an
interval of level `LEVEL`. It is fitted: the 90 % quantile of error over width on measured kernels, found anew
by ``python -m smlab.validation.projection.tuning ktt:DIR --from G --to G``, which also tells how often the
interval holds for the kernels of families that were left out of the fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.profiles.work.kernel_work import Floats
from smlab.hw_bench.rows import Rows
from smlab.models.projection.residency import Residency
from smlab.models.roofline.clock import ClockRatios

NAMES: Final = (
    "efficiency",
    "latency",
    "level",
    "cache",
    "clock",
    "launch",
    "occupancy",
    "code",
    "launch unknown",
    "unexplained",
)
"""The parts, in the order of the columns of `Parts.log`."""

LEVEL: Final = 0.9
UNEXPLAINED: Final = 0.06
LAUNCH_S: Final = 2e-6
NO_LAUNCH: Final = 0.15
CACHE: Final = 0.12
"""Assumed, `CACHE` in view of half of 160 simulated kernels; the fitted `FACTOR` stretches them with the
others."""

FACTOR: Final = 1.37


@dataclass(frozen=True, eq=False)
class Parts(Rows):
    """Half widths by part, in logarithms, (kernels, parts)."""

    log: Floats

    @classmethod
    def none(cls, kernels: int) -> Parts:
        """Nothing is unknown: a kernel on the GPU that it was measured on."""
        return cls(np.zeros((kernels, len(NAMES))))

    def width(self) -> Floats:
        """All parts together, before `FACTOR`, (kernels,)."""
        return np.asarray(np.sqrt((self.log**2).sum(axis=1)))

    def interval(self, seconds: Floats) -> tuple[Floats, Floats]:
        """The interval of level `LEVEL` around ``seconds``, (kernels,) each."""
        factor = np.exp(FACTOR * self.width())
        return seconds / factor, seconds * factor

    def largest(self) -> list[str]:
        """The name of the largest part of each kernel; "" where there is none."""
        names = [NAMES[i] for i in self.log.argmax(axis=1)]
        return [name if row.any() else "" for name, row in zip(names, self.log, strict=True)]


@dataclass(frozen=True, eq=False)
class ResidencyReadings:
    """A kernel's time by residency; the same with ``fewer`` and ``more`` registers, and with the other
    reading of ``latencies``."""

    resident: Residency
    fewer: Residency
    more: Residency
    latencies: Residency


def parts_of(
    seconds: Floats,
    level_s: Floats,
    readings: ResidencyReadings | None,
    clocks: ClockRatios,
    other_cache: NDArray[np.bool_],
    *,
    launch: bool,
) -> Parts:
    """The parts for kernels projected to take ``seconds`` (kernels,), from the times by level of memory
    (kernels, 3) and by residency, if that was taken into account. ``other_cache`` (kernels,): L2 differs and
    the working set is not known; ``launch``: whether the cost of a launch is not known either.
    """
    count = len(seconds)
    zero = np.zeros(count)
    by_sm = known = zero.astype(bool)
    times = [level_s]
    efficiency = latency = occupancy = zero
    if readings is not None:
        resident = readings.resident
        by_sm, known = resident.applies, resident.known
        efficiency = np.where(by_sm, _distance(resident.seconds, resident.proportional_s), 0.0)
        two = np.stack([resident.seconds, resident.proportional_s], axis=1)
        times.append(np.where(known[:, None], two, np.nan))
        latency = np.where(by_sm, _distance(readings.latencies.seconds, resident.seconds) / 2, 0.0)
        occupancy = np.where(known, _distance(readings.fewer.seconds, readings.more.seconds) / 2, 0.0)
    every = np.concatenate(times, axis=1)
    low, high = (f(every, axis=1, initial=start) for f, start in ((np.nanmin, np.inf), (np.nanmax, -np.inf)))
    spans = ~by_sm & np.isfinite(low) & np.isfinite(high)
    parts = [
        efficiency,
        latency,
        np.where(spans, _distance(low, high) / 2, 0.0),
        np.where(other_cache & ~by_sm, CACHE, 0.0),
        _distance(clocks.low, clocks.high) / 2,
        LAUNCH_S / 2 / (seconds + LAUNCH_S / 2) if launch else zero,
        occupancy,
        zero,
        np.where(known, 0.0, NO_LAUNCH),
        np.full(count, UNEXPLAINED),
    ]
    return Parts(np.nan_to_num(np.stack(parts, axis=1)))


def _distance(a: Floats, b: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.abs(np.log(a / b)))
