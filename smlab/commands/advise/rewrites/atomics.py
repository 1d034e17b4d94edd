"""Fewer atomics on one word: lanes of a warp that add to it together, and tables for each of a few warps."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from smlab.commands.advise.rewrites.parsed import (
    TYPE_BYTES,
    ParsedKernel,
    Render,
    SourceRewrite,
    TextEdit,
    walk,
    whole_number,
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
TREE: Final = "for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);"
"""Of all lanes of a warp."""
SUM: Final = f"""template <typename T, typename V> __device__ __forceinline__ void smlab_sum(T *p, V v)
{{
    T sum = (T)v;
    if (__activemask() != 0xffffffffu) {{
        atomicAdd(p, sum);
        return;
    }}
    {TREE}
    if ({LANE} == 0)
        atomicAdd(p, sum);
}}
"""
MEETING: Final = f"""template <typename T, typename V>
__device__ __forceinline__ void smlab_meeting(T *p, V v)
{{
    const unsigned active = __activemask(), lane = {LANE};
    const unsigned peers = __match_any_sync(active, (unsigned long long)p);
    T sum = (T)v;
    if (peers == 0xffffffffu) {{
        {TREE}
    }} else {{
        unsigned place = __popc(peers & ((1u << lane) - 1));
        unsigned behind = peers & ~((2u << lane) - 1);
        while (__any_sync(peers, behind)) {{
            const int next = __ffs(behind) - 1;
            const T other = __shfl_sync(peers, sum, next < 0 ? lane : next);
            if (next >= 0)
                sum += other;
            behind &= ~__ballot_sync(peers, place & 1);
            place >>= 1;
        }}
    }}
    if (lane == __ffs(peers) - 1)
        atomicAdd(p, sum);
}}
"""
"""Lanes that meet on a word add up pair by pair: in each round every second one of them is done."""
TOTAL: Final = """template <int N, int STRIDE, typename T>
__device__ __forceinline__ T smlab_total(const T *t)
{
    T sum = 0;
    _Pragma("unroll 8") for (int c = 0; c < N; c++)
        sum += t[(c + threadIdx.x) % N * STRIDE];
    return sum;
}
template <int N, int STRIDE, typename T> __device__ __forceinline__ T smlab_set(T *t, T v)
{
    for (int c = 0; c < N; c++)
        t[c * STRIDE] = v;
    return v;
}
"""
COPIES: Final = (4, 8)
"""Of a table in shared memory, for warps in turn."""
LANES: Final = 32
"""Of a warp: as many copies, side by side, for its lanes, which then never meet on a word or a bank."""
SHARED_BYTES: Final = 3 << 14
"""Of static shared memory, that a block may have."""


def warp_aggregated(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    """Atomic additions of a warp's lanes to one word as one: of a constant by a count of the lanes, of other
    numbers by a sum of the warp's; where lanes may add to several words, of those that meet."""
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
            elif call.parent.type != "expression_statement":
                continue
            else:
                name, helper = ("smlab_sum", SUM) if one_word else ("smlab_meeting", MEETING)
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
    """A table in shared memory that atomics add to, once for each of a few warps or for each lane: what is
    set is set in all, what is read is the sum of all. Several tables at once."""
    threads = 1 if launch.threads is None else launch.threads[0] * launch.threads[1] * launch.threads[2]
    tables = {}
    for node in walk(parsed.body):
        if node.type != "declaration" or "__shared__" not in parsed.of(node):
            continue
        element = parsed.of(node.child_by_field_name("type"))
        for one in node.children_by_field_name("declarator"):
            table = _table_of(parsed, one)
            if table is not None and element in TYPE_BYTES and _is_added_to(parsed, table):
                tables[table.name] = dataclasses.replace(table, bytes=TYPE_BYTES[element] * table.words)
    for copies in (*COPIES, LANES):
        fits = sum(table.bytes for table in tables.values()) * copies <= SHARED_BYTES
        if tables and fits and (copies == LANES or copies * LANES <= threads):
            yield _copied(parsed, tables, copies)


