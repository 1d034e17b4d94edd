"""One SM replayed: warps that follow a path through the code, issued in order, with what they wait for.

An interval model in the sense of Eyerman et al. (TOCS 27(2), 2009) and Huang et al. (GPUMech, MICRO 2014),
played through rather than summed up, since what one warp waits for another hides. A warp issues its path's
steps in order; a step waits for the stall count of the one before, for the steps whose scoreboards it waits
for, for its pipe, and for a place in its sub-core's queue. Requests pass the SM's data stage one by one, then
atomics their unit, global accesses the port, this SM's share of L2 and of DRAM. What else a result takes is
its step's ``tail``, which is fitted to samples (`calibration`). There are no data, addresses or caches here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

PIPE, EXCHANGE, ATOMIC, GLOBAL, BARRIER, FREE = range(6)
"""Where a step goes: an arithmetic pipe, the memory path (to shared memory or an exchange, to the atomic
unit, to global memory), the block's barrier, nowhere."""
RESULT, OPERANDS = 0, 1
"""What of a step is waited for: its result, or that its operands have been read."""

NEVER: Final = np.int64(1) << 60


class Steps(NamedTuple):
    """The steps of all paths, one behind the other; arrays of shape ``(steps,)``, times in cycles.

    ``work`` has, by resource, what a step takes of it: `WORK` columns, shape ``(steps, 6)``. Of an access's
    executions a share ``miss`` goes beyond L1, the others come back ``near`` cycles after the data stage.
    ``line`` is where the step's code lies (`Frame`). ``first`` is where each path begins (one more than
    paths). Step s waits for ``waited[begins[s]:begins[s + 1]]``, steps of the same path counted from its
    first, of each for ``what`` (`RESULT` or `OPERANDS`).
    """

    instruction: Ints
    line: Ints
    stall: Ints
    unit: Ints
    pipe: Ints
    interval: Ints
    latency: Ints
    reading: Ints
    tail: Floats
    near: Floats
    miss: Floats
    work: Floats
    first: Ints
    begins: Ints
    waited: Ints
    what: Ints


WORK: Final = ("stage", "atomic", "port", "l2", "dram", "words")
"""Resources of requests: the data stage, the unit of shared atomics, port, L2, DRAM, and the words at L2 at
which atomics follow each other."""


class Frame(NamedTuple):
    """The SM and its launch: warps of a block, blocks that are resident together, all blocks that it runs.

    Paths that are fewer than all warps' are dealt out anew in each block (``turning``), or warp by warp.
    A sub-core holds ``code_lines`` of code, in order of use; another comes ``fetch_cycles`` after it is asked
    for, with ``prefetch_lines`` after it. A scheduler that has to leave its warp takes the one that issued
    longest ago (``recent_last``, the policy ``glr``), or the oldest (``gto``).
    """

    schedulers: int
    pipes: int
    queue_entries: int
    front: int
    address_interval: float
    atomic_address_interval: float
    request_interval: float
    atomic_pipes: int
    atomic_entries: int
    barrier_latency: int
    barrier_interval: int
    launch_cycles: int
    code_lines: int
    prefetch_lines: int
    fetch_cycles: int
    warps_of_block: int
    resident: int
    blocks: int
    turning: bool = True
    recent_last: bool = True


@dataclass(frozen=True)
class ReplayResult:
    """Cycles of the replay; by entry of `Steps.waited` the warp-cycles that it was waited for last, by step
    those from when the step before issued until it did."""

    cycles: int
    waits: Floats
    spent: Ints
    issued: int


class _Warps(NamedTuple):
    """What the replay knows of each warp's next step; arrays ``(warps,)``, times in cycles: when it can issue
    (``at``), when the stall count is over (``arrived``), when the step before was issued (``since``), the
    entry of `Steps.waited` that it waits for last, -1 for none (``last``), and for how long (``wait``).
    ``done`` (warps, steps of a path, 2): when each step's `RESULT` and `OPERANDS` are there."""

    at: Ints
    arrived: Ints
    since: Ints
    last: Ints
    wait: Ints
    done: Ints


class _CodeCache(NamedTuple):
    """The lines of code in each sub-core, ``(schedulers, lines)``: from when on a line ``present`` is there,
    and when it was ``used`` last (0: not yet)."""

    present: Ints
    used: Ints


def replay(steps: Steps, frame: Frame) -> ReplayResult:
    """Play it through."""
    waits = np.zeros(len(steps.waited))
    spent = np.zeros(len(steps.instruction), dtype=np.int64)
    engine: Any = _replay
    # One type for all fields, so that the engine is compiled once.
    cycles, issued = engine(steps, Frame._make(map(float, frame)), waits, spent)
    return ReplayResult(int(cycles), waits, spent, int(issued))


