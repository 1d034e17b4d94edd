"""The table's rows for products of matrices on tensor cores, and for loading matrices from shared memory.

HMMA 16816 and 1688 on halves (summed in singles or halves) and bfloat16, IMMA 16832, 16816 and 8816 on bytes:
what PTX's ``mma.sync`` compiles to from sm_75 on. Volta's HMMA.884 works by steps and is refused by name.
"""

from __future__ import annotations

from typing import Final

from smlab.sim.isa.decode.memory import wide
from smlab.sim.isa.decode.micro import only, opcode
from smlab.sim.isa.decode.operands import Operands, Unknown
from smlab.sim.isa.operation_codes import (
    BFLOAT16,
    BYTES,
    HALF_SUM,
    HALVES,
    INTEGER_SUM,
    LOAD_MATRIX,
    MMA,
    SHARED,
    SINGLE_SUM,
)

_SHAPES: Final = {"16816": 2, "1688": 1}
_BYTE_SHAPES: Final = {"16832": (2, 2), "16816": (2, 1), "8816": (1, 1)}


def _registers(o: Operands) -> dict[str, int]:
    """The result and the three matrices, all in registers."""
    o.texts[:] = [text.replace(".ROW", "").replace(".COL", "") for text in o.texts]
    fields = {"dst": o.destination(), **o.integer("a"), **o.integer("b"), **o.integer("c")}
    if not all(fields[f"{name}_reg"] for name in "abc") or any(fields.get(f"{n}_xor") for n in "abc"):
        raise Unknown("its operands")
    return fields


@opcode("HMMA", cls="tensor")
def _hmma(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m[1:], "F32", "F16", "BF16")
    if m[0] not in _SHAPES:
        raise Unknown(f"the shape {m[0]}")
    kind = BFLOAT16 if "BF16" in m else HALVES
    total = SINGLE_SUM if "F32" in m else HALF_SUM
    return MMA, {
        **_registers(o),
        "element_type": kind,
        "k_steps": _SHAPES[m[0]],
        "sum_type": total,
        "row_groups": 2,
    }


@opcode("IMMA", cls="tensor")
def _imma(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m[1:], "S8", "U8")
    if m[0] not in _BYTE_SHAPES or len(m) != 3:
        raise Unknown(f"the form {'.'.join(m)}")
    rows, steps = _BYTE_SHAPES[m[0]]
    return MMA, {
        **_registers(o),
        "element_type": BYTES,
        "k_steps": steps,
        "sum_type": INTEGER_SUM,
        "row_groups": rows,
        "is_signed": int(m[1] == "S8"),
        "b_is_signed": int(m[2] == "S8"),
    }


@opcode("LDSM", cls="shared-load")
def _ldsm(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m, "16", "M88", "MT88", "2", "4")
    if m[0] != "16" or ("M88" in m) == ("MT88" in m):
        raise Unknown("the shape")
    count = 4 if "4" in m else 2 if "2" in m else 1
    fields = {"dst": o.destination(), **wide(o.address(), m, SHARED), "width_bytes": 16}
    return LOAD_MATRIX, {**fields, "matrices": count, "transposed": int("MT88" in m)}
