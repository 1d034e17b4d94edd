"""One instruction of one warp, in machine code.

Everything is reached by address: the micro-operation, the warp, its block, the launch (see `record`).
"""

from __future__ import annotations

from typing import Any

from smlab.sim.compiled.jit import called, helper, inlined, lowest_bit
from smlab.sim.instruction_source import BLOCK_BARRIERS, EXITS, FAULTS, GOES_ON
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.asynchronous.bulk_copies import copy_in_bulk
from smlab.sim.isa.asynchronous.group_products import await_products, close_products, multiply_in_group
from smlab.sim.isa.asynchronous.memory_barriers import (
    arrive_in_cluster,
    await_cluster,
    elect,
    exit_in_cluster,
    read_chosen,
    settle_copies,
    use_barrier,
)
from smlab.sim.isa.asynchronous.tensor_memory import (
    allocate,
    commit,
    copy_to_memory,
    keeps_columns,
    move,
    multiply_in_memory,
)
from smlab.sim.isa.memory.access import (
    APART,
    copy,
    load,
    load_constant,
    store,
    window_of,
)
from smlab.sim.isa.memory.access_vectors import load_row, put_all
from smlab.sim.isa.memory.atomics import atomic
from smlab.sim.isa.memory_layout import (
    ACTIVE,
    ADDRESSES,
    AT_WARP_SYNC,
    BARRIER,
    BLOCK,
    COLUMNS_KEPT,
    CONSECUTIVE,
    LANES,
    LIVE,
    LOST,
    NOT_WAITING,
    PATHS,
    PC,
    PREDICATES,
    RESULT,
    SCRATCH,
    WORDS,
)
from smlab.sim.isa.vectors.divergent_paths import (
    BARRIER_ROWS,
    arrive,
    barrier_mask,
    branch,
    gather,
    leave,
    resume,
    rotate,
    set_aside,
    set_barrier,
    settle,
)
from smlab.sim.isa.vectors.lane_exchange import (
    combine_predicates,
    jump,
    match,
    reduce_barrier,
    reduce_lanes,
    shuffle,
    special,
    vote,
)
from smlab.sim.isa.vectors.products.scaled import multiply_scaled
from smlab.sim.isa.vectors.products.tensor import (
    load_matrices,
    multiply,
    multiply_quads,
    store_matrices,
    transpose,
)
from smlab.sim.isa.vectors.vector_switch import execute_vector
from smlab.sim.isa.vectors.word_access import (
    FULL,
    I_A,
    I_B,
    I_BARRIER,
    I_CLEARS,
    I_CODE,
    I_DST,
    I_EARLY_EXECUTION,
    I_EXCLUSIVE,
    I_GUARD,
    I_GUARD_XOR,
    I_MODE,
    I_PREDICATE_A,
    I_PREDICATE_DST,
    I_REDUCES,
    I_TARGET,
    I_UNANIMOUS,
    I_UNIFORM,
    I_WHEN_SPLIT,
    VECTOR_CODES,
    at,
    fault,
    predicate,
    put,
    put32,
    set_predicate,
    word_of,
)


@helper
def one_space_at_a_time(op: int, warp: int, launch: int, lanes: int) -> Any:
    """A generic access whose lanes are in several spaces: those of global memory first, then shared, then
    local memory. The addresses left behind have lost their windows."""
    code, out, kept, state = at(op, I_CODE), warp + 8 * ADDRESSES, at(launch, SCRATCH), GOES_ON
    for lane in range(32):
        put(kept, lane, at(out, lane))
    for space in (d.GLOBAL, d.SHARED, d.LOCAL):
        mine = 0
        for lane in range(32):
            if (lanes >> lane) & 1 != 0 and window_of(at(kept, lane)) == space:
                mine |= 1 << lane
        if mine != 0 and state == GOES_ON:
            if code == d.LOAD:
                state = load(op, warp, launch, mine)
            elif code == d.STORE:
                state = store(op, warp, launch, mine)
            else:
                state = atomic(op, warp, launch, mine)
    for lane in range(32):
        address = at(kept, lane)
        put(out, lane, address if window_of(address) == d.GLOBAL else address & FULL)
    put(warp, CONSECUTIVE, 0)
    return state


