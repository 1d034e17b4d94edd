"""CUDA C to a cubin with NVIDIA's run-time compiler, from pip wheels and with no GPU.

A kernel that is unrolled to thousands of instructions takes ten seconds, and a tuning space has thousands of
kernels, so what was compiled once is kept in the user's cache folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import cache_folder, write_atomic
from smlab.hw_bench.sass.host_headers import HEADERS, READ_FIRST, read_first

_ADVICE = "pip install nvidia-cuda-nvrtc-cu12 cuda-bindings, or 'smlab[cuda12]'"


def compile_cuda(
    source: str, architecture: str, options: Sequence[str] = (), where: str = "kernel.cu"
) -> bytes:
    """The cubin of CUDA C source for ``sm_75`` and its like, with line numbers.

    It comes from the cache where the same compiler made it of the same source and options before; source that
    includes a file of its own is compiled each time.

    Raises:
        SmlabError: no compiler, or the first error that it tells.
    """
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None:
        raise SmlabError(f"the CUDA compiler was not found: {_ADVICE}")
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise SmlabError(f"the CUDA compiler cannot be loaded ({error}): {_ADVICE}") from error
    headers = HEADERS if "#include" in source else {}
    if first := read_first(source):
        headers = {**headers, READ_FIRST: first}
        options = [f"--pre-include={READ_FIRST}", *options]
    if "__int128" in source:  # nvcc on Linux has it without being asked
        options = ["--device-int128", *options]
    wanted = [f"--gpu-architecture={architecture}", "--std=c++17", "-lineinfo", *_includes(), *options]
    try:
        status, *release = nvrtc.nvrtcVersion()
        kept = _kept(source, where, wanted, headers, f"{status} {release}")
        if kept is not None and kept.is_file():
            with contextlib.suppress(OSError):
                return kept.read_bytes()
        names, texts = ([text.encode() for text in column] for column in (headers, headers.values()))
        program = _call(nvrtc.nvrtcCreateProgram(source.encode(), where.encode(), len(headers), texts, names))
    except RuntimeError as error:
        raise SmlabError(f"the CUDA compiler cannot be loaded ({error}): {_ADVICE}") from error
    status = nvrtc.nvrtcCompileProgram(program, len(wanted), [o.encode() for o in wanted])[0]
    log = b" " * _call(nvrtc.nvrtcGetProgramLogSize(program))
    nvrtc.nvrtcGetProgramLog(program, log)
    if int(status):
        lines = [line for line in log.decode(errors="replace").splitlines() if "error" in line]
        said = lines[0] if lines else str(status)
        if re.search(r'source file "(cuda|cub|thrust)/', said):
            said += (
                " (libcu++, CUB and Thrust come with the wheel nvidia-cuda-cccl-cu12, which is not read here)"
            )
        elif "open source file" in said and not _includes():
            said += " (headers of CUDA come with pip install nvidia-cuda-runtime-cu12, or 'smlab[cuda12]')"
        raise SmlabError(f"{where}: does not compile for {architecture}: {said}")
    cubin: bytes = b" " * _call(nvrtc.nvrtcGetCUBINSize(program))
    nvrtc.nvrtcGetCUBIN(program, cubin)
    nvrtc.nvrtcDestroyProgram(program)
    if kept is not None:
        with contextlib.suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(kept, cubin)
    return cubin


def _kept(
    source: str, where: str, options: Sequence[str], headers: Mapping[str, str], compiler: str
) -> Path | None:
    """Where the cubin of this source may be kept; None for source whose text is not all that it is made of.

    The file's name is in the cubin's line table, so it is a part of the key. A macro that the text never
    names is none: tuners pass parameters that a kernel does not read.
    """
    foreign = [o for o in options if o.startswith(("-I", "--include", "-include")) and o not in _includes()]
    if '#include "' in source or foreign:
        return None
    if "#include" not in source:
        named = names_in(source)
        options = [o for o in options if not o.startswith("-D") or _macro(o) in named]
    options = [_release_of_headers() if o in _includes() else o for o in options]
    parts = [compiler, where, *sorted(options), *(word for item in headers.items() for word in item), source]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return cache_folder("cubins", key[:2]) / f"{key}.cubin"


def _release_of_headers() -> str:
    """In place of the folder of CUDA's headers, which is another in each environment."""
    try:
        return importlib.metadata.version("nvidia-cuda-runtime-cu12")
    except importlib.metadata.PackageNotFoundError:
        return _includes()[0]


def names_in(source: str) -> frozenset[str]:
    """All names in the text of a source: a macro that is none of them changes nothing."""
    return frozenset(re.findall(r"[A-Za-z_]\w*", source))


def _macro(option: str) -> str:
    return option.removeprefix("-D").partition("=")[0].strip()


def _call(answer: tuple[Any, ...]) -> Any:
    if int(answer[0]):
        raise RuntimeError(str(answer[0]))
    return answer[1]


def _includes() -> list[str]:
    """The headers of the wheel `nvidia-cuda-runtime-cu12`, where it is there."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or []) if spec is not None else []
    return [f"-I{folder}" for root in roots if (folder := Path(root) / "cuda_runtime" / "include").is_dir()]
