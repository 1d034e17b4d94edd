"""Whether the GPU was held back in a launch: by what its management library tells, or else by its clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from smlab.hw_bench.cuda.measuring.clocks import ClockReading, Clocks
from smlab.hw_bench.cuda.measuring.timing import clock_mhz, launches_not_held
from smlab.hw_bench.errors import SmlabError

_SLOW: Final = 0.97
"""A launch counts as throttled when the SM clock behind it is below this share of the highest seen."""
_ASKED_AGAIN: Final = 3
_BETWEEN_S: Final = 0.1


class Throttle:
    """Asked after a launch whether its seconds count. It remembers the highest clock seen, and tells when the
    GPU runs below it, says that it is held back, or began the launch before all of it was queued.

    Where the management library does not tell the clock (there is none, or the GPU is split into instances),
    a short kernel does, in MHz: ``measured``.
    """

    def __init__(self, clocks: Clocks, measured: Callable[[], int | None] = clock_mhz) -> None:
        self._clocks = clocks
        self._measured = measured
        self._highest = 0
        self._not_held = launches_not_held()
        self.seen: list[ClockReading] = []

    def __call__(self) -> bool:
        late = launches_not_held() > self._not_held
        self._not_held = launches_not_held()
        reading = self._clocks.read()
        if reading is None and any(r.of_library for r in self.seen):
            reading = self._asked_again()
        if reading is None or reading.sm_mhz is None:
            measured = self._measured()
            if reading is None and measured is None:
                return late
            reading = ClockReading.measured(measured, reading)
        self.seen.append(reading)
        if reading.sm_mhz is None:
            return late or bool(reading.slowdowns)
        self._highest = max(self._highest, reading.sm_mhz)
        return late or bool(reading.slowdowns) or reading.sm_mhz < _SLOW * self._highest

    def _asked_again(self) -> ClockReading:
        """What the library tells after all: it told before.

        Raises:
            SmlabError: where it tells nothing any more, as of a GPU that is lost.
        """
        for _ in range(_ASKED_AGAIN):
            time.sleep(_BETWEEN_S)
            if (reading := self._clocks.read()) is not None:
                return reading
        raise SmlabError(
            f"the GPU's clocks, told so far, cannot be read any more: {self._clocks.missing}; whether it is "
            "held back would not be known"
        )

    def said(self, late: list[str]) -> str:
        """What is to be said of batches that are not kept."""
        reasons = sorted({word for reading in self.seen for word in reading.slowdowns})
        slowest = min((r.sm_mhz for r in self.seen if r.sm_mhz is not None), default=None)
        why = ", ".join(reasons) or "a slow clock"
        clock = "" if slowest is None else f"; the SM ran at {slowest} to {self._highest} MHz"
        more = f" and {len(late) - 1} more" if len(late) > 1 else ""
        return (
            f"not kept, since the GPU was held back ({why}{clock}): {late[0]}{more}; --resume measures them "
            "again, --keep-held-back keeps them"
        )

    def as_json(self) -> dict[str, Any] | None:
        """The clocks of all readings."""
        if not self.seen:
            return None
        mhz = [reading.sm_mhz for reading in self.seen if reading.sm_mhz is not None]
        return {
            "readings": len(self.seen),
            "sm_mhz_min": min(mhz, default=None),
            "sm_mhz_median": float(np.median(mhz)) if mhz else None,
            "sm_mhz_max": max(mhz, default=None),
            "slowdowns": sorted({word for reading in self.seen for word in reading.slowdowns}),
        }
