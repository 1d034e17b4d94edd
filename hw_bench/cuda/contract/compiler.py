"""From a kernel's Python function to machine code for any architecture, with no GPU."""

from __future__ import annotations

import base64
import gzip
import importlib
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from smlab.hw_bench.cuda.kernels.spec import ARCHITECTURES, KernelSpec, number
from smlab.hw_bench.cuda.toolkit import INSTALL, one_line, package_versions, require_compiler
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import cache_folder, write_atomic
from smlab.hw_bench.sass import Function, Tool, find_nvdisasm, listing_of, parse_listing, read_cubin
from smlab.hw_bench.sass.image import compiled_resources
from smlab.hw_bench.sass.nvrtc import compile_cuda
from smlab.hw_bench.sources import cache_key, digest_of, package_folder

KERNELS: Final = "smlab.hw_bench.cuda.kernels"
"""The suite's kernels, whose machine code is kept."""
_HELPERS: Final = "__cuda_"
_REGISTERS: Final = re.compile(r"Used (\d+) registers")
_SPILLS: Final = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True)
class Compiled:
    """Machine code of one kernel for one architecture.

    ``code_sha256`` digests the instructions alone: two builds that agree in it run the same code.
    ``local_bytes`` counts stack frame and spills.
    """

    architecture: str
    ptx: str
    cubin: bytes
    function: Function
    cubin_sha256: str
    code_sha256: str
    registers: int
    local_bytes: int


def compile_kernel(spec: KernelSpec, architecture: str, *, source_lines: bool = False) -> Compiled:
    """Compile and disassemble one kernel, with ``source_lines`` in the listing if wanted (that takes longer).

    A kernel of the suite takes seconds, and several commands want all of them; what the same sources and
    compilers made before comes from the user's cache folder.

    Raises:
        SmlabError: naming the package or program that is missing, or what the compiler said.
    """
    require_compiler()
    nvdisasm = find_disassembler(architecture)
    kept = None if source_lines else _kept(spec, architecture, nvdisasm)
    if (stored := _read(kept)) is not None:
        ptx, cubin, log, listing = stored
    else:
        ptx = _ptx(spec, architecture, source_lines)
        cubin, log = _link(ptx, architecture)
        listing = listing_of(cubin, nvdisasm)
        _write(kept, ptx, cubin, log, listing)
    registers, local = _REGISTERS.search(log), _SPILLS.search(log)
    return examine(
        spec,
        cubin,
        listing=listing,
        ptx=ptx,
        registers=int(registers[1]) if registers else 0,
        local_bytes=sum(map(int, local.groups())) if local else 0,
    )


def own_resources(cubin: bytes) -> dict[str, int]:
    """Registers of a thread and static shared bytes of a block of one kernel's machine code; empty where it
    holds several."""
    resources = [r for name, r in compiled_resources(cubin).items() if not name.startswith(_HELPERS)]
    if len(resources) != 1:
        return {}
    return {"registers": resources[0].registers, "static_shared_bytes": resources[0].static_shared_bytes}


def examine(
    spec: KernelSpec,
    cubin: bytes,
    *,
    listing: str | None = None,
    ptx: str = "",
    registers: int = 0,
    local_bytes: int = 0,
) -> Compiled:
    """The machine code of one kernel, which may come from elsewhere (the binary that a GPU runs), as its
    ``listing`` or, without one, the disassembler has it."""
    where = f"{spec.benchmark} {spec.name}"
    content = read_cubin(cubin, where)
    # Shuffles leave a function of the linker's behind, for code that may have diverged; whether it is called,
    # the contract sees.
    text = listing_of(cubin) if listing is None else listing
    functions = [f for f in parse_listing(text, where) if not f.name.startswith(_HELPERS)]
    coded = [f for f in content.functions if not f.name.startswith(_HELPERS)]
    if len(functions) != 1 or len(coded) != 1:
        names = ", ".join(function.name for function in functions)
        raise SmlabError.at(where, "must become one function", names)
    return Compiled(
        architecture=content.architecture,
        ptx=ptx,
        cubin=cubin,
        function=functions[0],
        cubin_sha256=content.sha256,
        code_sha256=coded[0].sha256,
        registers=registers,
        local_bytes=local_bytes,
    )


