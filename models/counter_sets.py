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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.profiles.atomic_spacing import EDGES_CYCLES, SPACING_NAMES
from smlab.models.together_features import by_tables, logarithm, of_tables, place
from smlab.models.trust import Features, UtilizationEstimates

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
"""Warp states that a simulated machine has, by their names in Nsight Compute. Of the others (a missing
instruction, a branch, a fence, sleep, texture) it has none; with ``wait`` and the arithmetic ones they count
as *elsewhere*: what the warp does is not the memory path's business."""

_LOADED_CYCLES: Final = 25.0
"""About what a shared load takes: so long its warp waits with the reason with which it waits for an
atomic."""


@dataclass(frozen=True, eq=False)
class Counters:
    """Counters beyond the atomic ones, of each kernel; NaN where a profile does not have them.

    For each SM and active cycle: ``requests`` (kernels, `REQUEST_NAMES`) and ``passes`` (kernels,), the
    atomics' wavefronts; mean numbers of warps (kernels, `STATE_NAMES`): in each state, ``states``; of these
    at an atomic, ``at_atomic``; at an instruction that needs an atomic's result, ``at_result``. ``spacing``
    (kernels, `SPACING_NAMES`). ``peak_warps`` (kernels,): resident at most; ``block_warps``: of a block.
    """

    peak_warps: Floats
    block_warps: Floats
    passes: Floats
    requests: Floats
    states: Floats
    at_atomic: Floats
    at_result: Floats
    spacing: Floats

    def take(self, chosen: NDArray[Any]) -> Counters:
        return Counters(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})

    def sets(self) -> NDArray[np.object_]:
        """The richest set of each kernel, (kernels,)."""
        requests = ~np.isnan(self.requests).any(axis=1)
        states = requests & ~np.isnan(self.states).any(axis=1)
        paged = (self.at_atomic, self.at_result, self.spacing)
        samples = states & ~np.any([np.isnan(x).any(axis=1) for x in paged], axis=0)
        level = requests.astype(int) + states + samples
        found: NDArray[np.object_] = np.array(SETS, dtype=object)[level]
        return found

    @classmethod
    def joined(cls, parts: Iterable[Counters]) -> Counters:
        """Those of several campaigns, one after the other."""
        several = list(parts)
        return cls(**{f.name: np.concatenate([getattr(c, f.name) for c in several]) for f in fields(cls)})

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
    parts = (_of_atomics, _of_requests, _of_states, _of_samples)[: SETS.index(which) + 1]
    return {name: column for part in parts for name, column in part(estimates, counters).items()}


def feature_table(estimates: UtilizationEstimates, counters: Counters, which: str) -> Floats:
    """The features of a set, (kernels, features)."""
    return np.column_stack(list(named_features(estimates, counters, which).values()))


def gain_by_waiting(
    estimates: UtilizationEstimates, counters: Counters, which: str, closed_gain: Floats
) -> Floats:
    """The logarithm of the speedup that follows from how many warps are counted waiting for the unit, if a
    job's time there shrinks as the closed network says it does (``closed_gain`` is its speedup), and at most
    that speedup; of the sets that do not have these warps, the closed network's speedup. Shape (kernels,).

    The closed network takes the time at the unit from its own queue, which holds for warps that come by
    chance and wait for every result. Here it gives only how that time changes; how long it is was counted.
    """
    network: Floats = np.log(closed_gain)
    if which not in (STATES, SAMPLES):
        return network
    f, states = estimates.features, _by_state(counters.states)
    waiting = _waiting_in_states(counters) if which == STATES else _waiting_at_results(counters)
    left = _left_at_the_unit(estimates, closed_gain)
    # Warps at a barrier wait for those that wait for the unit, and for those that do not, alike.
    counted = _worth(waiting / np.maximum(f.warps - states["barrier"], 1e-3 * f.warps), left)
    return np.minimum(counted, network)


