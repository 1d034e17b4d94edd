"""Sets of counters, each with more in it than the one before, and what they say of a kernel as features.

- ``atomic``: launch and atomic counters, which every profile for `smlab utilization` has;
- ``requests``: and what else goes through the memory path: shared and global loads and stores, their
  wavefronts and sectors, all instructions;
- ``states``: and the warp states, ``smsp__average_warps_issue_stalled_*``: how many warps wait for what;
- ``samples``: and what a source page has: the samples at the atomics' own instructions and at those that wait
  for their results, and how closely a warp's atomics follow each other and barriers.

All features are free of units of their own: shares, ratios to what the unit needs for a job, logarithms of
these. So what is learnt on one GPU serves another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.profiles.atomics.atomic_spacing import EDGES_CYCLES, SPACING_NAMES
from smlab.hw_bench.rows import Rows
from smlab.models.utilization.arrival_features import (
    batches_by_waiting,
    batches_of_sizes,
    logarithm,
    normalized_utilization,
)
from smlab.models.utilization.closed_estimator import ClosedEstimate
from smlab.models.utilization.simultaneous_arrivals import MAX_BATCH, MAX_ROW, BatchService
from smlab.models.utilization.trust_map import Features, UtilizationEstimates

Floats = NDArray[np.float64]

ATOMIC, REQUESTS, STATES, SAMPLES = "atomic", "requests", "states", "samples"
SETS: Final = (ATOMIC, REQUESTS, STATES, SAMPLES)
"""Each holds the counters of those before it."""

REQUEST_NAMES: Final = (
    "shared_loads",
    "shared_stores",
    "global_loads",
    "global_stores",
    "shared_wavefronts",
    "load_sectors",
    "store_sectors",
    "instructions",
)
"""What else goes through an SM's memory path: warp-instructions by kind, passes of shared loads and stores,
sectors of L1, and all warp-instructions."""

STATE_NAMES: Final = (
    "selected",
    "not_selected",
    "wait",
    "short_scoreboard",
    "long_scoreboard",
    "mio_throttle",
    "lg_throttle",
    "math_pipe_throttle",
    "barrier",
    "drain",
    "dispatch_stall",
)
"""Warp states that a simulated machine has, by their names in Nsight Compute. It has none of the others (a
missing instruction, a branch, a fence, sleep, texture). They count as other states, with ``wait`` and the
arithmetic ones: such a warp is not on the memory path."""

_LOADED_CYCLES: Final = 25.0
"""About what a shared load takes: so long its warp waits with the reason with which it waits for an
atomic."""


@dataclass(frozen=True, eq=False)
class Counters(Rows):
    """Counters beyond the atomic ones, of each kernel; NaN where a profile does not have them.

    For each SM and active cycle. ``requests`` (kernels, `REQUEST_NAMES`) are counts, ``passes`` (kernels,)
    the atomics' wavefronts. Mean numbers of warps by state (kernels, `STATE_NAMES`) are ``states``. Of these,
    ``at_atomic`` are at an atomic, and ``at_result`` at an instruction that needs an atomic's result.
    ``spacing`` (kernels, `SPACING_NAMES`). ``peak_warps`` (kernels,): resident at most; ``block_warps``: of a
    block.
    """

    peak_warps: Floats
    block_warps: Floats
    passes: Floats
    requests: Floats
    states: Floats
    at_atomic: Floats
    at_result: Floats
    spacing: Floats

    def sets(self) -> NDArray[np.object_]:
        """The richest set of each kernel, (kernels,)."""
        requests = ~np.isnan(self.requests).any(axis=1)
        states = requests & ~np.isnan(self.states).any(axis=1)
        paged = (self.at_atomic, self.at_result, self.spacing)
        samples = states & ~np.any([np.isnan(x).any(axis=1) for x in paged], axis=0)
        level = requests.astype(int) + states + samples
        sets: NDArray[np.object_] = np.array(SETS, dtype=object)[level]
        return sets

    @classmethod
    def none(cls, peak_warps: Floats, passes: Floats) -> Counters:
        """Of kernels of which no more is known."""
        unknown = (
            np.full((len(passes), len(n)), np.nan) for n in (REQUEST_NAMES, STATE_NAMES, SPACING_NAMES)
        )
        requests, states, spacing = unknown
        return cls(peak_warps, peak_warps, passes, requests, states, states, states, spacing)


def named_features(estimates: UtilizationEstimates, counters: Counters, which: str) -> Mapping[str, Floats]:
    """The features of a set by name, each (kernels,)."""
    parts = (_atomic_features, _request_features, _state_features, _sample_features)[: SETS.index(which) + 1]
    return {name: column for part in parts for name, column in part(estimates, counters).items()}


@cache
def feature_names(which: str) -> tuple[str, ...]:
    """The names of the features of a set, in the order of the columns of `feature_table`."""
    none = np.zeros(0)
    estimates = UtilizationEstimates(
        {},
        Features(**{f.name: none for f in fields(Features)}),
        ClosedEstimate(**{f.name: none for f in fields(ClosedEstimate)}),
        BatchService(np.zeros((0, MAX_BATCH)), np.zeros((0, MAX_BATCH)), np.zeros((0, MAX_ROW))),
    )
    return tuple(named_features(estimates, Counters.none(none, none), which))


def feature_table(estimates: UtilizationEstimates, counters: Counters, which: str) -> Floats:
    """The features of a set, (kernels, features)."""
    return np.column_stack(list(named_features(estimates, counters, which).values()))


def gain_by_waiting(
    estimates: UtilizationEstimates, counters: Counters, which: str, closed_gain: Floats
) -> Floats:
    """The logarithm of the speedup, from how many warps are counted waiting for the unit. A job's time there
    shrinks as the closed network says (``closed_gain`` is its speedup). The result is at most that speedup. A
    set without these warps has the closed network's speedup. Shape (kernels,).

    The closed network takes the time at the unit from its own queue, which is true of warps that arrive
    at random and wait for every result. Here it gives only how that time changes; how long it is was counted.
    """
    network: Floats = np.log(closed_gain)
    if which not in (STATES, SAMPLES):
        return network
    f, states = estimates.features, _by_state(counters.states)
    waiting = _waiting_in_states(counters) if which == STATES else _waiting_at_results(counters)
    left = _remaining_share(estimates, closed_gain)
    # Warps at a barrier wait for those that wait for the unit, and for those that do not, alike.
    counted = _amdahl_gain(waiting / np.maximum(f.warps - states["barrier"], 1e-3 * f.warps), left)
    return np.minimum(counted, network)


def _remaining_share(estimates: UtilizationEstimates, closed_gain: Floats) -> Floats:
    """The part of a job's time at the unit that is left after a change, by the closed network. W / X is think
    time and time at the unit. The think time does not change."""
    warps = estimates.features.warps
    inside = np.clip(estimates.closed.n, 1e-9 * warps, warps)
    left: Floats = np.clip((warps / closed_gain - (warps - inside)) / inside, 0.02, 1.5)
    return left


def _waiting_in_states(counters: Counters) -> Floats:
    """The mean number of warps that wait for the unit, by warp states: less what shared loads take."""
    s = _by_state(counters.states)
    at_results = np.maximum(s["short_scoreboard"] - counters.requests[:, 0] * _LOADED_CYCLES, 0)
    waiting: Floats = at_results + s["mio_throttle"]
    return waiting


def _waiting_at_results(counters: Counters) -> Floats:
    """The same by samples at the atomics and at what uses their results."""
    at, after = _by_state(counters.at_atomic), _by_state(counters.at_result)
    waiting: Floats = after["short_scoreboard"] + at["mio_throttle"]
    return waiting


def _waiting_features(
    estimates: UtilizationEstimates, counters: Counters, waiting: Floats, by: str
) -> Mapping[str, Floats]:
    """How many warps arrive at once, from the mean number that wait for the atomic unit. They arrive at
    random if that is what the closed network expects. They arrive a block at a time if a barrier releases
    them."""
    f, closed = estimates.features, estimates.closed
    block, most = np.fmax(counters.block_warps, 1), np.maximum(f.warps, 1)
    count = _batch_size(f, waiting)
    beyond = _batch_size(f, f.demand + np.maximum(waiting - closed.n, 0))
    closed_place = (closed.utilization - f.floor) / f.scale
    columns = {
        "batch size": np.log(count),
        "batch size per warp": np.log(count / most),
        "batch size per warp of a block": np.log(count / block),
        "normalized utilization of such batches": normalized_utilization(
            f, f.demand * _busy_ratio_of_batch(f, np.minimum(count, most))
        ),
        "normalized utilization of such batches within a block": normalized_utilization(
            f, f.demand * _busy_ratio_of_batch(f, np.minimum(count, block))
        ),
        "waiting over the closed network's": logarithm(waiting / closed.n),
        "batch size beyond independent arrivals": np.log(beyond),
        "normalized utilization of batches beyond independent arrivals": normalized_utilization(
            f, f.demand * _busy_ratio_of_batch(f, np.minimum(beyond, most))
        ),
        "closed network's over batch size beyond independent arrivals": closed_place
        / np.minimum(beyond, most),
    }
    columns |= batches_by_waiting(estimates, block, waiting)
    return {f"{name}, by {by}": column for name, column in columns.items()}


def _amdahl_gain(share: Floats, left: Floats | float) -> Floats:
    """The logarithm of the speedup if of this share of the time only a part were ``left`` (Amdahl's law)."""
    return -np.log(1 - np.minimum(share, 0.98) * (1 - left))


def _busy_ratio_of_batch(f: Features, count: Floats) -> Floats:
    """The busy time of a job over that of one alone, of jobs that come ``count`` at a time: the pipeline is
    filled once for all of them."""
    busy: Floats = 1 / f.spread + (1 - 1 / f.spread) / count
    return busy


def _batch_size(f: Features, inside: Floats) -> Floats:
    """How many jobs come at a time where ``inside`` is the mean number in the unit: of ``count`` jobs one
    waits for half of the others."""
    count: Floats = 1 + 2 * np.maximum(inside / f.demand - 1, 0) * f.spread
    return count


def _atomic_features(estimates: UtilizationEstimates, counters: Counters) -> Mapping[str, Floats]:
    f, closed = estimates.features, estimates.closed
    block = np.fmax(counters.block_warps, 1)
    return {
        "normalized utilization of the closed network": (closed.utilization - f.floor) / f.scale,
        "normalized utilization of independent arrivals": (1 - np.exp(-f.demand) - f.floor) / f.scale,
        "floor": f.floor,
        "ceiling": f.ceiling,
        "demand": np.log(f.demand),
        "warps": np.log(f.warps),
        "warps per demand": np.log(f.warps / f.demand),
        "jobs per warp": np.log(f.jobs_per_warp),
        "spread": np.log(f.spread),
        "saturation": np.minimum(f.saturation, 2),
        "e": np.log(f.e),
        "cas share": f.cas_share,
        "peak over mean warps": np.fmax(counters.peak_warps, f.warps) / f.warps,
        "warps of a block": np.log(block),
        "block over mean warps": np.log(block / f.warps),
        "normalized utilization of a block's batch": normalized_utilization(
            f, f.demand * _busy_ratio_of_batch(f, block)
        ),
        "closed network's queue length per demand": np.log(closed.n / f.demand),
        "closed network's queue length per warp": closed.n / f.warps,
        "service time without conflicts over that with them": np.log(f.conflict_free),
        "closed network's gain of a faster unit": np.log(closed.gain_faster),
        "closed network's gain without conflicts": np.log(closed.gain_spread),
    }


def _sectors(sectors: Floats, requests: Floats) -> Floats:
    """Sectors a request: at most one a lane. Reductions and copies have sectors and are no loads or
    stores."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(requests > 0, np.minimum(sectors / requests, 32.0), 0.0)


def _request_features(estimates: UtilizationEstimates, counters: Counters) -> Mapping[str, Floats]:
    f = estimates.features
    shared_loads, shared_stores, loads, stores, waves, read, written, instructions = counters.requests.T
    each = f.throughput
    return {
        "shared loads per atomic": np.log1p(shared_loads / each),
        "shared stores per atomic": np.log1p(shared_stores / each),
        "global loads per atomic": np.log1p(loads / each),
        "global stores per atomic": np.log1p(stores / each),
        "wavefronts per shared access": waves / np.maximum(shared_loads + shared_stores, 1e-9),
        "sectors per load": _sectors(read, loads),
        "sectors per store": _sectors(written, stores),
        "sectors per atomic": np.log1p((read + written) / each),
        "instructions per atomic": np.log(instructions / each),
        "instructions per cycle": instructions,
        "instructions per cycle and warp": np.log(instructions / f.warps),
        "requests per cycle": shared_loads + shared_stores + loads + stores + each,
        "wavefronts per cycle": waves + counters.passes + (read + written) / 4,
        "wavefronts per cycle without conflicts": waves + each + (read + written) / 4,
    }


def _state_features(estimates: UtilizationEstimates, counters: Counters) -> Mapping[str, Floats]:
    f = estimates.features
    s = _by_state(counters.states)
    short, mio, lg, barrier = (s[n] for n in ("short_scoreboard", "mio_throttle", "lg_throttle", "barrier"))
    waiting = _waiting_in_states(counters)
    at_results = waiting - mio
    named = sum(s[n] for n in _NAMED)
    columns = {
        "short scoreboard per demand": logarithm(short / f.demand),
        "short scoreboard without shared loads per demand": logarithm(at_results / f.demand),
        "mio throttle per demand": logarithm(mio / f.demand),
        "lg throttle per demand": logarithm(lg / f.demand),
        "throttled per demand": logarithm((mio + lg) / f.demand),
        "waiting per demand": logarithm((short + mio + lg) / f.demand),
        "barrier per demand": logarithm(barrier / f.demand),
        "not selected per demand": logarithm(s["not_selected"] / f.demand),
        "long scoreboard per demand": logarithm(s["long_scoreboard"] / f.demand),
        "drain per demand": logarithm(s["drain"] / f.demand),
        "normalized utilization by waiting warps": 1 / _batch_size(f, waiting),
        "barrier per demand and warp": logarithm(barrier / f.demand / np.fmax(counters.block_warps, 1)),
        "waiting for the unit": waiting / f.warps,
        "gain of a faster unit by Amdahl's law, by states": _amdahl_gain(waiting / f.warps, 0.5),
        "gain without conflicts by Amdahl's law, by states": _amdahl_gain(waiting / f.warps, f.conflict_free),
        **batches_of_sizes(estimates, np.fmax(counters.block_warps, 1)),
        **_waiting_features(estimates, counters, waiting, "states"),
        **_gains_by_waiting(estimates, counters, STATES),
        "throttled": (mio + lg) / f.warps,
        "share of mio throttle in throttled": mio / (mio + lg + 1e-3),
        "other states": 1 - named / f.warps,
    }
    return {**columns, **{name: s[name] / f.warps for name in _NAMED}}


def _gains_by_waiting(
    estimates: UtilizationEstimates, counters: Counters, which: str
) -> Mapping[str, Floats]:
    closed = estimates.closed
    return {
        f"gain of a faster unit, by {which}": gain_by_waiting(estimates, counters, which, closed.gain_faster),
        f"gain without conflicts, by {which}": gain_by_waiting(
            estimates, counters, which, closed.gain_spread
        ),
    }


_NAMED: Final = (
    "selected",
    "not_selected",
    "short_scoreboard",
    "long_scoreboard",
    "mio_throttle",
    "lg_throttle",
    "barrier",
    "drain",
)


def _sample_features(estimates: UtilizationEstimates, counters: Counters) -> Mapping[str, Floats]:
    f, each = estimates.features, estimates.features.throughput
    at, after, everywhere = (_by_state(x) for x in (counters.at_atomic, counters.at_result, counters.states))
    mio, result = at["mio_throttle"], after["short_scoreboard"]
    waiting = _waiting_at_results(counters)
    return {
        "mio throttle at atomics per demand": logarithm(mio / f.demand),
        "mio throttle at atomics": mio / f.warps,
        "share of all mio throttle": mio / (everywhere["mio_throttle"] + 1e-3),
        "long scoreboard at atomics": at["long_scoreboard"] / f.warps,
        "short scoreboard at atomics": at["short_scoreboard"] / f.warps,
        "long scoreboard at atomics per job": np.log(at["long_scoreboard"] / each + 0.1),
        "not selected at atomics per job": np.log(at["not_selected"] / each + 0.1),
        "warps at atomics per job": np.log(counters.at_atomic.sum(axis=1) / each + 0.1),
        "waiting for results per demand": logarithm(result / f.demand),
        "waiting for results": result / f.warps,
        "share of all short scoreboard": result / (everywhere["short_scoreboard"] + 1e-3),
        "warps in the unit per demand": logarithm(waiting / f.demand),
        "warps in the unit": waiting / f.warps,
        "gain of a faster unit by Amdahl's law, by samples": _amdahl_gain(waiting / f.warps, 0.5),
        "gain without conflicts by Amdahl's law, by samples": _amdahl_gain(
            waiting / f.warps, f.conflict_free
        ),
        "normalized utilization by warps in the unit": 1 / _batch_size(f, waiting),
        **_waiting_features(estimates, counters, waiting, "samples"),
        **_gains_by_waiting(estimates, counters, SAMPLES),
        **_spacing_features(estimates, counters),
    }


def _spacing_features(estimates: UtilizationEstimates, counters: Counters) -> Mapping[str, Floats]:
    """What follows from how far apart a warp's own atomics are, and how far behind a barrier."""
    f, closed = estimates.features, estimates.closed
    spacing = counters.spacing
    edges = len(EDGES_CYCLES)
    soon, released = spacing[:, :edges], spacing[:, edges : 2 * edges]
    barriers, returned = spacing[:, -2], spacing[:, -1]
    alone = f.demand / f.throughput  # cycles that the unit is busy with a job that it has to itself
    least = alone / f.spread
    busy = _mean_below(soon, alone) - _mean_below(soon, least) + least
    overlap = (busy - least) / np.maximum(alone - least, 1e-6 * alone)
    each = np.minimum(f.throughput / f.warps * busy, 0.999)
    after = _share_within(released, alone)
    block = np.fmax(counters.block_warps, 1)
    at_once = overlap * (1 - after + after / block)
    # Warps that a barrier has let go come as one; others, and other blocks, meet them by chance.
    released_busy = least + at_once * (alone - least)
    free = np.maximum(f.warps * (1 - after) + after * np.maximum(f.warps / block, 1), 1)
    by_chance = 1 - (1 - np.minimum(f.throughput * released_busy / free, 0.999)) ** free
    inside = _by_state(counters.at_result)["short_scoreboard"]
    return {
        "normalized utilization by a warp's own spacing": overlap,
        "normalized utilization of independent warps": normalized_utilization(f, 1 - (1 - each) ** f.warps),
        "closed network's times that by a warp's own spacing": overlap
        * (closed.utilization - f.floor)
        / f.scale,
        "atomics within half a job": _share_within(soon, alone / 2),
        "atomics within a job": _share_within(soon, alone),
        "atomics within four jobs": _share_within(soon, 4 * alone),
        "atomics within half a job of a barrier": _share_within(released, alone / 2),
        "atomics within a job of a barrier": after,
        "atomics within four jobs of a barrier": _share_within(released, 4 * alone),
        "normalized utilization of one block that a barrier released": normalized_utilization(
            f, f.throughput * released_busy
        ),
        "normalized utilization of independent released blocks": normalized_utilization(
            f, np.maximum(by_chance, f.floor)
        ),
        "independent arrivals": np.log(free),
        "busy time of a released job over that of one alone": np.log(released_busy / alone),
        "closed network's times that of released warps": at_once * (closed.utilization - f.floor) / f.scale,
        "barriers per atomic": np.log1p(barriers),
        "returned": returned,
        "warps in the unit per returned job": logarithm(inside / f.demand / np.maximum(returned, 0.05)),
    }


def _share_within(shares: Floats, cycles: Floats) -> Floats:
    """The shares (kernels, edges) read at other times (kernels,), interpolated in their logarithm."""
    at = np.clip(np.log2(np.maximum(cycles, 1e-3) / EDGES_CYCLES[0]), -1, len(EDGES_CYCLES) - 1)
    from_nothing = np.column_stack([np.zeros(len(shares)), shares])
    above = np.minimum(np.floor(at).astype(np.intp) + 1, shares.shape[1] - 1)
    rows = np.arange(len(shares))
    part = at + 1 - above
    share: Floats = from_nothing[rows, above] * (1 - part) + from_nothing[rows, above + 1] * part
    return share


def _mean_below(shares: Floats, most: Floats) -> Floats:
    """The mean of the times that the shares (kernels, edges) tell, each at most ``most`` (kernels,)."""
    steps = (np.arange(16) + 0.5) / 16
    longer = [1 - _share_within(shares, step * most) for step in steps.tolist()]
    mean: Floats = most * np.mean(longer, axis=0)
    return mean


def _by_state(table: Floats) -> dict[str, Floats]:
    return dict(zip(STATE_NAMES, table.T, strict=True))
