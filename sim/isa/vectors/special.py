"""Special functions, in LLVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir

from smlab.sim.isa.vectors.integers import wide
from smlab.sim.isa.vectors.llvm_lanes import (
    BUILDERS,
    F32,
    F64,
    HALF,
    V32,
    V64,
    Builder,
    Lanes,
)


def _through_double(v: Lanes, a: Any, function: Callable[[Any], Any]) -> Any:
    """A special function of a single by way of doubles, subnormals flushed on both sides."""
    value = v.builder.fpext(v.single(v.flushed(a, None)), F64)
    return v.flushed(v.bits32(v.builder.fptrunc(function(value), F32)), None)


def _inverse(v: Lanes, x: Any) -> Any:
    return v.builder.fdiv(v.all(1.0, F64), x)


def _inverse_root(v: Lanes, x: Any) -> Any:
    """1 / sqrt(x); of -0 it is minus infinity."""
    return v.builder.fdiv(v.all(1.0, F64), v.call("sqrt", F64, x))


def libm(v: Lanes, name: str, x: Any) -> Any:
    """A function of the C library lane by lane: the one that Python's `math` calls."""
    double = ir.DoubleType()
    function = v.builder.module.globals.get(name)
    function = function or ir.Function(v.builder.module, ir.FunctionType(double, [double]), name)
    result = ir.Constant(F64, ir.Undefined)
    for lane in range(32):
        at = ir.Constant(HALF, lane)
        result = v.builder.insert_element(
            result, v.builder.call(function, [v.builder.extract_element(x, at)]), at
        )
    return result


BUILDERS["rcp"] = lambda v, a: _through_double(v, a, lambda x: _inverse(v, x))
BUILDERS["rsq"] = lambda v, a: _through_double(v, a, lambda x: _inverse_root(v, x))
BUILDERS["sqrt"] = lambda v, a: _through_double(v, a, lambda x: v.call("sqrt", F64, x))
BUILDERS["ex2"] = lambda v, a: _through_double(v, a, lambda x: libm(v, "exp2", x))
BUILDERS["lg2"] = lambda v, a: _through_double(v, a, lambda x: libm(v, "log2", x))
_TURN: Final = 6.283185307179586
BUILDERS["sin"] = lambda v, a: _through_double(
    v, a, lambda x: libm(v, "sin", v.builder.fmul(x, v.all(_TURN, F64)))
)
BUILDERS["cos"] = lambda v, a: _through_double(
    v, a, lambda x: libm(v, "cos", v.builder.fmul(x, v.all(_TURN, F64)))
)
BUILDERS["tanh"] = lambda v, a: _through_double(v, a, lambda x: libm(v, "tanh", x))


def _seed(function: Callable[[Lanes, Any], Any]) -> Builder:
    def build(v: Lanes, a: Any) -> Any:
        B = v.builder
        value = v.double(B.shl(wide(v, a), v.all(32, V64)))
        return B.trunc(B.lshr(v.bits64(function(v, value)), v.all(32, V64)), V32)

    return build


BUILDERS["rcp64h"], BUILDERS["rsq64h"] = _seed(_inverse), _seed(_inverse_root)
