"""The table's rows for memory and atomics."""

from __future__ import annotations

from typing import Final

from smlab.sim.isa import memory_layout
from smlab.sim.isa.decode.micro import (
    ROWS,
    Reader,
    Row,
    only,
    opcode,
)
from smlab.sim.isa.decode.operands import (
    Operands,
    Source,
    Unknown,
    indexed_constant,
    is_predicate,
)
from smlab.sim.isa.meanings.vector_meanings import BY_NAME
from smlab.sim.isa.operation_codes import (
    ADD,
    AND,
    ARRIVE,
    ATOMIC,
    BFLOAT16_PAIR,
    COPY,
    COUNT,
    DEC,
    EXCHANGE,
    FLOAT32,
    FLOAT64,
    GENERIC,
    GLOBAL,
    HALF_PAIR,
    INC,
    LOAD,
    LOAD_CONSTANT,
    LOCAL,
    MAX,
    MIN,
    NARROW,
    NARROW_INDEX,
    OR,
    S32,
    S64,
    SHARED,
    SPIN,
    STORE,
    SWAP,
    U32,
    U64,
    WIDE,
    XOR,
)

_WIDTHS: Final = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "32": 4, "64": 8, "128": 16, "256": 32}
LONG: Final = 32
"""Bytes of a lane in two groups of four registers (ENL2), whose upper one comes first."""
_CACHING: Final = (
    "E",
    "SYS",
    "STRONG",
    "GPU",
    "CTA",
    "SM",
    "WEAK",
    "CONSTANT",
    "U",
    "EF",
    "EL",
    "LU",
    "EU",
    "NA",
    "PRIVATE",
    "MMIO",
    "LTC64B",
    "LTC128B",
    "LTC256B",
    "ZD",
)


def _width(m: tuple[str, ...]) -> tuple[int, int]:
    only(m, *_WIDTHS, *_CACHING, *(["ENL2"] if "256" in m else []))
    width = next((_WIDTHS[x] for x in m if x in _WIDTHS), 4)
    return width, int("S8" in m or "S16" in m)


def _group(o: Operands, width: int, space: int) -> dict[str, int]:
    """The upper four words that a load of 32 bytes gives."""
    if width != LONG:
        return {}
    if space != GLOBAL:
        raise Unknown("32 bytes of other memory than global")
    return {"second_dst": o.destination(), "words_kept": 0xFF}


def wide(fields: dict[str, int], m: tuple[str, ...], space: int) -> dict[str, int]:
    """Whether an address is of 64 bits: written out on later machines, always with .E on earlier ones."""
    is_wide = fields["address_form"] or ("E" in m and space in (GLOBAL, GENERIC))
    return {**fields, "space": space, "address_form": WIDE if is_wide else NARROW}


