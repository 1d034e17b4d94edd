"""Machine code as it is: a cubin, or a listing of nvdisasm; and the image of a kernel in a cubin."""

from __future__ import annotations

import struct
from functools import lru_cache

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass import Function, disassemble, parse_listing
from smlab.hw_bench.sass.cubin import CubinSections
from smlab.hw_bench.sass.image import KernelImage, functions_pointed_at, listed_image, read_image
from smlab.hw_bench.sass.linking import called, demangled, linked
from smlab.sim.frontends.protocol import KernelSource, LoadedKernel

_HELPERS = ("__cuda_", "$")


def load_cubin(source: KernelSource) -> LoadedKernel:
    """A CUDA binary."""
    source.check_options()
    return LoadedKernel(from_cubin(source.content(), source.name, source.where))


def load_listing(source: KernelSource) -> LoadedKernel:
    """What ``nvdisasm -c -hex`` printed."""
    source.check_options()
    functions = parse_listing(source.content().decode(errors="replace"), source.where)
    return LoadedKernel(listed_image(linked(functions, choose(functions, source.name, source.where))))


def from_cubin(content: bytes, name: str | None, where: str) -> KernelImage:
    """The image of a kernel in a cubin; nvdisasm must be there.

    Raises:
        SmlabError: a cubin that is damaged, or holds no such kernel.
    """
    try:
        CubinSections(content, where)  # names the file, which the cached disassembly does not know
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
