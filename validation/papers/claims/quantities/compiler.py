"""What the compiler makes of kernels, by disassembly: the histogram (Dong & Pai) and special functions (Van
Lanker et al.).

Needs the compiler packages and nvdisasm, and no GPU.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from smlab.hw_bench.cuda import registry
from smlab.hw_bench.cuda.contract.compiler import compile_kernel
from smlab.hw_bench.cuda.kernels.device import cuda, uint32
from smlab.hw_bench.cuda.kernels.spec import KernelSpec
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass.compare import compare_code
from smlab.validation.papers.claims.registry import Observed, quantity
from smlab.validation.papers.judging import Scale


@functools.cache
def _count(kernel: str, architecture: str, instruction: str) -> int:
    compiled = compile_kernel(registry.kernel("histogram", kernel), architecture)
    return len(compiled.function.find(instruction))


@quantity("compiler.instructions", unit="instructions", evidence="measured", quick=False)
def instructions(kernel: str, architecture: str, instruction: str) -> Observed:
    """How many of an instruction one of the histogram benchmark's kernels has."""
    return Observed.exactly(
        _count(kernel, architecture, instruction), f"{instruction} in {kernel}, {architecture}"
    )


def _divide(values: Any, result: Any) -> None:
    i = uint32(cuda.grid(1))
    result[i] = result[i] / values[i]


def _logarithm(values: Any, result: Any) -> None:
    i = uint32(cuda.grid(1))
    result[i] = math.log(values[i])


def _root(values: Any, result: Any) -> None:
    i = uint32(cuda.grid(1))
    result[i] = math.sqrt(values[i])


def _exponential(values: Any, result: Any) -> None:
    i = uint32(cuda.grid(1))
    result[i] = math.exp(values[i])


SPECIAL: dict[str, Callable[..., None]] = {
    "division": _divide,
    "logarithm": _logarithm,
    "root": _root,
    "exponential": _exponential,
}


@quantity(
    "compiler.special_function_difference", unit="%", evidence="measured", scale=Scale.DIFFERENCE, quick=False
)
def special_function_difference(source: str, target: str) -> Observed:
    """The largest change in floating-point operations of a special function, FP32 and FP64, one compiler
    for both GPUs."""
    changes, words = [], []
    for precision, type_name in (("fp32", "float32"), ("fp64", "float64")):
        for name, function in SPECIAL.items():
            signature = f"void({type_name}[::1], {type_name}[::1])"
            spec = KernelSpec("special functions", f"{name} {precision}", function, signature, lambda _: ())
            code = [compile_kernel(spec, a).function for a in (source, target)]
            ratio = compare_code(code[0], code[1]).ratio("fp32" if precision == "fp32" else "fp64")
            if ratio is None:
                raise SmlabError.at(f"{name} {precision}", "no floating-point operation in the code", source)
            changes.append(100 * abs(ratio - 1))
            words.append(f"{name} {precision} x {ratio:.3f}")
    return Observed.exactly(max(changes), ", ".join(words))
