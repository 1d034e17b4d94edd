"""Right results of all kernels, on small inputs: under Numba's CPU simulator with no GPU, or on the GPU that
is there.

``python -m smlab.hw_bench.cuda.measuring.functional`` prints one JSON list, and what is wrong on standard
error, with exit status 1. `simulate` runs it in a separate process, since Numba chooses the simulator when it
is first imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final

from smlab.hw_bench.child_python import run_python
from smlab.hw_bench.cuda import registry
from smlab.hw_bench.cuda.kernels.spec import KernelSpec
from smlab.hw_bench.cuda.toolkit import SIMULATED, is_of_toolkit, one_line, require_gpu
from smlab.hw_bench.errors import SmlabError, end_with

_WARP_WIDE: Final = "the simulator has no warp-wide instructions"


@dataclass(frozen=True)
class FunctionalResult:
    """Whether one kernel computes what it should; ``message`` says what it did instead, or is empty.

    ``not_done`` says why a kernel was not run (``ok`` is then true), or is empty.
    """

    benchmark: str
    kernel: str
    ok: bool
    message: str
    not_done: str = ""


def check_kernels() -> Iterator[FunctionalResult]:
    """Run every kernel of every benchmark on a small input, with whatever Numba runs kernels on in this
    process."""
    for benchmark in registry.BENCHMARKS:
        for spec in benchmark.kernels():
            if not_done := _not_done(spec):
                yield FunctionalResult(spec.benchmark, spec.name, True, "", not_done)
                continue
            try:
                wrong = _wrong(spec)
            except SmlabError as error:
                wrong = str(error)
            except Exception as error:
                if not is_of_toolkit(error):
                    raise
                wrong = one_line(error)
            yield FunctionalResult(spec.benchmark, spec.name, not wrong, wrong)


def _not_done(spec: KernelSpec) -> str:
    """Why a kernel cannot be run here, or nothing."""
    if SIMULATED:
        return _WARP_WIDE if spec.warp_wide else ""
    from smlab.hw_bench.cuda.kernels.device import cuda

    major, minor = cuda.get_current_device().compute_capability
    return "" if spec.supports(f"sm_{10 * major + minor}") else f"sm_{10 * major + minor} has no code of it"


def simulate(timeout_s: float = 300.0) -> list[FunctionalResult]:
    """Check all kernels under the CPU simulator, in a new process.

    Raises:
        SmlabError: with the last line of the error, when the process fails.
    """
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    try:
        done = run_python(
            "import runpy; runpy.run_module('smlab.hw_bench.cuda.measuring.functional', run_name='__main__')",
            timeout_s=timeout_s,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise SmlabError(f"the simulated kernels did not end within {timeout_s:g} s") from error
    if not done.stdout:
        lines = done.stderr.strip().splitlines()
        raise SmlabError(f"the simulated kernels failed: {lines[-1] if lines else done.returncode}")
    return [FunctionalResult(**row) for row in json.loads(done.stdout)]


def _wrong(spec: KernelSpec) -> str:
    from smlab.hw_bench.cuda.measuring import runners

    if spec.benchmark in {"shared-atomics", "shared-banks"}:
        return _wrong_points(spec)
    if spec.benchmark == "histogram":
        kinds = ("solid", "uniform")
        runs = [runners.histogram(spec, image=runners.image(k, 150), blocks=2, threads=64) for k in kinds]
        return "; ".join(filter(None, (run.wrong for run in runs)))
    if spec.benchmark == "latency":
        if spec.name in {"shared", "cached", "uncached"}:
            return runners.chase(
                spec, footprint_bytes=2048, stride_bytes=32, links=32, repetitions=2, warm_links=64
            ).wrong
        return runners.arithmetic(spec, links=32, repetitions=2).wrong
    if spec.benchmark == "ceilings":
        return _wrong_ceiling(spec)
    if spec.benchmark == "portability":
        return _wrong_portability(spec)
    raise SmlabError.at("functional check", "there is none for this benchmark", spec.benchmark)


def _wrong_points(spec: KernelSpec) -> str:
    from smlab.hw_bench.cuda.kernels.atomic_cores import BURSTS
    from smlab.hw_bench.cuda.kernels.points import AtomicPoint, Pattern
    from smlab.hw_bench.cuda.measuring.benchmarks.atomic_points import measure, wrong_sums

    operation, form = spec.name.split("/")
    swaps = spec.benchmark == "shared-atomics" and not operation.startswith("float") and form != "burst"
    points = [
        AtomicPoint(1, Pattern(5, 5)),
        AtomicPoint(2, Pattern(6, 3, 2), cas_warps=1 if swaps else 0),
        AtomicPoint(3, Pattern(32, 4), cas_warps=3 if swaps else 0),
        AtomicPoint(2, Pattern(4), warp_stride_words=32),
    ]
    wrong = []
    several = form == "burst"  # it runs at ten lengths, once each
    for iterations in BURSTS if several else (1,) if form == "batch" else (16,):
        times = measure(spec, points, repetitions=1 if several else 2, iterations=iterations)
        wrong += [] if times.measured.all() else [f"{int((~times.measured).sum())} points were not measured"]
        wrong += wrong_sums(operation, times, iterations)
    return "; ".join(wrong)


def _wrong_ceiling(spec: KernelSpec) -> str:
    from smlab.hw_bench.cuda.kernels.ceilings import MIXES, SHARED_SLICE, SHARED_THREADS, SLICE, THREADS
    from smlab.hw_bench.cuda.measuring import runners

    if spec.name in MIXES:
        return runners.mix(spec, blocks=2, threads=32, operations=64).wrong
    if spec.name.startswith("shared"):
        return runners.memory(
            spec, blocks=2, threads=SHARED_THREADS, slice_length=SHARED_SLICE, passes=2
        ).wrong
    return runners.memory(spec, blocks=2, threads=THREADS, slice_length=2 * SLICE, passes=2).wrong


def _wrong_portability(spec: KernelSpec) -> str:
    from smlab.hw_bench.cuda.measuring.benchmarks import portability_runs

    sizes = {"global-atomic-add": 8, "global-atomic-cas": 8, "column-permutation": 384}
    threads = 256 if spec.name.startswith("bank-conflicts") else 64
    return portability_runs.run(spec, size=sizes.get(spec.name, 0), blocks=2, threads=threads).wrong


def main() -> int:
    if not SIMULATED:
        require_gpu()
    results = list(check_kernels())
    print(json.dumps([asdict(result) for result in results]))
    for result in results:
        if not result.ok:
            print(f"WRONG {result.benchmark} {result.kernel}: {result.message}", file=sys.stderr)
    right = sum(result.ok for result in results)
    print(f"{right} of {len(results)} kernels compute what they should", file=sys.stderr)
    return 0 if right == len(results) else 1


if __name__ == "__main__":
    end_with(main)
