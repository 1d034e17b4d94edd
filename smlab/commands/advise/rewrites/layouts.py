"""Other layouts of an array in memory: rows and columns exchanged, the fields of structures apart."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from smlab.commands.advise.rewrites.parsed import (
    TYPE_BYTES,
    ParsedKernel,
    SourceParameter,
    SourceRewrite,
    TextEdit,
    walk,
)
from smlab.sim.isa.launch.launch_file import LaunchFile

FIELD_BYTES: Final = 4
"""Of a structure's field: those of other sizes are left alone."""
Edits = tuple[TextEdit, ...]


def arrays_of(launch: LaunchFile) -> dict[str, np.ndarray]:
    """A launch's arrays by name."""
    pairs = zip(launch.names, launch.arguments, strict=True)
    return {name: value for name, value in pairs if isinstance(value, np.ndarray)}


def transposed_arrays(parsed: ParsedKernel, launch: LaunchFile) -> Iterator[SourceRewrite]:
    """Arrays with rows and columns exchanged: ``p[i * COLUMNS + j]`` becomes ``p[j * ROWS + i]``; all, and
    each alone. Arrays of structures as an array for each field."""
    scalars = {
        n: int(v)
        for n, v in zip(launch.names, launch.arguments, strict=True)
        if np.ndim(v) == 0 and np.asarray(v).dtype.kind in "iu"
    }
    known = {**scalars, **parsed.macros}
    arrays = arrays_of(launch)
    found: list[tuple[str, int, Edits]] = []
    for parameter in parsed.parameters:
        array = arrays.get(parameter.name)
        if array is None or not parameter.pointer or not launch.returned:
            continue
        fields = fields_of(parsed, parameter.element)
        if fields and array.itemsize == FIELD_BYTES and array.size % len(fields) == 0:
            edits = _by_field(parsed, parameter, fields, array.size // len(fields))
            if edits:
                found.append((parameter.name, len(fields), edits))
        if TYPE_BYTES.get(parameter.element) != array.itemsize:
            continue
        uses = [n for n in walk(parsed.body) if n.type == "identifier" and parsed.of(n) == parameter.name]
        places = [_exchanged(parsed, use, known, array.size) for use in uses]
        told = [each for each in places if each is not None]
        widths = {each[0] for each in told}
        if not places or len(told) < len(places) or len(widths) != 1:
            continue
        (columns,) = widths
        many = array.size // columns
        rows = next((name for name, value in scalars.items() if value == many), str(many))
        found.append((parameter.name, columns, tuple(edit for _, of in told for edit in of(rows))))
    for some in [*([found] if len(found) > 1 else []), *([one] for one in found)]:
        names = ", ".join(name for name, _, _ in some)
        turned = _Transposed({name: columns for name, columns, _ in some})
        edits_of = tuple(edit for _, _, edits in some for edit in edits)
        text = f"{names} column by column, laid out so before the launch"
        yield SourceRewrite("transposed-array", text, edits_of, turned, turned.back)
    if found:
        names = ", ".join(name for name, _, _ in found)
        every = tuple(edit for _, _, edits in found for edit in edits)
        yield SourceRewrite(
            "interleaved", f"{names} column by column: each thread does other elements", every
        )


@dataclasses.dataclass(frozen=True)
class _Transposed:
    """A launch with the rows and columns of arrays exchanged, by the number of their columns."""

    columns: Mapping[str, int]

    def __call__(self, launch: LaunchFile) -> LaunchFile:
        pairs = zip(launch.names, launch.arguments, strict=True)
        given = [
            self._turned(value, self.columns[name]) if name in self.columns else value
            for name, value in pairs
        ]
        return dataclasses.replace(launch, arguments=tuple(given))

    def back(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Results as the kernel lays them out."""
        return {
            name: self._turned(array, array.size // self.columns[name]) if name in self.columns else array
            for name, array in arrays.items()
        }

    @staticmethod
    def _turned(array: Any, columns: int) -> np.ndarray:
        values = np.asarray(array)
        return np.ascontiguousarray(values.reshape(-1, columns).T).reshape(values.shape)


def _exchanged(
    parsed: ParsedKernel, use: Any, known: Mapping[str, int], size: int
) -> tuple[int, Callable[[str], Edits]] | None:
    """Of a use of an array the number of its columns, and the edits that exchange them for so many rows: of
    ``p[row * columns + column]``, of ``p[i]`` where ``i`` is declared as that, and of ``q[column]`` where
    ``q`` is declared as ``p + row * columns``."""
    node = use.parent
    if node.type == "subscript_expression" and node.child_by_field_name("argument") == use:
        index = node.child_by_field_name("indices").named_children[0]
        told = index
        if index.type == "identifier":
            made = [n for n in walk(parsed.body) if _declares(parsed, n, parsed.of(index))]
            told = made[0].child_by_field_name("value") if len(made) == 1 else index
        found = _row_and_column(parsed, told, known, size)
        if found is None:
            return None
        columns, row, column = found
        edit = (index.start_byte, index.end_byte)
        return columns, lambda rows: (TextEdit(*edit, f"({column}) * {rows} + ({row})"),)
    declared = node.parent
    if node.type != "binary_expression" or declared.type != "init_declarator":
        return None
    target = declared.child_by_field_name("declarator")
    if target.type != "pointer_declarator" or node.child_by_field_name("left") != use:
        return None
    found = _row_and_column(parsed, node.child_by_field_name("right"), known, size)
    name = parsed.of(target).lstrip("* ").split()[-1]
    aliases = [n for n in walk(parsed.body) if n.type == "identifier" and parsed.of(n) == name]
    places = [n.parent for n in aliases if n.start_byte > declared.end_byte]
    if found is None or any(p.type != "subscript_expression" for p in places):
        return None
    columns, row, column = found
    indices = [p.child_by_field_name("indices").named_children[0] for p in places]

    def of(rows: str) -> Edits:
        value = TextEdit(node.start_byte, node.end_byte, f"{parsed.of(use)} + ({column}) * {rows} + ({row})")
        each = (TextEdit(i.start_byte, i.end_byte, f"({parsed.of(i)}) * {rows}") for i in indices)
        return (value, *each)

    return columns, of


def _declares(parsed: ParsedKernel, node: Any, name: str) -> bool:
    target = node.child_by_field_name("declarator") if node.type == "init_declarator" else None
    return target is not None and parsed.of(target) == name


def _row_and_column(
    parsed: ParsedKernel, index: Any, known: Mapping[str, int], size: int
) -> tuple[int, str, str] | None:
    """Of ``row * columns + column`` the number of columns, the row and the column."""
    terms = list(summands(index))
    for n, term in enumerate(terms):
        if term.type != "binary_expression" or term.child_by_field_name("operator").type != "*":
            continue
        sides = [term.child_by_field_name(side) for side in ("left", "right")]
        for row, width in (sides, sides[::-1]):
            text = parsed.of(width)
            columns = known.get(text, int(text) if text.isdecimal() else 0)
            others = [parsed.of(t) for m, t in enumerate(terms) if m != n]
            if columns > 1 and size % columns == 0:
                return columns, parsed.of(row), " + ".join(others) or "0"
    return None


def row_width(parsed: ParsedKernel, subscript: Any, known: Mapping[str, int]) -> Any:
    """Of ``p[row * width + column]`` the width, where its value is known."""
    if subscript.type != "subscript_expression":
        return None
    for term in summands(subscript.child_by_field_name("indices").named_children[0]):
        if term.type == "binary_expression" and term.child_by_field_name("operator").type == "*":
            for side in ("right", "left"):
                width = term.child_by_field_name(side)
                text = parsed.of(width)
                if known.get(text, int(text) if text.isdecimal() else 0) > 1:
                    return width
    return None


def summands(node: Any) -> Iterator[Any]:
    """The terms of a sum."""
    if node.type == "parenthesized_expression":
        yield from summands(node.named_children[0])
    elif node.type == "binary_expression" and node.child_by_field_name("operator").type == "+":
        yield from summands(node.child_by_field_name("left"))
        yield from summands(node.child_by_field_name("right"))
    else:
        yield node


def fields_of(parsed: ParsedKernel, name: str) -> dict[str, str]:
    """The types of a structure's fields by name; none where one is no single word of 4 bytes."""
    for node in walk(parsed.root):
        listed = node.child_by_field_name("body") if node.type == "struct_specifier" else None
        if listed is None:
            continue
        mine = node.child_by_field_name("name")
        names = [] if mine is None else [parsed.of(mine), f"struct {parsed.of(mine)}"]
        if node.parent.type == "type_definition":
            names.append(parsed.of(node.parent.child_by_field_name("declarator")))
        if name not in names:
            continue
        found: dict[str, str] = {}
        for one in listed.named_children:
            kind = "" if one.type != "field_declaration" else parsed.of(one.child_by_field_name("type"))
            fields = one.children_by_field_name("declarator")
            if one.type == "comment":
                continue
            if TYPE_BYTES.get(kind) != FIELD_BYTES or any(f.type != "field_identifier" for f in fields):
                return {}
            found |= {parsed.of(f): kind for f in fields}
        return found
    return {}


def _by_field(parsed: ParsedKernel, parameter: SourceParameter, fields: dict[str, str], many: int) -> Edits:
    """An array of structures, used by elements and their fields, as an array for each field."""
    edits = []
    const = "const " if parameter.const else ""

    def place(field: str, index: str) -> str:
        at = list(fields).index(field)
        return f"(({const}{fields[field]} *){parameter.name})[{at * many} + ({index})]"

    for use in (n for n in walk(parsed.body) if n.type == "identifier" and parsed.of(n) == parameter.name):
        element = use.parent
        if element.type != "subscript_expression" or element.child_by_field_name("argument") != use:
            return ()
        index = parsed.of(element.child_by_field_name("indices").named_children[0])
        if re.search(rf"\b{parameter.name}\b", index):
            return ()
        around = element.parent
        if around.type == "field_expression":
            new = place(parsed.of(around.child_by_field_name("field")), index)
            edits.append(TextEdit(around.start_byte, around.end_byte, new))
        elif around.type == "init_declarator" and around.child_by_field_name("value") == element:
            new = ", ".join(place(field, index) for field in fields)
            edits.append(TextEdit(element.start_byte, element.end_byte, f"{{{new}}}"))
        elif around.type == "assignment_expression" and around.child_by_field_name("left") == element:
            value = parsed.of(around.child_by_field_name("right"))
            if around.parent.type != "expression_statement" or not value.isidentifier():
                return ()
            new = ", ".join(f"{place(field, index)} = {value}.{field}" for field in fields)
            edits.append(TextEdit(around.start_byte, around.end_byte, new))
        else:
            return ()
    return tuple(edits)
