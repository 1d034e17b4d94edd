"""Expressions in files, such as restrictions and sizes of a launch, evaluated without executing Python.

The syntax is Python's, as tuners write it: numbers, texts, truth values, lists, names; ``+ - * / // % **``,
``& | ^ << >>``; comparisons, ``and``, ``or``, ``not``, ``a if b else c``; ``min``, ``max``, ``sum``, ``abs``,
``len``, ``round``, ``ceil``, ``floor``, ``log2``, ``sqrt``, ``int``, ``range``; an item of a list, and a list
made of another one. ``a / b`` of whole numbers is exact. What would take all memory is refused.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from smlab.hw_bench.errors import SmlabError, nearest

MAX_CHARACTERS: Final = 4000
MAX_BITS: Final = 256
"""Of a whole number on the way."""
MAX_ITEMS: Final = 100_000
"""Of a list."""

Lookup = Callable[[str], Any]


class _Unusable(Exception):
    """What has no place in an expression."""


def names_of(where: str, text: str) -> frozenset[str]:
    """The names that an expression reads, functions apart; `SmlabError` for one that cannot be parsed."""
    tree = _parsed(where, text)
    made = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    called = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    return frozenset(read - made - called - {"math"})


def evaluate(
    where: str,
    text: str,
    names: Mapping[str, Any] | Lookup,
    expected: str = "an expression of numbers and names",
) -> Any:
    """The value of an expression: a number (a `fractions.Fraction` where a division does not come out even),
    a text, a truth value or a list.

    ``names`` are the values of names, or a function that gives them and refuses those that it does not know.

    Raises:
        SmlabError: naming ``where``, what cannot be read, a name that is not known, a division by zero, or
        anything but an expression, with what is ``expected``.
    """
    tree = _parsed(where, text)
    lookup = names if callable(names) else _lookup(where, names)
    try:
        return _value(tree, lookup)
    except ZeroDivisionError:
        raise SmlabError.at(where, "divides by zero", text) from None
    except (_Unusable, TypeError, ValueError, OverflowError, IndexError, RecursionError) as error:
        why = f": {error}" if str(error) and not isinstance(error, RecursionError) else ""
        raise SmlabError.at(where, f"cannot be evaluated{why}", text, expected) from None


@lru_cache(maxsize=1024)
def _tree(text: str) -> ast.expr:
    return ast.parse(text.strip(), mode="eval").body


def _parsed(where: str, text: str) -> ast.expr:
    if len(text) > MAX_CHARACTERS:
        raise SmlabError.at(where, "is too long", f"{len(text)} characters", f"at most {MAX_CHARACTERS}")
    try:
        return _tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        expected = "an expression such as ceil(4096 / TILE)"
        raise SmlabError.at(where, "cannot be read", text, expected) from error


def _lookup(where: str, names: Mapping[str, Any]) -> Lookup:
    def look(name: str) -> Any:
        if name not in names:
            guess = nearest(name, names)
            known = f"perhaps {guess}; one of " if guess else "one of "
            raise SmlabError.at(where, "names something that is not there", name, known + ", ".join(names))
        return names[name]

    return look


def _value(node: ast.expr, lookup: Lookup) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float, str, bool):
        return node.value
    if isinstance(node, ast.Name):
        return lookup(node.id)
    if isinstance(node, ast.BinOp):
        return _combined(type(node.op), _value(node.left, lookup), _value(node.right, lookup))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return _UNARY[type(node.op)](_value(node.operand, lookup))
    if isinstance(node, ast.BoolOp):
        return _either(node, lookup)
    if isinstance(node, ast.Compare):
        return _compared(node, lookup)
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, lookup) else node.orelse, lookup)
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(item, lookup) for item in node.elts]
    if isinstance(node, ast.Subscript):
        return _value(node.value, lookup)[_whole(_value(node.slice, lookup))]
    if isinstance(node, ast.Call):
        return _called(node, lookup)
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return _listed(node, lookup)
    raise _Unusable


def _combined(kind: type[ast.operator], left: Any, right: Any) -> Any:
    if kind is ast.Add and isinstance(left, list) and isinstance(right, list):
        return _bounded([*left, *right])
    if not isinstance(left, _NUMBERS) or not isinstance(right, _NUMBERS) or kind not in _BINARY:
        raise _Unusable
    if kind is ast.Div and not isinstance(left, float) and not isinstance(right, float):
        return _even(Fraction(left) / Fraction(right))
    if kind in (ast.Pow, ast.LShift) and not 0 <= right <= MAX_BITS:
        raise _Unusable(f"the exponent {right} is too large")
    return _bounded(_BINARY[kind](left, right))


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise _Unusable("a number is too large")
    if isinstance(value, list) and len(value) > MAX_ITEMS:
        raise _Unusable("a list is too long")
    return _even(value) if isinstance(value, Fraction) else value


def _even(value: Fraction) -> int | Fraction:
    return value.numerator if value.denominator == 1 else value


def _either(node: ast.BoolOp, lookup: Lookup) -> Any:
    found: Any = None
    for part in node.values:
        found = _value(part, lookup)
        if bool(found) is isinstance(node.op, ast.Or):
            break
    return found


def _compared(node: ast.Compare, lookup: Lookup) -> bool:
    left = _value(node.left, lookup)
    for kind, part in zip(node.ops, node.comparators, strict=True):
        right = _value(part, lookup)
        if type(kind) not in _COMPARED:
            raise _Unusable
        if not _COMPARED[type(kind)](left, right):
            return False
        left = right
    return True


def _called(node: ast.Call, lookup: Lookup) -> Any:
    name = node.func
    if isinstance(name, ast.Attribute) and isinstance(name.value, ast.Name) and name.value.id == "math":
        called = name.attr
    else:
        called = name.id if isinstance(name, ast.Name) else ""
    if called not in _FUNCTIONS or node.keywords:
        raise _Unusable
    given = [_value(argument, lookup) for argument in node.args]
    if called in ("min", "max") and len(given) == 1 and not isinstance(given[0], list):
        return given[0]
    return _bounded(_FUNCTIONS[called](*given))


def _listed(node: ast.ListComp | ast.GeneratorExp, lookup: Lookup) -> list[Any]:
    """A list made of another one, by one ``for`` with its conditions."""
    if len(node.generators) != 1 or not isinstance(node.generators[0].target, ast.Name):
        raise _Unusable
    each, found = node.generators[0], []
    name = each.target.id if isinstance(each.target, ast.Name) else ""
    for item in _value(each.iter, lookup):

        def inner(asked: str, item: Any = item) -> Any:
            return item if asked == name else lookup(asked)

        if all(_value(condition, inner) for condition in each.ifs):
            found.append(_value(node.elt, inner))
    return found


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Unusable
    return value


def _range(*bounds: Any) -> list[int]:
    made = range(*map(_whole, bounds))
    if len(made) > MAX_ITEMS:
        raise _Unusable("a list is too long")
    return list(made)


_NUMBERS: Final = (int, float, Fraction)
_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
_COMPARED: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "min": min,
    "max": max,
    "sum": sum,
    "abs": abs,
    "len": len,
    "round": round,
    "ceil": math.ceil,
    "floor": math.floor,
    "log2": math.log2,
    "sqrt": math.sqrt,
    "int": int,
    "range": _range,
}
