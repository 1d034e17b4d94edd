"""Optimizers beyond Table II: shared-memory atomics, and what wastes lanes, sectors, banks and FP64."""

from __future__ import annotations

import dataclasses
from typing import Final

from smlab.models.advisor.blame import Blame
from smlab.models.advisor.estimators import Effect
from smlab.hw_bench.sass.effects import access_words
from smlab.models.advisor.matching import (
    Category, Context, Match, Optimizer, at_instructions, matched, widened_by_constants,
)  # fmt: skip
from smlab.models.advisor.rewrite import Edit, Rewrite

CONFLICTED: Final = 1.5
"""Mean passes from which on banks are in each other's way."""
SERIAL: Final = 12.0
"""Mean passes from which on lanes must be on one word: words at random need about 3.5."""
RANDOM_PASSES: Final = 3.5
WASTED: Final = 1.5
"""Sectors over those needed from which on accesses are uncoalesced."""
_LOADED: Final = frozenset(("global", "local", "shared", "shared-atomic"))
POPC_FROM: Final = 80
"""Architecture from which on there is ATOMS.POPC.INC."""
WAITING: Final = frozenset(("mio_throttle", "short_scoreboard", "long_scoreboard", "lg_throttle"))


def _atomics(context: Context) -> set[int]:
    return {n for n, kind in enumerate(context.code.kinds) if kind == "shared-atomic" and n in context.rows}


def _blamed_on(context: Context, causes: set[int]) -> list[Blame]:
    return context.edges(lambda b: b.cause in causes and b.reason in WAITING)


def passes_of(context: Context, numbers: set[int]) -> float | None:
    """Mean passes over some instructions, weighted by executions; None where the profile has none."""
    known = [(context.rows[n].passes, context.executed.get(n, 0.0)) for n in numbers if n in context.rows]
    told = [(p, w) for p, w in known if p is not None and w]
    total = sum(w for _, w in told)
    return sum(p * w for p, w in told) / total if total else None


def _fewer_passes(context: Context, atomics: set[int], passes: float, wanted: float) -> Effect:
    """Atomics' passes go from ``passes`` to ``wanted``."""
    base = context.gpu.number("atomic.add.base_interval_cycles")
    each = context.gpu.number("atomic.add.pass_interval_cycles")
    factor = (base + each * wanted) / (base + each * passes)
    edges = _blamed_on(context, atomics)
    spent = sum(b.samples for b in edges)
    saved = (spent - max(spent * factor, context.unqueued(edges))) / context.total
    path = 1 - context.share_of_path(atomics) * (1 - wanted / passes)
    return Effect(saved, {"atomic": factor, "memory": path})


def _atomic_change(
    context: Context, least: float, wanted: float, why: str, added: float = 0.0
) -> Match | None:
    atomics = _atomics(context)
    edges = _blamed_on(context, atomics)
    passes = passes_of(context, atomics)
    if passes is None or passes < least or not edges:
        return None
    effect = _fewer_passes(context, atomics, passes, min(wanted, passes))
    share = context.share_executed(atomics) * added
    loads = {**effect.loads, "issue": 1 + share}
    edit = Edit(passes=min(wanted, passes), added=round(added))
    rewrite = Rewrite(edits=dict.fromkeys(atomics, edit))
    return matched(edges, Effect(effect.saved, loads), why.format(passes=passes), rewrites=(rewrite,))


