"""Kernels in a file of Python, which is executed: ``file.py:kernel``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import check_file

_EXTRAS: Final[dict[str | None, str]] = {"triton": "triton", "cupy": "cupy", "numba_cuda": "cuda12"}
"""What to install for a package that a file imports."""


def split_name(kernel: str) -> tuple[Path, str] | None:
    """The parts of ``file.py:kernel``; None for any other name."""
    head, colon, name = kernel.rpartition(":")
    return (Path(head), name) if colon and head.endswith(".py") else None


def kernel_of_file(path: Path, name: str) -> Any:
    """The object ``name`` of a Python file.

    Raises:
        SmlabError: a file that cannot be executed, or has no such name.
    """
    check_file(path, "a Python file")
    spec = importlib.util.spec_from_file_location(f"_smlab_kernel_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise SmlabError.at(str(path), "no Python file", path.suffix, "file.py:kernel")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except SmlabError:
        raise
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        advice = f": pip install 'smlab[{_EXTRAS[missing]}]'" if missing in _EXTRAS else ""
        raise SmlabError(f"{path}: cannot be executed: {type(error).__name__}: {error}{advice}") from error
    if not hasattr(module, name):
        raise SmlabError.at(str(path), "has no such kernel", name)
    return getattr(module, name)
