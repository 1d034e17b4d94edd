"""Families that fit and differ in nothing but when a warp's atomics come: by themselves, several in a row, or
after a barrier that lets a whole block go. Shapes, loads and lanes are drawn alike, so that what a map learns
from these is the difference; see `families`."""

from __future__ import annotations

from numpy.random import Generator

from smlab.sim.machine import Machine
from smlab.sim.workload import Instruction, Kernel, Loop
from smlab.validation.trust.building import (
    Atomics,
    Body,
    LaunchShape,
    draw_atomics,
    draw_shape,
    gap,
    iterations,
    kernel_of,
    log_uniform,
    think_cycles,
)

SPREADS = ("exponential", "erlang", "shifted", "fixed")
"""How far a warp's times between its atomics vary, from most to not at all."""

BARRIER = Instruction("barrier")


def by_themselves(rng: Generator, machine: Machine) -> Kernel:
    """One atomic after each time of thinking, its result used."""
    shape, atomics = _drawn(rng, machine)
    think = think_cycles(rng, machine, shape, atomics)
    spread = str(rng.choice(SPREADS[:3]))
    body = (*gap(rng, think, spread, "think", ("result",)), atomics.instruction("result", ("think",)))
    return _kernel("by-themselves", rng, shape, body, 1)


def in_a_row(rng: Generator, machine: Machine) -> Kernel:
    """Several atomics in a row after each time of thinking, no result used."""
    shape, atomics = _drawn(rng, machine)
    several = int(rng.integers(2, 9))
    think = think_cycles(rng, machine, shape, atomics, several)
    spread = str(rng.choice(SPREADS[:3]))
    counts = (atomics.instruction(f"count{i}", ("think",), returns=False) for i in range(several))
    return _kernel("in-a-row", rng, shape, (*gap(rng, think, spread, "think", ("think",)), *counts), several)


def let_go(rng: Generator, machine: Machine) -> Kernel:
    """All warps of a block think, meet at a barrier, and do one atomic, its result used or not."""
    shape, atomics = _drawn(rng, machine)
    think = think_cycles(rng, machine, shape, atomics)
    returns = bool(rng.random() < 0.7)
    after = ("result",) if returns else ("think",)
    body = (
        *gap(rng, think, str(rng.choice(SPREADS)), "think", after),
        Instruction("barrier", after=("think",)),
        atomics.instruction("result", ("think",), returns),
    )
    return _kernel("let-go", rng, shape, body, 1)


def _drawn(rng: Generator, machine: Machine) -> tuple[LaunchShape, Atomics]:
    """One block on the SM, or as many as any kernel has; lanes on a word."""
    atomics = draw_atomics(rng, random=False)
    if rng.random() < 0.5:
        return draw_shape(rng, machine), atomics
    warps = int(log_uniform(rng, 2, 32.99))
    return LaunchShape(warps, 1, 1, machine.shared_bytes_per_block), atomics


def _kernel(name: str, rng: Generator, shape: LaunchShape, body: Body, jobs_each: int) -> Kernel:
    """Warps stay to the end of their block, which a last barrier marks."""
    return kernel_of(name, shape, [(Loop(iterations(rng, shape, jobs_each), body), BARRIER)])
