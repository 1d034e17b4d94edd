"""Kernels written in Python: Numba's CUDA compiles them, with no GPU, for the architecture that is
simulated."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import check_file
from smlab.hw_bench.sass.image import KernelImage
from smlab.sim.machine_code.kernels import from_cubin
from smlab.sim.machine_code.launch import ArrayView


def from_file(path: Path, name: str, architecture: str, arguments: tuple[Any, ...]) -> KernelImage:
    """The kernel ``name`` of a Python file, which is executed."""
    check_file(path, "a Python file")
    spec = importlib.util.spec_from_file_location(f"_smlab_kernel_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise SmlabError.at(str(path), "no Python file", path.suffix, "file.py:kernel")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise SmlabError(f"{path}: cannot be executed: {type(error).__name__}: {error}") from error
    if not hasattr(module, name):
        raise SmlabError.at(str(path), "has no such kernel", name)
    return image_of_function(getattr(module, name), architecture, arguments)


def image_of_function(kernel: Any, architecture: str, arguments: tuple[Any, ...]) -> KernelImage:
    """A Numba kernel, or a plain function, compiled for the types of its arguments."""
    from smlab.hw_bench.cuda.contract.compiler import compile_function

    function = getattr(kernel, "py_func", kernel)
    if not callable(function):
        raise SmlabError.at("kernel", "no function", str(kernel))
    return from_cubin(compile_function(function, _types(arguments), architecture), None, function.__name__)


def _types(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    from numba import typeof, types

    found = []
    for n, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray):
            if not argument.flags.c_contiguous:
                raise SmlabError.at(
                    f"argument {n + 1}", "is not contiguous in memory", argument.strides, "a C array"
                )
            found.append(types.Array(typeof(argument).dtype, argument.ndim, "C"))
        elif isinstance(argument, bool | int | float | np.generic):
            found.append(typeof(argument))
        else:
            raise SmlabError.at(
                f"argument {n + 1}", "no argument of a kernel", argument, "an array or a number"
            )
    return tuple(found)


def flattened(image: KernelImage, arguments: tuple[Any, ...]) -> list[Any]:
    """Numba's calling convention: an array is a record of pointers, counts, shape and strides."""
    flat: list[Any] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            before = (0, 0, argument.size, argument.itemsize)
            flat.extend(np.int64(word) for word in before)
            flat.append(ArrayView(argument))
            flat.extend(np.int64(word) for word in (*argument.shape, *argument.strides))
        elif isinstance(argument, np.generic):
            flat.append(argument)
        elif isinstance(argument, float):
            flat.append(np.float64(argument))
        else:
            flat.append(np.int64(argument))
    return flat
