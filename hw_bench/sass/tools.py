"""Finding and running NVIDIA's assembler and disassembler, from pip wheels or the CUDA toolkit."""

from __future__ import annotations

import importlib.util
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import MAX_CODE_BYTES
from smlab.hw_bench.sass.cubin import read_cubin
from smlab.hw_bench.sass.instruction import Function
from smlab.hw_bench.sass.listing import parse_listing

_TIMEOUT_S: Final = 120.0
_CPU_S: Final = 6
_BYTES_A_SECOND: Final = 50_000
"""The disassembler takes 0.2 s for a kernel, and has no end on some damaged ones: it may take `_CPU_S`, and a
second more for so many bytes of code."""
_MOST_PRINTED: Final = MAX_CODE_BYTES
_WITHOUT_END: Final = {-24: "does not come to an end", -25: "prints without end"}
"""By SIGXCPU and SIGXFSZ, which not every system has."""
_WHEELS: Final = {
    "ptxas": ("nvidia/cuda_nvcc/bin", "nvidia/cu13/bin", "triton/backends/nvidia/bin"),
    "nvdisasm": ("nvidia/cuda_nvdisasm/bin", "nvidia/cu13/bin", "triton/backends/nvidia/bin"),
}
_ADVICE: Final = {
    "ptxas": "install the CUDA toolkit, or: pip install 'smlab[cuda12]'",
    "nvdisasm": (
        "install the CUDA toolkit, or, for sm_70 and up, pip install --no-deps triton==3.3.1 "
        "(its wheel holds nvdisasm 12.8); for sm_75 and up, pip install nvidia-cuda-nvdisasm"
    ),
}


@dataclass(frozen=True)
class Tool:
    """A program that was found, with its release such as ``12.8``."""

    name: str
    path: Path
    release: str

    @property
    def major(self) -> int:
        return int(self.release.split(".")[0])

    def knows(self, architecture: str) -> bool:
        """Whether it takes code for this architecture: CUDA 13 has dropped all before ``sm_75``."""
        return self.major < 13 or int(architecture.removeprefix("sm_").rstrip("af")) >= 75


def find_ptxas(path: Path | None = None, architecture: str | None = None) -> Tool:
    """The assembler: ``path`` if given, else the first that knows ``architecture``, in pip wheels or on PATH.

    The wheels come first: they hold the release that Numba of the same environment generates code with.
    """
    return _find("ptxas", path, architecture, None)


def find_nvdisasm(
    path: Path | None = None, architecture: str | None = None, major: int | None = None
) -> Tool:
    """The disassembler, likewise; ``major`` asks for the major release that assembled the code."""
    return _find("nvdisasm", path, architecture, major)


def assemble(
    ptx: str, architecture: str, tool: Tool | None = None, options: Sequence[str] = ()
) -> tuple[bytes, str]:
    """Assemble PTX for one architecture; gives the cubin and what the assembler said (``-v``: registers,
    spills)."""
    tool = tool or find_ptxas(architecture=architecture)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        log = _run(
            tool, ["-v", f"-arch={architecture}", *options, str(source), "-o", str(target)], architecture
        )
        return target.read_bytes(), log


def disassemble(cubin: bytes | Path, tool: Tool | None = None) -> tuple[Function, ...]:
    """All functions of a cubin, with source lines where it has them, and with encodings if they are
    Volta's or later."""
    return parse_listing(listing_of(cubin, tool), str(cubin) if isinstance(cubin, Path) else "kernel.cubin")


def listing_of(cubin: bytes | Path, tool: Tool | None = None) -> str:
    """What the disassembler prints of a cubin, to be read by `parse_listing`. It takes 0.2 s however small
    the cubin is."""
    architecture = read_cubin(cubin).architecture
    tool = tool or find_nvdisasm(architecture=architecture)
    encodings = ["-hex"] if int(architecture.removeprefix("sm_")) >= 70 else []
    with _as_file(cubin) as path:
        what = str(cubin) if isinstance(cubin, Path) else "cubin"
        return _run(tool, ["-c", *encodings, "-gi", str(path)], what, path.stat().st_size)


def disassemble_raw(code: bytes, architecture: str, name: str, tool: Tool | None = None) -> Function:
    """A function from its machine code alone, as profilers' reports hold it: without labels and source
    lines."""
    tool = tool or find_nvdisasm(architecture=architecture)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "code.bin"
        path.write_bytes(code)
        binary = architecture.upper().replace("_", "")
        text = _run(tool, ["-b", binary, "-hex", str(path)], name, len(code))
    functions = parse_listing(f"\t.section .text.{name}\n.target {architecture}\n{text}", name)
    if not functions:
        raise SmlabError.at(name, "holds no instruction", f"{len(code)} bytes")
    return functions[0]


