"""Cheaper arithmetic: remainders, functions, and what a loop computes again and again."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from smlab.commands.advise.rewrites.parsed import (
    INTEGERS,
    ParsedKernel,
    Render,
    SourceRewrite,
    TextEdit,
    walk,
)
from smlab.sim.isa.launch.launch_file import LaunchFile

_WRAPPED: Final = (
    "__device__ __forceinline__ int smlab_wrapped(int a, int b)"
    " { return a < b ? a : a - b < b ? a - b : a - 2 * b; }\n"
)
LONG: Final = (
    *("size_t", "long", "unsigned long", "long long", "unsigned long long", "int64_t", "uint64_t"),
    "ptrdiff_t",
)
"""Types of 64 bits."""
_COSTLY: Final = re.compile(
    r"\b(?:sin|cos|tan|sincos|exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|sqrt|rsqrt|cbrt|tanh|erf|atan2?"
    r"|asin|acos|hypot)f?\s*\(|/"
)


def cheaper_integers(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    """Remainders by comparison where a sum is wrapped, else by products with quotients, and quotients by a
    product of numbers as quotients by one after the other, so that all that a flat index is taken apart by
    share their first steps; then unsigned numbers of 32 bits alone. Right where the numbers are small, which
    the results tell."""

    def divided(text: str, right: Any) -> str:
        """The text of a quotient, by the factors of its divisor in turn."""
        for factor in _factors(right):
            text = f"((int)((unsigned)({text}) / (unsigned)({parsed.of(factor)})))"
        return text

    def of(compared: bool, node: Any, render: Render) -> str | None:
        operator = node.child_by_field_name("operator") if node.type == "binary_expression" else None
        if operator is None or operator.type not in "%/" or not parsed.is_integer(node):
            return None
        left, right = (node.child_by_field_name(side) for side in ("left", "right"))
        if parsed.names_in(left) <= set(parsed.macros) and left.type != "field_expression":
            return None  # the compiler computes it
        a, b = render(left), render(right)
        if compared and right.type != "number_literal":
            if operator.type == "/":
                return divided(a, right)
            inner = left.named_children[0] if left.type == "parenthesized_expression" else left
            if inner.type == "binary_expression" and inner.child_by_field_name("operator").type in "+-":
                return f"smlab_wrapped({a}, {b})"
            return f"((int)({a}) - {divided(a, right)} * (int)({b}))"
        return f"((int)((unsigned)({a}) {operator.type} (unsigned)({b})))"

    for compared in (True, False):
        edits = parsed.edits(lambda node, render, c=compared: of(c, node, render))  # type: ignore[misc]
        if edits and (not compared or any("smlab_wrapped" in e.new or " - ((int)" in e.new for e in edits)):
            how = "by comparison or product" if compared else "of unsigned 32-bit numbers"
            line = parsed.text.count("\n", 0, edits[0].first) + 1
            yield SourceRewrite(
                "integers", f"remainders and quotients {how} from line {line}", _with(parsed, edits)
            )


def _factors(node: Any) -> list[Any]:
    """What a product is made of."""
    while node.type == "parenthesized_expression":
        node = node.named_children[0]
    if node.type != "binary_expression" or node.child_by_field_name("operator").type != "*":
        return [node]
    return [f for side in ("left", "right") for f in _factors(node.child_by_field_name(side))]


def shorter_integers(parsed: ParsedKernel, launch: LaunchFile) -> Iterator[SourceRewrite]:
    """Numbers of 64 bits as such of 32; what is divided by a launch's power of two as shifts and masks."""
    types = tuple(
        TextEdit(n.start_byte, n.end_byte, "int")
        for n in walk(parsed.body)
        if n.type in ("primitive_type", "sized_type_specifier", "type_identifier") and parsed.of(n) in LONG
    )
    if types:
        for other in cheaper_integers(parsed):
            inner = tuple(e for e in types if not any(o.first <= e.first < o.last for o in other.edits))
            yield SourceRewrite(
                "integers", f"integers of 32 bits in place of 64, {other.text}", (*inner, *other.edits)
            )
        yield SourceRewrite("integers", "integers of 32 bits in place of 64", types)
    powers = {
        name: int(value)
        for name, value in zip(launch.names, launch.arguments, strict=True)
        if np.ndim(value) == 0
        and np.asarray(value).dtype.kind in "iu"
        and value > 1
        and not value & (value - 1)
    }

    def rule(node: Any, render: Render) -> str | None:
        if (sides := _quotient(node)) is None:
            return None
        left, right = sides
        value, remainder = powers.get(parsed.of(right)), node.child_by_field_name("operator").type == "%"
        # A remainder is one of whole numbers, whatever its text tells of them.
        if value is None or not (remainder or parsed.is_integer(node)):
            return None
        if remainder:
            return f"(({render(left)}) & ({parsed.of(right)} - 1))"
        return f"(({render(left)}) >> {value.bit_length() - 1})"

    shifts = parsed.edits(rule)
    if shifts:
        names = ", ".join(
            sorted(n for n in powers if any(n in parsed.text[e.first : e.last] for e in shifts))
        )
        yield SourceRewrite("integers", f"shifts and masks, as {names} is a power of two", shifts)


