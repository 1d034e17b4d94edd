"""Pairs of simulated GPUs that differ in two or three constants, and kernels that feel it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.sim.machine import machine_from
from smlab.sim.workloads.workload import check_fits
from smlab.validation.campaigns.projection.kernels import REGIMES, DrawnKernel, draw
from smlab.validation.projection.gpu_parts import PART, part_of

Values = Mapping[str, int | float | str]

BASES: Final = ("v100", "a100-40", "rtx-2080-ti")
CHANGEABLE: Final = ("sms", "clock", "dram", "l2", "shared", "occupancy", "launch_overhead")
"""What the GPUs of a pair may differ in, by the name of the cause."""

OFF: Final = 0.05
"""Standard deviation of the logarithm by which each constant of a description is off."""

_KNOWN_OFF: Final = (
    *("clock.sm_hz", "dram.bandwidth_bytes_per_s", "dram.sustained_bandwidth_bytes_per_s"),
    *("l2.bandwidth_bytes_per_s", "l1.bandwidth_bytes_per_cycle", "shared.interval_cycles_per_pass"),
    *("launch.overhead_s", "l1.latency_cycles", "l2.latency_cycles", "dram.latency_cycles"),
    *(
        f"pipe.{p}.{what}_cycles"
        for p in ("int32", "fp32", "fp64", "fp16")
        for what in ("interval", "latency")
    ),
)
"""Constants that can be off; numbers of SMs, warps, blocks and registers are counted, not measured."""


@dataclass(frozen=True, eq=False)
class GpuPair:
    """Two GPUs, what the second has otherwise (constants by cause), and the two as ``port`` is told them."""

    source: Gpu
    target: Gpu
    changed: Mapping[str, Values]
    described_source: Gpu
    described_target: Gpu

    def between(self, causes: frozenset[str]) -> Gpu:
        """The source with the constants of some causes from the target: a counterfactual."""
        values = {k: v for name in causes for k, v in self.changed[name].items()}
        return self.source.with_values(values, "counterfactual") if values else self.source


def draw_pair(number: int, seed: int) -> GpuPair:
    """Pair ``number``: always the same for one seed."""
    rng = default_rng(SeedSequence(entropy=seed, spawn_key=(0, number)))
    base = part_of(load_gpu(BASES[int(rng.integers(len(BASES)))]), PART)
    base = base.with_values({"launch.overhead_s": float(rng.uniform(1e-6, 4e-6))}, "drawn")
    names = rng.choice(len(CHANGEABLE), size=int(rng.integers(2, 4)), replace=False).tolist()
    changed = {CHANGEABLE[i]: _change(CHANGEABLE[i], base, rng) for i in names}
    target = base.with_values({k: v for values in changed.values() for k, v in values.items()}, "drawn")
    return GpuPair(base, target, changed, _told(base, rng), _told(target, rng))


def draw_kernel(number: int, attempt: int, seed: int, pair: GpuPair) -> DrawnKernel | None:
    """A kernel for pair ``number``, of any regime; None for one of which a GPU cannot hold a block."""
    rng = default_rng(SeedSequence(entropy=seed, spawn_key=(1, number, attempt)))
    regime = list(REGIMES)[int(rng.integers(len(REGIMES)))]
    machines = [machine_from(g) for g in (pair.source, pair.target)]
    try:
        drawn = draw(regime, int(rng.integers(2**20)), seed, min(machines, key=lambda m: m.sms))
        for machine in machines:
            check_fits(drawn.kernel, machine)
    except SmlabError:
        return None
    return drawn


def _change(cause: str, gpu: Gpu, rng: Generator) -> Values:
    """Constants of the target for one cause: a fifth to twofold, either way."""
    factor = float(np.exp(rng.choice([-1, 1]) * rng.uniform(np.log(1.2), np.log(2.0))))

    def times(*keys: str) -> Values:
        return {key: float(gpu.number(key)) * factor for key in keys}

    if cause == "sms":
        return {"gpu.sms": max(2, round(gpu.integer("gpu.sms") * factor))}
    if cause == "clock":
        return times("clock.sm_hz")
    if cause == "dram":
        rated, sustained = "dram.bandwidth_bytes_per_s", "dram.sustained_bandwidth_bytes_per_s"
        room = 0.6 * float(gpu.number("l2.bandwidth_bytes_per_s")) / float(gpu.number(rated))
        factor = min(factor, room)
        return times(rated, sustained)
    if cause == "l2":
        factor = max(factor, 2 / 3)  # above what DRAM may come to
        return times("l2.bandwidth_bytes_per_s")
    if cause == "shared":
        factor = max(factor, 1 / factor)
        return times("shared.interval_cycles_per_pass")
    if cause == "launch_overhead":
        return times("launch.overhead_s")
    registers = gpu.integer("sm.registers")
    return {"sm.registers": registers // 2 if factor < 1 else registers * 2}


def _told(gpu: Gpu, rng: Generator) -> Gpu:
    """The description as somebody has it who does not know the constants exactly."""
    values: dict[str, int | float | str] = {}
    for key in _KNOWN_OFF:
        if gpu.has(key) and key != _SUSTAINED:
            values[key] = max(
                float(gpu.number(key)) * float(np.exp(OFF * rng.standard_normal())), _least(key)
            )
    share = float(gpu.number(_SUSTAINED)) / float(gpu.number(_RATED))
    values[_SUSTAINED] = float(values[_RATED]) * share
    values["l2.bandwidth_bytes_per_s"] = max(float(values["l2.bandwidth_bytes_per_s"]), float(values[_RATED]))
    return gpu.with_values(values, "told")


_RATED: Final = "dram.bandwidth_bytes_per_s"
_SUSTAINED: Final = "dram.sustained_bandwidth_bytes_per_s"


def _least(key: str) -> float:
    return 1.0 if key.endswith("_cycles") or key.endswith("per_pass") else 0.0