def _left_at_the_unit(estimates: UtilizationEstimates, closed_gain: Floats) -> Floats:
    """The part of a job's time at the unit that is left after a change, by the closed network: W / X is
    think time and time at the unit, and of the former nothing changes."""
    warps = estimates.features.warps
    inside = np.clip(estimates.closed.n, 1e-9 * warps, warps)
    left: Floats = np.clip((warps / closed_gain - (warps - inside)) / inside, 0.02, 1.5)
    return left


def _waiting_in_states(counters: Counters) -> Floats:
    """The mean number of warps that wait for the unit, by warp states: less what shared loads take."""
    s = _by_state(counters.states)
    own = np.maximum(s["short_scoreboard"] - counters.requests[:, 0] * _LOADED_CYCLES, 0)
    waiting: Floats = own + s["mio_throttle"]
    return waiting


def _waiting_at_results(counters: Counters) -> Floats:
    """The same by samples at the atomics and at what uses their results."""
    at, after = _by_state(counters.at_atomic), _by_state(counters.at_result)
    waiting: Floats = after["short_scoreboard"] + at["mio_throttle"]
    return waiting


def _of_waiting(
    estimates: UtilizationEstimates, counters: Counters, waiting: Floats, by: str
) -> Mapping[str, Floats]:
    """What the mean number of warps that wait for the unit tells of how many come together: all of them come
    by chance where it is what the closed network expects, and a block at a time where a barrier lets go."""
    f, closed = estimates.features, estimates.closed
    block, most = np.fmax(counters.block_warps, 1), np.maximum(f.warps, 1)
    count = _at_a_time(f, waiting)
    beyond = _at_a_time(f, f.demand + np.maximum(waiting - closed.n, 0))
    closed_place = (closed.utilization - f.floor) / f.scale
    told = {
        "at a time": np.log(count),
        "at a time per warp": np.log(count / most),
        "at a time per warp of a block": np.log(count / block),
        "place if so many come together": place(f, f.demand * _together(f, np.minimum(count, most))),
        "place if they come by the block": place(f, f.demand * _together(f, np.minimum(count, block))),
        "waiting over expected": logarithm(waiting / closed.n),
        "at a time beyond chance": np.log(beyond),
        "place if those come together": place(f, f.demand * _together(f, np.minimum(beyond, most))),
        "place of closed and together": closed_place / np.minimum(beyond, most),
    }
    told |= by_tables(estimates, block, waiting)
    return {f"{name}, by {by}": column for name, column in told.items()}


def _worth(share: Floats, left: Floats | float) -> Floats:
    """The logarithm of the speedup if of this share of the time only a part were ``left`` (Amdahl's law)."""
    return -np.log(1 - np.minimum(share, 0.98) * (1 - left))


def _together(f: Features, count: Floats) -> Floats:
    """The busy time of a job over that of one alone, of jobs that come ``count`` at a time: the pipeline is
    filled once for all of them."""
    busy: Floats = 1 / f.spread + (1 - 1 / f.spread) / count
    return busy


def _at_a_time(f: Features, inside: Floats) -> Floats:
    """How many jobs come at a time where ``inside`` is the mean number in the unit: of ``count`` jobs one
    waits for half of the others."""
    count: Floats = 1 + 2 * np.maximum(inside / f.demand - 1, 0) * f.spread
    return count


def _of_atomics(estimates: UtilizationEstimates, counters: Counters) -> Mapping[str, Floats]:
    f, closed = estimates.features, estimates.closed
    block = np.fmax(counters.block_warps, 1)
    return {
        "closed place": (closed.utilization - f.floor) / f.scale,
        "place if no two meet but by chance": (1 - np.exp(-f.demand) - f.floor) / f.scale,
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
        "place if blocks come together": place(f, f.demand * _together(f, block)),
        "closed n per demand": np.log(closed.n / f.demand),
        "closed n per warp": closed.n / f.warps,
        "lighter": np.log(f.lighter),
        "closed gain of a faster unit": np.log(closed.gain_faster),
        "closed gain without conflicts": np.log(closed.gain_spread),
    }


