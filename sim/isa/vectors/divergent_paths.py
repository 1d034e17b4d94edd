"""The divergent paths of a warp, in machine code: who runs, who waits for whom, and what the warp as a whole
does."""

from __future__ import annotations

from typing import Any

from smlab.sim.compiled.jit import helper, lowest_bit
from smlab.sim.instruction_source import ARRIVES, BLOCK_BARRIERS, EXITS, GOES_ON, NOTIFIES
from smlab.sim.isa import memory_layout
from smlab.sim.isa.memory.access_vectors import put_all
from smlab.sim.isa.memory_layout import (
    ACTIVE,
    AT_BLOCK_BARRIER,
    AT_WARP_SYNC,
    BARRIER,
    BLOCK,
    DEADLOCK,
    DIVERGED_BARRIER,
    LIVE,
    NOT_WAITING,
    PATH_MASK,
    PATH_PC,
    PATH_WAIT,
    PATHS,
    PATIENCE,
    PC,
    REDUCED,
    RESULT,
    UNKNOWN_AT,
    UNKNOWN_END,
)
from smlab.sim.isa.operation_codes import TURNS
from smlab.sim.isa.vectors.word_access import (
    I_A,
    I_ARRIVES_ONLY,
    I_B,
    at,
    fault,
    get32,
    put,
    word_of,
)


@helper
def at_block_barrier(wait: int) -> Any:
    return AT_BLOCK_BARRIER <= wait < AT_WARP_SYNC


@helper
def set_aside(warp: int, pc: int, mask: int, wait: int) -> None:
    n = at(warp, PATHS)
    put(warp, PATH_PC + n, pc)
    put(warp, PATH_MASK + n, mask)
    put(warp, PATH_WAIT + n, wait)
    put(warp, PATHS, n + 1)


@helper
def take_out(warp: int, n: int) -> None:
    """Remove part ``n``; the others keep their order."""
    count = at(warp, PATHS) - 1
    for k in range(n, count):
        put(warp, PATH_PC + k, at(warp, PATH_PC + k + 1))
        put(warp, PATH_MASK + k, at(warp, PATH_MASK + k + 1))
        put(warp, PATH_WAIT + k, at(warp, PATH_WAIT + k + 1))
    put(warp, PATHS, count)


@helper
def resume(warp: int) -> Any:
    """Let the part that has waited longest and can run, run; else say what the warp as a whole does."""
    count = at(warp, PATHS)
    for n in range(count):
        if at(warp, PATH_WAIT + n) == NOT_WAITING:
            put(warp, PC, at(warp, PATH_PC + n))
            put(warp, ACTIVE, at(warp, PATH_MASK + n))
            put(warp, PATIENCE, TURNS)
            take_out(warp, n)
            return GOES_ON
    put(warp, ACTIVE, 0)
    if count == 0:
        return EXITS
    waiting, place = 0, at(warp, PATH_WAIT)
    for n in range(count):
        if at_block_barrier(at(warp, PATH_WAIT + n)):
            waiting |= at(warp, PATH_MASK + n)
            if at(warp, PATH_WAIT + n) != place:
                place = -1
    if waiting == at(warp, LIVE) and place >= 0:
        put(warp, BARRIER, place - AT_BLOCK_BARRIER)
        return ARRIVES
    stuck = at(warp, LIVE) & ~waiting
    if stuck == 0:
        stuck = at(warp, PATH_MASK)
    put(warp, PC, at(warp, PATH_PC))
    return fault(warp, DIVERGED_BARRIER if waiting != 0 else DEADLOCK, lowest_bit(stuck), 0)


@helper
def others_ready(warp: int) -> Any:
    ready = False
    for n in range(at(warp, PATHS)):
        ready |= at(warp, PATH_WAIT + n) == NOT_WAITING
    return ready


@helper
def gather(warp: int, wait: int, wanted: int, here: int) -> Any:
    """Whether the lanes of ``wanted`` that live all wait with ``wait`` or are ``here``; those that waited
    are then out."""
    arrived, count = here, at(warp, PATHS)
    for n in range(count):
        if at(warp, PATH_WAIT + n) == wait and at(warp, PATH_MASK + n) & ~wanted == 0:
            arrived |= at(warp, PATH_MASK + n)
    if wanted & at(warp, LIVE) & ~arrived != 0:
        return False
    n = 0
    while n < at(warp, PATHS):
        if at(warp, PATH_WAIT + n) == wait and at(warp, PATH_MASK + n) & ~wanted == 0:
            take_out(warp, n)
        else:
            n += 1
    return True