@dataclasses.dataclass(frozen=True)
class _SharedTable:
    """An array in shared memory: the name, its declarator, the sizes of its axes as text and as numbers."""

    name: str
    node: Any
    sizes: tuple[Any, ...]
    axes: tuple[int, ...]
    bytes: int = 0

    @property
    def words(self) -> int:
        return math.prod(self.axes)


def _table_of(parsed: ParsedKernel, declared: Any) -> _SharedTable | None:
    sizes: list[Any] = []
    inner = declared
    while inner is not None and inner.type == "array_declarator":
        sizes.insert(0, inner.child_by_field_name("size"))
        inner = inner.child_by_field_name("declarator")
    if inner is None or inner.type != "identifier" or not sizes or None in sizes:
        return None
    axes = tuple(whole_number(parsed.of(size), parsed.macros) or 0 for size in sizes)
    return _SharedTable(parsed.of(inner), inner, tuple(sizes), axes) if all(axes) else None


def _is_added_to(parsed: ParsedKernel, table: _SharedTable) -> bool:
    """Whether atomics add to a table, and all else is set or read element by element."""
    uses = [n for n in walk(parsed.body) if n.type == "identifier" and parsed.of(n) == table.name]
    uses = [use for use in uses if use != table.node]
    added = [use for use in uses if _is_addition(parsed, _call_of(use))]
    return bool(added) and all(use.parent.type == "subscript_expression" for use in uses if use not in added)


def _copied(parsed: ParsedKernel, tables: Mapping[str, _SharedTable], copies: int) -> SourceRewrite:
    """The tables with copies: those of warps one behind the other, those of lanes word by word."""
    lanes = copies == LANES
    mine = LANE if lanes else f"(({LANE.replace(' & 31', ' / 32')}) % {copies})"

    def rule(node: Any, render: Render) -> str | None:
        if node.type == "assignment_expression":
            left, operator = node.child_by_field_name("left"), node.child_by_field_name("operator").type
            place = _place(left, render)
            if place is not None and operator == "=":
                value = render(node.child_by_field_name("right"))
                name, element = place
                return f"smlab_set<{copies}, {stride(name)}>(&{name}[{element}], ({kind(name)})({value}))"
            return None
        place = _place(node, render)
        if place is None:
            return None
        name, element = place
        if _is_addition(parsed, _call_of(_root(node))):
            return f"{name}[{element} + {mine} * {stride(name)}]"
        return f"smlab_total<{copies}, {stride(name)}>(&{name}[{element}])"

    def stride(name: str) -> int:
        return 1 if lanes else tables[name].words

    def kind(name: str) -> str:
        return parsed.of(tables[name].node).join(("decltype(+", "[0])"))

    def _place(node: Any, render: Render) -> tuple[str, str] | None:
        """A table's name and the place of its element, without that of the copy."""
        indices: list[str] = []
        while node.type == "subscript_expression":
            indices.insert(0, render(node.child_by_field_name("indices").named_children[0]))
            node = node.child_by_field_name("argument")
        name = parsed.of(node)
        if name not in tables or len(indices) != len(tables[name].axes):
            return None
        flat = f"({indices[0]})"
        for index, many in zip(indices[1:], tables[name].axes[1:], strict=True):
            flat = f"({flat} * {many} + ({index}))"
        return name, f"{flat} * {copies}" if lanes else flat

    edits = [*parsed.edits(rule), TextEdit(parsed.top, parsed.top, TOTAL)]
    for table in tables.values():
        first, last = table.sizes[0], table.sizes[-1]
        edits.append(TextEdit(first.start_byte, last.end_byte, f"{copies * table.words}"))
    names = ", ".join(tables)
    whose = "the lanes of a warp" if lanes else f"{copies} warps"
    return SourceRewrite("own-counters", f"{copies} copies of {names}, one for each of {whose}", tuple(edits))


def _root(node: Any) -> Any:
    while node.type == "subscript_expression":
        node = node.child_by_field_name("argument")
    return node


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
