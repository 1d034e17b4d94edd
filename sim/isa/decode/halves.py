"""The table's rows for halves and bfloat16 numbers: two to a register, each operand taken whole or one of its
halves twice."""

from __future__ import annotations

import re
from typing import Final

from smlab.sim.isa.decode.micro import (
    COMBINE,
    MODES,
    RELATIONS,
    comparison,
    float_fields,
    only,
    opcode,
    rounding_of,
)
from smlab.sim.isa.decode.operands import (
    M32,
    Operands,
    Source,
    Unknown,
    bfloat16_bits,
    half_bits,
    single_bits,
    source,
)
from smlab.sim.isa.meanings.halves import (
    BOTH_ONES,
    EXCHANGED,
    HALF_FLUSH,
    HALF_POSITIVE,
    HALF_SATURATE,
    HALVES_SHIFT,
    NAN_WINS,
)
from smlab.sim.isa.meanings.rounding import bits16, f32
from smlab.sim.isa.meanings.small_floats import HAVE_NAN, SMALL_FLOATS, step_bits
from smlab.sim.isa.meanings.vector_meanings import BY_NAME

_HALVES: Final = re.compile(r"\.H([01])_(N?)H([01])")
_NUMBER: Final = re.compile(r"[-+]?(\d|INF|QNAN|NAN|0x)", re.IGNORECASE)
_SIGNS: Final = {0x80000000: 0x80008000, 0: 0}
_MAGNITUDES: Final = {0x7FFFFFFF: 0x7FFF7FFF, M32: M32}


BFLOAT16: Final = "BF16_V2"
_ONE, _MINUS_ZERO, _HIGH_SIGN, _LOW_SIGN = 0x3F803F80, 0x80008000, 0x80000000, 0x8000


def _halves(o: Operands, name: str, bfloat16: bool) -> dict[str, int]:
    """A source of two halves, or one half for both (said in ``half_flags``); an immediate is printed as two
    numbers, the high half first."""
    text = o.text().replace(".reuse", "").replace("] [", "][")  # listings part a constant whose half is taken
    if _NUMBER.match(text):
        bits = bfloat16_bits if bfloat16 else half_bits
        word = bits(text) << 16 | bits(o.text())
        return Source(o.rows.place(word), False).fields(name)
    if text.endswith(".F32") and text.startswith("c["):  # a single, as halves
        single = source(text.removesuffix(".F32"), "sign", False, single_bits, o.rows)
        half = bits16(f32(o.rows.words[single.at]))
        return Source(o.rows.place(half << 16 | half), False).fields(name)
    place, which, flip = "abc".index(name), 0, 0
    if (match := _HALVES.search(text)) is not None:
        if match[1] != match[3]:
            # What the high half of the result takes is printed first: H1_H0 has both halves in their places,
            # H0_NH1 exchanged, and the one that was the high one with its sign changed.
            which = 0 if match[1] == "1" else EXCHANGED
            flip = (_HIGH_SIGN if match[3] == "1" else _LOW_SIGN) if match[2] else 0
        else:
            which = 1 + int(match[1])
            if match[2]:
                which = -1
        text = text.replace(match[0], "")
    if which < 0:
        raise Unknown("a sign of one half that both take")
    found = source(text, "sign", False, single_bits, o.rows)
    if flip and found.keep != M32:
        raise Unknown("halves of different signs")
    fields = Source(found.at, found.register, _MAGNITUDES[found.keep], _SIGNS[found.flip] ^ flip).fields(name)
    return {**fields, "half_flags": which << HALVES_SHIFT * place}


def _sources(o: Operands, names: str, bfloat16: bool = False) -> dict[str, int]:
    fields: dict[str, int] = {}
    chosen = 0
    for name in names:
        found = _halves(o, name, bfloat16)
        chosen |= found.pop("half_flags", 0)
        fields |= found
    return {**fields, "half_flags": chosen}


def _arithmetic(o: Operands, m: tuple[str, ...], name: str, sources: str) -> tuple[int, dict[str, int]]:
    only(m, "SAT", "F32", "RELU", "FTZ")
    if {"F32", "FTZ"} <= set(m):
        raise Unknown("the modifier .FTZ")
    fields = {"dst": o.destination(), **_sources(o, sources)}
    fields["half_flags"] |= HALF_SATURATE * ("SAT" in m) | HALF_POSITIVE * ("RELU" in m)
    fields["half_flags"] |= HALF_FLUSH * ("FTZ" in m)
    return BY_NAME[name], fields


def _word(o: Operands, name: str, word: int) -> dict[str, int]:
    return Source(o.rows.place(word), False).fields(name)