@helper
def synchronise(op: int, warp: int, lanes: int) -> Any:
    """Lanes come to a WARPSYNC. If all that any of them names are here, they go on, but where it is
    exclusive. Else those with one mask wait for the lanes that it names; those with another come to the
    instruction again, on their own."""
    mask, mine, named = word_of(op, warp, I_A, lowest_bit(lanes)), 0, 0
    for lane in range(32):
        if (lanes >> lane) & 1 != 0:
            named |= word_of(op, warp, I_A, lane)
            if word_of(op, warp, I_A, lane) == mask:
                mine |= 1 << lane
    if at(op, I_EXCLUSIVE) == 0 and named & at(warp, LIVE) & ~lanes == 0:
        return GOES_ON
    passing = at(warp, ACTIVE) & ~lanes
    if passing != 0:
        set_aside(warp, at(warp, PC), passing, NOT_WAITING)
    if mine != lanes:
        set_aside(warp, at(warp, PC) - 1, lanes & ~mine, NOT_WAITING)
    wanted = mask | mine
    if gather(warp, AT_WARP_SYNC + wanted, wanted, mine):
        put(warp, ACTIVE, wanted & at(warp, LIVE))
        return GOES_ON
    set_aside(warp, at(warp, PC), mine, AT_WARP_SYNC + wanted)
    return resume(warp)


