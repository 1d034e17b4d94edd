"""Optimizers beyond Table II: shared-memory atomics, and what wastes lanes, sectors, banks and FP64."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Final

from smlab.hw_bench.sass.effects import access_words
from smlab.models.advisor.changes.matching import (
    Category,
    Context,
    Match,
    Optimizer,
    at_instructions,
    matched,
    widened_by_constants,
)  # fmt: skip
from smlab.models.advisor.changes.matrix_kernels import needed_passes
from smlab.models.advisor.changes.rewrites import Edit, Rewrite
from smlab.models.advisor.changes.shared_atomics import (
    CONFLICTED,
    bank_layout,
    blamed_on,
    block_size,
    fewer_conflicts,
    popc_inc,
    privatisation,
    warp_aggregation,
    wavefronts_of,
)
from smlab.models.advisor.stall_causes.addresses import address_of, thread_step

WASTED: Final = 1.5
"""Sectors over those needed from which on accesses are uncoalesced."""
_LOADED: Final = frozenset(("global", "local", "shared", "shared-atomic"))


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
    single = Rewrite(removed=frozenset(widened), edits=dict.fromkeys(doubles, Edit(pipe="fp32")))
    why = "a double constant makes FP32 values FP64 and back: write 2.0f"
    match = matched(inside, why, rewrites=(single,))
    return match or at_instructions(context, stalled, why, (single,))


def fp64_precision(context: Context, factor: float) -> Match | None:
    """FP64 arithmetic that is FP64 by its operands: its pipe is narrow, and on many GPUs its results are
    waited for as memory's are."""
    code = context.code
    doubles = {n for n, kind in enumerate(code.kinds) if kind == "fp64" and n in context.rows}
    edges = context.edges(lambda b: b.cause in doubles)
    single = Rewrite(edits=dict.fromkeys(doubles, Edit(pipe="fp32")))
    why = "FP64 arithmetic holds up what follows"
    return matched(edges, why, rewrites=(single,))


def conversions(context: Context, factor: float) -> Match | None:
    widened = widened_by_constants(context)
    converting = {
        n for n, kind in enumerate(context.code.kinds) if kind == "conversion" and n in context.rows
    }
    converting -= widened
    edges = context.edges(lambda b: b.cause in converting)
    removal = Rewrite(removed=frozenset(converting))
    return matched(edges, "conversions between types hold up what follows", rewrites=(removal,))


def divergence(context: Context, factor: float) -> Match | None:
    """Instructions that only a part of the lanes execute, in loops."""
    part = {
        n
        for n, r in context.rows.items()
        if r.lanes is not None and r.lanes < 28 and context.code.innermost_loop(n) is not None
    }
    if not part:
        return None
    return at_instructions(
        context,
        part,
        "lanes wait while others of their warp go another way",
        (Rewrite(regrouped=True),),
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
    movable = {n for n in movable if (known := _excess_sectors(context, n)) is None or known >= WASTED}
    if not movable:
        return None
    if (
        sum(context.executed.get(n, 0.0) for n in movable)
        < sum(context.executed.get(n, 0.0) for n in far) / 2
    ):
        return None
    edges = context.edges(lambda b: b.cause in movable)
    sectors = excess.get("l2", 1.0)
    dram = 1 / excess.get("dram", 1.0)
    each = {n: 1 / (_excess_sectors(context, n) or sectors) for n in movable}
    why = f"accesses move {sectors:.1f} times the sectors, and {lines:.1f} times the lines, of their bytes"

    near = {n: Edit(passes=1.0, traffic=part, dram=dram) for n, part in each.items()}
    coalesced = Rewrite(edits=near | _through_tiles(context, near, factor))
    tiled = any(edit.tiled for edit in coalesced.edits.values())
    how = "through a tile of shared memory with rows padded by a word" if tiled else ""
    return matched(edges, why, rewrites=(coalesced,), how=how)


def _through_tiles(context: Context, edits: Mapping[int, Edit], padding: float) -> dict[int, Edit]:
    """Where the threads of a warp are a line or more apart, or by what no number says, no other layout of the
    data brings them together: a tile of shared memory with a row a warp turns rows into columns. Lanes walk
    down a column, and those on one bank take turns."""
    code, banks = context.code, context.gpu.integer("banks.count")
    tiled: dict[int, Edit] = {}
    first: set[int] = set()
    for n, edit in sorted(edits.items()):
        address, wide = address_of(code, n), context.rows[n].passes or 1.0
        step = None if address is None else thread_step(code, address)
        near = step is not None and abs(step) < context.gpu.integer("l1.line_bytes")
        if near or wide < WASTED * _lines_needed(context, n):
            continue
        passes = float(math.gcd(banks + round(padding), banks))
        loop = id(code.innermost_loop(n))
        tiled[n] = dataclasses.replace(edit, tiled=passes, staged=loop not in first)
        first.add(loop)
    return tiled


def _excess_sectors(context: Context, number: int) -> float | None:
    """Sectors that an access asks for over those that its bytes fill, where the profile counts them."""
    row = context.rows[number]
    return None if not row.sectors or not row.sectors_ideal else max(row.sectors / row.sectors_ideal, 1.0)


def _excess_lines(context: Context, accesses: set[int]) -> float:
    """Lines that accesses ask for over those that the bytes of their lanes fill, in the mean."""
    asked = needed = 0.0
    for n in accesses:
        row, times = context.rows[n], context.executed.get(n, 0.0)
        if row.passes:
            asked += times * row.passes
            needed += times * _lines_needed(context, n)
    return asked / needed if needed else 1.0


def _lines_needed(context: Context, number: int) -> float:
    """Lines that the bytes of an access's lanes fill."""
    row, instruction = context.rows[number], context.code.instructions[number]
    bytes_of_lanes = row.active_lanes * 4 * access_words(instruction)
    return max(1.0, bytes_of_lanes / context.gpu.number("l1.line_bytes"))


def bank_conflicts(context: Context, factor: float) -> Match | None:
    accesses = {n for n, kind in enumerate(context.code.kinds) if kind == "shared" and n in context.rows}
    needed = {n: context.rows[n].passes_ideal or float(needed_passes(context, n)) for n in accesses}
    bad = {n for n in accesses if (context.rows[n].passes or 1.0) >= CONFLICTED * needed[n]}
    passes = wavefronts_of(context, bad)
    edges = blamed_on(context, bad)
    if passes is None or not edges:
        return None
    times = {n: context.executed.get(n, 0.0) for n in bad}
    least = sum(needed[n] * t for n, t in times.items()) / sum(times.values())
    padded = Rewrite(edits={n: Edit(passes=needed[n]) for n in bad})
    over = f" for {least:.1f}" if least > 1 else ""
    why = f"{passes:.1f} passes over the banks{over}: pad the rows of shared memory"
    if any(context.code.instructions[n].opcode in ("LDSM", "STSM") for n in bad):
        why += ", or exchange places within them (swizzle)"
    return matched(edges, why, rewrites=(padded,))


_E: Final[Category] = "stall elimination"
_P: Final[Category] = "parallel"
ADDITIONAL_OPTIMIZERS: Final[tuple[Optimizer, ...]] = (
    Optimizer(
        "warp-aggregation",
        _E,
        "shared atomics of 12 passes or more",
        "one pass stays of the word that most lanes are on, six instructions come",
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
        "shared accesses of 1.5 times the passes that their width needs",
        "padding removes all conflicts",
        "pad rows of shared memory by a word",
        bank_conflicts,
        1,
    ),
)
"""Ours."""
