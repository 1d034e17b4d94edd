"""What products of matrices on tensor cores compute, in plain Python; `smlab.sim.isa.vectors.products` is the
same in machine code.

A lane 4 g + t holds, of the first matrix, in each register the elements of row g, or g + 8 in every second
register, from column t times the elements a register on; of the second one likewise of column g; of the sum
those of row g (and g + 8) and columns 2 t and 2 t + 1 (PTX ISA, "Matrix fragments for mma"). Volta's products
of 8 x 8 x 4 lie in pairs of quads of lanes: lanes 0 to 3 and 16 to 19, and so on.

`smlab.sim.isa.matrix_products` says how floating-point sums are rounded. Whole numbers wrap, or end at the
limits of 32 bits where the instruction saturates. Doubles are fused multiply-adds in ascending order of k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final

from smlab.sim.isa import matrix_products as mp
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.meanings.operands import WarpOperands
from smlab.sim.isa.meanings.rounding import CHOP, NAN16, NAN32, NEAREST, f64, fma, to_bits
from smlab.sim.isa.meanings.warp_state import LANES, WarpState, members
from smlab.sim.isa.memory_layout import ROW_BYTES
from smlab.sim.isa.vector_operation import M32, signed

Number = tuple[int, int]
"""A significand with its sign and an exponent, which subnormals share with the smallest normal number; or,
for what is no number, infinity's sign or `NONE` and `SPECIAL`."""


@dataclass(frozen=True)
class ScaledLine:
    """A row or a column, and the scales of its blocks."""

    numbers: list[Number]
    scales: list[Number]


Rows = Callable[[int], list[int]]
"""A register of a matrix, by its number: a word for each lane."""
SPECIAL: Final = 1 << 20
NONE: Final = 2
_SINGLE: Final = mp.FloatFormat(8, 23)
_HALF: Final = mp.FORMATS[mp.HALVES]


def number_of(bits: int, kind: mp.FloatFormat) -> Number:
    """The number that a word's bits are; the significand is in units of its last digit."""
    digits, exponents = kind.fraction_bits, (1 << kind.exponent_bits) - 1
    bits >>= kind.shift
    fraction, exponent = bits & ((1 << digits) - 1), bits >> digits & exponents
    sign = -1 if bits >> (digits + kind.exponent_bits) & 1 else 1
    if exponent == exponents and kind.largest == "ieee":
        return (sign if fraction == 0 else NONE), SPECIAL
    if exponent == exponents and kind.largest == "nan" and fraction == (1 << digits) - 1:
        return NONE, SPECIAL
    if exponent == 0:
        return sign * fraction, 1 - kind.bias
    return sign * (fraction | 1 << digits), exponent - kind.bias


def special_sum(products: list[tuple[Number, Number]], c: Number) -> int | None:
    """What a sum is that has infinities or NaN among its terms: a sign, or `NONE`; None without any."""
    signs = {c[0]} if c[1] == SPECIAL else set()
    for a, b in products:
        if SPECIAL in (a[1], b[1]):
            none = (
                0 in (a[0], b[0]) or (a[0] == NONE and a[1] == SPECIAL) or (b[0] == NONE and b[1] == SPECIAL)
            )
            signs.add(NONE if none else (1 if (a[0] > 0) == (b[0] > 0) else -1))
    if not signs:
        return None
    return signs.pop() if len(signs) == 1 else NONE


def fused_sum(products: list[tuple[Number, Number]], digits: int, c: Number, f: dict[str, int]) -> Fraction:
    """The products, of significands with ``digits`` digits behind the point, and a sum of singles or halves:
    shifted to the largest exponent, cut, added."""
    bits = f["fraction_bits"]
    sum_digits = (_HALF if f["sum_type"] == mp.HALF_SUM else _SINGLE).fraction_bits
    terms = [(a[0] * b[0], a[1] + b[1], digits) for a, b in products] + [(c[0], c[1], sum_digits)]
    terms = [(size, exponent if size else f["zero_exponent"], point) for size, exponent, point in terms]
    return aligned_sum(terms, bits)


