"""All front ends, and which one a kernel goes through.

To add one, write its function in a module beside this one, and its row into `FRONT_ENDS`: files are known by
their suffix, Python objects by a function that looks at them. The first row that takes an object has it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass.image import KernelImage
from smlab.sim.frontends.cuda_c import load_cuda
from smlab.sim.frontends.cupy_kernel import is_cupy, load_cupy
from smlab.sim.frontends.host_binary import HOST_FILES, load_binary
from smlab.sim.frontends.machine_code import load_cubin, load_listing
from smlab.sim.frontends.numba_kernel import is_function, load_numba
from smlab.sim.frontends.protocol import KernelFrontEnd, KernelSource, LoadedKernel
from smlab.sim.frontends.ptx import load_ptx
from smlab.sim.frontends.python_file import kernel_of_file, split_name
from smlab.sim.frontends.triton_kernel import active_for_decorators, is_triton, load_triton
from smlab.sim.frontends.warp_kernel import is_warp, load_warp

FRONT_ENDS: Final[tuple[KernelFrontEnd, ...]] = (
    KernelFrontEnd(".cubin", load_cubin, suffixes=(".cubin",)),
    KernelFrontEnd(".sass (nvdisasm -c -hex)", load_listing, suffixes=(".sass",)),
    KernelFrontEnd(".ptx", load_ptx, suffixes=(".ptx",)),
    KernelFrontEnd(".cu", load_cuda, suffixes=(".cu",)),
    KernelFrontEnd(
        "a program or .fatbin, .o, .so",
        load_binary,
        (".fatbin", ".o", ".so", ".a", ".exe", ".dll"),
        HOST_FILES,
    ),
    KernelFrontEnd("CuPy", load_cupy, takes=is_cupy),
    KernelFrontEnd("Triton", load_triton, takes=is_triton, sets_block=True),
    KernelFrontEnd("Warp", load_warp, takes=is_warp, sets_block=True),
    KernelFrontEnd("Numba", load_numba, takes=is_function),
)


def kinds() -> str:
    """What `smlab run` takes as a kernel, for messages."""
    files = ", ".join(row.kind for row in FRONT_ENDS if row.suffixes)
    return f"{files} or file.py:kernel"


def resolved_kernel(kernel: Any, architecture: str) -> Any:
    """The object that ``file.py:kernel`` names; a path; any other kernel as it is."""
    if not isinstance(kernel, str | os.PathLike):
        return kernel
    text = os.fsdecode(kernel)
    parts = split_name(text)
    if parts is None:
        return Path(text)
    with active_for_decorators(architecture):
        return kernel_of_file(*parts)


def front_end_of(kernel: Any) -> KernelFrontEnd:
    """The front end of a path or an object.

    Raises:
        SmlabError: nobody takes it.
    """
    if isinstance(kernel, Path):
        for row in FRONT_ENDS:
            if kernel.suffix in row.suffixes:
                return row
        begin = _first_bytes(kernel)
        for row in FRONT_ENDS:
            if begin.startswith(row.begins):
                return row
        raise SmlabError.at(str(kernel), "no kernel file", kernel.suffix or kernel.name, kinds())
    for row in FRONT_ENDS:
        if row.takes(kernel):
            return row
    raise SmlabError.at("kernel", f"a {type(kernel).__name__} is no kernel", None, kinds())


def _first_bytes(path: Path) -> bytes:
    """The beginning of a file; nothing of what cannot be read or is none."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(16)
    except (OSError, ValueError):
        return b""


def load(source: KernelSource) -> LoadedKernel:
    """Read or compile a kernel by its front end.

    Raises:
        SmlabError: a kernel that nobody takes, a file with several kernels or none of that name, or what does
        not compile.
    """
    kernel = resolved_kernel(source.kernel, source.architecture)
    if isinstance(kernel, KernelImage):
        source.check_options()
        return LoadedKernel(kernel)
    return front_end_of(kernel).load(replace(source, kernel=kernel))


def load_kernel(
    path: Path,
    architecture: str,
    *,
    name: str | None = None,
    defines: Mapping[str, str] | None = None,
    folders: Sequence[Path] = (),
) -> KernelImage:
    """The image of a kernel in a file; ``name`` chooses among several. CUDA C finds its headers beside it and
    in ``folders``.

    Raises:
        SmlabError: as `load` has it.
    """
    return load(KernelSource(path, architecture, name, defines or {}, folders)).image
