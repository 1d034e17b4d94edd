"""What tensor cores multiply and how they sum: element types, and each architecture's arithmetic.

A tensor core multiplies exactly and adds a group of products and the sum so far at once. It shifts each
addend to the largest exponent among them, cuts what lies below ``fraction_bits`` binary digits, adds the rest
exactly, and rounds the result once: singles toward zero, halves to nearest. A product that is zero counts
with the exponent ``zero_exponent``. The parameters are facts of MMA-Sim (arXiv 2511.10909; package mmasim
2.1.1), which were found by experiments on the hardware; they are judged against that package by
`validation/campaigns/tensor_cores`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from smlab.sim.instruction_source import PRODUCT_DEPTH_BYTES

(
    HALVES,
    BFLOAT16,
    TF32,
    E5M2,
    E4M3,
    E3M2,
    E2M3,
    E2M1,
    DOUBLES,
    BYTES,
    NIBBLES,
    BITS_XOR,
    BITS_AND,
    PACKED_E2M1,
) = range(14)
"""What the matrices hold. Bits are multiplied by XOR or AND, and counted. Floats of four bits lie one in a
byte, or packed, two in a byte."""
SINGLE_SUM, SHORT_SUM, HALF_SUM, DOUBLE_SUM, INTEGER_SUM, SATURATED_SUM = range(6)
"""What products are summed in. A short sum is a single that keeps few binary digits after the point."""
SHORT_SUM_BITS: Final = 13

PER_REGISTER: Final = {
    HALVES: 2,
    BFLOAT16: 2,
    TF32: 1,
    **dict.fromkeys((E5M2, E4M3, E3M2, E2M3, E2M1, BYTES), 4),
    DOUBLES: 1,
    NIBBLES: 8,
    BITS_XOR: 32,
    BITS_AND: 32,
    PACKED_E2M1: 8,
}
"""Elements in a register (doubles: in a pair of registers)."""


@dataclass(frozen=True)
class FloatFormat:
    """A floating-point type of matrices: where its bits lie in its container, and what its largest exponent
    stands for: ``ieee`` (infinities and NaN), ``nan`` (NaN where all bits are set) or ``finite``."""

    exponent_bits: int
    fraction_bits: int
    shift: int = 0
    largest: str = "ieee"

    @property
    def bias(self) -> int:
        return int((1 << (self.exponent_bits - 1)) - 1)


FORMATS: Final = {
    HALVES: FloatFormat(5, 10),
    BFLOAT16: FloatFormat(8, 7),
    TF32: FloatFormat(8, 10, shift=13),
    E5M2: FloatFormat(5, 2),
    E4M3: FloatFormat(4, 3, largest="nan"),
    E3M2: FloatFormat(3, 2, largest="finite"),
    E2M3: FloatFormat(2, 3, largest="finite"),
    E2M1: FloatFormat(2, 1, shift=2, largest="finite"),
}
"""A single holds a TF32 in its upper 19 bits; a byte a type of 6 bits in its lower, one of 4 bits in its
middle ones."""
PACKED_FORMAT: Final = FloatFormat(2, 1, largest="finite")

E8_SCALES, UE4M3_SCALES = range(2)
"""What the scales of blocks are: powers of two (255: NaN), or floats of 8 bits without their sign."""
SCALE_BIAS: Final = 127


SIGNS: Final = {
    **dict.fromkeys((HALVES, BFLOAT16), 0x80008000),
    TF32: 0x80000000,
    **dict.fromkeys((E5M2, E4M3), 0x80808080),
    PACKED_E2M1: 0x88888888,
}
"""The signs of a register's elements."""
DEPTH_BYTES: Final = PRODUCT_DEPTH_BYTES
"""What a row of the first matrix has, and a column of the second, in a product of a group of warps."""
SWIZZLE_BYTES: Final = (16, 128, 64, 32)
"""By the number in a matrix descriptor: in rows of so many bytes a matrix lies in shared memory, whose
pieces of 16 bytes are exchanged (not where there is one)."""


@dataclass(frozen=True)
class SumArithmetic:
    """How one group of products is added: see the module."""

    group: int
    fraction_bits: int
    zero_exponent: int


@dataclass(frozen=True)
class _TensorCore:
    group_bytes: int
    fraction_bits: int