@helper
def settle(warp: int) -> None:
    """After lanes left: parts whose barrier has all its lanes now may go on, as one."""
    n = 0
    while n < at(warp, PATHS):
        wait = at(warp, PATH_WAIT + n)
        if 0 <= wait < 16:
            mask, pc = at(warp, PATH_MASK + n), at(warp, PATH_PC + n)
            wanted = barrier_mask(warp, wait, lowest_bit(mask)) & at(warp, LIVE)
            if gather(warp, wait, wanted, 0):
                set_aside(warp, pc, wanted, NOT_WAITING)
                n = 0
                continue
        elif wait >= AT_WARP_SYNC:
            wanted = wait - AT_WARP_SYNC
            mask, pc = at(warp, PATH_MASK + n), at(warp, PATH_PC + n)
            if gather(warp, wait, wanted, 0):
                set_aside(warp, pc, wanted & at(warp, LIVE), NOT_WAITING)
                n = 0
                continue
        n += 1


@helper
def barrier_mask(warp: int, barrier: int, lane: int) -> Any:
    return get32(warp + BARRIER_ROWS + barrier * 128 + 4 * lane)


@helper
def set_barrier(warp: int, barrier: int, lanes: int, mask: int) -> None:
    put_all(warp + BARRIER_ROWS + barrier * 128, mask, lanes)


BARRIER_ROWS = memory_layout.barrier_at(0)


@helper
def leave(warp: int, lanes: int) -> Any:
    """These lanes exit."""
    put(warp, LIVE, at(warp, LIVE) & ~lanes)
    rest = at(warp, ACTIVE) & ~lanes
    put(warp, ACTIVE, rest)
    settle(warp)
    return GOES_ON if rest != 0 else resume(warp)


@helper
def branch(warp: int, taken: int, target: int, here: int) -> Any:
    """The lanes ``taken`` go to ``target``, the others on; both parts remain if both have lanes."""
    active = at(warp, ACTIVE)
    if taken == active:
        put(warp, PC, target)
    elif taken != 0:
        set_aside(warp, target, taken, NOT_WAITING)
        put(warp, ACTIVE, active & ~taken)
    if taken != 0 and target <= here and at(warp, PATHS) != 0:
        patience = at(warp, PATIENCE) - 1
        put(warp, PATIENCE, patience)
        if patience <= 0 and others_ready(warp):
            return rotate(warp)
    return GOES_ON


@helper
def rotate(warp: int) -> Any:
    """The running part goes behind the others."""
    if not others_ready(warp):
        return GOES_ON
    set_aside(warp, at(warp, PC), at(warp, ACTIVE), NOT_WAITING)
    return resume(warp)


@helper
def advance_path(block: int) -> None:
    """Go past the words of shared memory that have been written since the last barrier: once the end is
    reached, loads need not look whether theirs are among them."""
    here, end = at(block, UNKNOWN_AT), at(block, UNKNOWN_END)
    while here < end and get32(here) != 0:
        here += 4
    put(block, UNKNOWN_AT, here)


@helper
def open_barrier(warp: int) -> None:
    """The block's barrier has opened: the parts that waited go on, those at one place as one."""
    block, number = at(warp, BLOCK), at(warp, BARRIER) & (BLOCK_BARRIERS - 1)
    advance_path(block)
    if at(block, REDUCED + number) != 0:
        put(block, RESULT + number, at(block, REDUCED + number))
        put(block, REDUCED + number, 0)
    n = 0
    while n < at(warp, PATHS):
        if at_block_barrier(at(warp, PATH_WAIT + n)):
            put(warp, PATH_WAIT + n, NOT_WAITING)
            k = n + 1
            while k < at(warp, PATHS):
                same = at(warp, PATH_PC + k) == at(warp, PATH_PC + n)
                if same and at_block_barrier(at(warp, PATH_WAIT + k)):
                    put(warp, PATH_MASK + n, at(warp, PATH_MASK + n) | at(warp, PATH_MASK + k))
                    take_out(warp, k)
                else:
                    k += 1
        n += 1
    resume(warp)


@helper
def arrive(op: int, warp: int, lanes: int) -> Any:
    """These lanes come to a barrier of the block, to wait there or only to say that they came."""
    first = lowest_bit(lanes)
    number = word_of(op, warp, I_A, first) & (BLOCK_BARRIERS - 1)
    threads = word_of(op, warp, I_B, first)
    barrier = number + BLOCK_BARRIERS * min((threads + 31) // 32, 32)
    if at(op, I_ARRIVES_ONLY) != 0:
        put(warp, BARRIER, barrier)
        return NOTIFIES
    if lanes != at(warp, ACTIVE):
        set_aside(warp, at(warp, PC), at(warp, ACTIVE) & ~lanes, NOT_WAITING)
    set_aside(warp, at(warp, PC), lanes, AT_BLOCK_BARRIER + barrier)
    return resume(warp)
