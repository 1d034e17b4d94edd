"""Families of kernels, those that fit the intervals and those that judge them; no family is in both lists.

A family is a function of a generator and a machine that draws one kernel. What all of them spread out: warps
on the SM (1 to all), waves of blocks, atomics a kernel (150 to 10,000 an SM: short kernels are in), the load
on the unit (2 % to three times what it can do), lanes and words (1 to 32 passes, fixed or random),
compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from numpy.random import Generator

from smlab.sim.machine import Machine
from smlab.sim.workload import Kernel
from smlab.validation.trust import (
    fit_families,
    fit_families_arrivals,
    fit_families_memory,
    fresh_families,
    held_out_families,
    last_families,
    random_families,
    unseen_families,
)

Family = Callable[[Generator, Machine], Kernel]

_FIRST: Mapping[str, Family] = {
    "exponential": fit_families.exponential,
    "narrow": fit_families.narrow,
    "histogram": fit_families.histogram,
    "work-queue": fit_families.work_queue,
    "barrier-rounds": fit_families.barrier_rounds,
    "phases": fit_families.phases,
    "streaming": fit_families.streaming,
    "producers": fit_families.producers,
    "chains": fit_families.chains,
    "uneven-blocks": fit_families.uneven_blocks,
    "lockstep": fit_families.lockstep,
}
_MEMORY: Mapping[str, Family] = {
    "neighbourhood": fit_families_memory.neighbourhood,
    "lookups": fit_families_memory.lookups,
    "scattering": fit_families_memory.scattering,
    "specialised": fit_families_memory.specialised,
    "staging": fit_families_memory.staging,
}
_ARRIVALS: Mapping[str, Family] = {
    "by-themselves": fit_families_arrivals.by_themselves,
    "in-a-row": fit_families_arrivals.in_a_row,
    "let-go": fit_families_arrivals.let_go,
}
FIT: Mapping[str, Family] = {**_FIRST, **_MEMORY, **_ARRIVALS}
"""Families that fit corrections and intervals."""
FEW: Mapping[str, Family] = {
    "few-by-themselves": fit_families_arrivals.few_by_themselves,
    "few-in-a-row": fit_families_arrivals.few_in_a_row,
    "few-let-go": fit_families_arrivals.few_let_go,
}
"""Families that fit the counter maps alone: few warps are rare in the others, and launch and atomic counters
do not tell these apart."""

_KEPT_BACK: Mapping[str, Family] = {
    "two-paces": held_out_families.two_paces,
    "hash-insert": held_out_families.hash_insert,
    "digit-count": held_out_families.digit_count,
    "compaction": held_out_families.compaction,
    "gridding": held_out_families.gridding,
    "graph": held_out_families.graph,
    "reduction": held_out_families.reduction,
    "bursts-apart": held_out_families.bursts_apart,
    "uneven-tail": held_out_families.uneven_tail,
    "lockstep-arithmetic": held_out_families.lockstep_arithmetic,
    "tally": held_out_families.tally,
    "clustering": held_out_families.clustering,
    "frontier": held_out_families.frontier,
    "segments": held_out_families.segments,
}
UNSEEN: Mapping[str, Family] = {
    "union-find": unseen_families.union_find,
    "sparse-rows": unseen_families.sparse_rows,
    "reservoir": unseen_families.reservoir,
    "text-counts": unseen_families.text_counts,
}
"""Families that judge and that nobody had looked at when the first maps were made; the random families were
thought of after that."""
FRESH: Mapping[str, Family] = {
    "photon-map": fresh_families.photon_map,
    "mer-count": fresh_families.mer_count,
    "voxel-means": fresh_families.voxel_means,
    "event-queue": fresh_families.event_queue,
}
"""Families that judge and that nobody had looked at when the first maps of three readings were made."""
LAST: Mapping[str, Family] = {
    "sort-pass": last_families.sort_pass,
    "float-max": last_families.float_max,
    "tile-extremes": last_families.tile_extremes,
    "agents": last_families.agents,
}
"""Families that judge and that nobody had looked at when the maps of today were made."""
HELD_OUT: Mapping[str, Family] = {**_KEPT_BACK, **UNSEEN, **FRESH, **LAST}
"""Families that judge; nothing is ever fitted to them."""

RANDOM: Mapping[str, Family] = random_families.RANDOM
"""Families of random programs; these fit as well."""
FIRST_RANDOM = 1000
"""Number of the first of them among all."""

FAMILIES: Mapping[str, Family] = {
    **_FIRST,
    **_KEPT_BACK,
    **_MEMORY,
    **UNSEEN,
    **FRESH,
    **_ARRIVALS,
    **LAST,
    **FEW,
}

GROUPS = 16
"""Of random families; one group is left out at a time, as a named family is."""


def group_of(name: str) -> str:
    """What is left out together with a family of that name."""
    if name in RANDOM:
        return f"random programs {list(RANDOM).index(name) % GROUPS}"
    return name.removeprefix("few-")