@called
def execute_other(op: int, warp: int, launch: int, lanes: int, code: int, length: int) -> Any:
    if code == d.ATOMIC:
        if at(op, I_EARLY_EXECUTION) & d.SETTLES != 0 and lanes != 0 and not settle_copies(warp, launch):
            return FAULTS
        state = atomic(op, warp, launch, lanes) if lanes != 0 else GOES_ON
        return state if state != APART else one_space_at_a_time(op, warp, launch, lanes)
    if code == d.EXIT:
        leaving = lanes & predicate(op, warp, I_PREDICATE_A)
        state = leave(warp, leaving) if leaving != 0 else GOES_ON
        if state == EXITS:
            exit_in_cluster(warp, launch)
            if keeps_columns(warp, launch):
                return fault(warp, COLUMNS_KEPT, 0, 0)
        return state
    if code == d.BSSY:
        set_barrier(warp, at(op, I_BARRIER), lanes, lanes)
        return GOES_ON
    if code == d.BSYNC:
        here_now = lanes & predicate(op, warp, I_PREDICATE_A)
        if here_now == 0:
            return GOES_ON
        if here_now != at(warp, ACTIVE):
            set_aside(warp, at(warp, PC), at(warp, ACTIVE) & ~here_now, NOT_WAITING)
            put(warp, ACTIVE, here_now)
        wanted = barrier_mask(warp, at(op, I_BARRIER), lowest_bit(here_now)) & at(warp, LIVE)
        wanted |= here_now
        if gather(warp, at(op, I_BARRIER), wanted, here_now):
            put(warp, ACTIVE, wanted)
            return GOES_ON
        set_aside(warp, at(warp, PC), here_now, at(op, I_BARRIER))
        return resume(warp)
    if code == d.BREAK:
        leaving = lanes & predicate(op, warp, I_PREDICATE_A)
        if leaving != 0:
            wanted = barrier_mask(warp, at(op, I_BARRIER), lowest_bit(leaving))
            set_barrier(warp, at(op, I_BARRIER), wanted, wanted & ~leaving)
            settle(warp)
        return GOES_ON
    if code == d.WARPSYNC:
        return synchronise(op, warp, lanes) if lanes != 0 else GOES_ON
    if code == d.BARRIER:
        if lanes == 0:
            return GOES_ON
        if at(op, I_REDUCES) != 0:
            reduce_barrier(op, warp, lanes)
        return arrive(op, warp, lanes)
    if code == d.YIELD:
        return rotate(warp)
    if code == d.SPECIAL:
        special(op, warp, launch, lanes)
    elif code == d.SHUFFLE:
        shuffle(op, warp, lanes)
    elif code == d.VOTE:
        vote(op, warp, lanes)
    elif code == d.MATCH:
        match(op, warp, lanes, at(warp, ACTIVE))
    elif code == d.REDUCE:
        reduce_lanes(op, warp, at(warp, ACTIVE))
    elif code == d.LOAD_CONSTANT:
        return load_constant(op, warp, launch, lanes)
    elif code == d.PLOP3:
        combine_predicates(op, warp, lanes)
    elif code == d.BRANCH_SPLIT:
        # Whether the lanes that the guard leaves are all that the mask names; those that go, go together.
        wanted = word_of(op, warp, I_A, lowest_bit(at(warp, ACTIVE))) & at(warp, LIVE)
        complete = lanes & wanted == wanted
        if complete != (at(op, I_WHEN_SPLIT) != 0):
            put(warp, PC, at(op, I_TARGET))
    elif code == d.JUMP:
        taken = lanes & predicate(op, warp, I_PREDICATE_A)
        return jump(op, warp, taken, length) if taken != 0 else GOES_ON
    elif code == d.COPY:
        return copy(op, warp, launch, lanes) if lanes != 0 else GOES_ON
    elif code == d.MMA:
        multiply(op, warp, launch, lanes)
    elif code == d.MMA_SCALED:
        multiply_scaled(op, warp, launch, lanes)
    elif code == d.MMA_QUADS:
        multiply_quads(op, warp, launch, lanes)
    elif code == d.TRANSPOSE:
        transpose(op, warp, launch, lanes)
    elif code == d.MMA_GROUP:
        return multiply_in_group(op, warp, launch, lanes) if lanes != 0 else GOES_ON
    elif code == d.MEMORY_BARRIER:
        return use_barrier(op, warp, launch, lanes) if lanes != 0 else GOES_ON
    elif code == d.CLUSTER_ARRIVE:
        return arrive_in_cluster(warp, launch) if lanes != 0 else GOES_ON
    elif code == d.CLUSTER_WAIT:
        return await_cluster(warp, launch) if lanes != 0 else GOES_ON
    elif code == d.BULK_COPY:
        return copy_in_bulk(op, warp, launch) if lanes != 0 else GOES_ON
    elif code == d.ELECT:
        if lanes != 0:
            elect(op, warp, lanes)
    elif code == d.READ_CHOSEN:
        if lanes != 0:
            read_chosen(op, warp)
    elif code == d.BRANCH_ANY:
        if lanes != 0:
            put(warp, PC, at(op, I_TARGET))
    elif code == d.EMPTY_GROUP:
        if lanes != 0:
            close_products(op, warp)
    elif code == d.AWAIT_PRODUCTS:
        return await_products(warp, launch) if lanes != 0 else GOES_ON
    elif code == d.STORE_MATRIX:
        return store_matrices(op, warp, launch, lanes) if lanes != 0 else GOES_ON
    elif code == d.LOAD_MATRIX:
        return load_matrices(op, warp, launch, lanes) if lanes != 0 else GOES_ON
    elif code == d.TENSOR_PRODUCT:
        return multiply_in_memory(op, warp, launch) if lanes != 0 else GOES_ON
    elif code == d.TENSOR_COPY:
        return copy_to_memory(op, warp, launch) if lanes != 0 else GOES_ON
    elif code == d.TENSOR_COMMIT:
        return commit(op, warp, launch) if lanes != 0 else GOES_ON
    elif code == d.TENSOR_LOAD or code == d.TENSOR_STORE:
        return move(op, warp, lanes, code == d.TENSOR_STORE) if lanes != 0 else GOES_ON
    elif code == d.TENSOR_ALLOCATE:
        return allocate(op, warp, launch, lanes) if lanes != 0 else GOES_ON
    elif code == d.R2P:
        for lane in range(32):
            if (lanes >> lane) & 1 != 0:
                value, which = word_of(op, warp, I_A, lane), word_of(op, warp, I_B, lane)
                for p in range(7):
                    if (which >> p) & 1 != 0:
                        word = PREDICATES + p
                        bit = 1 << lane
                        put(warp, word, (at(warp, word) & ~bit) | (bit if (value >> p) & 1 != 0 else 0))
    elif code == d.P2R:
        for lane in range(32):
            if (lanes >> lane) & 1 != 0:
                value, first = 0, at(op, I_MODE)
                for p in range(7):
                    value |= ((at(warp, PREDICATES + first + p) >> lane) & 1) << p
                which = word_of(op, warp, I_B, lane)
                kept = word_of(op, warp, I_A, lane) & ~which
                put32(warp + at(op, I_DST) + 4 * lane, kept | (value & which))
    elif code == d.BARRIER_RESULT:
        gathered = at(at(warp, BLOCK), RESULT + (at(warp, BARRIER) & (BLOCK_BARRIERS - 1)))
        kind = (gathered >> 20) & 3
        truth = gathered & 0xFFFF
        if kind == 1:
            truth = 1 - ((gathered >> 17) & 1)
        elif kind == 2:
            truth = (gathered >> 16) & 1
        if kind != 0:
            truth = FULL if truth != 0 else 0
        put_all(warp + at(op, I_DST), truth, lanes)
        set_predicate(op, warp, I_PREDICATE_DST, FULL if truth != 0 else 0, lanes)
    elif code == d.BMOV_OUT:
        load_row(warp + BARRIER_ROWS + at(op, I_BARRIER) * 128, lanes, warp + at(op, I_DST))
        if at(op, I_CLEARS) != 0:
            set_barrier(warp, at(op, I_BARRIER), lanes, 0)
    elif code == d.BMOV_IN:
        for lane in range(32):
            if (lanes >> lane) & 1 != 0:
                put32(warp + BARRIER_ROWS + at(op, I_BARRIER) * 128 + 4 * lane, word_of(op, warp, I_A, lane))
    else:
        return fault(warp, LOST, 0, 0)
    return GOES_ON


