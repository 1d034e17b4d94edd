"""The eleven optimizers of Zhou et al.'s Table II, with our estimate beside theirs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from smlab.hw_bench.sass.opcodes import VARIABLE_LATENCY, is_load
from smlab.models.advisor.blame import SYNCHRONIZATION, Blame
from smlab.models.advisor.code import LoopOf
from smlab.models.advisor.estimators import Effect, parallel
from smlab.models.advisor.matching import (
    Category, Context, Match, Optimizer, at_instructions, matched, widened_by_constants,
)  # fmt: skip
from smlab.models.advisor.rewrite import Edit, Rewrite
from smlab.models.advisor.slicing import definitions, same_for_all

LONG_ARITHMETIC_CYCLES: Final = 10
"""Strength reduction is for latencies from here on."""
READ_AGAIN: Final = 0.15
"""DRAM's sectors over those that accesses fill, up to which data are read again and again."""
EXPANDED: Final = 6
"""Arithmetic instructions for each MUFU of a line from which on the line is a function's expansion."""
KEPT_OF_FUNCTION: Final = 5
KEPT_OF_DIVISION: Final = 8
OWN_OF_LINE: Final = 2
"""Instructions that an intrinsic function takes: to base 2, range check, scaling, MUFU, scaling back; a fast
division checks its range. A line has some arithmetic of its own beside."""
KEPT_OF_INTEGER_DIVISION: Final = 3
"""Shift, and what the line adds before and after."""


def register_reuse(context: Context, factor: float) -> Match | None:
    local = {n for n, kind in enumerate(context.code.kinds) if kind == "local"}
    edges = context.edges(lambda b: b.cause in local)
    drained = _drained_by(context, local)
    saved = (sum(b.samples for b in edges) + drained) / context.total
    loads = _without(context, local)
    rewrite = _in_registers(context, local)
    why = "values are spilled to local memory, or indexed there"
    return matched(edges, Effect(saved, loads), why, rewrites=(rewrite,))


def _in_registers(context: Context, local: set[int]) -> Rewrite:
    """Spills go. What an index that changes picks becomes a choice among all words of the frame."""
    words = frame_words(context)
    edits, gone = {}, set()
    for n in local:
        operand = next(o for o in context.code.instructions[n].operands if o.kind == "memory")
        indexed = any(r != "R1" for r in operand.registers)
        if indexed and words:
            edits[n] = Edit(chain=max(words - 1, 1))
        else:
            gone.add(n)
    return Rewrite(removed=frozenset(gone), edits=edits)


def frame_words(context: Context) -> int:
    """Words of the stack frame, from what is subtracted from the stack pointer R1."""
    for n, instruction in enumerate(context.code.instructions):
        if "R1" in context.code.effects[n].writes & context.code.effects[n].reads:
            values = [o.value for o in instruction.operands if o.kind == "immediate" and o.value]
            if values:
                return abs(min(values, key=abs)) // 4
    return 0


def _drained_by(context: Context, stores: set[int]) -> float:
    """Samples of warps that wait at their end for stores, as far as these are the ones."""
    all_stores = {
        n for n, i in enumerate(context.code.instructions) if i.opcode in ("STG", "STL", "ST", "RED", "REDG")
    }
    total = sum(context.executed.get(n, 0.0) for n in all_stores)
    mine = sum(context.executed.get(n, 0.0) for n in stores & all_stores)
    drain = sum(r.stalled.get("drain", 0) for r in context.rows.values())
    return drain * mine / total if total else 0.0


def _without(context: Context, removed: set[int]) -> dict[str, float]:
    """Loads of the resources of global memory without some of its accesses, each counted as one."""
    code = context.code
    accesses = [n for n, kind in enumerate(code.kinds) if kind in ("global", "local")]
    total = sum(context.executed.get(n, 0.0) for n in accesses)
    left = sum(context.executed.get(n, 0.0) for n in accesses if n not in removed)
    factor = left / total if total else 1.0
    loads = dict.fromkeys(("memory", "port", "l2", "dram"), factor)
    return loads | {"issue": 1 - context.share_executed(removed)}


