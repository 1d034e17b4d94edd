"""Memory, in machine code: addresses of lanes, tested against bounds before anything is read or written."""

from __future__ import annotations

from typing import Any, Final

from smlab.sim.compiled.jit import bits_set, helper, inlined, lowest_bit
from smlab.sim.instruction_source import FAULTS, GOES_ON
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.memory.access_vectors import (
    all_inside,
    gather_row,
    jumps,
    known_lanes,
    known_row,
    load_8,
    load_8s,
    load_16,
    load_16s,
    load_few_runs,
    load_pair,
    load_row,
    mark_lanes,
    mark_row,
    scatter_row,
    spread_narrow,
    spread_short,
    spread_wide,
    store_8,
    store_16,
    store_pair,
    store_row,
)
from smlab.sim.isa.memory_layout import (
    ADDRESSES,
    ALLOCATION_TABLE,
    ALLOCATIONS,
    BANK_TABLE,
    BLOCK,
    BLOCK_ROOMS,
    CHECK_SHARED,
    CLUSTER_BLOCKS,
    CONSECUTIVE,
    INDEX,
    LANES,
    LAST_ALLOCATION,
    LOCAL,
    LOCAL_BYTES,
    MISALIGNED,
    NUMBER,
    OPS,
    OUT_OF_BOUNDS,
    PASSES,
    SCRATCH,
    SHARED,
    SHARED_BASE,
    SHARED_BYTES,
    SHARED_FIRST,
    SHARED_KNOWN,
    UNKNOWN_AT,
    UNKNOWN_END,
    UNWRITTEN,
    UNWRITTEN_WORDS,
    WARP_OF_BLOCK,
    WORDS,
)
from smlab.sim.isa.operation_codes import BANK_BITS, BANK_MASK, LOCAL_WINDOW, SHARED_WINDOW
from smlab.sim.isa.vectors.word_access import (
    FULL,
    I_A,
    I_ADDRESS_FORM,
    I_B,
    I_BANK,
    I_BYPASSES_L1,
    I_C,
    I_DST,
    I_IS_SIGNED,
    I_OFFSET_BYTES,
    I_PREDICATE_A,
    I_SECOND_C,
    I_SECOND_DST,
    I_SHARED_BASE,
    I_SHARED_OFFSET_BYTES,
    I_SPACE,
    I_WIDTH_BYTES,
    I_WORDS_KEPT,
    at,
    fault,
    get8,
    get8s,
    get16,
    get16s,
    get32,
    get64,
    predicate,
    put,
    put8,
    put16,
    put32,
    put64,
    row_of,
)

NOWHERE: Final = 1 << 62
BLOCK_ADDRESS: Final = (1 << 24) - 1
"""A shared address without its block's rank in the cluster."""
APART: Final = 99
"""What an access answers whose lanes are in several spaces: nothing has been done."""


@inlined
def lane_addresses(op: int, warp: int, lanes: int, width: int) -> Any:
    """The byte addresses of the lanes into the warp's words; whether the lanes that take part ask for
    consecutive places."""
    a, b, form = row_of(op, warp, I_A), row_of(op, warp, I_B), at(op, I_ADDRESS_FORM)
    if form == d.NARROW:
        unit = spread_short(op, warp, a, b, lanes, width)
    else:
        added = (get32(b) | (get32(b + 128) << 32)) + at(op, I_OFFSET_BYTES)
        if form == d.WIDE:
            unit = spread_wide(warp, a, added, lanes, width)
        else:
            unit = spread_narrow(warp, a, added, lanes, width)
    put(warp, CONSECUTIVE, unit)
    return unit != 0


