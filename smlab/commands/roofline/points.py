"""What the picture of a roofline shows: kernels as points, by floating-point operations or by
instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.profiles import UNNAMED
from smlab.hw_bench.profiles.work.kernel_work import PRECISIONS, Floats
from smlab.hw_bench.sass.linking import readable_name
from smlab.models.roofline.ceilings import Ceilings
from smlab.models.roofline.work import traversing_bytes


@dataclass(frozen=True, eq=False)
class PanelPoints:
    """What one panel shows, a row a kernel, longest first: ``intensity`` and ``rate`` in G operations/s,
    and ceilings."""

    unit: str
    names: list[str]
    seconds: Floats
    intensity: Floats
    rate: Floats
    roofline: Floats
    peak_ceiling: Floats
    bandwidth_ceilings: Floats
    peaks: list[tuple[str, float]]

    @property
    def shown(self) -> NDArray[np.bool_]:
        return np.asarray(np.isfinite(self.intensity) & (self.intensity > 0))


def points_of(ceilings: Sequence[Ceilings], instructions: bool) -> PanelPoints | None:
    """The kernels with floating-point operations, or those with instructions only; None if there are none."""
    masks = []
    for c in ceilings:
        with_flops = np.nan_to_num(c.flops) > 0
        masks.append(~with_flops & (np.nan_to_num(c.work.instructions) > 0) if instructions else with_flops)
    parts = [(c, np.flatnonzero(m)) for c, m in zip(ceilings, masks, strict=True) if m.any()]
    if not parts:
        return None

    def joined(column: str) -> Floats:
        return np.concatenate([getattr(c, column)[i] for c, i in parts])

    top = ceilings[0].maxima
    seconds = np.concatenate([c.work.seconds[i] for c, i in parts])
    order = np.argsort(-seconds, kind="stable")
    names = [readable_name(str(k), 30) for c, i in parts for k in c.work.kernel[i]]
    works = [c.work.take(i) for c, i in parts]
    peaks = [("issue", top.issue_per_s / 1e9)]
    if instructions:
        operations = np.concatenate([w.instructions for w in works])
        peak_ceiling = top.issue_per_s * np.concatenate([c.grid.of("issue")[i] for c, i in parts])
    else:
        operations = joined("flops")
        peak_ceiling = joined("peak_ceiling") * np.concatenate([c.grid.of("issue")[i] for c, i in parts])
        peaks = []
        for p, precision in enumerate(PRECISIONS):
            if any(np.nan_to_num(w.add + w.mul + w.fma)[:, p].any() for w in works):
                peaks.append((precision.upper(), float(top.fma_flops_per_s[p]) / 1e9))
        if any(np.nan_to_num(w.tensor_flops).any() for w in works):
            peaks.append(("tensor", top.tensor_flops_per_s / 1e9))
    with np.errstate(divide="ignore", invalid="ignore"):
        intensity = operations[:, None] / np.concatenate([traversing_bytes(w) for w in works])
        roofline = operations[:, None] / joined("level_s") / 1e9
    return PanelPoints(
        unit="warp-instructions" if instructions else "FLOP",
        names=["" if names[i] == UNNAMED else names[i] for i in order.tolist()],
        seconds=seconds[order],
        intensity=intensity[order],
        rate=(operations / seconds / 1e9)[order],
        roofline=roofline[order],
        peak_ceiling=peak_ceiling[order] / 1e9,
        bandwidth_ceilings=joined("bandwidth_ceilings")[order] / 1e9,
        peaks=peaks,
    )
