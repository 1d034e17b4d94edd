"""The one exception that users of smlab are meant to see, and the guess at what they meant."""

from __future__ import annotations

import difflib
import itertools
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn


class SmlabError(Exception):
    """Unusable input, told in one line: what is wrong, where, with which value, and what would be right.

    The command line prints the message and exits with status 2; it never shows a traceback for it.
    """

    @classmethod
    def at(cls, where: str, what: str, value: object = None, expected: str | None = None) -> SmlabError:
        """Build the usual message ``where: what (got value; expected ...)``.

        ``where`` is a file with its key, row or column; ``expected`` says what would have been right.
        """
        notes = []
        if value is not None:
            notes.append(f"got {_told(value)}")
        if expected is not None:
            notes.append(f"expected {expected}")
        return cls(f"{where}: {what}" + (f" ({'; '.join(notes)})" if notes else ""))

    @classmethod
    def of_value(cls, where: str, problem: Mapping[str, Any]) -> SmlabError:
        """What pydantic found wrong with a value, one of its ``errors()``, in the words of `at`."""
        expected, limits = _EXPECTED.get(problem["type"]), problem.get("ctx", {})
        for limit, words in _LIMITS.items():
            if limit in limits:
                expected = words.format(f"{limits[limit]:,}".removesuffix(".0"))
        what = problem["msg"] if expected is None else "unusable value"
        return cls.at(where, what, problem["input"], expected)


_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a table",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "a table",
    "string_type": "a text",
}
_LIMITS = {"ge": "{} or more", "gt": "more than {}", "le": "{} or less", "lt": "less than {}"}
"""What would be right, by the type of pydantic's error and by the limit that it names."""

_MAX_TOLD = 2000
"""Characters of a value that a message repeats; the command line shows less of a long word."""


def _told(value: object) -> str:
    """A value as Python writes it; a number of thousands of digits it refuses to write."""
    try:
        text = repr(value)
    except ValueError:
        return f"a {type(value).__name__} of thousands of digits"
    except RecursionError:
        return f"a {type(value).__name__} that is nested too deeply"
    return text if len(text) <= _MAX_TOLD else f"{text[:_MAX_TOLD]}... ({len(text)} characters)"


def end_with(main: Callable[[], int]) -> NoReturn:
    """End a ``python -m`` module with the status of its ``main``, or with 2 and the one line of a
    `SmlabError`."""
    try:
        sys.exit(main())
    except SmlabError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like ``name``, for the question *did you mean ...?*"""
    return next(iter(alike_names(name, known, most=1)), None)


def alike_names(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names that are most like ``name``, the most alike first; else those that end in the same
    part behind a dot."""
    known = list(known)
    matches = difflib.get_close_matches(name, known, n=most, cutoff=0.5)
    tails = (k for k in known if k.rsplit(".", 1)[-1] == name.rsplit(".", 1)[-1])
    return matches or list(itertools.islice(tails, most))
