"""The eleven optimizers of Zhou et al.'s Table II, with our estimate beside theirs."""

from __future__ import annotations

import re
from typing import Final

from smlab.hw_bench.sass.effects import access_words
from smlab.hw_bench.sass.opcodes import is_load
from smlab.models.advisor.changes.arithmetic import fast_math, strength_reduction
from smlab.models.advisor.changes.matching import (
    Category,
    Context,
    Match,
    Optimizer,
    at_instructions,
    matched,
)  # fmt: skip
from smlab.models.advisor.changes.matrix_kernels import spilled_sums
from smlab.models.advisor.changes.reordering import WORD_BYTES, code_reordering, loop_unrolling
from smlab.models.advisor.changes.rewrites import Edit, Rewrite
from smlab.models.advisor.estimates.gpa_equations import parallel
from smlab.models.advisor.estimates.sm_model import model_of
from smlab.models.advisor.stall_causes.addresses import address_of, begins_aligned, step_of
from smlab.models.advisor.stall_causes.blame import SYNCHRONIZATION
from smlab.models.advisor.stall_causes.slicing import address_sources, same_for_all

_OFFSET: Final = re.compile(r"([+-]+0x[0-9a-f]+)\]")
NARROW: Final = 0.5
"""Threads that access shared memory between barriers over those that come to them, up to which a loop is
taken for a tree that shuffles can climb."""
READ_AGAIN: Final = 0.15
"""DRAM's sectors over those that accesses fill, up to which data are read again and again."""


def register_reuse(context: Context, factor: float) -> Match | None:
    local = {n for n, kind in enumerate(context.code.kinds) if kind == "local"}
    edges = context.edges(lambda b: b.cause in local)
    rewrite = _in_registers(context, local)
    why = "values are spilled to local memory, or indexed there"
    if spilled_sums(context, local):
        why = "sums of products of matrices are spilled: a smaller tile a warp, or fewer warps a block"
    return matched(edges, why, rewrites=(rewrite,))


def _in_registers(context: Context, local: set[int]) -> Rewrite:
    """Spills go. What an index that changes picks becomes a comparison and a selection for each word of the
    frame."""
    words = frame_words(context)
    edits, removed = {}, set()
    for n in local:
        operand = next(o for o in context.code.instructions[n].operands if o.kind == "memory")
        indexed = any(r != "R1" for r in operand.registers)
        if indexed and words:
            edits[n] = Edit(chain=max(2 * (words - 1), 1))
        else:
            removed.add(n)
    return Rewrite(removed=frozenset(removed), edits=edits)


def frame_words(context: Context) -> int:
    """Words of the stack frame, from what is subtracted from the stack pointer R1."""
    for n, instruction in enumerate(context.code.instructions):
        if "R1" in context.code.effects[n].writes & context.code.effects[n].reads:
            values = [o.value for o in instruction.operands if o.kind == "immediate" and o.value]
            if values:
                return abs(min(values, key=abs)) // 4
    return 0


def function_split(context: Context, factor: float) -> Match | None:
    edges = context.edges(lambda b: b.reason in ("no_instructions", "imc_miss"))
    return matched(edges, "instructions are not there when they are wanted")


def warp_balance(context: Context, factor: float) -> Match | None:
    """Warps wait at barriers: for some that do more, for ever fewer threads that go on, or for each other at
    more than one barrier a round."""
    edges = context.edges(lambda b: b.reason in SYNCHRONIZATION)
    if not edges:
        return None
    bars = {n for n, i in enumerate(context.code.instructions) if i.opcode == "BAR" and n in context.rows}
    model = model_of(context)
    rewrites = [Rewrite(even=True)] if model is not None and model.uneven else []
    for loop in context.code.loops:
        mine = sorted(n for n in bars if context.code.innermost_loop(n) is loop)
        near = {n for n in loop.members if context.code.kinds[n] == "shared" and context.executed.get(n)}
        if mine and near and _narrow(context, near) <= NARROW * _narrow(context, set(mine)):
            # A shuffle and an operation come in the place of a round, which ends at its barrier.
            shuffled = {min(mine): Edit(exchanged=True)}
            rewrites.append(Rewrite(removed=loop.members - set(shuffled), edits=shuffled))
        elif len(mine) > 1:
            rewrites.append(Rewrite(removed=frozenset(mine[1::2])))
    why = "warps wait at a barrier for slower ones"
    return matched(edges, why, rewrites=tuple(rewrites) or (Rewrite(removed=frozenset(bars)),))


def _narrow(context: Context, numbers: set[int]) -> float:
    """Executions of some instructions by full warps, in the mean."""
    lanes = sum(context.executed.get(n, 0.0) * context.rows[n].active_lanes / 32 for n in numbers)
    return lanes / len(numbers)


