"""The front ends that read a file: a cubin, a listing of nvdisasm, CUDA C. Each makes a `KernelImage`.

To add one, write a function as `FrontEnd` and put it into `FRONT_ENDS` by the suffix of its files.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import machine_code_bytes
from smlab.hw_bench.sass import Function, disassemble, parse_listing
from smlab.hw_bench.sass.image import KernelImage, functions_pointed_at, listed_image, read_image
from smlab.hw_bench.sass.linking import called, demangled, linked
from smlab.hw_bench.sass.nvrtc import compile_file

_HELPERS = ("__cuda_", "$")
_OF_BINARY = ": machine code is inside; `cuobjdump -xelf all FILE` takes the .cubin out"
_HINTS = {
    ".ptx": ": PTX is no machine code; `ptxas -arch=sm_80 k.ptx -o k.cubin` compiles it",
    ".fatbin": _OF_BINARY,
    ".so": _OF_BINARY,
    ".o": _OF_BINARY,
    ".exe": _OF_BINARY,
    ".dll": _OF_BINARY,
}


@dataclass(frozen=True)
class KernelFile:
    """A file that holds a kernel, and what was asked for: the architecture to compile for (``sm_80``), the
    name of one kernel among several, macros of CUDA C, and folders with its headers beside its own."""

    path: Path
    architecture: str
    name: str | None = None
    defines: Mapping[str, str] = field(default_factory=dict)
    folders: Sequence[Path] = ()

    def content(self) -> bytes:
        """The file's bytes, within the limits of machine code; `SmlabError` for what cannot be read."""
        return machine_code_bytes(self.path)


FrontEnd = Callable[[KernelFile], KernelImage]


def _cubin(file: KernelFile) -> KernelImage:
    return from_cubin(file.content(), file.name, str(file.path))


def _listing(file: KernelFile) -> KernelImage:
    functions = parse_listing(file.content().decode(errors="replace"), str(file.path))
    return listed_image(linked(functions, choose(functions, file.name, str(file.path))))


def _cuda(file: KernelFile) -> KernelImage:
    compiled = compile_file(file.path, file.architecture, file.defines.items(), file.folders)
    return from_cubin(compiled, file.name, str(file.path))


FRONT_ENDS: dict[str, FrontEnd] = {".cubin": _cubin, ".sass": _listing, ".cu": _cuda}


def kinds() -> str:
    """What `smlab run` takes as a kernel, for messages."""
    known = {".sass": ".sass (nvdisasm -c -hex)"}
    return f"{', '.join(known.get(suffix, suffix) for suffix in FRONT_ENDS)} or file.py:kernel"


def load_kernel(
    path: Path,
    architecture: str,
    *,
    name: str | None = None,
    defines: Mapping[str, str] | None = None,
    folders: Sequence[Path] = (),
) -> KernelImage:
    """Read or compile a kernel by the front end of its file's suffix; ``name`` chooses among several. CUDA C
    finds its headers beside it and in ``folders``.

    Raises:
        SmlabError: a file that is none of these, has several kernels or none of that name, or does not
        compile; a folder that is not there.
    """
    suffix = path.suffix
    if suffix not in FRONT_ENDS:
        hint = _HINTS.get(suffix, "")
        raise SmlabError.at(str(path), f"no kernel file{hint}", suffix or path.name, kinds())
    return FRONT_ENDS[suffix](KernelFile(path, architecture, name, defines or {}, folders))


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
        exact = [f for f in kernels if name in (f.name, demangled(f.name))]
        kernels = exact or [f for f in kernels if called(f.name, name)]
    if len(kernels) == 1:
        return kernels[0]
    names = "; ".join(demangled(f.name) for f in marked or functions) or "there are none"
    what = "no such kernel" if name is not None and not kernels else "does not hold one kernel"
    raise SmlabError.at(where, what, name, f"name = one of {names}")
