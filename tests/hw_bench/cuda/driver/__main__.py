"""The stand-in driver around a program: ``python tests/hw_bench/cuda/driver [options] ARGUMENTS``.

Both libraries are compiled, loaded under the names that everybody asks for them by, and answered in this
process. Then the program runs as it would on a GPU: ``run_on_device`` with these arguments, or a script.

It is a part of the tests and not of the package: users who have no GPU get the same numbers from
``smlab bench run --on-simulator`` without a C compiler; what this adds is that Numba, cuda-core and the
host code of the suite run as they will on a GPU.
"""

from __future__ import annotations

import argparse
import atexit
import ctypes
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SMALL = {"gpu.sms": 2, "l2.bytes": 1 << 20}
"""The GPU of the tests: two SMs, and an L2 that is soon full."""
SERVED: Any = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64))


def built(folder: Path, name: str) -> ctypes.CDLL:
    """A stand-in library, compiled and loaded."""
    library = folder / f"{name}.so.1"
    source = HERE / f"{name.replace('-', '_')}.c"
    command = ["cc", "-shared", "-fPIC", "-O1", f"-Wl,-soname,{library.name}", "-o", library, source, "-ldl"]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def serve(library: ctypes.CDLL, answer: Callable[[str, Any], int]) -> Any:
    """Have a stand-in's functions answered here; what is given back must be kept as long."""

    def answered(name: bytes, words: Any) -> int:
        try:
            return answer(name.decode(), words)
        except BaseException:  # what goes wrong here is a mistake of the stand-in, not the program's
            traceback.print_exc()
            os._exit(70)

    served = SERVED(answered)
    library.serve(served)
    return served


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", default="a100-40")
    parser.add_argument("--gap", type=float, default=0.0, help="seconds on the GPU behind each kernel")
    parser.add_argument("--fault", default="", help="one of those in faults.py")
    parser.add_argument("--at", type=int, default=1, help="at which call or launch the fault strikes")
    parser.add_argument("--script", type=Path)
    options, arguments = parser.parse_known_args()
    # Registered before anything that Numba does at the end, and so done behind it.
    libraries: list[ctypes.CDLL] = []
    atexit.register(lambda: [library.serve(None) for library in libraries])
    from driven_gpu import DrivenGpu
    from driver import CudaDriver
    from faults import Faults
    from management import Management

    from smlab.hw_bench.gpu.descriptions import load_gpu

    with tempfile.TemporaryDirectory() as name:
        libraries += [built(Path(name), library) for library in ("libcuda", "libnvidia-ml")]
    gpu = load_gpu(options.gpu).with_values(SMALL, source="assumed: a small GPU", where="a test")
    simulated = DrivenGpu(gpu, Faults(options.fault, options.at), options.gap)
    answers = CudaDriver(simulated), Management(simulated)
    kept = [serve(*pair) for pair in zip(libraries, answers, strict=True)]
    atexit.register(lambda: kept)
    if options.script is not None:
        runpy.run_path(str(options.script), {"simulated": simulated, "arguments": arguments})
        return 0
    from smlab.hw_bench.cuda.run_on_device import main as run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
