"""Simulated time: whole cycles, and within a cycle the phases in their fixed order.

SimPy orders events by (time, priority, sequence). Its own urgent and normal priorities are 0 and 1; the
phases lie above them, so what SimPy does on the side (a process starting, a store handing over an item)
happens at once, before the next event of the cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import simpy
from simpy.events import Event


class Phase(IntEnum):
    """The phases of a cycle, in order (SEMANTICS.md, section 1)."""

    RETURN = 1  # results and acknowledgements come back, barriers open, warps exit
    SERVE = 2  # units end a service and free its queue entry
    MEMORY = 3  # requests reach L2
    DISPATCH = 4  # finished blocks retire, new ones are launched
    ISSUE = 5  # the schedulers issue


def _priority(phase: Phase, sm: int, sequence: int) -> int:
    """The place of an event within its cycle: phase, then SM, then sequence; all of SimPy's own come
    before."""
    return (phase << 80) | (sm << 60) | sequence


class _Moment(Event):
    """An event that fires by itself after ``delay`` cycles, at a given place within the cycle."""

    def __init__(self, env: simpy.Environment, delay: int, priority: int) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        env.schedule(self, priority=priority, delay=delay)  # type: ignore[arg-type]


class Clock:
    """The cycle counter of a simulation, and the ways to wait on it.

    ``sm`` and ``sequence`` rank events of one phase of one cycle, so that no order is left to chance.
    """

    def __init__(self) -> None:
        self.env = simpy.Environment(initial_time=0)

    @property
    def now(self) -> int:
        return self.env.now  # type: ignore[return-value]

    def wait(self, cycles: int, phase: Phase, sm: int = 0, sequence: int = 0) -> Event:
        """An event for processes to yield: ``cycles`` from now, in ``phase``."""
        return _Moment(self.env, cycles, _priority(phase, sm, sequence))

    def call(
        self, cycles: int, phase: Phase, action: Callable[[], None], sm: int = 0, sequence: int = 0
    ) -> None:
        """Call ``action`` ``cycles`` from now, in ``phase``."""
        moment = _Moment(self.env, cycles, _priority(phase, sm, sequence))
        assert moment.callbacks is not None
        moment.callbacks.append(lambda _: action())
