"""The table of opcodes: what each becomes, and where it goes.

A row holds an opcode's reader, which turns operands and modifiers into the fields of a micro-operation, and its
instruction class (pipe, unit, latency), by the names of `sim.instructions`. An opcode or a form that has no row is
refused by name; nothing is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from smlab.hw_bench.sass import Function, SassInstruction
from smlab.sim.machine_code import meanings, record
from smlab.sim.machine_code.meanings import BY_NAME, FLUSH, SATURATE
from smlab.sim.machine_code.operands import (
    M32,
    Operands,
    Rows,
    Source,
    Unknown,
    half_bits,
    indexed_constant,
    is_predicate,
    predicate_fields,
    refuse,
    zero,
)

# Codes of what is not a vector operation.
(NOP, EXIT, BRANCH, BRANCH_SPLIT, BSSY, BSYNC, BREAK, WARPSYNC, BARRIER, BARRIER_REDUCE, JUMP, YIELD, LOAD, STORE,
 ATOMIC, LOAD_CONSTANT, SHUFFLE, VOTE, MATCH, REDUCE, SPECIAL, PLOP3, R2P, P2R, BARRIER_RESULT, KILL, BMOV_OUT,
 BMOV_IN, DEPBAR) = range(128, 157)  # fmt: skip

GLOBAL, SHARED, LOCAL, GENERIC = 0, 1, 2, 3
ADD, MIN, MAX, AND, OR, XOR, INC, DEC, EXCHANGE, SWAP, SPIN, COUNT = range(12)
U32, S32, U64, S64, FLOAT32, FLOAT64 = range(6)

SPECIALS: Final = {
    name: number
    for number, name in enumerate(
        (
            "SR_TID.X", "SR_TID.Y", "SR_TID.Z", "SR_CTAID.X", "SR_CTAID.Y", "SR_CTAID.Z", "SR_LANEID",
            "SR_CLOCKLO", "SR_CLOCKHI", "SR_VIRTUALSMID", "SR_LTMASK", "SR_LEMASK", "SR_GTMASK", "SR_GEMASK",
            "SR_EQMASK", "SR_CgaCtaId", "SRZ", "SR_NTID.X", "SR_VIRTID", "SR_GLOBALTIMERLO", "SR_GLOBALTIMERHI",
            "SR_CTAIDX_UNUSED", "SR_SMEMSZ", "SR_WARPID", "SR_SWINHI",
        )
    )
}  # fmt: skip


@dataclass(frozen=True)
class MicroOperation:
    """One instruction as it is executed: its code, fields by name, and its instruction class."""

    instruction: SassInstruction
    code: int
    cls: str
    fields: dict[str, int] = field(default_factory=dict)
    returns: bool = False

    def words(self) -> list[int]:
        values = {"guard": record.PT, "p": record.PT, "q": record.PT, "pd": record.NO_PREDICATE,
                  "qd": record.NO_PREDICATE, **self.fields, "code": self.code}  # fmt: skip
        return [values.get(name, 0) for name in record.FIELDS]


Reader = Callable[[Operands, tuple[str, ...]], tuple[int, dict[str, int]]]


@dataclass(frozen=True)
class Row:
    """One opcode: how it is read, its class, and whether it is one of the uniform data path."""

    read: Reader
    cls: str
    uniform: bool = False


@dataclass(frozen=True)
class Targets:
    """Where branches may go, by label and address."""

    labels: dict[str, int]
    base: dict[str, int]


_ROWS: dict[str, Row] = {}


def _opcode(*names: str, cls: str) -> Callable[[Reader], Reader]:
    def keep(read: Reader) -> Reader:
        for name in names:
            _ROWS[name] = Row(read, cls, name.startswith("U") and name not in ())
        return read

    return keep


def _only(modifiers: tuple[str, ...], *known: str) -> None:
    for modifier in modifiers:
        if modifier not in known:
            raise Unknown(f"the modifier .{modifier}")


_MODES: Final = {"RN": 0, "RM": 1, "RP": 2, "RZ": 3}


def _float_flags(modifiers: tuple[str, ...], *known: str) -> int:
    _only(modifiers, *_MODES, "FTZ", "SAT", *known)
    flags = FLUSH * ("FTZ" in modifiers) + SATURATE * ("SAT" in modifiers)
    return flags + sum(_MODES.get(m, 0) for m in modifiers)


# Integers


@_opcode("MOV", "UMOV", "MOV32I", cls="int32")
def _mov(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m)
    fields = {"dst": o.destination(), **o.integer("a")}
    if o.more():  # the mask of bytes, always all
        o.text()
    return BY_NAME["mov"], fields


def _carries(o: Operands) -> tuple[int, int]:
    """The predicates that take the carries, if they are there."""
    first = o.predicate_out() if o.peek_predicate() else record.NO_PREDICATE
    second = o.predicate_out() if o.peek_predicate() else record.NO_PREDICATE
    return first, second


@_opcode("IADD3", "UIADD3", cls="int32")
def _iadd3(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "X")
    fields = {"dst": o.destination()}
    fields["pd"], fields["qd"] = _carries(o)
    for name in "abc":
        fields |= o.integer(name, "one")
    negated = 0
    if "X" in m:
        fields |= o.predicate_in("p")
        if o.more():
            fields |= o.predicate_in("q")
        return BY_NAME["iadd3c"], fields
    for name in "abc":
        negated += fields[f"{name}_xor"] == M32
    if fields["pd"] == fields["qd"] == record.NO_PREDICATE:
        for name in "abc":
            fields[f"{name}_add"] = int(fields[f"{name}_xor"] == M32)
        return BY_NAME["iadd3"], fields
    # In a sum with a carry out, minus x is its complement and one more.
    false = {"p": record.PT, "p_xor": M32, "q": record.PT, "q_xor": M32}
    return BY_NAME["iadd3c"], {**fields, **false, "i": negated}


@_opcode("VIADD", cls="int32")
def _viadd(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m)
    return BY_NAME["iadd3"], {
        "dst": o.destination(), **o.integer("a"), **o.integer("b"), **zero().fields("c")}  # fmt: skip


@_opcode("IMAD", "UIMAD", cls="imad")
def _imad(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "MOV", "U32", "IADD", "SHL", "X", "WIDE", "HI")
    fields = {"dst": o.destination()}
    if "WIDE" in m or "HI" in m:
        fields["pd"] = o.predicate_out() if o.peek_predicate() else record.NO_PREDICATE
        fields |= {**o.integer("a"), **o.integer("b"), **o.long("c"), "p": record.PT, "p_xor": M32}
        if any(fields[f"{n}_xor"] for n in "abc"):
            raise Unknown("a minus in a wide product")
        if "X" in m:
            fields |= o.predicate_in("p")
        kind = "imul.wide" if "WIDE" in m else "imul.hi"
        return BY_NAME[kind + (".u" if "U32" in m else ".s")], fields
    if "X" in m:
        fields |= {**o.integer("a"), **o.integer("b"), **o.integer("c"), **o.predicate_in("p")}
        return BY_NAME["imadx"], fields
    fields |= {**o.integer("a"), **o.integer("b"), **o.integer("c")}
    if "MOV" in m:
        return BY_NAME["mov"], {
            **fields,
            **{f"a{s}": fields[f"c{s}"] for s in ("", "_reg", "_and", "_xor", "_add")},
        }
    return BY_NAME["imad"], fields


@_opcode("LOP3", "ULOP3", cls="int32")
def _lop3(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "LUT")
    pd = o.predicate_out() if o.peek_predicate() else record.NO_PREDICATE
    fields = {"pd": pd, "dst": o.destination()}
    for name in "abc":
        fields |= o.integer(name, "one")
    fields["i"] = int(o.text(), 16)
    return BY_NAME["lop3"], {**fields, **o.predicate_in("p")}


@_opcode("SHF", "USHF", cls="int32")
def _shf(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "L", "R", "W", "U32", "S32", "U64", "S64", "HI")
    bits = 64 if "U64" in m or "S64" in m else 32
    name = "shl" if "L" in m else "sar" if "S32" in m or "S64" in m else "shr"
    fields = {"dst": o.destination(), **o.integer("a"), **o.integer("b"), **o.integer("c")}
    fields |= {"i": bits, "j": bits - 1 if "W" in m else 0}
    return BY_NAME[name + (".hi" if "HI" in m else "")], fields


@_opcode("LEA", "ULEA", cls="int32")
def _lea(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "HI", "X", "SX32")
    fields = {"dst": o.destination()}
    fields["pd"] = o.predicate_out() if o.peek_predicate() else record.NO_PREDICATE
    fields |= {**o.integer("a"), **o.integer("b", "one"), "p": record.PT, "p_xor": M32}
    if "HI" in m and "SX32" not in m:
        fields |= o.integer("c")
    fields["j"] = int(o.text(), 16)
    if "X" in m:
        fields |= o.predicate_in("p")
    else:
        fields["i"] = int(fields["b_xor"] == M32)
    return BY_NAME["lea" + (".hi" if "HI" in m else "") + (".sx" if "SX32" in m else "")], fields


_RELATIONS: Final = {
    "F": 0, "LT": 1, "EQ": 2, "LE": 3, "GT": 4, "NE": 5, "GE": 6, "NUM": 7,
    "NAN": 8, "LTU": 9, "EQU": 10, "LEU": 11, "GTU": 12, "NEU": 13, "GEU": 14, "T": 15,
}  # fmt: skip
_COMBINE: Final = {"AND": 0, "OR": 1, "XOR": 2}


def _setp(o: Operands, m: tuple[str, ...], integer: bool) -> dict[str, int]:
    relations = [_RELATIONS[x] for x in m if x in _RELATIONS]
    combined = [_COMBINE[x] for x in m if x in _COMBINE]
    if len(relations) != 1 or len(combined) != 1:
        raise Unknown("the comparison")
    relation = relations[0]
    if not integer and relation == 5:  # for floats NE is not for NaN
        relation = 5
    return {"i": relation, "j": combined[0], "pd": o.predicate_out(), "qd": o.predicate_out()}


@_opcode("ISETP", "UISETP", cls="int32")
def _isetp(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, *_RELATIONS, *_COMBINE, "U32", "EX")
    fields = _setp(o, m, True) | o.integer("a") | o.integer("b") | o.predicate_in("p")
    if "U32" not in m:  # a signed comparison is one of numbers moved up by 2**31
        fields["a_add"] = (fields["a_add"] + 0x80000000) & M32
        fields["b_add"] = (fields["b_add"] + 0x80000000) & M32
    if "EX" in m:
        fields |= o.predicate_in("q")
        fields["j"] |= 4
    return BY_NAME["isetp"], fields


@_opcode("SEL", "USEL", cls="int32")
def _sel(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m)
    return BY_NAME["sel"], {"dst": o.destination(), **o.integer("a"), **o.integer("b"), **o.predicate_in("p")}


@_opcode("IMNMX", "VIMNMX", "UIMNMX", cls="int32")
def _imnmx(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "U32")
    fields = {"dst": o.destination(), **o.integer("a"), **o.integer("b"), **o.predicate_in("p")}
    return BY_NAME["imnmx.u" if "U32" in m else "imnmx.s"], fields


@_opcode("PRMT", "UPRMT", cls="int32")
def _prmt(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m)
    return BY_NAME["prmt"], {"dst": o.destination(), **o.integer("a"), **o.integer("b"), **o.integer("c")}


def _one_source(name: str, *known: str, i: Callable[[tuple[str, ...]], int] = lambda m: 0) -> Reader:
    def read(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
        _only(m, *known)
        return BY_NAME[name], {"dst": o.destination(), **o.integer("a"), "i": i(m)}

    return read


_ROWS["POPC"] = Row(_one_source("popc"), "sfu")
_ROWS["UPOPC"] = Row(_one_source("popc"), "int32", True)
_ROWS["FLO"] = Row(_one_source("flo", "U32", "SH", i=lambda m: ("U32" not in m) + 2 * ("SH" in m)), "sfu")
_ROWS["UFLO"] = Row(_ROWS["FLO"].read, "int32", True)
_ROWS["BREV"] = Row(_one_source("brev"), "sfu")
_ROWS["UBREV"] = Row(_one_source("brev"), "int32", True)
_ROWS["IABS"] = Row(_one_source("iabs"), "int32")
_ROWS["R2UR"] = Row(_one_source("mov"), "int32")


@_opcode("SGXT", "USGXT", cls="int32")
def _sgxt(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "U32")
    return BY_NAME["sgxt"], {
        "dst": o.destination(),
        **o.integer("a"),
        **o.integer("b"),
        "i": int("U32" not in m),
    }


@_opcode("BMSK", "UBMSK", cls="int32")
def _bmsk(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "W", "C")
    return BY_NAME["bmsk"], {"dst": o.destination(), **o.integer("a"), **o.integer("b"), "i": int("W" in m)}


# Floating point


@_opcode("FADD", cls="fp32-add")
def _fadd(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    return BY_NAME["fadd"], {"i": _float_flags(m), "dst": o.destination(), **o.single("a"), **o.single("b")}


@_opcode("FMUL", cls="fp32-mul")
def _fmul(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    return BY_NAME["fmul"], {"i": _float_flags(m), "dst": o.destination(), **o.single("a"), **o.single("b")}


@_opcode("FFMA", cls="fp32")
def _ffma(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    fields = {"i": _float_flags(m), "dst": o.destination(), **o.single("a"), **o.single("b"), **o.single("c")}
    return BY_NAME["ffma" if fields["i"] else "ffma.near"], fields


@_opcode("FSETP", cls="int32")
def _fsetp(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, *_RELATIONS, *_COMBINE, "FTZ")
    fields = _setp(o, m, False) | o.single("a") | o.single("b") | o.predicate_in("p")
    fields["j"] |= 8 * ("FTZ" in m)
    return BY_NAME["fsetp"], fields


@_opcode("FSEL", cls="int32")
def _fsel(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m)
    return BY_NAME["sel"], {"dst": o.destination(), **o.single("a"), **o.single("b"), **o.predicate_in("p")}


@_opcode("FMNMX", cls="int32")
def _fmnmx(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "FTZ")
    fields = {"dst": o.destination(), **o.single("a"), **o.single("b"), **o.predicate_in("p")}
    return BY_NAME["fmnmx"], {**fields, "i": FLUSH * ("FTZ" in m)}


@_opcode("FCHK", cls="int32")
def _fchk(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "DIVIDE")
    return BY_NAME["fchk"], {"pd": o.predicate_out(), **o.single("a"), **o.single("b")}


@_opcode("DADD", cls="fp64-add")
def _dadd(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, *_MODES)
    return BY_NAME["dadd"], {"i": _float_flags(m), "dst": o.destination(), **o.double("a"), **o.double("b")}


@_opcode("DMUL", cls="fp64-mul")
def _dmul(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, *_MODES)
    return BY_NAME["dmul"], {"i": _float_flags(m), "dst": o.destination(), **o.double("a"), **o.double("b")}


@_opcode("DFMA", cls="fp64")
def _dfma(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, *_MODES)
    return BY_NAME["dfma"], {
        "i": _float_flags(m), "dst": o.destination(), **o.double("a"), **o.double("b"), **o.double("c")}  # fmt: skip


@_opcode("DSETP", cls="fp64-add")
def _dsetp(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, *_RELATIONS, *_COMBINE)
    return BY_NAME["dsetp"], _setp(o, m, False) | o.double("a") | o.double("b") | o.predicate_in("p")


@_opcode("DMNMX", cls="fp64-add")
def _dmnmx(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m)
    return BY_NAME["dmnmx"], {"dst": o.destination(), **o.double("a"), **o.double("b"), **o.predicate_in("p")}


_MUFU: Final = {
    "RCP": "rcp", "RSQ": "rsq", "SQRT": "sqrt", "EX2": "ex2", "LG2": "lg2", "SIN": "sin", "COS": "cos",
    "TANH": "tanh", "RCP64H": "rcp64h", "RSQ64H": "rsq64h",
}  # fmt: skip


@_opcode("MUFU", cls="sfu")
def _mufu(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    if len(m) != 1 or m[0] not in _MUFU:
        raise Unknown("the function")
    return BY_NAME[_MUFU[m[0]]], {"dst": o.destination(), **o.single("a")}


_ROUND: Final = {"FLOOR": 1, "CEIL": 2, "TRUNC": 3, "RM": 1, "RP": 2, "RZ": 3}


@_opcode("I2F", "I2FP", cls="sfu")
def _i2f(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "F32", "F64", "S32", "U32", "S64", "U64", "U16", "S16", "U8", "S8", "RN", "RM", "RP", "RZ")
    if any(x in m for x in ("U16", "S16", "U8", "S8")):
        raise Unknown("a short integer")
    long = "S64" in m or "U64" in m
    signed = not ("U32" in m or "U64" in m)
    i = 4 * signed + sum(_MODES.get(x, 0) for x in m)
    name = ("l2" if long else "i2") + ("d" if "F64" in m else "f")
    return BY_NAME[name], {"i": i, "dst": o.destination(), **(o.long("a") if long else o.integer("a"))}


@_opcode("F2I", cls="sfu")
def _f2i(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "FTZ", "U32", "S32", "U64", "S64", "F64", "NTZ", "F32", *_ROUND)
    double, long = "F64" in m, "U64" in m or "S64" in m
    i = 4 * ("U32" not in m and "U64" not in m) + sum(_ROUND.get(x, 0) for x in m)
    fields = {"i": i, "j": int("FTZ" in m), "dst": o.destination()}
    return BY_NAME[("d" if double else "f") + ("2l" if long else "2i")], {
        **fields, **(o.double("a") if double else o.single("a"))}  # fmt: skip


@_opcode("F2F", cls="sfu")
def _f2f(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    i = sum(_MODES.get(x, 0) for x in m)
    kinds = tuple(x for x in m if x not in _MODES)
    if kinds == ("F32", "F64"):
        return BY_NAME["d2f"], {"i": i, "dst": o.destination(), **o.double("a")}
    if kinds == ("F64", "F32"):
        return BY_NAME["f2d"], {"i": i, "dst": o.destination(), **o.single("a")}
    raise Unknown("the conversion")


@_opcode("FRND", cls="sfu")
def _frnd(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "F64", "FTZ", *_ROUND)
    i, double = sum(_ROUND.get(x, 0) for x in m), "F64" in m
    return BY_NAME["drnd" if double else "frnd"], {
        "i": i, "j": int("FTZ" in m), "dst": o.destination(),
        **(o.double("a") if double else o.single("a"))}  # fmt: skip


@_opcode("HFMA2", cls="fp16")
def _hfma2(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """Only as the way to load a constant, two halves; arithmetic on halves has no row yet."""
    _only(m, "MMA")
    fields = {"dst": o.destination()}
    if [o.text().lstrip("-").removesuffix(".reuse") for _ in range(2)] != ["RZ", "RZ"]:
        raise Unknown("arithmetic on halves")
    high, low = half_bits(o.text()), half_bits(o.text())
    return BY_NAME["mov"], {**fields, **Source(o.rows.place(high << 16 | low), False).fields("a")}


# Special registers, predicates, lanes


@_opcode("S2R", "S2UR", cls="sfu")
def _s2r(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m)
    return SPECIAL, {"dst": o.destination(), **_special(o.text()), "width": 4}


@_opcode("CS2R", cls="int32")
def _cs2r(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "32")
    return SPECIAL, {"dst": o.destination(), **_special(o.text()), "width": 4 if "32" in m else 8}


def _special(name: str) -> dict[str, int]:
    if name not in SPECIALS:
        raise Unknown(f"the special register {name}")
    return {"i": SPECIALS[name]}


@_opcode("PLOP3", "UPLOP3", cls="int32")
def _plop3(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "LUT")
    fields = {"pd": o.predicate_out(), "qd": o.predicate_out(), **o.predicate_in("p"), **o.predicate_in("q")}
    third = predicate_fields(o.text(), "r")
    fields |= {"width": third["r"], "offset": third["r_xor"], "i": int(o.text(), 16), "j": int(o.text(), 16)}
    return PLOP3, fields


@_opcode("VOTE", "VOTEU", cls="int32")
def _vote(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "ANY", "ALL", "EQ")
    kind = {"ANY": 0, "ALL": 1, "EQ": 2}[m[0]]
    fields = {"dst": record.dump_at(), "pd": record.NO_PREDICATE, "i": kind}
    while o.more():
        text = o.texts[o.next]
        if not is_predicate(text):
            fields["dst"] = o.destination()
        elif o.next == len(o.texts) - 1:
            fields |= o.predicate_in("p")
        else:
            fields["pd"] = o.predicate_out()
    return VOTE, fields


@_opcode("SHFL", cls="sfu")
def _shfl(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "IDX", "UP", "DOWN", "BFLY")
    fields = {"pd": o.predicate_out(), "dst": o.destination()}
    fields |= {**o.integer("a"), **o.integer("b"), **o.integer("c")}
    return SHUFFLE, {**fields, "i": {"IDX": 0, "UP": 1, "DOWN": 2, "BFLY": 3}[m[0]]}


@_opcode("MATCH", cls="sfu")
def _match(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "ANY", "ALL", "U64")
    if "ALL" in m:
        fields = {"pd": o.predicate_out(), "dst": o.destination()}
    else:
        fields = {"dst": o.destination()}
    long = "U64" in m
    return MATCH, {
        **fields,
        **(o.long("a") if long else o.integer("a")),
        "i": int("ALL" in m),
        "j": int(long),
    }


@_opcode("REDUX", "CREDUX", cls="sfu")
def _redux(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "SUM", "MIN", "MAX", "AND", "OR", "XOR", "S32", "U32")
    kinds = {"SUM": ADD, "MIN": MIN, "MAX": MAX, "AND": AND, "OR": OR, "XOR": XOR}
    kind = next((kinds[x] for x in m if x in kinds), AND)
    return REDUCE, {"dst": o.destination(), **o.integer("a"), "i": kind, "j": S32 if "S32" in m else U32}


@_opcode("R2P", cls="int32")
def _r2p(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m)
    if o.text() != "PR":
        raise Unknown("the destination")
    return R2P, {**o.integer("a"), **o.integer("b")}


@_opcode("P2R", cls="int32")
def _p2r(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m)
    fields = {"dst": o.destination()}
    if o.text() != "PR":
        raise Unknown("the source")
    return P2R, {**fields, **o.integer("a"), **o.integer("b")}


# Memory

_WIDTHS: Final = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "32": 4, "64": 8, "128": 16}
_CACHING: Final = (
    "E", "SYS", "STRONG", "GPU", "CTA", "SM", "WEAK", "CONSTANT", "U", "EF", "EL", "LU", "EU", "NA", "PRIVATE", "MMIO",
    "LTC64B", "LTC128B", "LTC256B", "ZD",
)  # fmt: skip


def _width(m: tuple[str, ...]) -> tuple[int, int]:
    _only(m, *_WIDTHS, *_CACHING)
    width = next((_WIDTHS[x] for x in m if x in _WIDTHS), 4)
    return width, int("S8" in m or "S16" in m)


def _wide(fields: dict[str, int], m: tuple[str, ...], space: int) -> dict[str, int]:
    """Whether an address is of 64 bits: written out on later machines, always with .E on earlier ones."""
    texts = fields.pop("k")
    fields["k"] = space
    fields["j"] = int(bool(texts) or ("E" in m and space in (GLOBAL, GENERIC)))
    return fields


def _load(space: int) -> Reader:
    def read(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
        width, signed = _width(m)
        if o.peek_predicate():
            o.text()
        dst = o.destination()
        narrow = ".U32" in o.texts[o.next]
        fields = _wide(o.address(), m, space)
        if narrow:
            fields["j"] = 2
        if o.more() and is_predicate(o.texts[o.next]):
            o.text()
        return LOAD, {**fields, "dst": dst, "width": width, "i": signed}

    return read


def _store(space: int) -> Reader:
    def read(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
        width, _ = _width(m)
        narrow = ".U32" in o.texts[o.next]
        fields = _wide(o.address(), m, space)
        if narrow:
            fields["j"] = 2
        return STORE, {**fields, **o.integer("c"), "width": width}

    return read


for _name, _space in (("LDG", GLOBAL), ("LDS", SHARED), ("LDL", LOCAL), ("LD", GENERIC)):
    _ROWS[_name] = Row(_load(_space), "shared-load" if _space == SHARED else "global-load")
for _name, _space in (("STG", GLOBAL), ("STS", SHARED), ("STL", LOCAL), ("ST", GENERIC)):
    _ROWS[_name] = Row(_store(_space), "shared-store" if _space == SHARED else "global-store")


_ATOMIC: Final = {
    "ADD": ADD, "MIN": MIN, "MAX": MAX, "AND": AND, "OR": OR, "XOR": XOR, "INC": INC, "DEC": DEC, "EXCH": EXCHANGE,
    "CAS": SWAP, "CAST": SPIN, "POPC": COUNT,
}  # fmt: skip


def _atomic(space: int, reduction: bool) -> Reader:
    def read(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
        kinds = ("S32", "U32", "U64", "S64", "64", "32", "F32", "F64", "FTZ", "RN", "SPIN")
        _only(m, *_ATOMIC, *_CACHING, *kinds)
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
        ):
            number = value if name in m else number
        fields: dict[str, int] = {"dst": record.dump_at()}
        if o.peek_predicate():
            o.text()
        if not reduction:
            fields["dst"] = o.destination()
        fields |= _wide(o.address(), m, space)
        fields["p"], fields["i"], fields["width"] = number, kind, 8 if number in (U64, S64, FLOAT64) else 4
        if kind in (SWAP, SPIN):
            # The value compared with, then the new one: the sources c and, as there are no more, q and q_xor.
            fields |= o.integer("c")
            new = o.integer("b")
            fields |= {"q": new["b"], "q_xor": new["b_reg"]}
        elif kind != COUNT:
            fields |= o.integer("c")
        return ATOMIC, fields

    return read


_ROWS["ATOMG"] = Row(_atomic(GLOBAL, False), "global-reduce")
_ROWS["ATOM"] = Row(_atomic(GENERIC, False), "global-reduce")
_ROWS["RED"] = _ROWS["REDG"] = Row(_atomic(GLOBAL, True), "global-reduce")
_ROWS["ATOMS"] = Row(_atomic(SHARED, False), "atomic-add")


@_opcode("LDC", "ULDC", cls="sfu")
def _ldc(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    width, signed = _width(m)
    dst, text = o.destination(), o.texts[o.next]
    if (fields := indexed_constant(text)) is not None:
        o.text()
        return LOAD_CONSTANT, {**fields, "dst": dst, "width": width, "j": signed}
    if width not in (4, 8):
        raise Unknown("a short constant")
    return (BY_NAME["mov64"], {"dst": dst, **o.long("a")}) if width == 8 else (
        BY_NAME["mov"], {"dst": dst, **o.integer("a")})  # fmt: skip


# Control


def _nothing(*known: str) -> Reader:
    def read(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
        o.next = len(o.texts)
        return NOP, {}

    return read


for _name in ("NOP", "MEMBAR", "ERRBAR", "CCTL", "CGAERRBAR", "FENCE", "WARPSYNC_NONE", "NANOSLEEP_NONE", "LDGDEPBAR",
              "DEPBAR", "PMTRIG", "ACQBULK", "UCGABAR_ARV"):  # fmt: skip
    _ROWS[_name] = Row(_nothing(), "control")


def _plain(code: int, *known: str) -> Reader:
    def read(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
        _only(m, *known)
        if o.more():
            raise Unknown("its operands")
        return code, {}

    return read


_ROWS["YIELD"] = Row(_plain(YIELD), "control")


@_opcode("NANOSLEEP", cls="control")
def _nanosleep(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    o.next = len(o.texts)
    return YIELD, {}


@_opcode("EXIT", cls="control")
def _exit(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m)
    return EXIT, o.predicate_in("p") if o.more() else {}


@_opcode("BPT", cls="control")
def _bpt(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    o.next = len(o.texts)
    return KILL, {}


@_opcode("BRA", cls="control")
def _bra(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "U", "CONV", "DIV")
    fields: dict[str, int] = {}
    if "CONV" in m or "DIV" in m:
        mask = o.integer("a")  # the lanes that count; ~URZ, all
        label = o.text()
        return BRANCH_SPLIT, {**mask, "i": _target(label), "j": int("DIV" in m)}
    if is_predicate(o.texts[o.next]):
        fields |= o.predicate_in("p")
    return BRANCH, {**fields, "i": _target(o.text())}


_LABELS: list[dict[str, int]] = [{}]


def _target(text: str) -> int:
    """The number of the instruction that a label stands for."""
    labels = _LABELS[-1]
    name = text[2:-1] if text.startswith("`(") else text
    if name in labels:
        return labels[name] // 16
    if text.startswith("0x"):
        return int(text, 16) // 16
    raise Unknown(f"the target {text}")


@_opcode("CALL", cls="control")
def _call(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "REL", "NOINC")
    return BRANCH, {"i": _target(o.text())}


@_opcode("RET", cls="control")
def _ret(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "REL", "NODEC", "ABS")
    register, _, base = o.texts[0].partition(" ")
    o.texts[:] = [register, *([base] if base else []), *o.texts[1:]]
    fields = o.integer("a")
    fields["i"] = _target(o.text()) if o.more() else 0
    return JUMP, fields


@_opcode("BRX", cls="control")
def _brx(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m)
    if is_predicate(o.texts[o.next]):
        raise Unknown("its predicate")
    fields = o.integer("a")
    text = o.text() if o.more() else "0x0"
    offset = int(text.split()[0], 16)
    o.next = len(o.texts)
    return JUMP, {**fields, "offset": offset + o.instruction.address + 16, "i": 0}


@_opcode("BSSY", cls="control")
def _bssy(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m)
    barrier = _barrier(o.text())
    return BSSY, {"j": barrier, "i": _target(o.text())}


def _barrier(text: str) -> int:
    if not text.startswith("B") or not text[1:].isdigit():
        raise Unknown(f"the barrier {text}")
    return int(text[1:])


@_opcode("BSYNC", "BREAK", cls="control")
def _bsync(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m)
    fields = o.predicate_in("p") if is_predicate(o.texts[o.next]) else {}
    code = BSYNC if o.instruction.opcode == "BSYNC" else BREAK
    return code, {**fields, "j": _barrier(o.text())}


@_opcode("BMOV", cls="control")
def _bmov(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "32", "CLEAR")
    first = o.text()
    if first.startswith("B"):
        return BMOV_IN, {"j": _barrier(first), **o.integer("a")}
    o.next -= 1
    return BMOV_OUT, {"dst": o.destination(), "j": _barrier(o.text()), "i": int("CLEAR" in m)}


@_opcode("WARPSYNC", cls="control")
def _warpsync(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "ALL")
    if "ALL" in m:
        return WARPSYNC, Source(o.rows.place(M32), False).fields("a")
    return WARPSYNC, o.integer("a")


@_opcode("BAR", cls="barrier")
def _bar(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "SYNC", "DEFER_BLOCKING", "RED", "POPC", "AND", "OR")
    if o.text() not in ("0x0", "RZ"):
        raise Unknown("a barrier other than 0")
    if "RED" in m:
        kind = {"POPC": 0, "AND": 1, "OR": 2}[next(x for x in m if x in ("POPC", "AND", "OR"))]
        return BARRIER, {"i": 1, "j": kind, **o.predicate_in("p")}
    return BARRIER, {}


@_opcode("B2R", cls="sfu")
def _b2r(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    _only(m, "RESULT")
    fields = {"dst": o.destination()}
    if o.more():
        fields["pd"] = o.predicate_out()
    return BARRIER_RESULT, fields


OPCODES: Final = tuple(sorted(_ROWS))

_VARIABLE: Final = (
    "shared-load",
    "global-load",
    "global-reduce",
    "atomic-add",
    "atomic-cas",
    "atomic-popc-inc",
)
_ATOMIC_CLASSES: Final = {SWAP: "atomic-cas", SPIN: "atomic-cas", COUNT: "atomic-popc-inc"}


def decode(function: Function, rows: Rows) -> tuple[MicroOperation, ...]:
    """The micro-operations of a kernel, one an instruction.

    Raises:
        SmlabError: naming the first instruction that has no row in the table, or not in this form.
    """
    _LABELS.append({**function.labels, function.name: 0})
    try:
        return tuple(_decoded(i, rows, function.name) for i in function.instructions)
    finally:
        _LABELS.pop()


def _decoded(instruction: SassInstruction, rows: Rows, where: str) -> MicroOperation:
    if instruction.never_executed:
        return MicroOperation(instruction, NOP, "control")
    row = _ROWS.get(instruction.opcode)
    if row is None:
        raise refuse(instruction, where)
    operands = Operands(instruction, rows)
    try:
        code, fields = row.read(operands, instruction.modifiers)
        operands.done()
        if instruction.predicate is not None:
            text = f"{'!' if instruction.predicate.negated else ''}{instruction.predicate.register}"
            fields |= predicate_fields(text, "guard")
    except Unknown as unknown:
        raise refuse(instruction, where, str(unknown)) from None
    except (ValueError, KeyError, IndexError, StopIteration):
        raise refuse(instruction, where, "its operands") from None
    cls = row.cls
    if code == ATOMIC and fields["k"] == SHARED:
        cls = _ATOMIC_CLASSES.get(fields["i"], cls)
    returns = code == LOAD or (code == ATOMIC and instruction.opcode not in ("RED", "REDG"))
    if row.uniform or instruction.opcode in ("S2UR", "R2UR"):
        fields["uniform"] = 1
    return MicroOperation(instruction, code, cls, _placed(fields), returns)


def _placed(fields: dict[str, int]) -> dict[str, int]:
    return {name: value for name, value in fields.items() if name in record.PLACE}


_ = meanings
