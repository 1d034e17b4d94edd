"""The table's rows for barriers in shared memory, the copy engine, and what goes with them: SYNCS, ARRIVES,
UTMALDG, UTMASTG, UTMAREDG, UTMAPF, UBLKCP, UBLKRED, UBLKPF, ELECT, USETMAXREG.
"""

from __future__ import annotations

import re
from typing import Final

from smlab.sim.isa import memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.decode.memory import wide
from smlab.sim.isa.decode.micro import only, opcode
from smlab.sim.isa.decode.operands import Operands, Source, Unknown, register_offset

_UNIFORM: Final = re.compile(r"\[UR(\d+|Z)\]$")
_COUNTS: Final = {
    "A1T0": (d.ONE, d.NO_COUNT),
    "ART0": (d.FROM_REGISTER, d.NO_COUNT),
    "A0TR": (d.NO_COUNT, d.FROM_REGISTER),
    "A0T1": (d.NO_COUNT, d.ONE),
    "A0TX": (d.NO_COUNT, d.MINUS_REGISTER),
}
"""Of an arrival, by its modifier: arrivals, and bytes that are to come or have come."""
Fields = tuple[int, dict[str, int]]


@opcode("SYNCS", cls="shared-load")
def _syncs(o: Operands, m: tuple[str, ...]) -> Fields:
    if m[0] == "CCTL":
        only(m, "CCTL", "IV")
        return d.MEMORY_BARRIER, {"action": d.GIVE_BARRIER_UP, **wide(o.address(), (), d.SHARED)}
    if m[0] == "EXCH":
        only(m, "EXCH", "64")
        fields = {"action": d.SET_BARRIER, "dst": o.destination()}
    elif m[0] == "PHASECHK":
        only(m, "PHASECHK", "TRANS64", "TRYWAIT")
        fields = {"action": d.CHECK_PHASE, "phase_predicate": o.predicate_out()}
    elif m[:2] == ("ARRIVE", "TRANS64"):
        only(m[2:], "RED", "OPTOUT", *_COUNTS)
        named = [x for x in m if x in _COUNTS]
        arrivals, transactions = _COUNTS[named[0]] if named else (d.ONE, d.FROM_REGISTER)
        remote = "RED" in m
        fields = {"action": d.ARRIVE_AT_BARRIER, "dst": o.destination(), "drops": int("OPTOUT" in m)}
        fields |= {"arrivals": arrivals, "transactions": transactions, "remote": int(remote)}
    else:
        raise Unknown(f"the form {'.'.join(m)}")
    fields |= {**wide(o.address(), (), d.SHARED), "width_bytes": 8}
    return d.MEMORY_BARRIER, {**fields, **o.integer("c")}


_AFTER_COPIES: Final = {
    ("LDGSTSBAR", "64"): {"arrivals": d.ONE, "in_halves": 1},
    ("LDGSTSBAR", "64", "ARVCNT"): {"arrivals": d.ONE},
    ("LDGSTSBAR", "64", "TRANSCNT"): {"transactions": d.ONE},
}
"""What an arrival behind copies is, by its modifiers: one at a barrier of sm_80 or of later machines, or a
byte that was counted before."""


@opcode("ARRIVES", cls="shared-load")
def _arrives(o: Operands, m: tuple[str, ...]) -> Fields:
    """An arrival that is there when the copies by lanes that the warp has issued are."""
    if m not in _AFTER_COPIES:
        raise Unknown(f"the form {'.'.join(m)}")
    fields = {"action": d.ARRIVE_AFTER_COPIES, "dst": memory_layout.dump_at(), **_AFTER_COPIES[m]}
    return d.MEMORY_BARRIER, {**fields, **wide(o.address(), (), d.SHARED), "width_bytes": 8}


def _pair(o: Operands) -> int:
    """The first of the uniform registers that an operand ``[UR8]`` stands for."""
    match = _UNIFORM.match(o.text())
    if match is None:
        raise Unknown(f"the operand {o.texts[o.next - 1]}")
    return register_offset(True, match[1])


NAMED_ROWS: Final = 4
"""How many rows of a matrix a gather or a scatter names, behind the first column."""


def _tensor(o: Operands, m: tuple[str, ...], to_global: bool) -> Fields:
    """A copy by a tensor map. A hint for the caches changes nothing here."""
    dimensions = m[0].removesuffix("D")
    several = m[1:] == ("MULTICAST",) and not to_global
    rows = m == ("2D", "SCATTER4" if to_global else "GATHER4")
    if dimensions not in ("1", "2", "3", "4", "5") or (len(m) > 1 and not several and not rows):
        raise Unknown(f"the form {'.'.join(m)}")
    fields = {**Source(_pair(o), True).fields("a"), **Source(_pair(o), True).fields("b")}
    if several:
        fields |= o.integer("c")
    if o.more() and o.texts[o.next].startswith("desc["):
        o.text()
    numbers = {"dimensions": int(dimensions), "to_global": int(to_global), "multicast": int(several)}
    return d.BULK_COPY, {**fields, **numbers, "named_rows": NAMED_ROWS if rows else 0}


@opcode("UTMALDG", cls="uniform")
def _utmaldg(o: Operands, m: tuple[str, ...]) -> Fields:
    return _tensor(o, m, False)


