"""Changes of shared memory: padded rows, counters of a block's own, fewer barriers; and of a kernel's launch
bounds."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from typing import Any, Final

import numpy as np

from smlab.commands.advise.rewrites.layouts import fields_of, row_width
from smlab.commands.advise.rewrites.parsed import (
    SYNC,
    TYPE_BYTES,
    ParsedKernel,
    Render,
    SourceRewrite,
    TextEdit,
    around,
    walk,
    whole_number,
)
from smlab.sim.isa.launch.launch_file import LaunchFile

TABLE_BYTES: Final = 1 << 15
"""Of a block's own counters: more would keep other blocks from the SM."""
LANES: Final = 32
COUNTED: Final = ("int", "unsigned", "unsigned int", "float")
NARROWED: Final = ("int", "unsigned", "unsigned int")
LEAST_NARROWED: Final = 1 << 11
"""Bytes of an array: of smaller ones it does not pay."""
_GROWN: Final = re.compile(
    r"(\w+)\s*=\s*1\s*;\s*\1\s*<([^;=]*);\s*\1\s*(?:\*=\s*2|<<=\s*1|\+=\s*\1|=\s*\1\s*\*\s*2)\s*\)\s*$"
)
"""The header of a tree that grows from its leaves."""
_SPREAD: Final = "__host__ __device__ constexpr int smlab_spread(int i) { return i + (i >> 5); }\n"
BOUNDS: Final = re.compile(r"__launch_bounds__\s*\(([^(),]*),([^()]*)\)")
_THREAD: Final = "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)"
_THREADS: Final = "blockDim.x * blockDim.y * blockDim.z"


