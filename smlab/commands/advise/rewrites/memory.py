"""Other accesses to memory: tables in constant memory, and wider loads."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from smlab.commands.advise.rewrites.layouts import arrays_of, fields_of, summands
from smlab.commands.advise.rewrites.parsed import (
    TYPE_BYTES,
    ParsedKernel,
    Render,
    SourceParameter,
    SourceRewrite,
    TextEdit,
    counted,
    walk,
)
from smlab.sim.isa.launch.launch_file import LaunchFile

CONSTANT_BYTES: Final = 1 << 16
"""Of constant memory."""
VECTOR_BYTES: Final = 16
"""That one load brings at most."""
FIELDS: Final = "xyzw"
_VECTORS: Final = {
    "signed char": "char",
    "unsigned char": "uchar",
    "unsigned": "uint",
    "unsigned int": "uint",
}


def constant_tables(parsed: ParsedKernel, launch: LaunchFile) -> Iterator[SourceRewrite]:
    """An array that is only read, in constant memory."""
    arrays = arrays_of(launch)
    for parameter in parsed.parameters:
        size = TYPE_BYTES.get(parameter.element)
        array = arrays.get(parameter.name)
        written = parameter.name in launch.returned or _is_written(parsed, parameter.name)
        if size is None or array is None or not parameter.pointer or array.nbytes > CONSTANT_BYTES or written:
            continue
        at = parsed.top
        table = f"__constant__ {parameter.element} {parameter.name}[{array.nbytes // size}];\n"
        edits = (TextEdit(at, at, table), _without_parameter(parsed, parameter))
        text = f"{parameter.name} in constant memory ({array.nbytes:,} bytes)"
        yield SourceRewrite("constant-table", text, edits, _Moved(parameter.name))


@dataclasses.dataclass(frozen=True)
class _Moved:
    """A launch whose argument is a ``__constant__`` variable."""

    name: str

    def __call__(self, launch: LaunchFile) -> LaunchFile:
        at = launch.names.index(self.name)
        return dataclasses.replace(
            launch,
            names=launch.names[:at] + launch.names[at + 1 :],
            arguments=launch.arguments[:at] + launch.arguments[at + 1 :],
            constants={**launch.constants, self.name: np.asarray(launch.arguments[at])},
        )


def restricted_pointers(text: str, name: str) -> tuple[TextEdit, ...]:
    """``__restrict__`` at each pointer that has none, among the parameters of the kernel of a ``name``.
    Nothing where the text has no such kernel."""
    try:
        parsed = ParsedKernel(text, name)
    except ValueError:
        return ()
    edits = []
    for parameter in parsed.parameters:
        declared = parsed.of(parameter.node)
        if parameter.pointer and "restrict" not in declared:
            at = parameter.node.start_byte + declared.rindex(parameter.name)
            edits.append(TextEdit(at, at, "__restrict__ "))
    return tuple(edits)


def _without_parameter(parsed: ParsedKernel, parameter: SourceParameter) -> TextEdit:
    listed = parsed.parameters
    number = listed.index(parameter)
    if number + 1 < len(listed):
        return TextEdit(parameter.node.start_byte, listed[number + 1].node.start_byte, "")
    first = listed[number - 1].node.end_byte if number else parameter.node.start_byte
    return TextEdit(first, parameter.node.end_byte, "")


def _is_written(parsed: ParsedKernel, name: str) -> bool:
    """Whether the kernel's text writes to an array, as far as it names it."""
    return any(name in parsed.names_in(target) for target in _targets(parsed))


def _targets(parsed: ParsedKernel) -> Iterator[Any]:
    for node in walk(parsed.body):
        if node.type == "assignment_expression":
            target = node.child_by_field_name("left")
            while target.type in ("subscript_expression", "field_expression", "parenthesized_expression"):
                target = target.child_by_field_name("argument") or target.named_children[0]
            yield target
        elif node.type in ("update_expression", "pointer_expression") and not parsed.of(node).startswith("*"):
            yield node
        elif node.type == "call_expression" and "atomic" in parsed.of(node.child_by_field_name("function")):
            yield node.child_by_field_name("arguments").named_children[0]


