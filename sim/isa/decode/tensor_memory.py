"""The table's rows for tensor memory (PTX's ``tcgen05``): UTCATOMSWS, LDTM, STTM, UTCCP, UTCBAR, and the
products UTCHMMA, UTCQMMA, UTCOMMA and UTCIMMA. Products and arrivals by pairs of blocks (``.2CTA``), sparse
ones, and copies that unpack are refused.
"""

from __future__ import annotations

import re
from typing import Final

from smlab.sim.isa import matrix_products as mp
from smlab.sim.isa import memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.decode.micro import only, opcode
from smlab.sim.isa.decode.operands import Operands, Source, Unknown, register_offset

Fields = tuple[int, dict[str, int]]
_PLACE: Final = re.compile(r"tmem\[UR(\d+|Z)(?:\+(0x[0-9a-f]+))?\]$")
_MATRIX: Final = re.compile(r"gdesc\[UR(\d+|Z)\]((?:\.\w+)*)$")
_PRODUCT: Final = re.compile(r"idesc\[UR(\d+|Z)\]$")
_BARRIER: Final = re.compile(r"\[UR(\d+|Z)\]$")
_COLLECTOR: Final = ("A_KEEP", "A_REUSE")
"""Whether the first matrix stays in the tensor core. That changes no result and no published rate."""
_SHAPES: Final = {
    "16dp32bit_t0_t15": d.LOW_HALF,
    "16dp32bit_t16_t31": d.HIGH_HALF,
    "16dp64bit": d.BITS_64,
    "16dp128bit": d.BITS_128,
    "16dp256bit": d.BITS_256,
}
_LEAST_REGISTERS: Final = {d.BITS_128: 2, d.BITS_256: 4}
"""Of a piece of each lane shape; one where it is not named."""


def _uniform(number: str) -> Source:
    return Source(register_offset(True, number), True)