def _bfloat16_operands(o: Operands, m: tuple[str, ...], opcode: str) -> tuple[int, dict[str, int]]:
    """Sums and products of bfloat16 numbers are ``a * 1 + c`` and ``a * b - 0``, which round as they do."""
    only(m, BFLOAT16, "MMA", "RELU")
    dst, first = o.destination(), _sources(o, "a", True)
    if opcode == "HADD2":
        rest = {**_word(o, "b", _ONE), **_sources(o, "c", True)}
    elif opcode == "HMUL2":
        rest = {**_sources(o, "b", True), **_word(o, "c", _MINUS_ZERO)}
    else:
        rest = _sources(o, "bc", True)
    chosen = first["half_flags"] | rest.get("half_flags", 0) | HALF_POSITIVE * ("RELU" in m)
    return BY_NAME["bfma2"], {**first, **rest, "dst": dst, "half_flags": chosen}


@opcode("HADD2", cls="fp16-add")
def _hadd2(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    if BFLOAT16 in m:
        return _bfloat16_operands(o, m, "HADD2")
    if not m and len(o.texts) == 3 and o.texts[1].startswith("R") and o.texts[2] == "-RZ.H0_H0":
        number = o.texts[1].replace(".reuse", "")
        if number.endswith(".F32"):  # Turing's conversion of a single towards zero (`cvt.rz.f16.f32`)
            dst = o.destination()
            o.texts[1:] = [number.removesuffix(".F32")] * 2
            return BY_NAME["f2h2"], {"rounding": MODES["RZ"], "dst": dst, **o.single("a"), **o.single("b")}
    return _arithmetic(o, m, "hadd2.f32" if "F32" in m else "hadd2", "ab")


@opcode("HMUL2", cls="fp16-mul")
def _hmul2(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    if BFLOAT16 in m:
        return _bfloat16_operands(o, m, "HMUL2")
    only(m, "SAT", "FTZ")
    return _arithmetic(o, m, "hmul2", "ab")


@opcode("HFMA2", cls="fp16")
def _hfma2(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    if BFLOAT16 in m:
        return _bfloat16_operands(o, m, "HFMA2")
    only(m, "MMA", "SAT", "RELU", "FTZ")
    return _arithmetic(o, tuple(x for x in m if x != "MMA"), "hfma2", "abc")


def _compared(o: Operands, m: tuple[str, ...]) -> dict[str, int]:
    return {**comparison(m), **_sources(o, "ab", BFLOAT16 in m), **o.predicate_in()}


def _kind(m: tuple[str, ...]) -> str:
    return "b" if BFLOAT16 in m else "h"


@opcode("HSETP2", cls="fp16")
def _hsetp2(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """Two predicates, of the low halves and of the high ones."""
    only(m, *RELATIONS, *COMBINE, BFLOAT16)
    placed = {"predicate_dst": o.predicate_out(), "predicate_dst_b": o.predicate_out()}
    return BY_NAME[f"{_kind(m)}setp2"], {**placed, **_compared(o, m)}


@opcode("HSET2", cls="fp16")
def _hset2(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, *RELATIONS, *COMBINE, "BF", BFLOAT16)
    fields = {"dst": o.destination(), **_compared(o, m)}
    fields["half_flags"] |= BOTH_ONES * ("BF" in m)
    return BY_NAME[f"{_kind(m)}set2"], fields


@opcode("HMNMX2", cls="fp16")
def _hmnmx2(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "NAN", BFLOAT16)
    fields = {"dst": o.destination(), **_sources(o, "ab", BFLOAT16 in m), **o.predicate_in()}
    fields["half_flags"] |= NAN_WINS * ("NAN" in m)
    return BY_NAME[f"{_kind(m)}mnmx2"], fields


@opcode("FHADD", cls="fp32-add")
def _fhadd(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """A half and a single: ``a * 1 + c``."""
    fields = {"dst": o.destination(), "half_choice": o.upper_half(), **_halves(o, "a", "BF16" in m)}
    one = _word(o, "b", 0x3F80 if "BF16" in m else 0x3C00)
    return _mixed(m, {**fields, **one, **o.single("c")})


@opcode("FHFMA", cls="fp32")
def _fhfma(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """A product of halves, and a single."""
    fields = {"dst": o.destination(), "half_choice": o.upper_half(), **_halves(o, "a", "BF16" in m)}
    fields["half_choice"] |= o.upper_half() << 1
    return _mixed(m, {**fields, **_halves(o, "b", "BF16" in m), **o.single("c")})


def _mixed(m: tuple[str, ...], fields: dict[str, int]) -> tuple[int, dict[str, int]]:
    fields.pop("half_flags", None)
    flags = float_fields(tuple(x for x in m if x != "BF16"))
    return BY_NAME["bfma.f32" if "BF16" in m else "hfma.f32"], {**flags, **fields}


_TWICE_ONE: Final = 0x7F7F  # as powers of two of 8 bits


@opcode("F2FP", "UF2FP", cls="packed-conversion")
def _f2fp(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    small = next((x for x in m if x.lower() in SMALL_FLOATS), None)
    if small is not None:
        return _small_floats(o, m, small.lower())
    if "E8" in m:
        return _powers_of_two(o, m)
    if m == ("TF32", "F32", "PACK_B"):
        return BY_NAME["f.tf32"], {"dst": o.destination(), **o.single("a")}
    only(m, "F16", "BF16", "F32", "PACK_AB", "MERGE_C", "RELU", "SATFINITE", "RN", "RZ")
    fields = {"rounding": rounding_of(m), "dst": o.destination()}
    fields |= {"only_positive": int("RELU" in m), "finite": int("SATFINITE" in m)}
    if "MERGE_C" in m:  # one number, beside a half of the last source
        fields |= {**Source(o.rows.place(0), False).fields("a"), **o.single("b")}
        if o.text() != "RZ":
            raise Unknown("a half beside the number")
    elif "PACK_AB" in m:
        fields |= {**o.single("a"), **o.single("b")}
    else:
        raise Unknown("the conversion")
    return BY_NAME["f2b2" if "BF16" in m else "f2h2"], fields


def _small_floats(o: Operands, m: tuple[str, ...], name: str) -> tuple[int, dict[str, int]]:
    """Between a pair of floats of 8, 6 or 4 bits and two halves or singles. The pair is half a register, of 4
    bits a byte (``.H1``, ``.B3``). What is made of it comes beside a half of the last source or, of 4 bits,
    below the last source's lower three bytes."""
    kind, fields = name.upper(), {"dst": o.destination(), "only_positive": int("RELU" in m)}
    pair_bits = 2 * step_bits(name)
    m = tuple(x for x in m if x != "RELU")
    if m == ("F16", kind, "UNPACK_B"):
        return BY_NAME[f"{name}.h2"], {**fields, "first_bit": o.first_bit(pair_bits), **o.integer("a")}
    if m == ("BF16", kind, "UNPACK_B"):  # times a pair of powers of two; others than 1 are not executed
        fields |= {"first_bit": o.first_bit(pair_bits), **o.integer("a")}
        if single_bits(o.text().removesuffix(".H0")) & 0xFFFF != _TWICE_ONE:
            raise Unknown("the scale")
        return BY_NAME[f"{name}.b2"], fields
    if m == ("SATFINITE", kind, "F32", "PACK_AB_MERGE_C"):
        fields |= {**o.single("a"), **o.single("b")}
        fields["first_bit"] = o.first_bit(16) if pair_bits == 16 else 0
        return BY_NAME[f"f2.{name}"], {**fields, **o.integer("c")}
    if m == ("SATFINITE", kind, "F16", "UNPACK_B_MERGE_C") and name in HAVE_NAN:
        fields |= {**o.integer("a"), "first_bit": o.first_bit(16)}
        return BY_NAME[f"h2.{name}"], {**fields, **o.integer("b")}
    raise Unknown("the conversion")


def _powers_of_two(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """Between pairs of powers of two of 8 bits and singles or bfloat16 numbers."""
    fields = {"dst": o.destination()}
    if m == ("BF16", "E8", "UNPACK_B"):
        return BY_NAME["e8.b2"], {**fields, "half_choice": o.upper_half(), **o.integer("a")}
    only(m, "SATFINITE", "E8", "F32", "BF16", "PACK_AB_MERGE_C", "UNPACK_B_MERGE_C", "RZ", "RP")
    if "RZ" not in m and "RP" not in m:
        raise Unknown("the conversion")
    fields |= {"rounding": rounding_of(m), "finite": int("SATFINITE" in m)}
    if "PACK_AB_MERGE_C" in m and "F32" in m:
        fields |= {**o.single("a"), **o.single("b"), "half_choice": o.upper_half() << 2, **o.integer("c")}
        return BY_NAME["f2.e8"], fields
    if "UNPACK_B_MERGE_C" in m and "BF16" in m:
        fields |= {**o.integer("a"), "half_choice": o.upper_half() << 1, **o.integer("b")}
        return BY_NAME["b2.e8"], fields
    raise Unknown("the conversion")
