"""Families of kernels, those that fit the intervals and those that judge them; no family is in both lists.

A family is a function of a generator and a machine that draws one kernel. What all of them spread out: warps on the SM (1 to
all), waves of blocks, atomics a kernel (150 to 10,000 an SM: short kernels are in), the load on the unit (2 % to three times
what it can do), lanes and words (1 to 32 passes, fixed or random), compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from numpy.random import Generator

from sim.machine import Machine
from sim.workload import Kernel
from validation.campaign import fitting, judging

Family = Callable[[Generator, Machine], Kernel]

FIT: Mapping[str, Family] = {
    "exponential": fitting.exponential,
    "narrow": fitting.narrow,
    "histogram": fitting.histogram,
    "work-queue": fitting.work_queue,
    "barrier-rounds": fitting.barrier_rounds,
    "phases": fitting.phases,
    "streaming": fitting.streaming,
    "producers": fitting.producers,
    "chains": fitting.chains,
    "uneven-blocks": fitting.uneven_blocks,
    "lockstep": fitting.lockstep,
}
"""Families that fit corrections and intervals."""

HELD_OUT: Mapping[str, Family] = {
    "two-paces": judging.two_paces,
    "hash-insert": judging.hash_insert,
    "digit-count": judging.digit_count,
    "compaction": judging.compaction,
    "gridding": judging.gridding,
    "graph": judging.graph,
    "reduction": judging.reduction,
    "bursts-apart": judging.bursts_apart,
    "uneven-tail": judging.uneven_tail,
    "lockstep-arithmetic": judging.lockstep_arithmetic,
    "tally": judging.tally,
    "clustering": judging.clustering,
    "frontier": judging.frontier,
    "segments": judging.segments,
}
"""Families that judge; nothing is ever fitted to them."""

FAMILIES: Mapping[str, Family] = {**FIT, **HELD_OUT}
