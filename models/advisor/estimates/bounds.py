"""What a change can gain at most, and when nothing more than that can be said.

The first-order effect is Amdahl's: the matched samples go, no others. The second-order effect is that some of
the others go with them. Where a warp waits for other warps, at a barrier, for a queue, a pipe or the
scheduler, all may go, as those warps are no longer late; of the rest at most the same share, as it waited in
the same queues. So with a share ``s`` matched and ``w`` that waits for other warps besides, at least
``(1 - s) (1 - s - w)`` of the time stays.
"""

from __future__ import annotations

import math
from typing import Final

from smlab.models.advisor.changes.matching import AMONG, Context, Match
from smlab.models.advisor.changes.rewrites import Rewrite
from smlab.models.advisor.estimates.gpa_equations import MAX_SPEEDUP
from smlab.models.advisor.estimates.sm_model import KernelModel

MOST_MISSED: Final = 0.10
"""By how much a replay without any change may miss the kernel's time, as a share, before it tells nothing."""
MOST_OPEN: Final = 0.10
"""By how much the samples alone may leave the matched stalls' speedup open, as a share (90 %, one side)."""
SIDE: Final = 1.645
"""Standard deviations that 5 % of a normal distribution lie beyond."""


def most_gained(context: Context, match: Match) -> float:
    """The bound; of a change of the launch, by how much it spreads or merges the work. DRAM stays as busy as
    it is where the change takes nothing off it."""
    grown = max((max(rewrite.spread, rewrite.merged) for rewrite in match.rewrites), default=1.0)
    rest = 1 - min(match.matched / context.total, 1.0)
    among = sum(row.stalled.get(reason, 0) for row in context.rows.values() for reason in AMONG)
    other = max(among - match.among_warps, 0.0) / context.total
    left = 1 / grown if grown > 1 else rest * max(rest - other, 0.0)
    if match.rewrites and not any(_takes_off_dram(context, rewrite) for rewrite in match.rewrites):
        left = max(left, min(context.samples.busy.get("dram", 0.0), 1.0))
    return 1 / max(left, 1 / MAX_SPEEDUP)


def _takes_off_dram(context: Context, rewrite: Rewrite) -> bool:
    kinds = context.code.kinds
    lighter = {*rewrite.removed, *(n for n, e in rewrite.edits.items() if e.dram < 1 or e.constant or e.free)}
    lighter |= {n for n, e in rewrite.edits.items() if e.chain or (e.shared and e.passes is not None)}
    return any(kinds[n] in ("global", "local") for n in lighter)


def why_no_number(context: Context, match: Match, model: KernelModel | None) -> str:
    """Why an estimate is no more than a bound; empty where it is a number."""
    if model is None:
        return "the profile has no counts to replay the kernel by"
    if not match.rewrites:
        return "no replay knows this change"
    if model.ratio is None:
        return "the profile does not tell the kernel's time, so the replay cannot be checked"
    if abs(model.ratio - 1) > MOST_MISSED:
        late = "late" if model.ratio > 1 else "early"
        return f"the replay of the kernel as it is comes {100 * abs(model.ratio - 1):.0f} % too {late}"
    share = min(match.matched / context.total, 1.0)
    left = max(1 - share, 1 / context.total)
    if SIDE * math.sqrt(share * left / context.total) / left > MOST_OPEN:
        return f"{context.total:,.0f} samples leave it open by more than {100 * MOST_OPEN:.0f} %"
    return ""
