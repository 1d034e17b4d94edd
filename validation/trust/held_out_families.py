"""Families of kernels that judge estimates and intervals, and that nothing is fitted to; see `families`."""

from __future__ import annotations

from dataclasses import replace

from numpy.random import Generator

from smlab.sim.machine import Machine
from smlab.sim.patterns import Grouped, Strided
from smlab.sim.workload import Instruction, Kernel, Loop
from smlab.validation.trust.building import (
    Atomics,
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


def two_paces(rng: Generator, machine: Machine) -> Kernel:
    """Two kinds of warps that think 3 to 30 times as long as each other, so that thinking varies more than
    exponentially."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng)
    think = think_cycles(rng, machine, shape, atomics)
    ratio = log_uniform(rng, 3, 30)
    times = iterations(rng, shape, 1)
    slow_share = rng.uniform(0.1, 0.9)

    def body(mean: float, count: float) -> Body:
        thought = gap(rng, mean, str(rng.choice(["exponential", "shifted"])), "think", ("result",))
        return (Loop(max(1, round(count)), (*thought, atomics.instruction("result", ("think",)))),)

    programs = [body(think, times), body(think * ratio, times / ratio)]
    roles = [int(rng.random() < slow_share) for _ in range(shape.warps)]
    return kernel_of("two-paces", shape, programs, roles)


def hash_insert(rng: Generator, machine: Machine) -> Kernel:
    """Load a key, compare and swap, and for some warps a second try, each after a look at the slot."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-cas")
    tries = int(rng.integers(1, 4))
    think = think_cycles(rng, machine, shape, atomics, tries)
    body: list[Instruction | Loop] = [
        gather(rng, "key", (f"swap{tries - 1}",)),
        *arithmetic(rng, round(min(max(1.0, (think - 300) / 6), 1500)), "hash", ("key",)),
    ]
    last = "hash"
    for i in range(tries):
        body.append(Instruction("shared-load", name=f"slot{i}", after=(last,)))
        body.append(atomics.instruction(f"swap{i}", (f"slot{i}",)))
        last = f"swap{i}"
    return kernel_of("hash-insert", shape, [(Loop(iterations(rng, shape, tries), tuple(body)),)])


def digit_count(rng: Generator, machine: Machine) -> Kernel:
    """Tiles of a radix sort: load some keys, rank each with an atomic, barrier, scan, barrier, store."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-add", random=True)
    keys = int(rng.integers(1, 9))
    warps = shape.warps * shape.blocks
    think = think_cycles(rng, machine, shape, atomics, keys)
    body: list[Instruction | Loop] = [stream(warps, f"key{i}", ("place",)) for i in range(keys)]
    for i in range(keys):
        body += arithmetic(rng, int(rng.integers(2, 12)), f"digit{i}", (f"key{i}",))
        body.append(atomics.instruction(f"rank{i}", (f"digit{i}",)))
    body += [
        Instruction("int32", name="ranked", after=tuple(f"rank{i}" for i in range(keys))),
        BARRIER,
        Instruction("shared-load", name="scan", after=("ranked",)),
        *arithmetic(rng, round(min(max(4.0, (think - 500) / 6), 1500)), "place", ("scan",)),
        BARRIER,
        stream(warps, "", ("place",), store=True),
    ]
    return kernel_of("digit-count", shape, [(Loop(iterations(rng, shape, keys), tuple(body)),)])


def compaction(rng: Generator, machine: Machine) -> Kernel:
    """Load, test, one lane takes the warp's places with an atomic, all store: aggregated in the warp."""
    shape, atomics = draw_shape(rng, machine), Atomics("atomic-add", 1, Grouped(1), 1.0)
    warps = shape.warps * shape.blocks
    tests = int(rng.integers(1, 40))
    body: Body = (
        stream(warps, "x", ("place",)),
        *arithmetic(rng, tests, "kept", ("x",)),
        atomics.instruction("place", ("kept",)),
        stream(warps, "", ("place",), store=True),
    )
    return kernel_of("compaction", shape, [(Loop(iterations(rng, shape, 1), body),)])


