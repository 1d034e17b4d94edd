"""The table of opcodes: what each becomes, and where it goes.

A row holds an opcode's reader, which turns operands and modifiers into the fields of a micro-operation, and
its instruction class (pipe, unit, latency), by the names of `sim.instructions`. An opcode or a form that
has no row is refused by name; nothing is skipped.
"""

from __future__ import annotations

import re
from typing import Final

from smlab.hw_bench.sass import Function, SassInstruction
from smlab.sim.instructions import LONG_NUMBERS
from smlab.sim.isa.decode import (  # noqa: F401  (each registers its rows)
    asynchronous_units,
    floats,
    halves,
    integers,
    lanes,
    memory,
    tensor,
    tensor_memory,
)
from smlab.sim.isa.decode.control import LABELS
from smlab.sim.isa.decode.micro import ROWS, MicroOperation
from smlab.sim.isa.decode.operands import (
    OperandRows,
    Operands,
    Unknown,
    predicate_fields,
    refuse,
)
from smlab.sim.isa.operation_codes import (
    ATOMIC,
    COUNT,
    LOAD,
    NOP,
    SHARED,
    SPIN,
    SWAP,
)

OPCODES: Final = tuple(sorted(ROWS))
_VARIABLE: Final = (
    "shared-load",
    "global-load",
    "global-reduce",
    "atomic-add",
    "atomic-cas",
    "atomic-popc-inc",
)
ATOMIC_CLASSES: Final = {SWAP: "atomic-cas", SPIN: "atomic-cas", COUNT: "atomic-popc-inc"}


def decode(function: Function, rows: OperandRows) -> tuple[MicroOperation, ...]:
    """The micro-operations of a kernel, one an instruction.

    Raises:
        SmlabError: naming the first instruction that has no row in the table, or not in this form.
    """
    LABELS.append({**function.labels, function.name: 0})
    digits = re.sub(r"\D", "", function.architecture) or "80"
    capability = int(digits[:-1] or 0), int(digits[-1])
    try:
        return tuple(_decoded(i, rows, function.name, capability) for i in function.instructions)
    finally:
        LABELS.pop()


def _decoded(
    instruction: SassInstruction, rows: OperandRows, where: str, compute_capability: tuple[int, int] = (8, 0)
) -> MicroOperation:
    if instruction.never_executed:
        return MicroOperation(instruction, NOP, "control")
    row = ROWS.get(instruction.opcode)
    if row is None:
        raise refuse(instruction, where)
    operands = Operands(instruction, rows, compute_capability)
    try:
        code, fields = row.read(operands, instruction.modifiers)
        operands.done()
        if instruction.predicate is not None:
            text = f"{'!' if instruction.predicate.negated else ''}{instruction.predicate.register}"
            fields |= predicate_fields(text, "guard")
    except Unknown as unknown:
        raise refuse(instruction, where, str(unknown)) from None
    except (ValueError, KeyError, IndexError, StopIteration, OverflowError):
        raise refuse(instruction, where, "its operands") from None
    cls = "uniform" if row.uniform and row.cls != "vote" else row.cls
    if code == ATOMIC and fields["space"] == SHARED:
        cls = ATOMIC_CLASSES.get(fields["operation"], cls)
    if cls == "conversion" and not LONG_NUMBERS.isdisjoint(instruction.modifiers):
        cls = "fp64-conversion"
    returns = code == LOAD or (code == ATOMIC and instruction.opcode not in ("RED", "REDG"))
    if row.uniform or instruction.opcode in ("S2UR", "R2UR", "LDCU", "CS2UR"):
        fields["uniform"] = 1
    return MicroOperation(instruction, code, cls, fields, returns)
