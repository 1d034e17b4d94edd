"""Blocks on an SM: a launched one's warps take slots and begin, a finished one gives its room back."""

from __future__ import annotations

from smlab.sim.compiled.fetch import fetch
from smlab.sim.compiled.jit import (
    age_at,
    barrier_at,
    block_at,
    call_source,
    entry_at,
    executions_at,
    helper,
    lowest_bit,
    op_at,
    pending_at,
    retiring_at,
    role_at,
    scheduler_at,
    sm_at,
    until_at,
    warp_at,
    warp_row_at,
)
from smlab.sim.compiled.layout import LAUNCHING, NEVER, State
from smlab.sim.compiled.warps import block_barrier, charge, proceed, step
from smlab.sim.source import START


@helper
def launch(st: State, i: int, now: int) -> None:
    """Make the next block of the grid resident on SM ``i``: its warps take the lowest free slots."""
    sm = sm_at(st, i)
    b = st.next_block
    st.next_block += 1
    if sm.resident_blocks == 0:
        sm.active_since = now
    sm.resident_blocks += 1
    block = block_at(st, b)
    block.sm, block.launch, block.retire = i, now, 0
    block.executing = block.unfinished = block.waiting = block.last_exit = 0
    block.room = lowest_bit(~sm.rooms)
    sm.rooms |= 1 << block.room
    for number in range(st.barriers):
        barrier_at(st, block_barrier(st, i, b, number)).arrived = 0
    w = i * st.max_warps
    roles = b * st.places if st.role_rows > 1 else 0
    ready = now + st.launch_cycles
    for p in range(st.places):
        role = role_at(st, roles + p).value
        if role < 0:
            continue
        while warp_at(st, w).block != 0:
            w += 1
        if st.source != 0:
            room = i * st.blocks_per_sm + block.room
            words = st.source_warps + w * st.source_bytes
            call_source(st.source, START, words, st.context, i, b, p + 64 * room)
        _start_warp(st, i, w, b, b * st.places + p, role, now)
        charge(st, i, w, LAUNCHING, now, ready)
        block.executing += 1
        block.unfinished += 1
        proceed(st, i, w, ready, now)


@helper
def _start_warp(st: State, i: int, w: int, b: int, row: int, role: int, now: int) -> None:
    sm, warp = sm_at(st, i), warp_at(st, w)
    slot = w - i * st.max_warps
    warp.block = b + 1
    warp.row = row
    warp.depth = warp.span = 0
    warp.launch = now
    warp.last_completion = warp.unresolved = warp.missed = warp.state = 0
    for at in range(w * st.slots, (w + 1) * st.slots):
        until_at(st, at).value = pending_at(st, at).value = executions_at(st, at).value = 0
    out = warp_row_at(st, row)
    out.sm, out.slot, out.block, out.launch = i, slot, b, now
    warp.scheduler = i * st.schedulers + slot % st.schedulers
    scheduler = scheduler_at(st, warp.scheduler)
    position = slot // st.schedulers
    age_at(st, warp.scheduler * st.positions + position).value = sm.launched_warps
    sm.launched_warps += 1
    warp.bit = 1 << position
    # The newest of a scheduler's warps is in order when no other sits in a higher slot.
    if scheduler.residents == 0:
        scheduler.shuffled = 0
    elif scheduler.residents >> position != 0:
        scheduler.shuffled = 1
    scheduler.residents |= 1 << position
    warp.pc = entry_at(st, role).value - 1
    warp.fetched = warp.stalled = warp.groups = warp.ahead = 0
    step(st, w)
    if st.source != 0:
        fetch(st, i, w, op_at(st, warp.pc).line, now)


@helper
def retire(st: State, i: int, now: int) -> None:
    """The blocks of SM ``i`` that finish now give their room back."""
    sm = sm_at(st, i)
    base, left, nearest = i * st.blocks_per_sm, 0, NEVER
    for n in range(base, base + sm.retiring):
        b = retiring_at(st, n).value
        if block_at(st, b).retire > now:
            retiring_at(st, base + left).value = b
            left += 1
            nearest = min(nearest, block_at(st, b).retire)
            continue
        for slot in range(st.max_warps):
            warp = warp_at(st, i * st.max_warps + slot)
            if warp.block == b + 1:
                warp.block = 0
                k = i * st.schedulers + slot % st.schedulers
                scheduler_at(st, k).residents &= ~(1 << (slot // st.schedulers))
        sm.rooms &= ~(1 << block_at(st, b).room)
        sm.resident_blocks -= 1
        st.retired_blocks += 1
    sm.retiring = left
    sm.next_retire = nearest
    st.cycles = max(st.cycles, now)
    if sm.resident_blocks == 0:
        sm.active_cycles += now - sm.active_since
