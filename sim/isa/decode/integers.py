"""The table's rows for integers, comparisons and predicates."""

from __future__ import annotations

from smlab.sim.isa import memory_layout
from smlab.sim.isa.decode.micro import (
    COMBINE,
    RELATIONS,
    ROWS,
    Reader,
    Row,
    only,
    opcode,
    setp,
)
from smlab.sim.isa.decode.operands import (
    M32,
    Operands,
    Source,
    Unknown,
    zero,
)
from smlab.sim.isa.meanings.vector_meanings import BY_NAME
from smlab.sim.isa.operation_codes import DIFFERENT, MATCH, MORE_OTHERS, OTHERS, READ_CHOSEN, SHARED_WINDOW


@opcode("MOV", "UMOV", "MOV32I", cls="int32")
def _mov(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    if "64" in m:
        only(m, "64")
        return BY_NAME["mov64"], {"dst": o.destination(), **o.long("a")}
    only(m, "SPILL")  # of a uniform register, which R2UR.FILL brings back
    fields = {"dst": o.destination(), **o.integer("a")}
    if o.more():  # the mask of bytes, always all
        o.text()
    return BY_NAME["mov"], fields


def _carries(o: Operands) -> tuple[int, int]:
    """The predicates that take the carries, if they are there."""
    first = o.predicate_out() if o.peek_predicate() else memory_layout.NO_PREDICATE
    second = o.predicate_out() if o.peek_predicate() else memory_layout.NO_PREDICATE
    return first, second


@opcode("IADD3", "UIADD3", cls="int32")
def _iadd3(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    return _sum(o, m, "abc")


@opcode("IADD", "UIADD", cls="int32")
def _iadd(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    return _sum(o, m, "ab")


def _sum(o: Operands, m: tuple[str, ...], names: str) -> tuple[int, dict[str, int]]:
    """A sum of the named operands; of two, the third is zero."""
    fields = {"dst": o.destination()}
    fields["predicate_dst"], fields["predicate_dst_b"] = _carries(o)
    if "64" in m:
        return _long_sum(o, m, fields, names)
    only(m, "X")
    false = {
        "predicate_a": memory_layout.PT,
        "predicate_a_xor": M32,
        "predicate_b": memory_layout.PT,
        "predicate_b_xor": M32,
    }
    for name in "abc":
        fields |= o.integer(name, "one") if name in names else zero().fields(name)
    negated = 0
    if "X" in m:
        fields |= o.predicate_in()
        if o.more():
            fields |= o.predicate_in("predicate_b")
        return BY_NAME["iadd3c"], {**false, **fields}
    for name in names:
        negated += fields[f"{name}_xor"] == M32
    if fields["predicate_dst"] == fields["predicate_dst_b"] == memory_layout.NO_PREDICATE:
        del fields["predicate_dst"], fields["predicate_dst_b"]
        for name in names:
            fields[f"{name}_add"] = int(fields[f"{name}_xor"] == M32)
        return BY_NAME["iadd3"], fields
    # In a sum with a carry out, minus x is its complement and one more.
    return BY_NAME["iadd3c"], {**fields, **false, "addend": negated}


def _long_sum(
    o: Operands, m: tuple[str, ...], fields: dict[str, int], names: str
) -> tuple[int, dict[str, int]]:
    """A sum of numbers of 64 bits; ``negated`` tells which of them have a minus."""
    only(m, "64", "X")
    carries = {fields["predicate_dst"], fields["predicate_dst_b"]} != {memory_layout.NO_PREDICATE}
    if carries or "X" in m:
        return _carried_sum(o, m, fields, names)
    del fields["predicate_dst"], fields["predicate_dst_b"]
    negated = 0
    for n, name in enumerate("abc"):
        if name not in names:
            fields |= zero().fields(name)
            continue
        negated |= int(o.minus()) << n
        fields |= o.long(name)
    return BY_NAME["iadd3.64"], {**fields, "negated": negated}


def _carried_sum(
    o: Operands, m: tuple[str, ...], fields: dict[str, int], names: str
) -> tuple[int, dict[str, int]]:
    """A sum of two numbers of 64 bits with a carry: minus x is its complement and one more, but where a carry
    comes in (X), which is that one."""
    if names != "ab":
        raise Unknown("a carry of three numbers")
    fields |= {"addend": 0, "complemented": 0}
    for n, name in enumerate(names):
        turned, minus = o.complement(), o.minus()
        fields["complemented"] |= int(turned or minus) << n
        fields["addend"] += minus
        fields |= o.long(name)
    no_carry = {"predicate_a": memory_layout.PT, "predicate_a_xor": M32}
    return BY_NAME["iadd64c"], {**fields, **(o.predicate_in() if "X" in m else no_carry)}


@opcode("VIADD", cls="int32")
def _viadd(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    if m in (("U8x4",), ("S8x4",), ("S32", "ISAT")):
        fields, negated = {"dst": o.destination()}, 0
        for n, name in enumerate("ab"):
            negated |= int(o.minus()) << n
            fields |= o.integer(name)
        return BY_NAME["iadd.sat" if "ISAT" in m else "iadd.8x4"], {**fields, "negated": negated}
    only(m, "16x2")
    fields = {"dst": o.destination(), **o.integer("a"), **o.integer("b")}
    if "16x2" in m:
        if fields["a_xor"] or fields["b_xor"]:
            raise Unknown("a minus in a sum of halves")
        return BY_NAME["iadd.16x2"], fields
    return BY_NAME["iadd3"], {**fields, **zero().fields("c")}


@opcode("IMAD", "UIMAD", cls="imad")
def _imad(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "MOV", "U32", "IADD", "SHL", "X", "WIDE", "HI")
    fields = {"dst": o.destination()}
    if "WIDE" in m or "HI" in m:
        fields["predicate_dst"] = o.predicate_out() if o.peek_predicate() else memory_layout.NO_PREDICATE
        fields |= {
            **o.integer("a"),
            **o.integer("b"),
            **o.long("c"),
            "predicate_a": memory_layout.PT,
            "predicate_a_xor": M32,
        }
        if any(fields[f"{n}_xor"] for n in "abc"):
            raise Unknown("a minus in a wide product")
        if "X" in m:
            fields |= o.predicate_in()
        kind = "imul.wide" if "WIDE" in m else "imul.hi"
        return BY_NAME[kind + (".u" if "U32" in m else ".s")], fields
    if "X" in m:
        fields |= {**o.integer("a"), **o.integer("b"), **o.integer("c"), **o.predicate_in()}
        return BY_NAME["imadx"], fields
    fields |= {**o.integer("a"), **o.integer("b"), **o.integer("c")}
    if "MOV" in m:
        return BY_NAME["mov"], fields | {
            f"a{part}": fields[f"c{part}"] for part in memory_layout.OPERAND_PARTS
        }
    return BY_NAME["imad"], fields


@opcode("LOP3", "ULOP3", cls="int32")
def _lop3(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "LUT")
    pd = o.predicate_out() if o.peek_predicate() else memory_layout.NO_PREDICATE
    fields = {"predicate_dst": pd, "dst": o.destination()}
    for name in "abc":
        fields |= o.integer(name, "one")
    fields["truth_table"] = o.byte()
    return BY_NAME["lop3"], {**fields, **o.predicate_in()}


@opcode("SHF", "USHF", cls="int32")
def _shf(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "L", "R", "W", "U32", "S32", "U64", "S64", "HI")
    bits = 64 if "U64" in m or "S64" in m else 32
    name = "shl" if "L" in m else "sar" if "S32" in m or "S64" in m else "shr"
    fields = {"dst": o.destination(), **o.integer("a"), **o.integer("b"), **o.integer("c")}
    fields |= {"count_limit": bits, "wrap_mask": bits - 1 if "W" in m else 0}
    return BY_NAME[name + (".hi" if "HI" in m else "")], fields


@opcode("LEA", "ULEA", cls="int32")
def _lea(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "HI", "X", "SX32")
    fields = {"dst": o.destination()}
    fields["predicate_dst"] = o.predicate_out() if o.peek_predicate() else memory_layout.NO_PREDICATE
    fields |= {
        **o.integer("a", "one"),
        **o.integer("b", "one"),
        "predicate_a": memory_layout.PT,
        "predicate_a_xor": M32,
    }
    if "HI" in m and "SX32" not in m:
        fields |= o.integer("c")
    fields["shift"] = o.byte()
    negated = fields["a_xor"] == M32
    if negated and "HI" in m:
        raise Unknown("a minus in an upper word")
    # The complement of a shifted word is its shifted complement and ones below; minus has one more.
    fields["addend"] = (1 << fields["shift"]) - 1 if negated else 0
    if "X" in m:
        fields |= o.predicate_in()
    else:
        fields["addend"] += negated + int(fields["b_xor"] == M32)
    return BY_NAME["lea" + (".hi" if "HI" in m else "") + (".sx" if "SX32" in m else "")], fields


@opcode("ISETP", "UISETP", cls="int32")
def _isetp(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    if "U64" in m or "S64" in m:
        only(m, *RELATIONS, *COMBINE, "U64", "S64")
        name = "isetp.u64" if "U64" in m else "isetp.s64"
        return BY_NAME[name], setp(o, m) | o.long("a") | o.long("b") | o.predicate_in()
    only(m, *RELATIONS, *COMBINE, "U32", "EX")
    fields = setp(o, m) | o.integer("a") | o.integer("b") | o.predicate_in()
    if "U32" not in m:  # a signed comparison is one of numbers moved up by 2**31
        fields["a_add"] = (fields["a_add"] + 0x80000000) & M32
        fields["b_add"] = (fields["b_add"] + 0x80000000) & M32
    if "EX" in m:
        fields |= o.predicate_in("predicate_b")
        fields["extends"] = 1
    return BY_NAME["isetp"], fields


@opcode("QSPC", cls="int32")
def _qspc(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """Whether a generic address lies in shared memory, the block's or (D) that of its cluster: by its high
    word, which they have in common."""
    only(m, "E", "S", "D")
    predicate = {"predicate_dst": o.predicate_out()}
    if m not in (("E", "S"), ("E", "D")) or o.destination() != memory_layout.dump_at():
        raise Unknown("what it asks for")
    address = o.address()
    if address["offset_bytes"] or address["index_shift"]:
        raise Unknown("the address")
    parts = {name + part: address[name + part] for name in "ab" for part in memory_layout.OPERAND_PARTS}
    return BY_NAME["in_window"], {
        **predicate,
        **parts,
        **Source(o.rows.place(SHARED_WINDOW), False).fields("c"),
    }


@opcode("SEL", "USEL", cls="int32")
def _sel(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    if "64" in m:
        only(m, "64")
        longs = {"dst": o.destination(), **o.long("a"), **o.long("b")}
        return BY_NAME["sel.64"], {**longs, **o.predicate_in()}
    only(m)
    return BY_NAME["sel"], {"dst": o.destination(), **o.integer("a"), **o.integer("b"), **o.predicate_in()}


def _of_shorts(m: tuple[str, ...]) -> dict[str, int]:
    """How an operation takes on the two halves of a word as whole numbers."""
    only(m, "S16x2", "U16x2", "RELU")
    if "U16x2" in m and "RELU" in m:
        raise Unknown("numbers without a sign held against 0")
    return {"is_signed": int("S16x2" in m), "above_zero": int("RELU" in m)}


@opcode("IMNMX", "VIMNMX", "UIMNMX", "UVIMNMX", cls="int32")
def _imnmx(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    if "S64" in m or "U64" in m:
        only(m, "S64", "U64")
        _no_carries(o)
        fields = {"dst": o.destination(), **o.long("a"), **o.long("b"), **o.predicate_in()}
        if o.text() not in ("!PT", "!UPT"):
            raise Unknown("the second predicate")
        return BY_NAME["imnmx.s64" if "S64" in m else "imnmx.u64"], fields
    fields = {"dst": o.destination()}
    _no_carries(o)
    fields |= {**o.integer("a"), **o.integer("b"), **o.predicate_in()}
    if m in (("U8x4",), ("S8x4",)):
        return BY_NAME["imnmx.8x4"], {**fields, "is_signed": int(m == ("S8x4",))}
    if "S16x2" in m or "U16x2" in m:
        return BY_NAME["imnmx.16x2"], {**fields, **_of_shorts(m)}
    if "RELU" in m:
        only(m, "RELU", "S32")
        same = {f"c{part}": fields[f"b{part}"] for part in memory_layout.OPERAND_PARTS}
        return BY_NAME["imnmx3.s"], {**fields, **same, "above_zero": 1}
    only(m, "U32", "S32")
    return BY_NAME["imnmx.u" if "U32" in m else "imnmx.s"], fields


def _no_carries(o: Operands) -> None:
    """The predicates that tell which of the two it was, if they are there: nothing may want them."""
    if set(_carries(o)) != {memory_layout.NO_PREDICATE}:
        raise Unknown("which of the two it is")


@opcode("VIMNMX3", "UVIMNMX3", cls="int32")
def _vimnmx3(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "U32", "S32", "RELU")
    if "U32" in m and "RELU" in m:
        raise Unknown("numbers without a sign held against 0")
    fields = {"dst": o.destination()}
    _no_carries(o)
    fields |= {**o.integer("a"), **o.integer("b"), **o.integer("c"), **o.predicate_in()}
    return BY_NAME["imnmx3.u" if "U32" in m else "imnmx3.s"], {**fields, "above_zero": int("RELU" in m)}


@opcode("VIADDMNMX", cls="int32")
def _viaddmnmx(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    fields = {"dst": o.destination(), **o.integer("a"), **o.integer("b"), **o.integer("c")}
    fields |= o.predicate_in()
    if "S16x2" in m or "U16x2" in m:
        return BY_NAME["iaddmnmx.16x2"], {**fields, **_of_shorts(m)}
    only(m, "U32", "RELU")
    if "U32" in m and "RELU" in m:
        raise Unknown("numbers without a sign held against 0")
    return BY_NAME["iaddmnmx.u" if "U32" in m else "iaddmnmx.s"], {**fields, "above_zero": int("RELU" in m)}


@opcode("PRMT", "UPRMT", cls="int32")
def _prmt(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m)
    return BY_NAME["prmt"], {"dst": o.destination(), **o.integer("a"), **o.integer("b"), **o.integer("c")}


def _one_source(name: str) -> Reader:
    def read(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
        only(m)
        return BY_NAME[name], {"dst": o.destination(), **o.integer("a")}

    return read


ROWS["POPC"] = Row(_one_source("popc"), "sfu")
ROWS["UPOPC"] = Row(_one_source("popc"), "int32", True)
ROWS["BREV"] = Row(_one_source("brev"), "sfu")
ROWS["UBREV"] = Row(_one_source("brev"), "int32", True)
ROWS["IABS"] = Row(_one_source("iabs"), "int32")


@opcode("FLO", cls="sfu")
def _flo(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "U32", "SH")
    form = {"is_signed": int("U32" not in m), "as_shift": int("SH" in m)}
    return BY_NAME["flo"], {"dst": o.destination(), **o.integer("a"), **form}


ROWS["UFLO"] = Row(_flo, "int32", True)


@opcode("R2UR", cls="int32")
def _r2ur(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """With a predicate, which tells whether the lanes' values differ: compiled code that is given a mask goes
    the short way where they do not and the mask's lanes are here (BRA.DIV). With a guard, it tells the lanes
    whose turn comes later, of all values that they have (OR)."""
    only(m, "OR", "BROADCAST", "FILL")  # of a chosen lane, in newer code; what MOV.SPILL has kept
    guard = o.instruction.predicate
    always = guard is None or guard.always
    if not o.peek_predicate():
        if always and "FILL" not in m:
            return BY_NAME["mov"], {"dst": o.destination(), **o.integer("a")}
        # Of lanes with values of their own, one has been chosen (ELECT); or those that run now have kept one.
        return READ_CHOSEN, {"dst": o.destination(), **o.integer("a")}
    return MATCH, {
        "predicate_dst": o.predicate_out(),
        "dst": o.destination(),
        **o.integer("a"),
        "mode": DIFFERENT if always else MORE_OTHERS if "OR" in m else OTHERS,
    }


@opcode("IDP", cls="imad")
def _idp(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "4A", "2A", "LO", "HI", "S8", "U8", "S16", "U16")
    if (m[:1] != ("4A",) or len(m) != 3) and (m[:1] != ("2A",) or len(m) != 4):
        raise Unknown("the product")
    fields = {"dst": o.destination(), **o.integer("a"), **o.integer("b"), **o.integer("c")}
    fields |= {"is_signed": int(m[-2].startswith("S")), "b_is_signed": int(m[-1] == "S8")}
    if m[0] == "2A":
        return BY_NAME["idp2a"], {**fields, "upper_bytes": int(m[1] == "HI")}
    return BY_NAME["idp4a"], fields


@opcode("VABSDIFF", "VABSDIFF4", cls="int32")
def _vabsdiff(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """The distance of two words and a third one, or of their bytes, in sum or side by side."""
    bytes_ = o.instruction.opcode == "VABSDIFF4"
    only(m, *(("U8", "S8", "ACC") if bytes_ else ("U32", "S32")))
    fields = {"dst": o.destination(), **o.integer("a"), **o.integer("b")}
    if bytes_ and "ACC" not in m and o.texts[o.next] != "RZ":
        raise Unknown("its operands")
    fields |= o.integer("c")
    if bytes_:
        return BY_NAME["vabsdiff4"], {**fields, "is_signed": int("S8" in m), "sums_bytes": int("ACC" in m)}
    return BY_NAME["vabsdiff"], {**fields, "is_signed": int("U32" not in m)}


@opcode("SGXT", "USGXT", cls="int32")
def _sgxt(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "U32", "W")
    fields = {"dst": o.destination(), **o.integer("a"), **o.integer("b"), "is_signed": int("U32" not in m)}
    if "W" in m:  # by a count of bits modulo 32
        fields["b_and"] &= 31
    return BY_NAME["sgxt"], fields


@opcode("BMSK", "UBMSK", cls="int32")
def _bmsk(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "W", "C")
    return BY_NAME["bmsk"], {
        "dst": o.destination(),
        **o.integer("a"),
        **o.integer("b"),
        "wraps": int("W" in m),
    }
