"""Kernels as they come: a cubin, a listing of nvdisasm, CUDA C, a Numba function; all become a
`KernelImage`."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass import Function, disassemble, parse_listing
from smlab.hw_bench.sass.image import KernelImage, functions_pointed_at, listed_image, read_image
from smlab.hw_bench.sass.linking import linked
from smlab.hw_bench.sass.nvrtc import compile_cuda

_HELPERS = ("__cuda_", "$")
KINDS = ".cubin, .sass (nvdisasm -c -hex), .cu or file.py:kernel"


def load_kernel(
    path: Path, architecture: str, *, name: str | None = None, defines: Mapping[str, str] | None = None
) -> KernelImage:
    """Read or compile a kernel; ``name`` chooses among several.

    Raises:
        SmlabError: a file that is none of these, has several kernels or none of that name, or does not
        compile.
    """
    suffix = path.suffix
    if suffix == ".cubin":
        return from_cubin(_bytes(path), name, str(path))
    if suffix == ".sass":
        functions = parse_listing(_bytes(path).decode(errors="replace"), str(path))
        return listed_image(linked(functions, choose(functions, name, str(path))))
    if suffix == ".cu":
        options = [f"-D{key}={value}" for key, value in (defines or {}).items()]
        source = _bytes(path).decode(errors="replace")
        return from_cubin(compile_cuda(source, architecture, options, path.name), name, str(path))
    raise SmlabError.at(str(path), "no kernel file", suffix or path.name, KINDS)


def from_cubin(content: bytes, name: str | None, where: str) -> KernelImage:
    """The image of a kernel in a cubin; nvdisasm must be there.

    Raises:
        SmlabError: a cubin that is damaged, or holds no such kernel.
    """
    try:
        functions = _functions(content)
        kernel = linked(functions, choose(functions, name, where), functions_pointed_at(content))
        return read_image(content, kernel, where)
    except (ValueError, IndexError, struct.error) as error:
        what = getattr(error, "reason", None) or error
        raise SmlabError.at(where, f"is cut off or damaged: {what}") from error


@lru_cache(maxsize=16)
def _functions(content: bytes) -> tuple[Function, ...]:
    """What the disassembler says; it takes 0.2 s however small a cubin is, and a kernel may be launched many
    times."""
    return disassemble(content)


def choose(functions: tuple[Function, ...], name: str | None, where: str) -> Function:
    """The kernel asked for, or the only one."""
    marked = [f for f in functions if f.entry]
    kernels = marked or [f for f in functions if not f.name.startswith(_HELPERS)]
    if name is not None:
        kernels = [f for f in kernels if name == f.name or f"{len(name)}{name}" in f.name]
    if len(kernels) == 1:
        return kernels[0]
    names = ", ".join(f.name for f in marked or functions) or "there are none"
    what = "no such kernel" if name is not None and not kernels else "does not hold one kernel"
    raise SmlabError.at(where, what, name, f"name = one of {names}")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SmlabError.at(str(path), f"cannot be read: {error.strerror}") from error
