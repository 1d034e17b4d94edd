"""A micro-operation, and the table of opcodes as its rows are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from smlab.hw_bench.sass import SassInstruction
from smlab.sim.isa import memory_layout, operation_codes
from smlab.sim.isa.decode.operands import Operands, Unknown
from smlab.sim.isa.meanings.vector_meanings import OPERATIONS
from smlab.sim.isa.operation_codes import ATOMIC, COPY, LOAD, LOAD_CONSTANT, LOAD_MATRIX, STORE, STORE_MATRIX


def kind_of(code: int) -> str:
    """The kind of a code, by the names of `smlab.sim.isa.memory_layout.KINDS`."""
    return OPERATIONS[code].kind if code < len(OPERATIONS) else operation_codes.KINDS[code]


@cache
def _unset_words(kind: str) -> tuple[int, ...]:
    """The words of a micro-operation of a kind that sets no field."""
    words = [0] * memory_layout.WORDS
    for name, at in memory_layout.KINDS[kind].items():
        words[at] = memory_layout.UNSET.get(name, 0)
    return tuple(words)


@dataclass(frozen=True)
class MicroOperation:
    """One instruction as it is executed: its code, fields by name, and its instruction class.

    Raises:
        ValueError: a field that its kind of opcode does not have; this is an error of the table of opcodes.
    """

    instruction: SassInstruction
    code: int
    cls: str
    fields: dict[str, int] = field(default_factory=dict)
    returns: bool = False

    def __post_init__(self) -> None:
        if not self.fields.keys() <= self.layout.keys():
            wrong = ", ".join(sorted(self.fields.keys() - self.layout.keys()))
            raise ValueError(f"{self.instruction.opcode} sets {wrong}: not a field of {kind_of(self.code)}")

    @property
    def layout(self) -> Mapping[str, int]:
        """The fields that it may have, and their words."""
        return memory_layout.KINDS[kind_of(self.code)]

    @property
    def bits(self) -> int:
        """What a lane of a memory access moves, 32 at least."""
        if self.code in (LOAD_MATRIX, STORE_MATRIX):
            return 32 * self.fields["matrices"]
        return (
            max(32, 8 * self.fields.get("width_bytes", 4))
            if self.code in (LOAD, STORE, ATOMIC, LOAD_CONSTANT, COPY)
            else 64
            if self.fields.get("is_64_bit")
            else 32
        )

    @property
    def latency_bits(self) -> int:
        """The bits a lane whose passes the latency holds: a matrix of a load has a pass of its own, a load
        of constants one for each word that its lanes ask for."""
        alone = self.instruction.opcode in ("LDSM", "STSM") or self.code == LOAD_CONSTANT
        return 32 if alone else self.bits

    def words(self) -> list[int]:
        """Its words in memory; see `smlab.sim.isa.memory_layout.KINDS`."""
        layout, words = self.layout, list(_unset_words(kind_of(self.code)))
        for name, value in self.fields.items():
            words[layout[name]] = value
        words[memory_layout.PLACE["code"]] = self.code
        return words


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


def rounding_of(modifiers: tuple[str, ...]) -> int:
    return sum(MODES.get(m, 0) for m in modifiers)


def float_fields(modifiers: tuple[str, ...]) -> dict[str, int]:
    """How a result is rounded, and what is done to subnormals and to numbers outside of [0, 1]."""
    only(modifiers, *MODES, "FTZ", "SAT")
    flush, saturate = int("FTZ" in modifiers), int("SAT" in modifiers)
    return {"rounding": rounding_of(modifiers), "flush": flush, "saturate": saturate}


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


def comparison(m: tuple[str, ...]) -> dict[str, int]:
    """The relations that hold for a comparison, and how it is combined with a predicate."""
    relations = [RELATIONS[x] for x in m if x in RELATIONS]
    combined = [COMBINE[x] for x in m if x in COMBINE]
    if len(relations) != 1 or len(combined) != 1:
        raise Unknown("the comparison")
    return {"relations": relations[0], "combine": combined[0]}


def setp(o: Operands, m: tuple[str, ...]) -> dict[str, int]:
    return {
        **comparison(m),
        "predicate_dst": o.predicate_out(),
        "predicate_dst_b": o.predicate_out(),
    }
