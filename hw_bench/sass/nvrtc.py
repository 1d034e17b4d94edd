"""CUDA C to a cubin with NVIDIA's run-time compiler, from pip wheels and with no GPU.

A kernel that is unrolled to thousands of instructions takes ten seconds, and a tuning space has thousands of
kernels, so what was compiled once is kept in the user's cache folder.

Headers of the C library, as far as device code uses what is in them.

The run-time compiler has no host's headers, and kernels are written for nvcc, which reads some of them
before the first line. What a kernel takes from them are integer types, limits and numbers; functions of the
host stay undeclared. Sizes are those of 64-bit Linux.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import math
import os
import re
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from smlab.hw_bench.child_python import run_python
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import cache_folder, write_atomic
from smlab.hw_bench.inputs import source_text
from smlab.hw_bench.nvrtc_child import CPU_S, MOST_BYTES
from smlab.hw_bench.sass.includes import HeaderFolders, includes_files, includes_own_files

NO_FOLDERS: Final = HeaderFolders()
_cpu_limit_s: Final = ContextVar("processor time that a source may take, in seconds", default=CPU_S)
_ADVICE = "pip install nvidia-cuda-nvrtc-cu12 cuda-bindings, or 'smlab[cuda12]'"


@contextlib.contextmanager
def compiling_within(cpu_s: float) -> Iterator[None]:
    """Meanwhile a source may take the compiler so many seconds of processor time: from 1 to `CPU_S`."""
    before = _cpu_limit_s.set(max(1, min(CPU_S, math.ceil(cpu_s))))
    try:
        yield
    finally:
        _cpu_limit_s.reset(before)


def compile_cuda(
    source: str,
    architecture: str,
    options: Sequence[str] = (),
    where: str = "kernel.cu",
    folders: HeaderFolders = NO_FOLDERS,
) -> bytes:
    """The cubin of CUDA C source for ``sm_75`` and its like, with line numbers.

    It comes from the cache where the same compiler made it of the same source and options before; source that
    may include a file of its own, or has folders for that, is compiled each time. Instructions that only one
    architecture has (``sm_90a``, ``sm_100a``) are compiled for that one.

    Raises:
        SmlabError: no compiler, or the first error that it tells.
    """
    ask = CompileAsk(source, architecture, tuple(options), where, folders)
    job = _job_of(ask)
    if (known := _known(job)) is not None:
        return known
    failed, log, cubin = _compile_in_process(job, folders.beside)
    own = architecture.endswith("a")
    if failed and not own and f"not supported on .target '{architecture}'" in log:
        return compile_cuda(source, f"{architecture}a", options, where, folders)
    if failed:
        lines = [line for line in log.splitlines() if "error" in line]
        message = lines[0] if lines else failed
        if re.search(r'source file "(cuda|cub|thrust)/', message):
            message += " (libcu++, CUB and Thrust come with pip install nvidia-cuda-cccl-cu12)"
        elif "open source file" in message and not _includes():
            message += " (headers of CUDA come with pip install nvidia-cuda-runtime-cu12, or 'smlab[cuda12]')"
        raise SmlabError(f"{where}: does not compile for {architecture}: {message}")
    _keep(job, cubin)
    return cubin


@dataclass(frozen=True)
class CompileAsk:
    """A source to compile, as `compile_cuda` takes it."""

    source: str
    architecture: str
    options: tuple[str, ...] = ()
    where: str = "kernel.cu"
    folders: HeaderFolders = NO_FOLDERS


@dataclass(frozen=True)
class _Job:
    """What the compiler is given, and where the cubin is kept, if it may be."""

    source: str
    where: str
    options: list[str]
    headers: Mapping[str, str]
    kept: Path | None


def compile_into_cache(asks: Sequence[CompileAsk]) -> None:
    """Compile several sources by one process, which takes 0.2 s to begin, so that `compile_cuda` finds them
    in the cache. What fails, or has no place in the cache, is left to that."""
    jobs = {job.kept: job for job in map(_job_of, asks) if job.kept is not None and not job.kept.is_file()}
    if len(jobs) < 2:
        return
    for job, (failed, _, cubin) in zip(jobs.values(), _answers(list(jobs.values()), None), strict=False):
        if not failed:
            _keep(job, cubin)


def _job_of(ask: CompileAsk) -> _Job:
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None:
        raise SmlabError(f"the CUDA compiler was not found: {_ADVICE}")
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise SmlabError(f"the CUDA compiler cannot be loaded ({error}): {_ADVICE}") from error
    named, options = ask.folders.text(ask.source), list(ask.options)
    headers = HEADERS if includes_files(named) else {}
    if first := read_first(named):
        headers = {**headers, READ_FIRST: first}
        options = [f"--pre-include={READ_FIRST}", *options]
    if "__int128" in named:  # nvcc on Linux has it without being asked
        options = ["--device-int128", *options]
    options = [*ask.folders.options(), *options, *_includes()]
    wanted = [f"--gpu-architecture={ask.architecture}", "--std=c++17", "-lineinfo", *options]
    try:
        status, *release = nvrtc.nvrtcVersion()
    except RuntimeError as error:
        raise SmlabError(f"the CUDA compiler cannot be loaded ({error}): {_ADVICE}") from error
    kept = _kept(ask.source, ask.where, wanted, headers, f"{status} {release}")
    return _Job(ask.source, ask.where, wanted, headers, kept)


def _known(job: _Job) -> bytes | None:
    if job.kept is not None and job.kept.is_file():
        with contextlib.suppress(OSError):
            return job.kept.read_bytes()
    return None


def _keep(job: _Job, cubin: bytes) -> None:
    if job.kept is not None:
        with contextlib.suppress(OSError):
            job.kept.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(job.kept, cubin)


def compile_file(
    path: Path, architecture: str, macros: Iterable[tuple[str, object]] = (), folders: Iterable[Path] = ()
) -> bytes:
    """The cubin of a file of CUDA C, with macros of these names and values; its headers lie beside it and in
    ``folders``.

    Raises:
        SmlabError: a file that cannot be read, a folder that is not there, and what `compile_cuda` says.
    """
    options = [f"-D{name}={value}" for name, value in macros]
    places = HeaderFolders.of(path, folders)
    return compile_cuda(source_text(path), architecture, options, path.name, places)


_CHILD: Final = "from smlab.hw_bench.nvrtc_child import answer; answer()"
_TIMEOUT_S: Final = 900.0


def _compile_in_process(job: _Job, beside: Path | None) -> tuple[str, str, bytes]:
    """`compile_here` in a child process: a macro of a few lines may ask for all memory, and a template
    instantiated without end for all time. It works in the folder ``beside``, where the compiler looks for
    names in quotes.

    Raises:
        SmlabError: the compiler ended on the source, or took `CPU_S` (`compiling_within`) or `MOST_BYTES`.
    """
    answers = _answers([job], beside)
    if answers.status or not answers:
        how = (
            f"{_cpu_limit_s.get()} s of processor time"
            if answers.status == _SIGXCPU
            else f"{MOST_BYTES / 1e9:.1f} GB"
        )
        raise SmlabError(f"{job.where}: the CUDA compiler ended on it; it may take {how}")
    return answers[0]


class _Answers(list[tuple[str, str, bytes]]):
    """What `compile_here` gave for each job that the child came to, and the child's status."""

    status = 0


