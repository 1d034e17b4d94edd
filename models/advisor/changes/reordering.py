"""Optimizers that hide latency by order: unrolled loops, loads ahead of their use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from smlab.hw_bench.sass.effects import access_words
from smlab.hw_bench.sass.opcodes import is_load
from smlab.models.advisor.changes.apply_rewrites import VECTOR_WORDS
from smlab.models.advisor.changes.matching import Context, Match, matched
from smlab.models.advisor.changes.rewrites import Rewrite
from smlab.models.advisor.code import AdvisedCode, LoopOf
from smlab.models.advisor.stall_causes.addresses import Sum, address_of, begins_aligned, step_of
from smlab.models.advisor.stall_causes.blame import Blame
from smlab.models.advisor.stall_causes.slicing import address_sources, definitions

WORD_BYTES: Final = 4
HOPS: Final = 2
"""Loads of a round that need each other, up to which it helps to begin the next round's early."""


def overhead_of(context: Context, loop: LoopOf) -> set[int]:
    """The instructions of a loop that unrolling saves: its branch, the comparison for it, and what adds a
    number to a register of its own, which becomes an offset, with its carry."""
    code = context.code
    mine = [n for n in sorted(loop.members) if code.innermost_loop(n) is loop]
    head = code.instructions[loop.header].address
    back = {n for n in mine if code.instructions[n].opcode == "BRA" and _target(context, n) == head}
    overhead = set(back)
    for n in mine:
        instruction, effects = code.instructions[n], code.effects[n]
        if code.kinds[n] not in ("int", "uniform") or effects.writes.isdisjoint(effects.reads):
            continue
        updates = (definitions(code, n, name).paths for name in effects.writes & effects.reads)
        if not any(n in paths for paths in updates):
            continue
        carries = {name for m in overhead for name in code.effects[m].writes if name.startswith(("P", "UP"))}
        number = any(o.kind == "immediate" for o in instruction.operands)
        if number or ("X" in instruction.modifiers and effects.reads & carries):
            overhead.add(n)
    guards = {name for n in back for name in code.effects[n].reads if name.startswith(("P", "UP"))}
    for n in back:
        for name in guards:
            overhead |= {m for m in definitions(code, n, name).paths if m in loop.members}
    return overhead


def _target(context: Context, number: int) -> int | None:
    """Where a branch goes."""
    operand = context.code.instructions[number].operands[-1]
    return context.code.function.labels.get(operand.label or "", operand.value)


def _chained(context: Context, causes: Iterable[int]) -> int:
    """Of how many loads in a round of a loop each needs the one before, at most: one round's loads ahead are
    then little ahead, and what helps is another round beside it. 0 where a round's first needs the last of
    the round before."""
    code, deepest = context.code, 0
    inside: dict[LoopOf, set[int]] = {}
    for cause in causes:
        loop = code.innermost_loop(cause)
        if loop is not None and code.kinds[cause] == "global":
            inside.setdefault(loop, set()).add(cause)
    for loop, mine in inside.items():
        loads = {n for n in loop.members if code.kinds[n] == "global" and is_load(code.instructions[n])}
        needed = {n: address_sources(code, n) & loads for n in loads}
        if not any(n in needed[n] for n in needed):
            deepest = max(deepest, 1 + max((len(needed[n]) for n in loads & mine), default=0))
    return deepest


def loop_unrolling(context: Context, factor: float) -> Match | None:
    """Stalls whose cause and use are in one loop; one wait of the loads' is left for all unrolled ones."""
    code = context.code
    edges: list[Blame] = []
    scopes: dict[int, tuple[float, float]] = {}
    for b in context.dependences():
        loop = code.common_loop(b.stalled, b.cause)
        if loop is None:
            continue
        edges.append(b)
        if loop.header not in scopes:
            scopes[loop.header] = (context.active_in(loop), 0.0)
        active, known = scopes[loop.header]
        scopes[loop.header] = (active, known + b.latency)
    if not edges:
        return None
    loops = [loop for loop in code.loops if loop.header in scopes]
    overhead = set().union(*(overhead_of(context, loop) for loop in loops))
    return matched(
        edges,
        "each iteration waits for its own loads",
        scopes=tuple(scopes.values()),
        rewrites=(unrolled(context, loops, overhead, factor),),
    )


def unrolled(context: Context, loops: Iterable[LoopOf], overhead: Iterable[int], factor: float) -> Rewrite:
    """The innermost of some loops, so many rounds at a time."""
    chosen = list(loops)
    return Rewrite(
        order="unrolled",
        factor=round(factor),
        loops=frozenset(loop.header for loop in chosen),
        overhead=frozenset(overhead),
        widened={n: w for loop in chosen for n, w in widened(context.code, loop, round(factor)).items()},
    )


def widened(code: AdvisedCode, loop: LoopOf, rounds: int) -> dict[int, int]:
    """Loads of single words from shared memory that move on by a word a round, with the words that one brings
    when so many rounds are unrolled.

    Of all the words that a pointer serves then, compilers let it point to the middle one, and load no wider
    than that place is aligned: half of a row behind its begin, or for an even number of rows, at a begin.
    """
    rows: dict[object, dict[int, Sum]] = {}
    for n in loop.members:
        single = (
            code.kinds[n] == "shared"
            and code.innermost_loop(n) is loop
            and is_load(code.instructions[n])
            and access_words(code.instructions[n]) == 1
        )
        address = address_of(code, n) if single else None
        if address is not None and step_of(code, address, loop) == WORD_BYTES:
            rows.setdefault(address.terms, {})[n] = address
    found: dict[int, int] = {}
    for served in rows.values():
        middle = rounds // 2 if len(served) % 2 else rounds
        for n, address in served.items():
            for words in VECTOR_WORDS:
                if middle % words == 0 and begins_aligned(code, address, loop, words * WORD_BYTES):
                    found[n] = words
                    break
    return found


def code_reordering(context: Context, factor: float) -> Match | None:
    edges = context.dependences()
    code = context.code
    loops = {loop for b in edges if (loop := code.common_loop(b.stalled, b.cause)) is not None}
    overhead = frozenset(n for loop in loops for n in overhead_of(context, loop))
    inside = [b for b in edges if code.common_loop(b.stalled, b.cause) is not None]
    near = sum(b.samples for b in inside if code.kinds[b.cause] not in ("global", "local"))
    rewrites = [Rewrite()]
    if near > sum(b.samples for b in inside) / 2 or _chained(context, {b.cause for b in inside}) > HOPS:
        rewrites.append(unrolled(context, loops, overhead, factor))
    else:
        held = [loop for loop in loops if any(code.kinds[n] == "barrier" for n in loop.members)]
        rewrites += [Rewrite(order="prefetched", loops=frozenset(o.header for o in held), overhead=overhead)]
    unrolls = any(rewrite.order == "unrolled" for rewrite in rewrites)
    # What is only written ahead in the source, the compiler moves back.
    beside = {"how": f"{factor:.0f} rounds side by side"} if unrolls and factor > 1 else {}
    why = "results are used soon after they are asked for"
    return matched(edges, why, rewrites=tuple(rewrites), **beside)
