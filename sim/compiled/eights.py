"""Eight words at a time: what a scheduler asks of all of its warps or groups in each of its cycles.

Tables that are searched so have whole cache lines for each scheduler. One vector operation takes the place of
a loop whose branches a processor cannot foresee.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from smlab.sim.compiled.jit import intrinsic
from smlab.sim.compiled.layout import NEVER

_WORD = ir.IntType(64)
_BYTE = ir.IntType(8)
_EIGHT = ir.VectorType(_WORD, 8)
_FLAGS = ir.VectorType(ir.IntType(1), 8)


def _load(builder: Any, address: Any) -> Any:
    loaded = builder.load(builder.inttoptr(address, _EIGHT.as_pointer()))
    loaded.align = 8
    return loaded


def _splat(builder: Any, value: Any) -> Any:
    one = builder.insert_element(ir.Constant(_EIGHT, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    places = ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8)
    return builder.shuffle_vector(one, ir.Constant(_EIGHT, ir.Undefined), places)


def _all(value: int) -> Any:
    return ir.Constant(_EIGHT, [value] * 8)


def _reduced(builder: Any, how: str, value: Any) -> Any:
    name = f"llvm.vector.reduce.{how}.v8i64"
    function = builder.module.globals.get(name)
    function = function or ir.Function(builder.module, ir.FunctionType(_WORD, [_EIGHT]), name)
    return builder.call(function, [value])


@intrinsic
def due(typing_context: Any, address: Any, now: Any) -> Any:
    """Which of eight words are not above ``now``, as a mask."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words, limit = _load(builder, arguments[0]), _splat(builder, arguments[1])
        found = builder.icmp_signed("<=", words, limit)
        return builder.zext(builder.bitcast(found, _BYTE), _WORD)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def least(typing_context: Any, address: Any, which: Any) -> Any:
    """The least of those of eight words that a mask names; NEVER if it names none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        named = builder.bitcast(builder.trunc(arguments[1], _BYTE), _FLAGS)
        words = builder.select(named, _load(builder, arguments[0]), _all(NEVER))
        return _reduced(builder, "smin", words)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def free_now(typing_context: Any, masks: Any, frees: Any, now: Any) -> Any:
    """The union of those of eight masks whose resource is free."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        free = _load(builder, arguments[1])
        free = builder.icmp_signed("<=", free, _splat(builder, arguments[2]))
        return _reduced(builder, "or", builder.select(free, _load(builder, arguments[0]), _all(0)))

    return types.int64(types.int64, types.int64, types.int64), generate


@intrinsic
def free_later(typing_context: Any, masks: Any, frees: Any, now: Any) -> Any:
    """When the first of eight resources is free that is not yet and whose mask is not empty; or NEVER."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        masks, frees = (_load(builder, address) for address in arguments[:2])
        waited = builder.icmp_signed(">", frees, _splat(builder, arguments[2]))
        waited = builder.and_(waited, builder.icmp_unsigned("!=", masks, _all(0)))
        return _reduced(builder, "smin", builder.select(waited, frees, _all(NEVER)))

    return types.int64(types.int64, types.int64, types.int64), generate
