"""The vector micro-operations in machine code: 32 lanes at a time, one switch over all of them.

Each row of `meanings.OPERATIONS` has a function that builds its LLVM code. All operands are rows of 32 lanes
(constants too), so one form serves all; sources are loaded whole before the result is stored, so that a
result may overwrite a source.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from smlab.sim.compiled.jit import intrinsic
from smlab.sim.isa import memory_layout, vector_operation
from smlab.sim.isa.meanings import vector_meanings
from smlab.sim.isa.vectors import (  # noqa: F401  (each registers its builders)
    conversions,
    floats,
    halves,
    integers,
    small_floats,
    special,
)
from smlab.sim.isa.vectors.llvm_lanes import (
    BUILDERS,
    HALF,
    ROUNDED,
    V32,
    V64,
    WORD,
    Lanes,
    Result,
    builds,
)


@builds("plop3")
def _plop3(v: Lanes) -> Result:
    """Handled with the other operations on predicates; here only so that every code has a block."""
    return None, v.mask_of("predicate_a"), v.mask_of("predicate_b")


def _emit(v: Lanes, operation: vector_operation.VectorOperation, lanes: Any) -> None:
    """The code of one operation, from its sources to its results."""
    if rounded := operation.name in ROUNDED:
        mode = v.mode()
        directed = v.builder.icmp_unsigned("!=", mode, ir.Constant(HALF, 0))
        with v.builder.if_then(directed, likely=False):
            v.rounding(mode)
    sources = [v.source(n, kind) for n, kind in zip("abc", operation.sources, strict=False)]
    made = BUILDERS[operation.name](v, *sources)
    result, first, second = made if isinstance(made, tuple) else (made, None, None)
    if result is not None:
        at = v.builder.add(v.warp, v.field("dst"))
        if operation.result == "d":
            low = v.builder.trunc(result, V32)
            high = v.builder.trunc(v.builder.lshr(result, v.all(32, V64)), V32)
            v.store_row(at, low, lanes)
            v.store_row(v.builder.add(at, ir.Constant(WORD, memory_layout.ROW_BYTES)), high, lanes)
        else:
            v.store_row(at, result, lanes)
    if first is not None:
        v.store_mask("predicate_dst", first, lanes)
    if second is not None:
        v.store_mask("predicate_dst_b", second, lanes)
    if rounded:
        with v.builder.if_then(directed, likely=False):
            v.rounding(ir.Constant(HALF, 0))


@intrinsic
def execute_vector(typing_context: Any, op: Any, warp: Any, lanes: Any) -> Any:
    """Execute the vector micro-operation at an address, for a warp at an address, in these lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at, state, mask = arguments
        lanes32 = builder.trunc(mask, HALF)
        code = Lanes(builder, at, state, memory_layout.PLACE).field("code")
        after = builder.append_basic_block("after")
        switch = builder.switch(code, after)
        for number, operation in enumerate(vector_meanings.OPERATIONS):
            block = builder.append_basic_block(operation.name.replace(".", "_"))
            switch.add_case(ir.Constant(WORD, number), block)
            builder.position_at_end(block)
            v = Lanes(builder, at, state, memory_layout.KINDS[operation.kind])
            _emit(v, operation, lanes32)
            builder.branch(after)
        builder.position_at_end(after)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), generate
