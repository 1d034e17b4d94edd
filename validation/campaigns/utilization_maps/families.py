"""Families of kernels that fit the intervals.

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
from smlab.validation.campaigns.utilization_maps import fitting_families, random_families

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

RANDOM: Mapping[str, Family] = random_families.RANDOM
"""Families of random programs; these fit as well."""
FIRST_RANDOM = 1000
"""Number of the first of them among all."""

FAMILIES: Mapping[str, Family] = {**FIT, **FEW}
NUMBERS: Mapping[str, int] = {
    name: first + place
    for first, group in ((0, _FIRST), (25, _MEMORY), (38, _ARRIVALS), (45, FEW))
    for place, name in enumerate(group)
}
"""Of the named families among all; a kernel's random numbers hang on it. The numbers between were those of
families that judged."""

GROUPS = 16
"""Of random families; one group is left out at a time, as a named family is."""


def group_of(name: str) -> str:
    """What is left out together with a family of that name."""
    if name in RANDOM:
        return f"random programs {list(RANDOM).index(name) % GROUPS}"
    return name.removeprefix("few-")
