"""Families of kernels that fit the intervals; see `families`."""

from __future__ import annotations

from dataclasses import replace

from numpy.random import Generator

from smlab.sim.machine import Machine
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
        pace = think * log_uniform(rng, 1, 4)
        inner = (
            *gap(rng, pace, "exponential", "think", ("result",)),
            atomics.instruction("result", ("think",)),
        )
        programs.append((Loop(max(1, round(times * factor)), inner),))
    kernel = kernel_of("uneven-blocks", shape, programs)
    blocks = shape.blocks * sms
    rows = tuple((int(rng.random() < 0.4),) * shape.warps for _ in range(blocks))
    return replace(kernel, roles=rows, blocks=blocks, sms=sms)