def divisors(parsed: ParsedKernel, launch: LaunchFile) -> Iterator[SourceRewrite]:
    """Quotients and remainders by whole numbers of the launch, and by their products, as the shifted high
    word of a product with a reciprocal, which is an argument. Exact for numbers below 2 to the 31: Granlund
    and Montgomery, Division by invariant integers using multiplication, PLDI 1994. A power of two alone is a
    shift (`shorter_integers`)."""
    scalars = {
        name: int(value)
        for name, value in zip(launch.names, launch.arguments, strict=True)
        if np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iu" and value > 1
    }
    same = {
        parsed.of(n.child_by_field_name("declarator")): parsed.of(n.child_by_field_name("value"))
        for n in walk(parsed.body)
        if n.type == "init_declarator" and parsed.of(n.child_by_field_name("value")) in scalars
    }
    given: dict[str, int] = {}

    def rule(node: Any, render: Render) -> str | None:
        if (sides := _quotient(node)) is None:
            return None
        left, right = sides
        names = [same.get(parsed.of(f), parsed.of(f)) for f in _factors(right)]
        if not set(names) <= set(scalars) or not parsed.is_integer(left):
            return None
        divisor = math.prod(scalars[name] for name in names)
        if not divisor & (divisor - 1) or divisor >= 2**31:
            return None
        shift, name = divisor.bit_length() - 1, f"smlab_over_{'_'.join(names)}"
        given[name] = 2 ** (32 + shift) // divisor + 1
        quotient = f"(int)(__umulhi((unsigned)({render(left)}), {name}) >> {shift})"
        if node.child_by_field_name("operator").type == "/":
            return f"({quotient})"
        return f"((int)({render(left)}) - {quotient} * (int)({parsed.of(right)}))"

    edits = parsed.edits(rule)
    if edits:
        at = parsed.parameters[-1].node.end_byte
        more = "".join(f", unsigned {name}" for name in given)
        names = ", ".join(name.removeprefix("smlab_over_") for name in given)
        told = f"quotients by {names} as products with a reciprocal, an argument of the launch"
        yield SourceRewrite("integers", told, (*edits, TextEdit(at, at, more)), _Given(given))


@dataclasses.dataclass(frozen=True)
class _Given:
    """A launch with further whole numbers."""

    values: Mapping[str, int]

    def __call__(self, launch: LaunchFile) -> LaunchFile:
        more = tuple(np.uint32(value) for value in self.values.values())
        return dataclasses.replace(
            launch, names=(*launch.names, *self.values), arguments=(*launch.arguments, *more)
        )


def _with(parsed: ParsedKernel, edits: tuple[TextEdit, ...]) -> tuple[TextEdit, ...]:
    """With the function that wraps, where it is called."""
    at = parsed.top
    return (TextEdit(at, at, _WRAPPED), *edits) if any("smlab_wrapped(" in e.new for e in edits) else edits


