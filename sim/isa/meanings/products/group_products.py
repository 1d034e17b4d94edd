"""Products of matrices by a group of four warps, in plain Python; the module `group_products` of
`smlab.sim.isa.asynchronous` is the same in machine code.

Each warp of the group computes its own 16 of the 64 rows when it issues the instruction: as many products of
16 x 8 as there are groups of eight columns. A matrix in shared memory is found by a descriptor of 64 bits
(PTX ISA, "Matrix descriptor"): an address, two distances, and how pieces of 16 bytes are exchanged. A *tile*
is eight rows (of the second matrix columns) of 32 bytes each, as two registers would hold them.
"""

from __future__ import annotations

import struct
from functools import partial

from smlab.sim.instruction_source import AWAITS, GOES_ON
from smlab.sim.isa import matrix_products as mp
from smlab.sim.isa import memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.meanings.memory import WarpMemory
from smlab.sim.isa.meanings.products.tensor import WarpTensor
from smlab.sim.isa.meanings.warp_state import LANES, Fault, WarpState
from smlab.sim.isa.memory_layout import ROW_BYTES

PIECE_BYTES = 16
"""What lies together in shared memory: of a row, or, of a matrix that is turned, of eight rows."""
PIECES, PIECES_OF_BYTES = 16, 32
"""Of a tile, and of one of bytes column by column."""


def piece_addresses(descriptor: int, turned: bool, tile: int, pieces: int = PIECES) -> list[int]:
    """Where the pieces of a tile lie in shared memory. As it is, piece 2 g + s is half s of row g; turned,
    piece k is element k of all eight rows, or, of bytes, of those of two tiles."""
    start, leading, stride = ((descriptor >> at & 0x3FFF) << 4 for at in (0, 16, 32))
    span = mp.SWIZZLE_BYTES[descriptor >> 62 & 3]
    addresses = []
    tile >>= pieces == PIECES_OF_BYTES
    for n in range(pieces):
        if not turned:
            row, half = n >> 1, n & 1
            inside = row * span + half * (leading if span == PIECE_BYTES else PIECE_BYTES)
            address = start + tile * stride + inside
        elif span == PIECE_BYTES:
            address = start + tile * stride + (n & 7) * PIECE_BYTES + (n >> 3) * leading
        else:
            outer, inner = divmod(tile, span // PIECE_BYTES)
            address = start + outer * leading + inner * PIECE_BYTES + (n & 7) * span + (n >> 3) * stride
        addresses.append(address ^ (address >> 3 & span - PIECE_BYTES))
    return addresses


class WarpGroupProducts(WarpMemory, WarpTensor):
    """A warp's part of products by groups of warps."""

    def _await_products(self, w: WarpState) -> int:
        """A group of warps goes on together: the instruction is done when the three others have issued as
        many groups of products as its warp."""
        closed, first = w.block.products_closed, w.number & ~3
        if min(closed[first : first + 4]) >= closed[w.number]:
            return GOES_ON
        w.pc -= 1
        w.block.failed_checks += 1
        if w.block.failed_checks > self.launch.most_checks:
            raise Fault(memory_layout.LONE_PRODUCT, 0)
        return AWAITS

    def _multiply_in_group(self, w: WarpState, micro: MicroOperation) -> None:
        f = micro.fields
        if f["a_in_shared"]:
            low, high = (self._tile(w, micro, "a", 2 * (w.number & 3) + n) for n in range(2))
            words = [low[0], high[0], low[1], high[1]]
        else:
            words = [self.row(w, micro, "a", n) for n in range(4)]
        of_row = self._elements(f, "a", 2, words.__getitem__)
        adds = self.predicate(w, micro, "predicate_sum") != 0
        registers = 2 if f["sum_type"] == mp.HALF_SUM else 4
        for number in range(f["column_groups"]):
            of_column = self._elements(f, "b", 1, self._tile(w, micro, "b", number).__getitem__)
            before = partial(self._sum_before, w, micro, registers * number, adds)
            for register, lane, word in self._products(f, of_row, of_column, before, w.lanes):
                self.put(w, f["dst"] + (registers * number + register) * ROW_BYTES, lane, word)

    def _sum_before(
        self, w: WarpState, micro: MicroOperation, first: int, adds: bool, number: int
    ) -> list[int]:
        return self.row(w, micro, "c", first + number) if adds else [0] * 32

    def _pieces(self, w: WarpState, places: list[int]) -> list[bytes]:
        """Pieces of 16 bytes of the block's shared memory, 32 at most."""
        own = w.block.rank << 24
        addresses = [own | address for address in places]
        w.addresses[: len(places)] = addresses
        pieces = []
        for n, address in enumerate(addresses):
            memory, at = self._place(w, d.SHARED, n, address, PIECE_BYTES)
            pieces.append(bytes(memory[at : at + PIECE_BYTES]))
        self._read_known(w, range(len(places)), PIECE_BYTES)
        return pieces

    def _tile(self, w: WarpState, micro: MicroOperation, name: str, number: int) -> list[list[int]]:
        """A tile of a matrix in shared memory as two registers, signs changed where the instruction asks."""
        f, turned = micro.fields, bool(micro.fields[f"{name}_turned"])
        descriptor = self.row(w, micro, name)[0] | self.row(w, micro, name, 1)[0] << 32
        if descriptor >> 49 & 7 and descriptor >> 62 & 3:  # without an exchange it says nothing
            raise Fault(memory_layout.BASE_OFFSET, 0)
        element = f["element_type" if name == "a" else "b_element_type"]
        bytes_turned = turned and mp.PER_REGISTER[element] == 4
        count = PIECES_OF_BYTES if bytes_turned else PIECES
        pieces = self._pieces(w, piece_addresses(descriptor, turned, number, count))
        if bytes_turned:
            first = 8 * (number & 1)
            words = [
                [
                    sum(pieces[16 * s + 4 * (lane & 3) + e][first + (lane >> 2)] << 8 * e for e in range(4))
                    for lane in LANES
                ]
                for s in range(2)
            ]
        elif turned:
            halves = [struct.unpack("<8H", piece) for piece in pieces]
            words = [
                [
                    halves[8 * s + 2 * (lane & 3)][lane >> 2]
                    | halves[8 * s + 2 * (lane & 3) + 1][lane >> 2] << 16
                    for lane in LANES
                ]
                for s in range(2)
            ]
        else:
            parts = [struct.unpack("<4I", piece) for piece in pieces]
            words = [[parts[2 * (lane >> 2) + s][lane & 3] for lane in LANES] for s in range(2)]
        return [[word ^ f[f"{name}_xor"] for word in row] for row in words]
