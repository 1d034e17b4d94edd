"""Kernels in Warp: compiled by the compiler that is in Warp's wheel, with no GPU.

The grid is what `warp.launch` calls ``dim``: the threads that a kernel's `tid` counts, in up to four
dimensions.
"""

from __future__ import annotations

import contextlib
import io
import math
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.sim.frontends.host_arrays import ArgumentMemory
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.frontends.protocol import KernelSource, LoadedKernel

BLOCK: Final = "block_dim"
"""The option that says the threads of a block."""
_MOST_DIMENSIONS: Final = 4


def is_warp(kernel: object) -> bool:
    """Whether it is a function under `warp.kernel`."""
    return type(kernel).__module__.startswith("warp.") and hasattr(kernel, "adj")


def load_warp(source: KernelSource) -> LoadedKernel:
    """A kernel with its arguments in Warp's calling convention; arrays are NumPy's, or Warp's on the CPU.

    Raises:
        SmlabError: what Warp says of the kernel or of an argument; a grid that is none.
    """
    source.check_options(BLOCK)
    kernel: Any = source.kernel
    threads = source.option(BLOCK, int, 256)
    dim = source.grid if isinstance(source.grid, tuple | list) else (source.grid,)
    if not 1 <= len(dim) <= _MOST_DIMENSIONS or any(not isinstance(n, int) or n < 1 for n in dim):
        raise SmlabError.at("grid", "not a shape", source.grid, "one to four numbers of threads from 1 on")
    types, context = import_module("warp._src.types"), import_module("warp._src.context")
    content = _compiled(kernel, int(source.architecture.removeprefix("sm_")), threads)
    parameters = [a for a in kernel.adj.args if a.label not in getattr(kernel.adj, "hidden", ())]
    if len(source.arguments) != len(parameters):
        raise SmlabError.at(
            kernel.key, "wrong number of arguments", len(source.arguments), str(len(parameters))
        )
    memory, given = ArgumentMemory(source.memory), [bytes(types.launch_bounds_t(tuple(dim)))]
    for parameter, value in zip(parameters, source.arguments, strict=True):
        try:
            packed = context.pack_arg(kernel, parameter.type, parameter.label, value, "cpu")
        except (RuntimeError, TypeError, ValueError) as error:
            said = str(error).splitlines()[0]
            raise SmlabError.at(f"{kernel.key}: {parameter.label}", f"no argument: {said}") from error
        if isinstance(packed, types.array_t) and value is not None:
            array = value if isinstance(value, np.ndarray) else value.numpy()
            packed = type(packed).from_buffer_copy(packed)
            packed.data = memory.address_of(f"{kernel.key}: {parameter.label}", array)
        given.append(bytes(packed))
    image = from_cubin(content, f"{kernel.get_mangled_name()}_cuda_kernel_forward", kernel.key)
    return LoadedKernel(
        image,
        given,
        names=("dim", *(parameter.label for parameter in parameters)),
        block=(threads, 1, 1),
        grid=(-(-math.prod(dim) // threads), 1, 1),
        memory=memory.memory,
    )


def _compiled(kernel: Any, architecture: int, threads: int) -> bytes:
    """The cubin of the kernel's module. What Warp prints meanwhile is dropped."""
    import warp

    module = kernel.module
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            warp.init()
            module.options["block_dim"] = threads
            made = warp.compile_aot_module(
                module, arch=architecture, module_dir=folder, use_ptx=False, strip_hash=False
            )
        except Exception as error:
            lines = [line for line in f"{said.getvalue()}\n{error}".splitlines() if "error" in line.lower()]
            told = lines[0].strip() if lines else f"{type(error).__name__}: {error}"
            raise SmlabError(f"{kernel.key}: does not compile for sm_{architecture}: {told}") from error
        (cubin,) = (Path(path) for path in made if str(path).endswith(".cubin"))
        return cubin.read_bytes()
