"""One instruction of a listing, its control code, which no tool prints, and the function that it belongs
to."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

OperandKind = Literal[
    "register", "predicate", "barrier", "special", "immediate", "constant", "memory", "label", "other"
]

_REGISTER: Final = re.compile(r"\b(U?R(?:\d+|Z))\b")
_KINDS: Final[tuple[tuple[re.Pattern[str], OperandKind], ...]] = (
    (re.compile(r"`\("), "label"),
    (re.compile(r"[-|~!]*c(?:x)?\["), "constant"),
    (re.compile(r"(?:desc|gdesc|a|tex|t)?\["), "memory"),
    (re.compile(r"SRZ$|SR_|SR\d"), "special"),
    (re.compile(r"!?U?P(?:\d|T)\b"), "predicate"),
    (re.compile(r"S?B\d+$"), "barrier"),
    (re.compile(r"[-+|~!]*U?R(?:\d+|Z)\b"), "register"),
    (re.compile(r"[-+|~]*(?:0x[0-9a-f]+|\d|INF|QNAN|NAN)"), "immediate"),
)


_FIRST_BIT: Final = 41
NO_BARRIER: Final = 7
"""The barrier field's value for an instruction that sets none."""


@dataclass(frozen=True)
class ControlCode:
    """The scheduling fields of one instruction, Volta (``sm_70``) to Hopper (``sm_90``).

    ``stall_cycles`` is how long the scheduler waits before the warp's next instruction; ``yields`` hints that
    it may take another warp meanwhile. An instruction of variable latency frees ``write_barrier`` (0 to 5)
    when its result is there and ``read_barrier`` when its operands are read; ``wait_mask`` says which of the
    six barriers must be free before this instruction issues, one bit each. ``reuse`` has a bit for each
    source operand that stays in the operand cache.
    """

    stall_cycles: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    wait_mask: int
    reuse: int

    @classmethod
    def decode(cls, second_word: int) -> ControlCode:
        """Read the fields from the second 64-bit word of an instruction."""
        code = second_word >> _FIRST_BIT

        def barrier(field: int) -> int | None:
            return None if field == NO_BARRIER else field

        return cls(
            stall_cycles=code & 0xF,
            yields=not code >> 4 & 1,
            write_barrier=barrier(code >> 5 & 7),
            read_barrier=barrier(code >> 8 & 7),
            wait_mask=code >> 11 & 0x3F,
            reuse=code >> 17 & 0xF,
        )

    def waits_for(self, barrier: int) -> bool:
        """Whether the instruction issues only when this barrier (0 to 5) is free."""
        return bool(self.wait_mask >> barrier & 1)

    def __str__(self) -> str:
        """The usual short form: wait mask, read barrier, write barrier, yield, stall."""
        waits = "".join(str(i) if self.waits_for(i) else "-" for i in range(6))
        read = "-" if self.read_barrier is None else str(self.read_barrier)
        write = "-" if self.write_barrier is None else str(self.write_barrier)
        return f"{waits}:{read}:{write}:{'Y' if self.yields else '-'}:{self.stall_cycles}"


@dataclass(frozen=True)
class Predicate:
    """The guard of an instruction: executed only by lanes where the predicate register holds (or,
    ``negated``, not)."""

    register: str
    negated: bool = False

    @property
    def always(self) -> bool:
        return self.register in {"PT", "UPT"} and not self.negated

    @property
    def never(self) -> bool:
        return self.register in {"PT", "UPT"} and self.negated

    def __str__(self) -> str:
        return f"@{'!' if self.negated else ''}{self.register}"


@dataclass(frozen=True)
class Operand:
    """One operand as printed, with its kind and the general and uniform registers in it."""

    text: str

    @cached_property
    def kind(self) -> OperandKind:
        return next((kind for pattern, kind in _KINDS if pattern.match(self.text)), "other")

    @cached_property
    def registers(self) -> tuple[str, ...]:
        return tuple(_REGISTER.findall(self.text))

    @property
    def reused(self) -> bool:
        """Whether the register stays in the operand cache for the next instruction."""
        return ".reuse" in self.text

    @cached_property
    def value(self) -> int | None:
        """The value of a whole immediate; None for anything else."""
        if self.kind != "immediate" or not re.fullmatch(
            r"-?(?:0x[0-9a-f]{1,16}|0|[1-9][0-9]{0,19})", self.text
        ):
            return None
        return int(self.text, 0)

    @cached_property
    def label(self) -> str | None:
        """The name behind a label operand."""
        return self.text[2:-1] if self.kind == "label" else None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class SourceLine:
    """Where an instruction comes from; ``inlined_at`` leads outward through the calls that were inlined."""

    file: str
    line: int
    inlined_at: SourceLine | None = None

    @property
    def outermost(self) -> SourceLine:
        """The line of the kernel itself."""
        line = self
        while line.inlined_at is not None:
            line = line.inlined_at
        return line


@dataclass(frozen=True)
class SassInstruction:
    """One machine instruction.

    ``opcode`` is the first part of the mnemonic, ``modifiers`` the others: ``ATOMS.POPC.INC.32`` is opcode
    ``ATOMS`` with modifiers ``("POPC", "INC", "32")``. ``words`` are the two 64-bit words of its encoding,
    when they were printed.
    """

    address: int
    mnemonic: str
    operands: tuple[Operand, ...] = ()
    predicate: Predicate | None = None
    words: tuple[int, int] | None = None
    source: SourceLine | None = None

    @cached_property
    def opcode(self) -> str:
        return self.mnemonic.split(".", 1)[0]

    @cached_property
    def modifiers(self) -> tuple[str, ...]:
        return tuple(self.mnemonic.split(".")[1:])

    @cached_property
    def control(self) -> ControlCode | None:
        """The control code; None when the listing has no encodings."""
        return None if self.words is None else ControlCode.decode(self.words[1])

    @property
    def never_executed(self) -> bool:
        return self.predicate is not None and self.predicate.never

    def is_a(self, name: str) -> bool:
        """Whether this is ``name`` or a form of it: ``ATOMS`` and ``ATOMS.ADD`` both name an
        ``ATOMS.ADD.U32``.

        Parts are compared whole and in order, so ``ATOMS.CAS`` does not name an ``ATOMS.CAST.SPIN``.
        """
        return f"{self.mnemonic}.".startswith(f"{name}.")

    def __str__(self) -> str:
        guard = "" if self.predicate is None else f"{self.predicate} "
        return f"{guard}{self.mnemonic} {', '.join(map(str, self.operands))}".rstrip()


@dataclass(frozen=True)
class Function:
    """The instructions of one code section, in order of address; ``labels`` maps each label to its
    address.

    ``entry`` says that the listing marks it as a kernel. ``parts`` are where functions begin that were linked
    into one (`smlab.hw_bench.sass.linking`), by name.
    """

    name: str
    architecture: str
    instructions: tuple[SassInstruction, ...]
    labels: dict[str, int] = field(default_factory=dict)
    entry: bool = False
    parts: dict[str, int] = field(default_factory=dict)

    def find(self, name: str) -> tuple[SassInstruction, ...]:
        """All instructions that are a ``name`` (see `SassInstruction.is_a`) and that can execute."""
        return tuple(i for i in self.instructions if i.is_a(name) and not i.never_executed)
