"""From simulated cycles to the time that a user would measure, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from smlab.commands.gpu_choice import clock_text
from smlab.hw_bench.gpu.alternatives import Alternative
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.models.power import HeldClock
from smlab.sim.execution.run import MachineRun, TimedRun
from smlab.validation.power_limit import held_by_power
from smlab.validation.record.judge import LEVEL, model_of, sampling_sd, stored_errors
from smlab.validation.record.run import ClockRange

EVENTS: Final = "launch.events_overhead_s"
PROFILED: Final = "launch.profiled_overhead_s"


@dataclass(frozen=True)
class RealTime:
    """A kernel's time: the mean over the alternatives for the atomic unit, by their weights, and its 90
    % prediction interval, None without a record. ``unlike`` says what sets the kernel apart from those of
    the record. ``profiled`` is what a profiler's duration would be, which begins before the first warp and
    ends after the last one; ``by_events`` is the time between two events around the launch. Both are None
    where the GPU's description does not tell by how much. ``power_limit`` says what the board's power limit
    does to the clock, empty where it does nothing."""

    seconds: float
    profiled: float | None
    by_events: float | None
    low: float | None
    high: float | None
    clock: str
    clock_hz: float
    power_limit: str
    alternative: str
    alternatives: tuple[tuple[str, float], ...]
    anchor_factor: float | None
    measured: int
    sets: int
    unlike: tuple[str, ...]

    @classmethod
    def of(
        cls,
        runs: Sequence[tuple[Alternative, TimedRun]],
        gpu: Gpu,
        anchor_s: float | None,
        *,
        in_a_loop: bool = True,
    ) -> RealTime:
        """From the run under each alternative; ``anchor_s`` is the time measured for this very kernel. A
        kernel that is launched ``in_a_loop`` is held by the board's power limit."""
        first = runs[0][1]
        if isinstance(first, MachineRun) and first.launch.uses_tensor_cores:
            gpu = gpu.at_tensor_clock()
        held = held_by_power(first, gpu) if in_a_loop else HeldClock(gpu, 1.0)
        power_limit = "" if held.slowdown == 1 else _held_text(first.seconds, gpu)
        gpu = held.gpu
        times = [(alternative, run.seconds * held.slowdown) for alternative, run in runs]
        total = sum(alternative.weight for alternative, _ in runs)
        seconds = sum(a.weight * one for a, one in times) / total
        logs = [(a.weight / total, math.log(one / seconds)) for a, one in times]
        own = math.sqrt(
            sampling_sd(first.cycles_low, first.cycles_high) ** 2
            + sum(weight * log**2 for weight, log in logs)
        )
        errors = [error for error in stored_errors() if not error.developed]
        model = model_of(errors, gpu.architecture)
        low, high = (None, None) if model is None else model.interval(seconds, own, ClockRange.of(gpu))
        return cls(
            seconds=seconds,
            profiled=seconds + float(gpu.number(PROFILED)) if gpu.has(PROFILED) else None,
            by_events=seconds + float(gpu.number(EVENTS)) if gpu.has(EVENTS) else None,
            low=low,
            high=high,
            clock=clock_text(gpu),
            clock_hz=float(gpu.number("clock.sm_hz")),
            power_limit=power_limit,
            alternative=runs[0][0].name if len(runs) == 1 else "all",
            alternatives=tuple((a.name, one) for a, one in times),
            anchor_factor=None if anchor_s is None else anchor_s / seconds,
            measured=sum(e.n for e in errors),
            sets=len(errors),
            unlike=_unlike(first, gpu, {load_gpu(e.gpu).architecture for e in errors}),
        )

    def lines(self) -> list[str]:
        """What the power limit does, the interval, the time under each alternative, the anchor."""
        lines = [self.power_limit] if self.power_limit else []
        if self.low is not None and self.high is not None:
            lines.append(
                f"on a real card {1e6 * self.low:,.2f} to {1e6 * self.high:,.2f} us ({100 * LEVEL:.0f} %), "
                f"by the errors of {self.measured} measured kernels of {self.sets} sets"
            )
            if self.unlike:
                lines.append(f"none of those has {', '.join(self.unlike)}: the interval may be too narrow")
        if len(self.alternatives) > 1:
            parts = ", ".join(f"{name} {1e6 * seconds:,.2f} us" for name, seconds in self.alternatives)
            lines.append(f"alternatives for the atomic unit: {parts}")
        if self.anchor_factor is not None:
            lines.append(
                f"measured over simulated: {self.anchor_factor:.3f}; multiply other times on this card by it"
            )
        return lines


def _held_text(rated_s: float, gpu: Gpu) -> str:
    limit, rated = float(gpu.number("power.limit_w")), 1e-6 * float(gpu.number("clock.sm_hz"))
    return (
        f"launched again and again, it needs more than {limit:g} W at {rated:,.0f} MHz, so the card slows "
        f"down; one launch alone may take {1e6 * rated_s:,.2f} us"
    )


def _unlike(run: TimedRun, gpu: Gpu, architectures: set[str]) -> tuple[str, ...]:
    """What no kernel of the record has. (Its histograms have atomics on shared and on global memory. It has
    no tensor cores, but its intervals hold nine of ten published rates of products and attention:
    docs/findings/tensor-cores.md.)"""
    missing = []
    if gpu.architecture not in architectures:
        missing.append(f"a card of the {gpu.architecture} generation")
    if any(i.opcode == "MEMBAR" and i.executed for i in run.instructions):
        missing.append("fences")
    if isinstance(run, MachineRun) and run.launch.image.local_bytes:
        missing.append(f"{run.launch.image.local_bytes} bytes of local memory a thread")
    return tuple(missing)
