"""Families of kernels that fit the intervals; see `families`."""

from __future__ import annotations

from dataclasses import replace

from numpy.random import Generator

from smlab.sim.address_patterns import Strided
from smlab.sim.machine import Machine
from smlab.sim.workloads.workload import Instruction, Kernel, Loop
from smlab.validation.campaigns.utilization_maps.building import (
    Atomics,
    Body,
    LaunchShape,
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


def exponential(rng: Generator, machine: Machine) -> Kernel:
    """Exponential thinking, one atomic whose result is used: the machine repairman itself."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng)
    think = think_cycles(rng, machine, shape, atomics)
    body = (*gap(rng, think, "exponential", "think", ("result",)), atomics.instruction("result", ("think",)))
    return kernel_of("exponential", shape, [(Loop(iterations(rng, shape, 1), body),)])


def narrow(rng: Generator, machine: Machine) -> Kernel:
    """Thinking that varies less than exponentially (a variation of 0.1 to 0.8), with the result used."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng)
    think = think_cycles(rng, machine, shape, atomics)
    spread = "erlang" if rng.random() < 0.5 else "shifted"
    body = (*gap(rng, think, spread, "think", ("result",)), atomics.instruction("result", ("think",)))
    return kernel_of("narrow", shape, [(Loop(iterations(rng, shape, 1), body),)])


def histogram(rng: Generator, machine: Machine) -> Kernel:
    """Read pixels in order, count each; 1 to 4 counts a load, no result used; barriers around."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, "atomic-add", random=rng.random() < 0.8)
    burst = int(rng.choice([1, 1, 2, 4]))
    think = think_cycles(rng, machine, shape, atomics, burst)
    loads = int(rng.integers(1, 5)) if think > 1000 else 1
    body: list[Instruction | Loop] = [
        stream(shape.warps * shape.blocks, f"pixel{i}", ("bin",)) for i in range(loads)
    ]
    loaded = tuple(f"pixel{i}" for i in range(loads))
    body += arithmetic(rng, round(min(max(1.0, (think - 400) / 5), 2000)), "bin", loaded)
    body += [atomics.instruction(f"count{i}", ("bin",), returns=False) for i in range(burst)]
    loop = Loop(iterations(rng, shape, burst), tuple(body))
    return kernel_of("histogram", shape, [(BARRIER, loop, BARRIER)])


def work_queue(rng: Generator, machine: Machine) -> Kernel:
    """Gather, compute, take a ticket with an atomic whose result is used, and store through it."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng)
    think = think_cycles(rng, machine, shape, atomics)
    body: Body = (
        gather(rng, "item", ("kept",)),
        *arithmetic(rng, round(min(max(1.0, (think - 300) / 6), 1500)), "value", ("item",)),
        atomics.instruction("ticket", ("value",)),
        Instruction("shared-store", after=("ticket",)),
        Instruction("int32", name="kept", after=("ticket",)),
    )
    return kernel_of("work-queue", shape, [(Loop(iterations(rng, shape, 1), body),)])


def barrier_rounds(rng: Generator, machine: Machine) -> Kernel:
    """Rounds of thinking, a barrier, and a few atomics by all warps of the block at once."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng)
    burst = int(rng.integers(1, 9))
    think = think_cycles(rng, machine, shape, atomics, burst)
    returns = bool(rng.random() < 0.5)
    spread = str(rng.choice(["exponential", "erlang", "shifted"]))
    after = (f"count{burst - 1}",) if returns else ()
    body: Body = (
        *gap(rng, think, spread, "think", after),
        Instruction("int32", name="ready", after=("think",)),
        BARRIER,
        *(
            atomics.instruction(f"count{i}", (f"count{i - 1}",) if i and returns else (), returns)
            for i in range(burst)
        ),
    )
    return kernel_of("barrier-rounds", shape, [(Loop(iterations(rng, shape, burst), body),)])


def phases(rng: Generator, machine: Machine) -> Kernel:
    """Phases with atomics and phases without, the same for all warps; block by block they drift apart."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng)
    count = int(rng.integers(1, 4))
    inside = think_cycles(rng, machine, shape, atomics)
    times = max(2, iterations(rng, shape, count))
    outside = inside * times * log_uniform(rng, 0.1, 3)
    body: Body = (
        *gap(rng, outside, str(rng.choice(["shifted", "erlang"])), "apart", ("result",)),
        Loop(
            times,
            (
                *gap(rng, inside, "exponential", "think", ("result", "apart")),
                atomics.instruction("result", ("think",)),
            ),
        ),
    )
    return kernel_of("phases", shape, [(Loop(count, body),)])


def streaming(rng: Generator, machine: Machine) -> Kernel:
    """Limited by memory: loads and stores of whole lines, several in flight, now and then an atomic."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng)
    loads = int(rng.integers(2, 12))
    warps = shape.warps * shape.blocks
    body: Body = (
        *(stream(warps, f"x{i}", (f"y{i}",)) for i in range(loads)),
        *(Instruction("fp32", name=f"y{i}", after=(f"x{i}",)) for i in range(loads)),
        atomics.instruction("result", (f"y{loads - 1}",), bool(rng.random() < 0.5)),
        stream(warps, "", (f"y{loads - 1}",), store=True),
    )
    return kernel_of("streaming", shape, [(Loop(iterations(rng, shape, 1), body),)])


def producers(rng: Generator, machine: Machine) -> Kernel:
    """Some warps of each block do atomics, the others do not; some of those that do compare and swap."""
    shape = draw_shape(rng, machine)
    add, cas = draw_atomics(rng, "atomic-add"), draw_atomics(rng, "atomic-cas")
    think = think_cycles(rng, machine, shape, add)
    share = rng.uniform(0.2, 1.0)
    times = max(1, round(iterations(rng, shape, 1) / share))
    cas_share = rng.uniform(0, 1) if rng.random() < 0.5 else 0.0
    body = [
        (
            Loop(
                times,
                (
                    *gap(rng, max(2, think * share), "exponential", "think", ("result",)),
                    a.instruction("result", ("think",)),
                ),
            ),
        )
        for a in (add, cas)
    ]
    idle: Body = (
        Loop(times, gap(rng, think * share * rng.uniform(0.5, 1.5), "exponential", "think", ("think",))),
    )
    roles = [2 if rng.random() > share else int(rng.random() < cas_share) for _ in range(shape.warps)]
    roles[0] = 0
    return kernel_of("producers", shape, [*body, idle], roles)


def lockstep(rng: Generator, machine: Machine) -> Kernel:
    """Fixed times, all warps alike and started together: microbenchmarks, and nothing else that we know
    of."""
    shape, atomics = draw_shape(rng, machine, waves=False), draw_atomics(rng, random=False)
    think = think_cycles(rng, machine, shape, atomics)
    body = (*gap(rng, think, "fixed", "think", ("result",)), atomics.instruction("result", ("think",)))
    return kernel_of("lockstep", shape, [(Loop(iterations(rng, shape, 1), body),)])


def chains(rng: Generator, machine: Machine) -> Kernel:
    """Limited by latency: dependent arithmetic of fixed times, shared loads, and an atomic of random
    passes."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng, random=True)
    think = think_cycles(rng, machine, shape, atomics)
    body: Body = (
        Instruction("shared-load", name="x", after=("result",)),
        *arithmetic(rng, round(min(max(1.0, think / 6), 2000)), "y", ("x",)),
        atomics.instruction("result", ("y",), bool(rng.random() < 0.7)),
    )
    if not body[-1].returns:  # type: ignore[union-attr]
        body = (Instruction("shared-load", name="x", after=("y",)), *body[1:])
    return kernel_of("chains", shape, [(Loop(iterations(rng, shape, 1), body),)])


def uneven_blocks(rng: Generator, machine: Machine) -> Kernel:
    """2 to 4 SMs; blocks do 1 to 5 times as much as others, so that some SMs are busier and work longer."""
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng)
    think = think_cycles(rng, machine, shape, atomics)
    sms = int(rng.integers(2, 5))
    times = iterations(rng, shape, 1)
    programs = []
    for factor in (1.0, rng.uniform(1, 5)):
        think_each = think * log_uniform(rng, 1, 4)
        inner = (
            *gap(rng, think_each, "exponential", "think", ("result",)),
            atomics.instruction("result", ("think",)),
        )
        programs.append((Loop(max(1, round(times * factor)), inner),))
    kernel = kernel_of("uneven-blocks", shape, programs)
    blocks = shape.blocks * sms
    rows = tuple((int(rng.random() < 0.4),) * shape.warps for _ in range(blocks))
    return replace(kernel, roles=rows, blocks=blocks, sms=sms)


