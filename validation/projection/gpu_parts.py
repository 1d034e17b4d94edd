"""A quarter of a GPU: fewer SMs under L2 and memory of as much less, so that hundreds of kernels fill it
in seconds."""

from __future__ import annotations

from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu

PART: Final = 4
"""V100 and A100 have 80 and 108 SMs, so that a quarter of each is a whole number and the ratios between
them stay."""

_SHARED_BY_ALL: Final = (
    "l2.bytes",
    "l2.bandwidth_bytes_per_s",
    "dram.bytes",
    "dram.bandwidth_bytes_per_s",
    "dram.sustained_bandwidth_bytes_per_s",
    "l1.sustained_bandwidth_bytes_per_s",
    "peak.sustained_flops_per_s",
    *(f"peak.{p}_flops_per_s" for p in ("fp16", "fp32", "fp64", "tensor_fp16")),
)


def part_of(gpu: Gpu, part: int = PART) -> Gpu:
    """One ``part``-th of a GPU: its SMs as they are, fewer of them, and all that the SMs share in proportion.

    Per SM nothing changes, so a kernel with a ``part``-th of the blocks takes the same time but for what
    whole SMs and blocks round. `SmlabError` if the SMs cannot be divided.
    """
    sms = gpu.integer("gpu.sms")
    if sms % part:
        raise SmlabError.at(gpu.name, f"its SMs cannot be divided by {part}", sms, f"a multiple of {part}")
    values: dict[str, int | float | str] = {"gpu.sms": sms // part}
    for key in _SHARED_BY_ALL:
        if gpu.has(key):
            values[key] = (
                gpu.number(key) / part if key not in ("l2.bytes", "dram.bytes") else gpu.integer(key) // part
            )
    return gpu.with_values(values, source=f"one {part}th of {gpu.name}")
