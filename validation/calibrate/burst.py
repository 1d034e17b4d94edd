"""When the last operation of a burst is issued: the queues of ``sim/SEMANTICS.md``, Section 6, one operation
after the other.

Each warp issues its operations at a distance that its code gives. A sub-core's queue, its address unit, the
arbiter, the data stage and the unit's own queue then let through what they can; an operation is issued when
its sub-core has room. Times here are not whole cycles, so that they change smoothly with the constants.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from smlab.validation.calibrate.cases import Floats, Ints


@dataclass(frozen=True)
class BurstPath:
    """The constants that a burst depends on beside its unit's interval, in cycles and entries."""

    sub_cores: int
    pipes: int
    front: float
    address: float
    request: float
    stage_pass: float
    issue: float


def last_issue(
    path: BurstPath,
    warps: Ints,
    operations: Ints,
    passes: Ints,
    interval: Floats,
    sub_core: float,
    unit: float,
) -> Floats:
    """Cycles from the first to the last issue of ``operations`` of each of ``warps`` warps.

    ``sub_core`` and ``unit`` are the entries of a sub-core's queue and of the unit; between whole numbers the
    times are interpolated.
    """
    found = np.zeros(len(warps))
    for more_here, here in _shares(sub_core):
        for more_there, there in _shares(unit):
            share = here * there
            if share > 0:
                found += share * _all(
                    path.sub_cores, path.pipes, path.front, path.address, path.request, path.stage_pass,
                    path.issue, warps, operations, passes, interval, more_here, more_there,
                )  # fmt: skip
    return found


def _shares(entries: float) -> tuple[tuple[int, float], tuple[int, float]]:
    below = max(1, int(np.floor(entries)))
    part = min(max(entries - below, 0.0), 1.0)
    return (below, 1 - part), (below + 1, part)


@numba.njit(cache=True)  # type: ignore[misc, untyped-decorator, unused-ignore]
def _all(
    sub_cores: int,
    pipes: int,
    front: float,
    address: float,
    request: float,
    stage_pass: float,
    issue: float,
    warps: Ints,
    operations: Ints,
    passes: Ints,
    interval: Floats,
    room: int,
    unit: int,
) -> Floats:
    found = np.zeros(warps.size)
    for case in range(warps.size):
        n, k, service = warps[case], operations[case], interval[case]
        most = (n + sub_cores - 1) // sub_cores * k
        issued = np.zeros((sub_cores, most))
        taken = np.zeros((sub_cores, most))
        ends = np.zeros((pipes, n * k))
        held = np.zeros(pipes, dtype=np.int64)
        at = np.zeros(sub_cores, dtype=np.int64)
        ready = np.zeros(sub_cores)
        stage, last, turn = 0.0, 0.0, 0
        occupied = max(request, passes[case] * stage_pass)
        for _ in range(n * k):
            chosen, when = -1, np.inf
            for step in range(sub_cores):
                s = (turn + step) % sub_cores
                mine = (n - s + sub_cores - 1) // sub_cores
                j = at[s]
                if j >= mine * k:
                    continue
                ready[s] = _ready(issued, taken, s, j, mine, room, issue, front, address)
                pipe = s % pipes
                possible = max(ready[s], stage)
                if held[pipe] >= unit:
                    possible = max(possible, ends[pipe, held[pipe] - unit])
                if possible < when:
                    chosen, when = s, possible
            j = at[chosen]
            taken[chosen, j] = when
            last = max(last, issued[chosen, j])
            stage = when + occupied
            pipe = chosen % pipes
            before = ends[pipe, held[pipe] - 1] if held[pipe] else 0.0
            ends[pipe, held[pipe]] = max(when, before) + service
            held[pipe] += 1
            at[chosen] += 1
            turn = (chosen + 1) % sub_cores
        found[case] = last
    return found


@numba.njit(cache=True)  # type: ignore[misc, untyped-decorator, unused-ignore]
def _ready(
    issued: Floats,
    taken: Floats,
    s: int,
    j: int,
    mine: int,
    room: int,
    issue: float,
    front: float,
    address: float,
) -> float:
    """When operation ``j`` of sub-core ``s`` can be taken, for all that its sub-core can tell."""
    begin = 0.0
    if j > 0:
        begin = issued[s, j - 1] + 1
    if j >= mine:
        begin = max(begin, issued[s, j - mine] + issue)
    if j >= room:
        begin = max(begin, taken[s, j - room] + 1)
    issued[s, j] = begin
    ready: float = begin + front
    if j > 0:
        ready = max(ready, taken[s, j - 1] + address)
    return ready
