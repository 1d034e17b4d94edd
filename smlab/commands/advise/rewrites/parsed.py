"""A kernel of CUDA C as a syntax tree, and changes of its text."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from smlab.sim.isa.launch.launch_file import LaunchFile

TYPE_BYTES: Final[Mapping[str, int]] = {
    "char": 1,
    "signed char": 1,
    "unsigned char": 1,
    "short": 2,
    "unsigned short": 2,
    "int": 4,
    "unsigned": 4,
    "unsigned int": 4,
    "float": 4,
    "double": 8,
    "long long": 8,
    "unsigned long long": 8,
    "int8_t": 1,
    "uint8_t": 1,
    "int16_t": 2,
    "uint16_t": 2,
    "int32_t": 4,
    "uint32_t": 4,
    **{f"{name}{n}": 4 * n for name in ("float", "int", "uint") for n in (2, 4)},
    "double2": 16,
}
INTEGERS: Final = frozenset(
    [name for name in TYPE_BYTES if not name.startswith(("float", "double")) and name[-1] not in "24"]
) | {"long", "unsigned long", "size_t", "int64_t", "uint64_t"}
SYNC: Final = "__syncthreads();"
ELEMENTS: Final[Mapping[str, str]] = {
    "float32": "float",
    "float64": "double",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned",
    "int64": "long long",
    "uint64": "unsigned long long",
}
"""What C calls the types of a launch's arrays."""
_OPERATIONS: Final[Mapping[type, Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
Render = Callable[[Any], str]
Restored = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]
Rule = Callable[[Any, Render], str | None]


@dataclass(frozen=True)
class TextEdit:
    """``new`` in place of the text from ``first`` to before ``last``."""

    first: int
    last: int
    new: str


@dataclass(frozen=True)
class SourceRewrite:
    """A change of a kernel's source: what is told of it (``text``), its ``kind``, and how a launch changes
    with it. Results are ``restored`` to the kernel's own layout before they are compared. ``stands_in`` says
    what a programmer has to do where it computes something else in the same time as that would take."""

    kind: str
    text: str
    edits: tuple[TextEdit, ...]
    relaunched: Callable[[LaunchFile], LaunchFile] | None = field(default=None, compare=False)
    restored: Restored | None = field(default=None, compare=False)
    stands_in: str = ""


@dataclass(frozen=True)
class SourceParameter:
    """A kernel's parameter; ``element`` is what it points to, or its own type, without qualifiers."""

    name: str
    element: str
    pointer: bool
    const: bool
    node: Any = field(compare=False)


def applied(text: str, edits: tuple[TextEdit, ...]) -> str | None:
    """The text with all edits; None where two of them are of one place."""
    for edit in sorted(edits, key=lambda e: (-e.first, -e.last)):
        if edit.last > len(text) or any(e != edit and _meet(e, edit) for e in edits):
            return None
        text = text[: edit.first] + edit.new + text[edit.last :]
    return text


def _meet(one: TextEdit, other: TextEdit) -> bool:
    return one.first < other.last and other.first < one.last


def edit_between(before: str, after: str) -> TextEdit:
    """The one edit that makes a text of another."""
    first = 0
    while first < min(len(before), len(after)) and before[first] == after[first]:
        first += 1
    same = 0
    while same < min(len(before), len(after)) - first and before[-1 - same] == after[-1 - same]:
        same += 1
    return TextEdit(first, len(before) - same, after[first : len(after) - same])


class ParsedKernel:
    """The kernel of a text that the machine code's ``name`` stands for.

    Raises:
        ValueError: no such kernel, or several.
    """

    def __init__(self, text: str, name: str, launch: LaunchFile | None = None) -> None:
        import tree_sitter_cuda
        from tree_sitter import Language, Parser

        self.text = text
        # One byte a character, so that places in the tree are places in the text.
        tree = Parser(Language(tree_sitter_cuda.language())).parse(text.encode("ascii", "replace"))
        self.root = tree.root_node
        kernels = [
            node
            for node in walk(self.root)
            if node.type == "function_definition" and "__global__" in self._head(node)
        ]
        named = [node for node in kernels if _name_of(node) in name]
        if len(kernels) > 1:
            kernels = [node for node in named if len(_name_of(node)) == max(map(len, map(_name_of, named)))]
        if len(kernels) != 1:
            raise ValueError(f"{len(kernels)} kernels are called {name}")
        self.kernel = kernels[0]
        self.body = self.kernel.child_by_field_name("body")
        self.name = _name_of(self.kernel)
        self.aliases = self._aliases()
        self.parameters = tuple(self._parameters())
        if launch is not None and self.outer.type == "template_declaration":
            self.aliases |= self._of_template(launch)
            self.parameters = tuple(self._parameters())
        self.macros = self._macros()
        self.declared = self._declared()

    def _head(self, node: Any) -> str:
        body = node.child_by_field_name("body")
        return self.text[node.start_byte : node.end_byte if body is None else body.start_byte]

    @property
    def outer(self) -> Any:
        """The kernel with ``extern "C"`` or ``template`` before it."""
        parent = self.kernel.parent
        alone = parent is not None and parent.type in ("linkage_specification", "template_declaration")
        return parent if alone else self.kernel

    @property
    def top(self) -> int:
        """The place before the kernel where what it needs may be declared, outside of ``extern "C"``."""
        node = self.kernel
        while node.parent is not None and node.parent.parent is not None:
            node = node.parent
        return int(node.start_byte)

    def begin_of(self, loop: Any) -> int:
        """Where a loop begins, with the pragma before it."""
        before = loop.prev_named_sibling
        is_pragma = before is not None and before.type == "preproc_call"
        return int(before.start_byte if is_pragma and "unroll" in self.of(before) else loop.start_byte)

    def of(self, node: Any) -> str:
        """The text of a node."""
        return self.text[node.start_byte : node.end_byte]

    def line(self, node: Any) -> int:
        return int(node.start_point[0]) + 1

    def parameter(self, name: str) -> SourceParameter | None:
        return next((p for p in self.parameters if p.name == name), None)

    def _parameters(self) -> Iterator[SourceParameter]:
        listed = next(n for n in walk(self.kernel) if n.type == "parameter_list")
        for node in listed.named_children:
            if node.type != "parameter_declaration":
                continue
            names = [n for n in walk(node) if n.type == "identifier"]
            text = self.of(node)
            if names:
                before = text.split("*")[0] if "*" in text else text[: -len(self.of(names[-1]))]
                yield SourceParameter(
                    self.of(names[-1]), self._type(before), "*" in text, "const" in before.split(), node
                )

    def _type(self, text: str) -> str:
        """A type without qualifiers, and what an alias stands for."""
        plain = plain_type(text)
        return self.aliases.get(plain, plain)

    def _aliases(self) -> dict[str, str]:
        """Names of the text for types of numbers: of ``typedef``, ``using``, and macros."""
        found = {}
        for node in walk(self.root):
            name = value = None
            if node.type == "type_definition":
                name, value = node.child_by_field_name("declarator"), node.child_by_field_name("type")
            elif node.type == "alias_declaration":
                name, value = node.child_by_field_name("name"), node.child_by_field_name("type")
            elif node.type == "preproc_def":
                name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            if name is not None and value is not None and self.of(value).strip() in TYPE_BYTES:
                found[self.of(name)] = self.of(value).strip()
        return found

    def _of_template(self, launch: LaunchFile) -> dict[str, str]:
        """The types that a template's own names stand for, by the launch's arrays."""
        values = dict(zip(launch.names, launch.arguments, strict=True))
        kinds = {p.name: str(np.asarray(values[p.name]).dtype) for p in self.parameters if p.name in values}
        return {
            p.element: ELEMENTS[kinds[p.name]]
            for p in self.parameters
            if p.element not in TYPE_BYTES and kinds.get(p.name) in ELEMENTS
            if re.search(rf"\b(?:typename|class)\s+{p.element}\b", self.of(self.outer))
        }

    def _macros(self) -> dict[str, int]:
        """Macros and constants of the file that are a whole number."""
        found: dict[str, int] = {}
        for node in walk(self.root):
            name = value = None
            if node.type == "preproc_def":
                name, value = (node.child_by_field_name(f) for f in ("name", "value"))
            elif node.type == "init_declarator" and re.search(r"\bconst(?:expr)?\b", self.of(node.parent)):
                inside = self.kernel.start_byte <= node.start_byte < self.kernel.end_byte
                name = None if inside else node.child_by_field_name("declarator")
                value = node.child_by_field_name("value")
            number = None if name is None or value is None else whole_number(self.of(value), found)
            if name is not None and number is not None:
                found[self.of(name)] = number
        return found

    def _declared(self) -> dict[str, str]:
        """The types of scalars and pointers (``float *``) by name: parameters, and what the body declares."""
        found = {p.name: p.element + (" *" if p.pointer else "") for p in self.parameters}
        for node in walk(self.body):
            if node.type != "declaration":
                continue
            kind = self._type(self.of(node.child_by_field_name("type")))
            for one in node.children_by_field_name("declarator"):
                if one.type == "init_declarator":
                    one = one.child_by_field_name("declarator")
                if one.type == "identifier":
                    found[self.of(one)] = kind
                elif one.type == "pointer_declarator":
                    found[self.of(one).lstrip("* ").split()[-1]] = f"{kind} *"
        return found

    def is_integer(self, node: Any) -> bool:
        """Whether an expression is one of whole numbers, as far as its text tells."""
        if node.type == "number_literal":
            return re.fullmatch(r"(?:0[xX][\da-fA-F]+|\d+)[uUlL]*", self.of(node)) is not None
        if node.type == "identifier":
            return self.of(node) in self.macros or self.declared.get(self.of(node)) in INTEGERS
        if node.type == "field_expression":
            return (
                re.fullmatch(r"(?:thread|block)(?:Idx|Dim)\.[xyz]|gridDim\.[xyz]", self.of(node)) is not None
            )
        if node.type == "cast_expression":
            return plain_type(self.of(node.child_by_field_name("type"))) in INTEGERS
        if node.type in ("binary_expression", "parenthesized_expression", "unary_expression"):
            return all(self.is_integer(child) for child in node.named_children)
        return False

    def edits(self, rule: Rule, root: Any = None) -> tuple[TextEdit, ...]:
        """The outermost nodes that a rule has another text for."""
        found: list[TextEdit] = []

        def render(node: Any) -> str:
            new = rule(node, render)
            if new is not None:
                return new
            pieces, at = [], node.start_byte
            for child in node.children:
                pieces += [self.text[at : child.start_byte], render(child)]
                at = child.end_byte
            return "".join([*pieces, self.text[at : node.end_byte]])

        def search(node: Any) -> None:
            new = rule(node, render)
            if new is not None:
                found.append(TextEdit(node.start_byte, node.end_byte, new))
                return
            for child in node.children:
                search(child)

        search(self.body if root is None else root)
        return tuple(found)

    def names_in(self, node: Any) -> set[str]:
        return {self.of(n) for n in walk(node) if n.type == "identifier"}

    def changed_in(self, node: Any, elements: bool = True) -> set[str]:
        """Names that are declared, assigned, counted, or whose address is taken within a node; those of which
        an element or a field is set only with ``elements``."""
        found = set()
        for n in walk(node):
            target = None
            if n.type == "assignment_expression":
                target = n.child_by_field_name("left")
            elif n.type in ("update_expression", "pointer_expression"):
                target = n.child_by_field_name("argument")
            elif n.type == "init_declarator":
                target = n.child_by_field_name("declarator")
            elif n.type == "declaration":
                found |= {
                    self.of(d) for d in n.children_by_field_name("declarator") if d.type == "identifier"
                }
            while target is not None and target.type in ("subscript_expression", "field_expression"):
                target = target.child_by_field_name("argument") if elements else None
            if target is not None:
                found |= {self.of(m) for m in walk(target) if m.type == "identifier"}
        return found


def walk(node: Any) -> Iterator[Any]:
    """A node and all below it, in the order of the text."""
    yield node
    for child in node.children:
        yield from walk(child)


def around(node: Any, kind: str) -> Any:
    """The innermost node of a kind around another, or None."""
    node = node.parent
    while node is not None and node.type != kind:
        node = node.parent
    return node


COUNTED: Final = re.compile(
    r"for\s*\(\s*((?:\w+\s+)+)(\w+)\s*=([^;]*);\s*\2\s*<(=?)([^;=]*);"
    r"\s*(?:\2\s*\+\+|\+\+\s*\2|\2\s*\+=(.*))\s*\)\s*$",
    re.DOTALL,
)
"""The header of a loop that counts up: its counter's type and name, begin, limit and step."""


@dataclass(frozen=True)
class CountedLoop:
    """A loop that counts up: its counter's type and name, where it begins and ends, and its step."""

    kind: str
    name: str
    begin: str
    limit: str
    step: str
    body: Any = field(compare=False)


def counted(parsed: ParsedKernel, loop: Any) -> CountedLoop | None:
    """A loop as one that counts up, or None."""
    if loop.type != "for_statement":
        return None
    body = loop.child_by_field_name("body")
    found = COUNTED.match(parsed.text[loop.start_byte : body.start_byte])
    if found is None:
        return None
    kind, name, begin, through, limit, step = (part.strip() if part else "" for part in found.groups())
    return CountedLoop(kind, name, begin, f"({limit}) + 1" if through else limit, step or "1", body)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A text with other identifiers; those of fields stay."""
    for old, new in names.items():
        text = re.sub(rf"(?<![.\w])(?<!->){old}\b", new, text)
    return text


def whole_number(text: str, known: Mapping[str, int]) -> int | None:
    """The value of an expression of whole numbers, named ones among them; None where it is none."""
    try:
        plain = re.sub(r"\b(0[xX][\da-fA-F]+|\d+)[uUlL]+\b", r"\1", text.strip().replace("(int)", ""))
        tree = ast.parse(plain, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return _value_of(tree, known)


def _value_of(node: ast.AST, known: Mapping[str, int]) -> int | None:
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.Name | ast.Attribute):
        return known.get(ast.unparse(node))
    inner = [_value_of(child, known) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    if isinstance(node, ast.Call):
        function = {"min": min, "max": max}.get(ast.unparse(node.func))
        values = [v for v in inner[1:] if v is not None]
        return function(values) if function is not None and len(values) == len(inner) - 1 == 2 else None
    values = [v for v in inner if v is not None]
    if len(values) < len(inner):
        return None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -values[0]
    if (
        isinstance(node, ast.BinOp)
        and type(node.op) in _OPERATIONS
        and (values[1] or type(node.op) is not ast.Div)
    ):
        return _OPERATIONS[type(node.op)](*values)
    return None


def plain_type(text: str) -> str:
    """A type without qualifiers."""
    return " ".join(
        w for w in text.split() if w not in ("const", "volatile", "static", "__restrict__", "__restrict")
    )


def _name_of(function: Any) -> str:
    declarator = function.child_by_field_name("declarator")
    while declarator.child_by_field_name("declarator") is not None:
        declarator = declarator.child_by_field_name("declarator")
    return str(declarator.text.decode())