def gridding(rng: Generator, machine: Machine) -> Kernel:
    """A long calculation, then the result is spread over 2 to 8 cells, with no result used."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-add")
    cells = int(rng.integers(2, 9))
    think = think_cycles(rng, machine, shape, atomics, cells)
    body: Body = (
        gather(rng, "particle", ("weight",), lanes=4),
        *arithmetic(rng, round(min(max(4.0, (think - 300) / 7), 2500)), "weight", ("particle",)),
        *(atomics.instruction(f"cell{i}", ("weight",), returns=False) for i in range(cells)),
    )
    return kernel_of("gridding", shape, [(Loop(iterations(rng, shape, cells), body),)])


def graph(rng: Generator, machine: Machine) -> Kernel:
    """A chain of two gathers, then an atomic whose result is used; some warps have several times the edges
    of others."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-add")
    skew = log_uniform(rng, 1, 6)
    times = iterations(rng, shape, 1)
    extra = int(rng.integers(0, 30))

    def body(count: float) -> Body:
        inner: Body = (
            gather(rng, "edge", ("old",)),
            *arithmetic(rng, 2, "index", ("edge",)),
            gather(rng, "weight", ("index",)),
            *arithmetic(rng, 1 + extra, "distance", ("weight",)),
            atomics.instruction("old", ("distance",)),
        )
        return (Loop(max(1, round(count)), inner),)

    roles = [int(rng.random() < 0.3) for _ in range(shape.warps)]
    return kernel_of("graph", shape, [body(times), body(times * skew)], roles)


def reduction(rng: Generator, machine: Machine) -> Kernel:
    """Each warp calculates for long and adds up 1 to 4 results at its end; blocks come and go in waves."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-add")
    results = int(rng.integers(1, 5))
    blocks = max(shape.blocks, round(shape.blocks * iterations(rng, shape, results)))
    shape = type(shape)(shape.warps, min(blocks, 600), shape.resident, shape.shared_bytes)
    think = think_cycles(rng, machine, shape, atomics, results)
    loads = int(rng.integers(1, 5))
    body: Body = (
        *(stream(shape.warps * shape.blocks, f"x{i}") for i in range(loads)),
        *arithmetic(rng, round(min(max(2.0, think / 6), 1500)), "sum", tuple(f"x{i}" for i in range(loads))),
        *(atomics.instruction(f"total{i}", ("sum",), returns=False) for i in range(results)),
    )
    return kernel_of("reduction", shape, [body])


def bursts_apart(rng: Generator, machine: Machine) -> Kernel:
    """Producers fill a buffer between two barriers, with the result used; consumers think; blocks are out
    of step."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng)
    burst = int(rng.integers(1, 6))
    think = think_cycles(rng, machine, shape, atomics, burst)

    def body(atomic: bool) -> Body:
        work: list[Instruction | Loop] = [gather(rng, "x", ("y",), lanes=1)]
        work += gap(rng, think * rng.uniform(0.5, 1), "shifted", "y", ("x",))
        work += [Instruction("int32", name="ready", after=("y",)), BARRIER]
        if atomic:
            for i in range(burst):
                work.append(atomics.instruction(f"put{i}", (f"put{i - 1}",) if i else ()))
            work.append(Instruction("int32", name="put", after=(f"put{burst - 1}",)))
        work.append(BARRIER)
        return (Loop(iterations(rng, shape, burst), tuple(work)),)

    share = rng.uniform(0.3, 1)
    producer = body(True)
    times = producer[0].count  # type: ignore[union-attr]
    consumer: Body = (Loop(times, body(False)[0].body),)  # type: ignore[union-attr]
    roles = [int(rng.random() > share) for _ in range(shape.warps)]
    roles[0] = 0
    return kernel_of("bursts-apart", shape, [producer, consumer], roles)


