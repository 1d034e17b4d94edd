"""Kernels in Triton: compiled by Triton for the architecture that is simulated, with no GPU.

Triton's own launch decides types and specialization (a whole number 1 is compiled in; pointers and numbers
that 16 divides are told to the compiler), here as on a GPU. What would be launched is taken instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from smlab.hw_bench.errors import SmlabError
from smlab.sim.frontends.protocol import KernelSource, LoadedKernel
from smlab.sim.frontends.triton_driver import SimulatedDriver, TritonTarget, driving

CONFIG: Final = "config"
"""The option that chooses among an autotuner's configurations."""
_ROOM: Final = {"max_shared_mem": 1 << 20, "max_num_regs": 1 << 16, "multiprocessor_count": 1, "warpSize": 32}
"""Of a GPU of which only the architecture is known: what does not fit, the launch says."""


def is_triton(kernel: object) -> bool:
    """Whether it is a kernel of Triton: a function under `triton.jit`, or with configurations around it."""
    return type(kernel).__module__.startswith("triton.") and hasattr(kernel, "run")


def _target(architecture: str) -> TritonTarget:
    return TritonTarget(architecture, architecture, _ROOM)


@contextmanager
def active_for_decorators(architecture: str) -> Iterator[None]:
    """Where a file of Python is executed: `triton.autotune` of older releases asks at once what the GPU is.
    Without Triton, nothing."""
    import importlib.util

    if importlib.util.find_spec("triton") is None:
        yield
        return
    with driving(SimulatedDriver(_target(architecture), _refused)):
        yield


def _refused(kernel: LoadedKernel) -> float:
    raise SmlabError.at(
        kernel.image.function.name,
        "the file launches it when it is executed",
        expected='a file that only defines kernels, or `if __name__ == "__main__":` around launches',
    )


def load_triton(source: KernelSource) -> LoadedKernel:
    """A kernel for these arguments, meta-parameters and options (``num_warps``, ``num_stages``). An
    autotuner's first configuration is taken, or the one whose number is the option ``config``; options that
    are given count more than its own.

    Raises:
        SmlabError: no Triton, or what Triton says of the kernel.
    """
    taken: list[LoadedKernel] = []

    def take(kernel: LoadedKernel) -> float:
        taken.append(kernel)
        return 0.0

    kernel, options = _configured(source)
    grid = source.grid
    if not callable(grid):
        grid = (grid,) if isinstance(grid, int) else tuple(grid or (1,))
    with driving(SimulatedDriver(_target(source.architecture), take, source.memory)):
        try:
            kernel[grid](*source.arguments, **options)
        except SmlabError:
            raise
        except Exception as error:
            name = getattr(kernel, "__name__", "kernel")
            raise SmlabError(f"{name}: does not compile for {source.architecture}: {_told(error)}") from error
    if len(taken) != 1:
        raise SmlabError.at("grid", "has no block", source.grid, "one to three numbers from 1 on")
    return taken[0]


def configurations_of(kernel: Any) -> list[dict[str, Any]]:
    """What each configuration of an autotuner sets; empty for a kernel without one. What is None is left to
    Triton."""
    return [
        {name: value for name, value in config.all_kwargs().items() if value is not None}
        for config in getattr(kernel, "configs", None) or ()
    ]


def _configured(source: KernelSource) -> tuple[Any, dict[str, Any]]:
    """The kernel below its autotuner, and the options with those of the configuration."""
    kernel, options = source.kernel, dict(source.options)
    configs = getattr(kernel, "configs", None)
    if configs is None:
        return kernel, options
    number = source.option(CONFIG, int, 0)
    options.pop(CONFIG, None)
    if not 0 <= number < len(configs):
        raise SmlabError.at(CONFIG, "no such configuration", number, f"0 to {len(configs) - 1}")
    return kernel.fn, {**configs[number].all_kwargs(), **options}


def _told(error: Exception) -> str:
    """What Triton says, in one line: the last line of a compilation's message, which says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" ^")]
    found = (re.search(r"^ptxas.*(line \d+); *error *: *(.*)", line) for line in lines)
    if wrong := next(filter(None, found), None):
        return f"ptxas, {wrong[1]} of the PTX: {wrong[2]}"
    cause = error.__cause__
    if cause is not None and str(cause).strip():
        return f"{type(cause).__name__}: {str(cause).strip().splitlines()[-1]}"
    return f"{type(error).__name__}: {lines[-1]}" if lines else type(error).__name__
