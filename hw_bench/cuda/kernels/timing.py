"""Kernels around measuring: one that holds the GPU until the host says go, one that does nothing, and one
that runs for as many cycles as asked and reads both of the GPU's clocks."""

from __future__ import annotations

import importlib
from typing import Any, Final

from llvmlite import ir
from numba import types

from smlab.hw_bench.cuda.kernels.device import clock, coarse_clock, cuda, int32, int64
from smlab.hw_bench.cuda.toolkit import SIMULATED, has_compiler

GO, GAVE_UP = range(2)
"""Columns of the flags that host and GPU share."""
PATIENCE_CYCLES: Final = 1_600_000_000
"""After which the GPU goes on unasked, so that nothing can hang."""
CYCLES, NANOSECONDS = range(2)
"""Columns of what `run_for` reads: cycles of the SM's clock, nanoseconds of the GPU's global timer."""


def _intrinsic(function: Any) -> Any:
    source = "numba.cuda.extending" if has_compiler() else "numba.extending"
    return importlib.import_module(source).intrinsic(function)


def _load_volatile() -> Any:
    if SIMULATED:
        return lambda array, index: array[index]
    word, wide = ir.IntType(32), ir.IntType(64)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, values[0])
        place = builder.gep(array.data, [builder.sext(values[1], wide)])
        pointer = builder.ptrtoint(place, wide)
        shape = ir.FunctionType(word, [wide])
        return builder.asm(shape, "ld.volatile.global.u32 $0, [$1];", "=r,l,~{memory}", [pointer], True)

    def load(typing: Any, array: Any, index: Any) -> Any:
        return types.int32(array, types.int32), generate

    return _intrinsic(load)


def _global_timer() -> Any:
    if SIMULATED:
        return lambda: 0
    wide = ir.IntType(64)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        shape = ir.FunctionType(wide, [])
        return builder.asm(shape, "mov.u64 $0, %globaltimer;", "=l,~{memory}", [], True)

    def read(typing: Any) -> Any:
        return types.int64(), generate

    return _intrinsic(read)


load_volatile: Any = _load_volatile()
"""``(array, index)``: load a 32-bit word of global memory, every time anew."""
global_timer: Any = _global_timer()
"""The GPU's timer in nanoseconds, which does not go with the SM's clock."""


def hold(flags: Any, patience: Any) -> None:
    """Wait until the host has set the flag `GO`."""
    began = coarse_clock()
    while load_volatile(flags, int32(GO)) == 0:
        if int32(coarse_clock() - began) > patience:
            flags[GAVE_UP] += 1
            return


def nothing(flags: Any) -> None:
    """A launch, and nothing else."""


def run_for(cycles: Any, out: Any) -> None:
    """Run for ``cycles`` of the SM's clock or a little more, and tell how long that was by both clocks."""
    if cuda.grid(1) == 0:
        timer = global_timer()
        start = clock()
        now = start
        while now - start < cycles:
            now = clock()
        out[CYCLES] = now - start
        out[NANOSECONDS] = int64(global_timer()) - timer


SIGNATURES: Final = {
    "hold": (hold, "void(int32[::1], int32)"),
    "nothing": (nothing, "void(int32[::1])"),
    "run_for": (run_for, "void(int64, int64[::1])"),
}