_VOLTA: Final = _TensorCore(8, 23)
_TURING: Final = _TensorCore(16, 24)
_HOPPER: Final = _TensorCore(32, 25)
_CORES: Final = {7: _TURING, 8: _TURING, 9: _HOPPER, 10: _HOPPER, 11: _HOPPER, 12: _HOPPER}


def sum_arithmetic(
    compute_capability: tuple[int, int], element: int, total: int, quads: bool = False, of_group: bool = False
) -> SumArithmetic:
    """The arithmetic of an architecture for elements of one type. ``quads``: the products of 8 x 8 x 4 that
    Volta has, which Turing still adds as Volta does. ``of_group``: the products of a group of warps, where
    Hopper keeps few digits of floats of 8 bits, as Ada Lovelace does."""
    core = _VOLTA if quads or compute_capability < (7, 5) else _CORES[compute_capability[0]]
    of_zero = (4 if total == HALF_SUM else -108) - core.fraction_bits
    is_fp8 = element in (E5M2, E4M3)
    is_short = is_fp8 and (of_group or compute_capability == (8, 9))
    bits = SHORT_SUM_BITS if is_short else core.fraction_bits
    return SumArithmetic(core.group_bytes * PER_REGISTER[element] // 4, bits, of_zero)


_SHARED_GROUP: Final = 16
SCALED_FOURS: Final = SumArithmetic(_SHARED_GROUP, 35, -139)
"""Of packed floats of four bits with scales: 16 products are added exactly and multiplied by the block's
scales. These sums and the sum before are then added as elsewhere. A group counts with the exponent of its
scales, also where its products cancel; where all of them are zero it counts as zero."""


# The fields of the instruction descriptor of a product in tensor memory (PTX ISA, "Instruction descriptor"):
# first bit, and how many.
SPARSE, SATURATES, RESULT, FIRST_TYPE, SECOND_TYPE = (2, 1), (3, 1), (4, 2), (7, 3), (10, 3)
MINUS_FIRST, MINUS_SECOND, TURNED_FIRST, TURNED_SECOND = (13, 1), (14, 1), (15, 1), (16, 1)
EIGHTS_OF_COLUMNS, SIXTEENS_OF_ROWS, SHIFT = (17, 6), (24, 5), (30, 2)
UNSIGNED_BYTES, SIGNED_BYTES = -2, -3
# Of one with scales of blocks some lie elsewhere: which of four scales in a word counts first, their type,
# and whether a row has 48 bytes.
SCALE_OF_SECOND, SCALE_TYPE, SCALE_OF_FIRST, LONGER = (4, 2), (23, 1), (29, 2), (31, 1)
SCALE_PLACE: Final = 0x3FFFFFFF
"""The bits of an address of scales that name lane and column; those above repeat which one counts first."""
MEMORY_TYPES: Final = {
    HALVES: (HALVES, BFLOAT16, TF32),
    E5M2: (E4M3, E5M2),
    BYTES: (UNSIGNED_BYTES, SIGNED_BYTES),
    PACKED_E2M1: (-1, PACKED_E2M1),
}
"""By family: the types that the numbers of the descriptor stand for. Floats of six and four bits lie in
shared memory in another way, and are not here."""
MEMORY_SUMS: Final = {
    HALVES: (HALF_SUM, SINGLE_SUM),
    E5M2: (HALF_SUM, SINGLE_SUM),
    BYTES: (-1, -1, INTEGER_SUM),
    PACKED_E2M1: (),
}
"""By family: what the number of the result's type stands for; -1: nothing."""


@dataclass(frozen=True)
class ProductScales:
    """The scales of a product in tensor memory: their type, how many a row has, and which byte of a word is
    the first one, of rows and of columns."""

    type: int
    blocks: int
    first_byte: int
    second_byte: int


@dataclass(frozen=True)
class MemoryProduct:
    """A product in tensor memory, as its instruction descriptor says it: the shape, and fields of a
    micro-operation by name."""

    rows: int
    columns: int
    fields: dict[str, int]
    scales: ProductScales | None = None

    @property
    def multiply_adds(self) -> int:
        depth = DEPTH_BYTES // 4 * PER_REGISTER[self.fields["element_type"]]
        return self.rows * self.columns * depth

    @property
    def type(self) -> str:
        """One of `smlab.hw_bench.gpu.schema.TENSOR_TYPES`."""
        if self.scales is not None:
            return "mxfp4" if self.fields["element_type"] == PACKED_E2M1 else "mxfp8"
        name = {HALVES: "fp16", BFLOAT16: "bf16", TF32: "tf32", BYTES: "int8"}
        kind = name.get(self.fields["element_type"], "fp8")
        return f"{kind}_fp32" if kind in ("fp16", "fp8") and self.fields["sum_type"] == SINGLE_SUM else kind


def memory_product(described: int, family: int, blocks: int = 0) -> MemoryProduct | None:
    """The product of an instruction descriptor, with so many scales a row; None for one that is not executed
    here."""

    def part(place: tuple[int, int]) -> int:
        return described >> place[0] & (1 << place[1]) - 1

    if blocks:
        return _scaled_memory_product(part, family, blocks)
    types, sums = MEMORY_TYPES[family], MEMORY_SUMS[family]
    kinds = [part(FIRST_TYPE), part(SECOND_TYPE)]
    rows, columns, result = 16 * part(SIXTEENS_OF_ROWS), 8 * part(EIGHTS_OF_COLUMNS), part(RESULT)
    if part(SPARSE) or part(SHIFT) or max(kinds) >= len(types) or result >= len(sums):
        return None
    if rows not in (64, 128) or not 8 <= columns <= 256:
        return None
    first, second = (types[kind] for kind in kinds)
    total = sums[result]
    whole = family == BYTES
    turned = part(TURNED_FIRST), part(TURNED_SECOND)
    if total < 0 or (family == HALVES and first != second) or (part(SATURATES) and not whole):
        return None
    if total == HALF_SUM and family == HALVES and first != HALVES:
        return None
    if any(turned) and first == TF32:
        return None
    fields = {"k_steps": 2, "row_groups": 2, "a_turned": turned[0], "b_turned": turned[1]}
    if whole:
        total = SATURATED_SUM if part(SATURATES) else INTEGER_SUM
        fields |= {"element_type": BYTES, "b_element_type": BYTES}
        fields |= {"is_signed": int(first == SIGNED_BYTES), "b_is_signed": int(second == SIGNED_BYTES)}
        if part(MINUS_FIRST) or part(MINUS_SECOND):
            return None
    else:
        rule = sum_arithmetic((10, 0), first, total)
        fields |= {"element_type": first, "b_element_type": second}
        fields |= {
            "group": rule.group,
            "fraction_bits": rule.fraction_bits,
            "zero_exponent": rule.zero_exponent,
            "a_xor": SIGNS[first] * part(MINUS_FIRST),
            "b_xor": SIGNS[second] * part(MINUS_SECOND),
        }
    return MemoryProduct(rows, columns, {**fields, "sum_type": total})


def _scaled_memory_product(
    part: Callable[[tuple[int, int]], int], family: int, blocks: int
) -> MemoryProduct | None:
    """The same of one with scales of blocks: of 128 rows, summed in singles."""
    types = MEMORY_TYPES[family]
    kinds = [part(FIRST_TYPE), part(SECOND_TYPE)]
    rows, columns = 16 * part(SIXTEENS_OF_ROWS), 8 * part(EIGHTS_OF_COLUMNS)
    if part(SPARSE) or part(LONGER) or max(kinds) >= len(types) or rows != 128 or not 8 <= columns <= 256:
        return None
    first, second = (types[kind] for kind in kinds)
    turned = part(TURNED_FIRST), part(TURNED_SECOND)
    packed, powers = family == PACKED_E2M1, part(SCALE_TYPE) == 1
    if min(first, second) < 0 or (packed and any(turned)) or not (powers or blocks == 4):
        return None
    rule = SCALED_FOURS if packed else sum_arithmetic((10, 0), first, SINGLE_SUM)
    fields = {
        **{"k_steps": 2, "row_groups": 2, "a_turned": turned[0], "b_turned": turned[1]},
        **{"element_type": first, "b_element_type": second, "sum_type": SINGLE_SUM},
        **{"group": rule.group, "fraction_bits": rule.fraction_bits, "zero_exponent": rule.zero_exponent},
        "a_xor": SIGNS[first] * part(MINUS_FIRST),
        "b_xor": SIGNS[second] * part(MINUS_SECOND),
    }
    kind = E8_SCALES if powers else UE4M3_SCALES
    scales = ProductScales(kind, blocks, part(SCALE_OF_FIRST), part(SCALE_OF_SECOND))
    return MemoryProduct(rows, columns, fields, scales)
