"""Families of kernels that judge estimates and intervals; nothing is fitted to them. Nobody had looked at
them when the shipped maps were made."""

from __future__ import annotations

from typing import Final

from numpy.random import Generator

from smlab.sim.address_patterns import RandomWords, Strided
from smlab.sim.machine import Machine
from smlab.sim.workloads.workload import Instruction, Kernel, Loop
from smlab.validation.campaigns.utilization_maps.building import (
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


def sort_pass(rng: Generator, machine: Machine) -> Kernel:
    """A pass of a radix sort: count a tile's digits without results, let one warp sum them up behind a
    barrier, then give every key its place with a result that its store needs."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-add")
    keys = int(log_uniform(rng, 1, 10))
    digit = int(rng.integers(2, 12))

    def tile(sums: int) -> Body:
        counting: Body = (
            stream(shape.warps * shape.blocks, "key"),
            *arithmetic(rng, digit, "digit", ("key",)),
            atomics.instruction("count", ("digit",), returns=False),
        )
        scan = (
            Instruction("shared-load", name="counts"),
            *(
                Instruction("shuffle", name=f"sum{i}", after=(f"sum{i - 1}" if i else "counts",))
                for i in range(sums)
            ),
        )
        placing: Body = (
            *arithmetic(rng, digit, "again"),
            atomics.instruction("place", ("again",)),
            stream(shape.warps * shape.blocks, "", ("place",), store=True),
        )
        return (Loop(keys, counting), BARRIER, *(scan if sums else ()), BARRIER, Loop(keys, placing), BARRIER)

    times = iterations(rng, shape, 2 * keys)
    roles = [int(warp == 0) for warp in range(shape.warps)]
    bodies = [(Loop(times, tile(sums)),) for sums in (0, int(rng.integers(5, 11)))]
    return kernel_of("sort-pass", shape, bodies, roles)


def float_max(rng: Generator, machine: Machine) -> Kernel:
    """A maximum of floats by compare-and-swap: read the word, compare, try, and try again a time or more;
    what is compared comes from long sums of products."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-cas")
    tries = int(rng.integers(1, 5))
    think = think_cycles(rng, machine, shape, atomics, tries)
    words = RandomWords(int(2 ** rng.integers(0, 9)))
    body: list[Instruction | Loop] = [
        gather(rng, "row", ("kept",)),
        *arithmetic(rng, round(min(max(3.0, think / 5), 1500)), "value", ("row",)),
    ]
    last = "value"
    for i in range(tries):
        name = "kept" if i == tries - 1 else f"kept{i}"
        body.append(Instruction("shared-load", name=f"old{i}", after=(last,), shared=words))
        body.append(Instruction("fp32", name=f"greater{i}", after=(f"old{i}",)))
        body.append(atomics.instruction(name, (f"greater{i}",)))
        last = name
    return kernel_of("float-max", shape, [(Loop(iterations(rng, shape, tries), tuple(body)),)])


def tile_extremes(rng: Generator, machine: Machine) -> Kernel:
    """Tiles of a product: shared loads and sums of products in step behind barriers, and at the end of each
    tile a few atomics by one lane a warp or by all, some with the result of the one before."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-add", random=False)
    steps, several = int(log_uniform(rng, 2, 30)), int(rng.integers(1, 5))
    chained = bool(rng.random() < 0.5)
    step: Body = (
        Instruction("shared-load", name="a", shared=Strided(int(rng.choice([1, 1, 2])))),
        Instruction("shared-load", name="b"),
        *(
            Instruction("fp32", name=f"sum{i}", after=("a", "b", f"sum{i}"))
            for i in range(int(rng.integers(2, 16)))
        ),
    )
    last = "sum0"
    ends: list[Instruction] = []
    for i in range(several):
        ends.append(atomics.instruction(f"end{i}", (last,), returns=chained))
        last = f"end{i}" if chained else last
    fetch = stream(shape.warps * shape.blocks, "next")
    tile: Body = (
        fetch,
        Loop(steps, step),
        *ends,
        Instruction("shared-store", after=("next", last)),
        BARRIER,
    )
    return kernel_of("tile-extremes", shape, [(Loop(iterations(rng, shape, several), tile),)])


def agents(rng: Generator, machine: Machine) -> Kernel:
    """Agents on a grid: each thinks for a random time, takes a place in the cell it goes to, leaves its own
    without the result, and looks at the neighbours; all meet after some steps, in one block more than in
    another."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-add", random=True)
    think = think_cycles(rng, machine, shape, atomics, 2)
    steps, looks = int(log_uniform(rng, 1, 40)), int(rng.integers(0, 9))
    spread = str(rng.choice(["exponential", "erlang", "shifted"]))
    move: Body = (
        *gap(rng, think, spread, "chosen", ("seen",)),
        atomics.instruction("taken", ("chosen",)),
        atomics.instruction("left", ("chosen",), returns=False),
        *(
            Instruction("shared-load", name=f"look{i}", after=("taken",), shared=RandomWords(512))
            for i in range(looks)
        ),
        Instruction("int32", name="seen", after=("taken", *(f"look{i}" for i in range(looks)))),
    )
    times = iterations(rng, shape, 2 * steps)
    return kernel_of("agents", shape, [(Loop(times, (Loop(steps, move), BARRIER)),)])


JUDGES: Final = (sort_pass, float_max, tile_extremes, agents)