@helper
def translate(launch: int, address: int, size: int) -> Any:
    """Where a global address lies here; 0 if it lies in no allocation, or not whole.

    Sums with an address that nobody has tested may wrap around, so the size is taken from the end.
    """
    table = at(launch, ALLOCATION_TABLE)
    last = table + 24 * at(launch, LAST_ALLOCATION)
    if get64(last) <= address <= get64(last + 8) - size:
        return get64(last + 16) + address - get64(last)
    for n in range(at(launch, ALLOCATIONS)):
        row = table + 24 * n
        if get64(row) <= address <= get64(row + 8) - size:
            put(launch, LAST_ALLOCATION, n)
            return get64(row + 16) + address - get64(row)
    return 0


@helper
def block_of_rank(warp: int, launch: int, rank: int) -> Any:
    """The words of the block of this rank in a warp's cluster; 0 where it has retired, or there is none."""
    mine, size = at(at(warp, BLOCK), NUMBER) - 1, at(launch, CLUSTER_BLOCKS)
    if rank < 0 or rank >= size:
        return 0
    number = mine - mine % size + rank
    if number == mine:  # also where a cluster is one block, and nobody notes the others' places
        return at(warp, BLOCK)
    block = at(at(launch, BLOCK_ROOMS), number)
    if block != 0 and at(block, NUMBER) != number + 1:
        return 0
    return block


@helper
def owner_of(warp: int, launch: int, address: int) -> Any:
    """The words of the block whose shared memory an address lies in; 0 if it is of no block that is there."""
    block = at(warp, BLOCK)
    if address & ~BLOCK_ADDRESS == at(block, SHARED_BASE) & ~BLOCK_ADDRESS:
        return block
    return block_of_rank(warp, launch, address >> 24)


@helper
def place_of(warp: int, launch: int, space: int, lane: int, address: int, size: int) -> Any:
    """Where a lane's address lies here, tested; 0 after a fault."""
    if address & (size - 1) != 0:
        fault(warp, MISALIGNED, lane, address)
        return 0
    if space == d.GLOBAL:
        found = translate(launch, address, size)
        if found == 0:
            fault(warp, OUT_OF_BOUNDS, lane, address)
        return found
    if space == d.SHARED:
        block = owner_of(warp, launch, address)
        inside = (address & BLOCK_ADDRESS) - at(launch, SHARED_FIRST)
        if block == 0 or inside < 0 or inside > at(launch, SHARED_BYTES) - size:
            fault(warp, OUT_OF_BOUNDS, lane, address)
            return 0
        return at(block, SHARED) + inside
    if address < 0 or address > at(launch, LOCAL_BYTES) - size:
        fault(warp, OUT_OF_BOUNDS, lane, address)
        return 0
    thread = at(warp, WARP_OF_BLOCK) * 32 + lane
    return at(at(warp, BLOCK), LOCAL) + thread * at(launch, LOCAL_BYTES) + address


