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


def kernel_rows(found: Ceilings, violations: Sequence[RooflineViolation] = ()) -> list[dict[str, Any]]:
    """One row a kernel with the agreed keys; what does not exist is NaN (null in JSON), with a flag that
    says why."""
    work = found.work
    reasons = {v.index: v for v in violations}
    has_flops = np.nan_to_num(found.flops) > 0
    has_instructions = np.nan_to_num(work.instructions) > 0
    limited_by = found.limited_by
    issue = found.maxima.issue_per_s * found.grid.of("issue")
    with np.errstate(divide="ignore", invalid="ignore"):
        instruction_intensity = work.instructions[:, None] / work.level_bytes
        instruction_roofs = work.instructions[:, None] / found.level_s
    rows = []
    for i in range(len(found)):
        flags = list(work.flags[i])
        if not has_flops[i]:
            flags.append(NO_FLOPS if has_instructions[i] else NO_OPERATIONS)
        infinite = [level for level, x in zip(LEVELS, found.intensity[i], strict=True) if np.isinf(x)]
        if infinite:
            flags.append(f"no bytes at {', '.join(infinite)}: its intensity is infinite")
        if found.efficiency[i] < LOW_EFFICIENCY:
            flags.append(f"below {LOW_EFFICIENCY:.0%} of every roof: {LATENCY}")
        if i in reasons:
            v = reasons[i]
            flags.append(f"{v.seconds / v.least_s:.3f} of the least time by {v.ceiling}: {v.reason}")
        rows.append(
            {
                "kernel": work.kernel[i],
                "launch": work.launch[i],
                "flops": found.flops[i],
                "seconds": work.seconds[i],
                "clock_hz": work.clock_hz[i],
                "achieved_flops_per_s": found.achieved_flops_per_s[i],
                "intensity": _by_level(found.intensity[i] if has_flops[i] else np.full(3, np.nan)),
                "ceiling_flops_per_s": found.peak_ceiling[i] * found.grid.of("issue")[i],
                "mixed_peak_flops_per_s": found.mixed_peak[i],
                "bandwidth_ceilings": _by_level(found.bandwidth_ceilings[i]),
                "rooflines_flops_per_s": _by_level(found.rooflines[i]),
                "instructions": work.instructions[i],
                "instructions_per_s": work.instructions[i] / work.seconds[i],
                "ceiling_instructions_per_s": issue[i] if has_instructions[i] else np.nan,
                "instruction_intensity": _by_level(instruction_intensity[i]),
                "rooflines_instructions_per_s": _by_level(
                    instruction_roofs[i] if found.by_instructions[i] else np.full(3, np.nan)
                ),
                "parallelism": found.grid.of("issue")[i] if found.grid.known[i] else np.nan,
                "limiter": limited_by[i],
                "closest_roof": found.limiter[i],
                "least_s": found.bound_s[i],
                "share_of_limiter": found.efficiency[i],
                "flags": flags,
            }
        )
    return rows


def _by_level(values: Any) -> dict[str, float]:
    return {level: float(x) for level, x in zip(LEVELS, values, strict=True)}


def limiter_shares(found: Sequence[Ceilings]) -> list[dict[str, Any]]:
    """How many kernels, and how much of the time, each limiter has; the one with most time first."""
    names = np.concatenate([f.limited_by for f in found]).astype(str)
    seconds = np.concatenate([f.work.seconds for f in found])
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