@opcode("UTMASTG", cls="uniform")
def _utmastg(o: Operands, m: tuple[str, ...]) -> Fields:
    return _tensor(o, m, True)


_REDUCTIONS: Final = {
    **{"ADD": d.ADD, "MIN": d.MIN, "MAX": d.MAX, "INC": d.INC, "DEC": d.DEC},
    **{"AND": d.AND, "OR": d.OR, "XOR": d.XOR},
}
_REDUCED: Final = {
    **{"": d.U32, "S32": d.S32, "U64": d.U64, "S64": d.S64, "F32.RN": d.FLOAT32, "F64.RN": d.FLOAT64},
    **{"F16.RN": d.HALF_PAIR, "BF16.RN": d.BFLOAT16_PAIR},
}


def _reduction(m: tuple[str, ...]) -> dict[str, int]:
    """What a copy does with what lies in global memory, and, where no tensor map says so, with which type."""
    operation, kind = _REDUCTIONS.get(m[0] if m else ""), _REDUCED.get(".".join(m[1:]))
    if operation is None or kind is None:
        raise Unknown(f"the reduction {'.'.join(m)}")
    return {"is_reduction": 1, "operation": operation, "number_type": kind}


@opcode("UTMAREDG", cls="uniform")
def _utmaredg(o: Operands, m: tuple[str, ...]) -> Fields:
    code, fields = _tensor(o, m[:1], True)
    return code, {**fields, **_reduction(m[1:])}


@opcode("UBLKRED", cls="uniform")
def _ublkred(o: Operands, m: tuple[str, ...]) -> Fields:
    """Consecutive bytes of shared memory, combined with those of global memory."""
    if m[:2] != ("G", "S"):
        raise Unknown(f"the form {'.'.join(m)}")
    code, fields = _ublkcp(o, m[:2])
    return code, {**fields, **_reduction(m[2:])}


@opcode("UBLKPF", cls="uniform")
def _ublkpf(o: Operands, m: tuple[str, ...]) -> Fields:
    """Asks L2 for consecutive bytes."""
    only(m, "L2")
    fields = {**Source(_pair(o), True).fields("b"), **o.integer("c")}
    return d.BULK_COPY, {**fields, "dimensions": 0, "to_global": 0, "to_l2": 1}


@opcode("UTMAPF", cls="uniform")
def _utmapf(o: Operands, m: tuple[str, ...]) -> Fields:
    """Asks L2 for a box of a tensor; the first operand has the coordinates alone."""
    if m[0] != "L2":
        raise Unknown(f"the form {'.'.join(m)}")
    code, fields = _tensor(o, m[1:], False)
    return code, {**fields, "to_l2": 1}


@opcode("UBLKCP", cls="uniform")
def _ublkcp(o: Operands, m: tuple[str, ...]) -> Fields:
    """Consecutive bytes, 16 times the low half of the third operand; ``S.G``: to shared memory, of the blocks
    that its high half has bits for with ``MULTICAST``."""
    to_global, several = m[0] == "G", m[2:] == ("MULTICAST",)
    if ".".join(m) not in ("S.G", "G.S", "S.G.MULTICAST"):
        raise Unknown(f"the form {'.'.join(m)}")
    first, second = _pair(o), _pair(o)
    shared, far = (second, first) if to_global else (first, second)
    fields = {**Source(shared, True).fields("a"), **Source(far, True).fields("b"), **o.integer("c")}
    if o.more() and o.texts[o.next].startswith("desc["):
        o.text()
    return d.BULK_COPY, {**fields, "dimensions": 0, "to_global": int(to_global), "multicast": int(several)}


@opcode("UTMACMDFLUSH", cls="uniform")
def _flush(o: Operands, m: tuple[str, ...]) -> Fields:
    """Closes a group of copies to global memory, which are done when they issue."""
    only(m)
    return d.NOP, {}


@opcode("UTMACCTL", cls="uniform")
def _tensor_map_cache(o: Operands, m: tuple[str, ...]) -> Fields:
    only(m, "PF", "IV")
    o.text()
    return d.NOP, {}


@opcode("UCGABAR_ARV", cls="uniform")
def _arrive_in_cluster(o: Operands, m: tuple[str, ...]) -> Fields:
    only(m)
    return d.CLUSTER_ARRIVE, {}


@opcode("UCGABAR_WAIT", cls="uniform")
def _await_cluster(o: Operands, m: tuple[str, ...]) -> Fields:
    only(m)
    return d.CLUSTER_WAIT, {}


@opcode("ELECT", cls="vote")
def _elect(o: Operands, m: tuple[str, ...]) -> Fields:
    only(m)
    fields = {"predicate_dst": o.predicate_out(), "dst": o.destination()}
    if o.texts[o.next] == "~URZ":  # of all lanes
        o.text()
        return d.ELECT, fields
    return d.ELECT, {**fields, **o.predicate_in()}


@opcode("USETMAXREG", cls="uniform")
def _usetmaxreg(o: Operands, m: tuple[str, ...]) -> Fields:
    """Registers from the block's pool, or back to it. Each warp has all that the code names."""
    only(m, "TRY_ALLOC", "DEALLOC", "CTAPOOL")
    if "TRY_ALLOC" not in m:
        o.text()
        return d.NOP, {}
    fields = {"predicate_dst": o.predicate_out(), "dst": memory_layout.dump_at(), "mode": 0}
    o.text()
    return d.VOTE, fields
