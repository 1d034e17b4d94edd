"""The case that the closed network is made for: warps that think for exponential times, independently of each
other.

The same closed systems with fixed think times stand beside it: nothing in the counters tells the two apart.
"""

from __future__ import annotations

from dataclasses import replace

from numpy.random import SeedSequence, default_rng

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim import compiled
from smlab.sim.lowering import lower
from smlab.sim.machine import machine_from
from smlab.sim.reference import Record
from smlab.sim.workload import Duration
from smlab.validation.laws.closed_system import closed_kernel
from smlab.validation.laws.closed_workloads import draw_workload
from smlab.validation.trust.building import MAX_JOBS, MIN_JOBS, log_uniform
from smlab.validation.trust.simulate import CampaignTable, observe

INDEPENDENT, LOCKSTEP = "exponential", "fixed"
"""The distributions of the think time; the `family` of a row."""

MIN_ROUNDS = 20
"""Atomics of one warp, at least: a kernel, not its first breath."""


def run_closed_systems(gpu: Gpu, distribution: str, count: int, seed: int) -> CampaignTable:
    """Simulate ``count`` closed systems (`draw_workload`), of as many atomics as the campaign's kernels."""
    rng = default_rng(SeedSequence(seed, spawn_key=(101,)))
    machine = machine_from(gpu)
    rows = []
    for number in range(count):
        w = replace(draw_workload(rng, machine.max_warps), distribution=distribution)
        rounds = max(MIN_ROUNDS, round(log_uniform(rng, MIN_JOBS, MAX_JOBS) / w.warps))
        kernel = closed_kernel(
            w.warps,
            rounds,
            Duration(w.think_cycles, distribution),
            lanes=w.lanes,
            cas_warps=w.cas_warps,
        )
        result = compiled.run(lower(kernel, machine, w.seed), Record.TOTALS, threads=1)
        rows += observe(result, distribution, number)
    return CampaignTable.of_rows(rows)
