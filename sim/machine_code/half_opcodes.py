"""The table's rows for halves: two to a register, each operand taken whole or one of its halves twice."""

from __future__ import annotations

import re
from typing import Final

from smlab.sim.machine_code import record
from smlab.sim.machine_code.half_meanings import BOTH_ONES, HALF_SATURATE, HALVES_SHIFT, RELATION_SHIFT
from smlab.sim.machine_code.meanings import BY_NAME
from smlab.sim.machine_code.micro import COMBINE, RELATIONS, only, opcode
from smlab.sim.machine_code.operands import (
    M32,
    Operands,
    Source,
    Unknown,
    half_bits,
    single_bits,
    source,
)

_HALVES: Final = re.compile(r"\.H([01])_H([01])")
_NUMBER: Final = re.compile(r"[-+]?(\d|INF|QNAN|NAN|0x)", re.IGNORECASE)
_SIGNS: Final = {0x80000000: 0x80008000, 0: 0}
_MAGNITUDES: Final = {0x7FFFFFFF: 0x7FFF7FFF, M32: M32}


def _halves(o: Operands, name: str) -> dict[str, int]:
    """A source of two halves, or one half for both (said in ``i``); an immediate is printed as two numbers,
    the high half first."""
    text = o.text().replace(".reuse", "")
    if _NUMBER.match(text):
        word = half_bits(text) << 16 | half_bits(o.text())
        return Source(o.rows.place(word), False).fields(name)
    place, which = "abc".index(name), 0
    if (match := _HALVES.search(text)) is not None:
        if match[1] != match[2]:
            which = 0 if match[0] == ".H1_H0" else -1
        else:
            which = 1 + int(match[1])
        text = text.replace(match[0], "")
    if which < 0:
        raise Unknown("halves that change places")
    found = source(text, "sign", False, single_bits, o.rows)
    fields = Source(found.at, found.register, _MAGNITUDES[found.keep], _SIGNS[found.flip]).fields(name)
    return {**fields, "i": which << HALVES_SHIFT * place}


def _sources(o: Operands, names: str) -> dict[str, int]:
    fields: dict[str, int] = {}
    chosen = 0
    for name in names:
        found = _halves(o, name)
        chosen |= found.pop("i", 0)
        fields |= found
    return {**fields, "i": chosen}


def _arithmetic(o: Operands, m: tuple[str, ...], name: str, sources: str) -> tuple[int, dict[str, int]]:
    only(m, "SAT", "F32")
    fields = {"dst": o.destination(), **_sources(o, sources)}
    fields["i"] |= HALF_SATURATE * ("SAT" in m)
    return BY_NAME[name], fields


@opcode("HADD2", cls="fp16-add")
def _hadd2(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    return _arithmetic(o, m, "hadd2.f32" if "F32" in m else "hadd2", "ab")


@opcode("HMUL2", cls="fp16-mul")
def _hmul2(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "SAT")
    return _arithmetic(o, m, "hmul2", "ab")


@opcode("HFMA2", cls="fp16")
def _hfma2(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "MMA", "SAT")
    return _arithmetic(o, tuple(x for x in m if x != "MMA"), "hfma2", "abc")


def _compared(o: Operands, m: tuple[str, ...]) -> dict[str, int]:
    relations = [RELATIONS[x] for x in m if x in RELATIONS]
    combined = [COMBINE[x] for x in m if x in COMBINE]
    if len(relations) != 1 or len(combined) != 1:
        raise Unknown("the comparison")
    fields = _sources(o, "ab") | o.predicate_in("p")
    fields["i"] |= relations[0] << RELATION_SHIFT
    return {**fields, "j": combined[0]}


@opcode("HSETP2", cls="fp16")
def _hsetp2(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, *RELATIONS, *COMBINE)
    first, second = o.predicate_out(), o.predicate_out()
    if second != record.NO_PREDICATE:
        raise Unknown("a predicate for the high half")
    return BY_NAME["hsetp2"], {"pd": first, **_compared(o, m)}


@opcode("HSET2", cls="fp16")
def _hset2(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, *RELATIONS, *COMBINE, "BF")
    fields = {"dst": o.destination(), **_compared(o, m)}
    fields["i"] |= BOTH_ONES * ("BF" in m)
    return BY_NAME["hset2"], fields


@opcode("HMNMX2", cls="fp16")
def _hmnmx2(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m)
    return BY_NAME["hmnmx2"], {"dst": o.destination(), **_sources(o, "ab"), **o.predicate_in("p")}


@opcode("F2FP", cls="conversion")
def _f2fp(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "F16", "F32", "PACK_AB", "RN")
    if "PACK_AB" not in m:
        raise Unknown("the conversion")
    return BY_NAME["f2h2"], {"dst": o.destination(), **o.single("a"), **o.single("b")}
