"""Families of kernels that judge estimates and intervals; nothing is fitted to them. See `families`.

Each group says when it was written; none was looked at before the maps that it judges were final.
"""

from __future__ import annotations

from dataclasses import replace

from numpy.random import Generator

from smlab.sim.address_patterns import Grouped, RandomWords, Strided
from smlab.sim.machine import Machine
from smlab.sim.workloads.workload import Instruction, Kernel, Loop
from smlab.validation.campaigns.utilization_maps.building import (
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


def two_rates(rng: Generator, machine: Machine) -> Kernel:
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


def separate_bursts(rng: Generator, machine: Machine) -> Kernel:
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

    def work(think_each: float) -> Body:
        inner: Body = (
            stream(shape.warps * shape.blocks, "point", ("moved",)),
            Instruction("constant-load", name="matrix"),
            *arithmetic(rng, round(min(max(6.0, think_each / 5), 1200)), "moved", ("point", "matrix")),
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