def strength_reduction(context: Context, factor: float) -> Match | None:
    code = context.code
    long = {
        n
        for n, i in enumerate(code.instructions)
        if code.kinds[n] in ("special", "conversion")
        and i.opcode not in ("S2R", "S2UR", "CS2R", "BMOV")
        and context.latencies.expected(i) >= LONG_ARITHMETIC_CYCLES
    } - widened_by_constants(context)
    functions = math_lines(context)
    divided = _of_divisions(context, long)
    group = {
        n
        for n in context.line_group(long - set(functions)) | divided
        if (code.kinds[n] not in VARIABLE_LATENCY or n in long) and n not in functions
    }
    edges = [b for b in context.dependences() if b.cause in long or b.cause in divided]
    counted = context.own(group) / context.total
    keep = 2 * len({(code.line(n), id(code.innermost_loop(n))) for n in long}) / max(len(group), 1)
    effect = Effect(counted * max(1 - keep, 0.0), _lighter(context, group, keep))
    lines: dict[object, list[int]] = {}
    for n in sorted(group - long):
        lines.setdefault((code.line(n), id(code.innermost_loop(n))), []).append(n)
    stay: set[int] = set()
    for numbers in lines.values():
        highs = sum("HI" in code.instructions[n].modifiers and code.kinds[n] == "int" for n in numbers)
        stay |= set(numbers[-KEPT_OF_INTEGER_DIVISION * max(highs, 1) :])
    rewrite = _condensed(context, group, stay)
    why = "conversions or special functions hold up what follows"
    return matched(edges, effect, why, rewrites=(rewrite,))


def _of_divisions(context: Context, long: set[int]) -> set[int]:
    """All instructions of lines with an integer division, in whatever loop: the reciprocal of a divisor that
    stays the same is taken once, before the loop that multiplies with it."""
    code = context.code
    by_line: dict[int, list[int]] = {}
    for n in context.rows:
        if (line := code.line(n)) is not None:
            by_line.setdefault(line, []).append(n)
    lines = {code.line(n) for n in long}
    found = [ns for line, ns in by_line.items() if line in lines and divides_integers(context, ns)]
    return {n for numbers in found for n in numbers}


def _lighter(context: Context, group: set[int], keep: float) -> dict[str, float]:
    """Loads of issue and pipes when of a group of instructions only a part is kept."""
    code, loads = context.code, {}
    pipes = {"fp32": "fp32", "int": "int32", "fp64": "fp64", "special": "sfu", "conversion": "sfu"}
    for pipe in ("fp32", "int32", "fp64", "sfu"):
        mine = [n for n, kind in enumerate(code.kinds) if pipes.get(kind) == pipe]
        total = sum(context.executed.get(n, 0.0) for n in mine)
        gone = sum(context.executed.get(n, 0.0) for n in mine if n in group) * (1 - keep)
        loads[pipe] = 1 - gone / total if total else 1.0
    loads["issue"] = 1 - context.share_executed(group) * (1 - keep)
    return loads


def function_split(context: Context, factor: float) -> Match | None:
    edges = context.edges(lambda b: b.reason in ("no_instructions", "imc_miss"))
    saved = sum(b.samples for b in edges) / context.total
    return matched(edges, Effect(saved), "instructions are not there when they are wanted")


def divides_integers(context: Context, numbers: list[int]) -> bool:
    """Whether some instructions of a line are the expansion of an integer division: a reciprocal between
    conversions from and to whole numbers, rounded up."""
    instructions = [context.code.instructions[n] for n in numbers]
    return any(i.opcode == "I2F" and "RP" in i.modifiers for i in instructions)


