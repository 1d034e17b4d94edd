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
_BITS: Final = {"fp16": 16, "bf16": 16, "tf32": 32, "fp8": 8, "int8": 8, "int4": 4, "int1": 1, "fp64": 64}


@dataclass(frozen=True)
class TensorProduct:
    """A warp-instruction's product of matrices, ``rows`` x ``depth`` by ``depth`` x ``columns``: one of
    `smlab.hw_bench.gpu.schema.TENSOR_TYPES`. ``several``: how many such products it is, for Volta's in steps
    a part of one."""

    type: str
    rows: int
    columns: int
    depth: int
    several: float = 1

    @property
    def multiply_adds(self) -> int:
        return int(self.several * self.rows * self.columns * self.depth)

    def padded_multiply_adds(self, least_rows: int, least_depth_bytes: int) -> float:
        """The multiply-adds of a unit that takes no fewer rows, and no fewer bytes of a row."""
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
    return TensorProduct(_type_of(opcode, modifiers), *(int(n) for n in shape.groups()))


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
