"""What a kernel's code asks of an SM beside its floating-point operations: instructions, requests to memory
by space, and the registers and bytes that a launch reserves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from smlab.hw_bench.sass.image import KernelImage, listed_image, read_image
from smlab.hw_bench.sass.instruction import Function, SassInstruction

_SHARED: Final = frozenset({"LDS", "STS", "ATOMS", "LDSM", "STSM"})
_GLOBAL: Final = frozenset({"LDG", "STG", "LD", "ST", "ATOMG", "ATOM", "RED", "LDGSTS"})
_LOCAL: Final = frozenset({"LDL", "STL"})
_WORD_BYTES: Final = 4


@dataclass(frozen=True)
class IssuedCounts:
    """Warp-instructions: all of them, and those that access memory, by space. ``local_bytes`` are what a
    thread moves to and from local memory (spilled registers, arrays with changing indices). Static counts
    are whole numbers, weighted ones need not be."""

    instructions: float = 0
    shared: float = 0
    global_memory: float = 0
    local: float = 0
    local_bytes: float = 0

    def __add__(self, other: IssuedCounts) -> IssuedCounts:
        return IssuedCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __mul__(self, times: float) -> IssuedCounts:
        return IssuedCounts(*(times * getattr(self, f.name) for f in fields(self)))

    @property
    def requests(self) -> float:
        """Instructions that access memory of any space."""
        return self.shared + self.global_memory + self.local


@dataclass(frozen=True)
class Footprint:
    """What a launch of the code reserves: registers and bytes of local memory a thread, bytes of static
    shared memory a block. A listing tells registers only (None)."""

    registers: int
    shared_bytes: int | None = None
    local_bytes: int | None = None


def count_issued(instructions: Iterable[SassInstruction]) -> IssuedCounts:
    """Each instruction once; those that can never execute not at all."""
    total = shared = in_global = local = moved = 0
    for instruction in instructions:
        if instruction.never_executed or instruction.opcode == "NOP":
            continue
        total += 1
        opcode = instruction.opcode
        shared += opcode in _SHARED
        in_global += opcode in _GLOBAL
        if opcode in _LOCAL:
            local += 1
            moved += _bytes_of(instruction)
    return IssuedCounts(total, shared, in_global, local, moved)


def footprint_of(content: bytes | Path, function: Function, where: str) -> Footprint:
    """What a launch of ``function`` reserves; ``content`` is the cubin or the listing that holds it."""
    if isinstance(content, Path):
        content = content.read_bytes()
    if not content.startswith(b"\x7fELF"):
        return Footprint(listed_image(function).registers)
    image: KernelImage = read_image(content, function, where)
    return Footprint(image.registers, image.shared_bytes, image.local_bytes)


def _bytes_of(instruction: SassInstruction) -> int:
    widths = [int(m) for m in instruction.modifiers if m in ("64", "128")]
    return widths[0] // 8 if widths else _WORD_BYTES