def cheaper_functions(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    """Divisions by square roots as products with a reciprocal root, divisions by what a loop leaves alone as
    products with a reciprocal, which the compiler computes once."""

    def root_of(node: Any) -> Any:
        while node.type == "parenthesized_expression":
            node = node.named_children[0]
        if node.type == "call_expression" and parsed.of(node.child_by_field_name("function")) == "sqrtf":
            return node.child_by_field_name("arguments").named_children[0]
        return None

    def rule(node: Any, render: Render) -> str | None:
        if node.type != "binary_expression" or node.child_by_field_name("operator").type != "/":
            return None
        left, right = (node.child_by_field_name(side) for side in ("left", "right"))
        if parsed.is_integer(left) and parsed.is_integer(right):
            return None
        under = root_of(right)
        if under is not None:
            return f"({render(left)} * rsqrtf({render(under)}))"
        inner = right.named_children[0] if right.type == "parenthesized_expression" else right
        if inner.type == "binary_expression" and inner.child_by_field_name("operator").type == "*":
            one, other = (inner.child_by_field_name(side) for side in ("left", "right"))
            for root, beside in ((root_of(one), other), (root_of(other), one)):
                if root is not None and parsed.of(root).strip() == parsed.of(beside).strip():
                    return f"({render(left)}{3 * f' * rsqrtf({render(root)})'})"
        around = node.parent
        while around is not None and around.type not in ("for_statement", "while_statement"):
            around = around.parent
        names = parsed.names_in(right)
        scalar = names and all(parsed.declared.get(n) == "float" for n in names)
        if (
            around is not None
            and scalar
            and not names & parsed.changed_in(around)
            and "[" not in parsed.of(right)
        ):
            return f"({render(left)} * (1.0f / ({render(right)})))"
        return None

    edits = parsed.edits(rule)
    if edits:
        line = parsed.text.count("\n", 0, edits[0].first) + 1
        yield SourceRewrite(
            "functions", f"reciprocals and reciprocal roots in place of divisions from line {line}", edits
        )


def hoisted(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    """What a loop computes from what it leaves alone, before it; from one whole number that seldom changes,
    only where that has changed."""
    for loop in walk(parsed.body):
        body = loop.child_by_field_name("body") if loop.type in ("for_statement", "while_statement") else None
        if body is not None and body.type == "compound_statement":
            yield from _hoisted_of(parsed, loop, body)
        if body is not None:
            careful = list(_invariant_calls(parsed, loop, body, others=False))
            yield from careful
            yield from (r for r in _invariant_calls(parsed, loop, body, others=True) if r not in careful)


def _invariant_calls(parsed: ParsedKernel, loop: Any, body: Any, others: bool) -> Iterator[SourceRewrite]:
    """Calls, divisions and loads whose operands a loop leaves alone, also those in its condition; with
    ``others`` also loads of elements of which the loop sets others (of the same array)."""
    changed, made = parsed.changed_in(loop, elements=not others), []
    set_here = {
        parsed.of(n.child_by_field_name("left")) for n in walk(loop) if n.type == "assignment_expression"
    }
    pointers = {name for name, kind in parsed.declared.items() if kind.endswith(" *")}

    def rule(node: Any, _: Render) -> str | None:
        text = parsed.of(node)
        call = node.type == "call_expression" and _COSTLY.match(text) is not None and "sincos" not in text
        divided = node.type == "binary_expression" and node.child_by_field_name("operator").type == "/"
        names = parsed.names_in(node)
        load = _is_element(node) and bool(names & pointers) and _is_read(node) and text not in set_here
        if not (call or divided or load) or names & changed or not names - set(parsed.macros):
            return None
        if text not in made:
            made.append(text)
        return f"smlab_hoisted{made.index(text)}"

    condition = loop.child_by_field_name("condition")
    edits = (*(parsed.edits(rule, condition) if condition is not None else ()), *parsed.edits(rule, body))
    if edits:
        before = (
            "{ " + " ".join(f"const auto smlab_hoisted{n} = {text};" for n, text in enumerate(made)) + " "
        )
        ends = (
            TextEdit(parsed.begin_of(loop), parsed.begin_of(loop), before + "\n"),
            TextEdit(loop.end_byte, loop.end_byte, " }"),
        )
        line = parsed.line(loop)
        yield SourceRewrite("hoisted", f"{', '.join(made)} before the loop at line {line}", (*edits, *ends))


def _is_element(node: Any) -> bool:
    """Whether this is an element of an array, or a field of one."""
    while node is not None and node.type == "field_expression":
        node = node.child_by_field_name("argument")
    return node is not None and node.type == "subscript_expression"


def _is_read(node: Any) -> bool:
    """Whether an element is read alone: neither set, nor pointed to, nor a part of another's place."""
    return node.parent.type not in (
        *("pointer_expression", "update_expression", "field_expression", "subscript_expression"),
    ) and not (
        node.parent.type == "assignment_expression" and node.parent.child_by_field_name("left") == node
    )


def _hoisted_of(parsed: ParsedKernel, loop: Any, body: Any) -> Iterator[SourceRewrite]:
    statements = [s for s in body.named_children if s.type != "comment"]
    changed = parsed.changed_in(loop)
    assigned_once = {name for name in changed if sum(name in parsed.changed_in(s) for s in statements) == 1}
    for key in [None, *_keys(parsed, statements, assigned_once)]:
        free = (parsed.names_in(loop) - changed) | ({key} if key else set())
        taken: list[Any] = []
        names: set[str] = set()
        for statement in statements:
            made = parsed.changed_in(statement)
            text = parsed.of(statement)
            pure = statement.type == "declaration" and "&" not in text and "*" not in text.split("=")[0]
            pure = pure or (
                statement.type == "expression_statement" and re.match(r"sincosf?\s*\(", text) is not None
            )
            bare = statement.type == "declaration" and "=" not in text and "[" not in text and ";" in text
            used = parsed.names_in(statement) - made
            later = [s for s in statements if s is not statement and made & parsed.changed_in(s)]
            output = all(s.type == "declaration" or s.type == "expression_statement" for s in later)
            if key in made or not (pure or bare) or "__sync" in text or "atomic" in text:
                continue
            if used <= free | names and (made <= assigned_once or output) and "shfl" not in text:
                taken.append(statement)
                names |= made
        costly = [s for s in taken if _COSTLY.search(parsed.of(s))]
        if costly and (key is None or any(key in _inputs(parsed, s, taken) for s in costly)):
            if key is not None:
                yield from _as_in_the_first_round(parsed, loop, taken, key)
            yield _moved(parsed, loop, taken, key)
            return


def _as_in_the_first_round(
    parsed: ParsedKernel, loop: Any, taken: list[Any], key: str
) -> Iterator[SourceRewrite]:
    """All before the loop, where the whole number is the same in all rounds as in the first."""
    begun = re.match(r"for\s*\(\s*(?:\w+\s+)*(\w+)\s*=([^;]*);", parsed.of(loop))
    body = loop.child_by_field_name("body")
    made = next(s for s in body.named_children if key in parsed.changed_in(s))
    used = parsed.names_in(made) - {key}
    if begun is None or used & parsed.changed_in(loop) != {begun[1]}:
        return
    before = [made, *(s for s in taken if s is not made)]
    yield _moved(
        parsed, loop, before, None, {begun[1]: f"({begun[2].strip()})"}, f", where {key} stays the same"
    )


def _keys(parsed: ParsedKernel, statements: list[Any], once: set[str]) -> list[str]:
    """Whole numbers that the body declares."""
    found = []
    for s in statements:
        if s.type == "declaration" and "=" in parsed.of(s):
            found += [n for n in parsed.changed_in(s) if n in once and parsed.declared.get(n) in INTEGERS]
    return found


def _inputs(parsed: ParsedKernel, statement: Any, taken: list[Any]) -> set[str]:
    found = parsed.names_in(statement)
    for _ in taken:
        for s in taken:
            if parsed.changed_in(s) & found:
                found |= parsed.names_in(s)
    return found


def _moved(
    parsed: ParsedKernel,
    loop: Any,
    taken: list[Any],
    key: str | None,
    given: Mapping[str, str] = MappingProxyType({}),
    where: str = "",
) -> SourceRewrite:
    """These statements before a loop, with names as they are ``given``; or, with a ``key``, only where that
    has changed."""
    declared, computed = [], []
    for s in taken:
        if s.type != "declaration":
            computed.append(parsed.of(s))
            continue
        kind = parsed.of(s.child_by_field_name("type"))
        for one in s.children_by_field_name("declarator"):
            name = one.child_by_field_name("declarator") if one.type == "init_declarator" else one
            declared.append(f"{kind} {parsed.of(name)};")
            if one.type == "init_declarator":
                value = parsed.of(one.child_by_field_name("value"))
                for other, text in given.items():
                    value = re.sub(rf"\b{other}\b", text, value)
                computed.append(f"{parsed.of(name)} = {value};")
    line = parsed.line(next(s for s in taken if _COSTLY.search(parsed.of(s))))
    edits = [TextEdit(s.start_byte, s.end_byte, "") for s in taken]
    before = "{ " + " ".join(declared)
    if key is None:
        before += " " + " ".join(computed)
        told = f"line {line} computed before the loop at line {parsed.line(loop)}{where}"
    else:
        before += " long long smlab_last = 1ll << 62;"
        first = min(s.start_byte for s in taken if parsed.names_in(s) & {key} or s in taken)
        at = max(first, _behind(parsed, loop, key))
        inside = f" if (smlab_last != {key}) {{ smlab_last = {key}; {' '.join(computed)} }} "
        edits.append(TextEdit(at, at, inside))
        told = f"line {line} computed only where {key} is not what it was the round before"
    edits += [
        TextEdit(parsed.begin_of(loop), parsed.begin_of(loop), before + "\n"),
        TextEdit(loop.end_byte, loop.end_byte, " }"),
    ]
    return SourceRewrite("hoisted", told, tuple(edits))


def _behind(parsed: ParsedKernel, loop: Any, key: str) -> int:
    """Behind the statement that declares a name."""
    body = loop.child_by_field_name("body")
    return int(next(s.end_byte for s in body.named_children if key in parsed.changed_in(s)))


def _quotient(node: Any) -> tuple[Any, Any] | None:
    """What a division or remainder divides, and by what, without casts or parentheses; of others None."""
    if node.type != "binary_expression" or node.child_by_field_name("operator").type not in "%/":
        return None
    left, right = (node.child_by_field_name(side) for side in ("left", "right"))
    while right.type in ("cast_expression", "parenthesized_expression"):
        right = right.child_by_field_name("value") or right.named_children[0]
    return left, right