@contextmanager
def _as_file(cubin: bytes | Path) -> Iterator[Path]:
    """A cubin as a file: itself if it is one, else a temporary file."""
    if isinstance(cubin, Path):
        yield cubin
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        yield path


def _find(name: str, path: Path | None, architecture: str | None, major: int | None) -> Tool:
    if path is not None:
        if not path.is_file():
            raise SmlabError.at(name, "no such program", str(path), _ADVICE[name])
        return _tool(name, path)
    unfit = []
    for candidate in _candidates(name):
        if not candidate.is_file():
            continue
        tool = _tool(name, candidate)
        if (architecture is None or tool.knows(architecture)) and major in (None, tool.major):
            return tool
        unfit.append(f"{tool.path} is release {tool.release}")
    if not unfit:
        raise SmlabError(f"{name} was not found: {_ADVICE[name]}")
    wanted = " and ".join(
        ([f"for {architecture}"] if architecture else []) + ([f"of release {major}"] if major else [])
    )
    raise SmlabError(f"no {name} {wanted} was found ({'; '.join(unfit)}): {_ADVICE[name]}")


def _candidates(name: str) -> Iterator[Path]:
    for folder in _WHEELS[name]:
        package, _, inside = folder.partition("/")
        spec = importlib.util.find_spec(package)
        for root in (spec.submodule_search_locations or []) if spec is not None else []:
            yield Path(root) / inside / name
    on_path = shutil.which(name)
    if on_path is not None:
        yield Path(on_path)


@cache
def _tool(name: str, path: Path) -> Tool:
    version_text = _run(Tool(name, path, "unknown"), ["--version"], "--version")
    release = re.search(r"release (\d+\.\d+)", version_text)
    if release is None:
        raise SmlabError.at(
            str(path), "does not say its release", version_text.strip()[:80], f"NVIDIA's {name}"
        )
    return Tool(name, path, release[1])


def _run(tool: Tool, arguments: Sequence[str], what: str, size: int | None = None) -> str:
    """What the tool says; ``size`` bytes of machine code bound the processor time that it may take."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as complaints:
        try:
            with subprocess.Popen(
                [str(tool.path), *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=complaints
            ) as process:
                _limit(process.pid, size)
                try:
                    status = _ended(process)
                except BaseException:
                    process.kill()
                    raise
        except subprocess.TimeoutExpired as error:
            raise SmlabError(f"{what}: {tool.name} has not ended after {_TIMEOUT_S:g} s") from error
        except OSError as error:
            raise SmlabError(f"{tool.path}: cannot be run: {error}") from error
        said, complained = (_text(file) for file in (out, complaints))
    if status in _WITHOUT_END:
        raise SmlabError.at(what, f"{tool.name} {_WITHOUT_END[status]}: it is damaged")
    if status != 0:
        lines = [line for line in (complained + said).splitlines() if line.strip()]
        raise SmlabError(f"{tool.path} failed on {what}: {lines[0].strip() if lines else f'status {status}'}")
    return complained if tool.name == "ptxas" and "--version" not in arguments else said


def _ended(process: subprocess.Popen[bytes]) -> int:
    """The status, at once: Python's own wait with a limit looks every 0.05 s, half of what a tool takes."""
    if sys.platform == "linux":
        with suppress(OSError):  # an old kernel, or no descriptor left
            ended = os.pidfd_open(process.pid)
            try:
                poll = select.poll()
                poll.register(ended, select.POLLIN)
                if not poll.poll(_TIMEOUT_S * 1000):
                    raise subprocess.TimeoutExpired(process.args, _TIMEOUT_S)
            finally:
                os.close(ended)
    return process.wait(_TIMEOUT_S)


def _limit(pid: int, size: int | None) -> None:
    """Bound what the process may print and, for ``size`` bytes of code, compute."""
    if sys.platform == "linux":
        import resource

        with suppress(OSError):  # it has ended already
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (_MOST_PRINTED, _MOST_PRINTED))
            if size is not None:
                seconds = _CPU_S + size // _BYTES_A_SECOND
                resource.prlimit(pid, resource.RLIMIT_CPU, (seconds, seconds + 1))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")