def memory_transaction_reduction(context: Context, factor: float) -> Match | None:
    """Throttled global memory; or loads in a loop whose address is the same for all threads, which constant
    memory gives without a load."""
    code = context.code
    same = {n for n in context.rows if _same_for_all(context, n)}
    throttled = ("lg_throttle", "tex_throttle")
    edges = context.edges(
        lambda b: b.cause in same or (b.reason in throttled and code.kinds[b.cause] in ("global", "local"))
    )
    if same and context.share_executed(same) > 0:
        why = "all threads load the same words: constant memory gives them as operands"
        loaded = {n for n in same if _moves(context, n)}
        edits = dict.fromkeys(loaded - _second_words(context, loaded), Edit(constant=True))
        removal = Rewrite(removed=frozenset(same - edits.keys()), edits=edits)
        return matched(edges, why, rewrites=(removal,))
    again = _read_again(context)
    edges += context.edges(lambda b: b.cause in again and b not in edges)
    why = "the path to global memory has more requests than it takes"
    if again:
        why = "what a loop loads from global memory, others load too"
    shared = {
        b.cause
        for b in edges
        if code.innermost_loop(b.cause) is not None
        and is_load(code.instructions[b.cause])
        and not context.hangs_on(b.cause, lambda n: code.kinds[n] == "global")
    }
    rewrites = (Rewrite(edits=_through_shared(context, shared, factor)),) if shared else ()
    busy = any(kind == "global" for kind in code.kinds)
    return matched(edges, why, rewrites=rewrites) if busy else None


def _moves(context: Context, number: int) -> bool:
    """Whether the address of a load in a loop changes there: constant memory then has to be loaded from
    (LDC), else its word is an operand."""
    loop = context.code.innermost_loop(number)
    return loop is not None and not loop.members.isdisjoint(address_sources(context.code, number))


def _offset(address: str) -> int:
    """The number that is added to an address's registers, in bytes."""
    match = _OFFSET.search(address)
    return int(match[1].replace("+", ""), 0) if match else 0


def _second_words(context: Context, loads: set[int]) -> set[int]:
    """Loads of constants that come with the word before theirs: LDC brings two words that lie side by side,
    if all rounds begin at an even one."""
    code, pair = context.code, 2 * WORD_BYTES
    places: dict[tuple[int, object], dict[int, int]] = {}
    for n in loads:
        loop, address = code.innermost_loop(n), address_of(code, n)
        if loop is None or address is None or access_words(code.instructions[n]) != 1:
            continue
        step = step_of(code, address, loop)
        if (step or 0) % pair == 0 and begins_aligned(code, address, loop, pair, arrays=True):
            places.setdefault((code.block_of[n], address.terms), {})[address.offset] = n
    return {
        n
        for row in places.values()
        for offset, n in row.items()
        if offset % pair == WORD_BYTES and offset - WORD_BYTES in row
    }


def _through_shared(context: Context, loads: set[int], factor: float) -> dict[int, Edit]:
    """Loads that shared memory takes the place of. Those of a round that are on one line, or next to it,
    share what one of them brings, between two barriers; those alone on theirs are taken to share with other
    rounds' and threads', whose loads come for many rounds at a time."""
    code = context.code
    rows: dict[object, list[tuple[int, int]]] = {}
    for n in loads:
        operand = next((o for o in code.instructions[n].operands if o.kind == "memory"), None)
        if operand is not None:
            key = (id(code.innermost_loop(n)), operand.registers)
            rows.setdefault(key, []).append((_offset(operand.text), n))
    edits = dict.fromkeys(loads, Edit(shared=True, traffic=1 / factor))
    line = context.gpu.integer("l1.line_bytes")
    for places in rows.values():
        lines: list[list[int]] = []
        last = None
        for offset, n in sorted(places):
            if last is None or offset - last >= line:
                lines.append([])
            lines[-1].append(n)
            last = offset
        if max(map(len, lines)) < 2:
            continue
        brought = [min(numbers) for numbers in lines]
        edits |= dict.fromkeys((n for numbers in lines for n in numbers), Edit(shared=True))
        edits |= dict.fromkeys(brought, Edit())
        edits[min(brought)] = Edit(staged=True)
    return edits


def _read_again(context: Context) -> set[int]:
    """Loads in loops of a kernel that asks for its data many times over: DRAM moves a small part of the
    sectors that its accesses fill."""
    code = context.code
    if context.samples.excess.get("dram", 1.0) > READ_AGAIN:
        return set()
    loads = {
        n
        for n in context.rows
        if code.kinds[n] == "global" and is_load(code.instructions[n]) and code.innermost_loop(n) is not None
    }
    return {n for n in loads if not context.hangs_on(n, lambda m: code.kinds[m] in ("global", "local"))}


def _same_for_all(context: Context, number: int) -> bool:
    code = context.code
    load = code.instructions[number].opcode == "LDG" and code.innermost_loop(number) is not None
    return load and same_for_all(code, number)