def math_lines(context: Context) -> dict[int, int]:
    """Instructions of exact mathematical functions, with how many stay of each line's: lines with a MUFU
    and a good deal of FP32 arithmetic, or with the check of a division."""
    code = context.code
    by_line: dict[tuple[int | None, int], list[int]] = {}
    for n in context.rows:
        loop = code.innermost_loop(n)
        by_line.setdefault((code.line(n), -1 if loop is None else loop.header), []).append(n)
    found: dict[int, int] = {}
    for (line, _), numbers in by_line.items():
        if line is None or divides_integers(context, numbers):
            continue
        checks = sum(code.instructions[n].opcode == "FCHK" for n in numbers)
        special = sum(code.instructions[n].opcode == "MUFU" for n in numbers)
        floats = [n for n in numbers if code.kinds[n] in ("fp32", "int", "special", "control", "conversion")]
        if checks or (special and len(floats) >= EXPANDED * special):
            stay = KEPT_OF_DIVISION * checks + KEPT_OF_FUNCTION * max(special - checks, 0) + OWN_OF_LINE
            found |= dict.fromkeys(floats, min(stay, len(floats)))
    return found


def fast_math(context: Context, factor: float) -> Match | None:
    lines = math_lines(context)
    group = set(lines)
    if not group:
        return None
    stay = sum({(context.code.line(n), k): k for n, k in lines.items()}.values())
    keep = min(1.0, stay / len(group))
    special = {n for n in group if context.code.instructions[n].opcode == "MUFU"}
    waits = sum(b.samples for b in context.edges(lambda b: b.cause in special))
    fixed = context.gpu.number("pipe.fp32.latency_cycles") + 1
    left = waits + keep * sum(context.in_cycles(n, fixed) for n in group)
    saved = max(context.own(group) - left, 0.0) / context.total
    effect = Effect(saved, _lighter(context, group, keep))
    rewrite = _condensed(context, group, _staying(context, lines))
    return at_instructions(context, group, effect, "exact functions take many instructions", (rewrite,))


def _condensed(context: Context, group: set[int], stay: set[int]) -> Rewrite:
    """A group of instructions of which some stay, one hanging on the other."""
    latency = round(context.gpu.number("pipe.fp32.latency_cycles"))
    stalls = {n: Edit(stall=max(latency, context.code.stalls[n])) for n in stay}
    return Rewrite(removed=frozenset(group - stay), edits=stalls, condensed=True)


def _staying(context: Context, lines: dict[int, int]) -> set[int]:
    """What stays of exact functions: of each line its special functions, then its last arithmetic."""
    by_line: dict[object, list[int]] = {}
    for n in sorted(lines):
        by_line.setdefault((context.code.line(n), id(context.code.innermost_loop(n))), []).append(n)
    found: set[int] = set()
    for numbers in by_line.values():
        order = sorted(numbers, key=lambda n: (context.code.instructions[n].opcode != "MUFU", -n))
        found |= set(order[: lines[numbers[0]]])
    return found


def warp_balance(context: Context, factor: float) -> Match | None:
    edges = context.edges(lambda b: b.reason in SYNCHRONIZATION)
    saved = sum(b.samples for b in edges) / context.total
    return matched(edges, Effect(saved), "warps wait at a barrier for slower ones")


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
        saved = sum(b.samples for b in edges if b.cause in same) + sum(context.rows[n].issued for n in same)
        left = 1 - _share_of_accesses(context, same)
        loads = {"issue": 1 - context.share_executed(same), "memory": left, "port": left}
        why = "all threads load the same words: constant memory gives them as operands"
        gone = Rewrite(removed=frozenset(same))
        return matched(edges, Effect(min(saved / context.total, 0.95), loads), why, rewrites=(gone,))
    again = _read_again(context)
    edges += context.edges(lambda b: b.cause in again and b not in edges)
    saved = sum(b.samples for b in edges) / context.total
    loads = dict.fromkeys(("memory", "port", "l2"), 1 / factor)
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
    edit = Edit(shared=True, traffic=1 / factor)
    rewrites = (Rewrite(edits=dict.fromkeys(shared, edit)),) if shared else ()
    busy = any(kind == "global" for kind in code.kinds)
    return matched(edges, Effect(saved * (1 - 1 / factor), loads), why, rewrites=rewrites) if busy else None


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


