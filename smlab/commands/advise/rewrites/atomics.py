"""Fewer atomics on one word: lanes of a warp that add to it together, and tables for each of a few warps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from smlab.commands.advise.rewrites.parsed import (
    TYPE_BYTES,
    ParsedKernel,
    Render,
    SourceRewrite,
    TextEdit,
    walk,
)
from smlab.sim.isa.launch.launch_file import LaunchFile

LANE: Final = "((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31)"
COUNT: Final = f"""template <typename T, typename V> __device__ __forceinline__ T smlab_count(T *p, V v)
{{
    const unsigned active = __activemask(), lane = {LANE};
    const unsigned peers = %s;
    const unsigned leader = __ffs(peers) - 1;
    T old = 0;
    if (lane == leader)
        old = atomicAdd(p, (T)v * (T)__popc(peers));
    return __shfl_sync(peers, old, leader) + (T)v * (T)__popc(peers & ((1u << lane) - 1));
}}
"""
SUM: Final = f"""template <typename T, typename V> __device__ __forceinline__ void smlab_sum(T *p, V v)
{{
    T sum = (T)v;
    if (__activemask() != 0xffffffffu) {{
        atomicAdd(p, sum);
        return;
    }}
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if ({LANE} == 0)
        atomicAdd(p, sum);
}}
"""
COPIES: Final = (4, 8)
"""Of a table in shared memory."""
SHARED_BYTES: Final = 3 << 14
"""Of static shared memory, that a block may have."""


def warp_aggregated(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    """Atomic additions of a warp's lanes to one word as one: of a constant by a count of the lanes, of other
    numbers by a sum of the warp's; where lanes add to several words, those that meet."""
    calls = [n for n in walk(parsed.body) if _is_addition(parsed, n)]
    for one_word in (True, False):
        edits: list[TextEdit] = []
        lines: list[int] = []
        helpers: dict[str, str] = {}
        for call in calls:
            function = call.child_by_field_name("function")
            place, value = call.child_by_field_name("arguments").named_children
            constant = value.type == "number_literal" or not parsed.names_in(value) - set(parsed.macros)
            if constant:
                peers = "active" if one_word else "__match_any_sync(active, (unsigned long long)p)"
                name, helper = "smlab_count", COUNT % peers
            elif one_word and call.parent.type == "expression_statement":
                name, helper = "smlab_sum", SUM
            else:
                continue
            if one_word and _differs(parsed, place):
                continue
            helpers[name] = helper
            edits.append(TextEdit(function.start_byte, function.end_byte, name))
            lines.append(parsed.line(call))
        if edits:
            edits.append(TextEdit(parsed.top, parsed.top, "".join(helpers.values())))
            which = "the lanes of a warp" if one_word else "lanes that meet on a word"
            told = f"one atomic for {which} at line {', '.join(map(str, lines))}"
            yield SourceRewrite("warp-aggregation", told, tuple(edits))


def _is_addition(parsed: ParsedKernel, node: Any) -> bool:
    return bool(
        node.type == "call_expression"
        and parsed.of(node.child_by_field_name("function")) == "atomicAdd"
        and len(node.child_by_field_name("arguments").named_children) == 2
    )


def _differs(parsed: ParsedKernel, place: Any) -> bool:
    """Whether the index of a place is computed from something, so that lanes may have several."""
    names = parsed.names_in(place) - set(parsed.macros)
    scalars = {p.name for p in parsed.parameters if not p.pointer}
    inside = {n for n in names if not parsed.declared.get(n, " *").endswith(" *")}
    return bool(inside - scalars) or "threadIdx" in parsed.of(place)


def own_tables(parsed: ParsedKernel, launch: LaunchFile) -> Iterator[SourceRewrite]:
    """A table in shared memory that atomics add to, once for each of a few warps: what is set is set in all,
    what is read is the sum of all."""
    for node in walk(parsed.body):
        if node.type != "declaration" or "__shared__" not in parsed.of(node):
            continue
        element = parsed.of(node.child_by_field_name("type"))
        for one in node.children_by_field_name("declarator"):
            inner = one.child_by_field_name("declarator") if one.type == "array_declarator" else None
            if inner is None or inner.type != "identifier" or element not in TYPE_BYTES:
                continue
            for copies in COPIES:
                yield from _copied(parsed, launch, one, element, copies)


def _copied(
    parsed: ParsedKernel, launch: LaunchFile, declared: Any, element: str, copies: int
) -> Iterator[SourceRewrite]:
    table = declared.child_by_field_name("declarator")
    name, size = parsed.of(table), declared.child_by_field_name("size")
    words = parsed.of(size)
    many = int(words) if words.isdecimal() else parsed.macros.get(words, 0)
    uses = [n for n in walk(parsed.body) if n.type == "identifier" and parsed.of(n) == name and n != table]
    added = [u for u in uses if _is_addition(parsed, _call_of(u))]
    threads = 1 if launch.threads is None else launch.threads[0] * launch.threads[1] * launch.threads[2]
    fits = 0 < many * copies * TYPE_BYTES[element] <= SHARED_BYTES
    if not added or not fits or copies * 32 > threads:
        return
    if any(u.parent.type != "subscript_expression" for u in uses if u not in added):
        return
    mine = f"(({LANE.replace(' & 31', ' / 32')}) % {copies}) * ({words})"

    def rule(node: Any, render: Render) -> str | None:
        if node.type == "assignment_expression":
            left, operator = node.child_by_field_name("left"), node.child_by_field_name("operator").type
            if (
                left.type == "subscript_expression"
                and parsed.of(left.child_by_field_name("argument")) == name
            ):
                index = render(left.child_by_field_name("indices").named_children[0])
                value = render(node.child_by_field_name("right"))
                sets = "0" if operator == "=" and value in ("0", "0.0f", "0u", "0.f") else None
                each = [f"{name}[{c} * ({words}) + ({index})]" for c in range(copies)]
                return None if sets is None else f"({' = '.join(each)} = {sets})"
        if node.type == "subscript_expression" and parsed.of(node.child_by_field_name("argument")) == name:
            index = render(node.child_by_field_name("indices").named_children[0])
            if _is_addition(parsed, _call_of(node.child_by_field_name("argument"))):
                return f"{name}[{mine} + ({index})]"
            return "(" + " + ".join(f"{name}[{c} * ({words}) + ({index})]" for c in range(copies)) + ")"
        return None

    edits = [*parsed.edits(rule), TextEdit(size.start_byte, size.end_byte, f"{copies} * ({words})")]
    told = f"{copies} copies of {name}, one for each of {copies} warps"
    yield SourceRewrite("own-counters", told, tuple(edits))


def _call_of(use: Any) -> Any:
    """The call that a name is in the first argument of, as ``&name[i]``; else the name itself."""
    node = use
    while node.parent is not None and node.parent.type in ("subscript_expression", "pointer_expression"):
        if node.parent.type == "subscript_expression" and node.parent.child_by_field_name("argument") != node:
            return use
        node = node.parent
    listed = node.parent
    if listed is not None and listed.type == "argument_list" and listed.named_children[0] == node:
        return listed.parent
    return use
