"""Families that fit and differ in nothing but when a warp's atomics come: by themselves, several in a row, or
after a barrier that lets a whole block go. Shapes, loads and lanes are drawn alike, so that what a map learns
from these is the difference; and the same of few warps, where it matters most who comes with whom (one warp's
atomics go through one sub-core, those of several warps through all); see `families`."""

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
    return _by_themselves("by-themselves", rng, machine, *_drawn(rng, machine))


def in_a_row(rng: Generator, machine: Machine) -> Kernel:
    """Several atomics in a row after each time of thinking, no result used."""
    return _in_a_row("in-a-row", rng, machine, *_drawn(rng, machine))


def let_go(rng: Generator, machine: Machine) -> Kernel:
    """All warps of a block think, meet at a barrier, and do one atomic, its result used or not."""
    return _let_go("let-go", rng, machine, *_drawn(rng, machine))


def few_by_themselves(rng: Generator, machine: Machine) -> Kernel:
    """`by_themselves` of few warps."""
    return _by_themselves("few-by-themselves", rng, machine, *_few(rng, machine))


def few_in_a_row(rng: Generator, machine: Machine) -> Kernel:
    """`in_a_row` of few warps, all results used at the end in one of three."""
    shape, atomics = _few(rng, machine)
    return _in_a_row("few-in-a-row", rng, machine, shape, atomics, returns=bool(rng.random() < 1 / 3))


def few_let_go(rng: Generator, machine: Machine) -> Kernel:
    """`let_go` of few warps."""
    return _let_go("few-let-go", rng, machine, *_few(rng, machine))


def _by_themselves(
    name: str, rng: Generator, machine: Machine, shape: LaunchShape, atomics: Atomics
) -> Kernel:
    think = think_cycles(rng, machine, shape, atomics)
    spread = str(rng.choice(SPREADS[:3]))
    body = (*gap(rng, think, spread, "think", ("result",)), atomics.instruction("result", ("think",)))
    return _kernel(name, rng, shape, body, 1)


def _in_a_row(
    name: str,
    rng: Generator,
    machine: Machine,
    shape: LaunchShape,
    atomics: Atomics,
    returns: bool = False,
) -> Kernel:
    several = int(rng.integers(2, 9))
    think = think_cycles(rng, machine, shape, atomics, several)
    spread = str(rng.choice(SPREADS[:3]))
    names = [f"count{i}" for i in range(several)]
    after = tuple(names) if returns else ("think",)
    counts = (atomics.instruction(n, ("think",), returns) for n in names)
    return _kernel(name, rng, shape, (*gap(rng, think, spread, "think", after), *counts), several)


def _let_go(name: str, rng: Generator, machine: Machine, shape: LaunchShape, atomics: Atomics) -> Kernel:
    think = think_cycles(rng, machine, shape, atomics)
    returns = bool(rng.random() < 0.7)
    after = ("result",) if returns else ("think",)
    body = (
        *gap(rng, think, str(rng.choice(SPREADS)), "think", after),
        Instruction("barrier", after=("think",)),
        atomics.instruction("result", ("think",), returns),
    )
    return _kernel(name, rng, shape, body, 1)


def _drawn(rng: Generator, machine: Machine) -> tuple[LaunchShape, Atomics]:
    """One block on the SM, or as many as any kernel has; lanes on a word."""
    atomics = draw_atomics(rng, random=False)
    if rng.random() < 0.5:
        return draw_shape(rng, machine), atomics
    warps = int(log_uniform(rng, 2, 32.99))
    return LaunchShape(warps, 1, 1, machine.shared_bytes_per_block), atomics


def _few(rng: Generator, machine: Machine) -> tuple[LaunchShape, Atomics]:
    """One block of 2 to 12 warps on the SM, or up to four of fewer; lanes on a word."""
    atomics = draw_atomics(rng, random=False)
    blocks = 1 if rng.random() < 0.7 else int(rng.integers(2, 5))
    warps = int(log_uniform(rng, 2, 12.99 / blocks**0.5))
    room = machine.shared_bytes // blocks - machine.shared_reserved_bytes_per_block
    unit = machine.shared_unit_bytes
    shared = min(room // unit * unit, machine.shared_bytes_per_block)
    return LaunchShape(warps, blocks, blocks, shared), atomics


def _kernel(name: str, rng: Generator, shape: LaunchShape, body: Body, jobs_each: int) -> Kernel:
    """Warps stay to the end of their block, which a last barrier marks."""
    return kernel_of(name, shape, [(Loop(iterations(rng, shape, jobs_each), body), BARRIER)])
