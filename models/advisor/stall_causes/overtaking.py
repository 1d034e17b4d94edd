"""Turns and bursts: what of a request's wait for its place in the queue is being overtaken.

Where warps come in turns, all requests of a block of code wait about equally long, most of a round of all
warps each. Where one warp is preferred to others, it gets its places one after the other, each an interval of
the queue after the one before; now and then it is overtaken, and for as long as the first request of a block
waits, or a round of the others takes. Who was overtaken finds the earlier requests done, so stalls are mostly
those of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low
from typing import Final

from smlab.models.advisor.code import AdvisedCode

FEWEST_REQUESTS: Final = 3
"""Of a block of code, from which on turns are told from bursts."""
ROUND_ROBIN_SHARE: Final = 0.5
"""The share of a round of the other warps for which the usual request waits, from which on all take turns."""


@dataclass(frozen=True)
class Bursts:
    """Cycles that a warp waits at each instruction when nobody comes between (``waited``), and by request
    the chance to be overtaken before it, and for how many cycles (``overtaken``)."""

    waited: Sequence[float]
    overtaken: Mapping[int, tuple[float, float]]


def bursts(
    code: AdvisedCode,
    waited: Sequence[float],
    queued: Mapping[int, float],
    intervals: Mapping[int, float],
    warps: float,
) -> Bursts:
    """From the mean cycles of waiting at each instruction (``waited``), those that requests wait for their
    places (``queued``), the cycles from place to place of their queue (``intervals``), and the warps that
    share a queue."""
    waits = list(waited)
    overtaken: dict[int, tuple[float, float]] = {}
    blocks: dict[int, list[int]] = {}
    for n in sorted(queued):
        blocks.setdefault(code.block_of[n], []).append(n)
    others = max(warps - 1.0, 1.0)
    for mine in blocks.values():
        if len(mine) < FEWEST_REQUESTS:
            continue
        usual = median_low(queued[n] for n in mine)
        round_robin_share = usual > ROUND_ROBIN_SHARE * others * median_low(intervals[n] for n in mine)
        for before, n in pairwise(mine):
            if round_robin_share:
                waits[n] -= max(queued[n] - usual, 0.0)
                continue
            # What is executed between two requests passes while the queue moves on.
            service = max(intervals[n] - sum(code.stalls[before:n]), 0.0)
            if (beyond := queued[n] - service) > 0:
                waits[n] -= beyond
                round_cycles = max(others * intervals[n], queued[mine[0]])
                overtaken[n] = min(beyond / round_cycles, 1.0), max(beyond, round_cycles)
    return Bursts(waits, overtaken)
