"""Tensor memory, and products whose sums lie there, in machine code; see
`smlab.sim.isa.meanings.products.tensor_memory`."""

from __future__ import annotations

from typing import Any, Final

from smlab.sim.compiled.jit import bits_set, helper
from smlab.sim.instruction_source import FAULTS, GOES_ON, PASSES, RUN_COUNT, TO_WRITE
from smlab.sim.isa import matrix_products as mp
from smlab.sim.isa import memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.asynchronous.bulk_copies import end_copy
from smlab.sim.isa.asynchronous.group_products import load_tile, tile_addresses
from smlab.sim.isa.memory.access import lanes_known, note_unwritten, place_of
from smlab.sim.isa.memory.access_vectors import put_all
from smlab.sim.isa.memory_layout import (
    ADDRESSES,
    BLOCK,
    BULK_REQUEST,
    CHECK_SHARED,
    FAILED_CHECKS,
    MOST_CHECKS,
    OUTSIDE_TENSOR_MEMORY,
    ROW_BYTES,
    SCRATCH,
    SHARED_BASE,
    TENSOR_AT,
    TENSOR_COLUMNS,
    TENSOR_GRANULE,
    TENSOR_LANES,
    TENSOR_OWNED,
    TENSOR_ROW,
    WARP_OF_BLOCK,
)
from smlab.sim.isa.vectors.products.scaled import (
    SCALES_BYTES,
    add_fours,
    put_scales,
    scale_lines,
    unpack_fours,
)
from smlab.sim.isa.vectors.products.tensor import (
    SECOND_AT,
    TILES_AT,
    add_products,
    multiply_whole,
    unpack_first,
    unpack_second,
)
from smlab.sim.isa.vectors.word_access import (
    FULL,
    I_A,
    I_A_IN_SHARED,
    I_A_TURNED,
    I_ACTION,
    I_B,
    I_B_ELEMENT_TYPE,
    I_B_IS_SIGNED,
    I_B_TURNED,
    I_C,
    I_DST,
    I_ELEMENT_TYPE,
    I_FAMILY,
    I_FRACTION_BITS,
    I_GROUP,
    I_IS_SIGNED,
    I_K_STEPS,
    I_LANE_SHAPE,
    I_OFFSET_BYTES,
    I_PACKS,
    I_PIECE_BYTES,
    I_PREDICATE_DST,
    I_PREDICATE_SUM,
    I_PRODUCT_DESCRIPTOR,
    I_REGISTERS,
    I_ROW_GROUPS,
    I_SCALE_BLOCKS,
    I_SCALE_TYPE,
    I_SCALES,
    I_SUM_TYPE,
    I_ZERO_EXPONENT,
    I_ZEROS,
    at,
    fault,
    get16,
    get32,
    get64,
    predicate,
    put,
    put32,
    put64,
    row_of,
    set_predicate,
)