def _share_of_accesses(context: Context, some: set[int]) -> float:
    kinds = context.code.kinds
    total = sum(context.executed.get(n, 0.0) for n, kind in enumerate(kinds) if kind in ("global", "local"))
    return sum(context.executed.get(n, 0.0) for n in some) / total if total else 0.0


def overhead_of(context: Context, loop: LoopOf) -> set[int]:
    """The instructions of a loop that unrolling saves: its branch, the comparison for it, and what adds a
    number to a register of its own, which becomes an offset, with its carry."""
    code = context.code
    mine = [n for n in sorted(loop.members) if code.innermost_loop(n) is loop]
    head = code.instructions[loop.header].address
    back = {n for n in mine if code.instructions[n].opcode == "BRA" and _target(context, n) == head}
    found = set(back)
    for n in mine:
        instruction, effects = code.instructions[n], code.effects[n]
        if code.kinds[n] not in ("int", "uniform") or effects.writes.isdisjoint(effects.reads):
            continue
        own = (definitions(code, n, name).paths for name in effects.writes & effects.reads)
        if not any(n in paths for paths in own):
            continue
        carries = {name for m in found for name in code.effects[m].writes if name.startswith(("P", "UP"))}
        number = any(o.kind == "immediate" for o in instruction.operands)
        if number or ("X" in instruction.modifiers and effects.reads & carries):
            found.add(n)
    guards = {name for n in back for name in code.effects[n].reads if name.startswith(("P", "UP"))}
    for n in back:
        for name in guards:
            found |= {m for m in definitions(code, n, name).paths if m in loop.members}
    return found


def _target(context: Context, number: int) -> int | None:
    """Where a branch goes."""
    operand = context.code.instructions[number].operands[-1]
    return context.code.function.labels.get(operand.label or "", operand.value)


def loop_unrolling(context: Context, factor: float) -> Match | None:
    """Stalls whose cause and use are in one loop; one wait of the loads' is left for all unrolled ones."""
    code = context.code
    edges: list[Blame] = []
    scopes: dict[int, tuple[float, float]] = {}
    free: list[Blame] = []
    for b in context.dependences():
        loop = code.common_loop(b.stalled, b.cause)
        if loop is None:
            continue
        edges.append(b)
        active, known = scopes.get(loop.header, (context.active_in(loop), 0.0))
        scopes[loop.header] = (active, known + b.latency)
        if code.kinds[b.cause] in VARIABLE_LATENCY and not _carried(context, b):
            free.append(b)
    if not edges:
        return None
    loops = [loop for loop in code.loops if loop.header in scopes]
    overhead = set().union(*(overhead_of(context, loop) for loop in loops))
    part = 1 - 1 / max(factor, 1.0)
    saved = part * (context.unqueued(free) + context.own(overhead)) / context.total
    loads = {"issue": 1 - part * context.share_executed(overhead)}
    return matched(
        edges,
        Effect(min(saved, 1.0), loads),
        "each iteration waits for its own loads",
        scopes=tuple(scopes.values()),
        rewrites=(unrolled(loops, overhead, factor),),
    )


def unrolled(loops: Iterable[LoopOf], overhead: Iterable[int], factor: float) -> Rewrite:
    """The innermost of some loops, so many rounds at a time."""
    headers = frozenset(loop.header for loop in loops)
    return Rewrite(order="unrolled", factor=round(factor), loops=headers, overhead=frozenset(overhead))


def _carried(context: Context, b: Blame) -> bool:
    """Whether a load's own address hangs on its result, so that iterations cannot overlap."""
    kind = context.code.kinds[b.cause]
    return kind in ("global", "shared", "local") and context.hangs_on(b.cause, lambda n: n == b.cause)


