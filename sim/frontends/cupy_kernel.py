"""CuPy's kernels of CUDA C: `RawKernel`, and a function of a `RawModule`.

CuPy loads a function when it is asked for one, which needs a GPU. Its source and options need none.
"""

from __future__ import annotations

from typing import Any, Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass.nvrtc import compile_cuda
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.frontends.protocol import KernelSource, LoadedKernel

_KINDS: Final = ("RawKernel", "RawModule")


def is_cupy(kernel: object) -> bool:
    """Whether it is a kernel or a module of CuPy's."""
    return type(kernel).__module__.startswith("cupy") and type(kernel).__name__ in _KINDS


def load_cupy(source: KernelSource) -> LoadedKernel:
    """The kernel, compiled with its own options; of a module the one that ``name`` says."""
    source.check_options()
    kernel: Any = source.kernel
    name = source.name or getattr(kernel, "name", None)
    code = kernel.code
    if code is None:
        raise SmlabError.at(
            "kernel",
            "a module that was loaded from a file",
            kernel.file_path,
            "the file itself as the kernel",
        )
    expressions = [f"--name-expression={e}" for e in getattr(kernel, "name_expressions", None) or ()]
    if expressions:
        raise SmlabError.at("kernel", "name expressions are not taken", expressions, "an instance by name")
    options = [*kernel.options, *(f"-D{key}={value}" for key, value in source.defines.items())]
    content = compile_cuda(code, source.architecture, options, f"{name or 'module'}.cu")
    return LoadedKernel(from_cubin(content, name, name or "module"))