@inlined
def execute(ops: int, warp: int, launch: int, length: int) -> Any:
    """Execute the next instruction of a warp; what it leaves the warp with."""
    pc = at(warp, PC)
    op = ops + pc * (8 * WORDS)
    active = at(warp, ACTIVE)
    guard = at(warp, PREDICATES + at(op, I_GUARD)) ^ at(op, I_GUARD_XOR)
    lanes = active & guard
    code = at(op, I_CODE)
    if at(op, I_UNIFORM) != 0:
        lanes = FULL if (guard & active) != 0 else 0
    put(warp, LANES, lanes)
    put(warp, PC, pc + 1)
    if code < VECTOR_CODES:
        execute_vector(op, warp, lanes)
        return GOES_ON
    # The most frequent of the others are here: a call of the function for all of them costs more than they.
    if code == d.LOAD:
        if at(op, I_EARLY_EXECUTION) & d.SETTLES != 0 and lanes != 0 and not settle_copies(warp, launch):
            return FAULTS
        state = load(op, warp, launch, lanes) if lanes != 0 else GOES_ON
        return state if state != APART else one_space_at_a_time(op, warp, launch, lanes)
    if code == d.STORE:
        state = store(op, warp, launch, lanes) if lanes != 0 else GOES_ON
        return state if state != APART else one_space_at_a_time(op, warp, launch, lanes)
    if code == d.BRANCH:
        taken = lanes & predicate(op, warp, I_PREDICATE_A)
        if at(warp, PATHS) == 0:
            if taken == 0:
                return GOES_ON
            if taken == active:
                put(warp, PC, at(op, I_TARGET))
                return GOES_ON
        if taken != active and at(op, I_UNANIMOUS) != 0:
            return GOES_ON
        return branch(warp, taken, at(op, I_TARGET), pc)
    if code == d.NOP:
        return GOES_ON
    return execute_other(op, warp, launch, lanes, code, length)
