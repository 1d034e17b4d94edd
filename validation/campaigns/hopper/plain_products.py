"""Plain products of matrices on an H100 of ours, measured and simulated:
``python -m smlab.validation.campaigns.hopper.plain_products`` prints the table in some ten minutes.

Their warps load the same lines again and again, most of which are on their way when they are asked for. How
long that takes gave generation 9.0 its `l1.pending_lookups`. The kernels that the card ran were not kept.
``plain_product.cu`` has been written again from their names, and has their number of registers within two.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.sass.image import KernelImage
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.cuda_c import load_cuda
from smlab.sim.frontends.protocol import KernelSource
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.memory.global_memory import GlobalMemory
from smlab.validation.campaigns.hopper.judge import GPU, MEASURED

SOURCE: Final = Path(__file__).with_name("plain_product.cu")
EDGE: Final = 1024
"""Rows and columns; the matrices are then in L2 from the launch before."""
ONE_BLOCK_BYTES: Final = 120_000
"""Dynamic shared memory that leaves an SM room for one block."""


@dataclass(frozen=True)
class PlainProduct:
    """A kernel by its name in ``launches.csv.gz``, without ``gemm|``: macros, depth and shared memory."""

    name: str
    defines: tuple[tuple[str, str], ...] = ()
    depth: int = EDGE
    shared_bytes: int = 0

    @property
    def loads(self) -> int:
        """Warp-instructions that load from a matrix."""
        matrices = 1 if self.name.startswith("only") else 2
        return matrices * EDGE * EDGE // 32 * self.depth


PRODUCTS: Final = (
    *(PlainProduct(f"unroll{n}", (("UNROLL", str(n)),)) for n in (1, 2)),
    PlainProduct("base"),
    *(PlainProduct(f"unroll{n}", (("UNROLL", str(n)),)) for n in (8, 16)),
    PlainProduct("only-A", (("ONLY_A", "1"),)),
    PlainProduct("only-B", (("ONLY_B", "1"),)),
    PlainProduct("short-k", depth=256),
    PlainProduct("one-block", shared_bytes=ONE_BLOCK_BYTES),
    PlainProduct("unroll16-one-block", (("UNROLL", "16"),), shared_bytes=ONE_BLOCK_BYTES),
)


def measured_seconds() -> dict[str, float]:
    """The median time of a warm launch of each kernel, by two events."""
    with gzip.open(MEASURED / "launches.csv.gz", "rt", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["list"] == "memory"]
    names = {f"gemm|{product.name}|{EDGE}": product.name for product in PRODUCTS}
    return {names[r["launch"]]: 1e-6 * float(r["median_us"]) for r in rows if r["launch"] in names}


def _image(product: PlainProduct, name: str) -> KernelImage:
    return load_cuda(KernelSource(SOURCE, "sm_90", name, defines=dict(product.defines))).image


def simulated_seconds(product: PlainProduct, gpu: Gpu) -> float:
    """The time of a launch that finds its matrices in L2, as two events around it would tell it."""
    memory = GlobalMemory()
    a, b, c = (np.zeros(EDGE * n, np.float32) for n in (product.depth, product.depth, EDGE))
    words = np.int32(EDGE * product.depth)
    touch = MachineLaunch(_image(product, "touch"), (264, 1, 1), (512, 1, 1), [a, b, c, words], memory=memory)
    run_machine_code(touch, gpu, sms="all")
    launch = MachineLaunch(
        _image(product, "plain_product"),
        (EDGE // 32, EDGE // 32, 1),
        (1024, 1, 1),
        [a, b, c, np.int32(EDGE), np.int32(product.depth)],
        dynamic_shared_bytes=product.shared_bytes,
        memory=memory,
    )
    return run_machine_code(launch, gpu, sms="all").seconds + gpu.number("launch.events_overhead_s")


def main(given: Sequence[str] | None = None) -> int:
    asked, gpu, measured = (sys.argv[1:] if given is None else given), load_gpu(GPU), measured_seconds()
    sm_cycles_per_s = gpu.number("clock.sm_hz") * gpu.integer("gpu.sms")
    around_s = gpu.number("launch.events_overhead_s")
    print("| kernel | measured, us | cycles a load | simulated, us | cycles a load | ratio |")
    print("|---|---|---|---|---|---|")
    for product in PRODUCTS:
        if asked and product.name not in asked:
            continue
        times = measured[product.name], simulated_seconds(product, gpu)
        cells = [product.name]
        for seconds in times:
            per_load = (seconds - around_s) * sm_cycles_per_s / product.loads
            cells += [f"{1e6 * seconds:.1f}", f"{per_load:.2f}"]
        print(f"| {' | '.join(cells)} | {times[1] / times[0]:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
