"""The kernels of the example profile, and how their counters become a file of Nsight Compute's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from smlab.examples import GPU
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.profiles import write_ncu_wide
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterTable
from smlab.sim import Kernel, counter_table, read_workload, simulate
from smlab.sim.workloads.histogram import histogram

PIXELS, THREADS = 1 << 20, 512
"""The launch of the two histograms: an image of a megapixel, one block of 512 threads on each SM."""

HISTOGRAMS: Final = {"histogram_flat": "solid", "histogram_noise": "uniform"}
"""The same kernel on two images: all pixels of one colour, and pixels of random colours."""

WORKLOADS: Final = ("compact", "saxpy", "matmul", "hash_keys", "walk_list")
MADE_BY: Final = "python -m smlab.examples"


def example_kernels(gpu: Gpu) -> Iterator[Kernel]:
    """The kernels of the profile, in the order of their launches."""
    for name, image in HISTOGRAMS.items():
        yield replace(histogram(gpu, image=image, pixels=PIXELS, threads=THREADS), name=name)
    folder = Path(__file__).parent
    for name in WORKLOADS:
        yield read_workload(folder / f"{name}.toml")


def write_profile(path: Path) -> None:
    """Simulate the kernels, all SMs of the GPU, and write their counters as ncu's raw page."""
    gpu = load_gpu(GPU)
    rows = []
    for launch, kernel in enumerate(example_kernels(gpu)):
        table = counter_table(simulate(kernel, gpu), launch)
        rows += [row for row in table.rows() if row.sm == WHOLE_GPU]
    remark = f"SIMULATED by smlab on {GPU}, not measured; made by: {MADE_BY}"
    write_ncu_wide(CounterTable.from_rows(rows), path, gpu=gpu, remark=remark)
