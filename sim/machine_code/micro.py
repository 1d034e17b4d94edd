"""A micro-operation, and the table of opcodes as its rows are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from smlab.hw_bench.sass import SassInstruction
from smlab.sim.machine_code import record
from smlab.sim.machine_code.codes import ATOMIC, COPY, LOAD, LOAD_CONSTANT, LOAD_MATRIX, STORE
from smlab.sim.machine_code.operands import Operands, Unknown
from smlab.sim.machine_code.vector_operation import FLUSH, SATURATE


@dataclass(frozen=True)
class MicroOperation:
    """One instruction as it is executed: its code, fields by name, and its instruction class."""

    instruction: SassInstruction
    code: int
    cls: str
    fields: dict[str, int] = field(default_factory=dict)
    returns: bool = False

    @property
    def bits(self) -> int:
        """What a lane of a memory access moves, 32 at least."""
        if self.code == LOAD_MATRIX:
            return 32 * (self.fields["i"] & 7)
        return (
            max(32, 8 * self.fields.get("width", 4))
            if self.code in (LOAD, STORE, ATOMIC, LOAD_CONSTANT, COPY)
            else 32
        )

    def words(self) -> list[int]:
        values = {
            "guard": record.PT,
            "p": record.PT,
            "q": record.PT,
            "pd": record.NO_PREDICATE,
            "qd": record.NO_PREDICATE,
            **self.fields,
            "code": self.code,
        }
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


ROWS: dict[str, Row] = {}


def opcode(*names: str, cls: str) -> Callable[[Reader], Reader]:
    def keep(read: Reader) -> Reader:
        for name in names:
            ROWS[name] = Row(read, cls, name.startswith("U"))
        return read

    return keep


def only(modifiers: tuple[str, ...], *known: str) -> None:
    for modifier in modifiers:
        if modifier not in known:
            raise Unknown(f"the modifier .{modifier}")


MODES: Final = {"RN": 0, "RM": 1, "RP": 2, "RZ": 3}


def float_flags(modifiers: tuple[str, ...], *known: str) -> int:
    only(modifiers, *MODES, "FTZ", "SAT", *known)
    flags = FLUSH * ("FTZ" in modifiers) + SATURATE * ("SAT" in modifiers)
    return flags + sum(MODES.get(m, 0) for m in modifiers)


RELATIONS: Final = {
    "F": 0,
    "LT": 1,
    "EQ": 2,
    "LE": 3,
    "GT": 4,
    "NE": 5,
    "GE": 6,
    "NUM": 7,
    "NAN": 8,
    "LTU": 9,
    "EQU": 10,
    "LEU": 11,
    "GTU": 12,
    "NEU": 13,
    "GEU": 14,
    "T": 15,
}
COMBINE: Final = {"AND": 0, "OR": 1, "XOR": 2}


def setp(o: Operands, m: tuple[str, ...], integer: bool) -> dict[str, int]:
    relations = [RELATIONS[x] for x in m if x in RELATIONS]
    combined = [COMBINE[x] for x in m if x in COMBINE]
    if len(relations) != 1 or len(combined) != 1:
        raise Unknown("the comparison")
    relation = relations[0]
    if not integer and relation == 5:  # for floats NE is not for NaN
        relation = 5
    return {"i": relation, "j": combined[0], "pd": o.predicate_out(), "qd": o.predicate_out()}
