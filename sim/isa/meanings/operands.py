"""Operands of instructions in plain Python: rows of registers and constants, predicates."""

from __future__ import annotations

import numpy as np

from smlab.sim.isa import memory_layout
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.meanings.warp_state import (
    WarpState,
)
from smlab.sim.isa.vector_operation import M32


class WarpOperands:
    """A launch's code and constants, and the operands of its instructions for a warp."""

    def __init__(self, launch: MachineLaunch) -> None:
        self.launch = launch
        self.code = launch.code
        self.constants = [[word] * 32 for word in launch.rows.words]
        self.unwritten = np.zeros((len(self.code), memory_layout.UNWRITTEN_WORDS), dtype=np.int64)

    def row(self, w: WarpState, micro: MicroOperation, name: str, more: int = 0) -> list[int]:
        f = micro.fields
        if f.get(f"{name}_reg"):
            return w.rows[f[name] + more * memory_layout.ROW_BYTES]
        if not f.get(f"{name}_and"):
            return [0] * 32
        return self.constants[f[name] + more]

    def word(self, w: WarpState, micro: MicroOperation, name: str, lane: int) -> int:
        f = micro.fields
        value = self.row(w, micro, name)[lane]
        return (((value & f.get(f"{name}_and", 0)) ^ f.get(f"{name}_xor", 0)) + f.get(f"{name}_add", 0)) & M32

    def long(self, w: WarpState, micro: MicroOperation, name: str, lane: int) -> int:
        f = micro.fields
        high = self.row(w, micro, name, 1)[lane]
        high = (high & f.get(f"{name}_and", 0)) ^ f.get(f"{name}_xor", 0)
        return self.row(w, micro, name)[lane] | high << 32

    def words(self, w: WarpState, micro: MicroOperation, name: str, lanes: list[int]) -> list[int]:
        """A source of several lanes."""
        f, row = micro.fields, self.row(w, micro, name)
        keep, flip, add = (f.get(f"{name}_{part}", 0) for part in ("and", "xor", "add"))
        if keep == M32 and not flip and not add:
            return [row[lane] for lane in lanes]
        return [((row[lane] & keep ^ flip) + add) & M32 for lane in lanes]

    def longs(self, w: WarpState, micro: MicroOperation, name: str, lanes: list[int]) -> list[int]:
        """The same in pairs of registers; what is done to the words is done to the high one."""
        f, low, high = micro.fields, self.row(w, micro, name), self.row(w, micro, name, 1)
        keep, flip = f.get(f"{name}_and", 0), f.get(f"{name}_xor", 0)
        return [low[lane] | (high[lane] & keep ^ flip) << 32 for lane in lanes]

    def predicate(self, w: WarpState, micro: MicroOperation, name: str) -> int:
        return w.predicates[micro.fields.get(name, memory_layout.UNSET[name])] ^ micro.fields.get(
            f"{name}_xor", 0
        )

    def set_predicate(self, w: WarpState, micro: MicroOperation, name: str, value: int, lanes: int) -> None:
        place = micro.fields.get(name, memory_layout.UNSET[name])
        w.predicates[place] = w.predicates[place] & ~lanes | value & lanes

    def put(self, w: WarpState, offset: int, lane: int, value: int) -> None:
        w.rows[offset][lane] = value & M32