SPREADS = ("exponential", "erlang", "shifted", "fixed")
"""How far a warp's times between its atomics vary, from most to not at all."""


def by_themselves(rng: Generator, machine: Machine) -> Kernel:
    """One atomic after each time of thinking, its result used."""
    return _by_themselves("by-themselves", rng, machine, *_drawn(rng, machine))


def in_a_row(rng: Generator, machine: Machine) -> Kernel:
    """Several atomics in a row after each time of thinking, no result used."""
    return _in_a_row("in-a-row", rng, machine, *_drawn(rng, machine))


def released(rng: Generator, machine: Machine) -> Kernel:
    """All warps of a block think, meet at a barrier, and do one atomic, its result used or not."""
    return _released("let-go", rng, machine, *_drawn(rng, machine))


def few_by_themselves(rng: Generator, machine: Machine) -> Kernel:
    """`by_themselves` of few warps."""
    return _by_themselves("few-by-themselves", rng, machine, *_few(rng, machine))


def few_in_a_row(rng: Generator, machine: Machine) -> Kernel:
    """`in_a_row` of few warps, all results used at the end in one of three."""
    shape, atomics = _few(rng, machine)
    return _in_a_row("few-in-a-row", rng, machine, shape, atomics, returns=bool(rng.random() < 1 / 3))


def few_released(rng: Generator, machine: Machine) -> Kernel:
    """`released` of few warps."""
    return _released("few-let-go", rng, machine, *_few(rng, machine))


def _by_themselves(
    name: str, rng: Generator, machine: Machine, shape: LaunchShape, atomics: Atomics
) -> Kernel:
    think = think_cycles(rng, machine, shape, atomics)
    spread = str(rng.choice(SPREADS[:3]))
    body = (*gap(rng, think, spread, "think", ("result",)), atomics.instruction("result", ("think",)))
    return _kernel(name, rng, shape, body, 1)


def _in_a_row(
    name: str, rng: Generator, machine: Machine, shape: LaunchShape, atomics: Atomics, returns: bool = False
) -> Kernel:
    several = int(rng.integers(2, 9))
    think = think_cycles(rng, machine, shape, atomics, several)
    spread = str(rng.choice(SPREADS[:3]))
    names = [f"count{i}" for i in range(several)]
    after = tuple(names) if returns else ("think",)
    counts = (atomics.instruction(n, ("think",), returns) for n in names)
    return _kernel(name, rng, shape, (*gap(rng, think, spread, "think", after), *counts), several)


def _released(name: str, rng: Generator, machine: Machine, shape: LaunchShape, atomics: Atomics) -> Kernel:
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
