"""The table's rows for floating point and conversions."""

from __future__ import annotations

from typing import Final

from smlab.sim.machine_code.meanings import BY_NAME
from smlab.sim.machine_code.micro import (
    COMBINE,
    MODES,
    RELATIONS,
    float_flags,
    only,
    opcode,
    setp,
)
from smlab.sim.machine_code.operands import (
    Operands,
    Unknown,
)
from smlab.sim.machine_code.vector_operation import FLUSH


@opcode("FADD", cls="fp32-add")
def _fadd(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    return BY_NAME["fadd"], {"i": float_flags(m), "dst": o.destination(), **o.single("a"), **o.single("b")}


@opcode("FMUL", cls="fp32-mul")
def _fmul(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    return BY_NAME["fmul"], {"i": float_flags(m), "dst": o.destination(), **o.single("a"), **o.single("b")}


@opcode("FFMA", cls="fp32")
def _ffma(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    fields = {"i": float_flags(m), "dst": o.destination(), **o.single("a"), **o.single("b"), **o.single("c")}
    return BY_NAME["ffma" if fields["i"] else "ffma.near"], fields


@opcode("FSETP", cls="int32")
def _fsetp(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, *RELATIONS, *COMBINE, "FTZ")
    fields = setp(o, m, False) | o.single("a") | o.single("b") | o.predicate_in("p")
    fields["j"] |= 8 * ("FTZ" in m)
    return BY_NAME["fsetp"], fields


@opcode("FSEL", cls="int32")
def _fsel(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m)
    return BY_NAME["sel"], {"dst": o.destination(), **o.single("a"), **o.single("b"), **o.predicate_in("p")}


@opcode("FMNMX", cls="int32")
def _fmnmx(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "FTZ")
    fields = {"dst": o.destination(), **o.single("a"), **o.single("b"), **o.predicate_in("p")}
    return BY_NAME["fmnmx"], {**fields, "i": FLUSH * ("FTZ" in m)}


@opcode("FCHK", cls="int32")
def _fchk(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "DIVIDE")
    return BY_NAME["fchk"], {"pd": o.predicate_out(), **o.single("a"), **o.single("b")}


@opcode("DADD", cls="fp64-add")
def _dadd(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, *MODES)
    return BY_NAME["dadd"], {"i": float_flags(m), "dst": o.destination(), **o.double("a"), **o.double("b")}


@opcode("DMUL", cls="fp64-mul")
def _dmul(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, *MODES)
    return BY_NAME["dmul"], {"i": float_flags(m), "dst": o.destination(), **o.double("a"), **o.double("b")}


@opcode("DFMA", cls="fp64")
def _dfma(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, *MODES)
    return BY_NAME["dfma"], {
        "i": float_flags(m),
        "dst": o.destination(),
        **o.double("a"),
        **o.double("b"),
        **o.double("c"),
    }


@opcode("DSETP", cls="fp64-add")
def _dsetp(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    if "MIN" in m or "MAX" in m:  # two predicates from which fmin and fmax select
        only(m, "MIN", "MAX", "AND")
        picked = {"i": int("MIN" in m), "pd": o.predicate_out(), "qd": o.predicate_out()}
        return BY_NAME["dsetp.minmax"], picked | o.double("a") | o.double("b") | o.predicate_in("p")
    only(m, *RELATIONS, *COMBINE)
    return BY_NAME["dsetp"], setp(o, m, False) | o.double("a") | o.double("b") | o.predicate_in("p")


@opcode("DMNMX", cls="fp64-add")
def _dmnmx(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m)
    return BY_NAME["dmnmx"], {"dst": o.destination(), **o.double("a"), **o.double("b"), **o.predicate_in("p")}


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


@opcode("MUFU", cls="sfu")
def _mufu(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
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


@opcode("I2F", "I2FP", cls="conversion")
def _i2f(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "F32", "F64", "S32", "U32", "S64", "U64", "U16", "S16", "U8", "S8", "RN", "RM", "RP", "RZ", "F16")
    long = "S64" in m or "U64" in m
    signed = not any(x in m for x in ("U8", "U16", "U32", "U64"))
    i = 4 * signed + sum(MODES.get(x, 0) for x in m)
    if "F16" in m and (long or i & 3):
        raise Unknown("the conversion")
    name = ("l2" if long else "i2") + ("d" if "F64" in m else "h" if "F16" in m else "f")
    fields = {"i": i, "j": _cut(m), "dst": o.destination()}
    return BY_NAME[name], {**fields, **(o.long("a") if long else o.integer("a"))}


@opcode("F2I", cls="conversion")
def _f2i(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "FTZ", "U32", "S32", "U64", "S64", "F64", "NTZ", "F32", "F16", *_SHORT, *_ROUND)
    double, long = "F64" in m, "U64" in m or "S64" in m
    i = 4 * (not any(x in m for x in ("U8", "U16", "U32", "U64"))) + sum(_ROUND.get(x, 0) for x in m)
    fields = {"i": i, "j": int("FTZ" in m) + 2 * _cut(m), "dst": o.destination()}
    if (_cut(m) and double) or ("F16" in m and long):
        raise Unknown("the conversion")
    if "F16" in m:
        return BY_NAME["h2i"], {**fields, **o.single("a")}
    return BY_NAME[("d" if double else "f") + ("2l" if long else "2i")], {
        **fields,
        **(o.double("a") if double else o.single("a")),
    }


@opcode("F2F", cls="conversion")
def _f2f(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    i = sum(MODES.get(x, 0) for x in m)
    kinds = tuple(x for x in m if x not in MODES)
    if kinds == ("F32", "F64"):
        return BY_NAME["d2f"], {"i": i, "dst": o.destination(), **o.double("a")}
    if kinds in (("F16", "F32"), ("F32", "F16")) and not i:
        name = "f2h" if kinds[0] == "F16" else "h2f"
        return BY_NAME[name], {"dst": o.destination(), **o.single("a")}
    if kinds == ("F64", "F32"):
        return BY_NAME["f2d"], {"i": i, "dst": o.destination(), **o.single("a")}
    raise Unknown("the conversion")


@opcode("FRND", cls="conversion")
def _frnd(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "F64", "FTZ", *_ROUND)
    i, double = sum(_ROUND.get(x, 0) for x in m), "F64" in m
    return BY_NAME["drnd" if double else "frnd"], {
        "i": i,
        "j": int("FTZ" in m),
        "dst": o.destination(),
        **(o.double("a") if double else o.single("a")),
    }
