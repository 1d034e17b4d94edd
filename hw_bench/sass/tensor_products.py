"""What an instruction of the tensor cores multiplies: its type and its multiply-adds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from smlab.hw_bench.sass.instruction import SassInstruction

TENSOR_OPCODES: Final = frozenset(
    ("HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "OMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA")
)
_SHORT: Final = re.compile(r"(8|16)(8)(4|8|16|32|64|128|256)")
_LONG: Final = re.compile(r"(\d+)x(\d+)x(\d+)")
_STEPS: Final = {"F32": 4, "F16": 2}


@dataclass(frozen=True)
class TensorProduct:
    """A warp-instruction's product of matrices: one of `smlab.hw_bench.gpu.schema.TENSOR_TYPES`, and the multiply-adds of all lanes."""

    type: str
    multiply_adds: int


def tensor_product(instruction: SassInstruction) -> TensorProduct | None:
    """What a product multiplies; None for another instruction, or a shape that cannot be read."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode not in TENSOR_OPCODES:
        return None
    if opcode == "HMMA" and modifiers[:1] == ("884",):
        # A step of four products of 8 x 8 x 4: four steps sum in singles, two in halves.
        steps = _STEPS[modifiers[1]]
        return TensorProduct("fp16_fp32" if steps == 4 else "fp16", 4 * 8 * 8 * 4 // steps)
    shapes = (_SHORT.fullmatch(m) or _LONG.fullmatch(m) for m in modifiers)
    shape = next((s for s in shapes if s is not None), None)
    if shape is None:
        return None
    work = int(shape[1]) * int(shape[2]) * int(shape[3])
    return TensorProduct(_type_of(opcode, modifiers), work)


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
    kind = "fp16" if opcode[0] == "H" else "fp8"
    return f"{kind}_fp32" if "F32" in modifiers else kind
