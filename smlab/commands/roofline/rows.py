"""The rows of ``smlab roofline``'s document, and what its tables and pictures share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smlab.models.projection.peak_rates import Maxima
from smlab.models.roofline.ceilings import LATENCY, LOW_EFFICIENCY, Ceilings
from smlab.models.roofline.violations import RooflineViolation
from smlab.models.roofline.work import LEVELS, PRECISIONS

NO_FLOPS = "no floating-point operations: instruction roofline"
NO_OPERATIONS = "neither floating-point operations nor instructions were counted: bandwidth ceilings only"


def kernel_rows(ceilings: Ceilings, violations: Sequence[RooflineViolation] = ()) -> list[dict[str, Any]]:
    """One row a kernel with the agreed keys; what does not exist is NaN (null in JSON), with a flag that
    says why."""
    work = ceilings.work
    reasons = {v.index: v for v in violations}
    has_flops = np.nan_to_num(ceilings.flops) > 0
    has_instructions = np.nan_to_num(work.instructions) > 0
    limited_by = ceilings.limited_by
    issue = ceilings.maxima.issue_per_s * ceilings.grid.of("issue")
    with np.errstate(divide="ignore", invalid="ignore"):
        instruction_intensity = work.instructions[:, None] / work.level_bytes
        instruction_roofs = work.instructions[:, None] / ceilings.level_s
    rows = []
    for i in range(len(ceilings)):
        flags = list(work.flags[i])
        if not has_flops[i]:
            flags.append(NO_FLOPS if has_instructions[i] else NO_OPERATIONS)
        infinite = [level for level, x in zip(LEVELS, ceilings.intensity[i], strict=True) if np.isinf(x)]
        if infinite:
            flags.append(f"no bytes at {', '.join(infinite)}: its intensity is infinite")
        if ceilings.efficiency[i] < LOW_EFFICIENCY:
            flags.append(f"below {LOW_EFFICIENCY:.0%} of every roof: {LATENCY}")
        if i in reasons:
            v = reasons[i]
            flags.append(f"{v.seconds / v.least_s:.3f} of the least time by {v.ceiling}: {v.reason}")
        rows.append(
            {
                "kernel": work.kernel[i],
                "launch": work.launch[i],
                "flops": ceilings.flops[i],
                "seconds": work.seconds[i],
                "clock_hz": work.clock_hz[i],
                "achieved_flops_per_s": ceilings.achieved_flops_per_s[i],
                "intensity": _by_level(ceilings.intensity[i] if has_flops[i] else np.full(3, np.nan)),
                "ceiling_flops_per_s": ceilings.peak_ceiling[i] * ceilings.grid.of("issue")[i],
                "mixed_peak_flops_per_s": ceilings.mixed_peak[i],
                "bandwidth_ceilings": _by_level(ceilings.bandwidth_ceilings[i]),
                "rooflines_flops_per_s": _by_level(ceilings.rooflines[i]),
                "instructions": work.instructions[i],
                "instructions_per_s": work.instructions[i] / work.seconds[i],
                "ceiling_instructions_per_s": issue[i] if has_instructions[i] else np.nan,
                "instruction_intensity": _by_level(instruction_intensity[i]),
                "rooflines_instructions_per_s": _by_level(
                    instruction_roofs[i] if ceilings.by_instructions[i] else np.full(3, np.nan)
                ),
                "parallelism": ceilings.grid.of("issue")[i] if ceilings.grid.known[i] else np.nan,
                "limiter": limited_by[i],
                "closest_roof": ceilings.limiter[i],
                "least_s": ceilings.bound_s[i],
                "share_of_limiter": ceilings.efficiency[i],
                "flags": flags,
            }
        )
    return rows


def _by_level(values: Any) -> dict[str, float]:
    return {level: float(x) for level, x in zip(LEVELS, values, strict=True)}


def limiter_shares(ceilings: Sequence[Ceilings]) -> list[dict[str, Any]]:
    """How many kernels, and how much of the time, each limiter has; the one with most time first."""
    names = np.concatenate([f.limited_by for f in ceilings]).astype(str)
    seconds = np.concatenate([f.work.seconds for f in ceilings])
    shares = []
    for name in np.unique(names).tolist():
        chosen = names == name
        shares.append(
            {
                "limiter": name,
                "kernels": int(chosen.sum()),
                "share": float(chosen.mean()),
                "time_share": float(seconds[chosen].sum() / seconds.sum()),
            }
        )
    return sorted(shares, key=lambda s: -s["time_share"])


def roofs(top: Maxima) -> dict[str, Any]:
    """The GPU's maxima with their kinds and sources."""
    values = {p: float(x) for p, x in zip(PRECISIONS, top.fma_flops_per_s, strict=True)}
    values["tensor"] = top.tensor_flops_per_s
    levels = {level: float(x) for level, x in zip(LEVELS, top.bandwidth, strict=True)}
    levels["shared"] = top.shared_bytes_per_s
    return {
        "gpu": top.gpu.name,
        "maxima": top.which,
        "flops_per_s": values,
        "bytes_per_s": levels,
        "instructions_per_s": top.issue_per_s,
        "origin": dict(top.origin),
    }
