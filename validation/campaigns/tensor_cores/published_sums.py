"""The four kernels of a published sum of 2^30 numbers on an H100, compiled from their source, beside the
bandwidths that their author reports.

``python -m smlab.validation.campaigns.tensor_cores.published_sums ../shared/data/worklogs/matmul-h100``
prints the table: samples of one SM, some minutes, 9 GB of memory. nvcc must be there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim.execution.run import MachineRun, run_machine_code
from smlab.sim.frontends.cuda_c import load_cuda
from smlab.sim.frontends.protocol import KernelSource
from smlab.sim.isa.launch.launch import MachineLaunch

COUNT: Final = 1 << 30
FORMS: Final = {
    1: ("sumKernel1<512, 20>", 512, 20, 1, 3232.76),
    2: ("sumKernel2<1024, 16>", 1024, 16, 4, 3239.69),
    3: ("sumKernel3<1024, 16>", 1024, 16, 4, 3240.11),
    4: ("sumKernel4<1024, 16>", 1024, 16, 4, 3241.47),
}
"""A kernel's name, threads of a block, elements of a thread, numbers of an element, and GB/s at `COUNT`
numbers (pranjalssh/fast.cu, comment in sum.cu)."""


def run_sum(form: int, folder: Path, numbers: NDArray[np.int32], sms: int | str) -> tuple[MachineRun, int]:
    """A form's run on an H100, and the sum that it gives."""
    name, threads, batch, each, _ = FORMS[form]
    source = KernelSource(folder / "sum.cu", "sm_90a", name, options={"compiler": "nvcc"})
    blocks, out = -(-len(numbers) // (threads * batch * each)), np.zeros(1, np.int32)
    launch = MachineLaunch(
        load_cuda(source).image,
        (blocks, 1, 1),
        (threads, 1, 1),
        (numbers, out, np.int32(len(numbers) // each)),
        check_shared=False,
    )
    return run_machine_code(launch, load_gpu("h100-sxm"), sms=sms), int(out[0])


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the sources, sum.cu among them")
    parser.add_argument("--forms", type=int, nargs="*", default=[*FORMS])
    asked = parser.parse_args(given)
    numbers = np.random.default_rng(1).integers(0, 100, COUNT, dtype=np.int32)
    print("| form | published, GB/s | simulated | error |\n|---|---|---|---|")
    for form in asked.forms:
        run, _ = run_sum(form, asked.folder, numbers, 1)
        rate, published = numbers.nbytes / run.seconds / 1e9, FORMS[form][-1]
        print(
            f"| {form} | {published:.0f} | {rate:.0f} | {100 * (rate / published - 1):+.1f} % |", flush=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
