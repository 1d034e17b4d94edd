"""The table's rows for special registers, predicates and exchange between lanes."""

from __future__ import annotations

from smlab.sim.isa import memory_layout
from smlab.sim.isa.decode.micro import only, opcode
from smlab.sim.isa.decode.operands import (
    Operands,
    Unknown,
    is_predicate,
)
from smlab.sim.isa.meanings.vector_meanings import BY_NAME
from smlab.sim.isa.operation_codes import (
    ADD,
    AND,
    EVERYONE,
    FLOAT32,
    MATCH,
    MAX,
    MIN,
    OR,
    P2R,
    PLOP3,
    R2P,
    REDUCE,
    S32,
    SAME,
    SHUFFLE,
    SPECIAL,
    SPECIALS,
    U32,
    VOTE,
    XOR,
)


@opcode("S2R", "S2UR", cls="special-register")
def _s2r(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m)
    return SPECIAL, {"dst": o.destination(), **_special(o.text()), "width_bytes": 4}


@opcode("CS2R", "CS2UR", cls="int32")
def _cs2r(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "32")
    return SPECIAL, {"dst": o.destination(), **_special(o.text()), "width_bytes": 4 if "32" in m else 8}


def _special(name: str) -> dict[str, int]:
    if name == "SR_CgaSize":  # what places of constant bank 0 are told by (`constant_bank`)
        name = "SRZ"
    if name not in SPECIALS:
        raise Unknown(f"the special register {name}")
    return {"special_register": SPECIALS[name]}


@opcode("PLOP3", "UPLOP3", cls="int32")
def _plop3(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "LUT")
    fields = {"predicate_dst": o.predicate_out(), "predicate_dst_b": o.predicate_out()}
    if o.takes_signs(3):
        for name in "abc":
            fields |= o.integer(name)
        return BY_NAME["signs"], {**fields, "truth_table": o.byte(), "truth_table_b": o.byte()}
    fields |= {**o.predicate_in(), **o.predicate_in("predicate_b")}
    fields |= o.predicate_in("predicate_c")
    fields |= {"truth_table": o.byte(), "truth_table_b": o.byte()}
    return PLOP3, fields


@opcode("VOTE", "VOTEU", cls="vote")
def _vote(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "ANY", "ALL", "EQ")
    kind = {"ANY": 0, "ALL": 1, "EQ": 2}[m[0]]
    fields = {"dst": memory_layout.dump_at(), "predicate_dst": memory_layout.NO_PREDICATE, "mode": kind}
    while o.more():
        text = o.texts[o.next]
        if not is_predicate(text):
            fields["dst"] = o.destination()
        elif o.next == len(o.texts) - 1:
            fields |= o.predicate_in()
        else:
            fields["predicate_dst"] = o.predicate_out()
    return VOTE, fields


@opcode("SHFL", cls="shuffle")
def _shfl(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "IDX", "UP", "DOWN", "BFLY")
    fields = {"predicate_dst": o.predicate_out(), "dst": o.destination()}
    fields |= {**o.integer("a"), **o.integer("b"), **o.integer("c")}
    return SHUFFLE, {**fields, "mode": {"IDX": 0, "UP": 1, "DOWN": 2, "BFLY": 3}[m[0]]}


@opcode("MATCH", cls="match")
def _match(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "ANY", "ALL", "U64")
    if "ALL" in m:
        fields = {"predicate_dst": o.predicate_out(), "dst": o.destination()}
    else:
        fields = {"dst": o.destination()}
    long = "U64" in m
    return MATCH, {
        **fields,
        **(o.long("a") if long else o.integer("a")),
        "mode": SAME if "ALL" in m else EVERYONE,
        "is_64_bit": int(long),
    }


@opcode("REDUX", "CREDUX", cls="redux")
def _redux(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    if "F32" in m:
        return _least_or_greatest_single(o, m)
    only(m, "SUM", "MIN", "MAX", "AND", "OR", "XOR", "S32", "U32")
    kinds = {"SUM": ADD, "MIN": MIN, "MAX": MAX, "AND": AND, "OR": OR, "XOR": XOR}
    kind = next((kinds[x] for x in m if x in kinds), AND)
    return REDUCE, {
        "dst": o.destination(),
        **o.integer("a"),
        "operation": kind,
        "number_type": S32 if "S32" in m else U32,
    }


def _least_or_greatest_single(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """Of all lanes, or of their magnitudes (sm_100 and sm_103)."""
    only(m, "MIN", "MAX", "MINABS", "MAXABS", "F32", "NAN")
    fields = {"dst": o.destination(), **o.single("a"), "number_type": FLOAT32, "nan_wins": int("NAN" in m)}
    if m[0].endswith("ABS"):
        fields |= {"a_and": 0x7FFFFFFF, "a_xor": 0}
    return REDUCE, {**fields, "operation": MIN if m[0].startswith("MIN") else MAX}


@opcode("R2P", cls="int32")
def _r2p(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m)
    if o.text() != "PR":
        raise Unknown("the destination")
    return R2P, {**o.integer("a"), **o.integer("b")}


@opcode("P2R", "UP2UR", cls="int32")
def _p2r(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """Predicates as bits of a register, or uniform predicates (UPR) of a uniform one."""
    only(m)
    fields = {"dst": o.destination()}
    source = o.text()
    if source not in ("PR", "UPR"):
        raise Unknown("the source")
    fields["mode"] = (memory_layout.PT + 1) * (source == "UPR")
    return P2R, {**fields, **o.integer("a"), **o.integer("b")}