def _answers(jobs: Sequence[_Job], beside: Path | None) -> _Answers:
    """The jobs done by one child, one after the other."""
    place = None if beside is None else os.fspath(beside)
    asks = [[job.source, job.where, job.options, dict(job.headers)] for job in jobs]
    where, limit_s = jobs[0].where, _TIMEOUT_S * len(jobs)
    try:
        done = run_python(
            _CHILD,
            input=json.dumps([place, _cpu_limit_s.get(), asks]).encode(),
            timeout_s=limit_s,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise SmlabError(f"{where}: the CUDA compiler has not ended after {limit_s:g} s") from error
    except OSError as error:
        raise SmlabError(f"{where}: no process can be started to compile it: {error.strerror}") from error
    found, rest = _Answers(), done.stdout
    found.status = done.returncode
    while b"\n" in rest:
        head, _, rest = rest.partition(b"\n")
        failed, log, size = json.loads(head)
        if len(rest) < size:
            break
        found.append((failed, log, rest[:size]))
        rest = rest[size:]
    return found


_SIGXCPU: Final = -24
"""Which not every system has."""


def _kept(
    source: str, where: str, options: Sequence[str], headers: Mapping[str, str], compiler: str
) -> Path | None:
    """Where the cubin of this source may be kept; None for source whose text is not all that it is made of.

    The file's name is in the cubin's line table, so it is a part of the key. A macro that the text never
    names is none: tuners pass parameters that a kernel does not read.
    """
    foreign = [o for o in options if o.startswith(("-I", "--include", "-include")) and o not in _includes()]
    if foreign or includes_own_files(source):
        return None
    if not includes_files(source):
        named = names_in(source)
        options = [o for o in options if not o.startswith("-D") or _macro(o) in named]
    options = [_release_of_headers() if o in _includes() else o for o in options]
    parts = [compiler, where, *sorted(options), *(word for item in headers.items() for word in item), source]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return cache_folder("cubins", key[:2]) / f"{key}.cubin"


def _release_of_headers() -> str:
    """In place of the folder of CUDA's headers, which is another in each environment."""
    for package in ("nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(package)
    return _includes()[0]


def names_in(source: str) -> frozenset[str]:
    """All names in the text of a source: a macro that is none of them changes nothing."""
    return frozenset(re.findall(r"[A-Za-z_]\w*", source))


def _macro(option: str) -> str:
    """The name that an option defines: ``F`` of ``-DF=1`` and of ``-DF(i)=i``."""
    return option.removeprefix("-D").partition("=")[0].partition("(")[0].strip()


def _includes() -> list[str]:
    """The headers of the wheels `nvidia-cuda-runtime-cu12` and `nvidia-cuda-cccl-cu12` or, of CUDA 13, those
    without ``-cu12``, where they are there."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or []) if spec is not None else []
    cuda_12, cuda_13 = ("cuda_runtime/include", "cuda_cccl/include"), ("cu13/include", "cu13/include/cccl")
    found = (
        [Path(r) / place for r in roots if (Path(r) / where[0]).is_dir() for place in where]
        for where in (cuda_12, cuda_13)
    )
    return [f"-I{folder}" for folder in next(filter(None, found), []) if folder.is_dir()]


_EMPTY: Final = "#pragma once\n"


def _header(name: str) -> str:
    """A header of ours, which says what kernels need of the one of that name."""
    return Path(__file__).with_name("headers").joinpath(name).read_text(encoding="utf-8")


_STDINT, _TYPES, _MATH = (_header(name) for name in ("stdint.h", "types.h", "math.h"))
_BY_C_NAME: Final = {
    "stdint": _STDINT,
    "math": _MATH,
    **{name: _header(f"{name}.h") for name in ("float", "limits", "assert")},
    **dict.fromkeys(("stddef", "stdio", "stdlib", "string", "time"), _EMPTY),
}
_OF_HOST: Final = ("algorithm", "chrono", "fstream", "iomanip", "iostream", "random", "sstream", "vector")
HEADERS: Final = {name: text for c, text in _BY_C_NAME.items() for name in (f"{c}.h", f"c{c}")} | {
    **dict.fromkeys((*_OF_HOST, "cublas_v2.h", "stdbool.h"), _EMPTY),
    # Macros by architecture, which NVRTC has before the first line: only the name is missing.
    # `cooperative_groups.h` asks for it first, and then for libcu++, which comes with another wheel. So the
    # macro has it take its own traits instead (no update of an atomic by a group, no groups' functions of
    # libcu++).
    "nv/target": _header("target.h"),
}
"""Texts by the name in the ``#include``."""

READ_FIRST: Final = "smlab-read-by-nvcc.h"
"""What nvcc has read before the first line: integer types, with those of the system, and the numbers of
``math.h``."""


def read_first(source: str) -> str:
    """The text of `READ_FIRST` for a source that names something of it, less what it says itself; else
    empty."""
    named, declared = set(re.findall(r"[A-Za-z_]\w*", source)), _defined_names(source)
    texts = (_STDINT, _TYPES, _MATH)
    lines = [line for text in texts for line in text.splitlines()[1:] if _name(line) not in declared]
    return "\n".join([*lines, ""]) if any(_name(line) in named for line in lines) else ""


def _name(line: str) -> str:
    return line.split()[1] if line.startswith("#") else line.rstrip(";").split()[-1]


def _defined_names(source: str) -> Collection[str]:
    """Names that a source defines as macros or types."""
    macros = re.findall(r"#\s*define\s+(\w+)", source)
    types = re.findall(r"\btypedef\b[^;]*?(\w+)\s*;", source) + re.findall(r"\busing\s+(\w+)\s*=", source)
    return {*macros, *types}
