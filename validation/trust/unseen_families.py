"""Families that judge, written when features, trees and limits of the first counter maps were final; see
`families`."""

from __future__ import annotations

from numpy.random import Generator

from smlab.sim.machine import Machine
from smlab.sim.patterns import RandomWords, Strided
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
    stream,
    think_cycles,
)

BARRIER = Instruction("barrier")


def union_find(rng: Generator, machine: Machine) -> Kernel:
    """Chase parents through shared memory, one dependent load after the other, then hook with a
    compare-and-swap whose result is used."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-cas")
    hops = int(rng.integers(1, 12))
    words = RandomWords(int(2 ** rng.integers(4, 10)))
    body: list[Instruction | Loop] = [gather(rng, "edge", ("hooked",))]
    last = "edge"
    for i in range(hops):
        body.append(Instruction("shared-load", name=f"parent{i}", after=(last,), shared=words))
        body += arithmetic(rng, int(rng.integers(1, 5)), f"root{i}", (f"parent{i}",))
        last = f"root{i}"
    body.append(atomics.instruction("hooked", (last,)))
    return kernel_of("union-find", shape, [(Loop(iterations(rng, shape, 1), tuple(body)),)])


def sparse_rows(rng: Generator, machine: Machine) -> Kernel:
    """Sparse matrix by vector: stream values, gather the vector, multiply, add to a row's sum in shared
    memory without the result; after each tile a barrier and a store."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-add")
    terms = int(rng.integers(2, 16))
    inner: Body = (
        stream(shape.warps * shape.blocks, "value"),
        gather(rng, "x"),
        Instruction("fp32", name="product", after=("value", "x")),
        *arithmetic(rng, int(rng.integers(1, 20)), "row", ("product",)),
        atomics.instruction("sum", ("row",), returns=False),
    )
    body: Body = (
        Loop(terms, inner),
        BARRIER,
        Instruction("shared-load", name="total"),
        stream(shape.warps * shape.blocks, "", ("total",), store=True),
    )
    return kernel_of("sparse-rows", shape, [(Loop(iterations(rng, shape, terms), body),)])


def reservoir(rng: Generator, machine: Machine) -> Kernel:
    """Draw random numbers for a time that varies, take a place, and write the sample to shared memory with
    conflicts; a barrier now and then."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng)
    draws = int(rng.integers(1, 25))
    think = think_cycles(rng, machine, shape, atomics)
    spread = str(rng.choice(["exponential", "erlang", "shifted"]))
    inner: Body = (
        *gap(rng, think, spread, "drawn", ("place",)),
        atomics.instruction("place", ("drawn",)),
        Instruction("shared-store", after=("place",), shared=Strided(int(rng.choice([1, 2, 5, 8])))),
    )
    return kernel_of(
        "reservoir", shape, [(Loop(iterations(rng, shape, draws), (Loop(draws, inner), BARRIER)),)]
    )


def text_counts(rng: Generator, machine: Machine) -> Kernel:
    """Read a word of text, take its four bytes apart and count each, without the results; long hashes in
    between for some warps."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-add", random=True)
    think = think_cycles(rng, machine, shape, atomics, 4)
    times = iterations(rng, shape, 4)

    def body(hashes: float) -> Body:
        work: list[Instruction | Loop] = [stream(shape.warps * shape.blocks, "text", ("hash",))]
        for i in range(4):
            work += arithmetic(rng, int(rng.integers(1, 4)), f"byte{i}", ("text",))
            work.append(atomics.instruction(f"count{i}", (f"byte{i}",), returns=False))
        work += arithmetic(rng, round(min(max(1.0, hashes), 1500)), "hash", ("text",))
        return (Loop(times, tuple(work)),)

    roles = [int(rng.random() < 0.4) for _ in range(shape.warps)]
    return kernel_of("text-counts", shape, [body(think / 12), body(think / 4)], roles)
