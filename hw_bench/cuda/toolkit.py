"""Which CUDA packages are here, and what to do where they are not."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Sequence
from typing import Final

import numpy

from smlab.hw_bench.errors import SmlabError

INSTALL: Final = "pip install 'smlab[cuda12]'"

SIMULATED: Final = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
"""Whether Numba runs kernels in Python threads on the CPU: right results, no time."""

PACKAGES: Final = (
    "numba-cuda",
    "numba",
    "llvmlite",
    "numpy",
    "cuda-bindings",
    "cuda-core",
    "nvidia-cuda-nvcc-cu12",
    "nvidia-nvjitlink-cu12",
)

_LIBRARIES: Final = ("numba.cuda", "numba_cuda", "cuda.", "llvmlite", "pynvjitlink")
"""Modules whose errors are those of the CUDA toolkit, the driver or the compiler."""


def has_compiler() -> bool:
    """Whether kernels can be compiled here (a GPU is not needed for that)."""
    return importlib.util.find_spec("numba_cuda") is not None


def require_compiler() -> None:
    """Raise `SmlabError` with what to install, where kernels cannot be compiled."""
    if not has_compiler():
        raise SmlabError(f"the CUDA benchmarks need the package numba-cuda: {INSTALL}")
    if SIMULATED:
        raise SmlabError(
            "NUMBA_ENABLE_CUDASIM is set: Numba only simulates kernels and cannot compile them; unset it"
        )
    _numpy_of_numba()


def _numpy_of_numba() -> None:
    """NumPy 2.5 removed an alias that Numba's CUDA target (up to 0.30.4) names when it first compiles; it
    would end every compilation."""
    if not hasattr(numpy, "row_stack"):
        setattr(numpy, "row_stack", numpy.vstack)  # noqa: B010


def require_gpu() -> None:
    """Raise `SmlabError` with what is missing, where kernels cannot be run."""
    require_compiler()
    # A kernel that is loaded at its first launch waits for the GPU, which the suite holds (`timing`).
    os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")
    from numba import cuda

    if not cuda.is_available():
        # One line of it: without any driver the reason is a paragraph, and nothing new.
        why = str(cuda.cuda_error() or "").strip().splitlines()
        reason = f" ({why[0]})" if len(why) == 1 else ""
        raise SmlabError(
            f"no CUDA GPU can be used here{reason}: running the benchmarks needs an NVIDIA GPU (compute "
            "capability 7.0 or later) and its driver; `smlab bench sass` checks the machine code without one"
        )
    try:
        cuda.current_context()
    except Exception as error:
        if not is_of_toolkit(error):
            raise
        # Another process has it for itself alone, or it is out of order.
        raise SmlabError(f"the GPU is there but cannot be used: {one_line(error)}") from error


def is_of_toolkit(error: BaseException) -> bool:
    """Whether CUDA failed (the driver, the compiler, a library of the toolkit), and not our own code."""
    return any(c.__module__.startswith(_LIBRARIES) for c in type(error).__mro__)


def one_line(error: BaseException) -> str:
    """An error in one line: its kind, and the first line that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def package_versions(names: Sequence[str] = PACKAGES) -> dict[str, str]:
    """The release of each package, by default those that shape the machine code; those not installed are
    left out."""
    versions = {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
