"""Single precision in place of double: constants that make an expression double, then all numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from smlab.commands.advise.rewrites.parsed import ParsedKernel, SourceRewrite, TextEdit, walk

_DOUBLE: Final = re.compile(r"(?<![\w.])(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?(?![\w.])")
"""A constant with a point or an exponent, and no suffix."""


def single_precision(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    """FP64 constants as FP32, in the text and in its macros; then FP64 variables too, but for what the launch
    hands over."""
    constants = [
        TextEdit(n.end_byte, n.end_byte, "f")
        for n in walk(parsed.root)
        if n.type == "number_literal" and _DOUBLE.fullmatch(parsed.of(n).lstrip("+-")) is not None
    ]
    for n in walk(parsed.root):
        if n.type == "preproc_arg" and n.parent.type in ("preproc_def", "preproc_function_def"):
            found = _DOUBLE.finditer(parsed.of(n))
            constants += [TextEdit(n.start_byte + f.end(), n.start_byte + f.end(), "f") for f in found]
    if constants:
        line = parsed.text.count("\n", 0, constants[0].first) + 1
        told = f"FP32 constants in place of FP64 from line {line}"
        yield SourceRewrite("single-precision", told, tuple(constants))
    variables = [
        TextEdit(n.start_byte, n.end_byte, "float")
        for n in walk(parsed.root)
        if n.type == "primitive_type" and parsed.of(n) == "double" and _is_own(parsed, n)
    ]
    if variables:
        told = "FP32 variables and constants in place of FP64"
        yield SourceRewrite("single-precision", told, (*variables, *constants))


def _is_own(parsed: ParsedKernel, node: object) -> bool:
    """Whether a type is that of a value of the text's own: no array, table or argument of the launch."""
    parent = node.parent  # type: ignore[attr-defined]
    text = parsed.of(parent)
    listed = parent.parent if parent.type == "parameter_declaration" else None
    of_kernel = listed is not None and parsed.kernel.start_byte <= listed.start_byte < parsed.body.start_byte
    return not of_kernel and "__constant__" not in text and "*" not in text.split("=")[0]