def uneven_tail(rng: Generator, machine: Machine) -> Kernel:
    """2 to 4 SMs and a number of blocks that they do not share evenly, so that some are idle at the end;
    gathers between."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng)
    think = think_cycles(rng, machine, shape, atomics)
    sms = int(rng.integers(2, 5))
    body: Body = (
        gather(rng, "x", ("result",), lanes=4),
        *gap(rng, think, "shifted", "think", ("x",)),
        atomics.instruction("result", ("think",)),
    )
    kernel = kernel_of("uneven-tail", shape, [(Loop(iterations(rng, shape, 1), body),)])
    most = shape.blocks * sms
    return replace(kernel, blocks=int(rng.integers(max(sms, most // 2), most + 1)), sms=sms)


def lockstep_arithmetic(rng: Generator, machine: Machine) -> Kernel:
    """Arithmetic of fixed times and atomics that all take the same passes: nothing breaks the step but the
    schedulers."""
    shape, atomics = draw_shape(rng, machine, waves=False), draw_atomics(rng, random=False)
    think = think_cycles(rng, machine, shape, atomics)
    body: Body = (
        *arithmetic(rng, round(min(max(1.0, think / 6), 2000)), "y", ("result",)),
        atomics.instruction("result", ("y",)),
    )
    return kernel_of("lockstep-arithmetic", shape, [(Loop(iterations(rng, shape, 1), body),)])


# The last four were written when map, thresholds and estimators were final, and have been looked at only
# afterwards.


def tally(rng: Generator, machine: Machine) -> Kernel:
    """Monte Carlo: a walk of random length, then one count with no result used."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-add")
    think = think_cycles(rng, machine, shape, atomics)
    spread = str(rng.choice(["exponential", "erlang", "shifted"]))
    body: Body = (
        *gap(rng, think, spread, "walk", ("walk",)),
        atomics.instruction("count", ("walk",), returns=False),
    )
    return kernel_of("tally", shape, [(Loop(iterations(rng, shape, 1), body),)])


def clustering(rng: Generator, machine: Machine) -> Kernel:
    """k-means: load a point, find its centre, and add its 2 to 12 coordinates to it one by one, with some
    arithmetic between."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-add", random=True)
    coordinates = int(rng.integers(2, 13))
    think = think_cycles(rng, machine, shape, atomics, coordinates)
    body: list[Instruction | Loop] = [stream(shape.warps * shape.blocks, "point", ("centre",))]
    body += arithmetic(rng, round(min(max(4.0, (think - 400) / 6), 2000)), "centre", ("point",))
    last = "centre"
    for i in range(coordinates):
        body += arithmetic(rng, int(rng.integers(1, 6)), f"x{i}", (last,))
        body.append(atomics.instruction(f"sum{i}", (f"x{i}",), returns=False))
        last = f"x{i}"
    return kernel_of("clustering", shape, [(Loop(iterations(rng, shape, coordinates), tuple(body)),)])


def frontier(rng: Generator, machine: Machine) -> Kernel:
    """Breadth-first search: gathers, a push to the block's queue by one lane or several, and a barrier now
    and then."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-add", random=False)
    pushes = int(rng.integers(2, 20))
    inner: Body = (
        gather(rng, "edge", ("place",)),
        *arithmetic(rng, int(rng.integers(1, 30)), "seen", ("edge",)),
        atomics.instruction("place", ("seen",)),
        Instruction("shared-store", after=("place",)),
    )
    rounds = iterations(rng, shape, pushes)
    return kernel_of("frontier", shape, [(Loop(rounds, (Loop(pushes, inner), BARRIER)),)])


def segments(rng: Generator, machine: Machine) -> Kernel:
    """Work in shared memory only: loads and stores with bank conflicts, and an atomic whose result is
    used."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng)
    think = think_cycles(rng, machine, shape, atomics)
    accesses = max(1, round(min(think / 35, 400)))
    conflict = Strided(int(rng.choice([1, 2, 3, 4])))
    body: Body = (
        Loop(
            accesses,
            (
                Instruction("shared-load", name="x", after=("y", "result"), shared=conflict),
                Instruction("fp32", name="y", after=("x",)),
                Instruction("shared-store", after=("y",), shared=conflict),
            ),
        ),
        atomics.instruction("result", ("y",)),
    )
    return kernel_of("segments", shape, [(Loop(iterations(rng, shape, 1), body),)])
