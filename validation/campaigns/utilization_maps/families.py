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
from smlab.sim.workloads.workload import Kernel
from smlab.validation.campaigns.utilization_maps import fitting_families, judging_families, random_families

Family = Callable[[Generator, Machine], Kernel]

_FIRST: Mapping[str, Family] = {
    "exponential": fitting_families.exponential,
    "narrow": fitting_families.narrow,
    "histogram": fitting_families.histogram,
    "work-queue": fitting_families.work_queue,
    "barrier-rounds": fitting_families.barrier_rounds,
    "phases": fitting_families.phases,
    "streaming": fitting_families.streaming,
    "producers": fitting_families.producers,
    "chains": fitting_families.chains,
    "uneven-blocks": fitting_families.uneven_blocks,
    "lockstep": fitting_families.lockstep,
}
_MEMORY: Mapping[str, Family] = {
    "neighbourhood": fitting_families.neighbourhood,
    "lookups": fitting_families.lookups,
    "scattering": fitting_families.scattering,
    "specialised": fitting_families.specialised,
    "staging": fitting_families.staging,
}
_ARRIVALS: Mapping[str, Family] = {
    "by-themselves": fitting_families.by_themselves,
    "in-a-row": fitting_families.in_a_row,
    "let-go": fitting_families.released,
}
FIT: Mapping[str, Family] = {**_FIRST, **_MEMORY, **_ARRIVALS}
"""Families that fit corrections and intervals."""
FEW: Mapping[str, Family] = {
    "few-by-themselves": fitting_families.few_by_themselves,
    "few-in-a-row": fitting_families.few_in_a_row,
    "few-let-go": fitting_families.few_released,
}
"""Families that fit the counter maps alone: few warps are rare in the others, and launch and atomic counters
do not tell these apart."""

_FIRST_JUDGES: Mapping[str, Family] = {
    "two-paces": judging_families.two_rates,
    "hash-insert": judging_families.hash_insert,
    "digit-count": judging_families.digit_count,
    "compaction": judging_families.compaction,
    "gridding": judging_families.gridding,
    "graph": judging_families.graph,
    "reduction": judging_families.reduction,
    "bursts-apart": judging_families.separate_bursts,
    "uneven-tail": judging_families.uneven_tail,
    "lockstep-arithmetic": judging_families.lockstep_arithmetic,
    "tally": judging_families.tally,
    "clustering": judging_families.clustering,
    "frontier": judging_families.frontier,
    "segments": judging_families.segments,
}
SECOND_JUDGES: Mapping[str, Family] = {
    "union-find": judging_families.union_find,
    "sparse-rows": judging_families.sparse_rows,
    "reservoir": judging_families.reservoir,
    "text-counts": judging_families.text_counts,
}
"""Families that judge and that nobody had looked at when the first maps were made; the random families were
thought of after that."""
THIRD_JUDGES: Mapping[str, Family] = {
    "photon-map": judging_families.photon_map,
    "mer-count": judging_families.mer_count,
    "voxel-means": judging_families.voxel_means,
    "event-queue": judging_families.event_queue,
}
"""Families that judge and that nobody had looked at when the first maps of three readings were made."""
FOURTH_JUDGES: Mapping[str, Family] = {
    "sort-pass": judging_families.sort_pass,
    "float-max": judging_families.float_max,
    "tile-extremes": judging_families.tile_extremes,
    "agents": judging_families.agents,
}
"""Families that judge and that nobody had looked at when the maps of today were made."""
HELD_OUT: Mapping[str, Family] = {**_FIRST_JUDGES, **SECOND_JUDGES, **THIRD_JUDGES, **FOURTH_JUDGES}
"""Families that judge; nothing is ever fitted to them."""

RANDOM: Mapping[str, Family] = random_families.RANDOM
"""Families of random programs; these fit as well."""
FIRST_RANDOM = 1000
"""Number of the first of them among all."""

FAMILIES: Mapping[str, Family] = {
    **_FIRST,
    **_FIRST_JUDGES,
    **_MEMORY,
    **SECOND_JUDGES,
    **THIRD_JUDGES,
    **_ARRIVALS,
    **FOURTH_JUDGES,
    **FEW,
}

GROUPS = 16
"""Of random families; one group is left out at a time, as a named family is."""


def group_of(name: str) -> str:
    """What is left out together with a family of that name."""
    if name in RANDOM:
        return f"random programs {list(RANDOM).index(name) % GROUPS}"
    return name.removeprefix("few-")
