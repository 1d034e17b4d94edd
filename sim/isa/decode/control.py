"""The table's rows for branches, convergence, calls and barriers."""

from __future__ import annotations

from typing import Final

from smlab.hw_bench.sass import SassInstruction
from smlab.sim.isa import memory_layout
from smlab.sim.isa.decode.micro import (
    ROWS,
    Reader,
    Row,
    only,
    opcode,
)
from smlab.sim.isa.decode.operands import (
    M32,
    Operands,
    Source,
    Unknown,
    is_predicate,
    whole_bits,
)
from smlab.sim.isa.meanings.vector_meanings import BY_NAME
from smlab.sim.isa.memory_layout import BARRIERS
from smlab.sim.isa.operation_codes import (
    BARRIER,
    BARRIER_RESULT,
    BMOV_IN,
    BMOV_OUT,
    BRANCH,
    BRANCH_ANY,
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

UNTIMED: Final = (
    "CCTL",
    "CGAERRBAR",
    "FENCE",
    "ENDCOLLECTIVE",
    "NANOSLEEP",
    "PMTRIG",
    "ACQBULK",
    "PREEXIT",
)
"""What a GPU takes time for and the simulated one does not, beyond the issue; a run says so."""

OF_FENCES: Final = ("MEMBAR", "ERRBAR")
"""What has its time in machine code, but not in a trace, which does not say what a fence waits for."""


def _nothing(*known: str) -> Reader:
    def read(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
        o.next = len(o.texts)
        return NOP, {}

    return read


def is_fence(instruction: SassInstruction) -> bool:
    """Whether it waits until its warp's accesses to global memory are done: a MEMBAR beyond its block."""
    return instruction.opcode == "MEMBAR" and "CTA" not in instruction.modifiers


def is_shared_fence(instruction: SassInstruction) -> bool:
    """Whether it waits until its warp's stores to shared memory are done, which the copy engine and products
    by groups of warps then see: PTX's ``fence.proxy.async``."""
    return instruction.opcode == "FENCE" and "ASYNC" in instruction.modifiers


def is_system_fence(instruction: SassInstruction) -> bool:
    """Whether it waits for the host and other GPUs as well."""
    return is_fence(instruction) and "SYS" in instruction.modifiers


def branches_to_register(instruction: SassInstruction) -> bool:
    """Whether it goes on at an address that a register holds, as a return does."""
    return instruction.opcode in ("RET", "BRX", "BRXU", "JMX")


def awaits_errors(instruction: SassInstruction) -> bool:
    """Whether it waits for what accesses before a fence may have done wrong."""
    return instruction.opcode == "ERRBAR"


def asks_l2(instruction: SassInstruction) -> bool:
    """Whether a load or a copy goes to L2 whatever L1 has: a copy past L1, or a strong load of a scope beyond
    the SM (``ld.volatile``, ``ld.relaxed.gpu``, ``ld.global.cg``). PTX caches those from L2 on, as L1 is not
    coherent."""
    words = instruction.modifiers
    if instruction.opcode == "LDGSTS":
        return "BYPASS" in words
    return instruction.opcode in ("LDG", "LD") and "STRONG" in words and ("GPU" in words or "SYS" in words)


def empties_l1(instruction: SassInstruction) -> bool:
    """Whether L1 forgets what it holds, as behind a fence."""
    return instruction.opcode == "CCTL" and "IVALL" in instruction.modifiers


for _name in ("NOP", "WARPSYNC_NONE", "NANOSLEEP_NONE", "LDGDEPBAR", "DEPBAR", *OF_FENCES, *UNTIMED):
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
    return EXIT, o.predicate_in() if o.more() else {}


@opcode("BPT", cls="control")
def _bpt(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    o.next = len(o.texts)
    return KILL, {}


@opcode("BRA", cls="control")
def _bra(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "U", "CONV", "DIV", "ANY")
    fields = {"unanimous": int("U" in m)}
    if "ANY" in m:
        return BRANCH_ANY, {"target": _target(o.text())}
    if "CONV" in m or "DIV" in m:
        # The lanes that count; ~URZ, or none named: all.
        mask = o.integer("a") if len(o.texts) > 1 else Source(o.rows.place(M32), False).fields("a")
        label = o.text()
        return BRANCH_SPLIT, {**mask, "target": _target(label), "when_split": int("DIV" in m)}
    if is_predicate(o.texts[o.next]):
        fields |= o.predicate_in()
    return BRANCH, {**fields, "target": _target(o.text())}


LABELS: list[dict[str, int]] = [{}]


def _target(text: str) -> int:
    """The number of the instruction that a label stands for."""
    labels = LABELS[-1]
    name = text[2:-1] if text.startswith("`(") else text
    if name in labels:
        return labels[name] // 16
    if text.startswith("0x"):
        return whole_bits(text, "the target", 40) // 16
    raise Unknown(f"the target {text}")


@opcode("CALL", cls="control")
def _call(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "REL", "NOINC", "ABS")
    if o.texts[0].startswith("R"):
        return _to_register(o)
    return BRANCH, {"target": _target(o.text())}


@opcode("RET", cls="control")
def _ret(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "REL", "NODEC", "ABS")
    return _to_register(o)


def _to_register(o: Operands) -> tuple[int, dict[str, int]]:
    """A jump to what a register holds, from a label on."""
    register, _, base = o.texts[0].partition(" ")
    o.texts[:] = [register, *([base] if base else []), *o.texts[1:]]
    fields = o.integer("a")
    fields["base_instruction"] = _target(o.text()) if o.more() else 0
    return JUMP, fields


@opcode("LEPC", cls="int32")
def _lepc(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """The address of the instruction itself or, since Hopper, of a label, in a pair of registers."""
    only(m)
    fields = {
        "dst": o.destination(),
        "predicate_dst": memory_layout.NO_PREDICATE,
        "predicate_a": memory_layout.PT,
        "predicate_a_xor": M32,
    }
    address = 16 * _target(o.text()) if o.more() else o.instruction.address
    none = Source(o.rows.place(0), False)
    fields |= {**none.fields("a"), **none.fields("b")}
    return BY_NAME["imul.wide.u"], {**fields, **Source(o.rows.place(address, 0), False).fields("c")}


@opcode("BRX", cls="control")
def _brx(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m)
    fields = o.predicate_in() if is_predicate(o.texts[o.next]) else {}
    register, _, base = o.texts[o.next].partition(" ")  # nvdisasm puts no comma between them
    o.texts[o.next :] = [register, *([base] if base else []), *o.texts[o.next + 1 :]]
    fields |= o.integer("a")
    text = o.text() if o.more() else "0x0"
    offset = whole_bits(text.split()[0], "the offset", 40)
    o.next = len(o.texts)
    return JUMP, {**fields, "offset_bytes": offset + o.instruction.address + 16}


_CONVERGENCE: Final = ("RECONVERGENT", "RELIABLE")
"""How the compiler uses a convergence barrier, which it says from sm_100 on; lanes meet the same way."""


@opcode("BSSY", cls="control")
def _bssy(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, *_CONVERGENCE)
    barrier = _barrier(o.text())
    _target(o.text())  # where the lanes meet: their BSYNC is there
    return BSSY, {"barrier": barrier}


def _barrier(text: str) -> int:
    digits = text[1:]
    if not text.startswith("B") or not (digits.isascii() and digits.isdigit()) or int(digits) >= BARRIERS:
        raise Unknown(f"the barrier {text}")
    return int(digits)


@opcode("BSYNC", "BREAK", cls="control")
def _bsync(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, *_CONVERGENCE)
    fields = o.predicate_in() if is_predicate(o.texts[o.next]) else {}
    code = BSYNC if o.instruction.opcode == "BSYNC" else BREAK
    return code, {**fields, "barrier": _barrier(o.text())}


@opcode("BMOV", cls="control")
def _bmov(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "32", "CLEAR")
    first = o.text()
    if first.startswith("B"):
        return BMOV_IN, {"barrier": _barrier(first), **o.integer("a")}
    o.next -= 1
    return BMOV_OUT, {"dst": o.destination(), "barrier": _barrier(o.text()), "clears": int("CLEAR" in m)}


@opcode("WARPSYNC", cls="control")
def _warpsync(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """With COLLECTIVE the label is that of the instruction behind the ENDCOLLECTIVE to come. Behind it, and
    behind EXCLUSIVE, compiled code votes among the lanes of one mask alone."""
    only(m, "ALL", "EXCLUSIVE", "COLLECTIVE")
    fields = Source(o.rows.place(M32), False).fields("a") if "ALL" in m else o.integer("a")
    if "COLLECTIVE" in m:
        o.text()
    return WARPSYNC, {**fields, "exclusive": int("COLLECTIVE" in m or "EXCLUSIVE" in m)}


@opcode("BAR", cls="barrier")
def _bar(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """A barrier's number, and the threads that it is for if not all of the block."""
    only(m, "SYNC", "ARV", "DEFER_BLOCKING", "RED", "POPC", "AND", "OR")
    if not {"SYNC", "ARV", "RED"} & set(m):
        raise Unknown("what it does")
    fields = {**o.integer("a"), "arrives_only": int("ARV" in m)}
    if o.more() and not is_predicate(o.texts[o.next]):
        fields |= o.integer("b")
    if "RED" in m:
        kind = {"POPC": 0, "AND": 1, "OR": 2}[next(x for x in m if x in ("POPC", "AND", "OR"))]
        fields |= {"reduces": 1, "reduction": kind, **o.predicate_in()}
    elif o.more():
        raise Unknown("its operands")
    return BARRIER, fields


@opcode("B2R", cls="sfu")
def _b2r(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "RESULT")
    fields = {"dst": o.destination()}
    if o.more():
        fields["predicate_dst"] = o.predicate_out()
    return BARRIER_RESULT, fields
