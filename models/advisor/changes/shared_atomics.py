"""Optimizers of atomics on shared memory, and of those on global memory that belong there."""

from __future__ import annotations

import dataclasses
from typing import Final

from smlab.models.advisor.changes.matching import Context, Match, at_instructions, matched
from smlab.models.advisor.changes.rewrites import Edit, Rewrite
from smlab.models.advisor.stall_causes.blame import Blame
from smlab.models.advisor.stall_causes.slicing import definitions, hangs_on_thread

CONFLICTED: Final = 1.5
"""Mean passes from which on banks are in each other's way."""
SERIAL: Final = 12.0
"""Mean passes from which on lanes must be on one word: words at random need about 3.5."""
RANDOM_WAVEFRONTS: Final = 3.5
FLOATS: Final = frozenset(("F32", "F64", "F16x2", "BF16x2"))
POPC_FROM: Final = 80
"""Architecture from which on there is ATOMS.POPC.INC."""
FAR_KINDS: Final = ("global", "local")
WAITING: Final = frozenset(("mio_throttle", "short_scoreboard", "long_scoreboard", "lg_throttle"))


def _atomics(context: Context) -> set[int]:
    return {n for n, kind in enumerate(context.code.kinds) if kind == "shared-atomic" and n in context.rows}


def blamed_on(context: Context, causes: set[int]) -> list[Blame]:
    return context.edges(lambda b: b.cause in causes and b.reason in WAITING)


def wavefronts_of(context: Context, numbers: set[int]) -> float | None:
    """Mean passes over some instructions, weighted by executions; None where the profile has none."""
    known = [(context.rows[n].passes, context.executed.get(n, 0.0)) for n in numbers if n in context.rows]
    weighted = [(p, w) for p, w in known if p is not None and w]
    total = sum(w for _, w in weighted)
    return sum(p * w for p, w in weighted) / total if total else None


def _atomic_change(
    context: Context, least: float, wanted: float, why: str, added: float = 0.0
) -> Match | None:
    atomics = _atomics(context)
    edges = blamed_on(context, atomics)
    passes = wavefronts_of(context, atomics)
    if passes is None or passes < least or not edges:
        return None
    edit = Edit(passes=min(wanted, passes), added=round(added))
    rewrite = Rewrite(edits=dict.fromkeys(atomics, edit))
    return matched(edges, why.format(passes=passes), rewrites=(rewrite,))


def warp_aggregation(context: Context, factor: float) -> Match | None:
    """The lanes that share the first lane's word are counted by one of them; the others, if there are any, do
    an atomic of their own. A share q of the lanes is on the word that most are on, and of what is left as
    large a share again: the first lane is one of them in q of the cases."""
    atomics = _atomics(context)
    passes = wavefronts_of(context, atomics) or 1.0
    lanes = max(max((context.rows[n].active_lanes for n in atomics), default=32.0), passes)
    q = passes / lanes
    base, each = (context.gpu.number(f"atomic.add.{k}_interval_cycles") for k in ("base", "pass"))
    second = passes * (1 - q**2) + base / max(each, 1e-9) * (1 - q**lanes)
    return _atomic_change(
        context,
        SERIAL,
        1.0 + second,
        "{passes:.1f} lanes of a warp are on one word or bank: add up in the warp first",
        6,
    )


