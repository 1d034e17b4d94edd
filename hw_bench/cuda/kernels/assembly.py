"""Device functions of one line of inline assembly: what the benchmarks time, by instruction.

Under Numba's CPU simulator each is a Python function with the same result. Numba's own operators would do for
most of them, but leave to the compiler which instruction it is, and whether several become one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types

from smlab.hw_bench.cuda.kernels.device import cuda
from smlab.hw_bench.cuda.toolkit import SIMULATED, has_compiler

_LETTERS: Final = {
    types.int32: "r",
    types.int64: "l",
    types.uint64: "l",
    types.float32: "f",
    types.float64: "d",
}
_LLVM: Final = {
    types.int32: ir.IntType(32),
    types.int64: ir.IntType(64),
    types.uint64: ir.IntType(64),
    types.float32: ir.FloatType(),
    types.float64: ir.DoubleType(),
}


def _intrinsic(function: Any) -> Any:
    source = "numba.cuda.extending" if has_compiler() else "numba.extending"
    return importlib.import_module(source).intrinsic(function)


def three_operands(text: str, number: Any, simulated: Callable[[Any, Any, Any], Any]) -> Any:
    """A device function of three numbers of one type: ``text`` computes ``$0`` from ``$1``, ``$2`` and
    ``$3``."""
    if SIMULATED:
        return simulated
    letter = _LETTERS[number]

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        shape = ir.FunctionType(_LLVM[number], [_LLVM[number]] * 3)
        return builder.asm(shape, text, f"={letter},{letter},{letter},{letter}", values, True)

    def operate(typing: Any, first: Any, second: Any, third: Any) -> Any:
        return number(number, number, number), generate

    return _intrinsic(operate)


@dataclass(frozen=True)
class Arithmetic:
    """One arithmetic instruction as a chain link: ``x`` becomes ``f(x, a, b)``.

    ``mnemonic`` is what the assembler makes of it, ``exact`` whether Python computes the same bits.
    """

    name: str
    mnemonic: str
    number: Any
    text: str
    simulated: Callable[[Any, Any, Any], Any]
    exact: bool = True
    flops: int = 0

    def device_function(self) -> Any:
        return three_operands(self.text, self.number, self.simulated)


def _wrapped(value: int) -> Any:
    return np.int32((int(value) + 2**31) % 2**32 - 2**31)


def _bits(value: Any) -> int:
    return int(value) & 0xFFFFFFFF


def _funnel(x: Any, a: Any, b: Any) -> Any:
    shift = int(b) & 31
    return _wrapped((_bits(a) << shift | _bits(x) >> (32 - shift)) & 0xFFFFFFFF if shift else _bits(a))


ARITHMETIC: Final = (
    Arithmetic(
        "int-add",
        "IADD3",
        types.int32,
        "{ .reg .s32 t; add.s32 t, $1, $2; add.s32 $0, t, $3; }",
        lambda x, a, b: _wrapped(int(x) + int(a) + int(b)),
    ),
    Arithmetic(
        "int-mad",
        "IMAD",
        types.int32,
        "mad.lo.s32 $0, $1, $2, $3;",
        lambda x, a, b: _wrapped(int(x) * int(a) + int(b)),
    ),
    Arithmetic(
        "logic",
        "LOP3",
        types.int32,
        "lop3.b32 $0, $1, $2, $3, 0x6a;",
        lambda x, a, b: _wrapped((_bits(x) & _bits(a)) ^ _bits(b)),
    ),
    Arithmetic("shift", "SHF", types.int32, "shf.l.wrap.b32 $0, $1, $2, $3;", _funnel),
    Arithmetic(
        "popc", "POPC", types.int32, "popc.b32 $0, $1;", lambda x, a, b: np.int32(_bits(x).bit_count())
    ),
    Arithmetic(
        "fp32-add",
        "FADD",
        types.float32,
        "add.rn.f32 $0, $1, $2;",
        lambda x, a, b: np.float32(x + a),
        flops=1,
    ),
    Arithmetic(
        "fp32-mul",
        "FMUL",
        types.float32,
        "mul.rn.f32 $0, $1, $2;",
        lambda x, a, b: np.float32(x * a),
        flops=1,
    ),
    Arithmetic(
        "fp32-fma",
        "FFMA",
        types.float32,
        "fma.rn.f32 $0, $1, $2, $3;",
        lambda x, a, b: np.float32(np.float64(x) * np.float64(a) + np.float64(b)),
        exact=False,
        flops=2,
    ),
    Arithmetic(
        "fp64-add",
        "DADD",
        types.float64,
        "add.rn.f64 $0, $1, $2;",
        lambda x, a, b: np.float64(x + a),
        flops=1,
    ),
    Arithmetic(
        "fp64-mul",
        "DMUL",
        types.float64,
        "mul.rn.f64 $0, $1, $2;",
        lambda x, a, b: np.float64(x * a),
        flops=1,
    ),
    Arithmetic(
        "fp64-fma",
        "DFMA",
        types.float64,
        "fma.rn.f64 $0, $1, $2, $3;",
        lambda x, a, b: np.float64(x * a + b),
        exact=False,
        flops=2,
    ),
    Arithmetic(
        "reciprocal-root",
        "MUFU.RSQ",
        types.float32,
        "rsqrt.approx.ftz.f32 $0, $1;",
        lambda x, a, b: np.float32(1 / np.sqrt(x)),
        exact=False,
    ),
)
"""Instructions by class. None undoes itself: the assembler knows that two reciprocals cancel, and drops
the whole chain."""


def follow(space: str, simulated_step: int) -> Any:
    """A device function ``(chain, address)`` that loads the next address from memory at an address.

    ``space`` is the state space and cache operator, such as ``global.cg``. The simulator has no addresses: it
    takes them as byte offsets into ``chain``, of entries of ``simulated_step`` bytes.
    """
    if SIMULATED:
        return lambda chain, address: chain[int(address) // simulated_step]
    number, width = (types.int32, "u32") if space.startswith("shared") else (types.uint64, "u64")
    letter = _LETTERS[number]

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        shape = ir.FunctionType(_LLVM[number], [_LLVM[number]])
        text = f"ld.{space}.{width} $0, [$1];"
        return builder.asm(shape, text, f"={letter},{letter},~{{memory}}", [values[1]], True)

    def load(typing: Any, chain: Any, address: Any) -> Any:
        return number(chain, number), generate

    return _intrinsic(load)


def _shared_address() -> Any:
    if SIMULATED:
        return lambda array: 0

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, values[0])
        pointer = builder.ptrtoint(array.data, ir.IntType(64))
        shape = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])
        address = builder.asm(shape, "cvta.to.shared.u64 $0, $1;", "=l,l", [pointer], True)
        return builder.trunc(address, ir.IntType(32))

    def locate(typing: Any, array: Any) -> Any:
        return types.int32(array), generate

    return _intrinsic(locate)


shared_address: Any = _shared_address()
"""The 32-bit address of an array in shared memory; 0 in the simulator."""


def _load_shared() -> Any:
    if SIMULATED:
        return lambda array, address: array[int(address) // 4]
    word = ir.IntType(32)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        shape = ir.FunctionType(word, [word])
        return builder.asm(shape, "ld.volatile.shared.u32 $0, [$1];", "=r,r,~{memory}", [values[1]], True)

    def load(typing: Any, array: Any, address: Any) -> Any:
        return types.int32(array, types.int32), generate

    return _intrinsic(load)


def _store_shared() -> Any:
    if SIMULATED:

        def simulated(array: Any, address: Any, value: Any) -> None:
            array[int(address) // 4] = value

        return simulated
    word = ir.IntType(32)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        shape = ir.FunctionType(ir.VoidType(), [word, word])
        builder.asm(shape, "st.volatile.shared.u32 [$0], $1;", "r,r,~{memory}", values[1:], True)
        return context.get_dummy_value()

    def store(typing: Any, array: Any, address: Any, value: Any) -> Any:
        return types.void(array, types.int32, types.int32), generate

    return _intrinsic(store)


load_shared: Any = _load_shared()
"""``(array, address)``: load a 32-bit word that is neither kept in a register nor loaded only once."""

store_shared: Any = _store_shared()
"""``(array, address, value)``: store a 32-bit word, every time."""


def _reduce_add() -> Any:
    if SIMULATED:

        @cuda.jit(device=True)
        def simulated(array: Any, index: Any, value: Any) -> None:
            cuda.atomic.add(array, index, value)

        return simulated
    word, wide = ir.IntType(32), ir.IntType(64)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, values[0])
        place = builder.gep(array.data, [builder.zext(values[1], wide)])
        pointer = builder.ptrtoint(place, wide)
        shape = ir.FunctionType(ir.VoidType(), [wide, word])
        builder.asm(shape, "red.global.add.u32 [$0], $1;", "l,r,~{memory}", [pointer, values[2]], True)
        return context.get_dummy_value()

    def add(typing: Any, array: Any, index: Any, value: Any) -> Any:
        return types.void(array, types.uint32, types.int32), generate

    return _intrinsic(add)


reduce_add: Any = _reduce_add()
"""``(array, index, value)``: add to a 32-bit word of global memory, by the instruction without a result.

Numba's own addition stays the one with a result, which nobody looks at, where the C++ compiler takes this
one.
"""
