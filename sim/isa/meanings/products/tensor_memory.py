"""Tensor memory, and products whose sums lie there (PTX's ``tcgen05``), in plain Python; the module
`tensor_memory` of `smlab.sim.isa.asynchronous` is the same in machine code.

An SM has 128 lanes of 512 columns of 32 bits. Blocks of the SM share the columns, in granules of 32. A warp
reaches the 32 lanes of its quarter, by the last two bits of its number, whichever its address names. One
instruction multiplies the whole matrices; its sums lie in the lanes by row, and in the columns by column, one
a column whatever its type. Of 64 rows, 16 lie in each quarter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from smlab.sim.instruction_source import BulkRequest
from smlab.sim.isa import matrix_products as mp
from smlab.sim.isa import memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.meanings.asynchronous_units import AsynchronousUnits
from smlab.sim.isa.meanings.products.group_products import WarpGroupProducts, piece_addresses
from smlab.sim.isa.meanings.products.tensor import ScaledLine, scale_of
from smlab.sim.isa.meanings.warp_state import LANES, BlockState, Fault, WarpState, members
from smlab.sim.isa.memory_layout import ROW_BYTES, TENSOR_COLUMNS, TENSOR_GRANULE, TENSOR_LANES
from smlab.sim.isa.vector_operation import M32

_GRANULES = TENSOR_COLUMNS // TENSOR_GRANULE


def lane_and_column(shape: int, register: int, thread: int) -> tuple[int, int] | None:
    """Which lane and column a thread's register is of, from the place of an access on; None: of none."""
    if shape == d.WHOLE_LANES:
        return thread, register
    if shape in (d.LOW_HALF, d.HIGH_HALF):
        return (thread % 16, register) if (thread >= 16) == (shape == d.HIGH_HALF) else None
    if shape == d.BITS_64:
        return thread // 4 + 8 * (thread & 1), (thread >> 1 & 1) + 2 * register
    if shape == d.BITS_128:
        return thread // 4 + 8 * (register & 1), thread % 4 + 4 * (register // 2)
    return thread // 4 + 8 * (register >> 1 & 1), 2 * (thread % 4) + (register & 1) + 8 * (register // 4)


