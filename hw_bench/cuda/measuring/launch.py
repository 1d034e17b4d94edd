"""Kernels made ready to run: compiled for the GPU that is there, or run by Numba's simulator."""

from __future__ import annotations

from functools import cache
from typing import Any

from smlab.hw_bench.cuda import registry
from smlab.hw_bench.cuda.kernels.spec import KernelSpec
from smlab.hw_bench.cuda.measuring.driver import cuda
from smlab.hw_bench.cuda.toolkit import SIMULATED


@cache
def _ready(benchmark: str, name: str) -> Any:
    spec = registry.kernel(benchmark, name)
    if SIMULATED:
        return cuda.jit(spec.function)
    # Numba's default is to optimise while linking, from NVVM's code and not from PTX: code that the contract
    # has not seen.
    architecture = "sm_{}{}".format(*cuda.get_current_device().compute_capability)
    function = spec.function_for(architecture)
    kernel = cuda.jit(spec.signature, launch_bounds=spec.launch_bounds, lto=False)(function)
    # Loaded now: a first launch that loads would wait for a GPU that is held back (`timing`).
    next(iter(kernel.overloads.values())).bind()
    return kernel


def ready(spec: KernelSpec) -> Any:
    """The kernel as Numba launches it: ``ready(spec)[grid, block](...)``."""
    if cuda.stand_in is not None:
        return cuda.kernel(spec)
    return _ready(spec.benchmark, spec.name)


def running_cubin(spec: KernelSpec) -> bytes | None:
    """The binary that this GPU runs for a kernel, where Numba tells; None in the simulator."""
    if cuda.stand_in is not None:
        cubin: bytes = cuda.stand_in.cubin(spec)
        return cubin
    if SIMULATED:
        return None
    compiled = next(iter(ready(spec).overloads.values()))
    content = compiled.library.get_cubin()
    code = getattr(content, "code", content)
    return code if isinstance(code, bytes) else None