def vector_accesses(parsed: ParsedKernel, launch: LaunchFile) -> Iterator[SourceRewrite]:
    """Neighbouring words as one vector: of ``p[0]`` to ``p[3]`` in one block of the text, in the rounds of a
    loop whose lanes go along words, and of neighbouring threads."""
    yield from _aligned(parsed)
    yield from _straight(parsed)
    yield from _elements_of_a_thread(parsed, launch)
    loops = [list(_contiguous_rounds(parsed, n)) for n in walk(parsed.body) if n.type == "for_statement"]
    found = [of for of in loops if of]
    if len(found) > 1:  # all loops at once, where none is in another
        yield SourceRewrite(
            "vector-loads",
            "; ".join(of[0].text for of in found),
            tuple(edit for of in found for edit in of[0].edits),
        )
    for of in found:
        yield from of


def _aligned(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    """Structures of a whole number of vectors, aligned as these, so that they are loaded so."""
    elements = {p.element.removeprefix("struct ") for p in parsed.parameters if p.pointer}
    for node in walk(parsed.root):
        if node.type != "struct_specifier" or node.child_by_field_name("body") is None:
            continue
        names = {
            parsed.of(n)
            for n in (node.child_by_field_name("name"), node.parent.child_by_field_name("declarator"))
            if n is not None
        }
        words = max((len(fields_of(parsed, name)) for name in names & elements), default=0)
        bound = next((many for many in (4, 2) if words and words % many == 0), 0)
        if bound and "align" not in parsed.of(node).split("{")[0]:
            at = node.start_byte + len("struct")
            told = f"{', '.join(sorted(names & elements))} aligned to {4 * bound} bytes"
            yield SourceRewrite("vector-loads", told, (TextEdit(at, at, f" __align__({4 * bound})"),))


def _straight(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    edits: list[TextEdit] = []
    lines = []
    for block in walk(parsed.body):
        if block.type != "compound_statement":
            continue
        loads: dict[str, dict[int, list[Any]]] = {}
        stores: dict[str, dict[int, Any]] = {}
        for node in _own(block):
            if node.type != "subscript_expression":
                continue
            place = _pointer_and_number(parsed, node)
            if place is None:
                continue
            parent = node.parent
            if parent.type == "assignment_expression" and parent.child_by_field_name("left") == node:
                if parent.child_by_field_name("operator").type == "=" and parent.parent.parent == block:
                    stores.setdefault(place[0], {})[place[1]] = parent
            else:
                loads.setdefault(place[0], {}).setdefault(place[1], []).append(node)
        for pointer, by_number in loads.items():
            element = parsed.declared[pointer].removesuffix(" *")
            for numbers in _runs(by_number, element):
                name = f"smlab_{pointer}_{numbers[0]}_{block.start_byte}"
                first = min((n for k in numbers for n in by_number[k]), key=lambda n: n.start_byte)
                at = _statement(first, block).start_byte
                vector = f"{_VECTORS.get(element, element)}{len(numbers)}"
                load = (
                    f"const {vector} {name} = *reinterpret_cast<const {vector} *>(&{pointer}[{numbers[0]}]); "
                )
                edits.append(TextEdit(at, at, load))
                lines.append(parsed.line(first))
                for k, field in zip(numbers, FIELDS, strict=False):
                    edits += [TextEdit(n.start_byte, n.end_byte, f"{name}.{field}") for n in by_number[k]]
        for pointer, assigned in stores.items():
            element = parsed.declared[pointer].removesuffix(" *")
            for numbers in _runs(assigned, element):
                vector = f"{_VECTORS.get(element, element)}{len(numbers)}"
                values = [parsed.of(assigned[k].child_by_field_name("right")) for k in numbers]
                target = f"*reinterpret_cast<{vector} *>(&{pointer}[{numbers[0]}])"
                ordered = sorted((assigned[k] for k in numbers), key=lambda n: n.start_byte)
                for node in ordered[:-1]:
                    edits.append(TextEdit(node.start_byte, node.end_byte, ""))
                last = ordered[-1]
                edits.append(
                    TextEdit(last.start_byte, last.end_byte, f"{target} = make_{vector}({', '.join(values)})")
                )
                lines.append(parsed.line(last))
    if edits:
        yield SourceRewrite(
            "vector-loads", f"neighbouring words at line {min(lines)} as one vector", tuple(edits)
        )


def _own(block: Any) -> Iterator[Any]:
    """The nodes of a block that are in no block of its own."""
    for child in block.children:
        stack = [child]
        while stack:
            node = stack.pop()
            if node.type in ("compound_statement", "for_statement", "while_statement", "if_statement"):
                continue
            yield node
            stack.extend(reversed(node.children))


def _statement(node: Any, block: Any) -> Any:
    while node.parent != block:
        node = node.parent
    return node


def _pointer_and_number(parsed: ParsedKernel, node: Any) -> tuple[str, int] | None:
    pointer = parsed.of(node.child_by_field_name("argument"))
    index = parsed.of(node.child_by_field_name("indices").named_children[0])
    if not parsed.declared.get(pointer, "").endswith(" *") or not index.isdecimal():
        return None
    return pointer, int(index)


def _runs(by_number: dict[int, Any], element: str) -> Iterator[list[int]]:
    """Four neighbours, else two, from a whole multiple on."""
    size = TYPE_BYTES.get(element, VECTOR_BYTES)
    taken: set[int] = set()
    for many in (4, 2):
        if many * size > VECTOR_BYTES or element[-1] in "24":
            continue
        for k in sorted(by_number):
            numbers = list(range(k, k + many))
            if k % many == 0 and all(n in by_number and n not in taken for n in numbers):
                taken.update(numbers)
                yield numbers


def _contiguous_rounds(parsed: ParsedKernel, loop: Any) -> Iterator[SourceRewrite]:
    """``for (i = a; i < n; i += s) use(p[i])`` as rounds of four neighbours from ``4 * a`` on in steps of
    ``4 * s``, their loads and stores as one."""
    header = counted(parsed, loop)
    if header is None or re.search(r"\b(?:break|return|goto)\b", parsed.of(header.body)):
        return
    body, kind, name = header.body, header.kind, header.name
    begin, limit, step = header.begin, header.limit, header.step
    for many in (4, 2):
        found = _as_vectors(parsed, [body], kind, name, many)
        if found is not None:
            taken, inner = found
            new = (
                f"for ({kind} smlab_first = {many} * ({begin}); smlab_first < {limit};"
                f" smlab_first += {many} * ({step})) {{{inner} }}"
            )
            told = f"{taken} at line {parsed.line(loop)} as vectors of {many}, {many} neighbours a lane"
            yield SourceRewrite("vector-loads", told, (TextEdit(parsed.begin_of(loop), loop.end_byte, new),))


def _elements_of_a_thread(parsed: ParsedKernel, launch: LaunchFile) -> Iterator[SourceRewrite]:
    """A kernel whose threads have an element each: of a quarter of the blocks, whose threads have four."""
    statements = [s for s in parsed.body.named_children if s.type != "comment"]
    for at, made in enumerate(statements[:-1]):
        found = (
            re.fullmatch(r"((?:\w+\s+)+)(\w+)\s*=([^;,]*);", parsed.of(made))
            if made.type == "declaration"
            else None
        )
        if found is None or "threadIdx.x" not in found[3] or "blockIdx.x" not in found[3]:
            continue
        kind, name = found[1].strip(), found[2]
        rest = statements[at + 1 :]
        for many in (4, 2):
            if launch.grid[0] % many or "__sync" in parsed.of(parsed.body):
                continue
            vectors = _as_vectors(parsed, rest, kind, name, many)
            if vectors is None:
                continue
            taken, inner = vectors
            inner = re.sub(r"\breturn\s*;", "continue;", inner)
            new = f"{kind} smlab_first = {many} * ({found[3].strip()});{inner}"
            told = f"{taken} as vectors of {many}, {many} elements a thread, {many} times fewer blocks"
            edit = TextEdit(made.start_byte, rest[-1].end_byte, new)
            yield SourceRewrite("vector-loads", told, (edit,), _FewerBlocks(many))
        return


@dataclasses.dataclass(frozen=True)
class _FewerBlocks:
    """A launch with so many times fewer blocks."""

    times: int

    def __call__(self, launch: LaunchFile) -> LaunchFile:
        return dataclasses.replace(launch, grid=(launch.grid[0] // self.times, *launch.grid[1:]))


def _as_vectors(
    parsed: ParsedKernel, nodes: list[Any], kind: str, name: str, many: int
) -> tuple[str, str] | None:
    """Statements that use a counter, for as many neighbouring values of it from ``smlab_first`` on: what is
    loaded and stored as one, and the text."""
    changed = set().union(*(parsed.changed_in(n) for n in nodes))
    if name in changed:
        return None
    written = set().union(*(written_in(parsed, n) for n in nodes))
    reads: dict[str, str] = {}
    writes: dict[str, str] = {}
    for node in (n for of in nodes for n in walk(of)):
        if node.type != "subscript_expression" or node.parent.type == "pointer_expression":
            continue
        pointer = parsed.of(node.child_by_field_name("argument"))
        index = node.child_by_field_name("indices").named_children[0]
        element = parsed.declared.get(pointer, "").removesuffix(" *")
        of = [t for t in summands(index) if name in parsed.names_in(t)]
        alone = len(of) == 1 and parsed.of(of[0]) == name
        free = not parsed.names_in(index) & changed and "[" not in parsed.of(index)
        size = TYPE_BYTES.get(element, VECTOR_BYTES)
        if not alone or not free or many * size > VECTOR_BYTES or not parsed.declared[pointer].endswith("*"):
            continue
        parent = node.parent
        if parent.type == "assignment_expression" and parent.child_by_field_name("left") == node:
            writes[parsed.of(node)] = element
        elif pointer not in written:
            reads[parsed.of(node)] = element
    for text in list(writes):
        pointer = text.split("[")[0].strip()
        uses = [n for of in nodes for n in walk(of) if n.type == "identifier" and parsed.of(n) == pointer]
        if any(parsed.of(use.parent) != text for use in uses):  # what one element becomes, others may read
            del writes[text]
        elif len(uses) > 1 or not _only_set(parsed, uses[0].parent):  # in place
            reads[text] = writes[text]
    taken = {**reads, **writes}
    if not taken:
        return None
    arrays = {text: f"smlab_vector{n}" for n, text in enumerate(taken)}

    def rule(node: Any, _: Render) -> str | None:
        array = arrays.get(parsed.of(node)) if node.type == "subscript_expression" else None
        return None if array is None else f"{array}[smlab_word]"

    first, last = nodes[0].start_byte, nodes[-1].end_byte
    inner = parsed.text[first:last]
    for edit in sorted((e for n in nodes for e in parsed.edits(rule, n)), key=lambda e: -e.first):
        inner = inner[: edit.first - first] + edit.new + inner[edit.last - first :]
    for width in re.findall(rf"\b{name}\s*/\s*(\w+)", inner):  # what neighbours share
        if (int(width) if width.isdecimal() else parsed.macros.get(width, 1)) % many == 0:
            inner = re.sub(rf"\b{name}\s*/\s*{width}\b", f"smlab_first / {width}", inner)
    before = behind = ""
    for text, element in taken.items():
        vector = f"{_VECTORS.get(element, element)}{many}"
        place = re.sub(rf"\b{name}\b", "smlab_first", text)
        before += f" alignas({VECTOR_BYTES}) {element} {arrays[text]}[{many}];"
        mine = f"*reinterpret_cast<{vector} *>({arrays[text]})"
        if text in reads:
            before += f" {mine} = *reinterpret_cast<const {vector} *>(&{place});"
        if text in writes:
            behind += f" *reinterpret_cast<{vector} *>(&{place}) = {mine};"
    inner = (
        f'{before} _Pragma("unroll") for (int smlab_word = 0; smlab_word < {many}; smlab_word++)'
        f" {{ const {kind.removeprefix('const ')} {name} = smlab_first + smlab_word; {inner} }}{behind}"
    )
    return ", ".join(taken), inner


def _only_set(parsed: ParsedKernel, node: Any) -> bool:
    """Whether an assignment to a node does not read it."""
    return bool(node.parent.child_by_field_name("operator").type == "=")


def written_in(parsed: ParsedKernel, body: Any) -> set[str]:
    """Names of the arrays that a part of the body writes to."""
    found = set()
    for target in _targets(parsed):
        if body.start_byte <= target.start_byte < body.end_byte:
            found |= parsed.names_in(target)
    return found
