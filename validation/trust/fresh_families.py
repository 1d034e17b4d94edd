"""Families that judge, written after the maps that also learn from random programs were final, and looked at
once; see `families`."""

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
    log_uniform,
    stream,
    think_cycles,
)

BARRIER = Instruction("barrier")


def photon_map(rng: Generator, machine: Machine) -> Kernel:
    """Walk a tree of gathers for a while, find the lanes that ended with a vote, and let them take places in
    the block's buffer; the buffer is written out after many walks."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-add", random=False)
    depth = int(log_uniform(rng, 2, 12))
    step: Body = (
        gather(rng, "node", ("side",), lanes=int(rng.choice([4, 32]))),
        *arithmetic(rng, int(rng.integers(3, 15)), "side", ("node",)),
    )
    walk: Body = (
        Loop(depth, step),
        Instruction("vote", name="ended", after=("side",)),
        Instruction("int32", name="count", after=("ended",)),
        atomics.instruction("place", ("count",)),
        Instruction("shared-store", after=("place",), width=int(rng.choice([32, 128]))),
    )
    walks = int(rng.integers(2, 10))
    body: Body = (
        Loop(walks, walk),
        BARRIER,
        Instruction("shared-load", name="out"),
        stream(shape.warps * shape.blocks, "", ("out",), store=True),
        BARRIER,
    )
    return kernel_of("photon-map", shape, [(Loop(iterations(rng, shape, walks), body),)])


def mer_count(rng: Generator, machine: Machine) -> Kernel:
    """Count subsequences: shuffle neighbours' letters in, roll a hash, look at the slot in shared memory, and
    compare and swap until it is ours, then add without the result."""
    shape = draw_shape(rng, machine)
    insert, count = draw_atomics(rng, "atomic-cas"), draw_atomics(rng, "atomic-add", random=True)
    letters, probes = int(rng.integers(1, 9)), int(rng.integers(1, 4))
    think = think_cycles(rng, machine, shape, insert, letters * (probes + 1))
    hashing = round(min(max(2.0, think / letters / 5), 400))
    body: list[Instruction | Loop] = [stream(shape.warps * shape.blocks, "text", ("own",))]
    for i in range(letters):
        body.append(Instruction("shuffle", name=f"letter{i}", after=("text",)))
        body += (Instruction("imad", name=f"roll{i}-{k}", after=(f"letter{i}",)) for k in range(3))
        body += arithmetic(rng, hashing, f"hash{i}", (f"roll{i}-2",))
        last = f"hash{i}"
        for k in range(probes):
            words = RandomWords(256)
            body.append(Instruction("shared-load", name=f"slot{i}-{k}", after=(last,), shared=words))
            body.append(insert.instruction(f"try{i}-{k}", (f"slot{i}-{k}",)))
            last = f"try{i}-{k}"
        body.append(count.instruction(f"count{i}", (last,), returns=False))
    body.append(Instruction("int32", name="own", after=(last,)))
    times = iterations(rng, shape, letters * (probes + 1))
    return kernel_of("mer-count", shape, [(Loop(times, tuple(body)),)])


def voxel_means(rng: Generator, machine: Machine) -> Kernel:
    """Points into voxels: transform a point, then add x, y, z and one to its voxel in a row, no result used;
    some blocks' points cost several times as much, and the grid comes in waves of short blocks."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-add", random=True)
    sums = int(rng.integers(3, 6))
    think = think_cycles(rng, machine, shape, atomics, sums)
    points = int(log_uniform(rng, 1, 12))

    def work(pace: float) -> Body:
        inner: Body = (
            stream(shape.warps * shape.blocks, "point", ("moved",)),
            Instruction("constant-load", name="matrix"),
            *arithmetic(rng, round(min(max(6.0, pace / 5), 1200)), "moved", ("point", "matrix")),
            Instruction("conversion", name="voxel", after=("moved",)),
            *(atomics.instruction(f"sum{i}", ("voxel",), returns=False) for i in range(sums)),
        )
        return (Loop(points, inner), BARRIER, Instruction("shared-load", name="mean", shared=Strided(2)))

    rounds = max(1, round(iterations(rng, shape, sums) / points))
    blocks = max(shape.blocks, min(shape.blocks * rounds, 400))
    shape = type(shape)(shape.warps, blocks, shape.resident, shape.shared_bytes)
    roles = [int(rng.random() < 0.25) for _ in range(shape.warps)]
    return kernel_of("voxel-means", shape, [work(think), work(think * log_uniform(rng, 1, 5))], roles)


def event_queue(rng: Generator, machine: Machine) -> Kernel:
    """Discrete events: one warp of the block hands out batches behind a barrier, the others work on them for
    random times and push what follows with a ticket, one lane or a few, then wait for each other."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-add", random=False)
    batch = int(rng.integers(1, 6))
    think = think_cycles(rng, machine, shape, atomics, batch)
    spread = str(rng.choice(["exponential", "erlang", "shifted"]))
    event: Body = (
        Instruction("shared-load", name="event", after=("ticket",)),
        *gap(rng, think / batch, spread, "done", ("event",)),
        atomics.instruction("ticket", ("done",)),
        Instruction("shared-store", after=("ticket",), shared=Strided(int(rng.choice([1, 4])))),
    )
    pushing: Body = (Loop(batch, event), BARRIER, BARRIER)
    handing: Body = (
        Instruction("int32", name="given", after=("next",)),
        BARRIER,
        *arithmetic(rng, int(rng.integers(4, 40)), "next", ("next",)),
        Instruction("shared-store", after=("next",)),
        BARRIER,
    )
    times = iterations(rng, shape, batch)
    roles = [0] * shape.warps
    if shape.warps > 1:
        roles[-1] = 1
    return kernel_of("event-queue", shape, [(Loop(times, pushing),), (Loop(times, handing),)], roles)
