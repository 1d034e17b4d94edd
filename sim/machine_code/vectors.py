"""The vector micro-operations in machine code: 32 lanes at a time, one switch over all of them.

Each row of `meanings.OPERATIONS` has a function that builds its LLVM code. All operands are rows of 32 lanes
(constants too), so one form serves all; sources are loaded whole before the result is stored, so that a
result may overwrite a source.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from smlab.sim.machine_code import (  # noqa: F401  (each registers its builders)
    conversion_vectors,
    float_vectors,
    half_vectors,
    integer_vectors,
    meanings,
    record,
    special_vectors,
    vector_operation,
)
from smlab.sim.machine_code.building import (
    BUILDERS,
    ROUNDED,
    Result,
    builds,
)
from smlab.sim.machine_code.lanes import (
    HALF,
    V32,
    V64,
    WORD,
    Lanes,
    intrinsic,
)


@builds("plop3")
def _plop3(v: Lanes) -> Result:
    """Handled with the other operations on predicates; here only so that every code has a block."""
    return None, v.mask_of("p"), v.mask_of("q")


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
            v.store_row(v.builder.add(at, ir.Constant(WORD, record.ROW_BYTES)), high, lanes)
        else:
            v.store_row(at, result, lanes)
    if first is not None:
        v.store_mask("pd", first, lanes)
    if second is not None:
        v.store_mask("qd", second, lanes)
    if rounded:
        with v.builder.if_then(directed, likely=False):
            v.rounding(ir.Constant(HALF, 0))


@intrinsic
def execute_vector(typing_context: Any, op: Any, warp: Any, lanes: Any) -> Any:
    """Execute the vector micro-operation at an address, for a warp at an address, in these lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at, state, mask = arguments
        v = Lanes(builder, at, state)
        lanes32 = builder.trunc(mask, HALF)
        code = v.field("code")
        after = builder.append_basic_block("after")
        switch = builder.switch(code, after)
        for number, operation in enumerate(meanings.OPERATIONS):
            block = builder.append_basic_block(operation.name.replace(".", "_"))
            switch.add_case(ir.Constant(WORD, number), block)
            builder.position_at_end(block)
            _emit(v, operation, lanes32)
            builder.branch(after)
        builder.position_at_end(after)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), generate
