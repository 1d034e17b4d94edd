"""Which machine instructions are floating-point operations, as the profiler counts them.

What a kernel's code asks of an SM beside its floating-point operations: instructions, requests to memory
by space, and the registers and bytes that a launch reserves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Literal

from smlab.hw_bench.inputs import machine_code_bytes
from smlab.hw_bench.sass.image import KernelImage, listed_image, read_image
from smlab.hw_bench.sass.instruction import Function, SassInstruction
from smlab.hw_bench.sass.opcodes import SINGLE_PAIRS

Precision = Literal["fp16", "fp32", "fp64"]
PRECISIONS: Final[tuple[Precision, ...]] = ("fp16", "fp32", "fp64")

_LETTER: Final[dict[Precision, str]] = {"fp16": "h", "fp32": "f", "fp64": "d"}
_PACKED_HALF: Final = {"HADD2": "hadd", "HMUL2": "hmul", "HFMA2": "hfma"}

TENSOR_OPCODES: Final = frozenset(
    ("HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "OMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA")
)
WARPS_OF_GROUP: Final = 4
_SHORT: Final = re.compile(r"(8|16)(8)(4|8|16|32|64|128|256)")
_LONG: Final = re.compile(r"(\d+)x(\d+)x(\d+)")
_STEPS: Final = {"F32": 4, "F16": 2}
_BELOW_A_BYTE: Final = frozenset(("E3M2", "E2M3", "E2M1"))
_BITS: Final = {
    "fp16": 16,
    "bf16": 16,
    "tf32": 32,
    "fp8": 8,
    "fp6": 8,
    "int8": 8,
    "mxfp8": 8,
    "mxfp6": 8,
    "mxfp4": 4,
    "int4": 4,
    "int1": 1,
    "fp64": 64,
}


@dataclass(frozen=True)
class OperationCounts:
    """Executed instructions by kind, a lane; the fields are named as Nsight Compute names the operations.

    Static counts are whole numbers, weighted ones need not be. The packed single-precision forms of Blackwell
    count twice. ``special`` counts ``MUFU`` (reciprocals, roots, logarithms, ...), which no profiler counts
    as floating-point operations, and ``tensor`` the instructions of the tensor cores.
    """

    fadd: float = 0
    fmul: float = 0
    ffma: float = 0
    dadd: float = 0
    dmul: float = 0
    dfma: float = 0
    hadd: float = 0
    hmul: float = 0
    hfma: float = 0
    special: float = 0
    tensor: float = 0

    def __add__(self, other: OperationCounts) -> OperationCounts:
        return OperationCounts(*(a + b for a, b in zip(self.values, other.values, strict=True)))

    def __mul__(self, times: float) -> OperationCounts:
        return OperationCounts(*(times * value for value in self.values))

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(getattr(self, f.name) for f in fields(self))

    def flops(self, precision: Precision) -> float:
        """Floating-point operations a lane; a fused multiply-add is two, and a packed half instruction
        counts as one lane."""
        letter = _LETTER[precision]
        adds, muls, fmas = (getattr(self, f"{letter}{kind}") for kind in ("add", "mul", "fma"))
        return float(adds + muls + 2 * fmas)

    def difference(self, other: OperationCounts) -> str:
        """In words what ``other`` has more or fewer: ``2 ffma more, 1 fmul fewer``; empty where they
        agree."""
        differences = []
        for f in fields(self):
            more = getattr(other, f.name) - getattr(self, f.name)
            if more:
                differences.append(f"{abs(more):g} {f.name} {'more' if more > 0 else 'fewer'}")
        return ", ".join(differences)


def moves_a_constant(instruction: SassInstruction) -> bool:
    """Whether a packed half multiply-add only loads a constant (``HFMA2.MMA R5, -RZ, RZ, 0, 1``), as
    compilers for ``sm_75`` and up write it to spare the integer pipe."""
    if instruction.opcode != "HFMA2" or len(instruction.operands) < 3:
        return False
    return all(o.text.lstrip("-").split(".")[0] == "RZ" for o in instruction.operands[1:3])


def kind_of(instruction: SassInstruction) -> tuple[str, int] | None:
    """The field of `OperationCounts` that an instruction counts in, and how often; None for all others."""
    opcode = instruction.opcode.removesuffix("_32I").removesuffix("32I")
    if instruction.never_executed:
        return None
    if opcode in _PACKED_HALF:
        return None if moves_a_constant(instruction) else (_PACKED_HALF[opcode], 1)
    if opcode in SINGLE_PAIRS:
        return opcode[:-1].lower(), 2
    if opcode in ("FADD", "FMUL", "FFMA", "DADD", "DMUL", "DFMA"):
        return opcode.lower(), 1
    if opcode == "MUFU":
        return "special", 1
    if opcode in TENSOR_OPCODES:
        return "tensor", 1
    return None


def count_operations(instructions: Iterable[SassInstruction]) -> OperationCounts:
    """Each instruction once; those that can never execute not at all."""
    counts: dict[str, int] = {}
    for instruction in instructions:
        kind = kind_of(instruction)
        if kind is not None:
            counts[kind[0]] = counts.get(kind[0], 0) + kind[1]
    return OperationCounts(**counts)


def special_function(instruction: SassInstruction) -> str | None:
    """``RCP``, ``RSQ``, ``LG2``, ... of a ``MUFU``; ``RCP64H`` and its like are the double-precision
    seeds."""
    if instruction.opcode != "MUFU" or instruction.never_executed:
        return None
    return instruction.modifiers[0] if instruction.modifiers else "MUFU"


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
        content = machine_code_bytes(content)
    if not content.startswith(b"\x7fELF"):
        return Footprint(listed_image(function).registers)
    image: KernelImage = read_image(content, function, where)
    return Footprint(image.registers, image.shared_bytes, image.local_bytes)


def _bytes_of(instruction: SassInstruction) -> int:
    widths = [int(m) for m in instruction.modifiers if m in ("64", "128")]
    return widths[0] // 8 if widths else _WORD_BYTES


@dataclass(frozen=True)
class TensorProduct:
    """A warp-instruction's product of matrices, ``rows`` x ``depth`` by ``depth`` x ``columns``: one of
    `smlab.hw_bench.gpu.schema.TENSOR_TYPES`. ``several``: how many such products it is, for Volta's in steps
    a part of one, and a quarter for one of the four warps of a group (``of_group``), which together read
    ``shared_bytes`` of shared memory, the first matrix among them where it is ``first_in_shared``."""

    type: str
    rows: int
    columns: int
    depth: int
    several: float = 1
    of_group: bool = False
    shared_bytes: int = 0
    first_in_shared: bool = False

    @property
    def multiply_adds(self) -> int:
        return int(self.several * self.rows * self.columns * self.depth)

    def padded_multiply_adds(
        self, least_rows: int, least_depth_bytes: int, least_fp64_rows: int = 1
    ) -> float:
        """The multiply-adds of a unit that takes no fewer rows, and no fewer bytes of a row. Doubles have a
        shape of their own, of eight rows or ``least_fp64_rows``."""
        if self.type == "fp64":
            return self.several * max(self.rows, least_fp64_rows) * self.columns * self.depth
        bits = _BITS[self.type.removesuffix("_fp32")]
        depth = max(self.depth, 8 * least_depth_bytes // bits)
        return self.several * max(self.rows, least_rows) * self.columns * depth


def tensor_product(instruction: SassInstruction) -> TensorProduct | None:
    """What a product multiplies; None for another instruction, or a shape that cannot be read."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode not in TENSOR_OPCODES:
        return None
    if opcode == "HMMA" and modifiers[:1] == ("884",):
        # A step of four products: four steps where it sums in singles, two in halves.
        steps = _STEPS.get("".join(modifiers[1:2]), 4)
        return TensorProduct("fp16_fp32" if steps == 4 else "fp16", 16, 16, 4, 1 / steps)
    shapes = (_SHORT.fullmatch(m) or _LONG.fullmatch(m) for m in modifiers)
    shape = next((s for s in shapes if s is not None), None)
    if shape is None:
        return None
    rows, columns, depth = (int(n) for n in shape.groups())
    kind = _type_of(opcode, modifiers)
    if not opcode.endswith("GMMA"):
        return TensorProduct(kind, rows, columns, depth)
    first = any(o.text.startswith("gdesc") for o in instruction.operands[1:2])
    in_shared = columns + rows * first
    bits = _BITS[kind.removesuffix("_fp32")]
    size = in_shared * depth * bits // 8
    return TensorProduct(kind, rows, columns, depth, 1 / WARPS_OF_GROUP, True, size, first)


def _type_of(opcode: str, modifiers: tuple[str, ...]) -> str:
    if opcode == "DMMA":
        return "fp64"
    if opcode[0] == "B":
        return "int1"
    if opcode[0] == "I":
        return "int4" if "S4" in modifiers or "U4" in modifiers else "int8"
    if "TF32" in modifiers:
        return "tf32"
    if "BF16" in modifiers:
        return "bf16"
    if "SF" in modifiers:
        return "mxfp4" if opcode[0] == "O" else "mxfp6" if _BELOW_A_BYTE & set(modifiers) else "mxfp8"
    if _BELOW_A_BYTE & set(modifiers):
        return "fp6"
    kind = "fp16" if opcode[0] == "H" else "fp8"
    return f"{kind}_fp32" if "F32" in modifiers else kind
