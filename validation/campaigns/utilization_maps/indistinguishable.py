"""Kernels that no launch or atomic counter tells apart and whose atomic units are busy for different shares
of the time.

Three kernels with equal warps, atomics, jobs and (by the choice of the think time) elapsed cycles; all that
differs is when the atomics come. Whatever an estimator makes of these counters, it gives all three the same
answer, so its mean error over them is at least that of their median: a bound for every estimator that works
from launch and atomic counters, known or unknown. Warp states and samples at the atomics do differ
(`ordered_correctly_percent`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim import compiled
from smlab.sim.address_patterns import Grouped
from smlab.sim.lowering import lower
from smlab.sim.machine import Machine, machine_from
from smlab.sim.reference import Record
from smlab.sim.result import SimResult
from smlab.sim.workloads.workload import Duration, Instruction, Kernel, Loop, Program
from smlab.validation.campaigns.utilization_maps.building import Body, log_uniform
from smlab.validation.campaigns.utilization_maps.simulate import CampaignTable, as_sampled, observe, seen_code

Floats = NDArray[np.float64]
Run = tuple[Kernel, SimResult]

JOBS = 6000
"""Atomics of one kernel, about: long, so that its start and end hardly count."""
BURST = 4
SAME = 0.01
"""Elapsed cycles of kernels with equal counters agree to this share, or the triple is left out and
counted."""
MAX_STEPS = 24
MAX_CYCLES = 100_000_000

APART, BURSTS, TOGETHER = "apart", "in bursts", "together"
KINDS = (APART, BURSTS, TOGETHER)
"""Each by itself after an exponential time; four in a row with no result used; and all warps after a
barrier and a fixed time."""

MIN_DIFFERENCE_POINTS = 3.0
"""Points of utilization from which on two kernels differ so much that an estimate should tell them apart."""


@dataclass(frozen=True, eq=False)
class IndistinguishableKernels:
    """Triples of kernels: ``table`` has one row a kernel, of `KINDS` in turn (its family); ``left_out``
    triples had no match."""

    table: CampaignTable
    left_out: int

    def truth(self) -> Floats:
        """Exact utilization over the elapsed cycles, ``(triples, kinds)``."""
        return self.table.utilization.reshape(-1, len(KINDS))


def least_error_points(truth: Floats) -> Floats:
    """The least mean absolute error of one answer for the kernels of each row, in points; ``truth (triples,
    kinds)``."""
    found: Floats = 100 * np.abs(truth - np.median(truth, axis=1, keepdims=True)).mean(axis=1)
    return found


def ordered_correctly_percent(truth: Floats, estimated: Floats) -> float:
    """Of the pairs of kernels with equal counters that differ by `MIN_DIFFERENCE_POINTS` or more, the
    percentage of which the estimate says the right one is busier; both ``(triples, kinds)``, shares of the
    time."""
    right: list[NDArray[np.bool_]] = []
    for one, other in combinations(range(truth.shape[1]), 2):
        difference = truth[:, one] - truth[:, other]
        chosen = 100 * np.abs(difference) >= MIN_DIFFERENCE_POINTS
        guessed = (estimated[:, one] - estimated[:, other])[chosen]
        right.append(np.sign(guessed) == np.sign(difference[chosen]))
    told = np.concatenate(right)
    return float(100 * told.mean()) if len(told) else np.nan


def draw_indistinguishable(gpu: Gpu, count: int, seed: int) -> IndistinguishableKernels:
    """Draw ``count`` triples; equal arguments give equal triples."""
    machine = machine_from(gpu)
    rows, left_out = [], 0
    for number, stream in enumerate(SeedSequence(seed).spawn(count)):
        results = _triple(default_rng(stream), machine, number)
        if results is None:
            left_out += 1
            continue
        for kind, (kernel, result) in zip(KINDS, results, strict=True):
            seen = as_sampled(result, gpu.integer("gpu.sms"), number)
            rows += observe(result, kind, number, seen=seen_code(kernel, seen))
    return IndistinguishableKernels(CampaignTable.of_rows(rows), left_out)


def _triple(rng: Generator, machine: Machine, seed: int) -> list[Run] | None:
    """The three kernels with their results, or None where two of them cannot be given the same time."""
    warps = 4 * int(log_uniform(rng, 1, 8.99))
    lanes = int(rng.integers(1, 33))
    passes = machine.atomic("add")
    interval = (passes.base_ticks + lanes * passes.pass_ticks) / 2**20
    load = rng.uniform(0.1, 0.8)
    think = max(4.0, warps * interval / load - interval - passes.latency_cycles)
    wanted = _run(machine, APART, warps, lanes, seed, think)
    found = [wanted]
    for kind in (BURSTS, TOGETHER):
        match = _with_time(wanted[1].cycles, think, partial(_run, machine, kind, warps, lanes, seed))
        if match is None:
            return None
        found.append(match)
    return found


def _with_time(wanted: int, start: float, run: Callable[[float], Run]) -> Run | None:
    """The kernel of the think time, searched by bisection, that takes the ``wanted`` cycles."""
    low, high = 1.0, 2.0 * start + 100
    while (longest := run(high))[1].cycles < wanted:
        low, high = high, 2 * high
    result = longest
    for _ in range(MAX_STEPS):
        if abs(result[1].cycles / wanted - 1) <= SAME / 4:
            break
        middle = (low + high) / 2
        result = run(middle)
        low, high = (middle, high) if result[1].cycles < wanted else (low, middle)
    return result if abs(result[1].cycles / wanted - 1) <= SAME else None


def _run(machine: Machine, kind: str, warps: int, lanes: int, seed: int, think: float) -> Run:
    kernel = _kernel(kind, warps, lanes, think)
    lowered = replace(lower(kernel, machine, seed), by_instruction=True)
    return kernel, compiled.run(lowered, Record.TOTALS, MAX_CYCLES, threads=1)


def _kernel(kind: str, warps: int, lanes: int, think: float) -> Kernel:
    """One block of ``warps`` warps; ``think`` cycles for each atomic. A barrier keeps all warps resident
    to the end."""
    rounds = BURST * max(1, round(JOBS / (BURST * warps)))

    def thought(mean: float, distribution: str, after: str) -> Instruction:
        return Instruction(
            "think", name="thought", after=(after,), duration=Duration(max(1.0, mean), distribution)
        )

    def atomic(name: str, returns: bool) -> Instruction:
        return Instruction(
            "atomic-add",
            name=name,
            after=("thought",),
            lanes=lanes,
            shared=Grouped(lanes),
            returns=returns,
        )

    body: Body
    if kind == APART:
        body = (thought(think, "exponential", "result"), atomic("result", True))
    elif kind == BURSTS:
        rounds //= BURST
        several = (atomic(f"result{i}", False) for i in range(BURST))
        body = (thought(BURST * think, "exponential", "thought"), *several)
    else:
        body = (
            thought(think, "fixed", "result"),
            Instruction("barrier", after=("thought",)),
            atomic("result", True),
        )
    return Kernel(
        kind,
        (Program(kind, (Loop(rounds, body), Instruction("barrier"))),),
        ((0,) * warps,),
        1,
        shared_bytes_per_block=128,
    )