@helper
def note_unwritten(op: int, warp: int, launch: int, lanes: int, size: int) -> None:
    """Write down which words of shared memory lanes read, all inside, that nobody has written: of each
    instruction how many, and the first by block, thread and address, whichever warp comes first."""
    known = at(at(warp, BLOCK), SHARED_KNOWN)
    row = at(launch, UNWRITTEN) + 8 * UNWRITTEN_WORDS * ((op - at(launch, OPS)) // (8 * WORDS))
    block = at(warp, INDEX)
    rest = lanes
    while rest != 0:
        lane = lowest_bit(rest)
        rest &= rest - 1
        thread = at(warp, WARP_OF_BLOCK) * 32 + lane
        address = get64(warp + 8 * ADDRESSES + 8 * lane)
        first = (address - at(at(warp, BLOCK), SHARED_BASE)) >> 2
        for word in range(first, first + (size + 3) // 4):
            if get32(known + 4 * word) != 0:
                continue
            byte = at(launch, SHARED_FIRST) + 4 * word
            earlier = block < at(row, 1)
            if block == at(row, 1):
                earlier = thread < at(row, 2) or (thread == at(row, 2) and byte < at(row, 3))
            if earlier or at(row, 0) == 0:
                put(row, 1, block)
                put(row, 2, thread)
                put(row, 3, byte)
            put(row, 0, at(row, 0) + 1)


@helper
def make_known(warp: int, launch: int, address: int, size: int) -> None:
    if at(launch, CHECK_SHARED) == 0:
        return
    known = at(owner_of(warp, launch, address), SHARED_KNOWN)
    first = ((address & BLOCK_ADDRESS) - at(launch, SHARED_FIRST)) >> 2
    for word in range(first, first + (size + 3) // 4):
        put32(known + 4 * word, 1)


@inlined
def lanes_known(warp: int, launch: int, lanes: int, width: int, unit: int) -> Any:
    """Whether all that the lanes ask for of shared memory, which lies inside, has been written."""
    block = at(warp, BLOCK)
    if at(block, UNKNOWN_AT) >= at(block, UNKNOWN_END):
        return True
    moved = at(block, SHARED_KNOWN) - at(block, SHARED_BASE)
    if unit and width == 4:
        return known_row(first_place(warp, lanes, 4) + moved, lanes) != 0
    known = True
    for word in range((width + 3) // 4):
        known &= known_lanes(warp, lanes, moved + 4 * word) != 0
    return known


@helper
def make_lanes_known(warp: int, launch: int, lanes: int, width: int, unit: int) -> None:
    moved = at(at(warp, BLOCK), SHARED_KNOWN) - at(at(warp, BLOCK), SHARED_BASE)
    if unit and width == 4:
        mark_row(first_place(warp, lanes, 4) + moved, lanes)
        return
    for word in range((width + 3) // 4):
        mark_lanes(warp, lanes, moved + 4 * word)


@inlined
def first_place(warp: int, lanes: int, width: int) -> Any:
    """Lane 0's address, of lanes that ask for consecutive places, whether it takes part or not."""
    lane = lowest_bit(lanes)
    return get64(warp + 8 * ADDRESSES + 8 * lane) - width * lane


@inlined
def reach(warp: int, launch: int, space: int, lanes: int, width: int) -> Any:
    """How much further on than its address each lane's place lies here; `NOWHERE` if they do not all lie
    inside one piece of memory."""
    if space == d.SHARED:
        low, room = at(at(warp, BLOCK), SHARED_BASE), at(launch, SHARED_BYTES)
        moved = at(at(warp, BLOCK), SHARED) - low
    elif space == d.LOCAL:
        low, room = 0, at(launch, LOCAL_BYTES)
        moved = at(at(warp, BLOCK), LOCAL) + at(warp, WARP_OF_BLOCK) * 32 * room
    else:
        row = at(launch, ALLOCATION_TABLE) + 24 * at(launch, LAST_ALLOCATION)
        low = get64(row)
        room, moved = get64(row + 8) - low, get64(row + 16) - low
        if all_inside(warp, lanes, low, room, width) != 0:
            return moved
        if translate(launch, get64(warp + 8 * ADDRESSES + 8 * lowest_bit(lanes)), width) == 0:
            return NOWHERE
        row = at(launch, ALLOCATION_TABLE) + 24 * at(launch, LAST_ALLOCATION)
        low = get64(row)
        room, moved = get64(row + 8) - low, get64(row + 16) - low
    return moved if all_inside(warp, lanes, low, room, width) != 0 else NOWHERE


@inlined
def real_space(op: int, warp: int, lanes: int) -> Any:
    """The space of an access; of a generic one, by the addresses of its lanes, which lose the window's high
    word. `MIXED` if they are in several spaces."""
    space = at(op, I_SPACE)
    if space != d.GENERIC:
        return space
    out = warp + 8 * ADDRESSES
    here = window_of(get64(out + 8 * lowest_bit(lanes)))
    rest = lanes & (lanes - 1)
    while rest != 0:
        if window_of(get64(out + 8 * lowest_bit(rest))) != here:
            return d.MIXED
        rest &= rest - 1
    if here == d.GLOBAL:
        return d.GLOBAL
    for lane in range(32):
        put64(out + 8 * lane, get64(out + 8 * lane) & 0xFFFFFFFF)
    return here


@helper
def window_of(address: int) -> Any:
    """The space that a generic address lies in."""
    window = address >> 32
    if window == SHARED_WINDOW:
        return d.SHARED
    return d.LOCAL if window == LOCAL_WINDOW else d.GLOBAL


@inlined
def load(op: int, warp: int, launch: int, lanes: int) -> Any:
    width, signed, dst = at(op, I_WIDTH_BYTES), at(op, I_IS_SIGNED), warp + at(op, I_DST)
    if width == 32:
        return load_eight_words(op, warp, launch, lanes)
    unit = lane_addresses(op, warp, lanes, width)
    space = real_space(op, warp, lanes)
    if space == d.MIXED:
        return APART
    moved = reach(warp, launch, space, lanes, width)
    asked = moved != NOWHERE and space == d.SHARED and at(launch, CHECK_SHARED) != 0
    if asked and not lanes_known(warp, launch, lanes, width, unit):
        note_unwritten(op, warp, launch, lanes, width)
    contiguous = unit and space != d.LOCAL and width <= 8
    if moved == NOWHERE or (width < 4 and not contiguous):
        return load_one_by_one(warp, launch, space, lanes, width, signed, dst)
    if contiguous:
        place = first_place(warp, lanes, width) + moved
        if width == 4:
            load_row(place, lanes, dst)
        elif width == 8:
            load_pair(place, lanes, dst)
        elif width == 2:
            if signed != 0:
                load_16s(place, lanes, dst)
            else:
                load_16(place, lanes, dst)
        elif signed != 0:
            load_8s(place, lanes, dst)
        else:
            load_8(place, lanes, dst)
    elif width == 4 and lanes == FULL and space != d.LOCAL and bits_set(jumps(warp)) <= 4:
        load_few_runs(warp, jumps(warp), moved, dst)
    else:
        stride = at(launch, LOCAL_BYTES) if space == d.LOCAL else 0
        for word in range(width // 4):
            gather_row(warp, lanes, moved + 4 * word, stride, dst + 128 * word)
    return GOES_ON


@helper
def load_eight_words(op: int, warp: int, launch: int, lanes: int) -> Any:
    """32 bytes a lane, from global memory: of each half those words that are kept fill registers side by
    side."""
    lane_addresses(op, warp, lanes, 32)
    rest, kept = lanes, at(op, I_WORDS_KEPT)
    while rest != 0:
        lane = lowest_bit(rest)
        rest &= rest - 1
        place = place_of(warp, launch, d.GLOBAL, lane, get64(warp + 8 * ADDRESSES + 8 * lane), 32)
        if place == 0:
            return FAULTS
        to = warp + at(op, I_DST) + 4 * lane
        for word in range(8):
            if word == 4:
                to = warp + at(op, I_SECOND_DST) + 4 * lane
            if (kept >> word) & 1 != 0:
                put32(to, get32(place + 4 * word))
                to += 128
    return GOES_ON


@helper
def store_eight_words(op: int, warp: int, launch: int, lanes: int) -> Any:
    """32 bytes a lane to global memory, from two groups of four registers."""
    lane_addresses(op, warp, lanes, 32)
    rest = lanes
    while rest != 0:
        lane = lowest_bit(rest)
        rest &= rest - 1
        place = place_of(warp, launch, d.GLOBAL, lane, get64(warp + 8 * ADDRESSES + 8 * lane), 32)
        if place == 0:
            return FAULTS
        low, high = row_of(op, warp, I_C) + 4 * lane, warp + at(op, I_SECOND_C) + 4 * lane
        for word in range(4):
            put32(place + 4 * word, get32(low + 128 * word))
            put32(place + 16 + 4 * word, get32(high + 128 * word))
    return GOES_ON


@helper
def load_one_by_one(warp: int, launch: int, space: int, lanes: int, width: int, signed: int, dst: int) -> Any:
    """Lane after lane, each tested for itself: what finds the lane at fault."""
    out = warp + 8 * ADDRESSES
    rest = lanes
    while rest != 0:
        lane = lowest_bit(rest)
        rest &= rest - 1
        address = get64(out + 8 * lane)
        place = place_of(warp, launch, space, lane, address, width)
        if place == 0:
            return FAULTS
        to = dst + 4 * lane
        if width == 1:
            put32(to, get8s(place) if signed != 0 else get8(place))
        elif width == 2:
            put32(to, get16s(place) if signed != 0 else get16(place))
        else:
            for word in range(width // 4):
                put32(to + 128 * word, get32(place + 4 * word))
    return GOES_ON


@inlined
def store(op: int, warp: int, launch: int, lanes: int) -> Any:
    width, source = at(op, I_WIDTH_BYTES), row_of(op, warp, I_C)
    if width == 32:
        return store_eight_words(op, warp, launch, lanes)
    unit = lane_addresses(op, warp, lanes, width)
    space = real_space(op, warp, lanes)
    if space == d.MIXED:
        return APART
    moved = reach(warp, launch, space, lanes, width)
    contiguous = unit and space != d.LOCAL and width <= 8
    if moved == NOWHERE or (width < 4 and not contiguous):
        return store_one_by_one(warp, launch, space, lanes, width, source)
    if space == d.SHARED and at(launch, CHECK_SHARED) != 0:
        make_lanes_known(warp, launch, lanes, width, unit)
    if contiguous:
        place = first_place(warp, lanes, width) + moved
        if width == 4:
            store_row(place, lanes, source)
        elif width == 8:
            store_pair(place, lanes, source)
        elif width == 2:
            store_16(place, lanes, source)
        else:
            store_8(place, lanes, source)
    else:
        stride = at(launch, LOCAL_BYTES) if space == d.LOCAL else 0
        for word in range(width // 4):
            scatter_row(warp, lanes, moved + 4 * word, stride, source + 128 * word)
    return GOES_ON


@helper
def store_one_by_one(warp: int, launch: int, space: int, lanes: int, width: int, source: int) -> Any:
    out = warp + 8 * ADDRESSES
    rest = lanes
    while rest != 0:
        lane = lowest_bit(rest)
        rest &= rest - 1
        address = get64(out + 8 * lane)
        place = place_of(warp, launch, space, lane, address, width)
        if place == 0:
            return FAULTS
        if space == d.SHARED:
            make_known(warp, launch, address, width)
        value = get32(source + 4 * lane)
        if width == 1:
            put8(place, value)
        elif width == 2:
            put16(place, value)
        else:
            for word in range(width // 4):
                put32(place + 4 * word, get32(source + 128 * word + 4 * lane))
    return GOES_ON


@inlined
def copied_to(op: int, warp: int, to: int, lane: int) -> Any:
    """The address in shared memory that a lane of a copy writes to: a register, a uniform one and an
    offset."""
    base = get32(row_of(op, warp, I_SHARED_BASE) + 4 * lane)
    return (get32(to + 4 * lane) + base + at(op, I_SHARED_OFFSET_BYTES)) & 0xFFFFFFFF


@inlined
def line_and_row(op: int, warp: int, to: int, lane: int) -> Any:
    """The 128 bytes of global memory that a lane of a copy reads from, and those of shared memory that it
    writes to, as one number."""
    row = copied_to(op, warp, to, lane) >> 7
    return (get64(warp + 8 * ADDRESSES + 8 * lane) >> 7) << 25 ^ row


@helper
def rows_of_lines(op: int, warp: int, to: int, lanes: int) -> Any:
    """What a copy past L1 writes at once: of one line of global memory what goes to one row of all banks."""
    passes, rest = 0, lanes
    while rest != 0:
        lane = lowest_bit(rest)
        rest &= rest - 1
        mine, other = line_and_row(op, warp, to, lane), lane - 1
        while other >= 0:
            if (lanes >> other) & 1 != 0 and line_and_row(op, warp, to, other) == mine:
                break
            other -= 1
        passes += other < 0
    return passes


@helper
def copy(op: int, warp: int, launch: int, lanes: int) -> Any:
    """An asynchronous copy from global to shared memory, done at once; the addresses left behind are the
    global ones. The shared one is `copied_to`. Lanes without the predicate write zeros,
    read nothing, and are not among those left behind."""
    width, to = at(op, I_WIDTH_BYTES), row_of(op, warp, I_C)
    lane_addresses(op, warp, lanes, width)
    copied = lanes & predicate(op, warp, I_PREDICATE_A)
    put(warp, LANES, copied)
    put(warp, PASSES, rows_of_lines(op, warp, to, copied) if at(op, I_BYPASSES_L1) != 0 else 1)
    rest = lanes
    while rest != 0:
        lane = lowest_bit(rest)
        rest &= rest - 1
        source = get64(warp + 8 * ADDRESSES + 8 * lane)
        address = copied_to(op, warp, to, lane)
        place = at(launch, SCRATCH)
        if (copied >> lane) & 1 != 0:
            place = place_of(warp, launch, d.GLOBAL, lane, source, width)
            if place == 0:
                return FAULTS
        else:
            put64(place, 0)
            put64(place + 8, 0)
        inside = place_of(warp, launch, d.SHARED, lane, address, width)
        if inside == 0:
            return FAULTS
        make_known(warp, launch, address, width)
        for word in range(width // 4):
            put32(inside + 4 * word, get32(place + 4 * word))
    return GOES_ON


@helper
def _distinct_words(row: int, offset: int, lanes: int) -> Any:
    """How many words of a bank of constants the lanes ask for, one at least."""
    first = (get32(row + 4 * lowest_bit(lanes)) + offset) & 0xFFFFFFFF if lanes != 0 else 0
    found, rest = 1, lanes & (lanes - 1)
    while rest != 0:
        lane = lowest_bit(rest)
        rest &= rest - 1
        word = ((get32(row + 4 * lane) + offset) & 0xFFFFFFFF) >> 2
        if word == first >> 2:
            continue
        new, before = 1, lanes & ((1 << lane) - 1)
        while before != 0:
            if ((get32(row + 4 * lowest_bit(before)) + offset) & 0xFFFFFFFF) >> 2 == word:
                new = 0
            before &= before - 1
        found += new
    return found


@helper
def load_constant(op: int, warp: int, launch: int, lanes: int) -> Any:
    table = at(launch, BANK_TABLE) + 16 * at(op, I_BANK)
    row, dst, width = row_of(op, warp, I_A), warp + at(op, I_DST), at(op, I_WIDTH_BYTES)
    put(warp, PASSES, _distinct_words(row, at(op, I_OFFSET_BYTES), lanes))
    rest = lanes
    while rest != 0:
        lane = lowest_bit(rest)
        rest &= rest - 1
        address = (get32(row + 4 * lane) + at(op, I_OFFSET_BYTES)) & 0xFFFFFFFF
        if address & (min(width, 4) - 1) != 0:
            return fault(warp, MISALIGNED, lane, address)
        if address + width > get64(table + 8):
            return fault(warp, OUT_OF_BOUNDS, lane, address)
        put64(warp + 8 * (ADDRESSES + lane), at(op, I_BANK) << BANK_BITS | (address & BANK_MASK))
        place = get64(table) + address
        if width == 1:
            put32(dst + 4 * lane, get8s(place) if at(op, I_IS_SIGNED) != 0 else get8(place))
        elif width == 2:
            put32(dst + 4 * lane, get16s(place) if at(op, I_IS_SIGNED) != 0 else get16(place))
        else:
            for word in range(width // 4):
                put32(dst + 4 * lane + 128 * word, get32(place + 4 * word))
    return GOES_ON