@njit(cache=True, error_model="numpy")
def _ready(w, s, steps, warps) -> Any:  # type: ignore[no-untyped-def]
    """Set when all that the warp's next step ``s`` waits for is over; `NEVER` while that is not known. A
    cycle in which both a scoreboard and the stall count hold it counts as the scoreboard's, as profilers
    count it."""
    latest, who = warps.since[w], -1
    for d in range(steps.begins[s], steps.begins[s + 1]):
        when = warps.done[w, steps.waited[d], steps.what[d]]
        if when > latest:
            latest, who = when, d
    warps.at[w] = max(latest, warps.arrived[w])
    warps.last[w] = who
    warps.wait[w] = latest - warps.since[w]


@njit(cache=True, error_model="numpy")
def _fetch(cache, core, line, now, frame) -> Any:  # type: ignore[no-untyped-def]
    """When a line of code is in a sub-core, which asks for those after it as well."""
    capacity, prefetched, cycles = int(frame.code_lines), int(frame.prefetch_lines), int(frame.fetch_cycles)
    present, used = cache.present[core], cache.used[core]
    never = np.int64(1) << 60
    begin, end = line, min(line + prefetched + 1, len(present))
    if present[line] < never:
        first = used[line] == 0  # asked for ahead, and used now
        used[line] = now + 1
        if not first:
            return present[line]
        begin = line + prefetched
    used[line] = now + 1
    held = 0
    for other in range(len(present)):
        held += present[other] < never
    for other in range(begin, end):
        if present[other] < never:
            continue
        oldest = -1
        if held >= capacity:
            for k in range(len(present)):
                kept = present[k] < never and (k < line or k > line + prefetched)
                if kept and (oldest < 0 or used[k] < used[oldest]):
                    oldest = k
            if oldest < 0:
                break
            present[oldest], used[oldest] = never, 0
        held += oldest < 0
        present[other] = now + cycles
    return present[line]


