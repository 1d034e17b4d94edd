"""Which instructions may be executed before they are issued, with nothing different for it.

An operation on registers meets nothing that other warps do. A load of shared memory does not either as long
as no warp of the block can write there before the block's next barrier: that is told by where each warp is,
since the places of the code from which a write can be reached before a barrier are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.sim.instructions import CLASSES, Unit
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.meanings.vector_meanings import VECTOR_CODES
from smlab.sim.isa.operation_codes import ON_REGISTERS, SETTLES, SHARED_LOAD, WRITE_FOLLOWS

_OF_LANES: Final = (d.MMA, d.MMA_QUADS, d.MMA_SCALED, d.TRANSPOSE)


def early_execution_flags(code: Sequence[MicroOperation]) -> NDArray[np.int64]:
    """The marks of each instruction, a sum of the above: ``(instructions,)``."""
    marks = np.zeros(len(code), dtype=np.int64)
    settles = any(micro.fields.get("in_halves") for micro in code)
    for n, micro in enumerate(code):
        unit = CLASSES[micro.cls].unit
        of_lanes = micro.code < VECTOR_CODES or micro.code in _OF_LANES
        if of_lanes and unit is Unit.PIPE:
            marks[n] = ON_REGISTERS
        elif settles and micro.code in (d.LOAD, d.ATOMIC) and micro.fields["space"] in (d.SHARED, d.GENERIC):
            marks[n] = SETTLES
        elif micro.code == d.LOAD and micro.fields["space"] == d.SHARED and unit is Unit.SHARED:
            marks[n] = SHARED_LOAD
    marks[np.array(_write_follows(code), dtype=bool)] += WRITE_FOLLOWS
    return marks


def _write_follows(code: Sequence[MicroOperation]) -> list[bool]:
    """Backwards from the writes, until nothing changes. Only where every barrier is for all of its block's
    warps does none pass one before the others have come there."""
    follows = [_writes_shared(micro) for micro in code]
    whole = all("b" not in m.fields and not m.fields["arrives_only"] for m in code if m.code == d.BARRIER)
    changed = any(follows)
    while changed:
        changed = False
        for n in range(len(code) - 1, -1, -1):
            if not follows[n] and _goes_into(code, n, follows, whole):
                follows[n] = changed = True
    return follows


def _writes_shared(micro: MicroOperation) -> bool:
    if micro.code in (d.COPY, d.STORE_MATRIX, d.BULK_COPY, d.MEMORY_BARRIER):
        return True
    return micro.code in (d.STORE, d.ATOMIC) and micro.fields["space"] in (d.SHARED, d.GENERIC)


def _goes_into(code: Sequence[MicroOperation], n: int, follows: list[bool], whole: bool) -> bool:
    """Whether a warp can go from instruction ``n`` to one that ``follows`` marks."""
    kind = code[n].code
    if kind == d.BARRIER and whole:
        return False
    if n + 1 < len(code) and follows[n + 1]:
        return True
    if kind == d.JUMP:  # its target is in a register
        return any(follows)
    if kind not in (d.BRANCH, d.BRANCH_SPLIT, d.BRANCH_ANY):
        return False
    target = code[n].fields["target"]
    return 0 <= target < len(code) and follows[target]
