"""The table's rows for floating point and conversions."""

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
    setp,
)
from smlab.sim.isa.decode.operands import (
    M32,
    Operands,
    Source,
    Unknown,
    single_bits,
    source,
)
from smlab.sim.isa.meanings import halves
from smlab.sim.isa.meanings.vector_meanings import BY_NAME


@opcode("FADD", "UFADD", cls="fp32-add")
def _fadd(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    return BY_NAME["fadd"], {**float_fields(m), "dst": o.destination(), **o.single("a"), **o.single("b")}


_SCALES: Final = {f"{way}{1 << n}": sign * n for way, sign in (("M", 1), ("D", -1)) for n in (1, 2, 3)}
"""A product times or divided by 2, 4 or 8, as a power of two."""


@opcode("FMUL", "UFMUL", cls="fp32-mul")
def _fmul(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    scales = [x for x in m if x in _SCALES]
    flags = float_fields(tuple(x for x in m if x not in _SCALES))
    fields = {**flags, "dst": o.destination(), **o.single("a"), **o.single("b")}
    if not scales:
        return BY_NAME["fmul"], fields
    return BY_NAME["fmul.scaled"], {**fields, "power_of_two": _SCALES[scales[0]]}


@opcode("FFMA", "UFFMA", cls="fp32")
def _ffma(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    flags = float_fields(m)
    fields = {**flags, "dst": o.destination(), **o.single("a"), **o.single("b"), **o.single("c")}
    return BY_NAME["ffma" if any(flags.values()) else "ffma.near"], fields


_PAIR: Final = re.compile(r"\.(F32|F32x2\.(?:HI_LO|LO_HI))(\.NP)?$")


def _pairs(o: Operands, m: tuple[str, ...], name: str, sources: str) -> tuple[int, dict[str, int]]:
    """Arithmetic on two singles at once. An immediate is one number for both."""
    only(m, *MODES, "FTZ")
    fields = {"rounding": rounding_of(m), "flush": int("FTZ" in m), "dst": o.destination()}
    forms = 0
    for place, name_of_source in enumerate(sources):
        form, found = _pair_source(o)
        fields |= found.fields(name_of_source)
        forms |= form << halves.FORM_BITS * place
    return BY_NAME[name], {**fields, "pair_forms": forms}


def _pair_source(o: Operands) -> tuple[int, Source]:
    """How a source gives two numbers (module `halves`), and where they lie, without its signs."""
    text = o.text().removesuffix(".reuse")
    match = _PAIR.search(text)
    if match is None:
        if "R" in text:
            raise Unknown(f"the source {text}")
        bits = single_bits(text)
        return halves.ONE_NUMBER, Source(o.rows.place(bits, bits), False)
    how, one_sign = match[1], match[2] is not None
    form = {"F32": halves.ONE_NUMBER, "F32x2.LO_HI": halves.OTHER_WAY_ROUND}.get(how, 0)
    if one_sign and form:
        raise Unknown(f"the source {text}")
    signed = source(text.removesuffix(match[0]), "sign", True, single_bits, o.rows)
    minus = signed.flip != 0
    if signed.keep != M32:
        form |= halves.MAGNITUDE
    form |= halves.MINUS_LOW * minus | halves.MINUS_HIGH * (minus != one_sign)
    return form, Source(signed.at, signed.register)


@opcode("FADD2", cls="fp32-pair-add")
def _fadd2(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    return _pairs(o, m, "fadd2", "ab")


@opcode("FMUL2", cls="fp32-pair-mul")
def _fmul2(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    return _pairs(o, m, "fmul2", "ab")


@opcode("FFMA2", cls="fp32-pair")
def _ffma2(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    return _pairs(o, m, "ffma2", "abc")


@opcode("FSETP", "UFSETP", cls="int32")
def _fsetp(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, *RELATIONS, *COMBINE, "FTZ")
    fields = setp(o, m) | o.single("a") | o.single("b") | o.predicate_in()
    return BY_NAME["fsetp"], {**fields, "flush": int("FTZ" in m)}


@opcode("FSET", "UFSET", cls="int32")
def _fset(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, *RELATIONS, *COMBINE, "BF")
    fields = {**comparison(m), "sets_one": int("BF" in m), "dst": o.destination()}
    return BY_NAME["fset"], {**fields, **o.single("a"), **o.single("b"), **o.predicate_in()}


@opcode("FSEL", "UFSEL", cls="int32")
def _fsel(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m)
    return BY_NAME["sel"], {"dst": o.destination(), **o.single("a"), **o.single("b"), **o.predicate_in()}


@opcode("FMNMX", "UFMNMX", cls="int32")
def _fmnmx(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "FTZ", "NAN")
    fields = {"dst": o.destination(), **o.single("a"), **o.single("b"), **o.predicate_in()}
    return BY_NAME["fmnmx"], {**fields, "flush": int("FTZ" in m), "nan_wins": int("NAN" in m)}


@opcode("FMNMX3", cls="fp32-add")
def _fmnmx3(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "FTZ", "NAN")
    fields = {"dst": o.destination(), **o.single("a"), **o.single("b"), **o.single("c")}
    flags = {"flush": int("FTZ" in m), "nan_wins": int("NAN" in m)}
    return BY_NAME["fmnmx3"], {**fields, **o.predicate_in(), **flags}


@opcode("FCHK", cls="int32")
def _fchk(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "DIVIDE")
    return BY_NAME["fchk"], {"predicate_dst": o.predicate_out(), **o.single("a"), **o.single("b")}


@opcode("DADD", cls="fp64-add")
def _dadd(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, *MODES)
    return BY_NAME["dadd"], {**float_fields(m), "dst": o.destination(), **o.double("a"), **o.double("b")}


@opcode("DMUL", cls="fp64-mul")
def _dmul(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, *MODES)
    return BY_NAME["dmul"], {**float_fields(m), "dst": o.destination(), **o.double("a"), **o.double("b")}


@opcode("DFMA", cls="fp64")
def _dfma(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, *MODES)
    return BY_NAME["dfma"], {
        **float_fields(m),
        "dst": o.destination(),
        **o.double("a"),
        **o.double("b"),
        **o.double("c"),
    }


@opcode("DSETP", cls="fp64-add")
def _dsetp(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    if "MIN" in m or "MAX" in m:  # two predicates from which fmin and fmax select
        only(m, "MIN", "MAX", "AND")
        picked = {
            "takes_lesser": int("MIN" in m),
            "predicate_dst": o.predicate_out(),
            "predicate_dst_b": o.predicate_out(),
        }
        return BY_NAME["dsetp.minmax"], picked | o.double("a") | o.double("b") | o.predicate_in()
    only(m, *RELATIONS, *COMBINE)
    return BY_NAME["dsetp"], setp(o, m) | o.double("a") | o.double("b") | o.predicate_in()


@opcode("DMNMX", cls="fp64-add")
def _dmnmx(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m)
    return BY_NAME["dmnmx"], {"dst": o.destination(), **o.double("a"), **o.double("b"), **o.predicate_in()}


_MUFU: Final = {
    "RCP": "rcp",
    "RSQ": "rsq",
    "SQRT": "sqrt",
    "EX2": "ex2",
    "LG2": "lg2",
    "SIN": "sin",
    "COS": "cos",
    "TANH": "tanh",
    "RCP64H": "rcp64h",
    "RSQ64H": "rsq64h",
}


_SHORT_MUFU: Final = {
    (function, kind): letter + function.lower()
    for function in ("EX2", "TANH")
    for kind, letter in (("F16", "h"), ("BF16", "b"))
}


@opcode("MUFU", cls="sfu")
def _mufu(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    if m in _SHORT_MUFU:
        dst, upper = o.destination(), o.upper_half()
        return BY_NAME[_SHORT_MUFU[m]], {"dst": dst, **o.integer("a"), "upper_bytes": upper}
    if len(m) != 1 or m[0] not in _MUFU:
        raise Unknown("the function")
    dst = o.destination()
    source = o.high_word("a") if m[0].endswith("64H") else o.single("a")
    return BY_NAME[_MUFU[m[0]]], {"dst": dst, **source}


_ROUND: Final = {"FLOOR": 1, "CEIL": 2, "TRUNC": 3, "RM": 1, "RP": 2, "RZ": 3}


_SHORT: Final = {"U16": 16, "S16": 16, "U8": 24, "S8": 24}


def _cut(m: tuple[str, ...]) -> int:
    """The bits that a short integer lacks of a word's."""
    return next((_SHORT[x] for x in m if x in _SHORT), 0)


@opcode("I2F", "UI2F", cls="conversion")
@opcode("I2FP", "UI2FP", cls="packed-conversion")
def _i2f(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "F32", "F64", "F16", "BF16", "S32", "U32", "S64", "U64", *_SHORT, *MODES)
    long = "S64" in m or "U64" in m
    signed = not any(x in m for x in ("U8", "U16", "U32", "U64"))
    rounding = rounding_of(m)
    kind = "d" if "F64" in m else "h" if "F16" in m else "b" if "BF16" in m else "f"
    name = ("l2" if long else "i2") + kind
    fields = {"rounding": rounding, "is_signed": int(signed), "cut_bits": _cut(m), "dst": o.destination()}
    if _cut(m):
        fields["first_bit"] = o.first_bit(32 - _cut(m))
    return BY_NAME[name], {**fields, **(o.long("a") if long else o.integer("a"))}


@opcode("F2I", "UF2I", cls="conversion")
def _f2i(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "FTZ", "U32", "S32", "U64", "S64", "F64", "NTZ", "F32", "F16", "BF16", *_SHORT, *_ROUND)
    double, long = "F64" in m, "U64" in m or "S64" in m
    fields = {
        "rounding": sum(_ROUND.get(x, 0) for x in m),
        "is_signed": int(not any(x in m for x in ("U8", "U16", "U32", "U64"))),
        "cut_bits": _cut(m),
        "flush": int("FTZ" in m),
        "dst": o.destination(),
    }
    if "F16" in m or "BF16" in m:
        fields["first_bit"] = 16 * o.upper_half()
        return BY_NAME[("b2" if "BF16" in m else "h2") + ("l" if long else "i")], {**fields, **o.single("a")}
    return BY_NAME[("d" if double else "f") + ("2l" if long else "2i")], {
        **fields,
        **(o.double("a") if double else o.single("a")),
    }


@opcode("F2F", "UF2F", cls="conversion")
def _f2f(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    rounding = rounding_of(m)
    kinds = tuple(x for x in m if x not in MODES)
    if kinds == ("F32", "F64"):
        return BY_NAME["d2f"], {"rounding": rounding, "dst": o.destination(), **o.double("a")}
    if kinds == ("F32", "F16") and not rounding:
        return BY_NAME["h2f"], {"dst": o.destination(), **o.single("a")}
    if kinds in (("BF16", "F32"), ("F16", "F32")):
        nothing = Source(o.rows.place(0), False).fields("a")  # for the upper half
        name = {"F16": "f2h2", "BF16": "f2b2"}[kinds[0]]
        return BY_NAME[name], {"rounding": rounding, "dst": o.destination(), **nothing, **o.single("b")}
    if kinds == ("BF16", "F16"):
        fields = {"rounding": rounding, "dst": o.destination(), "first_bit": 16 * o.upper_half()}
        return BY_NAME["h2b"], {**fields, **o.single("a")}
    if kinds == ("BF16", "F64"):
        return BY_NAME["d2b"], {"rounding": rounding, "dst": o.destination(), **o.double("a")}
    if kinds in (("F64", "F16"), ("F64", "BF16")):
        dst, first_bit = o.destination(), 16 * o.upper_half()
        name = "h2d" if kinds[1] == "F16" else "b2d"
        return BY_NAME[name], {"dst": dst, "first_bit": first_bit, **o.single("a")}
    if kinds == ("F16", "F64") and not rounding:
        return BY_NAME["d2h"], {"dst": o.destination(), **o.double("a")}
    if kinds == ("F64", "F32"):
        return BY_NAME["f2d"], {"rounding": rounding, "dst": o.destination(), **o.single("a")}
    raise Unknown("the conversion")


@opcode("I2I", cls="conversion")
def _i2i(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """A word in the range of a shorter integer."""
    if len(m) != 3 or m[0] not in _SHORT or m[1:] != ("S32", "SAT"):
        raise Unknown("the conversion")
    fields = {"is_signed": int(m[0][0] == "S"), "cut_bits": _cut(m), "dst": o.destination()}
    return BY_NAME["i2i.sat"], {**fields, **o.integer("a")}


@opcode("I2IP", "F2IP", cls="conversion")
def _packed_integers(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """Two numbers as short integers, one above the other, and above them a third source."""
    fields = {"is_signed": int(m[:1] in (("S8",), ("S16",))), "cut_bits": _cut(m), "dst": o.destination()}
    if o.instruction.opcode == "I2IP":
        if m[:1] == () or m[0] not in _SHORT or m[1:] != ("S32", "SAT"):
            raise Unknown("the conversion")
        fields |= {**o.integer("a"), **o.integer("b"), "half_choice": o.upper_half() << 2}
        return BY_NAME["i2ip"], {**fields, **o.integer("c")}
    only(m, *_SHORT, "F32", "NTZ", *_ROUND)
    fields["rounding"] = sum(_ROUND.get(x, 0) for x in m)
    fields |= {**o.single("a"), **o.single("b"), "half_choice": o.upper_half() << 2}
    return BY_NAME["f2ip"], {**fields, **o.integer("c")}


@opcode("FRND", "UFRND", cls="conversion")
def _frnd(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "F64", "F16", "BF16", "FTZ", *_ROUND)
    double = "F64" in m
    dst = o.destination()
    first = {"first_bit": 16 * o.upper_half()} if "F16" in m or "BF16" in m else {}
    name = "drnd" if double else "hrnd" if "F16" in m else "brnd" if "BF16" in m else "frnd"
    return BY_NAME[name], {
        "rounding": sum(_ROUND.get(x, 0) for x in m),
        "flush": int("FTZ" in m),
        "dst": dst,
        **first,
        **(o.double("a") if double else o.single("a")),
    }
