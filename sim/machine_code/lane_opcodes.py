"""The table's rows for special registers, predicates and exchange between lanes."""

from __future__ import annotations

from smlab.sim.machine_code import record
from smlab.sim.machine_code.codes import (
    ADD,
    AND,
    MATCH,
    MAX,
    MIN,
    OR,
    P2R,
    PLOP3,
    R2P,
    REDUCE,
    S32,
    SHUFFLE,
    SPECIAL,
    SPECIALS,
    U32,
    VOTE,
    XOR,
)
from smlab.sim.machine_code.micro import only, opcode
from smlab.sim.machine_code.operands import (
    Operands,
    Unknown,
    is_predicate,
    predicate_fields,
)


@opcode("S2R", "S2UR", cls="special-register")
def _s2r(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m)
    return SPECIAL, {"dst": o.destination(), **_special(o.text()), "width": 4}


@opcode("CS2R", "CS2UR", cls="int32")
def _cs2r(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "32")
    return SPECIAL, {"dst": o.destination(), **_special(o.text()), "width": 4 if "32" in m else 8}


def _special(name: str) -> dict[str, int]:
    if name not in SPECIALS:
        raise Unknown(f"the special register {name}")
    return {"i": SPECIALS[name]}


@opcode("PLOP3", "UPLOP3", cls="int32")
def _plop3(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "LUT")
    fields = {"pd": o.predicate_out(), "qd": o.predicate_out(), **o.predicate_in("p"), **o.predicate_in("q")}
    third = predicate_fields(o.text(), "r")
    fields |= {"width": third["r"], "offset": third["r_xor"], "i": int(o.text(), 16), "j": int(o.text(), 16)}
    return PLOP3, fields


@opcode("VOTE", "VOTEU", cls="vote")
def _vote(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "ANY", "ALL", "EQ")
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


@opcode("SHFL", cls="shuffle")
def _shfl(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "IDX", "UP", "DOWN", "BFLY")
    fields = {"pd": o.predicate_out(), "dst": o.destination()}
    fields |= {**o.integer("a"), **o.integer("b"), **o.integer("c")}
    return SHUFFLE, {**fields, "i": {"IDX": 0, "UP": 1, "DOWN": 2, "BFLY": 3}[m[0]]}


@opcode("MATCH", cls="match")
def _match(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "ANY", "ALL", "U64")
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


@opcode("REDUX", "CREDUX", cls="redux")
def _redux(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "SUM", "MIN", "MAX", "AND", "OR", "XOR", "S32", "U32")
    kinds = {"SUM": ADD, "MIN": MIN, "MAX": MAX, "AND": AND, "OR": OR, "XOR": XOR}
    kind = next((kinds[x] for x in m if x in kinds), AND)
    return REDUCE, {"dst": o.destination(), **o.integer("a"), "i": kind, "j": S32 if "S32" in m else U32}


@opcode("R2P", cls="int32")
def _r2p(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m)
    if o.text() != "PR":
        raise Unknown("the destination")
    return R2P, {**o.integer("a"), **o.integer("b")}


@opcode("P2R", cls="int32")
def _p2r(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m)
    fields = {"dst": o.destination()}
    if o.text() != "PR":
        raise Unknown("the source")
    return P2R, {**fields, **o.integer("a"), **o.integer("b")}