def _sectors(sectors: Floats, requests: Floats) -> Floats:
    """Sectors a request: at most one a lane. Reductions and copies have sectors and are no loads or
    stores."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(requests > 0, np.minimum(sectors / requests, 32.0), 0.0)


def _of_requests(estimates: UtilizationEstimates, counters: Counters) -> Mapping[str, Floats]:
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


def _of_states(estimates: UtilizationEstimates, counters: Counters) -> Mapping[str, Floats]:
    f = estimates.features
    s = _by_state(counters.states)
    short, mio, lg, barrier = (s[n] for n in ("short_scoreboard", "mio_throttle", "lg_throttle", "barrier"))
    waiting = _waiting_in_states(counters)
    own = waiting - mio
    named = sum(s[n] for n in _NAMED)
    told = {
        "short scoreboard per demand": logarithm(short / f.demand),
        "the same without shared loads": logarithm(own / f.demand),
        "mio throttle per demand": logarithm(mio / f.demand),
        "lg throttle per demand": logarithm(lg / f.demand),
        "throttled per demand": logarithm((mio + lg) / f.demand),
        "waiting per demand": logarithm((short + mio + lg) / f.demand),
        "barrier per demand": logarithm(barrier / f.demand),
        "not selected per demand": logarithm(s["not_selected"] / f.demand),
        "long scoreboard per demand": logarithm(s["long_scoreboard"] / f.demand),
        "drain per demand": logarithm(s["drain"] / f.demand),
        "place by how many wait": 1 / _at_a_time(f, waiting),
        "barrier per demand and warp": logarithm(barrier / f.demand / np.fmax(counters.block_warps, 1)),
        "waiting for the unit": waiting / f.warps,
        "its worth": _worth(waiting / f.warps, 0.5),
        "its worth without conflicts": _worth(waiting / f.warps, f.lighter),
        **of_tables(estimates, np.fmax(counters.block_warps, 1)),
        **_of_waiting(estimates, counters, waiting, "states"),
        **_gains_by_waiting(estimates, counters, STATES),
        "throttled": (mio + lg) / f.warps,
        "mio of throttled": mio / (mio + lg + 1e-3),
        "elsewhere": 1 - named / f.warps,
    }
    return {**told, **{name: s[name] / f.warps for name in _NAMED}}


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


def _of_samples(estimates: UtilizationEstimates, counters: Counters) -> Mapping[str, Floats]:
    f, each = estimates.features, estimates.features.throughput
    at, after, everywhere = (_by_state(x) for x in (counters.at_atomic, counters.at_result, counters.states))
    mio, result = at["mio_throttle"], after["short_scoreboard"]
    waiting = _waiting_at_results(counters)
    return {
        "mio throttle at atomics per demand": logarithm(mio / f.demand),
        "mio throttle at atomics": mio / f.warps,
        "of all mio throttle": mio / (everywhere["mio_throttle"] + 1e-3),
        "long scoreboard at atomics": at["long_scoreboard"] / f.warps,
        "short scoreboard at atomics": at["short_scoreboard"] / f.warps,
        "long scoreboard a job": np.log(at["long_scoreboard"] / each + 0.1),
        "not selected a job": np.log(at["not_selected"] / each + 0.1),
        "at atomics a job": np.log(counters.at_atomic.sum(axis=1) / each + 0.1),
        "waiting for results per demand": logarithm(result / f.demand),
        "waiting for results": result / f.warps,
        "of all short scoreboard": result / (everywhere["short_scoreboard"] + 1e-3),
        "inside per demand": logarithm(waiting / f.demand),
        "waiting for atomics": waiting / f.warps,
        "the worth of that": _worth(waiting / f.warps, 0.5),
        "the worth of that without conflicts": _worth(waiting / f.warps, f.lighter),
        "place by how many are inside": 1 / _at_a_time(f, waiting),
        **_of_waiting(estimates, counters, waiting, "samples"),
        **_gains_by_waiting(estimates, counters, SAMPLES),
        **_of_spacing(estimates, counters),
    }


def _of_spacing(estimates: UtilizationEstimates, counters: Counters) -> Mapping[str, Floats]:
    """What follows from how far apart a warp's own atomics are, and how far behind a barrier."""
    f, closed = estimates.features, estimates.closed
    told = counters.spacing
    edges = len(EDGES_CYCLES)
    soon, released = told[:, :edges], told[:, edges : 2 * edges]
    barriers, returned = told[:, -2], told[:, -1]
    alone = f.demand / f.throughput  # cycles that the unit is busy with a job that it has to itself
    least = alone / f.spread
    busy = _mean_below(soon, alone) - _mean_below(soon, least) + least
    own = (busy - least) / np.maximum(alone - least, 1e-6 * alone)
    each = np.minimum(f.throughput / f.warps * busy, 0.999)
    after = _at(released, alone)
    block = np.fmax(counters.block_warps, 1)
    at_once = own * (1 - after + after / block)
    # Warps that a barrier has let go come as one; others, and other blocks, meet them by chance.
    alone_together = least + at_once * (alone - least)
    free = np.maximum(f.warps * (1 - after) + after * np.maximum(f.warps / block, 1), 1)
    by_chance = 1 - (1 - np.minimum(f.throughput * alone_together / free, 0.999)) ** free
    inside = _by_state(counters.at_result)["short_scoreboard"]
    return {
        "own place": own,
        "place of independent warps": place(f, 1 - (1 - each) ** f.warps),
        "place of closed and own": own * (closed.utilization - f.floor) / f.scale,
        "within half a job": _at(soon, alone / 2),
        "within a job": _at(soon, alone),
        "within four jobs": _at(soon, 4 * alone),
        "half a job behind a barrier": _at(released, alone / 2),
        "a job behind a barrier": after,
        "four jobs behind a barrier": _at(released, 4 * alone),
        "place if blocks are let go": place(f, f.throughput * alone_together),
        "place if blocks meet by chance": place(f, np.maximum(by_chance, f.floor)),
        "those that meet by chance": np.log(free),
        "busy for a job let go": np.log(alone_together / alone),
        "place of closed and let go": at_once * (closed.utilization - f.floor) / f.scale,
        "barriers per atomic": np.log1p(barriers),
        "returned": returned,
        "inside per returned": logarithm(inside / f.demand / np.maximum(returned, 0.05)),
    }


def _at(shares: Floats, cycles: Floats) -> Floats:
    """The shares (kernels, edges) read at other times (kernels,), interpolated in their logarithm."""
    at = np.clip(np.log2(np.maximum(cycles, 1e-3) / EDGES_CYCLES[0]), -1, len(EDGES_CYCLES) - 1)
    from_nothing = np.column_stack([np.zeros(len(shares)), shares])
    place = np.minimum(np.floor(at).astype(np.intp) + 1, shares.shape[1] - 1)
    rows = np.arange(len(shares))
    part = at + 1 - place
    found: Floats = from_nothing[rows, place] * (1 - part) + from_nothing[rows, place + 1] * part
    return found


def _mean_below(shares: Floats, most: Floats) -> Floats:
    """The mean of the times that the shares (kernels, edges) tell, each at most ``most`` (kernels,)."""
    steps = (np.arange(16) + 0.5) / 16
    longer = [1 - _at(shares, step * most) for step in steps.tolist()]
    mean: Floats = most * np.mean(longer, axis=0)
    return mean


def _by_state(table: Floats) -> dict[str, Floats]:
    return dict(zip(STATE_NAMES, table.T, strict=True))
