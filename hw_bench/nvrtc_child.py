"""What the process that compiles CUDA C does (`smlab.hw_bench.sass.nvrtc`).

Apart from the rest, which takes longer to import than most kernels to compile. It reads a line of JSON from
standard input and writes one, with the cubin behind it, for each source.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

CPU_S: Final = 300
MOST_BYTES: Final = 2**32
"""How much processor time and memory a source may take, unless less time is asked for."""


def answer() -> None:
    """Compile what standard input asks for."""
    beside, cpu_s, asks = json.load(sys.stdin.buffer)
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # it writes no file
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # what the library prints is no answer
        if beside is not None:
            from cuda.bindings import nvrtc

            nvrtc.nvrtcVersion()  # nothing is loaded from the user's folder
            os.chdir(beside)
        for ask in asks:
            if sys.platform == "linux":
                used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
                hard = cpu_s * len(asks) + 1
                resource.setrlimit(resource.RLIMIT_CPU, (min(used + cpu_s, hard), hard))
            failed, log, cubin = compile_here(*ask)
            out.write(json.dumps([failed, log, len(cubin)]).encode() + b"\n" + cubin)
            out.flush()


def compile_here(
    source: str, where: str, options: Sequence[str], headers: Mapping[str, str]
) -> tuple[str, str, bytes]:
    """What went wrong, empty where nothing did; what the compiler says; and the cubin."""
    from cuda.bindings import nvrtc

    names, texts = ([text.encode() for text in column] for column in (headers, headers.values()))
    program = _call(nvrtc.nvrtcCreateProgram(source.encode(), where.encode(), len(headers), texts, names))
    status = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])[0]
    log = b" " * _call(nvrtc.nvrtcGetProgramLogSize(program))
    nvrtc.nvrtcGetProgramLog(program, log)
    told = log.decode(errors="replace").rstrip("\0")
    if int(status):
        return str(status), told, b""
    cubin: bytes = b" " * _call(nvrtc.nvrtcGetCUBINSize(program))
    nvrtc.nvrtcGetCUBIN(program, cubin)
    nvrtc.nvrtcDestroyProgram(program)
    return "", told, cubin


def _call(answer: tuple[Any, ...]) -> Any:
    if int(answer[0]):
        raise RuntimeError(str(answer[0]))
    return answer[1]