@dataclass(frozen=True)
class JitOptions:
    """What `numba.cuda.jit` was told of how to compile a kernel."""

    fastmath: bool = False
    opt: bool = True
    launch_bounds: tuple[int, ...] | int | None = None
    max_registers: int | None = None


def compile_function(
    function: Callable[..., None],
    types: tuple[Any, ...],
    architecture: str,
    options: JitOptions = JitOptions(),
) -> bytes:
    """The cubin of a Python function as a Numba kernel, for these argument types, with line numbers.

    Raises:
        SmlabError: naming what is missing, or what the compiler said.
    """
    require_compiler()
    name = getattr(function, "__name__", "kernel")
    capability = divmod(number(architecture), 10)
    try:
        with _pretended_device(capability):
            library, _ = importlib.import_module("numba.cuda.compiler")._compile_pyfunc_with_fixup(
                function,
                types,
                device=False,
                abi="numba",
                cc=capability,
                lineinfo=True,
                fastmath=options.fastmath,
                opt=options.opt,
                launch_bounds=options.launch_bounds,
            )
        (ptx,) = library.get_asm_strs(cc=capability)
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        message = lines[0] if lines else ""
        raise SmlabError(
            f"{name}: does not compile for {architecture}: {type(error).__name__}: {message}"
        ) from error
    # Numba's half precision is CUDA C, which it links: compiled here as relocatable code.
    others = [
        compile_cuda(_source_of(linked, name), architecture, ["-rdc=true"], f"linked to {name}")
        for linked in library._linking_files
    ]
    return _link(str(ptx), architecture, options.max_registers, others)[0]


def _source_of(linked: Any, name: str) -> str:
    """The CUDA C that a kernel is linked with."""
    data = getattr(linked, "data", None)
    if type(linked).__name__ != "CUSource" or not isinstance(data, str | bytes):
        raise SmlabError.at(name, "is linked with what is no CUDA C", str(linked), "CUDA C")
    return data if isinstance(data, str) else data.decode()


@contextmanager
def _pretended_device(capability: tuple[int, int]) -> Iterator[None]:
    """Numba compiles a kernel for the capability that it is told, but the device functions that it calls for
    that of the GPU that is there: let it find the one that is meant."""
    dispatcher: Any = importlib.import_module("numba.cuda.dispatcher")
    get_current_device = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
    try:
        yield
    finally:
        dispatcher.get_current_device = get_current_device


def linker_release() -> tuple[int, int]:
    """The release of nvJitLink, which assembles what Numba runs.

    Raises:
        SmlabError: where the library is not there or cannot be loaded.
    """
    try:
        from cuda.bindings import nvjitlink

        major, minor = nvjitlink.version()
    except Exception as error:  # of several libraries, each with exceptions of its own
        raise SmlabError(f"nvJitLink cannot be used here: {one_line(error)}; {INSTALL} brings it") from error
    return int(major), int(minor)


def find_disassembler(architecture: str) -> Tool:
    """The nvdisasm for the code of one architecture, of the same major release as the assembler."""
    return find_nvdisasm(architecture=architecture, major=linker_release()[0])


def _link(
    ptx: str, architecture: str, max_registers: int | None = None, others: Sequence[bytes] = ()
) -> tuple[bytes, str]:
    """Assemble as Numba does for a GPU that is there, by nvJitLink: the same code to the last bit. And what
    it said.

    (ptxas makes other moves and stalls, since nvJitLink asks for relocatable code first.)
    """
    from cuda.core import Linker, LinkerOptions, ObjectCode

    try:
        options = LinkerOptions(
            arch=architecture, ptxas_options=["-v"], max_register_count=max_registers or None
        )
        codes = [ObjectCode.from_ptx(ptx.encode()), *map(ObjectCode.from_cubin, others)]
        with closing(Linker(*codes, options=options)) as linker:
            cubin = linker.link("cubin").code
            log = linker.get_info_log()
    except Exception as error:
        lines = str(error).splitlines()
        missing = next((f" ({line.strip()})" for line in lines if "Undefined reference" in line), "")
        raise SmlabError(
            f"nvJitLink cannot assemble for {architecture}: {one_line(error)}{missing}"
        ) from error
    return bytes(cubin), str(log)


