"""CUDA C: by NVIDIA's run-time compiler."""

from __future__ import annotations

from smlab.hw_bench.sass.nvrtc import compile_file
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.frontends.protocol import KernelSource, LoadedKernel


def load_cuda(source: KernelSource) -> LoadedKernel:
    """A file of CUDA C."""
    source.check_options()
    compiled = compile_file(source.path, source.architecture, source.defines.items(), source.folders)
    return LoadedKernel(from_cubin(compiled, source.name, source.where))
