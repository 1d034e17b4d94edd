"""Intermediate GPUs: each group of constants from one of two GPUs.

A ratio of times has a cause where exchanging one group of constants, and no other, changes it. So an
intermediate GPU takes its clock from one GPU, its number of SMs from the other, and so on. Peaks that a
description gives for the whole GPU are kept per SM and cycle, so that an intermediate GPU has the peak of its
own SMs and clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Constant, Gpu

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "launch_overhead": ("launch.", "sm.block_launch_cycles"),
    "sms": ("gpu.sms",),
    "occupancy": (
        *("sm.max_warps", "sm.max_blocks", "sm.max_threads", "sm.registers", "sm.register_unit_per_warp"),
        *("sm.max_registers_per_thread", "sm.shared_bytes", "sm.shared_reserved_bytes_per_block"),
        "sm.shared_unit_bytes",
    ),
    "clock": ("clock.",),
    "dram": ("dram.",),
    "l2": ("l2.",),
    "shared": ("shared.", "banks.", "atomic.", "l1.", "lsu.", "mio."),
    "arithmetic": (
        "pipe.",
        "peak.tensor",
        "sm.schedulers",
        "sm.warp_lanes",
        "sm.scheduler_policy",
        "sm.barrier",
    ),
}
"""Which constants, by the beginnings of their names, belong to which cause; the longest beginning counts."""

_TENSOR: Final = "peak.tensor_fp16_flops_per_s"
_DRAM: Final = ("dram.bandwidth_bytes_per_s", "dram.sustained_bandwidth_bytes_per_s")
_LEFT_OUT: Final = ("peak.sustained", "l1.sustained")
"""Shares of a peak that a benchmark reached, known of some GPUs: taken of one side only, they would look like
a cause."""

RELATIVE_ERROR: Final[Mapping[str, float]] = {
    "spec": 0.01,
    "published": 0.05,
    "measured": 0.03,
    "calibrated": 0.05,
    "assumed": 0.10,
}
"""Standard error of a constant by its kind where its description has no interval; a judgement."""

RATES: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "launch_overhead": (("launch.overhead_s",), ("sm.block_launch_cycles",)),
    "clock": (("clock.sm_hz",),),
    "dram": (("dram.sustained_bandwidth_bytes_per_s", "dram.bandwidth_bytes_per_s"),),
    "l2": (("l2.bandwidth_bytes_per_s",),),
    "shared": (
        ("shared.interval_cycles_per_pass",),
        ("l1.bandwidth_bytes_per_cycle", "l1.sustained_bandwidth_bytes_per_s"),
        ("mio.request_interval_cycles",),
    ),
    "arithmetic": (tuple(f"peak.{p}_flops_per_s" for p in ("fp32", "fp64", "fp16")),),
}
"""The constants whose uncertainty makes that of a cause; those of one tuple are off together."""


@cache
def group_of(key: str) -> str:
    """The cause that a constant belongs to; "" for one that changes no time (the sizes of memories)."""
    group, longest = "", 0
    for name, starts in GROUPS.items():
        for start in starts:
            if key.startswith(start) and len(start) > longest:
                group, longest = name, len(start)
    return group


@dataclass(frozen=True, eq=False)
class IntermediateGpus:
    """Two GPUs whose constants can be exchanged group by group."""

    source: Gpu
    target: Gpu

    @cached_property
    def _sides(self) -> tuple[dict[str, Constant], dict[str, Constant]]:
        """The normalised constants of source and target."""
        return _normalised(self.source, self.target), _normalised(self.target, self.source)

    def differing(self) -> tuple[str, ...]:
        """The groups in which the two differ."""
        a, b = self._sides
        keys = {k for k in {*a, *b} if k not in a or k not in b or not _same(a[k], b[k])}
        return tuple(name for name in GROUPS if any(group_of(k) == name for k in keys))

    def gpu(self, from_target: frozenset[str]) -> Gpu:
        """The source with the groups ``from_target`` of the target."""
        a, b = self._sides
        chosen = {k: c for k, c in a.items() if group_of(k) not in from_target}
        chosen |= {k: c for k, c in b.items() if group_of(k) in from_target}
        intermediate_gpu = replace(
            self.source, name=f"{self.source.name} to {self.target.name}", constants=chosen
        )
        return _with_peaks(intermediate_gpu)


def uncertainty(gpu: Gpu, keys: tuple[str, ...]) -> float:
    """Standard error of the logarithm of the first of ``keys`` that the description has; 0 where it has none.

    Half an interval's width counts as 1.645 standard errors.
    """
    for key in keys:
        if gpu.has(key):
            constant = gpu[key]
            if constant.low and constant.high and constant.high > constant.low > 0:
                return float(np.log(constant.high / constant.low) / 2 / 1.645)
            return RELATIVE_ERROR[constant.kind]
    return 0.0


def scaled(gpu: Gpu, keys: tuple[str, ...], factor: float) -> Gpu:
    """The GPU with those of ``keys`` that it has times ``factor``, unchecked: for derivatives."""
    values = {k: replace(gpu.constants[k], value=float(gpu.number(k)) * factor) for k in keys if gpu.has(k)}
    return replace(gpu, constants={**gpu.constants, **values})


def _normalised(gpu: Gpu, other: Gpu) -> dict[str, Constant]:
    """The constants that make times, tensor rates per SM and cycle. Where ``other`` rates its memory at
    another speed but sustains the same to the digit, this is a description changed by hand: the share that is
    sustained is kept."""
    constants = {k: c for k, c in gpu.constants.items() if not k.startswith(_LEFT_OUT)}
    if _TENSOR in constants:
        sm_cycles = float(gpu.number("gpu.sms")) * float(gpu.number("clock.sm_hz"))
        constants[_TENSOR] = replace(constants[_TENSOR], value=float(gpu.number(_TENSOR)) / sm_cycles)
    rated, sustained = (float(gpu.number(k)) for k in _DRAM)
    if sustained == float(other.number(_DRAM[1])) and rated > float(other.number(_DRAM[0])):
        value = sustained * rated / float(other.number(_DRAM[0]))
        constants[_DRAM[1]] = replace(constants[_DRAM[1]], value=value)
    return constants


def _with_peaks(gpu: Gpu) -> Gpu:
    """The peaks that a GPU's own SMs, pipes and clock give."""
    number = gpu.number
    sms, clock, lanes, schedulers = (
        float(number(k)) for k in ("gpu.sms", "clock.sm_hz", "sm.warp_lanes", "sm.schedulers")
    )
    constants = dict(gpu.constants)
    for precision in ("fp16", "fp32", "fp64"):
        pipes = schedulers if gpu.text(f"pipe.{precision}.shared_by") == "scheduler" else 1.0
        each = 4.0 if precision == "fp16" else 2.0  # a half2 instruction works on two numbers
        rate = each * pipes * lanes / float(number(f"pipe.{precision}.interval_cycles"))
        key = f"peak.{precision}_flops_per_s"
        constants[key] = replace(constants[key], value=rate * sms * clock)
    if _TENSOR in constants:
        constants[_TENSOR] = replace(constants[_TENSOR], value=float(number(_TENSOR)) * sms * clock)
    return replace(gpu, constants=constants)


def _same(a: Constant, b: Constant) -> bool:
    if isinstance(a.value, str) or isinstance(b.value, str):
        return a.value == b.value
    return abs(a.value - b.value) <= 1e-9 * max(abs(a.value), abs(b.value))