def _kept(spec: KernelSpec, architecture: str, nvdisasm: Tool) -> Path | None:
    """Where the machine code of a kernel of the suite may be kept; None where a function of elsewhere has a
    part in it, whose source is not known here."""
    return _place(spec, architecture, "json", linker_release(), nvdisasm.release, architecture)


def _kept_library(spec: KernelSpec, architecture: str) -> Path | None:
    """Where its LLVM code may be, which is the same for all architectures that have the same function."""
    return _place(spec, architecture, "llvm")


def _place(spec: KernelSpec, architecture: str, kind: str, *made_with: object) -> Path | None:
    parts = _captured(spec.function_for(architecture))
    if parts is None:
        return None
    name = (spec.benchmark, spec.name, spec.signature, spec.launch_bounds, parts)
    key = cache_key(digest_of(package_folder(KERNELS)), package_versions(), name, made_with)
    return cache_folder("kernels", key[:2]) / f"{key}.{kind}.gz"


def _captured(function: Any) -> list[Any] | None:
    """A function's name and what it took from the one that made it, since one source makes many kernels; None
    if a function of elsewhere is among them."""
    function = getattr(function, "py_func", function)
    if not hasattr(function, "__code__"):
        return [repr(function)]
    if not function.__module__.startswith(f"{KERNELS}."):
        return None
    parts = [_captured(cell.cell_contents) for cell in function.__closure__ or ()]
    return None if None in parts else [function.__qualname__, repr(function.__defaults__), *parts]


def _read(kept: Path | None) -> tuple[str, bytes, str, str] | None:
    """PTX, cubin, the linker's words and the listing, if they are kept and whole."""
    if kept is None:
        return None
    try:
        content = _content(kept)
        cubin = base64.b64decode(content["cubin"], validate=True)
        return str(content["ptx"]), cubin, str(content["said"]), str(content["listing"])
    except _DAMAGED:
        return None


_DAMAGED: Final = (OSError, ValueError, KeyError, TypeError, EOFError, zlib.error)


def _content(kept: Path) -> Any:
    return json.loads(gzip.decompress(kept.read_bytes()))


def _write(kept: Path | None, ptx: str, cubin: bytes, log: str, listing: str) -> None:
    if kept is not None:
        cubin_text = base64.b64encode(cubin).decode()
        _keep(kept, {"ptx": ptx, "cubin": cubin_text, "said": log, "listing": listing})


def _keep(kept: Path, content: Any) -> None:
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(kept, gzip.compress(json.dumps(content).encode()))


def _ptx(spec: KernelSpec, architecture: str, source_lines: bool) -> str:
    kept = None if source_lines else _kept_library(spec, architecture)
    try:
        function = spec.function_for(architecture)
        library = _library(function, spec.signature, spec.launch_bounds, source_lines, kept)
        (ptx,) = library.get_asm_strs(cc=divmod(number(architecture), 10))
    except Exception as error:
        place = f"{spec.benchmark} {spec.name}"
        raise SmlabError(f"{place}: does not compile for {architecture}: {one_line(error)}") from error
    return str(ptx)


@lru_cache(maxsize=2)
def _library(
    function: Callable[..., None],
    signature: str,
    launch_bounds: tuple[int, int] | None,
    source_lines: bool,
    kept: Path | None,
) -> Any:
    """A kernel's LLVM code, which is the same for all architectures, and by far the most of the work. It is
    ``kept`` as Numba's own cache would have it.

    `numba.cuda.compile_ptx` does just this and then throws it away; hence the use of Numba's own function
    behind it.
    """
    compiler = importlib.import_module("numba.cuda.compiler")
    made = importlib.import_module("numba.cuda.codegen").CUDACodeLibrary
    if kept is not None:
        with suppress(*_DAMAGED):
            return made._rebuild(**_content(kept))
    library, _ = compiler._compile_pyfunc_with_fixup(
        function,
        signature,
        device=False,
        abi="numba",
        cc=divmod(number(ARCHITECTURES[0]), 10),
        lineinfo=source_lines,
        launch_bounds=launch_bounds,
    )
    if kept is not None:
        with suppress(RuntimeError, TypeError):  # what Numba does not keep, or JSON cannot
            _keep(kept, library._reduce_states())
    return library