def lane_of_row(rows: int, row: int) -> int:
    """The lane that a row of a product lies in."""
    return row if rows == TENSOR_LANES else 32 * (row // 16) + row % 16


ROWS_OF_COPY = {d.ALL_ROWS: 128, d.ROWS_TWICE: 64, d.ROWS_TWICE_IN_TURN: 64, d.ROWS_FOUR_TIMES: 32}


def lanes_of_row(shape: int, row: int) -> list[int]:
    """The lanes that a copy writes a row to."""
    if shape == d.ALL_ROWS:
        return [row]
    if shape == d.ROWS_FOUR_TIMES:
        return [row + 32 * quarter for quarter in range(4)]
    if shape == d.ROWS_TWICE:
        return [row + row // 32 * 32, row + row // 32 * 32 + 32]
    return [row, row + 64]


class TensorMemory:
    """That of an SM: its columns by lane, and the granules that blocks have."""

    def __init__(self) -> None:
        self.lanes = [[0] * TENSOR_COLUMNS for _ in range(TENSOR_LANES)]
        self.taken = 0


class WarpTensorMemory(WarpGroupProducts, AsynchronousUnits):
    """What a warp does with the tensor memory of its SM."""

    def __init__(self, launch: MachineLaunch) -> None:
        super().__init__(launch)
        self.products = np.zeros((len(self.code), memory_layout.PRODUCT_WORDS), dtype=np.int64)
        self.tensor_memory: dict[int, TensorMemory] = defaultdict(TensorMemory)

    def _allocate(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        """Columns for the block, or back from it."""
        memory, block = self.tensor_memory[w.sm], w.block
        value = self.row(w, micro, "a")[0]
        if micro.fields["action"] == d.KEEP_COLUMNS:
            memory.taken &= value
            block.tensor_owned &= value
            return
        places = range(0, _GRANULES - value + 1, value) if 1 <= value <= _GRANULES else range(0)
        wanted = (1 << value) - 1 if places else 0
        first = next((place for place in places if not memory.taken & wanted << place), None)
        if first is None:
            block.failed_checks += 1
            if block.failed_checks > self.launch.most_checks:
                raise Fault(memory_layout.COLUMNS_NEVER_FREE, 0, value)
        else:
            memory.taken |= wanted << first
            block.tensor_owned |= wanted << first
            block.failed_checks = 0
        for lane in LANES:
            self.put(w, micro.fields["dst"], lane, first or 0)
        self.set_predicate(w, micro, "predicate_dst", 0 if first is None else M32, lanes)

    def keeps_columns(self, block: BlockState) -> bool:
        """Whether the block's last warp has exited and the block has tensor memory still."""
        return block.cluster_exited == self.launch.warps_per_block and block.tensor_owned != 0

    def _check_columns(self, w: WarpState, place: int, columns: int) -> None:
        """Whether the block has so many columns from a place on."""
        first, lane = place & 0xFFFF, place >> 16
        inside = first + columns <= TENSOR_COLUMNS and lane < TENSOR_LANES
        granules = range(first // TENSOR_GRANULE, (first + columns - 1) // TENSOR_GRANULE + 1)
        if not inside or not all(w.block.tensor_owned >> granule & 1 for granule in granules):
            raise Fault(memory_layout.OUTSIDE_TENSOR_MEMORY, 0, place)

    def _move(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        """Registers of a warp from or to its quarter of tensor memory."""
        f, cells = micro.fields, self.tensor_memory[w.sm].lanes
        place = (self.row(w, micro, "a")[0] + f["offset_bytes"]) & M32
        shape, packs = f["lane_shape"], f["packs"]
        columns = (f["registers"] << packs) * (2 if shape >= d.BITS_64 else 1)
        lane, base = place >> 16 & 31, 32 * (w.number & 3) + (place >> 16 & 31)
        place = place & 0xFFFF | base << 16
        if lane and (shape == d.WHOLE_LANES or lane != 16):
            raise Fault(memory_layout.OUTSIDE_TENSOR_MEMORY, 0, place)
        self._check_columns(w, place, columns)
        for register in range(f["registers"]):
            for thread in members(lanes):
                found = lane_and_column(shape, register, thread)
                if found is None:
                    continue
                row, column = cells[base + found[0]], (place & 0xFFFF) + (found[1] << packs)
                if micro.code == d.TENSOR_STORE:
                    word = 0 if f["zeros"] else self.row(w, micro, "c", register)[thread]
                    row[column] = word & 0xFFFF if packs else word
                    if packs:
                        row[column + 1] = word >> 16
                else:
                    word = row[column] & 0xFFFF | (row[column + 1] & 0xFFFF) << 16 if packs else row[column]
                    self.put(w, f["dst"] + register * ROW_BYTES, thread, word)

    def _multiply_in_memory(self, w: WarpState, micro: MicroOperation) -> None:
        """A product whose sums lie in tensor memory. The engine is told its shape."""
        f = micro.fields
        described = w.rows[f["product_descriptor"]][0]
        product = mp.memory_product(described, f["family"], f.get("scale_blocks", 0))
        if product is None:
            raise Fault(memory_layout.UNKNOWN_PRODUCT, 0, described)
        place, first = self.row(w, micro, "c")[0], self.row(w, micro, "a")[0]
        whole = MicroOperation(micro.instruction, d.MMA_GROUP, micro.cls, self._described(f, product.fields))
        lane = place >> 16
        if lane and (lane != 16 or product.rows != 64):
            raise Fault(memory_layout.OUTSIDE_TENSOR_MEMORY, 0, place)
        self._check_columns(w, place, product.columns)
        if not f["a_in_shared"]:
            if first >> 16 != lane or product.fields["a_turned"]:
                raise Fault(memory_layout.OUTSIDE_TENSOR_MEMORY, 0, first)
            self._check_columns(w, first, 8)
        cells = self.tensor_memory[w.sm].lanes
        scaled = {**whole.fields, **self._check_scales(w, f, product)}
        rows: list[list[Any]] = []
        for number in range(product.rows // 16):
            words = self._first_tile(w, whole, first, product.rows, number)
            rows += self._elements(whole.fields, "a", 2, words.__getitem__)
        adds = self.predicate(w, micro, "predicate_sum") != 0
        lines = self._with_scales(w, f, product, rows, 0)
        for eight in range(product.columns // 8):
            tile = self._tile(w, whole, "b", eight)
            of_columns: Sequence[Any] = self._elements(whole.fields, "b", 1, tile.__getitem__)
            of_columns = self._with_scales(w, f, product, of_columns, 8 * eight + 1)
            for row, of_row in enumerate(lines):
                sums, at = cells[lane + lane_of_row(product.rows, row)], (place & 0xFFFF) + 8 * eight
                half = whole.fields["sum_type"] == mp.HALF_SUM
                for column, of_column in enumerate(of_columns):
                    before = sums[at + column] & (0xFFFF if half else M32) if adds else 0
                    sums[at + column] = self.sum_of(scaled, of_row, of_column, before)
        self.products[w.last_pc] += product.multiply_adds, 0
        self.products[w.last_pc][1] = described
        w.block.failed_checks = 0
        w.passes = product.columns | product.rows << 16 | f["a_in_shared"] << 32

    def _check_scales(self, w: WarpState, f: dict[str, int], product: mp.MemoryProduct) -> dict[str, int]:
        """What sums ask of the product's scales, if it has some: the block must have their columns."""
        if product.scales is None:
            return {}
        for register, lines in enumerate((product.rows, product.columns)):
            place = w.rows[f["scales"] + register * ROW_BYTES][0] & mp.SCALE_PLACE
            self._check_columns(w, place, -(-lines // 32))
            if place >> 16:
                raise Fault(memory_layout.OUTSIDE_TENSOR_MEMORY, 0, place)
        return {"scale_blocks": product.scales.blocks, "scale_type": product.scales.type}

    def _with_scales(
        self,
        w: WarpState,
        f: dict[str, int],
        product: mp.MemoryProduct,
        lines: Sequence[list[Any]],
        first: int,
    ) -> Sequence[Any]:
        """Rows (``first`` is 0) or columns (from ``first`` - 1 on) with their scales. Those of 32 lines are
        in the first lanes of a column, those of the next 32 in the next column."""
        told = product.scales
        if told is None:
            return lines
        place = w.rows[f["scales"] + (first > 0) * ROW_BYTES][0] & mp.SCALE_PLACE
        byte, cells = (told.second_byte if first else told.first_byte), self.tensor_memory[w.sm].lanes
        found = []
        for n, line in enumerate(lines, max(first - 1, 0)):
            word = cells[n % 32][place + n // 32]
            scales = [scale_of(word >> 8 * (byte + b & 3) & 0xFF, told.type) for b in range(told.blocks)]
            found.append(ScaledLine(line, scales))
        return found

    def _copy_to_memory(self, w: WarpState, micro: MicroOperation) -> None:
        """Rows of shared memory to the lanes that the shape says."""
        f, cells = micro.fields, self.tensor_memory[w.sm].lanes
        place = (self.row(w, micro, "a")[0] + f["offset_bytes"]) & M32
        descriptor = self.row(w, micro, "b")[0] | self.row(w, micro, "b", 1)[0] << 32
        halves, shape = f["piece_bytes"] // 16, f["lane_shape"]
        if place >> 16:
            raise Fault(memory_layout.OUTSIDE_TENSOR_MEMORY, 0, place)
        self._check_columns(w, place, 4 * halves)
        if descriptor >> 49 & 7 and descriptor >> 62 & 3:
            raise Fault(memory_layout.BASE_OFFSET, 0)
        rows = ROWS_OF_COPY[shape]
        for tile in range(rows // 8):
            places = piece_addresses(descriptor, False, tile)[:: 3 - halves]
            for n, piece in enumerate(self._pieces(w, places)):
                row, half = 8 * tile + n // halves, n % halves
                words = np.frombuffer(piece, dtype="<u4").tolist()
                for lane in lanes_of_row(shape, row):
                    first = place + 4 * half
                    cells[lane][first : first + 4] = words
        w.passes = rows * f["piece_bytes"] // 16 | 1 << 33

    def _described(self, f: dict[str, int], said: dict[str, int]) -> dict[str, int]:
        """The fields of a product by a group of warps that multiplies as the descriptor says."""
        names = ("a", "a_reg", "a_and", "b", "b_reg", "b_and", "a_in_shared")
        return {**{name: f[name] for name in names}, "a_xor": 0, "b_xor": 0, **said}

    def _first_tile(
        self, w: WarpState, micro: MicroOperation, place: int, rows: int, number: int
    ) -> list[list[int]]:
        """16 rows of the first matrix as four registers."""
        if micro.fields["a_in_shared"]:
            low, high = (self._tile(w, micro, "a", 2 * number + n) for n in range(2))
            return [low[0], high[0], low[1], high[1]]
        words, flip = [[0] * 32 for _ in range(4)], micro.fields["a_xor"]
        for row in range(16):
            lane = (place >> 16) + lane_of_row(rows, 16 * number + row)
            for word in range(8):
                value = self.tensor_memory[w.sm].lanes[lane][(place & 0xFFFF) + word] ^ flip
                words[row // 8 + 2 * (word // 4)][4 * (row % 8) + word % 4] = value
        return words

    def _commit(self, w: WarpState, micro: MicroOperation) -> None:
        """An arrival at a barrier of the block when the warp's products are done, which the engine says."""
        address = self.row(w, micro, "a")[0]
        if not address >> 24:
            address |= w.block.rank << 24
        w.bulk_request = BulkRequest()
        self._end_copy(w, address, 1, 0)