def _load(space: int) -> Reader:
    def read(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
        width, signed = _width(m)
        if o.peek_predicate():
            o.text()
        long = _group(o, width, space)
        dst = o.destination()
        narrow = ".U32" in o.texts[o.next]
        fields = wide(o.address(), m, space) | long
        if narrow:
            fields["address_form"] = NARROW_INDEX
        if width == LONG and o.more() and o.texts[o.next].startswith("0x"):
            fields["words_kept"] = o.byte()
        if o.more() and is_predicate(o.texts[o.next]):
            o.text()
        return LOAD, {**fields, "dst": dst, "width_bytes": width, "is_signed": signed}

    return read


def _store(space: int) -> Reader:
    def read(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
        width, _ = _width(m)
        narrow = ".U32" in o.texts[o.next]
        fields = wide(o.address(), m, space)
        if narrow:
            fields["address_form"] = NARROW_INDEX
        fields |= o.integer("c")
        if width == LONG:
            second = o.integer("b")
            if not second["b_reg"] or space != GLOBAL:
                raise Unknown("a constant of four words, or other memory than global")
            fields["second_c"] = second["b"]
        return STORE, {**fields, "width_bytes": width}

    return read


@opcode("LDGSTS", cls="async-copy")
def _ldgsts(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """From global to shared memory, past the registers; the shared address comes first. Where the predicate
    at the end does not hold, zeros are written (ZFILL says so too, where PTX gave a size)."""
    width, _ = _width(tuple(x for x in m if x not in ("BYPASS", "ACCESS", "ZFILL")))
    to = o.address()
    if to["index_shift"]:
        raise Unknown("the address in shared memory")
    fields = wide(o.address(), m, GLOBAL)
    condition = o.predicate_in() if o.more() else {}
    shared = {f"c{part}": to[f"a{part}"] for part in memory_layout.OPERAND_PARTS}
    return COPY, {
        **fields,
        **shared,
        **condition,
        "shared_offset_bytes": to["offset_bytes"],
        "shared_base": to["b"],
        "shared_base_reg": to["b_reg"],
        "width_bytes": width,
        "bypasses_l1": int("BYPASS" in m),
    }


for _name, _space in (("LDG", GLOBAL), ("LDS", SHARED), ("LDL", LOCAL), ("LD", GENERIC)):
    ROWS[_name] = Row(_load(_space), "shared-load" if _space == SHARED else "global-load")
for _name, _space in (("STG", GLOBAL), ("STS", SHARED), ("STL", LOCAL), ("ST", GENERIC)):
    ROWS[_name] = Row(_store(_space), "shared-store" if _space == SHARED else "global-store")
_ATOMIC: Final = {
    "ADD": ADD,
    "MIN": MIN,
    "MAX": MAX,
    "AND": AND,
    "OR": OR,
    "XOR": XOR,
    "INC": INC,
    "DEC": DEC,
    "EXCH": EXCHANGE,
    "CAS": SWAP,
    "CAST": SPIN,
    "POPC": COUNT,
    "ARRIVE": ARRIVE,
}


_VECTORS: Final = {
    **{"F32x2": (FLOAT32, 2), "F32x4": (FLOAT32, 4), "F16x4": (HALF_PAIR, 2), "F16x8": (HALF_PAIR, 4)},
    **{"BF16x4": (BFLOAT16_PAIR, 2), "BF16x8": (BFLOAT16_PAIR, 4)},
}
"""Atomics on words side by side, each for itself: their type, and how many."""


def _atomic(space: int, reduction: bool) -> Reader:
    def read(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
        kinds = ("S32", "U32", "U64", "S64", "64", "32", "F32", "F64", "F16x2", "BF16x2", "FTZ", "RN", "SPIN")
        only(m, *_ATOMIC, *_CACHING, *kinds, *_VECTORS)
        first = next((x for x in m if x in _ATOMIC), None)
        if first is None:
            raise Unknown("the operation")
        kind = _ATOMIC[first]
        number = U32
        for name, value in (
            ("S32", S32),
            ("64", U64),
            ("U64", U64),
            ("S64", S64),
            ("F32", FLOAT32),
            ("F64", FLOAT64),
            ("F16x2", HALF_PAIR),
            ("BF16x2", BFLOAT16_PAIR),
        ):
            number = value if name in m else number
        fields: dict[str, int] = {"dst": memory_layout.dump_at()}
        several = next((x for x in m if x in _VECTORS), None)
        if several is not None:
            if kind != ADD or space != GLOBAL:
                raise Unknown("the operation on several numbers")
            number = _VECTORS[several][0]
        if number in (HALF_PAIR, BFLOAT16_PAIR) and (kind != ADD or space == SHARED):
            raise Unknown("the operation on pairs")
        if o.peek_predicate():
            # Whether it was done: pairs are added in global memory alone.
            fields["done_predicate"] = o.predicate_out()
        if not reduction and not o.texts[o.next].startswith("["):  # with a predicate alone, from sm_100 on
            fields["dst"] = o.destination()
        fields |= wide(o.address(), m, space)
        width = 8 if number in (U64, S64, FLOAT64) else 4
        if several is not None:
            width *= _VECTORS[several][1]
        fields |= {"number_type": number, "operation": kind, "width_bytes": width}
        if kind in (SWAP, SPIN):
            # The value compared with, then the new one.
            fields |= o.integer("c")
            new = o.integer("b")
            fields |= {"swap_value": new["b"], "swap_value_reg": new["b_reg"]}
        elif kind not in (COUNT, ARRIVE):
            fields |= o.integer("c")
        return ATOMIC, fields

    return read


ROWS["ATOMG"] = Row(_atomic(GLOBAL, False), "global-atomic")
ROWS["ATOM"] = Row(_atomic(GENERIC, False), "global-atomic")
ROWS["RED"] = ROWS["REDG"] = Row(_atomic(GLOBAL, True), "global-reduce")
ROWS["ATOMS"] = Row(_atomic(SHARED, False), "atomic-add")


@opcode("LDC", "ULDC", "LDCU", cls="constant-load")
def _ldc(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    width, signed = _width(m)
    dst, text = o.destination(), o.texts[o.next]
    if (fields := indexed_constant(text)) is not None:
        # A word that only a driver has is refused.
        o.rows.constants(fields["bank"], max(0, fields["offset_bytes"]))
        o.text()
        return LOAD_CONSTANT, {**fields, "dst": dst, "width_bytes": width, "is_signed": signed}
    if width < 4:
        return BY_NAME["mov"], {
            "dst": dst,
            **Source(o.short_constant(width, bool(signed)), False).fields("a"),
        }
    if width > 8:
        address = indexed_constant(o.text().replace("][", "][RZ+", 1))
        if address is None:
            raise Unknown("a long constant")
        return LOAD_CONSTANT, {**address, "dst": dst, "width_bytes": width, "is_signed": signed}
    return (
        (BY_NAME["mov64"], {"dst": dst, **o.long("a")})
        if width == 8
        else (BY_NAME["mov"], {"dst": dst, **o.integer("a")})
    )
