"""Families that fit the intervals, whose atomics share the memory path with other requests; see `families`.

Written after the intervals of the others had held too seldom where atomics wait behind loads: what a kernel
does beside its atomics in shared and global memory, how scattered, and by which warps, is spread out here.
"""

from __future__ import annotations

from numpy.random import Generator

from smlab.sim.machine import Machine
from smlab.sim.patterns import Strided
from smlab.sim.workload import Instruction, Kernel, Loop
from smlab.validation.trust.building import (
    Body,
    arithmetic,
    draw_atomics,
    draw_shape,
    gap,
    gather,
    iterations,
    kernel_of,
    log_uniform,
    stream,
    think_cycles,
)

BARRIER = Instruction("barrier")


def _conflict(rng: Generator) -> Strided:
    """A stride for which 1 to 16 lanes of a shared access meet on a bank."""
    return Strided(int(rng.choice([1, 1, 2, 3, 4, 8, 16])))


def neighbourhood(rng: Generator, machine: Machine) -> Kernel:
    """Stencil: a tile is stored, and after a barrier each warp loads several neighbours at once, then counts
    into the atomics, with or without the result."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng)
    points, returns = int(rng.integers(2, 10)), bool(rng.random() < 0.5)
    conflict = _conflict(rng)
    think = think_cycles(rng, machine, shape, atomics)
    after = ("count",) if returns else ("value",)
    body: Body = (
        Instruction("shared-store", after=after, shared=_conflict(rng)),
        BARRIER,
        *(Instruction("shared-load", name=f"p{i}", after=after, shared=conflict) for i in range(points)),
        *arithmetic(
            rng, round(min(max(1.0, think / 8), 1200)), "value", tuple(f"p{i}" for i in range(points))
        ),
        atomics.instruction("count", ("value",), returns=returns),
    )
    return kernel_of("neighbourhood", shape, [(Loop(iterations(rng, shape, 1), body),)])


def lookups(rng: Generator, machine: Machine) -> Kernel:
    """Several independent gathers in flight at once, and one to three atomics on what they bring."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng)
    loads, counts = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    returns = bool(rng.random() < 0.5)
    last = tuple(f"count{i}" for i in range(counts)) if returns else ("value",)
    body: Body = (
        *(gather(rng, f"x{i}", last) for i in range(loads)),
        *arithmetic(rng, int(log_uniform(rng, 1, 60)), "value", tuple(f"x{i}" for i in range(loads))),
        *(atomics.instruction(f"count{i}", ("value",), returns=returns) for i in range(counts)),
    )
    return kernel_of("lookups", shape, [(Loop(iterations(rng, shape, counts), body),)])


def scattering(rng: Generator, machine: Machine) -> Kernel:
    """Take a place with an atomic, then store scattered words of global memory there, behind which the next
    atomics queue."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng)
    stores = int(rng.integers(1, 5))
    think = think_cycles(rng, machine, shape, atomics)
    spread = str(rng.choice(["exponential", "erlang", "shifted"]))
    body: Body = (
        stream(shape.warps * shape.blocks, "x", ("place",)),
        *gap(rng, min(think, 4000.0), spread, "thought", ("x",)),
        atomics.instruction("place", ("thought",)),
        *(
            Instruction(
                "global-store",
                after=("place",),
                lanes=int(rng.choice([1, 4, 32])),
                memory=gather(rng, "y").memory,
            )
            for _ in range(stores)
        ),
    )
    return kernel_of("scattering", shape, [(Loop(iterations(rng, shape, 1), body),)])


def specialised(rng: Generator, machine: Machine) -> Kernel:
    """Some warps work in shared memory only, with conflicts, the others only think and count."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng)
    think = think_cycles(rng, machine, shape, atomics)
    times, conflict = iterations(rng, shape, 1), _conflict(rng)
    pause, returns = log_uniform(rng, 1, 200), bool(rng.random() < 0.6)
    spread = str(rng.choice(["exponential", "erlang"]))
    counting: Body = (
        *gap(rng, think, spread, "thought", ("count" if returns else "thought",)),
        atomics.instruction("count", ("thought",), returns=returns),
    )
    loading: Body = (
        *gap(rng, pause, "exponential", "paused", ("x",)),
        Instruction("shared-load", name="x", after=("paused",), shared=conflict),
    )
    spent = times * (think + 60) / (pause + 40)
    roles = [int(rng.random() < rng.uniform(0.2, 0.8)) for _ in range(shape.warps)]
    roles[0] = 0
    return kernel_of(
        "specialised",
        shape,
        [(Loop(times, counting),), (Loop(max(1, min(round(spent), 40_000 // shape.warps)), loading),)],
        roles,
    )


def staging(rng: Generator, machine: Machine) -> Kernel:
    """Tiles: load from global memory, store to shared memory, barrier, read it back with conflicts, and count
    several times without the result."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng)
    items = int(rng.integers(1, 5))
    read, written = _conflict(rng), _conflict(rng)
    think = think_cycles(rng, machine, shape, atomics, items)
    body: list[Instruction | Loop] = []
    for i in range(items):
        body.append(stream(shape.warps * shape.blocks, f"x{i}", ("value",)))
        body.append(Instruction("shared-store", after=(f"x{i}",), shared=written))
    body.append(BARRIER)
    for i in range(items):
        body.append(Instruction("shared-load", name=f"y{i}", shared=read))
        body += arithmetic(rng, int(rng.integers(1, 8)), f"z{i}", (f"y{i}",))
        body.append(atomics.instruction(f"count{i}", (f"z{i}",), returns=False))
    body += arithmetic(rng, round(min(max(1.0, (think - 500) / 6), 1200)), "value", (f"z{items - 1}",))
    body.append(BARRIER)
    return kernel_of("staging", shape, [(Loop(iterations(rng, shape, items), tuple(body)),)])