_GRANULES: Final = TENSOR_COLUMNS // TENSOR_GRANULE
_FAMILIES: Final = tuple(mp.MEMORY_TYPES)
_TYPES: Final = tuple(
    (mp.MEMORY_TYPES[family][number] if number < len(mp.MEMORY_TYPES[family]) else -1)
    for family in _FAMILIES
    for number in range(8)
)
_SUMS: Final = tuple(
    (mp.MEMORY_SUMS[family][number] if number < len(mp.MEMORY_SUMS[family]) else -1)
    for family in _FAMILIES
    for number in range(4)
)
_SIGNS: Final = tuple(mp.SIGNS.get(element, 0) for element in range(len(mp.PER_REGISTER)))
_SINGLES, _HALVES = (mp.sum_arithmetic((10, 0), mp.HALVES, total) for total in (mp.SINGLE_SUM, mp.HALF_SUM))
_DIGITS, _ZERO, _ZERO_OF_HALVES = _SINGLES.fraction_bits, _SINGLES.zero_exponent, _HALVES.zero_exponent
_GROUPS: Final = tuple(
    _SINGLES.group * mp.PER_REGISTER[element] // mp.PER_REGISTER[mp.HALVES]
    for element in range(len(mp.PER_REGISTER))
)
_ELEMENTS: Final = tuple(
    mp.DEPTH_BYTES // 4 * mp.PER_REGISTER[element] for element in range(len(mp.PER_REGISTER))
)
# What a product keeps while it works, behind the ordinary scratch: a micro-operation with what its descriptor
# says, the registers of a tile of sums, of eight tiles of the first matrix and of one of the second, and
# those tiles unpacked.
_OWN_AT: Final = 8 * memory_layout.SCRATCH_WORDS
_SUMS_AT: Final = _OWN_AT + 8 * memory_layout.WORDS
_SECOND_TILE_AT: Final = _SUMS_AT + 4 * ROW_BYTES
_FIRST_TILES_AT: Final = _SECOND_TILE_AT + 2 * ROW_BYTES
_UNPACKED_AT: Final = _FIRST_TILES_AT + 8 * 4 * ROW_BYTES
_UNPACKED_BYTES: Final = TILES_AT
_SCALES_AT: Final = _UNPACKED_AT + 9 * _UNPACKED_BYTES  # of all rows, then of eight columns
_DEPTH: Final = 32  # of a product with scales that is not of packed floats
assert _SCALES_AT + (TENSOR_LANES + 8) * SCALES_BYTES <= 8 * (
    memory_layout.SCRATCH_WORDS + memory_layout.TENSOR_SCRATCH_WORDS
)


@helper
def allocate(op: int, warp: int, launch: int, lanes: int) -> Any:
    """Columns of the SM's tensor memory for the block, or back from it."""
    block, value = at(warp, BLOCK), get32(row_of(op, warp, I_A))
    row = at(block, TENSOR_ROW)
    if at(op, I_ACTION) == d.KEEP_COLUMNS:
        put(row, 0, at(row, 0) & value)
        put(block, TENSOR_OWNED, at(block, TENSOR_OWNED) & value)
        return GOES_ON
    found = -1
    if value >= 1 and value <= _GRANULES:
        for first in range(0, _GRANULES - value + 1, value):
            if found < 0 and at(row, 0) & (((1 << value) - 1) << first) == 0:
                found = first
    if found >= 0:
        mask = ((1 << value) - 1) << found
        put(row, 0, at(row, 0) | mask)
        put(block, TENSOR_OWNED, at(block, TENSOR_OWNED) | mask)
        put(block, FAILED_CHECKS, 0)
    else:
        failed = at(block, FAILED_CHECKS) + 1
        put(block, FAILED_CHECKS, failed)
        if failed > at(launch, MOST_CHECKS):
            return fault(warp, memory_layout.COLUMNS_NEVER_FREE, 0, value)
    put_all(warp + at(op, I_DST), max(found, 0), FULL)
    set_predicate(op, warp, I_PREDICATE_DST, FULL if found >= 0 else 0, lanes)
    return GOES_ON


