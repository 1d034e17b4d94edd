"""The built-in workload `histogram` by what a compiler makes of Dong & Pai's listings, in place of the
program of `smlab.sim.workloads.histogram`: the same image, grid and cache, executed as machine code.

It needs the run-time compiler and nvdisasm (the extra cuda12).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.frontends.registry import load_kernel
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.machine import machine_from
from smlab.sim.options import by_keywords
from smlab.sim.workloads.histogram import (
    COUNTERS,
    Bytes,
    CountingOptions,
    before_ampere,
    check_histogram,
    image_named,
    resident_blocks,
)
from smlab.sim.workloads.histogram_code import CHANNELS

SOURCE: Final = Path(__file__).parent / "histogram.cu"
NEVER: Final = 2**32 - 1
"""A count that none reaches: a result is compared with it, so that it is used."""


@dataclass(frozen=True, kw_only=True)
class CompiledHistogramOptions(CountingOptions):
    """The options of `histogram_launch`."""

    pixels: int = 1 << 20
    image: str = "solid"


@by_keywords(CompiledHistogramOptions)
def histogram_launch(gpu: Gpu, options: CompiledHistogramOptions) -> MachineLaunch:
    """The launch of `smlab.sim.workloads.histogram.histogram`, on the whole GPU.

    Raises:
        SmlabError: for a value that cannot be, naming the key, or without a compiler.
    """
    return launch_of_image(gpu, image_named(options.image, options.pixels), options)


def launch_of_image(gpu: Gpu, image: Bytes, options: CountingOptions) -> MachineLaunch:
    """The launch that counts ``image``, bytes of shape ``(pixels, 4)``, on the whole GPU. Its last argument
    but one is the histogram, ``(1024,)``.

    Raises:
        SmlabError: for a value that cannot be, naming the key, or without a compiler.
    """
    check_histogram(image, options)
    threads, op = options.threads, options.op
    old = before_ampere(gpu)
    if op == "popc-inc" and old:
        raise SmlabError.at(
            "histogram: op", f"the compiler makes no ATOMS.POPC.INC for {gpu.sm_architecture}", op, "add"
        )
    defines = {"CHANNELS": str(CHANNELS)} if options.channels == "constant" else {}
    defines |= {"REORDERED": "1"} if options.variant == "reordered" else {}
    defines |= {"READ": "1"} if op == "add" and not old else {}
    kernel = load_kernel(SOURCE, gpu.sm_architecture, defines=defines)
    pixels = len(image)
    resident = resident_blocks(gpu, threads, options.blocks_per_sm)
    blocks = min(gpu.integer("gpu.sms") * resident, -(-pixels // threads))
    content = np.ascontiguousarray(image).reshape(-1)
    counts = np.zeros(COUNTERS, dtype=np.uint32)
    scalars = np.int32(pixels), np.int32(CHANNELS), np.uint32(NEVER)
    launch = MachineLaunch(
        kernel, (blocks, 1, 1), (threads, 1, 1), [content, *scalars[:2], counts, scalars[2]]
    )
    if options.cache == "warm":
        _warm(launch, gpu, len(content))
    return launch


def _warm(launch: MachineLaunch, gpu: Gpu, size: int) -> None:
    """L2 has just seen the image, the first allocation, as far as it holds it."""
    machine = machine_from(gpu)
    first = launch.allocations[0].address
    lines = np.arange(first // machine.line_bytes, (first + size - 1) // machine.line_bytes + 1)
    sectors = (1 << machine.line_bytes // machine.sector_bytes) - 1
    rows = np.stack([lines, np.full_like(lines, sectors), 0 * lines], axis=1)
    launch.memory.l2.leave(machine, lambda: rows)
