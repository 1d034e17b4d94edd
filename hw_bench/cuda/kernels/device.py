"""Numba's CUDA names, as the kernels use them. Untyped: to a type checker they are classes, in a kernel
functions.

What the kernels need of the machine and Numba does not offer: clocks, the SM's id, and fences against the
compiler.

Each is one line of inline assembly; under Numba's CPU simulator, a Python function with the same result.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from typing import Any, Final

import numba.cuda as _cuda
from llvmlite import ir
from numba import types

from smlab.hw_bench.cuda.toolkit import SIMULATED, has_compiler

cuda: Final[Any] = _cuda

int32: Final[Any] = types.int32
int64: Final[Any] = types.int64
uint8: Final[Any] = types.uint8
uint32: Final[Any] = types.uint32
uint64: Final[Any] = types.uint64
float32: Final[Any] = types.float32
float64: Final[Any] = types.float64


_NEVER: Final = 0x71234567
"""A value that none of the benchmarks computes: comparing with it forces the machine to wait for the real
one."""

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_OUTSIDE_MEMORY: Final = "~{memory}"


def _intrinsic() -> Any:
    source = "numba.cuda.extending" if has_compiler() else "numba.extending"
    return importlib.import_module(source).intrinsic


def _statement(text: str, constraints: str, result: Any) -> Any:
    """How Numba generates a call: one volatile statement of inline assembly on 32-bit integers and floats."""
    answer = {types.int64: _I64, types.int32: _I32, types.void: ir.VoidType()}[result]

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        words = [
            builder.bitcast(value, _I32) if kind == types.float32 else value
            for value, kind in zip(values, signature.args, strict=True)
        ]
        shape = ir.FunctionType(answer, [word.type for word in words])
        called = builder.asm(shape, text, constraints, words, True)
        return context.get_dummy_value() if result == types.void else called

    return generate


def _reading(text: str, constraints: str, result: Any) -> Any:
    """A device function of no argument."""
    generate = _statement(text, constraints, result)

    def read(typing: Any) -> Any:
        return result(), generate

    return _intrinsic()(read)


def _waiting(text: str, constraints: str, result: Any) -> Any:
    """A device function of one argument of any 32-bit type."""
    generate = _statement(text, constraints, result)

    def wait(typing: Any, value: Any) -> Any:
        return result(value), generate

    return _intrinsic()(wait)


def _counting(text: str, constraints: str) -> Any:
    """A device function from two 32-bit integers to one."""
    generate = _statement(text, constraints, types.int32)

    def count(typing: Any, value: Any, step: Any) -> Any:
        return types.int32(types.int32, types.int32), generate

    return _intrinsic()(count)


clock: Callable[[], Any]
"""The SM's clock, 64 bits. Only the timed regions read it: that is how the contract finds them."""

clock_after: Callable[[Any], Any]
"""The SM's clock, read once the 32-bit value given is there."""

coarse_clock: Callable[[], Any]
"""The low 32 bits of the SM's clock, for waiting loops outside of the timed regions."""

settle: Callable[[Any], None]
"""Wait until the 32-bit value given is there, so that no timed region has to."""

count_down: Callable[[Any, Any], Any]
"""Subtract in a way that the compiler cannot foresee, so that it does not unroll the loop."""

rolled: Callable[[], None]
"""As the first statement of a loop: the assembler must not unroll it either."""

sm_id: Callable[[], Any]
"""The number of the SM that runs this thread."""


if SIMULATED:
    _ticks = itertools.count()

    def clock() -> int:
        return next(_ticks)

    def clock_after(value: Any) -> int:
        return next(_ticks)

    def coarse_clock() -> int:
        return next(_ticks)

    def settle(value: Any) -> None:
        return None

    def count_down(value: Any, step: Any) -> Any:
        return value - step

    def rolled() -> None:
        return None

    def sm_id() -> int:
        return 0

else:
    clock = _reading("mov.u64 $0, %clock64;", f"=l,{_OUTSIDE_MEMORY}", types.int64)
    clock_after = _waiting(
        f"{{ .reg .pred p; setp.eq.s32 p, $1, {_NEVER}; @p exit; mov.u64 $0, %clock64; }}",
        f"=l,r,{_OUTSIDE_MEMORY}",
        types.int64,
    )
    coarse_clock = _reading("mov.u32 $0, %clock;", f"=r,{_OUTSIDE_MEMORY}", types.int32)
    settle = _waiting(
        f"{{ .reg .pred p; setp.eq.s32 p, $0, {_NEVER}; @p exit; }}", f"r,{_OUTSIDE_MEMORY}", types.void
    )
    count_down = _counting("sub.s32 $0, $1, $2;", "=r,r,r")
    rolled = _reading(".pragma \\22nounroll\\22;", _OUTSIDE_MEMORY, types.void)
    sm_id = _reading("mov.u32 $0, %smid;", "=r", types.int32)
