"""CUDA C: by NVIDIA's run-time compiler, or, for files with code of the host, by nvcc.

The run-time compiler comes first, as it knows device code only and needs no compiler of the host. What it
makes does not depend on what is installed besides.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import check_folder, source_text
from smlab.hw_bench.sass.includes import HeaderFolders
from smlab.hw_bench.sass.nvrtc import CompileAsk, compile_cuda
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.frontends.protocol import KernelSource, LoadedKernel

COMPILERS: Final = ("nvrtc", "nvcc")
INSTALL: Final = (
    "install the CUDA toolkit, or pip install nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt "
    "nvidia-cuda-runtime nvidia-cuda-cccl, beside a C++ compiler"
)
TIMEOUT_S: Final = 600.0
_FOLDERS: Final = ("cu13/bin", "cuda_nvcc/bin")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_OF_HOST: Final = re.compile(r"<<<|\bint\s+main\s*\(|\bcuda(?:Malloc|Memcpy|DeviceSynchronize)\w*\s*\(")
"""A launch, a program's beginning, calls of the driver's library."""


def load_cuda(source: KernelSource) -> LoadedKernel:
    """A file of CUDA C. The options are ``flags``, passed to the compiler, and ``compiler``, one of
    `COMPILERS`; without it a file with code of the host is compiled by nvcc, any other by NVRTC."""
    ask = compile_asked(source)
    if ask is None:
        content = _by_nvcc(source, shlex.split(source.option("flags", str, "")))
    else:
        content = compile_cuda(ask.source, ask.architecture, ask.options, ask.where, ask.folders)
    return LoadedKernel(from_cubin(content, source.name, source.where))


def compile_asked(source: KernelSource) -> CompileAsk | None:
    """What NVRTC is asked to compile; None for a file that nvcc compiles."""
    source.check_options("flags", "compiler")
    flags = shlex.split(source.option("flags", str, ""))
    compiler = source.option("compiler", str, "")
    if compiler not in ("", *COMPILERS):
        raise SmlabError.at(f"{source.where}: compiler", "unknown", compiler, " or ".join(COMPILERS))
    text = source_text(source.path)
    hosted = _OF_HOST.search(_COMMENT.sub("", text)) is not None
    if compiler == "nvcc" or (hosted and not compiler):
        return None
    options = [*(f"-D{name}={value}" for name, value in source.defines.items()), *flags]
    places = HeaderFolders.of(source.path, source.folders)
    return CompileAsk(text, source.architecture, tuple(options), source.path.name, places)


def find_nvcc() -> Path | None:
    """nvcc on PATH, else that of pip's wheels."""
    return next((path for path in _candidates() if path.is_file()), None)


def _candidates() -> Iterator[Path]:
    on_path = shutil.which("nvcc")
    if on_path is not None:
        yield Path(on_path)
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec is not None else []:
        yield from (Path(root) / folder / "nvcc" for folder in _FOLDERS)


def _by_nvcc(source: KernelSource, flags: Sequence[str]) -> bytes:
    if find_nvcc() is None:
        raise SmlabError(f"{source.where}: has code of the host, which NVRTC refuses, and no nvcc: {INSTALL}")
    for folder in source.folders:
        check_folder("-I", folder, "a folder with headers")
    options = [
        *(f"-D{name}={value}" for name, value in source.defines.items()),
        *(f"-I{folder.absolute()}" for folder in source.folders),
        *flags,
    ]
    return compile_by_nvcc(source.path, source.architecture, options, source.where)


def compile_by_nvcc(
    path: Path, architecture: str, options: Sequence[str], where: str, *, lines: bool = True
) -> bytes:
    """The cubin that nvcc makes of a file for ``sm_86`` and its like. It is not what NVRTC makes of the same
    text: nvcc has addresses of shared memory in 32 bits, NVRTC in 64.

    With ``lines`` it has line numbers, and with them the folders of this run. Without, the same text gives
    the same bytes.

    Raises:
        SmlabError: no nvcc, or what it says first.
    """
    nvcc = find_nvcc()
    if nvcc is None:
        raise SmlabError(f"{where}: no nvcc: {INSTALL}")
    options = ["-cubin", f"-arch={architecture}", *(["-lineinfo"] if lines else []), *options]
    with tempfile.TemporaryDirectory() as work:
        made = Path(work) / "kernel.cubin"
        command = [str(nvcc), *options, "-o", str(made), str(path.absolute())]
        try:
            done = subprocess.run(command, cwd=work, capture_output=True, timeout=TIMEOUT_S, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            raise SmlabError(f"{where}: nvcc cannot be run: {error}") from error
        if done.returncode or not made.is_file():
            said = (done.stderr + done.stdout).decode("utf-8", "replace")
            hint = " (expected a newer --gpu, or an older nvcc)" if "Unsupported gpu" in said else ""
            what = f"nvcc does not compile it for {architecture}: {_first_error(said)}{hint}"
            raise SmlabError(f"{where}: {what}")
        return made.read_bytes()


def _first_error(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\b(error|fatal)\b", line)]
    return (errors or lines or ["nothing was said"])[0]
