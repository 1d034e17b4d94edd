"""The table's rows for branches, convergence, calls and barriers."""

from __future__ import annotations

from typing import Final

from smlab.sim.machine_code import record
from smlab.sim.machine_code.codes import (
    BARRIER,
    BARRIER_RESULT,
    BMOV_IN,
    BMOV_OUT,
    BRANCH,
    BRANCH_SPLIT,
    BREAK,
    BSSY,
    BSYNC,
    EXIT,
    JUMP,
    KILL,
    NOP,
    WARPSYNC,
    YIELD,
)
from smlab.sim.machine_code.meanings import BY_NAME
from smlab.sim.machine_code.micro import (
    ROWS,
    Reader,
    Row,
    only,
    opcode,
)
from smlab.sim.machine_code.operands import (
    M32,
    Operands,
    Source,
    Unknown,
    is_predicate,
)
from smlab.sim.machine_code.record import BARRIERS


def _nothing(*known: str) -> Reader:
    def read(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
        o.next = len(o.texts)
        return NOP, {}

    return read


for _name in (
    "NOP",
    "MEMBAR",
    "ERRBAR",
    "CCTL",
    "CGAERRBAR",
    "FENCE",
    "WARPSYNC_NONE",
    "ENDCOLLECTIVE",
    "NANOSLEEP_NONE",
    "LDGDEPBAR",
    "DEPBAR",
    "PMTRIG",
    "ACQBULK",
    "UCGABAR_ARV",
):
    ROWS[_name] = Row(_nothing(), "control")


def _plain(code: int, *known: str) -> Reader:
    def read(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
        only(m, *known)
        if o.more():
            raise Unknown("its operands")
        return code, {}

    return read


ROWS["YIELD"] = Row(_plain(YIELD), "control")


@opcode("NANOSLEEP", cls="control")
def _nanosleep(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    o.next = len(o.texts)
    return YIELD, {}


@opcode("EXIT", cls="control")
def _exit(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m)
    return EXIT, o.predicate_in("p") if o.more() else {}


@opcode("BPT", cls="control")
def _bpt(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    o.next = len(o.texts)
    return KILL, {}


@opcode("BRA", cls="control")
def _bra(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "U", "CONV", "DIV")
    fields: dict[str, int] = {}
    if "CONV" in m or "DIV" in m:
        # The lanes that count; ~URZ, or none named: all.
        mask = o.integer("a") if len(o.texts) > 1 else Source(o.rows.place(M32), False).fields("a")
        label = o.text()
        return BRANCH_SPLIT, {**mask, "i": _target(label), "j": int("DIV" in m)}
    if is_predicate(o.texts[o.next]):
        fields |= o.predicate_in("p")
    return BRANCH, {**fields, "i": _target(o.text())}


LABELS: list[dict[str, int]] = [{}]


def _target(text: str) -> int:
    """The number of the instruction that a label stands for."""
    labels = LABELS[-1]
    name = text[2:-1] if text.startswith("`(") else text
    if name in labels:
        return labels[name] // 16
    if text.startswith("0x"):
        return int(text, 16) // 16
    raise Unknown(f"the target {text}")


@opcode("CALL", cls="control")
def _call(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "REL", "NOINC", "ABS")
    if o.texts[0].startswith("R"):
        return _to_register(o)
    return BRANCH, {"i": _target(o.text())}


@opcode("RET", cls="control")
def _ret(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "REL", "NODEC", "ABS")
    return _to_register(o)


def _to_register(o: Operands) -> tuple[int, dict[str, int]]:
    """A jump to what a register holds, from a label on."""
    register, _, base = o.texts[0].partition(" ")
    o.texts[:] = [register, *([base] if base else []), *o.texts[1:]]
    fields = o.integer("a")
    fields["i"] = _target(o.text()) if o.more() else 0
    return JUMP, fields


@opcode("LEPC", cls="int32")
def _lepc(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """The address of the instruction itself or, since Hopper, of a label, in a pair of registers."""
    only(m)
    fields = {"dst": o.destination(), "pd": record.NO_PREDICATE, "p": record.PT, "p_xor": M32}
    address = 16 * _target(o.text()) if o.more() else o.instruction.address
    none = Source(o.rows.place(0), False)
    fields |= {**none.fields("a"), **none.fields("b")}
    return BY_NAME["imul.wide.u"], {**fields, **Source(o.rows.place(address, 0), False).fields("c")}


@opcode("BRX", cls="control")
def _brx(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m)
    fields = o.predicate_in("p") if is_predicate(o.texts[o.next]) else {}
    register, _, base = o.texts[o.next].partition(" ")  # nvdisasm puts no comma between them
    o.texts[o.next :] = [register, *([base] if base else []), *o.texts[o.next + 1 :]]
    fields |= o.integer("a")
    text = o.text() if o.more() else "0x0"
    offset = int(text.split()[0], 16)
    o.next = len(o.texts)
    return JUMP, {**fields, "offset": offset + o.instruction.address + 16, "i": 0}


_CONVERGENCE: Final = ("RECONVERGENT", "RELIABLE")
"""How the compiler uses a convergence barrier, which it says from sm_100 on; lanes meet the same way."""


@opcode("BSSY", cls="control")
def _bssy(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, *_CONVERGENCE)
    barrier = _barrier(o.text())
    return BSSY, {"j": barrier, "i": _target(o.text())}


def _barrier(text: str) -> int:
    digits = text[1:]
    if not text.startswith("B") or not (digits.isascii() and digits.isdigit()) or int(digits) >= BARRIERS:
        raise Unknown(f"the barrier {text}")
    return int(digits)


@opcode("BSYNC", "BREAK", cls="control")
def _bsync(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, *_CONVERGENCE)
    fields = o.predicate_in("p") if is_predicate(o.texts[o.next]) else {}
    code = BSYNC if o.instruction.opcode == "BSYNC" else BREAK
    return code, {**fields, "j": _barrier(o.text())}


@opcode("BMOV", cls="control")
def _bmov(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "32", "CLEAR")
    first = o.text()
    if first.startswith("B"):
        return BMOV_IN, {"j": _barrier(first), **o.integer("a")}
    o.next -= 1
    return BMOV_OUT, {"dst": o.destination(), "j": _barrier(o.text()), "i": int("CLEAR" in m)}


@opcode("WARPSYNC", cls="control")
def _warpsync(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """With COLLECTIVE the label is that of the instruction behind the ENDCOLLECTIVE to come."""
    only(m, "ALL", "EXCLUSIVE", "COLLECTIVE")
    if "ALL" in m:
        return WARPSYNC, Source(o.rows.place(M32), False).fields("a")
    fields = o.integer("a")
    if "COLLECTIVE" in m:
        o.text()
    return WARPSYNC, fields


@opcode("BAR", cls="barrier")
def _bar(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """A barrier's number, and the threads that it is for if not all of the block."""
    only(m, "SYNC", "ARV", "DEFER_BLOCKING", "RED", "POPC", "AND", "OR")
    if not {"SYNC", "ARV", "RED"} & set(m):
        raise Unknown("what it does")
    fields = {**o.integer("a"), "k": int("ARV" in m)}
    if o.more() and not is_predicate(o.texts[o.next]):
        fields |= o.integer("b")
    if "RED" in m:
        kind = {"POPC": 0, "AND": 1, "OR": 2}[next(x for x in m if x in ("POPC", "AND", "OR"))]
        fields |= {"i": 1, "j": kind, **o.predicate_in("p")}
    elif o.more():
        raise Unknown("its operands")
    return BARRIER, fields


@opcode("B2R", cls="sfu")
def _b2r(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "RESULT")
    fields = {"dst": o.destination()}
    if o.more():
        fields["pd"] = o.predicate_out()
    return BARRIER_RESULT, fields
