"""What a profile counts beside its atomics, by launch: other requests on the memory path, and warp states.

Warp states are the sections that Nsight Compute calls warp state statistics: the counters
``smsp__average_warps_issue_stalled_REASON_per_issue_active.ratio`` (mean warps in the state for each
instruction issued), ``smsp__average_warp_latency_issue_stalled_REASON.ratio`` (cycles of a warp in it for
each instruction) or ``smsp__warp_issue_stalled_REASON_per_warp_active.pct``. All are the same shares of the
warps' time but for a factor common to all states, and shares are what is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from smlab.hw_bench.profiles.atomics import required_counters
from smlab.hw_bench.profiles.atomics.quantities import AtomicQuantities
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU
from smlab.hw_bench.profiles.ncu.pivot import Choice, Floats, Pivot, launch_groups
from smlab.hw_bench.profiles.pc_samples.samples import REASONS, SELECTED
from smlab.hw_bench.profiles.profile import Profile

REQUESTED: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "shared_loads": tuple(
        (name.format("shared_ld"),) for name in (required_counters.EXECUTED, required_counters.EXECUTED_PLAIN)
    ),
    "shared_stores": tuple(
        (name.format("shared_st"),) for name in (required_counters.EXECUTED, required_counters.EXECUTED_PLAIN)
    ),
    "global_loads": tuple(
        (name.format("global_ld"),) for name in (required_counters.EXECUTED, required_counters.EXECUTED_PLAIN)
    ),
    "global_stores": tuple(
        (name.format("global_st"),) for name in (required_counters.EXECUTED, required_counters.EXECUTED_PLAIN)
    ),
    "shared_wavefronts": (
        (required_counters.SHARED_WAVEFRONTS.format("ld"), required_counters.SHARED_WAVEFRONTS.format("st")),
    ),
    "load_sectors": ((required_counters.SECTORS.format("ld"),),),
    "store_sectors": ((required_counters.SECTORS.format("st"),),),
    "instructions": (("smsp__inst_executed.sum",), ("sm__inst_executed.sum",)),
}
"""Requests by kind: what is asked for, and what else will do; several counters are added up."""

_FAMILIES: Final = (
    required_counters.STATE,
    "smsp__average_warp_latency_issue_stalled_{}.ratio",
    "smsp__warp_issue_stalled_{}_per_warp_active.pct",
)
_ALIASES: Final = {"no_instructions": "no_instruction"}
NEEDED_STATES: Final = (
    "short_scoreboard",
    "long_scoreboard",
    "mio_throttle",
    "lg_throttle",
    "barrier",
    "not_selected",
)
"""States without which the others tell little; one that is missing beside these counts as 0."""

_COUNT: Final = ("", "inst", "wavefront", "sector", "request")
_RATIO: Final = ("", "warp", "inst", "cycle", "ratio", "%", "warp/inst", "cycle/inst")


@dataclass(frozen=True, eq=False)
class PathCounters:
    """Beside each row of `AtomicQuantities`; NaN where the profile does not have them.

    ``requests`` by name (rows,), summed over the row's SMs; ``states`` by name of the warp state (rows,): the
    share of the resident warps' time, all states together 1; ``block_warps`` (rows,) of the launch's blocks.
    """

    requests: dict[str, Floats]
    states: dict[str, Floats]
    block_warps: Floats


def path_counters(profile: Profile, rows: AtomicQuantities) -> PathCounters:
    """What ``profile`` counts on the whole GPU beside the atomics of ``rows``. Of a launch whose atomics are
    counted by SM, each SM has a part of the requests, as many as of the atomics, and the states of all.

    `SmlabError` for a counter in a wrong unit or with an impossible value.
    """
    pivot = Pivot(profile, launch_groups(profile), profile.table.sm == WHOLE_GPU)
    places = {(str(k), int(n)): i for i, (k, n) in enumerate(zip(pivot.kernel, pivot.launch, strict=True))}
    launches = [(str(k), int(n)) for k, n in zip(rows.kernel, rows.launch, strict=True)]
    at = np.array([places.get(launch, -1) for launch in launches], dtype=np.intp)
    jobs = np.zeros(len(pivot) + 1)
    np.add.at(jobs, at, rows.jobs)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = rows.jobs / jobs[at]

    def of_rows(values: Floats) -> Floats:
        per_row: Floats = np.append(values, np.nan)[at]
        return per_row

    requests = {
        name: part * of_rows(Choice(pivot, *((" + ".join(c), _total(pivot, c)) for c in ways)).value)
        for name, ways in REQUESTED.items()
    }
    states = {name: of_rows(share) for name, share in _states(pivot).items()}
    return PathCounters(
        requests, states, of_rows(np.ceil(pivot.get(required_counters.BLOCK, ("", "thread")) / 32))
    )


def _total(pivot: Pivot, counters: tuple[str, ...]) -> Floats:
    total: Floats = np.sum([pivot.get(c, _COUNT) for c in counters], axis=0)
    return total


def _states(pivot: Pivot) -> dict[str, Floats]:
    """The share of each state, of the first kind of counters that has those that are needed."""
    states = {name: pivot.nothing() for name in REASONS}
    left = np.ones(len(pivot), dtype=bool)
    for pattern in _FAMILIES:
        values = {name: pivot.get(pattern.format(name), _RATIO) for name in REASONS}
        for name, other in _ALIASES.items():
            values[name] = np.where(
                np.isnan(values[name]), pivot.get(pattern.format(other), _RATIO), values[name]
            )
        if pattern == required_counters.STATE:  # for each instruction issued, one warp is the one that issues
            values[SELECTED] = np.where(np.isnan(values[SELECTED]), 1.0, values[SELECTED])
        there = left & ~np.isnan([values[name] for name in NEEDED_STATES]).any(axis=0)
        table = np.nan_to_num(np.stack(list(values.values())))
        total = table.sum(axis=0)
        there &= total > 0
        for name, row in zip(values, table, strict=True):
            states[name][there] = row[there] / total[there]
        left &= ~there
    return states