def aligned_sum(terms: list[tuple[int, int, int]], bits: int) -> Fraction:
    """Numbers (significand, exponent, digits behind its point) shifted to the largest exponent, cut so many
    digits behind the point, and added."""
    top = max(exponent for _, exponent, _ in terms)
    cut = sum(_cut(size, exponent - top + bits - point) for size, exponent, point in terms)
    return Fraction(cut) * Fraction(2) ** (top - bits)


def _cut(size: int, left: int) -> int:
    """A whole number shifted, without the digits that leave to the right."""
    if left >= 0:
        return size << left
    return -(-size >> -left) if size < 0 else size >> -left


def rounded(total: Fraction, kind: int) -> int:
    """A sum as a half, to nearest, or a single, toward zero. What is too large is infinite; no zero has a
    minus."""
    if kind == mp.HALF_SUM:
        bits = to_bits(total, 16, NEAREST)
        return bits & 0x7FFF and bits
    if abs(total) >= Fraction(2) ** 128:
        return 0x7F800000 | (total < 0) << 31
    bits = to_bits(total, 32, CHOP)
    if kind == mp.SHORT_SUM:
        # A subnormal's digits begin at the same place as those of the smallest normal number.
        bits &= ~((1 << 23 - mp.SHORT_SUM_BITS) - 1)
    return bits & 0x7FFFFFFF and bits


def sum_of_products(a: list[Number], b: list[Number], c: int, digits: int, f: dict[str, int]) -> int:
    """The bits of a row times a column plus a sum, group by group."""
    half = f["sum_type"] == mp.HALF_SUM
    for begin in range(0, len(a), f["group"]):
        products = list(zip(a[begin : begin + f["group"]], b[begin : begin + f["group"]], strict=True))
        before = number_of(c, _HALF if half else _SINGLE)
        special = special_sum(products, before)
        if special is None:
            c = rounded(fused_sum(products, digits, before, f), f["sum_type"])
        elif special == NONE:
            c = NAN16 if half else NAN32
        else:
            c = (0x7C00 if half else 0x7F800000) | (special < 0) << (15 if half else 31)
    return c


def scale_of(bits: int, kind: int) -> Number:
    """The number that a block's scale is; a power of two has no digits, another one three."""
    if kind == mp.E8_SCALES:
        return (NONE, SPECIAL) if bits == 0xFF else (1, bits - mp.SCALE_BIAS)
    return number_of(bits & 0x7F, mp.FORMATS[mp.E4M3])


def scaled_sum(first: ScaledLine, second: ScaledLine, c: int, f: dict[str, int]) -> int:
    """The bits of a row times a column, block by block times their scales, plus a sum of singles."""
    if any(exponent == SPECIAL for _, exponent in (*first.scales, *second.scales)):
        return NAN32
    if f["element_type"] != mp.PACKED_E2M1:
        a, b = (
            [(size, exponent + line.scales[0][1] * (exponent != SPECIAL)) for size, exponent in line.numbers]
            for line in (first, second)
        )
        return sum_of_products(a, b, c, _digits(f), f)
    before = number_of(c, _SINGLE)
    if before[1] == SPECIAL:
        return NAN32 if before[0] == NONE else 0x7F800000 | (before[0] < 0) << 31
    terms, group, digits = [], f["group"], 2 * mp.PACKED_FORMAT.fraction_bits
    digits += 2 * 3 * (f["scale_type"] == mp.UE4M3_SCALES)
    for at in range(0, len(first.numbers), group):
        pairs = zip(first.numbers[at : at + group], second.numbers[at : at + group], strict=True)
        products = [a[0] * b[0] << a[1] + b[1] for a, b in pairs]  # no exponent is below 0
        block = at * f["scale_blocks"] // len(first.numbers)
        x, y = first.scales[block], second.scales[block]
        none = not any(products) or x[0] * y[0] == 0
        exponent = f["zero_exponent"] if none else x[1] + y[1]
        terms.append((sum(products) * x[0] * y[0], exponent, digits))
    terms.append((before[0], before[1] if before[0] else f["zero_exponent"], _SINGLE.fraction_bits))
    return rounded(aligned_sum(terms, f["fraction_bits"]), f["sum_type"])


def whole_elements(word: int, element: int, has_sign: int) -> list[int]:
    """A register's elements, as whole numbers."""
    count = mp.PER_REGISTER[element]
    bits = 32 // count
    elements = [word >> bits * place & ((1 << bits) - 1) for place in range(count)]
    return [signed(e, bits) for e in elements] if has_sign else elements