def code_reordering(context: Context, factor: float) -> Match | None:
    edges = context.dependences()
    latency = sum(b.latency for b in edges)
    active = float(context.samples.active)
    hidden = min(active, latency, context.unqueued(edges)) * (1 - 1 / max(factor, 1.0))
    code = context.code
    loops = {loop for b in edges if (loop := code.common_loop(b.stalled, b.cause)) is not None}
    headers = frozenset(loop.header for loop in loops)
    overhead = frozenset().union(*(overhead_of(context, loop) for loop in loops)) if loops else frozenset()
    ahead = Rewrite(order="ahead", loops=headers, overhead=overhead)
    inside = [b for b in edges if code.common_loop(b.stalled, b.cause) is not None]
    fixed = sum(b.samples for b in inside if code.kinds[b.cause] not in VARIABLE_LATENCY)
    chains = fixed > sum(b.samples for b in inside) / 2
    rewrites = (Rewrite(), unrolled(loops, overhead, factor)) if chains else (Rewrite(), ahead)
    effect = Effect(hidden / context.total)
    return matched(edges, effect, "results are used soon after they are asked for", rewrites=rewrites)


def function_inlining(context: Context, factor: float) -> Match | None:
    code = context.code
    calls = {n for n, i in enumerate(code.instructions) if i.opcode in ("CALL", "RET") and n in context.rows}
    if not calls or not context.own(calls):
        return None
    near = {m for n in calls for m in (n - 1, n - 2, n - 3, n - 4) if m in context.rows}
    moves = {n for n in near if code.instructions[n].opcode in ("MOV", "IMAD", "BMOV") and n not in calls}
    group = calls | moves
    landings = {n + 1 for n in calls} | _targets(context, calls)
    waits = [b for b in context.edges(lambda b: b.reason == "wait") if b.stalled in landings - group]
    saved = (context.own(group) + sum(b.samples for b in waits)) / context.total
    effect = Effect(saved, {"issue": 1 - context.share_executed(group)})
    why = "calls cost branches and moves, and stop the scheduler"
    return at_instructions(context, group, effect, why, (Rewrite(removed=frozenset(group)),))


def _targets(context: Context, calls: set[int]) -> set[int]:
    """Where some calls go."""
    code = context.code
    labels = {code.instructions[n].operands[-1].label for n in calls if code.instructions[n].operands}
    addresses = {code.function.labels.get(label) for label in labels if label is not None}
    return {code.number[a] for a in addresses if a in code.number}


def block_increase(context: Context, factor: float) -> Match | None:
    facts = context.samples.launch
    sms = facts.sms or context.gpu.integer("gpu.sms")
    if facts.blocks is None or facts.blocks >= sms:
        return None
    grown = min(sms, int(facts.blocks * factor)) / facts.blocks
    issued = sum(r.issued for r in context.rows.values()) / context.total
    warps = facts.warps_per_scheduler or 1.0
    paper = parallel(issued, warps, max(warps / grown, 1e-6), 1.0)
    effect = Effect(0.0, {"issue": 1 / grown, **dict.fromkeys(("memory", "port", "atomic"), 1 / grown)})
    return Match(
        context.total,
        float(context.samples.latency),
        (),
        effect,
        f"{facts.blocks} blocks leave {sms - facts.blocks} of {sms} SMs without work",
        paper=paper,
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
    return Match(context.total, float(context.samples.latency), (), Effect(warps=grown), why, paper=paper)


_E: Final[Category] = "stall elimination"
_H: Final[Category] = "latency hiding"
_P: Final[Category] = "parallel"
TABLE_TWO: Final[tuple[Optimizer, ...]] = (
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
        "two instructions stay of each expansion",
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
        "three instructions stay of each function",
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
        "a quarter of the requests does; of loads alike for all, none",
        "wider loads, shared or constant memory for what threads share",
        memory_transaction_reduction,
    ),
    Optimizer(
        "loop-unrolling",
        _H,
        "dependences inside one loop",
        "iterations are independent but for sums",
        "unroll the loop (#pragma unroll), loads first",
        loop_unrolling,
    ),
    Optimizer(
        "code-reordering",
        _H,
        "dependences anywhere",
        "there is independent code to move in between",
        "load earlier, or interleave independent chains",
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
