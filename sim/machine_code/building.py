"""How a vector operation's code is built, and the table of builders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Result = tuple[Any, Any, Any]
"""The result vector and two masks of lanes; None for what there is not."""
Builder = Callable[..., Any]
BUILDERS: Final[dict[str, Builder]] = {}
ROUNDED: Final = ("fadd", "fmul", "fmul.scaled", "ffma", "dadd", "dmul", "dfma", "d2f")
"""Operations that take a rounding mode from the processor's."""


def builds(*names: str) -> Callable[[Builder], Builder]:
    def keep(function: Builder) -> Builder:
        for name in names:
            BUILDERS[name] = function
        return function

    return keep


BUILDERS["mov"] = BUILDERS["mov64"] = lambda v, a: a
BUILDERS["iadd3"] = lambda v, a, b, c: v.builder.add(v.builder.add(a, b), c)
BUILDERS["imad"] = lambda v, a, b, c: v.builder.add(v.builder.mul(a, b), c)
