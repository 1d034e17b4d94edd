"""Families of random programs that fit the maps: a family is a random sequence of pieces of code, its
kernels differ in all numbers.

Named families know what their author thought of. Here the pieces that real kernels are made of (thinking,
chains and mixtures of arithmetic, loads and stores of all kinds, barriers, groups of atomics with
anything between them) are put together at random: in an order, in an inner loop or not, with data
dependences or without, for all warps alike or by roles, in long loops or in many short blocks. What a
family's kernels share is the sequence, as the kernels of a named family do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng

from smlab.sim.address_patterns import RandomBytes, RandomWords, SharedPattern, Strided
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

Family = Callable[[Generator, Machine], Kernel]

LONG, COUNT = 160, 320
"""Families of many pieces, and all: the rest are *plain*, a piece or two around one group of atomics, with a
barrier now and then."""
ENTROPY: Final = 20_261_122
"""Of the sequences: another number gives other families."""

BARRIER = Instruction("barrier")

MOST_INSTRUCTIONS: Final = 250_000
"""Warp-instructions of a kernel on one SM, about; longer ones repeat their work less often."""

PIECES: Final = {
    "think": 3.0,
    "chain": 2.0,
    "mixture": 2.0,
    "gathers": 2.0,
    "streams": 1.5,
    "shared loads": 2.0,
    "shared stores": 1.0,
    "global stores": 1.0,
    "barrier": 2.0,
}
"""What may stand between two groups of atomics, and how often it does, relative to each other."""

_MIXED: Final = {
    "int32": 8.0,
    "imad": 4.0,
    "fp32": 4.0,
    "conversion": 1.0,
    "shuffle": 1.0,
    "vote": 0.7,
    "constant-load": 1.0,
    "sfu": 0.5,
    "uniform": 1.0,
}
"""Classes of instructions in compiled code, about as often."""


@dataclass(frozen=True)
class AtomicGroup:
    """Atomics that follow each other: at most so many, how they hang together (``chained`` by their results,
    ``apart`` with other work between, or ``bare``), and whether results are used."""

    most: int
    kind: str
    returns: bool
    cas: bool


@dataclass(frozen=True)
class PieceSequence:
    """What the kernels of a family share. ``pieces`` are names of `PIECES` and groups of atomics; ``inner``
    are the first and the last of them that an inner loop repeats, or None; ``roles`` is ``alike``, ``some``
    (part of the warps leaves the atomics out) or ``skewed`` (part does more); ``short`` blocks have no
    loop."""

    pieces: tuple[str | AtomicGroup, ...]
    inner: tuple[int, int] | None
    dependent: float
    roles: str
    short: bool
    sms: int


@cache
def sequence(number: int) -> PieceSequence:
    """The sequence of random family ``number``."""
    rng = default_rng(SeedSequence(ENTROPY, spawn_key=(number,)))
    if number >= LONG:
        return _plain(rng)
    names, weights = list(PIECES), np.array(list(PIECES.values()))
    taste = weights * rng.gamma(0.7, size=len(names))  # each family prefers some pieces
    count = int(rng.integers(1, 6))
    pieces: list[str | AtomicGroup] = rng.choice(names, count, p=taste / taste.sum()).tolist()
    for _ in range(1 if rng.random() < 0.7 else int(rng.integers(2, 4))):
        pieces.insert(int(rng.integers(len(pieces) + 1)), _group(rng))
    inner = None
    if rng.random() < 0.35:
        places = sorted(rng.choice(len(pieces) + 1, 2, replace=False).tolist())
        inner = (places[0], places[1])
    roles = str(rng.choice(["alike", "some", "skewed"], p=[0.7, 0.15, 0.15]))
    sms = int(rng.integers(2, 4)) if rng.random() < 0.06 else 1
    return PieceSequence(tuple(pieces), inner, float(rng.beta(2, 1)), roles, bool(rng.random() < 0.12), sms)


def _plain(rng: Generator) -> PieceSequence:
    """A piece or two and one group of atomics; alone in the loop, or in an inner one with a barrier behind
    it."""
    names = [name for name in PIECES if name != "barrier"]
    weights = np.array([4.0 if name in ("think", "chain") else 1.0 for name in names])
    pieces: list[str | AtomicGroup] = rng.choice(
        names, int(rng.integers(1, 3)), p=weights / weights.sum()
    ).tolist()
    group = _group(rng)
    if rng.random() < 0.6:
        group = replace(group, most=1)
    pieces.insert(int(rng.integers(len(pieces) + 1)), group)
    inner = None
    where = rng.random()
    if where < 0.3:  # now and then
        inner = (0, len(pieces))
        pieces.append("barrier")
    elif where < 0.45:  # each time, anywhere
        pieces.insert(int(rng.integers(len(pieces) + 1)), "barrier")
    roles = str(rng.choice(["alike", "some", "skewed"], p=[0.7, 0.1, 0.2]))
    sms = int(rng.integers(2, 4)) if rng.random() < 0.1 else 1
    return PieceSequence(tuple(pieces), inner, float(rng.beta(3, 1)), roles, bool(rng.random() < 0.1), sms)


def _group(rng: Generator) -> AtomicGroup:
    most = 1 if rng.random() < 0.45 else int(rng.integers(2, 13))
    kind = str(rng.choice(["chained", "apart", "bare"]))
    return AtomicGroup(most, kind, bool(rng.random() < 0.55), bool(rng.random() < 0.12))


@dataclass
class _Drawing:
    """A kernel in the making: names of results that are there, and a number for the next."""

    rng: Generator
    warps: int
    last: tuple[str, ...] = ()
    made: int = 0

    def name(self) -> str:
        self.made += 1
        return f"r{self.made}"


def family(number: int) -> Family:
    """The function that draws kernels of random family ``number``."""

    def draw(rng: Generator, machine: Machine) -> Kernel:
        return _kernel(f"random-{number:03d}", sequence(number), rng, machine)

    return draw


def _kernel(name: str, of: PieceSequence, rng: Generator, machine: Machine) -> Kernel:
    shape, atomics = draw_shape(rng, machine), draw_atomics(rng)
    groups = [p for p in of.pieces if isinstance(p, AtomicGroup)]
    sizes = {id(g): int(rng.integers(1, g.most + 1)) for g in groups}
    repetitions = int(log_uniform(rng, 2, 30)) if of.inner else 1
    repeated = set(range(*of.inner)) if of.inner else set()
    each = sum(
        sizes[id(p)] * (repetitions if i in repeated else 1)
        for i, p in enumerate(of.pieces)
        if isinstance(p, AtomicGroup)
    )
    think = think_cycles(rng, machine, shape, atomics, each)
    shares = rng.dirichlet(np.ones(len(of.pieces)))
    program = _Drawing(rng, shape.warps * shape.blocks)
    thinks = [
        think * share / (repetitions if i in repeated else 1) for i, share in enumerate(shares.tolist())
    ]
    written = [
        _piece(p, of, program, think_each, atomics, sizes)
        for p, think_each in zip(of.pieces, thinks, strict=True)
    ]
    idle = [() if isinstance(p, AtomicGroup) else part for p, part in zip(of.pieces, written, strict=True)]
    bodies = [_nested(written, of, repetitions), _without(_nested(idle, of, repetitions))]
    times = max(1, min(iterations(rng, shape, each), round(_room(bodies[0], shape.warps * shape.blocks))))
    if of.short:
        shape = replace(shape, blocks=max(shape.blocks, min(shape.blocks * times, 600)))
        times = 1
    programs: list[Body] = [(Loop(times, bodies[0]),)]
    roles = [0] * shape.warps
    if of.roles == "some" and bodies[1]:
        programs.append((Loop(max(1, round(times * rng.uniform(0.3, 1.5))), bodies[1]),))
        roles = [0, *(int(rng.random() < rng.uniform(0.2, 0.8)) for _ in roles[1:])]
    elif of.roles == "skewed":
        programs.append((Loop(max(1, round(times * log_uniform(rng, 1, 6))), bodies[0]),))
        roles = [int(rng.random() < 0.3) for _ in roles]
    kernel = kernel_of(name, shape, programs, roles)
    if of.sms > 1:
        most = shape.blocks * of.sms
        return replace(kernel, blocks=int(rng.integers(max(of.sms, most // 2), most + 1)), sms=of.sms)
    return kernel


def _nested(written: list[Body], of: PieceSequence, repetitions: int) -> Body:
    """The pieces one after the other, those of the inner loop in it."""
    if of.inner is None:
        return tuple(item for part in written for item in part)
    first, last = of.inner
    inner = tuple(item for part in written[first:last] for item in part)
    before = tuple(item for part in written[:first] for item in part)
    after = tuple(item for part in written[last:] for item in part)
    return (*before, *((Loop(repetitions, inner),) if inner else ()), *after)


def _without(body: Body) -> Body:
    """``body`` without the needs for results that nothing in it gives (any more)."""

    def names(items: Body) -> set[str]:
        return set().union(*(names(i.body) if isinstance(i, Loop) else {i.name} for i in items))

    def kept(items: Body, there: set[str]) -> Body:
        return tuple(
            replace(i, body=kept(i.body, there))
            if isinstance(i, Loop)
            else replace(i, after=tuple(n for n in i.after if n in there))
            for i in items
        )

    return kept(body, names(body) - {""})


def _room(body: Body, warps: int) -> float:
    """How often all warps may run ``body`` within `MOST_INSTRUCTIONS`; scattered lanes count each."""

    def cost(item: Instruction | Loop) -> int:
        if isinstance(item, Loop):
            return item.count * sum(cost(i) for i in item.body)
        return item.lanes if isinstance(item.memory, RandomBytes) else 1

    return MOST_INSTRUCTIONS / (sum(cost(i) for i in body) * warps)


def _piece(
    piece: str | AtomicGroup,
    of: PieceSequence,
    drawing: _Drawing,
    think_each: float,
    atomics: Atomics,
    sizes: dict[int, int],
) -> Body:
    """A piece with numbers of its own; ``think_each`` is the time that it shall take where that can be
    chosen."""
    rng = drawing.rng
    after = drawing.last if rng.random() < of.dependent else ()
    if isinstance(piece, AtomicGroup):
        return _atomics(piece, sizes[id(piece)], drawing, after, atomics)
    name = drawing.name()
    body: Body
    if piece == "think":
        spread = str(rng.choice(["exponential", "erlang", "shifted", "fixed"], p=[0.35, 0.3, 0.3, 0.05]))
        body = gap(rng, think_each, spread, name, after or (name,))
    elif piece == "chain":
        body = arithmetic(rng, round(min(max(1.0, think_each / 6), 1500)), name, after or (name,))
    elif piece == "mixture":
        body = _mixture(drawing, int(log_uniform(rng, 4, 60)), name, after)
    elif piece in ("gathers", "streams"):
        names = [drawing.name() for _ in range(int(rng.integers(1, 7)))]
        load = (
            (lambda n: gather(rng, n, after))
            if piece == "gathers"
            else (lambda n: stream(drawing.warps, n, after))
        )
        body = (*(load(n) for n in names), Instruction("int32", name=name, after=tuple(names)))
    elif piece == "shared loads":
        body = _shared_loads(drawing, name, after)
    elif piece == "shared stores":
        body = tuple(
            Instruction("shared-store", after=after, shared=_conflict(rng))
            for _ in range(int(rng.integers(1, 5)))
        )
        name = ""
    elif piece == "global stores":
        store = stream(drawing.warps, "", after, store=True)
        if rng.random() < 0.4:
            store = replace(store, memory=gather(rng, "x").memory, lanes=int(rng.choice([1, 4, 32])))
        body, name = (store,) * int(rng.integers(1, 4)), ""
    else:
        body, name = (BARRIER,), ""
    if name:
        drawing.last = (name,)
    return body


def _conflict(rng: Generator) -> SharedPattern:
    """A stride with which lanes meet on banks, or random words."""
    if rng.random() < 0.3:
        return RandomWords(int(2 ** rng.integers(4, 10)))
    return Strided(int(rng.choice([1, 1, 1, 2, 3, 4, 8, 16])))


def _shared_loads(drawing: _Drawing, name: str, after: tuple[str, ...]) -> Body:
    """A chain of dependent loads, or several at once."""
    rng, pattern = drawing.rng, _conflict(drawing.rng)
    names = [drawing.name() for _ in range(int(rng.integers(1, 9)))]
    chained, body, last = bool(rng.random() < 0.5), list[Instruction | Loop](), after
    for n in names:
        body.append(Instruction("shared-load", name=n, after=last, shared=pattern))
        if chained:
            body += arithmetic(rng, int(rng.integers(1, 5)), f"{n}-used", (n,))
            last = (f"{n}-used",)
    body.append(Instruction("fp32", name=name, after=last if chained else tuple(names)))
    return tuple(body)


def _mixture(drawing: _Drawing, count: int, name: str, after: tuple[str, ...]) -> Body:
    """Instructions of all classes that depend on one of those before them, near or far."""
    rng = drawing.rng
    weights = np.array(list(_MIXED.values()))
    ops = rng.choice(list(_MIXED), count, p=weights / weights.sum()).tolist()
    names = [drawing.name() for _ in ops]
    reach = log_uniform(rng, 1, 8)
    body = []
    for i, (op, own) in enumerate(zip(ops, names, strict=True)):
        back = i - 1 - int(rng.exponential(reach))
        body.append(Instruction(op, name=own, after=(names[back],) if back >= 0 else after))
    return (*body, Instruction("int32", name=name, after=(names[-1],)))


def _atomics(
    group: AtomicGroup, count: int, drawing: _Drawing, after: tuple[str, ...], atomics: Atomics
) -> Body:
    """``count`` atomics in the group's way, and what uses their results."""
    rng = drawing.rng
    own = replace(atomics, op="atomic-cas") if group.cas else atomics
    names = [drawing.name() for _ in range(count)]
    body: list[Instruction | Loop] = []
    last, between = after, int(log_uniform(rng, 1, 30))
    for n in names:
        if group.kind == "apart" and body:
            if rng.random() < 0.3:
                body.append(Instruction("shared-load", name=f"{n}-slot", after=last, shared=_conflict(rng)))
                last = (f"{n}-slot",)
            body += arithmetic(rng, int(rng.integers(1, between + 1)), f"{n}-given", last)
            last = (f"{n}-given",)
        body.append(own.instruction(n, last, group.returns))
        if group.kind == "chained" and group.returns:
            last = (n,)
    if not group.returns:
        return tuple(body)
    if rng.random() < 0.7:  # used at once
        used = drawing.name()
        body.append(Instruction("int32", name=used, after=tuple(names)))
        if rng.random() < 0.3:
            body.append(Instruction("shared-store", after=(used,), shared=_conflict(rng)))
        drawing.last = (used,)
    else:
        drawing.last = tuple(names)
    return tuple(body)


RANDOM: Final = {f"random-{number:03d}": family(number) for number in range(COUNT)}
"""All of them, by name."""