def padded_rows(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    """Shared arrays of two dimensions, a word longer in each row, and pointers to their rows."""
    edits, names = [], []
    for node in walk(parsed.root):
        if node.type != "declaration" or "__shared__" not in parsed.of(node):
            continue
        for one in node.children_by_field_name("declarator"):
            inner = one.child_by_field_name("declarator") if one.type == "array_declarator" else None
            if inner is None or inner.type != "array_declarator":
                continue
            size = one.child_by_field_name("size")
            edits.append(TextEdit(size.start_byte, size.end_byte, f"({parsed.of(size)}) + 1"))
            names.append(re.split(r"\W", parsed.of(inner))[0])
    edits += _pointers_to_rows(parsed, names)
    flat = list(_flat_rows(parsed))
    edits += [edit for _, of in flat for edit in of]
    names += [name for name, _ in flat]
    if edits:
        yield SourceRewrite("padded-rows", f"rows of {', '.join(names)} a word longer", tuple(edits))
    yield from _spread_words(parsed)


_ROWS: Final = re.compile(
    r"\(\s*[*&]\s*\w+\s*\)(?:\s*\[[^\]]*\])*\s*\[(?P<size>[^\]]*)\]\s*=\s*(?P<array>\w+)"
)
"""``(*rows)[32] = array``, which the parser takes for an assignment, and ``(&rows)[32][32] = array``."""


def _pointers_to_rows(parsed: ParsedKernel, arrays: Collection[str]) -> Iterator[TextEdit]:
    """The rows of pointers and references to ``arrays`` and their parts, a word longer."""
    for match in _ROWS.finditer(parsed.text, parsed.body.start_byte, parsed.body.end_byte):
        if match["array"] in arrays:
            yield TextEdit(*match.span("size"), f"({match['size']}) + 1")


def _flat_arrays(parsed: ParsedKernel, root: Any) -> Iterator[tuple[Any, Any]]:
    """The sizes and names of shared arrays of one dimension."""
    for node in walk(root):
        if node.type != "declaration" or "__shared__" not in parsed.of(node):
            continue
        for one in node.children_by_field_name("declarator"):
            size = one.child_by_field_name("size") if one.type == "array_declarator" else None
            inner = one.child_by_field_name("declarator")
            if size is not None and inner.type == "identifier":
                yield size, inner


def _spread_words(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    """Shared arrays of one dimension, with a word left free after each 32: steps of a power of two then meet
    other banks."""
    edits: list[TextEdit] = []
    names: set[str] = set()
    for size, inner in _flat_arrays(parsed, parsed.body):
        uses = [n for n in walk(parsed.body) if n.type == "identifier" and parsed.of(n) == parsed.of(inner)]
        words = parsed.of(size)
        few = (int(words) if words.isdecimal() else parsed.macros.get(words, LANES + 1)) <= LANES
        if not few and all(use.parent.type == "subscript_expression" for use in uses if use != inner):
            names.add(parsed.of(inner))
            edits.append(TextEdit(size.start_byte, size.end_byte, f"smlab_spread({parsed.of(size)})"))

    def rule(node: Any, render: Render) -> str | None:
        if node.type != "subscript_expression":
            return None
        array = parsed.of(node.child_by_field_name("argument"))
        index = node.child_by_field_name("indices").named_children[0]
        return f"{array}[smlab_spread({render(index)})]" if array in names else None

    if names:
        at = parsed.top
        edits = [TextEdit(at, at, _SPREAD), *edits, *parsed.edits(rule)]
        text = f"a word left free after each 32 of {', '.join(sorted(names))}"
        yield SourceRewrite("padded-rows", text, tuple(edits))


def _flat_rows(parsed: ParsedKernel) -> Iterator[tuple[str, list[TextEdit]]]:
    """Shared arrays of one dimension that are used as rows of a whole number of half warps' words."""
    for size, inner in _flat_arrays(parsed, parsed.root):
        name = parsed.of(inner)
        uses = [n.parent for n in walk(parsed.body) if n.type == "identifier" and parsed.of(n) == name]
        found = [row_width(parsed, u, parsed.macros) for u in uses if u != inner.parent]
        widths = {parsed.of(width) for width in found if width is not None}
        if not found or None in found or len(widths) != 1:
            continue
        (width,) = widths
        if (int(width) if width.isdecimal() else parsed.macros.get(width, 1)) % (LANES // 2):
            continue
        longer = f"(({width}) + 1)"
        edits = [TextEdit(w.start_byte, w.end_byte, longer) for w in found if w is not None]
        text = f"({parsed.of(size)}) / ({width}) * {longer}"
        yield name, [*edits, TextEdit(size.start_byte, size.end_byte, text)]


def narrower_shared(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    """Whole numbers in shared memory as bytes, or as words of 16 bits, so that more blocks are resident.
    Right where they are small, which the results tell."""
    for kind in ("unsigned char", "short"):
        edits, names = [], []
        for node in walk(parsed.body):
            declared = node.child_by_field_name("type") if node.type == "declaration" else None
            if declared is None or "__shared__" not in parsed.of(node):
                continue
            shared = re.findall(r"(\w+)\s*((?:\[[^]]+\])+)", parsed.of(node))
            axes = [axis for _, of in shared for axis in re.findall(r"\[([^]]+)\]", of)]
            words = math.prod(whole_number(axis, parsed.macros) or 0 for axis in axes)
            if parsed.of(declared) in NARROWED and len(shared) == 1 and words * 4 >= LEAST_NARROWED:
                names.append(shared[0][0])
                edits.append(TextEdit(declared.start_byte, declared.end_byte, kind))
        uses = [parsed.of(n) for n in walk(parsed.body) if n.type == "pointer_expression"]
        if edits and not any(re.search(rf"\b{name}\b", use) for name in names for use in uses):
            yield SourceRewrite("less-shared", f"{', '.join(names)} of type {kind}", tuple(edits))


def other_block_bounds(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    """Launch bounds that ask for no number of resident blocks, or for half as many, so that a thread may have
    more registers."""
    found = BOUNDS.search(parsed.text, parsed.kernel.start_byte, parsed.body.start_byte)
    if found is None:
        return
    threads, blocks = found[1].strip(), found[2].strip()
    half = int(blocks) // 2 if blocks.isdecimal() else 0
    for new in (f"{threads}", f"{threads}, {half}" if half > 1 else ""):
        if new:
            edit = TextEdit(found.start(), found.end(), f"__launch_bounds__({new})")
            yield SourceRewrite("more-registers", f"__launch_bounds__({new})", (edit,))


def inlined(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    """Functions whose text forbids the compiler to inline them."""
    edits = tuple(
        TextEdit(found.start(), found.end(), "__forceinline__")
        for found in re.finditer(r"\b__noinline__\b", parsed.text)
    )
    if edits:
        yield SourceRewrite("inlined", "functions inlined", edits)


def own_counters(parsed: ParsedKernel, launch: LaunchFile) -> Iterator[SourceRewrite]:
    """Counters that each block keeps in shared memory and adds to the global ones at its end."""
    arrays = dict(zip(launch.names, launch.arguments, strict=True))
    edits, tables = [], {}
    sizes: dict[str, int] = {}
    for node in walk(parsed.body):
        if node.type != "call_expression" or parsed.of(node.child_by_field_name("function")) != "atomicAdd":
            continue
        target = node.child_by_field_name("arguments").named_children[0]
        first = next((n for n in walk(target) if n.type == "identifier"), target)  # of &p[i], of p + i
        first = _declared_from(parsed, parsed.of(first)) or first
        name = parsed.of(first)
        parameter, array = parsed.parameter(name), arrays.get(name)
        if parameter is None or not parameter.pointer:
            continue
        kinds = set(fields_of(parsed, parameter.element).values()) or {parameter.element}
        if len(kinds) > 1 or not kinds <= set(COUNTED):
            continue
        words = _bounded(parsed, target, np.asarray(array).size)
        if isinstance(array, np.ndarray) and words * array.itemsize <= TABLE_BYTES:
            (tables[name],) = kinds
            sizes[name] = max(words, sizes.get(name, 0))
            edit = TextEdit(first.start_byte, first.end_byte, f"smlab_own_{name}")
            edits += [edit] if edit not in edits else []
    size = sum(sizes[name] * TYPE_BYTES[element] for name, element in tables.items())
    if not tables or size > TABLE_BYTES or parsed.outer.type == "template_declaration":
        return
    body_at = parsed.body.start_byte
    listed = next(n for n in walk(parsed.kernel) if n.type == "parameter_list")
    head = parsed.text[parsed.kernel.start_byte : listed.start_byte]
    head = re.sub(
        r"__launch_bounds__\s*\([^()]*\)", "", head.replace("__global__", "__device__ __forceinline__")
    )
    head = re.sub(rf"\b{parsed.name}\b", "smlab_body", head)
    edits.append(TextEdit(parsed.kernel.start_byte, listed.start_byte, head))
    kinds_of = {p.name: p.element for p in parsed.parameters if p.name in tables}
    more = "".join(f", {kinds_of[name]} *smlab_own_{name}" for name in tables)
    edits.append(TextEdit(listed.end_byte - 1, listed.end_byte - 1, more))
    given = ", ".join(
        [*(p.name for p in parsed.parameters), *(f"({kinds_of[name]} *)smlab_own_{name}" for name in tables)]
    )
    new = parsed.text[parsed.outer.start_byte : body_at] + " {"
    walked = f"for (int smlab_i = {_THREAD}; smlab_i < %d; smlab_i += {_THREADS})"
    for name, many in sizes.items():
        element = tables[name]
        new += (
            f" __shared__ {element} smlab_own_{name}[{many}]; {walked % many} smlab_own_{name}[smlab_i] = 0;"
        )
    new += f" {SYNC} smlab_body({given}); {SYNC}"
    for name, many in sizes.items():
        target = f"(({tables[name]} *){name})"
        new += f" {walked % many} atomicAdd(&{target}[smlab_i], smlab_own_{name}[smlab_i]);"
    edits.append(TextEdit(parsed.outer.end_byte, parsed.outer.end_byte, f"\n{new} }}\n"))
    text = f"{', '.join(tables)} counted by each block in shared memory, added up at its end"
    yield SourceRewrite("own-counters", text, tuple(edits))


def _bounded(parsed: ParsedKernel, target: Any, words: int) -> int:
    """How many words an index comes to, where a mask or a remainder at its end tells; else all."""
    found = re.search(r"(&|%)\s*(0[xX][\da-fA-F]+|\w+)u?\s*\)?\s*\]\s*$", parsed.of(target))
    if found is None:
        return words
    value = parsed.macros.get(found[2]) or (
        int(found[2], 0) if re.fullmatch(r"0[xX]\w+|\d+", found[2]) else 0
    )
    return min(words, value + (found[1] == "&")) if value else words


def _declared_from(parsed: ParsedKernel, name: str) -> Any:
    """The first name in what a pointer of the body is declared as."""
    for node in walk(parsed.body):
        target = node.child_by_field_name("declarator") if node.type == "init_declarator" else None
        if target is not None and target.type == "pointer_declarator" and name in parsed.names_in(target):
            return next((n for n in walk(node.child_by_field_name("value")) if n.type == "identifier"), None)
    return None


def trees(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    """Trees in shared memory whose last levels one warp climbs: by shuffles where a level is one operation on
    one array, else without barriers of the block."""
    shuffles: dict[bool, list[TextEdit]] = {False: [], True: []}
    warps: list[TextEdit] = []
    lines: list[int] = []
    for loop in walk(parsed.body):
        if loop.type != "for_statement":
            continue
        head = parsed.text[loop.start_byte : loop.child_by_field_name("body").start_byte]
        found = re.search(r"(\w+)\s*(?:/=\s*2|>>=\s*1|=\s*\1\s*/\s*2|=\s*\1\s*>>\s*1)\s*\)\s*$", head)
        body = loop.child_by_field_name("body")
        grown = _GROWN.search(head)
        if grown is not None and body.type == "compound_statement" and SYNC in parsed.of(body):
            for twice, edits in shuffles.items():
                edits += _shuffled(parsed, loop, grown[2], grown[1], len(lines) + 1, twice) or []
            if any(shuffles.values()):
                lines.append(parsed.line(loop))
            continue
        if found is None or body.type != "compound_statement":
            continue
        half = found[1]
        syncs = [s for s in body.named_children if parsed.of(s).replace(" ", "") == SYNC]
        if len(syncs) != 1 or not re.search(rf"<\s*{half}\b|{half}\s*>", parsed.of(body)):
            continue
        inside = f"if ({half} > 32) {SYNC} else __syncwarp();"
        warp_edits = [
            TextEdit(syncs[0].start_byte, syncs[0].end_byte, inside),
            TextEdit(loop.end_byte, loop.end_byte, SYNC),
        ]
        warps += warp_edits
        lines.append(parsed.line(loop))
        for twice, edits in shuffles.items():
            edits += _shuffled(parsed, loop, head, half, len(lines), twice) or warp_edits
    if lines:
        where = ", ".join(map(str, lines))
        for twice, edits in shuffles.items():
            if edits and edits != warps:
                how = f"shuffles in place of the tree at line {where}{', among warps too' if twice else ''}"
                yield SourceRewrite("trees", how, tuple(edits))
        yield SourceRewrite(
            "trees", f"no barrier of the block in a tree's last levels at line {where}", tuple(warps)
        )


def _shuffled(
    parsed: ParsedKernel, loop: Any, head: str, half: str, number: int, twice: bool
) -> list[TextEdit] | None:
    """``part[t] = x; barrier; tree`` as shuffles, of one array or several; what reads ``part[0]`` behind it
    takes the result. Between warps each thread goes over their results, or they are shuffled ``twice``."""
    begun = re.search(rf"\b{half}\s*=([^;]*);", head)
    threads = f"(2 * ({begun[1].strip()}))" if begun is not None else f"({head.strip()})"
    body, block = loop.child_by_field_name("body"), loop.parent
    condition = next((s for s in body.named_children if s.type == "if_statement"), None)
    if condition is None or block.type != "compound_statement":
        return None
    twofold = rf"\(?\s*(?:2\s*\*\s*{half}|{half}\s*\*\s*2)\s*\)?"
    asked = re.fullmatch(
        rf"\(\s*(.+?)\s*(?:<\s*{half}|%\s*{twofold}\s*==\s*0)\s*\)",
        parsed.of(condition.child_by_field_name("condition")),
    )
    siblings = [s for s in block.named_children if s.type != "comment"]
    at = siblings.index(loop)
    if asked is None or at < 2 or parsed.of(siblings[at - 1]).replace(" ", "") != SYNC:
        return None
    thread = asked[1]
    step = parsed.of(condition.child_by_field_name("consequence"))
    parts = list(dict.fromkeys(re.findall(rf"(\w+)\s*\[\s*{re.escape(thread)}\s*\+\s*{half}\s*\]", step)))
    first = at - 1 - len(parts)
    begins = {}
    for statement in siblings[max(first, 0) : at - 1]:
        found = re.fullmatch(r"\s*(\w+)\s*\[([^][]+)\]\s*=\s*(.*);", parsed.of(statement), re.DOTALL)
        if found is not None and found[2].strip() == thread:
            begins[found[1]] = found[3]
    elements = {part: _shared_element(parsed, part) for part in parts}
    if not parts or set(begins) != set(parts) or any(e not in TYPE_BYTES for e in elements.values()):
        return None
    for part in parts:
        step = re.sub(rf"\b{part}\s*\[\s*{re.escape(thread)}\s*\]", f"smlab_{part}{number}", step)
        step = re.sub(rf"\b{part}\s*\[[^][]*\]", f"smlab_other_{part}{number}", step)
    lanes = "".join(
        f" const {elements[p]} smlab_other_{p}{number}"
        f" = __shfl_xor_sync(0xffffffffu, smlab_{p}{number}, smlab_lane);"
        for p in parts
    )
    warps = "".join(f" const {elements[p]} smlab_other_{p}{number} = {p}[smlab_warp];" for p in parts)
    new = "".join(f"{elements[p]} smlab_{p}{number} = {begins[p]}; " for p in parts)
    new += f'_Pragma("unroll") for (int smlab_lane = 16; smlab_lane > 0; smlab_lane /= 2) {{{lanes} {step} }}'
    new += f" if (({thread}) % 32 == 0) {{"
    new += "".join(f" {p}[({thread}) / 32] = smlab_{p}{number};" for p in parts) + f" }} {SYNC}"
    many = f"({threads} / 32)"
    if twice:
        new += "".join(f" smlab_{p}{number} = {p}[({thread}) % {many}];" for p in parts)
        new += f' _Pragma("unroll") for (int smlab_lane = {many} / 2; smlab_lane > 0; smlab_lane /= 2)'
        new += f" {{{lanes} {step} }}"
    else:
        new += "".join(f" smlab_{p}{number} = {p}[0];" for p in parts)
        new += f' _Pragma("unroll") for (int smlab_warp = 1; smlab_warp < {many}; smlab_warp++)'
        new += f" {{{warps} {step} }}"
    edits = [TextEdit(siblings[first].start_byte, loop.end_byte, new)]
    for later in siblings[at + 1 :]:
        if re.match(rf"\s*(?:{'|'.join(parts)})\s*\[", parsed.of(later)):
            break
        for n in walk(later):
            read = (
                re.fullmatch(r"(\w+)\s*\[\s*0\s*\]", parsed.of(n))
                if n.type == "subscript_expression"
                else None
            )
            if read is not None and read[1] in parts:
                edits.append(TextEdit(n.start_byte, n.end_byte, f"smlab_{read[1]}{number}"))
    return edits


def _shared_element(parsed: ParsedKernel, name: str) -> str | None:
    """The type of a shared array's elements."""
    for node in walk(parsed.body):
        text = parsed.of(node) if node.type == "declaration" else ""
        if "__shared__" in text and re.search(rf"\b{name}\s*\[", text):
            return text.replace("__shared__", "").split(name)[0].strip()
    return None


def without_barriers(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    """Each barrier of a loop left out: where nothing else makes it needless, the results tell nothing, and
    the time is that of a change which does."""
    for node in walk(parsed.body):
        if node.type == "expression_statement" and parsed.of(node).replace(" ", "") == SYNC:
            loop = around(node, "for_statement") or around(node, "while_statement")
            if loop is not None:
                line = parsed.line(node)
                needed = "a second buffer, or registers, have to make it needless"
                edits = (TextEdit(node.start_byte, node.end_byte, ";"),)
                yield SourceRewrite("barrier", f"no barrier at line {line}", edits, stands_in=needed)
    syncs = [n for n in walk(parsed.body) if n.type == "expression_statement"]
    syncs = [n for n in syncs if parsed.of(n).replace(" ", "") == SYNC]
    if syncs:
        warps = tuple(TextEdit(n.start_byte, n.end_byte, "__syncwarp();") for n in syncs)
        how = "barriers of warps in place of those of the block, where lanes of one warp alone share data"
        yield SourceRewrite("barrier", how, warps)
