"""The one exception that users of smlab are meant to see."""

from __future__ import annotations


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
            notes.append(f"got {value!r}")
        if expected is not None:
            notes.append(f"expected {expected}")
        return cls(f"{where}: {what}" + (f" ({'; '.join(notes)})" if notes else ""))