class WarpTensor(WarpOperands):
    """Products of matrices, lane by lane."""

    def _multiply(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        f = micro.fields
        of_row = self._elements(f, "a", f["row_groups"], partial(self.row, w, micro, "a"))
        of_column = self._elements(f, "b", 1, partial(self.row, w, micro, "b"))
        results = self._products(f, of_row, of_column, partial(self.row, w, micro, "c"), lanes)
        for number, lane, word in results:
            self.put(w, f["dst"] + number * ROW_BYTES, lane, word)

    def _multiply_scaled(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        """A product with scales of blocks. Lane 4 g + 2 t has those of row g, the next lane those of row
        g + 8, and lane 4 g + t those of column g. The instruction says t and the first byte (PTX ISA, "Block
        scaling for mma.sync")."""
        f = micro.fields
        choice = w.rows[f["scale_choice"]][0]
        lines = self._elements(f, "a", f["row_groups"], partial(self.row, w, micro, "a"))
        of_row = [
            ScaledLine(line, self._scales(f, w.rows[f["first_scales"]][lane + (choice >> 1 & 2)], choice))
            for line, lane in zip(lines, (4 * (n & 7) + (n >> 3) for n in range(len(lines))), strict=True)
        ]
        words = w.rows[f["second_scales"]]
        of_column = [
            ScaledLine(line, self._scales(f, words[4 * n + (choice >> 5 & 3)], choice >> 3))
            for n, line in enumerate(self._elements(f, "b", 1, partial(self.row, w, micro, "b")))
        ]
        for number, lane, word in self._products(
            f, of_row, of_column, partial(self.row, w, micro, "c"), lanes
        ):
            self.put(w, f["dst"] + number * ROW_BYTES, lane, word)

    def _scales(self, f: dict[str, int], word: int, first: int) -> list[Number]:
        """The scales that a register has, from a byte on."""
        places = range(first & 3, (first & 3) + f["scale_blocks"])
        return [scale_of(word >> 8 * (place & 3) & 0xFF, f["scale_type"]) for place in places]

    def _products(
        self, f: dict[str, int], of_row: Sequence[Any], of_column: Sequence[Any], c_row: Rows, lanes: int
    ) -> list[tuple[int, int, int]]:
        """The results: number of the register, lane, word. ``c_row`` gives a register of the sum before."""
        element, total = f["element_type"], f["sum_type"]
        results: list[tuple[int, int, int]] = []
        for lane in members(lanes):
            g, t = lane >> 2, lane & 3
            for row in range(f["row_groups"]):
                first = of_row[g + 8 * row]
                found = []
                for column in range(2):
                    second = of_column[2 * t + column]
                    if total == mp.HALF_SUM:
                        c = c_row(row)[lane] >> 16 * column & 0xFFFF
                    elif total == mp.DOUBLE_SUM:
                        place = 2 * (2 * row + column)
                        c = c_row(place)[lane] | c_row(place + 1)[lane] << 32
                    else:
                        c = c_row(2 * row + column)[lane]
                    found.append(_sum(first, second, c, element, f))
                if total == mp.HALF_SUM:
                    results.append((row, lane, found[0] | found[1] << 16))
                    continue
                for column, word in enumerate(found):
                    place = 2 * row + column
                    if total == mp.DOUBLE_SUM:
                        results += [(2 * place, lane, word & M32), (2 * place + 1, lane, word >> 32)]
                    else:
                        results.append((place, lane, word))
        return results

    def _elements(self, f: dict[str, int], name: str, groups: int, words_of: Rows) -> list[list[Any]]:
        """The rows of the first matrix, or the columns of the second: their elements in the order of k.
        ``words_of`` gives a register of the matrix."""
        element = f["element_type" if name == "a" else "b_element_type"]
        has_sign = f.get("is_signed" if name == "a" else "b_is_signed", 0)
        words = 2 if element == mp.DOUBLES else 1
        found: list[list[Any]] = [[] for _ in range(8 * groups)]
        for step in range(f["k_steps"]):
            for group in range(groups):
                number = step * groups + group
                low = words_of(words * number)
                high = words_of(words * number + 1) if words == 2 else low
                for lane in LANES:
                    row = found[(lane >> 2) + 8 * group]
                    if element == mp.DOUBLES:
                        row.append(f64(low[lane] | high[lane] << 32))
                    elif element in mp.FORMATS or element == mp.PACKED_E2M1:
                        bits = 32 // mp.PER_REGISTER[element]
                        kind = mp.FORMATS.get(element, mp.PACKED_FORMAT)
                        parts = (low[lane] >> bits * e & ((1 << bits) - 1) for e in range(32 // bits))
                        row += [number_of(part, kind) for part in parts]
                    else:
                        row += whole_elements(low[lane], element, has_sign)
        return found

    def sum_of(self, f: dict[str, int], first: list[Any], second: list[Any], before: int) -> int:
        """The bits of a row times a column, on the sum before."""
        return _sum(first, second, before, f["element_type"], f)

    def _multiply_quads(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        """A step of four products of 8 x 8 x 4."""
        f, step = {**micro.fields, "group": 4}, micro.fields["step"]
        halves: dict[tuple[str, int, int, int], Number] = {}
        for name, by_k in (("a", f["a_by_columns"]), ("b", f["b_by_rows"])):
            rows = [self.row(w, micro, name, n) for n in range(2)]
            for lane in LANES:
                quads, high = lane >> 2 & 3, 4 * (lane >= 16)
                for i in range(4):
                    number = number_of(rows[i >> 1][lane] >> 16 * (i & 1) & 0xFFFF, _HALF)
                    line, k = (i + high, lane & 3) if by_k else ((lane & 3) + high, i)
                    halves[name, quads, line, k] = number

        def result(lane: int, row: int, column: int, c: int) -> int:
            quads = lane >> 2 & 3
            first = [halves["a", quads, row, k] for k in range(4)]
            second = [halves["b", quads, column, k] for k in range(4)]
            return sum_of_products(first, second, c, 2 * _HALF.fraction_bits, f)

        results = []
        for lane in members(lanes):
            high = 4 * (lane >= 16)
            for n in range(2):
                word = self.row(w, micro, "c", n)[lane]
                if f["sum_type"] == mp.HALF_SUM:
                    columns = 4 * step + 2 * n, 4 * step + 2 * n + 1
                    parts = [
                        result(lane, (lane & 3) + high, columns[e], word >> 16 * e & 0xFFFF) for e in (0, 1)
                    ]
                    results.append((n, lane, parts[0] | parts[1] << 16))
                else:
                    i = 2 * step + n
                    place = (lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1)
                    results.append((n, lane, result(lane, *place, word)))
        for register, lane, bits in results:
            self.put(w, f["dst"] + register * ROW_BYTES, lane, bits)

    def _transpose(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        """A matrix of 8 x 8 halves, two of a row in each lane."""
        words = list(self.row(w, micro, "a"))
        for lane in members(lanes):
            g, t = lane >> 2, lane & 3
            low, high = (words[4 * k + (g >> 1)] >> 16 * (g & 1) & 0xFFFF for k in (2 * t, 2 * t + 1))
            self.put(w, micro.fields["dst"], lane, low | high << 16)


def _digits(f: dict[str, int]) -> int:
    """Of a product, behind the point."""
    return sum(mp.FORMATS[f[name]].fraction_bits for name in ("element_type", "b_element_type"))


def _sum(first: Any, second: Any, c: int, element: int, f: dict[str, int]) -> int:
    total = f["sum_type"]
    if element == mp.DOUBLES:
        for x, y in zip(first, second, strict=True):
            c = fma(x, y, f64(c), 64, NEAREST)
        return c
    if isinstance(first, ScaledLine):
        assert isinstance(second, ScaledLine)
        return scaled_sum(first, second, c, f)
    if element in mp.FORMATS:
        return sum_of_products(first, second, c, _digits(f), f)
    if element == mp.BITS_XOR:
        return (c + sum(int(a ^ b) for a, b in zip(first, second, strict=True))) & M32
    value = signed(c) + sum(int(a * b) for a, b in zip(first, second, strict=True))
    if total == mp.SATURATED_SUM:
        value = max(-(1 << 31), min((1 << 31) - 1, value))
    return value & M32
