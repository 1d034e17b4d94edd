"""CUDA C to a cubin with NVIDIA's run-time compiler, from pip wheels and with no GPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smlab.hw_bench.errors import SmlabError

_ADVICE = "pip install nvidia-cuda-nvrtc-cu12 cuda-bindings, or 'smlab[cuda12]'"


def compile_cuda(
    source: str, architecture: str, options: Sequence[str] = (), where: str = "kernel.cu"
) -> bytes:
    """The cubin of CUDA C source for ``sm_75`` and its like, with line numbers.

    Raises:
        SmlabError: no compiler, or the first error that it tells.
    """
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None:
        raise SmlabError(f"the CUDA compiler was not found: {_ADVICE}")
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise SmlabError(f"the CUDA compiler cannot be loaded ({error}): {_ADVICE}") from error
    try:
        program = _call(nvrtc.nvrtcCreateProgram(source.encode(), where.encode(), 0, [], []))
    except RuntimeError as error:
        raise SmlabError(f"the CUDA compiler cannot be loaded ({error}): {_ADVICE}") from error
    wanted = [f"--gpu-architecture={architecture}", "--std=c++17", "-lineinfo", *_includes(), *options]
    status = nvrtc.nvrtcCompileProgram(program, len(wanted), [o.encode() for o in wanted])[0]
    log = b" " * _call(nvrtc.nvrtcGetProgramLogSize(program))
    nvrtc.nvrtcGetProgramLog(program, log)
    if int(status):
        lines = [line for line in log.decode(errors="replace").splitlines() if "error" in line]
        raise SmlabError(f"{where}: does not compile for {architecture}: {lines[0] if lines else status}")
    cubin: bytes = b" " * _call(nvrtc.nvrtcGetCUBINSize(program))
    nvrtc.nvrtcGetCUBIN(program, cubin)
    nvrtc.nvrtcDestroyProgram(program)
    return cubin


def _call(answer: tuple[Any, ...]) -> Any:
    if int(answer[0]):
        raise RuntimeError(str(answer[0]))
    return answer[1]


def _includes() -> list[str]:
    """The headers of the wheel `nvidia-cuda-runtime-cu12`, where it is there."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or []) if spec is not None else []
    return [f"-I{folder}" for root in roots if (folder := Path(root) / "cuda_runtime" / "include").is_dir()]
