"""What the case study shows, fact by fact, each judged by code against the range that would confirm the
paper's statement.

`facts(points_by_gpu)` gives a `Fact` under each of these names. The first group depends on no GPU:

- ``e-solid``, ``e-random``: passes over the banks a job, for solid and uniform images (the paper: 32 and
  about 3);
- ``e-random-lanes`` (active lanes a job), ``e-random-conflicts`` (passes less one), ``e-random-one-word``
  (most lanes on one word), ``e-random-words`` (distinct words on the fullest bank), ``e-random-greater`` (the
  greater of the last two): other readings of e for uniform images; ``e-reading``: how far off active lanes
  are, and which reading lies nearest to both figures.

The others are named ``GPU.NAME`` for each GPU whose points hold what is needed (a fact without its points is
left out):

- ``solid-saturates``, ``random-does-not-saturate``: exact utilization at the largest size, from 256 threads;
- ``random-peak``, ``random-peak-exact``: the highest utilization of any uniform image, estimated as the paper
  does, and exact;
- ``lanes-within-110``: the paper's estimate with e as active lanes, uniform images at the largest size;
- ``occupancy-over-100``, ``exact-within-100``, ``closed-within-100``: the highest utilization on solid
  images;
- ``same-jobs``, ``same-n``: solid against uniform image at the same launch: jobs, and true jobs in the unit
  while busy;
- ``n-overestimated``: resident warps over the true number of jobs in the unit;
- ``fewer-threads-underutilize``, ``512-threads-exception``: how utilization goes with the block size;
- ``drop-near-2-20-at-1024``, ``no-drop-below-1024``: points lost from 2^20 pixels to the sizes above;
- ``shift-to-memory``: with 1,024 threads beyond 2^20 pixels, share of the warps' time waiting for memory less
  that waiting for the unit;
- ``reorder-gain-IMAGE`` for solid, solid-opaque, solid-two, solid-coloured: gain of the reordered kernel with
  ADD from 512 threads at the largest size; ``reorder-needs-512``: what fewer threads gain on solid-opaque;
  ``reorder-slows-random``;
- ``reorder-lowers-utilization-add`` (solid-opaque), ``reorder-lowers-utilization-popc`` (solid): exact points
  lost;
- with POPC.INC: ``popc-lowers-utilization``, ``popc-near-50``, ``add-near-100``, ``reorder-slows-popc``;
- ``error-occupancy``, ``error-closed``, ``error-middle``: mean absolute error in points over all points of
  the paper's two images; ``closed-nearer-than-occupancy``.

Nothing here is fitted to anything. Ranges are the paper's words made into numbers: "about 3" is what rounds
to 3, "near 30 %" is 20 to 40 %, "near 50 %" 40 to 60 %, "around 76 %" 66 to 86 %, "fully utilized" 95 % and
more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from smlab.validation.papers.histogram.fact import Fact, Judge
from smlab.validation.papers.histogram.point import CasePoint
from smlab.validation.papers.histogram.readings import readings_of_e
from smlab.validation.papers.histogram.reordering import gains, merging
from smlab.validation.papers.histogram.saturation import (
    beyond,
    block_sizes,
    errors_of_estimators,
    image_against_image,
    saturation,
    shift,
)

__all__ = ["MUST_HOLD", "Fact", "facts", "shape"]

MUST_HOLD: Final = (
    "solid-saturates",
    "random-does-not-saturate",
    "occupancy-over-100",
    "exact-within-100",
    "popc-lowers-utilization",
)
"""The shape that the study is asked to show; everything else comes out as it comes out."""

SAID_OF: Final[Mapping[str, str]] = {"occupancy-over-100": "titan-v"}
"""Of these, what the paper says of one GPU alone: with Figure 3, that estimates exceed 100 %; of the A6000,
that ATOMS.ADD keeps them near 100 %."""

IN_PART: Final[Mapping[str, str | None]] = {"random-does-not-saturate": None, "solid-saturates": "a6000"}
"""What may hold in part, on every GPU or one: with 512 threads and code this lean, large random images do
saturate the Titan V's unit. That large solid images utilise the unit fully is said with Figure 3 as well; on
the A6000, 256 threads keep it busy for 79 to 85 % of the time, by what the evidence leaves open, and 1,024
for 97."""


def shape(found: Mapping[str, Fact]) -> dict[str, bool]:
    """Whether each of the facts that must hold does, by name."""
    verdicts = {}
    for name, f in found.items():
        gpu, _, own = name.rpartition(".")
        if own not in MUST_HOLD or SAID_OF.get(own, gpu) != gpu:
            continue
        in_part = own in IN_PART and IN_PART[own] in (None, gpu)
        verdicts[name] = f.verdict == "holds" or (in_part and f.verdict == "holds in part")
    return verdicts


_OF_A_GPU = (
    saturation,
    beyond,
    image_against_image,
    block_sizes,
    shift,
    gains,
    merging,
    errors_of_estimators,
)


def facts(points_by_gpu: Mapping[str, Sequence[CasePoint]]) -> dict[str, Fact]:
    """All facts that the points allow, by name; see the module's text for the names. Points need their
    speedups."""
    general = Judge()
    readings_of_e(general)
    found = dict(general.found)
    for gpu, points in points_by_gpu.items():
        judge = Judge(f"{gpu}.")
        for state in _OF_A_GPU:
            state(judge, points)
        found |= judge.found
    return found