@njit(cache=True, error_model="numpy")
def _replay(steps, frame, waits, spent) -> Any:  # type: ignore[no-untyped-def]
    """(cycles, instructions issued); adds to ``waits`` and ``spent`` as `ReplayResult` has them."""
    stall, unit, pipe, line, first = steps.stall, steps.unit, steps.pipe, steps.line, steps.first
    tail, miss, work = steps.tail, steps.miss, steps.work
    schedulers, pipes = int(frame.schedulers), int(frame.pipes)
    entries, front = int(frame.queue_entries), int(frame.front)
    atomic_pipes, atomic_entries = int(frame.atomic_pipes), int(frame.atomic_entries)
    barrier_latency, barrier_interval = int(frame.barrier_latency), int(frame.barrier_interval)
    per_block, resident, blocks = int(frame.warps_of_block), int(frame.resident), int(frame.blocks)
    launch, turning = int(frame.launch_cycles), int(frame.turning)
    recent_last = frame.recent_last > 0
    paths = len(first) - 1
    never = np.int64(1) << 60
    warps = per_block * resident
    longest = 0
    for p in range(paths):
        longest = max(longest, first[p + 1] - first[p])
    done = np.zeros((warps, longest, 2), dtype=np.int64)
    at = np.full(warps, never, dtype=np.int64)
    last = np.full(warps, -1, dtype=np.int64)
    arrived = np.zeros(warps, dtype=np.int64)
    since = np.zeros(warps, dtype=np.int64)
    wait = np.zeros(warps, dtype=np.int64)
    state = _Warps(at, arrived, since, last, wait, done)
    place = np.zeros(warps, dtype=np.int64)
    path = np.zeros(warps, dtype=np.int64)
    age = np.zeros(warps, dtype=np.int64)
    drained = np.zeros(warps, dtype=np.int64)
    out = np.zeros(warps, dtype=np.int64)  # jobs of the warp not taken yet
    alive = np.zeros(warps, dtype=np.int64)  # 0 none, 1 issuing, 2 has issued its last
    waiting = np.zeros(resident, dtype=np.int64)
    held = np.zeros(warps, dtype=np.int64)
    pipe_free = np.zeros((schedulers, pipes), dtype=np.int64)
    queue_warp = np.zeros((schedulers, entries), dtype=np.int64)
    queue_step = np.zeros((schedulers, entries), dtype=np.int64)
    queue_issue = np.zeros((schedulers, entries), dtype=np.int64)
    head = np.zeros(schedulers, dtype=np.int64)
    count = np.zeros(schedulers, dtype=np.int64)
    address_free = np.zeros(schedulers)
    ready = np.full(schedulers, 1e18)
    stage_free = port_free = l2_free = dram_free = words_free = 0.0
    atomic_free = np.zeros(atomic_pipes)
    atomic_ends = np.zeros((atomic_pipes, atomic_entries))
    atomic_next = np.zeros(atomic_pipes, dtype=np.int64)
    favourite = np.full(schedulers, -1, dtype=np.int64)
    barrier_free = np.int64(0)
    code = _CodeCache(
        np.full((schedulers, line.max() + 1), never, dtype=np.int64),
        np.zeros((schedulers, line.max() + 1), dtype=np.int64),
    )
    owed = np.ones(steps.instruction.max() + 1)  # misses of an access: its first execution is one
    turn = 0
    next_block = next_age = issued = 0
    finish = np.int64(0)
    now = np.int64(0)
    block_end = np.full(resident, 0, dtype=np.int64)  # when its room is free
    running = np.zeros(resident, dtype=np.int64)
    while True:
        # Blocks take free rooms.
        for b in range(resident):
            if running[b] == 0 and next_block < blocks and block_end[b] <= now:
                for k in range(per_block):
                    w = b * per_block + k
                    path[w] = (k + turning * next_block) % paths
                    place[w], alive[w], drained[w], out[w], held[w] = 0, 1, 0, 0, 0
                    age[w] = next_age
                    next_age += 1
                    arrived[w] = now + launch
                    f = first[path[w]]
                    done[w, : first[path[w] + 1] - f, :] = never
                    since[w], last[w] = arrived[w], -1
                    arrived[w] = max(arrived[w], _fetch(code, w % schedulers, line[f], now, frame))
                    at[w] = arrived[w]
                waiting[b], running[b] = 0, per_block
                next_block += 1
        # The arbiter takes requests.
        while stage_free < now + 1:
            chosen = -1
            for k in range(schedulers):
                c = (turn + 1 + k) % schedulers
                if count[c] > 0 and ready[c] < now + 1:
                    s = queue_step[c, head[c]]
                    if unit[s] == 2:
                        p = c % atomic_pipes
                        if atomic_ends[p, atomic_next[p]] >= now + 1:
                            continue
                    chosen = c
                    break
            if chosen < 0:
                break
            turn = chosen
            s, w = queue_step[chosen, head[chosen]], queue_warp[chosen, head[chosen]]
            taken = max(stage_free, ready[chosen], float(now))
            stage_free = taken + max(frame.request_interval, work[s, 0])
            address_free[chosen] = taken + (
                frame.atomic_address_interval if unit[s] == 2 else frame.address_interval
            )
            head[chosen] = (head[chosen] + 1) % entries
            count[chosen] -= 1
            if unit[s] == 2:
                p = chosen % atomic_pipes
                begin = max(taken, atomic_free[p])
                atomic_free[p] = begin + work[s, 1]
                atomic_ends[p, atomic_next[p]] = atomic_free[p]
                atomic_next[p] = (atomic_next[p] + 1) % atomic_entries
                ends = atomic_free[p] + tail[s]
            else:
                ends = taken + work[s, 0]
                beyond = True
                if miss[s] < 1:
                    owed[steps.instruction[s]] += miss[s]
                    beyond = owed[steps.instruction[s]] >= 1
                    owed[steps.instruction[s]] -= beyond
                if beyond:
                    if work[s, 2] > 0:
                        port_free = max(port_free, ends) + work[s, 2]
                        ends = port_free
                    if work[s, 3] > 0:
                        l2_free = max(l2_free, ends) + work[s, 3]
                        ends = l2_free
                    if work[s, 4] > 0:
                        dram_free = max(dram_free, ends) + work[s, 4]
                        ends = dram_free
                    if work[s, 5] > 0:
                        words_free = max(words_free, ends) + work[s, 5]
                        ends = words_free
                    ends += tail[s]
                else:
                    ends += steps.near[s]
            f = first[path[w]]
            done[w, s - f, 0] = np.int64(np.ceil(ends))
            drained[w] = max(drained[w], done[w, s - f, 0])
            out[w] -= 1
            if alive[w] == 1 and held[w] == 0:
                _ready(w, f + place[w], steps, state)
            if count[chosen] > 0:
                h = head[chosen]
                ready[chosen] = max(float(queue_issue[chosen, h] + front), address_free[chosen])
                v, t = queue_warp[chosen, h], queue_step[chosen, h]
                g = first[path[v]]
                done[v, t - g, 1] = max(np.int64(ready[chosen]) - front + steps.reading[t], now + 1)
                if alive[v] == 1 and held[v] == 0:
                    _ready(v, g + place[v], steps, state)
            else:
                ready[chosen] = 1e18
        # The schedulers issue.
        soon = never
        for c in range(schedulers):
            best, key = -1, never
            left = False
            for w in range(c, warps, schedulers):
                if alive[w] != 1 or at[w] > now:
                    continue
                s = first[path[w]] + place[w]
                u = unit[s]
                if u == 0:
                    if pipe_free[c, pipe[s]] > now:
                        soon = min(soon, pipe_free[c, pipe[s]])
                        continue
                elif u <= 3 and count[c] >= entries:
                    continue
                left = True
                rank = np.int64(-1) if w == favourite[c] else age[w]
                if rank < key:
                    best, key = w, rank
            if left:
                soon = min(soon, now + 1)
            if best < 0:
                continue
            w = best
            favourite[c] = w
            if recent_last:  # the order of issues takes the place of ages
                age[w] = next_age
                next_age += 1
            f = first[path[w]]
            s = f + place[w]
            u = unit[s]
            issued += 1
            if last[w] >= 0:
                waits[last[w]] += wait[w]
            spent[s] += now + 1 - since[w]
            b = w // per_block
            if u == 0:
                pipe_free[c, pipe[s]] = now + steps.interval[s]
                done[w, s - f, 0] = now + steps.latency[s]
                done[w, s - f, 1] = now + max(1, steps.interval[s])
            elif u <= 3:
                tail_place = (head[c] + count[c]) % entries
                queue_warp[c, tail_place], queue_step[c, tail_place] = w, s
                queue_issue[c, tail_place] = now
                count[c] += 1
                out[w] += 1
                if count[c] == 1:
                    ready[c] = max(float(now + front), address_free[c])
                    done[w, s - f, 1] = max(np.int64(ready[c]) - front + steps.reading[s], now + 1)
            else:
                done[w, s - f, 0] = done[w, s - f, 1] = now + 1
            place[w] += 1
            arrived[w], since[w] = now + stall[s], now + 1
            if s + 1 < first[path[w] + 1] and line[s + 1] != line[s]:
                fetched = _fetch(code, w % schedulers, line[s + 1], now, frame)
                arrived[w] = max(arrived[w], fetched)
            if f + place[w] >= first[path[w] + 1]:
                alive[w] = 2
                at[w] = never
                drained[w] = max(drained[w], now + 1)
            elif u == 4:
                held[w] = 1
                at[w] = never
                barrier_free = max(barrier_free, now) + barrier_interval
            else:
                _ready(w, f + place[w], steps, state)
            if u == 4 or alive[w] == 2:
                waiting[b] += 1
                if waiting[b] >= per_block:  # all wait or have ended: the barrier opens
                    waiting[b] = 0
                    opens = max(now + 1, barrier_free - barrier_interval + barrier_latency)
                    for k in range(per_block):
                        v = b * per_block + k
                        if alive[v] == 2:
                            waiting[b] += 1
                        elif held[v] == 1:
                            held[v] = 0
                            arrived[v] = max(arrived[v], opens)
                            since[v] = max(since[v], opens)
                            g = first[path[v]]
                            _ready(v, g + place[v], steps, state)
        # Warps and blocks end.
        going = False
        for b in range(resident):
            if running[b] > 0:
                ended, when = 0, now
                for k in range(per_block):
                    w = b * per_block + k
                    if alive[w] == 2 and out[w] == 0:
                        ended += 1
                        when = max(when, drained[w])
                if ended == per_block:
                    running[b] = 0
                    block_end[b] = when
                    finish = max(finish, when)
                    for k in range(per_block):
                        alive[b * per_block + k] = 0
                else:
                    going = True
            if running[b] == 0 and next_block < blocks:
                going = True
                soon = min(soon, max(block_end[b], now + 1))
        if not going:
            break
        for w in range(warps):
            if alive[w] == 1 and at[w] > now:
                soon = min(soon, at[w])
        for c in range(schedulers):
            if count[c] > 0:
                earliest = max(ready[c], stage_free)
                s = queue_step[c, head[c]]
                if unit[s] == 2:
                    p = c % atomic_pipes
                    earliest = max(earliest, atomic_ends[p, atomic_next[p]])
                later = np.int64(earliest)
                soon = min(soon, later if later > now else now + 1)
        if soon >= never:
            break  # nothing can go on: paths that do not agree about barriers
        now = max(now + 1, soon)
    return (finish if finish > now else now), issued