def function_inlining(context: Context, factor: float) -> Match | None:
    code = context.code
    calls = {n for n, i in enumerate(code.instructions) if i.opcode in ("CALL", "RET") and n in context.rows}
    if not calls or not context.samples_at(calls):
        return None
    near = {m for n in calls for m in (n - 1, n - 2, n - 3, n - 4) if m in context.rows}
    moves = {n for n in near if code.instructions[n].opcode in ("MOV", "IMAD", "BMOV") and n not in calls}
    group = calls | moves
    why = "calls cost branches and moves, and stop the scheduler"
    return at_instructions(context, group, why, (Rewrite(removed=frozenset(group)),))


def block_increase(context: Context, factor: float) -> Match | None:
    facts = context.samples.launch
    sms = facts.sms or context.gpu.integer("gpu.sms")
    if facts.blocks is None or facts.blocks >= sms:
        return None
    grown = min(sms, int(facts.blocks * factor)) / facts.blocks
    issued = sum(r.issued for r in context.rows.values()) / context.total
    warps = facts.warps_per_scheduler or 1.0
    paper = parallel(issued, warps, max(warps / grown, 1e-6), 1.0)
    return Match(
        context.total,
        float(context.samples.latency),
        (),
        f"{facts.blocks} blocks leave {sms - facts.blocks} of {sms} SMs without work",
        paper=paper,
        rewrites=(Rewrite(spread=grown),),
    )


def thread_increase(context: Context, factor: float) -> Match | None:
    facts, gpu = context.samples.launch, context.gpu
    if facts.threads_per_block is None:
        return None
    by_slots = gpu.integer("sm.max_blocks") * -(-facts.threads_per_block // 32)
    most = gpu.integer("sm.max_warps")
    sms = facts.sms or gpu.integer("gpu.sms")
    enough = facts.blocks is None or facts.blocks * -(-facts.threads_per_block // 32) > by_slots * sms
    if by_slots >= most or not enough:
        return None
    grown = min(most / by_slots, factor)
    issued = sum(r.issued for r in context.rows.values()) / context.total
    warps = facts.warps_per_scheduler or by_slots / gpu.integer("sm.schedulers")
    paper = parallel(issued, warps, warps * grown, grown)
    why = f"blocks of {facts.threads_per_block} threads fill {by_slots} of {most} warps"
    return Match(
        context.total,
        float(context.samples.latency),
        (),
        why,
        paper=paper,
        rewrites=(Rewrite(merged=grown),),
    )


_E: Final[Category] = "stall elimination"
_H: Final[Category] = "latency hiding"
_P: Final[Category] = "parallel"
GPA_OPTIMIZERS: Final[tuple[Optimizer, ...]] = (
    Optimizer(
        "register-reuse",
        _E,
        "stalls blamed on accesses to local memory",
        "all local accesses go away, and their traffic with them",
        "keep the values in registers: constant indices, fewer live values, split loops",
        register_reuse,
        1,
    ),
    Optimizer(
        "strength-reduction",
        _E,
        "dependences on arithmetic of 10 cycles or more",
        "three instructions stay of each expansion",
        "multiply or shift in place of a division, avoid conversions",
        strength_reduction,
        1,
    ),
    Optimizer(
        "function-split",
        _E,
        "stalls for instructions not fetched",
        "all of them go away",
        "split the function or the loop so that its code fits the instruction cache",
        function_split,
        1,
    ),
    Optimizer(
        "fast-math",
        _E,
        "samples in expansions of exact functions",
        "five instructions stay of each function",
        "use the intrinsic functions or --use_fast_math where their accuracy is enough",
        fast_math,
        1,
    ),
    Optimizer(
        "warp-balance",
        _E,
        "stalls at barriers",
        "no warp waits for another",
        "give the warps of a block equal work, or fewer barriers",
        warp_balance,
        1,
    ),
    Optimizer(
        "memory-transaction-reduction",
        _E,
        "throttling of global memory, loads alike for all threads in a loop",
        "loads of loops come from shared memory, a quarter of their sectors is left; loads alike for all go",
        "wider loads, shared or constant memory for what threads share",
        memory_transaction_reduction,
    ),
    Optimizer(
        "loop-unrolling",
        _H,
        "dependences inside one loop",
        "iterations are independent but for sums; from 4 on words of shared memory come in pairs",
        "unroll the loop (#pragma unroll), loads first",
        loop_unrolling,
    ),
    Optimizer(
        "code-reordering",
        _H,
        "dependences anywhere",
        "chains of other rounds are independent; a load written a round ahead comes back but for barriers",
        "interleave independent chains; a load written earlier the compiler moves back, so unroll with it",
        code_reordering,
    ),
    Optimizer(
        "function-inlining",
        _H,
        "samples at calls and returns",
        "calls and their moves go away",
        "inline the function",
        function_inlining,
        1,
    ),
    Optimizer(
        "block-increase",
        _P,
        "fewer blocks than SMs",
        "work spreads evenly",
        "launch more, smaller blocks",
        block_increase,
    ),
    Optimizer(
        "thread-increase",
        _P,
        "block slots, not threads, limit the warps",
        "more warps hide more",
        "launch fewer, larger blocks",
        thread_increase,
    ),
)
"""Table II."""
