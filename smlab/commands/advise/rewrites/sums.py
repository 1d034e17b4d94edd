"""Loops that add up: several sums side by side, and sums in registers in place of memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from smlab.commands.advise.rewrites.parsed import (
    TYPE_BYTES,
    CountedLoop,
    ParsedKernel,
    SourceRewrite,
    TextEdit,
    counted,
    renamed,
    walk,
)
from smlab.sim.isa.launch.launch_file import LaunchFile

SIDE_BY_SIDE: Final = (4, 2)
"""Sums side by side."""
LANES: Final = 32
JUMP: Final = re.compile(r"\b(?:break|continue|return|goto)\b")


def split_sums(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    """``for (i...) sum += f(i)`` with a sum for each of several rounds in a row, added up behind the loop, so
    that no round waits for the one before. Largest and smallest values alike."""
    for loop in walk(parsed.body):
        header = counted(parsed, loop)
        if header is None or JUMP.search(parsed.of(header.body)) or "__sync" in parsed.of(header.body):
            continue
        sums = sums_of(parsed, loop, header)
        if not sums:
            continue
        names, begin, step = ", ".join(sums), parsed.begin_of(loop), f"({header.step})"
        for parts in SIDE_BY_SIDE:
            at = f"smlab_at_{header.name}"
            made = joined = rounds = ""
            for name, (kind, choice) in sums.items():
                mine = [name, *(f"smlab_{name}{n}" for n in range(1, parts))]
                made += "".join(f" {kind} {m} = {name if choice else '0'};" for m in mine[1:])
                between = ", " if choice else " + "
                while len(mine) > 1:  # as a tree
                    mine = [f"{choice}({a}{between}{b})" for a, b in zip(mine[::2], mine[1::2], strict=True)]
                joined += f" {name} = {mine[0]};"
            for n in range(parts):
                others = {name: f"smlab_{name}{n}" for name in sums} if n else {}
                text = renamed(parsed.of(header.body), others)
                counter = header.kind.removeprefix("const ")
                rounds += f" {{ const {counter} {header.name} = {at} + {n} * {step}; {text} }}"
            new = (
                f"{{{made} {header.kind} {at} = {header.begin};"
                f" for (; {at} + {parts - 1} * {step} < {header.limit}; {at} += {parts} * {step})"
                f" {{{rounds} }}"
                f" for ({header.kind} {header.name} = {at}; {header.name} < {header.limit};"
                f" {header.name} += {step}) {parsed.of(header.body)}{joined} }}"
            )
            told = f"{parts} sums side by side of {names} at line {parsed.line(loop)}"
            yield SourceRewrite("split-sums", told, (TextEdit(begin, loop.end_byte, new),))


def sums_of(parsed: ParsedKernel, loop: Any, header: CountedLoop) -> dict[str, tuple[str, str]]:
    """Scalars that a loop only adds to, or only takes the largest or smallest of, by name their type and
    what chooses between two; none where it changes another scalar from outside."""
    body = header.body
    inside = {
        name
        for n in walk(body)
        if n.type == "declaration"
        for d in n.children_by_field_name("declarator")
        for name in parsed.changed_in(n) | ({parsed.of(d)} if d.type == "identifier" else set())
    }
    found: dict[str, tuple[str, str]] = {}
    for name in sorted(parsed.changed_in(body) - inside):
        kind = parsed.declared.get(name, "")
        uses = [n for n in walk(body) if n.type == "identifier" and parsed.of(n) == name]
        made = [_sum_at(parsed, use) for use in uses]
        if kind.endswith(" *") or name not in parsed.declared:
            continue  # an array: its elements may be written
        if kind not in TYPE_BYTES or kind[-1] in "24" or None in made or len(set(made)) != 1:
            return {}
        found[name] = (kind, made[0] or "")
    header_names = parsed.names_in(loop) - parsed.names_in(body)
    return {} if header_names & set(found) else found


def _sum_at(parsed: ParsedKernel, use: Any) -> str | None:
    """Of a name in ``name += x`` nothing, in ``name = fmaxf(name, x)`` the function; None elsewhere."""
    node, name = use, parsed.of(use)
    while node is not None and node.type != "assignment_expression":
        node = node.parent
    if node is None or parsed.of(node.child_by_field_name("left")) != name:
        return None
    right, operator = node.child_by_field_name("right"), node.child_by_field_name("operator").type
    many = sum(n.type == "identifier" and parsed.of(n) == name for n in walk(right))
    if operator == "+=":
        return "" if many == 0 else None
    if operator != "=" or many != 1:
        return None
    if right.type == "call_expression":
        arguments = right.child_by_field_name("arguments").named_children
        function = parsed.of(right.child_by_field_name("function"))
        if function in ("fmaf", "fma", "__fmaf_rn"):
            return "" if parsed.of(arguments[-1]) == name else None
        mine = name in (parsed.of(argument) for argument in arguments)
        return function if function in ("fmaxf", "fminf", "max", "min", "fmax", "fmin") and mine else None
    if right.type == "binary_expression" and right.child_by_field_name("operator").type == "+":
        return "" if name in (parsed.of(c) for c in right.named_children) else None
    return None


def sums_by_a_warp(parsed: ParsedKernel, launch: LaunchFile) -> Iterator[SourceRewrite]:
    """``if (thread == 0) for (...) sum += part[k]`` with the lanes of the first warp along the loop, whose
    sums are added by shuffles; largest and smallest values alike."""
    if launch.threads is None or launch.threads[0] % LANES:
        return
    for node in walk(parsed.body):
        if node.type != "if_statement" or node.child_by_field_name("alternative") is not None:
            continue
        condition, inside = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
        asked = re.fullmatch(r"\(\s*([\w.]+)\s*==\s*0\s*\)", parsed.of(condition))
        if asked is None or re.search(r"\batomic|__s", parsed.of(inside)):
            continue
        edits: list[TextEdit] = []
        for loop in walk(inside):
            header = counted(parsed, loop)
            sums = {} if header is None else sums_of(parsed, loop, header)
            if header is None or not sums or header.step != "1" or JUMP.search(parsed.of(header.body)):
                continue
            lane = f"({asked[1]})"
            made = behind = ""
            for name, (kind, choice) in sums.items():
                other = f"__shfl_xor_sync(0xffffffffu, smlab_{name}, smlab_lane)"
                made += f" {kind} smlab_{name} = {name if choice else '0'};"
                joined = f"{choice}(smlab_{name}, {other})" if choice else f"smlab_{name} + {other}"
                behind += (
                    f" for (int smlab_lane = 16; smlab_lane > 0; smlab_lane /= 2) smlab_{name} = {joined};"
                    f" {name} = {f'smlab_{name}' if choice else f'{name} + smlab_{name}'};"
                )
            body = renamed(parsed.of(header.body), {name: f"smlab_{name}" for name in sums})
            new = (
                f"{{{made} for ({header.kind} {header.name} = ({header.begin}) + {lane};"
                f" {header.name} < {header.limit}; {header.name} += {LANES}) {body}{behind} }}"
            )
            edits.append(TextEdit(parsed.begin_of(loop), loop.end_byte, new))
        if edits:
            edits.append(TextEdit(condition.start_byte, condition.end_byte, f"({asked[1]} < {LANES})"))
            told = f"the lanes of a warp along the loop of one thread at line {parsed.line(node)}"
            yield SourceRewrite("trees", told, tuple(edits))


def sums_in_registers(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    """Elements of arrays that a loop adds to, in registers until the loop ends."""
    for loop in walk(parsed.body):
        if loop.type not in ("for_statement", "while_statement") or JUMP.search(parsed.of(loop)):
            continue
        body, changed = loop.child_by_field_name("body"), parsed.changed_in(loop)
        places: dict[str, set[str]] = {}
        for n in walk(body):
            if n.type == "identifier" and n.parent.type == "subscript_expression":
                places.setdefault(parsed.of(n), set()).add(parsed.of(n.parent))
        begin, edits, kept = parsed.begin_of(loop), [], []
        for array, texts in places.items():
            (text, *others) = texts
            uses = [n for n in walk(loop) if n.type == "identifier" and parsed.of(n) == array]
            index = text.removeprefix(array)
            names = set(re.findall(r"[A-Za-z_]\w*", index))
            shared = re.search(rf"__shared__[^;]*\b{array}\s*\[", parsed.of(parsed.body)) is not None
            if not shared and not parsed.declared.get(array, "").endswith(" *"):
                continue  # a thread's own array is in registers
            if others or array not in changed or names & changed or "[" in index[1:]:
                continue
            if any(parsed.of(use.parent) != text for use in uses) or "__sync" in parsed.of(body):
                continue
            if any(use.parent.parent.type == "pointer_expression" for use in uses):
                continue  # atomics
            name = f"smlab_register_{array}"
            edits += [TextEdit(use.parent.start_byte, use.parent.end_byte, name) for use in uses]
            kept.append((name, text))
        if kept:
            before = "".join(f" auto {name} = {text};" for name, text in kept)
            behind = "".join(f" {text} = {name};" for name, text in kept)
            edits.append(TextEdit(begin, begin, f"{{{before}\n"))
            edits.append(TextEdit(loop.end_byte, loop.end_byte, f"{behind} }}"))
            names_of = ", ".join(text for _, text in kept)
            told = f"{names_of} in a register while the loop at line {parsed.line(loop)} runs"
            yield SourceRewrite("register-sum", told, tuple(edits))