@helper
def owns(warp: int, place: int, columns: int) -> Any:
    """Whether the block has so many columns from a place of tensor memory on."""
    first = place & 0xFFFF
    if first + columns > TENSOR_COLUMNS or (place >> 16) & 0xFFFF >= TENSOR_LANES:
        return False
    owned = at(at(warp, BLOCK), TENSOR_OWNED)
    for granule in range(first // TENSOR_GRANULE, (first + columns - 1) // TENSOR_GRANULE + 1):
        if (owned >> granule) & 1 == 0:
            return False
    return True


@helper
def cell(warp: int, lane: int, column: int) -> Any:
    """Where a lane's column of the SM's tensor memory lies."""
    return at(at(warp, BLOCK), TENSOR_ROW) + TENSOR_AT + 4 * (lane * TENSOR_COLUMNS + column)


@helper
def lane_and_column(shape: int, register: int, thread: int) -> Any:
    """Which lane and column a thread's register is of, from the place of an access on; lane -1: none."""
    if shape == d.WHOLE_LANES:
        return thread, register
    if shape == d.LOW_HALF:
        return (thread if thread < 16 else -1), register
    if shape == d.HIGH_HALF:
        return thread - 16 if thread >= 16 else -1, register
    if shape == d.BITS_64:
        return (thread >> 2) + 8 * (thread & 1), ((thread >> 1) & 1) + 2 * register
    if shape == d.BITS_128:
        return (thread >> 2) + 8 * (register & 1), (thread & 3) + 4 * (register >> 1)
    lane = (thread >> 2) + 8 * ((register >> 1) & 1)
    return lane, 2 * (thread & 3) + (register & 1) + 8 * (register >> 2)


@helper
def place_of_access(op: int, warp: int) -> Any:
    """Where an access begins, its lane in the upper half; -1 after a fault. A warp reaches its own quarter
    alone, whichever its address names."""
    place = (get32(row_of(op, warp, I_A)) + at(op, I_OFFSET_BYTES)) & FULL
    place = (place & 0xFFFF) | ((((place >> 16) & 31) + 32 * (at(warp, WARP_OF_BLOCK) & 3)) << 16)
    shape, columns = at(op, I_LANE_SHAPE), at(op, I_REGISTERS) << at(op, I_PACKS)
    whole = shape == d.WHOLE_LANES
    if shape >= d.BITS_64:
        columns *= 2
    lane = (place >> 16) & 31
    inside = lane == 0 or (not whole and lane == 16)
    if not inside or not owns(warp, place, columns):
        fault(warp, OUTSIDE_TENSOR_MEMORY, 0, place)
        return -1
    return place


@helper
def move(op: int, warp: int, lanes: int, stores: bool) -> Any:
    """Registers of a warp from or to its quarter of tensor memory."""
    place = place_of_access(op, warp)
    if place < 0:
        return FAULTS
    shape, packs = at(op, I_LANE_SHAPE), at(op, I_PACKS)
    row = row_of(op, warp, I_C) if stores else warp + at(op, I_DST)
    row_bytes = 0 if stores and at(op, I_ZEROS) != 0 else ROW_BYTES
    for register in range(at(op, I_REGISTERS)):
        for thread in range(32):
            lane, column = lane_and_column(shape, register, thread)
            if lane < 0 or (lanes >> thread) & 1 == 0:
                continue
            there = cell(warp, (place >> 16) + lane, (place & 0xFFFF) + (column << packs))
            here = row + row_bytes * register + 4 * thread
            if stores:
                word = get32(here)
                put32(there, word & 0xFFFF if packs != 0 else word)
                if packs != 0:
                    put32(there + 4, word >> 16)
            elif packs != 0:
                put32(here, get16(there) | (get16(there + 4) << 16))
            else:
                put32(here, get32(there))
    return GOES_ON


@helper
def part_of(described: int, place: Any) -> Any:
    return (described >> place[0]) & ((1 << place[1]) - 1)


@helper
def put_matrices(op: int, own: int, a_turned: int, b_turned: int) -> None:
    """Write where the two matrices lie and which of them is turned."""
    for n in range(5):
        put(own, I_A + n, at(op, I_A + n))
        put(own, I_B + n, at(op, I_B + n))
    put(own, I_K_STEPS, 2)
    put(own, I_ROW_GROUPS, 2)
    put(own, I_A_TURNED, a_turned)
    put(own, I_B_TURNED, b_turned)


@helper
def put_floats(own: int, described: int, first: int, second: int, total: int) -> None:
    """Write the types of floats, how their products are summed and which matrix changes its sign."""
    put(own, I_ELEMENT_TYPE, first)
    put(own, I_B_ELEMENT_TYPE, second)
    put(own, I_SUM_TYPE, total)
    put(own, I_GROUP, _GROUPS[first])
    put(own, I_FRACTION_BITS, _DIGITS)
    put(own, I_ZERO_EXPONENT, _ZERO_OF_HALVES if total == mp.HALF_SUM else _ZERO)
    put(own, I_A + 3, _SIGNS[first] if part_of(described, mp.MINUS_FIRST) != 0 else 0)
    put(own, I_B + 3, _SIGNS[second] if part_of(described, mp.MINUS_SECOND) != 0 else 0)


@helper
def describe(op: int, own: int, described: int) -> Any:
    """Write a micro-operation with what an instruction descriptor says; False for one that is not
    executed."""
    family = 0
    for number in range(len(_FAMILIES)):
        if _FAMILIES[number] == at(op, I_FAMILY):
            family = number
    if at(op, I_SCALE_BLOCKS) != 0:
        return describe_scaled(op, own, described, family)
    whole = at(op, I_FAMILY) == mp.BYTES
    first = _TYPES[8 * family + part_of(described, mp.FIRST_TYPE)]
    second = _TYPES[8 * family + part_of(described, mp.SECOND_TYPE)]
    total = _SUMS[4 * family + part_of(described, mp.RESULT)]
    rows, columns = 16 * part_of(described, mp.SIXTEENS_OF_ROWS), 8 * part_of(described, mp.EIGHTS_OF_COLUMNS)
    a_turned, b_turned = part_of(described, mp.TURNED_FIRST), part_of(described, mp.TURNED_SECOND)
    minus = part_of(described, mp.MINUS_FIRST) | part_of(described, mp.MINUS_SECOND)
    if part_of(described, mp.SPARSE) | part_of(described, mp.SHIFT) != 0 or first == -1 or second == -1:
        return False
    if (rows != 64 and rows != 128) or columns < 8 or columns > 256:
        return False
    saturates = part_of(described, mp.SATURATES) != 0
    if total < 0 or (at(op, I_FAMILY) == mp.HALVES and first != second):
        return False
    if (saturates and not whole) or (minus != 0 and whole):
        return False
    if total == mp.HALF_SUM and at(op, I_FAMILY) == mp.HALVES and first != mp.HALVES:
        return False
    if a_turned | b_turned != 0 and first == mp.TF32:
        return False
    put_matrices(op, own, a_turned, b_turned)
    if whole:
        put(own, I_IS_SIGNED, 1 if first == mp.SIGNED_BYTES else 0)
        put(own, I_B_IS_SIGNED, 1 if second == mp.SIGNED_BYTES else 0)
        put(own, I_ELEMENT_TYPE, mp.BYTES)
        put(own, I_B_ELEMENT_TYPE, mp.BYTES)
        put(own, I_SUM_TYPE, mp.SATURATED_SUM if saturates else mp.INTEGER_SUM)
        return True
    put_floats(own, described, first, second, total)
    return True


@helper
def describe_scaled(op: int, own: int, described: int, family: int) -> Any:
    """The same of a product with scales of blocks."""
    first = _TYPES[8 * family + part_of(described, mp.FIRST_TYPE)]
    second = _TYPES[8 * family + part_of(described, mp.SECOND_TYPE)]
    rows, columns = 16 * part_of(described, mp.SIXTEENS_OF_ROWS), 8 * part_of(described, mp.EIGHTS_OF_COLUMNS)
    packed, blocks = at(op, I_FAMILY) == mp.PACKED_E2M1, at(op, I_SCALE_BLOCKS)
    a_turned, b_turned = part_of(described, mp.TURNED_FIRST), part_of(described, mp.TURNED_SECOND)
    powers = part_of(described, mp.SCALE_TYPE) == 1
    if part_of(described, mp.SPARSE) | part_of(described, mp.LONGER) != 0 or first < 0 or second < 0:
        return False
    if rows != 128 or columns < 8 or columns > 256 or not (powers or blocks == 4):
        return False
    if packed and a_turned | b_turned != 0:
        return False
    put_matrices(op, own, a_turned, b_turned)
    put_floats(own, described, first, second, mp.SINGLE_SUM)
    put(own, I_SCALE_BLOCKS, blocks)
    put(own, I_SCALE_TYPE, mp.E8_SCALES if powers else mp.UE4M3_SCALES)
    return True


@helper
def scales_outside(op: int, warp: int, rows: int, columns: int) -> Any:
    """The place of scales that the block does not have; -1: none."""
    words = warp + at(op, I_SCALES)
    for n in range(2):
        place, lines = get32(words + ROW_BYTES * n) & mp.SCALE_PLACE, rows if n == 0 else columns
        if place >> 16 != 0 or not owns(warp, place, (lines + 31) >> 5):
            return place
    return -1


@helper
def load_scales(own: int, warp: int, place: int, byte: int, line: int, count: int, to: int) -> None:
    """The scales of so many rows or columns, from one on: those of 32 lines are in the first lanes of a
    column."""
    for n in range(count):
        word = get32(cell(warp, (line + n) & 31, place + ((line + n) >> 5)))
        put_scales(word, byte, at(own, I_SCALE_BLOCKS), at(own, I_SCALE_TYPE), to + SCALES_BYTES * n)


@helper
def lane_of_row(rows: int, row: int) -> Any:
    """The lane that a row of a product lies in: of 64 rows 16 in each quarter."""
    return row if rows == memory_layout.TENSOR_LANES else 32 * (row >> 4) + (row & 15)


@helper
def sums_between(warp: int, registers: int, place: int, half: bool, stores: bool) -> None:
    """The sums of a tile of 16 x 8 between tensor memory, from a lane and a column on, and four registers."""
    for row in range(16):
        there = cell(warp, (place >> 16) + row, place & 0xFFFF)
        for column in range(8):
            lane = 4 * (row & 7) + (column >> 1)
            if half:
                here = registers + ROW_BYTES * (row >> 3) + 4 * lane
                shift = 16 * (column & 1)
                if stores:
                    put32(there + 4 * column, (get32(here) >> shift) & 0xFFFF)
                else:
                    kept = get32(here) & (FULL ^ (0xFFFF << shift))
                    put32(here, kept | (get16(there + 4 * column) << shift))
            else:
                here = registers + ROW_BYTES * (2 * (row >> 3) + (column & 1)) + 4 * lane
                if stores:
                    put32(there + 4 * column, get32(here))
                else:
                    put32(here, get32(there + 4 * column))


@helper
def load_first_tile(op: int, own: int, warp: int, launch: int, rows: int, number: int, to: int) -> Any:
    """16 rows of the first matrix as four registers; False after a fault."""
    if at(op, I_A_IN_SHARED) != 0:
        for half in range(2):
            part, tile = to + half * ROW_BYTES, 2 * number + half
            if not load_tile(op, own, warp, launch, I_A, tile, part):
                return False
        return True
    place, flip = get32(row_of(op, warp, I_A)), at(own, I_A + 3)
    for row in range(16):
        there = cell(warp, (place >> 16) + lane_of_row(rows, 16 * number + row), place & 0xFFFF)
        for word in range(8):
            here = to + ROW_BYTES * ((row >> 3) + 2 * (word >> 2)) + 4 * (4 * (row & 7) + (word & 3))
            put32(here, get32(there + 4 * word) ^ flip)
    return True


@helper
def multiply_in_memory(op: int, warp: int, launch: int) -> Any:
    """A product whose sums lie in tensor memory, 16 rows and eight columns at a time. The engine is told its
    shape."""
    described = get32(row_of(op, warp, I_PRODUCT_DESCRIPTOR))
    scratch = at(launch, SCRATCH)
    own, sums = scratch + _OWN_AT, scratch + _SUMS_AT
    if not describe(op, own, described):
        return fault(warp, memory_layout.UNKNOWN_PRODUCT, 0, described)
    rows, columns = 16 * part_of(described, mp.SIXTEENS_OF_ROWS), 8 * part_of(described, mp.EIGHTS_OF_COLUMNS)
    place, in_shared = get32(row_of(op, warp, I_C)), at(op, I_A_IN_SHARED)
    lane = place >> 16
    if (lane != 0 and (lane != 16 or rows != 64)) or not owns(warp, place, columns):
        return fault(warp, OUTSIDE_TENSOR_MEMORY, 0, place)
    first = get32(row_of(op, warp, I_A))
    if in_shared == 0 and (first >> 16 != lane or at(own, I_A_TURNED) != 0 or not owns(warp, first, 8)):
        return fault(warp, OUTSIDE_TENSOR_MEMORY, 0, first)
    tiles, unpacked = scratch + _FIRST_TILES_AT, scratch + _UNPACKED_AT
    packed, scaled = at(own, I_ELEMENT_TYPE) == mp.PACKED_E2M1, at(op, I_SCALE_BLOCKS) != 0
    whole, half = at(op, I_FAMILY) == mp.BYTES, at(own, I_SUM_TYPE) == mp.HALF_SUM
    special_rows, scales = 0, scratch + _SCALES_AT
    of_columns = scales + rows * SCALES_BYTES
    if scaled:
        outside = scales_outside(op, warp, rows, columns)
        if outside >= 0:
            return fault(warp, OUTSIDE_TENSOR_MEMORY, 0, outside)
        byte = part_of(described, mp.SCALE_OF_FIRST)
        load_scales(own, warp, get32(warp + at(op, I_SCALES)) & mp.SCALE_PLACE, byte, 0, rows, scales)
    for number in range(rows // 16):
        tile = tiles + 4 * ROW_BYTES * number
        if not load_first_tile(op, own, warp, launch, rows, number, tile):
            return FAULTS
        rows_at = unpacked + _UNPACKED_BYTES * (number + 1)
        if packed:
            unpack_fours(tile, 16, rows_at)
        elif not whole and unpack_first(own, tile, rows_at) != 0:
            special_rows |= 1 << number
        of_rows = scales + 16 * SCALES_BYTES * number
        if scaled and not packed and scale_lines(rows_at, of_rows, 16, _DEPTH, 4 * _DEPTH, 4):
            special_rows |= 1 << number
    adds = predicate(op, warp, I_PREDICATE_SUM) != 0
    second = scratch + _SECOND_TILE_AT
    for eight in range(columns // 8):
        if not load_tile(op, own, warp, launch, I_B, eight, second):
            return FAULTS
        special = not whole and not packed and unpack_second(own, second, unpacked + SECOND_AT) != 0
        if packed:
            unpack_fours(second, 8, unpacked)
        if scaled:
            byte = part_of(described, mp.SCALE_OF_SECOND)
            beside = get32(warp + at(op, I_SCALES) + ROW_BYTES) & mp.SCALE_PLACE
            load_scales(own, warp, beside, byte, 8 * eight, 8, of_columns)
            if not packed and scale_lines(unpacked + SECOND_AT, of_columns, 8, _DEPTH, 4, 32):
                special = True
        for number in range(rows // 16):
            here = place + 8 * eight + (lane_of_row(rows, 16 * number) << 16)
            if adds:
                sums_between(warp, sums, here, half, False)
            else:
                for word in range(4 * ROW_BYTES // 8):
                    put(sums, word, 0)
            if packed:
                rows_at, of_rows = (
                    unpacked + _UNPACKED_BYTES * (number + 1),
                    scales + 16 * SCALES_BYTES * number,
                )
                lines = (rows_at, unpacked, of_rows, of_columns)
                add_fours(lines, sums, at(own, I_SCALE_BLOCKS), at(own, I_SCALE_TYPE))
            elif whole:
                tile = tiles + 4 * ROW_BYTES * number
                multiply_whole(own, tile, second, sums, sums, unpacked, FULL)
            else:
                rows_at = unpacked + _UNPACKED_BYTES * (number + 1)
                is_special = special or (special_rows >> number) & 1 != 0
                add_products(own, rows_at, unpacked + SECOND_AT, sums, sums, FULL, is_special)
            sums_between(warp, sums, here, half, True)
    counted = at(launch, memory_layout.MEMORY_PRODUCTS) + 8 * memory_layout.PRODUCT_WORDS * (
        (op - at(launch, memory_layout.OPS)) // (8 * memory_layout.WORDS)
    )
    depth = _ELEMENTS[at(own, I_ELEMENT_TYPE)]
    put(counted, 0, at(counted, 0) + rows * columns * depth)
    put(counted, 1, described)
    put(at(warp, BLOCK), FAILED_CHECKS, 0)
    put(warp, PASSES, columns | (rows << 16) | (in_shared << 32))
    return GOES_ON


@helper
def copy_to_memory(op: int, warp: int, launch: int) -> Any:
    """Rows of shared memory to the lanes of tensor memory that the shape says."""
    place = (get32(row_of(op, warp, I_A)) + at(op, I_OFFSET_BYTES)) & FULL
    row = row_of(op, warp, I_B)
    descriptor = get32(row) | (get32(row + ROW_BYTES) << 32)
    halves, shape = at(op, I_PIECE_BYTES) // 16, at(op, I_LANE_SHAPE)
    if place >> 16 != 0 or not owns(warp, place, 4 * halves):
        return fault(warp, OUTSIDE_TENSOR_MEMORY, 0, place)
    if (descriptor >> 49) & 7 != 0 and (descriptor >> 62) & 3 != 0:
        return fault(warp, memory_layout.BASE_OFFSET, 0, 0)
    rows = 128 if shape == d.ALL_ROWS else 32 if shape == d.ROWS_FOUR_TIMES else 64
    for tile in range(rows // 8):
        tile_addresses(warp, descriptor, 0, tile, 16)
        for n in range(8 * halves):  # the addresses of those that are copied, side by side
            put(warp, ADDRESSES + n, at(warp, ADDRESSES + n * (3 - halves)))
        for n in range(8 * halves):
            source = place_of(warp, launch, d.SHARED, n, get64(warp + 8 * (ADDRESSES + n)), 16)
            if source == 0:
                return FAULTS
            number, half = 8 * tile + n // halves, n % halves
            lane, step, count = number, 0, 1
            if shape == d.ROWS_FOUR_TIMES:
                step, count = 32, 4
            elif shape == d.ROWS_TWICE:
                lane, step, count = number + number // 32 * 32, 32, 2
            elif shape == d.ROWS_TWICE_IN_TURN:
                step, count = 64, 2
            for k in range(count):
                there = cell(warp, lane + step * k, place + 4 * half)
                put64(there, get64(source))
                put64(there + 8, get64(source + 8))
        asking = (1 << (8 * halves)) - 1
        if at(launch, CHECK_SHARED) != 0 and not lanes_known(warp, launch, asking, 16, 0):
            note_unwritten(op, warp, launch, asking, 16)
    put(warp, PASSES, (rows * at(op, I_PIECE_BYTES) // 16) | (1 << 33))
    return GOES_ON


@helper
def commit(op: int, warp: int, launch: int) -> Any:
    """An arrival at a barrier of the block when the warp's products are done, which the engine says; without
    timing at once."""
    request, address = at(launch, BULK_REQUEST), get32(row_of(op, warp, I_A))
    put(request, RUN_COUNT, 0)
    put(request, TO_WRITE, 0)
    if address >> 24 == 0:
        address |= at(at(warp, BLOCK), SHARED_BASE) & ~((1 << 24) - 1)
    return GOES_ON if end_copy(warp, launch, address, 1, 0) else FAULTS


@helper
def keeps_columns(warp: int, launch: int) -> Any:
    """Whether the block's last warp has exited and the block has tensor memory still."""
    block = at(warp, BLOCK)
    return (
        at(block, memory_layout.CLUSTER_EXITED) == at(launch, memory_layout.WARPS)
        and bits_set(at(block, TENSOR_OWNED)) != 0
    )
