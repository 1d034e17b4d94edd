"""Kernels written in Python: Numba's CUDA compiles them, with no GPU, for the architecture that is
simulated."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass.image import KernelImage
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.frontends.protocol import KernelSource, LoadedKernel
from smlab.sim.isa.launch.launch import ArrayView

_SCALARS = (bool, int, float, complex, np.generic)


def load_numba(source: KernelSource) -> LoadedKernel:
    """A Numba kernel, or a plain function that is taken for one."""
    source.check_options()
    image = image_of_function(source.kernel, source.architecture, source.arguments)
    return LoadedKernel(image, flattened(image, source.arguments))


def is_function(kernel: object) -> bool:
    """Whether Numba may compile it."""
    return callable(kernel) or hasattr(kernel, "py_func")


def image_of_function(kernel: Any, architecture: str, arguments: tuple[Any, ...]) -> KernelImage:
    """A Numba kernel, or a plain function, compiled for the types of its arguments."""
    from smlab.hw_bench.cuda.contract.compiler import JitOptions, compile_function

    function = getattr(kernel, "py_func", kernel)
    if not callable(function):
        raise SmlabError.at("kernel", "no function", str(kernel))
    told = getattr(kernel, "targetoptions", {})
    known = {f.name for f in fields(JitOptions)}
    options = JitOptions(**{name: value for name, value in told.items() if name in known})
    content = compile_function(function, _types(arguments), architecture, options)
    return from_cubin(content, None, function.__name__)


def _types(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    from numba import typeof, types

    def type_of(argument: Any, what: str) -> Any:
        if isinstance(argument, np.ndarray):
            flags = argument.flags
            if not (flags.c_contiguous or flags.f_contiguous):
                raise SmlabError.at(
                    what, "is not contiguous in memory", argument.strides, "a contiguous array"
                )
            element = typeof(argument).dtype
            if flags.c_contiguous:
                return types.Array(element, argument.ndim, "C")
            return types.Array(element, argument.ndim, "F")
        if isinstance(argument, tuple):
            for n, part in enumerate(argument):
                type_of(part, f"{what}, part {n + 1}")
            return typeof(argument)
        if isinstance(argument, _SCALARS):
            return typeof(argument)
        raise SmlabError.at(
            what, "no argument of a kernel", argument, "an array, a number or a tuple of them"
        )

    return tuple(type_of(argument, f"argument {n + 1}") for n, argument in enumerate(arguments))


def flattened(image: KernelImage, arguments: tuple[Any, ...]) -> list[Any]:
    """Numba's calling convention: an array is a record of pointers, counts, shape and strides; a complex
    number is two numbers, and a tuple its parts."""
    flat: list[Any] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            before = (0, 0, argument.size, argument.itemsize)
            flat.extend(np.int64(word) for word in before)
            flat.append(ArrayView(argument))
            flat.extend(np.int64(word) for word in (*argument.shape, *argument.strides))
        elif isinstance(argument, tuple):
            flat.extend(flattened(image, argument))
        elif isinstance(argument, np.void):
            flat.append(np.frombuffer(bytearray(argument.tobytes()), dtype=np.uint8))
        elif isinstance(argument, complex | np.complexfloating):
            flat.extend((np.asarray(argument).real[()], np.asarray(argument).imag[()]))
        elif isinstance(argument, bool | np.bool_):
            flat.append(np.uint8(argument))
        elif isinstance(argument, np.generic):
            flat.append(argument)
        elif isinstance(argument, float):
            flat.append(np.float64(argument))
        else:
            flat.append(np.int64(argument))
    return flat
