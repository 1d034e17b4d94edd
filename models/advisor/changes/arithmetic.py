"""Optimizers of arithmetic: divisions, conversions and exact functions that take many instructions."""

from __future__ import annotations

from typing import Final

from smlab.hw_bench.sass import SassInstruction
from smlab.hw_bench.sass.opcodes import VARIABLE_LATENCY
from smlab.models.advisor.changes.divisions import by_what_stays, exact_divisions, integer_divisions
from smlab.models.advisor.changes.matching import (
    Context,
    Match,
    at_instructions,
    matched,
    widened_by_constants,
)
from smlab.models.advisor.changes.rewrites import Edit, Rewrite

LONG_ARITHMETIC_CYCLES: Final = 10
"""Strength reduction is for latencies from here on."""
EXPANDED: Final = 6
"""Arithmetic instructions for each MUFU of a line from which on the line is a function's expansion."""
KEPT_OF_FUNCTION: Final = 5
OWN_OF_LINE: Final = 2
"""Instructions that an intrinsic function takes: to base 2, range check, scaling, MUFU, scaling back. A line
has some arithmetic of its own beside."""
EXACT_DIVISION: Final = (12, 5)
EXACT_FUNCTIONS: Final = {
    "12582913": (9, 5),  # expf: rounds to a whole number
    "0.1408461034297943": (26, 4),  # logf, log10f
    "0.1716887056827545": (26, 3),  # log2f
    "0x3f3504f3": (71, 9),  # powf
    "0.6366197466850280": (12, 0),  # sinf, cosf: the angle by 2 / pi, once for both of one angle
    "0.0013887860113754": (16, 2),  # sinf, cosf: the polynomial
    "0xd000000": (12, 5),  # sqrtf
    "0x1800000": (10, 5),  # 1 / x: the check of its exponent
}
"""A number by which the machine code of each exact FP32 function is known, and instructions executed of it
and of its intrinsic counterpart (as NVRTC 12 compiles them, counted for sm_70)."""
KEPT_OF_INTEGER_DIVISION: Final = 3
"""Shift, and what the line adds before and after."""


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
    constant, ends = _by_constants(context)
    group |= constant
    long |= {n for n in constant if code.kinds[n] in VARIABLE_LATENCY}
    edges = [b for b in context.dependences() if b.cause in long or b.cause in divided or b.cause in constant]
    lines: dict[tuple[int | None, int], list[int]] = {}
    for n in sorted(group - long - constant):
        lines.setdefault((code.line(n), id(code.innermost_loop(n))), []).append(n)
    stay = set(ends)
    for (line, _), numbers in lines.items():
        known = integer_divisions(code, [n for n in context.rows if code.line(n) == line])
        if known:
            parts = frozenset().union(*(d.instructions for d in known))
            stay |= {n for n in numbers if n not in parts} | {d.result for d in known}
            continue
        highs = sum("HI" in code.instructions[n].modifiers and code.kinds[n] == "int" for n in numbers)
        stay |= set(numbers[-KEPT_OF_INTEGER_DIVISION * max(highs, 1) :])
    rewrite = _condensed(context, group, stay)
    why = "conversions or special functions hold up what follows"
    return matched(edges, why, rewrites=(rewrite,))


def _by_constants(context: Context) -> tuple[set[int], set[int]]:
    """All instructions of exact FP32 divisions in loops by what stays the same there, and those of them that
    become a multiplication with the reciprocal."""
    code = context.code
    divisions = [d for d, check in exact_divisions(code, context.rows) if by_what_stays(code, check)]
    return {n for d in divisions for n in d.instructions}, {d.result for d in divisions}


def _of_divisions(context: Context, long: set[int]) -> set[int]:
    """All instructions of lines with an integer division, in whatever loop: the reciprocal of a divisor that
    stays the same is taken once, before the loop that multiplies with it."""
    code = context.code
    by_line: dict[int, list[int]] = {}
    for n in context.rows:
        if (line := code.line(n)) is not None:
            by_line.setdefault(line, []).append(n)
    lines = {code.line(n) for n in long}
    groups = [ns for line, ns in by_line.items() if line in lines and divides_integers(context, ns)]
    return {n for numbers in groups for n in numbers}


def divides_integers(context: Context, numbers: list[int]) -> bool:
    """Whether some instructions of a line are the expansion of an integer division: a reciprocal between
    conversions from and to whole numbers, rounded up."""
    instructions = [context.code.instructions[n] for n in numbers]
    return any(i.opcode == "I2F" and "RP" in i.modifiers for i in instructions)


def math_lines(context: Context) -> dict[int, int]:
    """Instructions of exact mathematical functions, with how many stay of each line's: lines with a MUFU
    and a good deal of FP32 arithmetic, with the check of a division, or with the multiplication by 2 / pi
    that begins the exact reduction of an angle."""
    code = context.code
    by_line: dict[tuple[int | None, int], list[int]] = {}
    for n in context.rows:
        loop = code.innermost_loop(n)
        by_line.setdefault((code.line(n), -1 if loop is None else loop.header), []).append(n)
    counts: dict[int, int] = {}
    for (line, _), numbers in by_line.items():
        if line is None or divides_integers(context, numbers):
            continue
        special = sum(code.instructions[n].opcode == "MUFU" for n in numbers)
        floats = [n for n in numbers if code.kinds[n] in ("fp32", "int", "special", "control", "conversion")]
        executed = [n for n in floats if context.executed.get(n)]
        known = [f for n in executed for f in _functions(code.instructions[n])]
        if known:
            saved = sum(exact - fast for exact, fast in known)
            stay = max(len(executed) - saved, sum(fast for _, fast in known))
            counts |= dict.fromkeys(floats, min(stay, len(floats)))
        elif special and len(floats) >= EXPANDED * special:
            stay = KEPT_OF_FUNCTION * special + OWN_OF_LINE
            counts |= dict.fromkeys(floats, min(stay, len(floats)))
    return counts


def _functions(instruction: SassInstruction) -> list[tuple[int, int]]:
    """The exact functions that an instruction is known by: what each takes, and its intrinsic one."""
    if instruction.opcode == "FCHK":
        return [EXACT_DIVISION]
    texts = [o.text.lstrip("-") for o in instruction.operands if o.kind == "immediate"]
    return [size for mark, size in EXACT_FUNCTIONS.items() if any(t.startswith(mark) for t in texts)]


def fast_math(context: Context, factor: float) -> Match | None:
    lines = math_lines(context)
    group = set(lines)
    if not group:
        return None
    rewrite = _condensed(context, group, _staying(context, lines))
    return at_instructions(context, group, "exact functions take many instructions", (rewrite,))


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
    staying: set[int] = set()
    for numbers in by_line.values():
        code = context.code
        order = sorted(
            (n for n in numbers if context.executed.get(n)),
            key=lambda n: (code.instructions[n].opcode != "MUFU", -n),
        )
        staying |= set(order[: lines[numbers[0]]])
    return staying
