"""``python -m smlab.validation.papers.histogram --gpu titan-v``: what the study's findings hang on, one
assumption changed at a time.

For each change: with uniform images, the exact utilization and the paper's estimate at 2^20 and 2^22 pixels
and the gain from reordering at 2^22; with solid images of several colours, the gain from reordering at 2^22
pixels and 512 threads.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.validation.papers.histogram.grid import Spec
from smlab.validation.papers.histogram.images import SOLIDS
from smlab.validation.papers.histogram.point import CasePoint, run_point

BEND, LARGEST = 2**20, 2**22
GPU_CHANGES: dict[str, dict[str, int | float | str]] = {
    "atomic latency 4": {"atomic.add.latency_cycles": 4},
    "atomic latency 100": {"atomic.add.latency_cycles": 100},
    "atomic queue 4": {"atomic.queue_entries": 4},
    "atomic queue 64": {"atomic.queue_entries": 64},
    "load/store queue 64": {"lsu.queue_entries": 64},
    "scheduler lrr": {"sm.scheduler_policy": "lrr"},
    "scheduler oldest": {"sm.scheduler_policy": "oldest"},
    "block launch 300": {"sm.block_launch_cycles": 300},
    "L2 port 32 bytes": {"l2.sm_port_bytes_per_cycle": 32},
}
LAUNCH_CHANGES: dict[str, dict[str, int | str]] = {
    "as it is": {},
    "cold L2": {"cache": "cold"},
    "two blocks an SM": {"blocks_per_sm": 2},
    "as many blocks as fit": {"blocks_per_sm": 0},
    "variable channels": {"channels": "variable"},
}


def row(gpu: Gpu, launch: dict[str, int | str]) -> str:
    """One change, as a line."""

    def point(image: str, pixels: int, threads: int, variant: str = "original") -> CasePoint:
        return run_point(gpu, Spec("add", image, pixels, threads, variant, **launch))  # type: ignore[arg-type]

    cells = []
    for threads in (256, 512, 1024):
        bend, end = (point("uniform", size, threads) for size in (BEND, LARGEST))
        moved = point("uniform", LARGEST, threads, "reordered")
        exact = "/".join(f"{100 * p.utilization:3.0f}" for p in (bend, end))
        published = "/".join(f"{100 * p.utilization_occupancy:3.0f}" for p in (bend, end))
        cells.append(f"{exact} ({published}) {end.cycles / moved.cycles:.2f}x")
    for image in SOLIDS:
        gain = point(image, LARGEST, 512).cycles / point(image, LARGEST, 512, "reordered").cycles
        cells.append(f"{gain:.2f}x")
    return " | ".join(cells)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m smlab.validation.papers.histogram", description=__doc__)
    parser.add_argument("--gpu", default="titan-v")
    gpu = load_gpu(parser.parse_args(arguments).gpu)
    print(
        "uniform, 256, 512 and 1024 threads: exact % (estimated %) at 2^20/2^22, reordered | gain on "
        + ", ".join(SOLIDS)
    )
    for name, launch in LAUNCH_CHANGES.items():
        print(f"{name:22s} {row(gpu, launch)}", flush=True)
    for name, values in GPU_CHANGES.items():
        changed = gpu.with_values(values, source="assumed: changed to see what hangs on it")
        print(f"{name:22s} {row(changed, {})}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