def privatisation(context: Context, factor: float) -> Match | None:
    """Shared atomics that serialise: copies. Atomics on global memory: a private copy in shared memory."""
    far = {
        n
        for n, i in enumerate(context.code.instructions)
        if i.opcode in ("RED", "REDG", "ATOMG", "ATOM") and context.code.innermost_loop(n) is not None
    }
    weight = context.share_executed(far)
    if far and weight and not _atomics(context):
        code = context.code
        accesses = {n for n, kind in enumerate(code.kinds) if kind == "global" and n in context.rows}
        edges = context.edges(lambda b: b.cause in accesses or b.reason == "drain")
        why = "atomics on global memory in a loop cross the whole chip"
        shared = Edit(shared=True, passes=RANDOM_WAVEFRONTS)
        near = Rewrite(edits=dict.fromkeys(far, shared), flushed=min(far))
        if any(FLOATS & set(code.instructions[n].modifiers) for n in far):
            why += "; adding floating-point numbers in shared memory is a loop of compare-and-swap, though"
        return matched(edges, why, rewrites=(near,))
    passes = wavefronts_of(context, _atomics(context)) or 1.0
    why = "{passes:.1f} lanes of a warp meet on one word: several copies"
    match = _atomic_change(context, SERIAL, max(1.0, passes / factor), why)
    if match is None:
        return None
    code, atomics = context.code, _atomics(context)
    tables = frozenset(
        loop.header
        for loop in code.loops
        if not atomics & loop.members and any(code.kinds[n] == "shared" for n in loop.members)
    )
    (fewer,) = match.rewrites
    copies = dataclasses.replace(fewer, repeated=tables, times=round(factor))
    how = f"{factor:.0f} copies by lane: a copy a warp leaves lanes that meet together"
    return dataclasses.replace(match, rewrites=(copies,), how=how)


def bank_layout(context: Context, factor: float) -> Match | None:
    atomics = _atomics(context)
    passes = wavefronts_of(context, atomics) or 1.0
    kinds = context.code.kinds
    by_data = any(context.hangs_on(n, lambda m: kinds[m] in FAR_KINDS) for n in atomics)
    if passes >= SERIAL and not any(hangs_on_thread(context.code, n) for n in atomics):
        return None  # many lanes on words that data choose: those are the same words, wherever they lie
    # Words that data choose are spread at random at best.
    scattered = by_data and passes < SERIAL
    wanted = RANDOM_WAVEFRONTS if scattered else 1.0
    why = "{passes:.1f} passes an atomic: another stride spreads lanes over the banks"
    return _atomic_change(context, RANDOM_WAVEFRONTS + 1, wanted, why)


def fewer_conflicts(context: Context, factor: float) -> Match | None:
    passes = wavefronts_of(context, _atomics(context))
    if passes is None or passes >= SERIAL:
        return None
    return _atomic_change(
        context,
        CONFLICTED,
        1.0,
        "{passes:.1f} passes an atomic, near what random words give; copies by lane help",
    )


def popc_inc(context: Context, factor: float) -> Match | None:
    """Counting by one with a result that nobody reads, where the GPU merges equal words."""
    architecture = int("".join(c for c in context.code.function.architecture if c.isdigit()) or 0)
    adds = {
        n
        for n in _atomics(context)
        if "ADD" in context.code.instructions[n].modifiers
        and not context.code.effects[n].writes
        and _adds_one(context, n)
    }
    if architecture < POPC_FROM or not adds:
        return None
    passes = wavefronts_of(context, adds)
    edges = blamed_on(context, adds)
    if passes is None or not edges:
        return None
    merged = Rewrite(edits=dict.fromkeys(adds, Edit(passes=min(passes, RANDOM_WAVEFRONTS))))
    why = "the addend is 1 and no result is read: ATOMS.POPC.INC merges equal words"
    return matched(edges, why, rewrites=(merged,))


def _adds_one(context: Context, number: int) -> bool:

    operand = context.code.instructions[number].operands[-1]
    for register in operand.registers:
        sources = definitions(context.code, number, register).paths
        if not sources:
            return False
        for source in sources:
            instruction = context.code.instructions[source]
            values = [o.value for o in instruction.operands[1:] if o.value is not None]
            if values != [1] or instruction.opcode not in ("MOV", "IMAD", "UMOV", "HFMA2"):
                return False
    return bool(operand.registers)


def block_size(context: Context, factor: float) -> Match | None:
    """Blocks that initialise and flush a table of their own spend time at it that larger or fewer blocks
    share."""
    code = context.code
    if not _atomics(context):
        return None
    main = [loop for loop in code.loops if _atomics(context) & loop.members]
    inside = set().union(*(loop.members for loop in main)) if main else set()
    outside = {n for n in context.rows if n not in inside}
    if not inside:
        return None
    return at_instructions(
        context,
        outside,
        "setting up and flushing a block's table: fewer blocks share the cost",
    )
