"""What products of matrices on tensor cores compute, in plain Python; `tensor_steps` is the same in machine
code.

A lane 4 g + t holds, of the first matrix, in each register the elements of row g, or g + 8 in every second
register, from column t times the elements a register on; of the second one likewise of column g; of the sum
those of row g (and g + 8) and columns 2 t and 2 t + 1 (PTX ISA, "Matrix fragments for mma").

Floating-point sums are taken in double precision, in ascending order of k, and rounded once. Tensor cores
align the products to the largest and cut (Fasi et al., 2021, "Numerical behavior of NVIDIA tensor cores"), so
they differ in the last places; sums that singles hold exactly are equal. Integer sums are exact.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.meanings.operands import WarpOperands
from smlab.sim.isa.meanings.rounding import NEAREST, bits16, bits32, f16, f32, to_bits
from smlab.sim.isa.meanings.warp_state import LANES, WarpState, members
from smlab.sim.isa.memory_layout import ROW_BYTES
from smlab.sim.isa.operation_codes import BFLOAT16, BYTES, HALF_SUM, HALVES, INTEGER_SUM, SINGLE_SUM
from smlab.sim.isa.vector_operation import M32, signed

PACK: Final = {HALVES: 2, BFLOAT16: 2, BYTES: 4}


def element(word: int, kind: int, place: int, has_sign: int) -> float:
    """An element of a register."""
    if kind == BYTES:
        byte = word >> 8 * place & 0xFF
        return signed(byte, 8) if has_sign else byte
    bits = word >> 16 * place & 0xFFFF
    return f32(bits << 16) if kind == BFLOAT16 else f16(bits)


def half_of(value: float) -> int:
    """The nearest half of a double."""
    if not math.isfinite(value):
        return bits16(value)
    return to_bits(Fraction(value), 16, NEAREST, math.copysign(1.0, value) < 0)


class WarpTensor(WarpOperands):
    """Products of matrices, lane by lane."""

    def _multiply(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        f = micro.fields
        kind, steps, total, rows = f["element_type"], f["k_steps"], f["sum_type"], f["row_groups"]
        pack, a_sign, b_sign = PACK[kind], f.get("is_signed", 0), f.get("b_is_signed", 0)

        def unpacked(name: str, registers: int, has_sign: int) -> list[list[list[float]]]:
            found = []
            for n in range(registers):
                row = self.row(w, micro, name, n)
                found.append([[element(row[lane], kind, e, has_sign) for e in range(pack)] for lane in LANES])
            return found

        a, b = unpacked("a", rows * steps, a_sign), unpacked("b", steps, b_sign)
        sums = [list(self.row(w, micro, "c", n)) for n in range(rows if total == HALF_SUM else 2 * rows)]
        results: list[tuple[int, int, int]] = []
        for lane in members(lanes):
            g, t = lane >> 2, lane & 3
            for row in range(rows):
                found = []
                for column in range(2):
                    if total == HALF_SUM:
                        value: float = f16(sums[row][lane] >> 16 * column & 0xFFFF)
                    elif total == SINGLE_SUM:
                        value = f32(sums[2 * row + column][lane])
                    else:
                        value = signed(sums[2 * row + column][lane])
                    for step in range(steps):
                        for k in range(4 * pack):
                            first = a[step * rows + row][4 * g + k // pack][k % pack]
                            second = b[step][4 * (2 * t + column) + k // pack][k % pack]
                            value = value + first * second
                    found.append(value)
                if total == HALF_SUM:
                    results.append((row, lane, half_of(found[0]) | half_of(found[1]) << 16))
                else:
                    words = [int(v) & M32 if total == INTEGER_SUM else bits32(v) for v in found]
                    results += [(2 * row + column, lane, word) for column, word in enumerate(words)]
        for number, lane, word in results:
            self.put(w, f["dst"] + number * ROW_BYTES, lane, word)
