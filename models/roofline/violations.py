"""Kernels that were faster than a ceiling, with what the profile itself says of why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from smlab.hw_bench.profiles.work.kernel_work import LEVELS
from smlab.models.projection.peak_rates import Maxima
from smlab.models.roofline.ceilings import RESOURCES, TOLERANCE, Ceilings

UNEXPLAINED: Final = "not explained: a wrong counter, or a wrong constant of the GPU"


@dataclass(frozen=True)
class RooflineViolation:
    """A kernel that took ``seconds`` where ``ceiling`` allows no less than ``least_s``."""

    index: int
    kernel: str
    launch: int
    ceiling: str
    seconds: float
    least_s: float
    reason: str


CONSTANTS: Final = {
    **{p: (f"peak.{p}_flops_per_s", "gpu.sms", "clock.boost_hz") for p in ("fp16", "fp32", "fp64")},
    "tensor": ("peak.tensor_fp16_flops_per_s", "gpu.sms", "clock.boost_hz"),
    "alu": ("pipe.int32.interval_cycles", "gpu.sms", "clock.sm_hz"),
    "xu": ("pipe.sfu.interval_cycles", "gpu.sms", "clock.sm_hz"),
    "issue": ("gpu.sms", "clock.sm_hz", "sm.schedulers"),
    "request": ("mio.request_interval_cycles", "gpu.sms", "clock.sm_hz"),
    "shared": ("shared.interval_cycles_per_pass", "gpu.sms", "clock.sm_hz"),
    "l1": ("l1.bandwidth_bytes_per_cycle", "gpu.sms", "clock.sm_hz"),
    "l2": ("l2.bandwidth_bytes_per_s",),
    "dram": ("dram.sustained_bandwidth_bytes_per_s", "dram.bandwidth_bytes_per_s"),
}
"""The constants that a resource's bound rests on, the first to look at first."""

assert set(CONSTANTS) == set(RESOURCES)

FAR_BEYOND: Final = 0.05
"""A share of a roof above 105 % is no rounding of a counter or of a rating: the constants are named."""


def constants_behind(roofs: Ceilings, i: int) -> str:
    """The constants that a bound rests on which kernel ``i`` exceeds by far, each with its value and kind; ""
    where it does not."""
    if float(roofs.bound_s[i]) <= float(roofs.work.seconds[i]) * (1 + FAR_BEYOND):
        return ""
    gpu = roofs.maxima.gpu
    named = [gpu[key] for key in CONSTANTS[str(roofs.limiter[i])] if gpu.has(key)]
    return f"look at {', '.join(f'{c.key} = {c.value:g} ({c.kind})' for c in named)} of {gpu.name}"


def bound_violations(roofs: Ceilings, rated: Maxima | None = None) -> list[RooflineViolation]:
    """Kernels faster than a bound (each resource alone), one entry for the worst resource of each.

    ``rated`` are the maxima that nothing should exceed; with it, a kernel that only exceeds what a benchmark
    reached is told apart from one that exceeds the rating.
    """
    violations = []
    for i in np.flatnonzero(roofs.exceeds).tolist():
        resource = str(roofs.limiter[i])
        least = float(roofs.bound_s[i])
        reason = _reason(roofs, i, resource, rated)
        look = constants_behind(roofs, i)
        violations.append(_violation(roofs, i, resource, least, f"{reason}; {look}" if look else reason))
    return violations


def ceiling_violations(roofs: Ceilings) -> list[RooflineViolation]:
    """Kernels faster than a roofline with the paper's ceilings allows (Eq. 1, 3 and 6 to 8), though not
    than any bound."""
    worst = np.nanmax(np.where(np.isnan(roofs.level_s), -np.inf, roofs.level_s), axis=1)
    worst = np.maximum(worst, roofs.compute_s)
    broken = (worst > roofs.work.seconds * (1 + TOLERANCE)) & ~roofs.exceeds
    violations = []
    for i in np.flatnonzero(broken).tolist():
        if roofs.compute_s[i] >= worst[i]:
            name, reason = (
                "compute",
                (
                    "floating-point instructions had more active threads than the mean of all instructions "
                    "(Eq. 3)"
                ),
            )
            if roofs.grid.of("issue")[i] < 1:
                reason = (
                    "blocks of unequal length, or more under way in a warp than the parallelism ceiling takes"
                )
        else:
            name = LEVELS[int(np.nanargmax(roofs.level_s[i]))]
            reason = "transfers at several levels overlapped (Eq. 6 to 8 add up their times)"
            if roofs.work.l2_bytes[i] > (1 + TOLERANCE) * roofs.work.l1_bytes[i]:
                reason = (
                    "counter definition: L2 counted more bytes than passed L1, fills and write-backs among "
                    "them, and Eq. 6 "
                    "takes what did not come from DRAM for hits"
                )
        violations.append(_violation(roofs, i, name, float(worst[i]), reason))
    return violations


def _violation(roofs: Ceilings, i: int, ceiling: str, least_s: float, reason: str) -> RooflineViolation:
    work = roofs.work
    return RooflineViolation(
        i, str(work.kernel[i]), int(work.launch[i]), ceiling, float(work.seconds[i]), least_s, reason
    )


def _reason(roofs: Ceilings, i: int, resource: str, rated: Maxima | None) -> str:
    work, gpu = roofs.work, roofs.maxima.gpu
    implied = float(work.dram_peak_bytes_per_s[i])
    if resource == "dram" and implied > (1 + TOLERANCE) * float(gpu.number("dram.bandwidth_bytes_per_s")):
        return (
            f"another card: the profile's own percentage of peak implies a DRAM of at least "
            f"{implied / 1e9:,.0f} GB/s, and "
            f"{gpu.name} has {float(gpu.number('dram.bandwidth_bytes_per_s')) / 1e9:,.0f}"
        )
    clock = float(work.clock_hz[i])
    if resource not in ("l2", "dram") and clock > roofs.maxima.clock_hz * (1 + TOLERANCE):
        return (
            f"clock: it ran at {clock / 1e6:,.0f} MHz, the ceiling is for "
            f"{roofs.maxima.clock_hz / 1e6:,.0f} MHz"
        )
    if rated is not None and roofs.maxima.which == "sustained":
        least = _least(rated, roofs, i, resource)
        if least <= float(work.seconds[i]) * (1 + TOLERANCE):
            return (
                f"faster than the benchmark behind the sustained {resource} maximum, not than the rated peak"
            )
    if resource == "l2":
        return (
            "counter definition: lts__t_bytes counts write-backs and fills, which do not pass the port to "
            "the SMs "
            "where the bandwidth was measured"
        )
    if resource == "tensor":
        return "counter definition: operations of a tensor instruction are taken as of half precision, dense"
    return UNEXPLAINED


def _least(rated: Maxima, roofs: Ceilings, i: int, resource: str) -> float:
    """The least time by a resource at the rated maxima: the bound, scaled by the two maxima."""
    top = roofs.maxima
    now = float(roofs.bounds_s[i, RESOURCES.index(resource)])
    if resource in LEVELS:
        level = LEVELS.index(resource)
        return now * float(top.bandwidth[level] / rated.bandwidth[level])
    if resource in RESOURCES[:3]:
        precision = RESOURCES.index(resource)
        return now * float(top.fma_flops_per_s[precision] / rated.fma_flops_per_s[precision])
    return now