def warp_aggregation(context: Context, factor: float) -> Match | None:
    return _atomic_change(
        context,
        SERIAL,
        1.0,
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
        sectors = {n: (context.rows[n].lanes or 32.0) if n in far else 4.0 for n in accesses}
        total = sum(context.executed.get(n, 0.0) * s for n, s in sectors.items())
        left = sum(context.executed.get(n, 0.0) * s for n, s in sectors.items() if n not in far)
        loads = dict.fromkeys(("memory", "port", "l2"), left / total if total else 1.0)
        edges = context.edges(lambda b: b.cause in accesses or b.reason == "drain")
        saved = (sum(b.samples for b in edges) - context.unqueued(edges)) / context.total
        why = "atomics on global memory in a loop cross the whole chip"
        near = Rewrite(edits=dict.fromkeys(far, Edit(shared=True, passes=RANDOM_PASSES)))
        return matched(edges, Effect(min(saved, 0.95), loads), why, rewrites=(near,))
    passes = passes_of(context, _atomics(context)) or 1.0
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
    return dataclasses.replace(match, rewrites=(copies,))


def bank_layout(context: Context, factor: float) -> Match | None:
    passes = passes_of(context, _atomics(context)) or 1.0
    scattered = passes < SERIAL  # by data: then the best that a layout gives is words at random
    wanted = RANDOM_PASSES if scattered else 1.0
    why = "{passes:.1f} passes an atomic: another stride spreads lanes over the banks"
    return _atomic_change(context, RANDOM_PASSES + 1, wanted, why)


def fewer_conflicts(context: Context, factor: float) -> Match | None:
    passes = passes_of(context, _atomics(context))
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
    passes = passes_of(context, adds)
    edges = _blamed_on(context, adds)
    if passes is None or not edges:
        return None
    effect = _fewer_passes(context, adds, passes, min(passes, RANDOM_PASSES))
    merged = Rewrite(edits=dict.fromkeys(adds, Edit(passes=min(passes, RANDOM_PASSES))))
    why = "the addend is 1 and no result is read: ATOMS.POPC.INC merges equal words"
    return matched(edges, effect, why, rewrites=(merged,))


def _adds_one(context: Context, number: int) -> bool:
    from smlab.models.advisor.slicing import definitions

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
    saved = context.own(outside) / context.total * (1 - 1 / max(factor, 1.0))
    return at_instructions(
        context,
        outside,
        Effect(saved),
        "setting up and flushing a block's table: fewer blocks share the cost",
    )


def fp64_constants(context: Context, factor: float) -> Match | None:
    """FP64 arithmetic between conversions from and to FP32 on one source line."""
    code, widened = context.code, widened_by_constants(context)
    lines = {code.line(n) for n in widened} - {None}
    doubles = {n for n, kind in enumerate(code.kinds) if kind == "fp64" and code.line(n) in lines}
    if not doubles:
        return None
    group = {n for n in doubles | widened if n in context.rows}
    inside = context.edges(lambda b: b.cause in group)
    stalled = {b.stalled for b in inside} | group
    spent = sum(b.samples for b in inside) + sum(context.rows[n].issued for n in group)
    fp32 = context.gpu.number("pipe.fp32.latency_cycles")
    times = sum(context.executed.get(n, 0.0) for n in doubles)
    issues = sum(context.executed.get(n, 0.0) for n in group)
    issued = sum(context.rows[n].issued for n in group)
    left = issued * times / issues * fp32 if issues else 0.0
    saved = max(spent - left, 0.0) / context.total
    loads = {"fp64": 0.0, "sfu": 0.0, "issue": 1 - context.share_executed(widened)}
    effect = Effect(saved, loads)
    single = Rewrite(removed=frozenset(widened), edits=dict.fromkeys(doubles, Edit(pipe="fp32")))
    why = "a double constant makes FP32 values FP64 and back: write 2.0f"
    match = matched(inside, effect, why, rewrites=(single,))
    return match or at_instructions(context, stalled, effect, why, (single,))


def fp64_precision(context: Context, factor: float) -> Match | None:
    """FP64 arithmetic that is FP64 by its operands: its pipe is narrow, and on many GPUs its results are
    waited for as memory's are."""
    code = context.code
    doubles = {n for n, kind in enumerate(code.kinds) if kind == "fp64" and n in context.rows}
    edges = context.edges(lambda b: b.cause in doubles)
    fp32 = context.gpu.number("pipe.fp32.latency_cycles")
    spent = sum(b.samples for b in edges)
    left = min(spent, sum(context.in_cycles(n, fp32) for n in doubles))
    saved = (spent - left) / context.total
    single = Rewrite(edits=dict.fromkeys(doubles, Edit(pipe="fp32")))
    why = "FP64 arithmetic holds up what follows"
    return matched(edges, Effect(saved, {"fp64": 0.0}), why, rewrites=(single,))


def conversions(context: Context, factor: float) -> Match | None:
    widened = widened_by_constants(context)
    made = {n for n, kind in enumerate(context.code.kinds) if kind == "conversion" and n in context.rows}
    made -= widened
    edges = context.edges(lambda b: b.cause in made)
    saved = (sum(b.samples for b in edges) + context.own(made)) / context.total
    effect = Effect(min(saved, 0.95), {"issue": 1 - context.share_executed(made)})
    gone = Rewrite(removed=frozenset(made))
    return matched(edges, effect, "conversions between types hold up what follows", rewrites=(gone,))


def divergence(context: Context, factor: float) -> Match | None:
    """Instructions that only a part of the lanes execute, in loops."""
    part = {
        n
        for n, r in context.rows.items()
        if r.lanes is not None and r.lanes < 28 and context.code.innermost_loop(n) is not None
    }
    if not part:
        return None
    wasted = sum(context.rows[n].samples * (1 - (context.rows[n].lanes or 32) / 32) for n in part)
    executed = sum(context.executed.get(n, 0.0) * (1 - (context.rows[n].lanes or 32) / 32) for n in part)
    share = executed / max(sum(context.executed.values()), 1.0)
    loads = {"issue": 1 - share, "fp32": 1 - share, "int32": 1 - share}
    return at_instructions(
        context,
        part,
        Effect(wasted / context.total, loads),
        "lanes wait while others of their warp go another way",
    )


def uncoalesced_access(context: Context, factor: float) -> Match | None:
    """Sectors that move beyond L1 against those that the accessed bytes fill; an access whose address hangs
    on loaded data cannot be made contiguous, and is not matched."""
    code = context.code
    far = {n for n, kind in enumerate(code.kinds) if kind == "global" and n in context.rows}
    excess = {level: max(factor, 1.0) for level, factor in context.samples.excess.items()}
    lines = _excess_lines(context, far)
    if max(excess.get("l2", 1.0), lines) < WASTED:
        return None
    movable = {n for n in far if not context.hangs_on(n, lambda m: code.kinds[m] in _LOADED)}
    if not movable:
        return None
    if (
        sum(context.executed.get(n, 0.0) for n in movable)
        < sum(context.executed.get(n, 0.0) for n in far) / 2
    ):
        return None
    edges = context.edges(lambda b: b.cause in movable or b.reason == "drain")
    sectors = excess.get("l2", 1.0)
    worst = max(sectors, lines)
    saved = (1 - 1 / worst) * sum(b.samples for b in edges) / context.total
    loads = {"port": 1 / sectors, "l2": 1 / sectors, "memory": 1 / worst, "dram": 1 / excess.get("dram", 1.0)}
    edit = Edit(passes=1.0, traffic=1 / sectors, dram=1 / excess.get("dram", 1.0))
    together = Rewrite(edits=dict.fromkeys(movable, edit))
    why = f"accesses move {sectors:.1f} times the sectors, and ask for {lines:.1f} times the lines, of their bytes"
    return matched(edges, Effect(min(saved, 0.95), loads), why, rewrites=(together,))


def _excess_lines(context: Context, accesses: set[int]) -> float:
    """Lines that accesses ask for over those that the bytes of their lanes fill, in the mean."""
    asked = needed = 0.0
    for n in accesses:
        row, times = context.rows[n], context.executed.get(n, 0.0)
        if row.passes:
            bytes_of_lanes = (row.lanes or 32.0) * 4 * access_words(context.code.instructions[n])
            asked += times * row.passes
            needed += times * max(1.0, bytes_of_lanes / context.gpu.number("l1.line_bytes"))
    return asked / needed if needed else 1.0


def bank_conflicts(context: Context, factor: float) -> Match | None:
    accesses = {n for n, kind in enumerate(context.code.kinds) if kind == "shared" and n in context.rows}
    bad = {n for n in accesses if (context.rows[n].passes or 1.0) >= CONFLICTED}
    passes = passes_of(context, bad)
    edges = _blamed_on(context, bad)
    if passes is None or not edges:
        return None
    spent = sum(b.samples for b in edges)
    saved = (spent - max(spent / passes, context.unqueued(edges))) / context.total
    effect = Effect(saved, {"memory": 1 - context.share_of_path(bad) * (1 - 1 / passes)})
    padded = Rewrite(edits=dict.fromkeys(bad, Edit(passes=1.0)))
    why = f"{passes:.1f} passes over the banks: pad the rows of shared memory"
    return matched(edges, effect, why, rewrites=(padded,))


_E: Final[Category] = "stall elimination"
_P: Final[Category] = "parallel"
FURTHER: Final[tuple[Optimizer, ...]] = (
    Optimizer(
        "warp-aggregation",
        _E,
        "shared atomics of 12 passes or more",
        "one pass stays, six instructions come",
        "add up the lanes of a warp (ballot, shuffle) and do one atomic",
        warp_aggregation,
        1,
    ),
    Optimizer(
        "privatisation",
        _E,
        "global atomics in a loop, or shared atomics of 12 passes or more",
        "what a private copy costs to flush is small",
        "count in a copy of the block's (or warp's) own and add it at the end",
        privatisation,
        8,
    ),
    Optimizer(
        "bank-layout",
        _E,
        "shared atomics of 4.5 passes or more",
        "lanes are on distinct words of few banks",
        "another stride or order of the table in shared memory",
        bank_layout,
        1,
    ),
    Optimizer(
        "fewer-conflicts",
        _E,
        "shared atomics of 1.5 to 12 passes",
        "one pass stays",
        "copies of the table by lane, interleaved over the banks",
        fewer_conflicts,
        1,
    ),
    Optimizer(
        "popc-inc",
        _E,
        "shared atomics that add 1 without a result, from sm_80",
        "equal words merge",
        "drop the use of the result or the addend so that the compiler takes POPC.INC",
        popc_inc,
        1,
    ),
    Optimizer(
        "block-size",
        _P,
        "samples outside the loop of shared atomics",
        "set-up is shared by more work",
        "fewer, larger blocks",
        block_size,
        2,
    ),
    Optimizer(
        "fp64-constants",
        _E,
        "FP64 arithmetic on lines that convert FP32",
        "FP32 does as well",
        "write constants with an f",
        fp64_constants,
        1,
    ),
    Optimizer(
        "fp64-precision",
        _E,
        "dependences on and throttling of FP64 arithmetic",
        "FP32 is accurate enough and moves no fewer bytes",
        "single precision where its accuracy is enough",
        fp64_precision,
        1,
    ),
    Optimizer(
        "conversions",
        _E,
        "dependences on conversions",
        "all of them go away",
        "keep values in one type",
        conversions,
        1,
    ),
    Optimizer(
        "divergence",
        _E,
        "instructions in loops with fewer than 28 active lanes",
        "lanes can be regrouped",
        "let whole warps go one way",
        divergence,
        1,
    ),
    Optimizer(
        "uncoalesced-access",
        _E,
        "1.5 times the sectors, or lines, that the bytes need",
        "accesses can be made contiguous",
        "let neighbouring lanes access neighbouring words",
        uncoalesced_access,
        1,
    ),
    Optimizer(
        "bank-conflicts",
        _E,
        "shared accesses of 1.5 passes or more",
        "padding removes all conflicts",
        "pad rows of shared memory by a word",
        bank_conflicts,
        1,
    ),
)
"""Ours."""

LEFT_OUT: Final[dict[str, str]] = {
    "shared and global memory coalesce": "bank-conflicts and uncoalesced-access take their place",
    "occupancy increase by registers": "its estimate needs the compiler",
    "SM balance": "samples of one SM or of all together do not show it",
    "block and thread decrease, coarsening": "no rule of theirs can be stated without a second run",
    "binary: whole-kernel sampling hints": "no advice on code",
}
"""Optimizers of GPA's code beyond its Table II that are not here, and why."""