def _found(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.match(text)
    if match is None:
        raise Unknown(f"the operand {text}")
    return match


@opcode("UTCATOMSWS", cls="uniform")
def _allocate(o: Operands, m: tuple[str, ...]) -> Fields:
    """Granules of columns: so many in a row that nobody has, or back to the SM all that the mask leaves
    out."""
    if m == ("FIND_AND_SET", "ALIGN"):
        fields = {"predicate_dst": o.predicate_out(), "dst": o.destination()}
        return d.TENSOR_ALLOCATE, {**fields, "action": d.FIND_COLUMNS, **o.integer("a")}
    only(m, "AND")
    if not m or o.text() != "URZ":
        raise Unknown(f"the form {'.'.join(m)}")
    fields = {"dst": memory_layout.dump_at(), "action": d.KEEP_COLUMNS}
    return d.TENSOR_ALLOCATE, {**fields, **o.integer("a")}


@opcode("UVIRTCOUNT", cls="uniform")
def _give_permit_back(o: Operands, m: tuple[str, ...]) -> Fields:
    """The block will not allocate again; which of the waiting blocks is first is not simulated."""
    only(m, "DEALLOC", "SMPOOL")
    o.text()
    return d.NOP, {}


def _place(o: Operands) -> dict[str, int]:
    match = _found(_PLACE, o.text())
    offset = int(match[2] or "0", 16)
    return {**_uniform(match[1]).fields("a"), "offset_bytes": offset}


def _shape(m: tuple[str, ...], packs: str) -> dict[str, int]:
    shapes = [_SHAPES[word] for word in m if word in _SHAPES]
    counts = [int(word[1:]) for word in m if word[0] == "x" and word[1:].isdigit()]
    only(m, packs, *_SHAPES, *(f"x{n}" for n in counts))
    shape = shapes[0] if shapes else d.WHOLE_LANES
    registers = (counts[0] if counts else 1) * _LEAST_REGISTERS.get(shape, 1)
    if len(shapes) > 1 or len(counts) > 1 or registers > 128 or registers & (registers - 1):
        raise Unknown(f"the form {'.'.join(m)}")
    return {"lane_shape": shape, "registers": registers, "packs": int(packs in m)}


@opcode("LDTM", cls="tensor-memory")
def _load(o: Operands, m: tuple[str, ...]) -> Fields:
    fields = {"dst": o.destination(), **_place(o), **_shape(m, "PACK16BIT")}
    return d.TENSOR_LOAD, fields


@opcode("STTM", cls="tensor-memory")
def _store(o: Operands, m: tuple[str, ...]) -> Fields:
    fields = {**_place(o), **_shape(m, "EXPAND16BIT")}
    zeros = int(o.texts[o.next : o.next + 1] == ["RZ"])
    return d.TENSOR_STORE, {**fields, **o.integer("c"), "zeros": zeros}


@opcode("UTCHMMA", cls="tensor")
def _floats(o: Operands, m: tuple[str, ...]) -> Fields:
    return _product(o, m, mp.HALVES)


@opcode("UTCQMMA", cls="tensor")
def _small_floats(o: Operands, m: tuple[str, ...]) -> Fields:
    return _product(o, m, mp.E5M2)


@opcode("UTCIMMA", cls="tensor")
def _bytes(o: Operands, m: tuple[str, ...]) -> Fields:
    return _product(o, m, mp.BYTES)


@opcode("UTCOMMA", cls="tensor")
def _packed_fours(o: Operands, m: tuple[str, ...]) -> Fields:
    """Floats of 4 bits, two in a byte, with two or four scales a row."""
    only(m, "4X")
    code, fields = _product(o, (), mp.PACKED_E2M1)
    if "scales" not in fields:
        raise Unknown("a product without scales")
    return code, {**fields, "scale_blocks": 4 if m else 2}


_COPIES: Final = {
    "128dp128bit": (d.ALL_ROWS, 16),
    "2x64dp128bit_lw01_lw23": (d.ROWS_TWICE, 16),
    "2x64dp128bit_lw02_lw13": (d.ROWS_TWICE_IN_TURN, 16),
    "4x32dp128bit": (d.ROWS_FOUR_TIMES, 16),
}
"""Which lanes get a row, and how many bytes of it; without a name 128 rows of 32 bytes."""


@opcode("UTCCP", cls="tensor")
def _copy(o: Operands, m: tuple[str, ...]) -> Fields:
    """Rows of shared memory, by a matrix descriptor, to tensor memory."""
    only(m, "T", "S", *_COPIES)
    if m[:2] != ("T", "S") or len(m) > 3:
        raise Unknown(f"the form {'.'.join(m)}")
    shape, size = _COPIES[m[2]] if len(m) == 3 else (d.ALL_ROWS, 32)
    fields = {**_place(o), "lane_shape": shape, "piece_bytes": size, "joins_products": 1}
    match = _found(_MATRIX, o.text())
    if match[2]:
        raise Unknown(f"the operand {match.string}")
    return d.TENSOR_COPY, {**fields, **_uniform(match[1]).fields("b")}


def _product(o: Operands, m: tuple[str, ...], family: int) -> Fields:
    """Matrices by descriptors (the first one also in tensor memory), the sum's place, a word that is not used
    beside the instruction descriptor, and whether it adds to what is there."""
    only(m)
    first = o.text()
    fields: dict[str, int] = {"family": family, "joins_products": 1}
    if in_shared := first.startswith("gdesc"):
        match = _found(_MATRIX, first)
        only(tuple(word for word in match[2].split(".") if word), *_COLLECTOR)
    else:
        match = _found(_PLACE, first)
        if match[2]:
            raise Unknown(f"the operand {first}")
    fields |= {"a_in_shared": int(in_shared), **_uniform(match[1]).fields("a")}
    second = _found(_MATRIX, o.text())
    if second[2]:
        raise Unknown(f"the operand {second.string}")
    fields |= _uniform(second[1]).fields("b")
    total = _found(_PLACE, o.text())
    if total[2]:
        raise Unknown(f"the operand {total.string}")
    fields |= _uniform(total[1]).fields("c")
    beside, described = _found(_PLACE, o.text()), _found(_PRODUCT, o.text())
    if described[1] == "Z" or beside[1] == "Z" or int(described[1]) != int(beside[1]) + 1:
        raise Unknown(f"the operand {described.string}")
    fields |= {"product_descriptor": register_offset(True, described[1]), "product_descriptor_reg": -1}
    if not o.peek_predicate():
        scales = _found(_PLACE, o.text())
        if scales[2] or family not in (mp.E5M2, mp.PACKED_E2M1) or not o.peek_predicate():
            raise Unknown(f"the operand {scales.string}")
        fields |= {"scales": register_offset(True, scales[1]), "scales_reg": -1, "scale_blocks": 1}
    return d.TENSOR_PRODUCT, {**fields, **o.predicate_in("predicate_sum")}


@opcode("UTCBAR", cls="uniform")
def _commit(o: Operands, m: tuple[str, ...]) -> Fields:
    """An arrival at a barrier of the block, when the products that the warp has issued are done."""
    only(m)
    fields = _uniform(_found(_BARRIER, o.text())[1]).fields("a")
    if o.text() != "URZ":
        raise Unknown("an arrival at barriers of several blocks")
    return d.TENSOR_COMMIT, fields
