"""Files that users name, checked before they are read: one line where they cannot be. For all rooms.

The limits are here as well: a file of a few kilobytes may unpack to terabytes, and a line may have no end.
"""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import stat
import tomllib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final

from smlab.hw_bench.errors import SmlabError, nearest

MAX_TOML_BYTES: Final = 16 * 2**20
MAX_BYTES: Final = 2**30
"""Of a file that is read whole, unpacked."""
MAX_JSON_BYTES: Final = 2**27
"""Of a JSON document, unpacked; parsed it takes about ten times as much memory."""
MAX_CODE_BYTES: Final = 2**28
"""Of machine code: a cubin or a listing."""
MAX_SOURCE_BYTES: Final = 2**24
"""Of CUDA C in one file."""
MAX_LINE_BYTES: Final = 2**20
"""Of a line of a table, a listing or a trace."""
MAX_EMPTY_LINES: Final = 10_000
MAX_DEPTH: Final = 100
"""Of tables and lists within each other."""
MIN_WHOLE, MAX_WHOLE = -(2**63), 2**64 - 1
"""Whole numbers of TOML and JSON: what 64 bits hold, with a sign or without."""
_GZIP: Final = b"\x1f\x8b"


def check_file(path: Path, expected: str = "a file", *, max_bytes: int | None = None) -> None:
    """Check that ``path`` is a file that can be opened; ``expected`` says which one it should be.

    Devices and pipes are refused: a device may have no end, a pipe perhaps no writer, and readers look at a
    file more than once.

    Raises:
        SmlabError: what stands there instead, or why it cannot be opened.
    """
    try:
        status = path.stat()
        mode = status.st_mode
        if stat.S_ISREG(mode):
            os.close(os.open(path, os.O_RDONLY))
    except FileNotFoundError as error:
        raise SmlabError.at(str(path), "there is no such file", expected=expected) from error
    except (OSError, ValueError) as error:
        raise SmlabError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if stat.S_ISDIR(mode):
        raise SmlabError.at(str(path), "is a directory", expected=expected)
    if not stat.S_ISREG(mode):
        raise SmlabError.at(str(path), "is a device or a pipe", expected=expected)
    if max_bytes is not None and status.st_size > max_bytes:
        raise SmlabError.at(str(path), "is too large", f"{status.st_size} bytes", f"at most {max_bytes}")


def check_folder(where: str, path: Path, expected: str = "a folder") -> None:
    """`SmlabError` naming ``where`` unless ``path`` is a folder."""
    try:
        there = path.is_dir()
    except (OSError, ValueError):
        there = False
    if not there:
        raise SmlabError.at(where, "there is no such folder", str(path), expected)


def resolved(path: Path) -> Path:
    """The path without links; `SmlabError` where they go round in a circle, or for what is no path."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        said = os.strerror(errno.ELOOP) if isinstance(error, RuntimeError) else error
        raise SmlabError(f"{path}: cannot be found: {said}") from error


def read_bytes(path: Path, expected: str = "a file", *, max_bytes: int = MAX_BYTES) -> bytes:
    """The content of a file, unpacked if it is gzip.

    Raises:
        SmlabError: what cannot be opened or unpacked, or has more than ``max_bytes``.
    """
    check_file(path, expected, max_bytes=max_bytes)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SmlabError(f"{path}: cannot be read: {error.strerror or error}") from error
    return unpacked(str(path), content, max_bytes) if content[:2] == _GZIP else content


def machine_code_bytes(path: Path) -> bytes:
    """Machine code, a cubin or a listing, `MAX_CODE_BYTES` at most; `SmlabError` as `read_bytes`."""
    return read_bytes(path, "machine code", max_bytes=MAX_CODE_BYTES)


def source_text(path: Path) -> str:
    """CUDA C, `MAX_SOURCE_BYTES` at most, for a compiler that tells what is no text; `SmlabError` as
    `read_bytes`."""
    return read_bytes(path, "CUDA C", max_bytes=MAX_SOURCE_BYTES).decode("utf-8", "replace")


def unpacked(where: str, content: bytes, max_bytes: int = MAX_BYTES) -> bytes:
    """gzip unpacked, ``max_bytes`` at most; `SmlabError` naming ``where`` for more, and for what is
    damaged."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            data = file.read(max_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise SmlabError.at(where, f"truncated or damaged gzip: {error}") from error
    if len(data) > max_bytes:
        raise SmlabError.at(where, "is too large unpacked", f"more than {max_bytes} bytes", "a smaller file")
    return data


def check_lines(where: str, content: bytes) -> None:
    """`SmlabError` with its number for a line of more than `MAX_LINE_BYTES`."""
    at = 0
    while len(content) - at > MAX_LINE_BYTES:
        end = content.rfind(b"\n", at, at + MAX_LINE_BYTES + 1)
        if end < 0:
            raise _long_line(where, content.count(b"\n", 0, at) + 1)
        at = end + 1


def limited_lines(where: str, file: IO[str]) -> Iterator[tuple[int, str]]:
    """The lines of a text, numbered from 1; `SmlabError` for one of more than `MAX_LINE_BYTES` characters,
    and for more than `MAX_EMPTY_LINES` empty ones in a row."""
    number = empty = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise _long_line(where, number)
        empty = 0 if len(line) > 1 else empty + 1
        if empty > MAX_EMPTY_LINES:
            raise SmlabError(f"{where}: line {number}: more than {MAX_EMPTY_LINES} empty lines in a row")
        yield number, line


def _long_line(where: str, number: int) -> SmlabError:
    return SmlabError.at(
        f"{where}: line {number}", "is too long", f"more than {MAX_LINE_BYTES} bytes", "a shorter line"
    )


def check_keys(where: str, table: Any, keys: tuple[str, ...]) -> None:
    """Refuse what is no table, or has a key that is none of ``keys``.

    Raises:
        SmlabError: with the nearest key, where one is near.
    """
    if not isinstance(table, dict):
        raise SmlabError.at(where, "is not a table", table)
    for key in table:
        if key not in keys:
            guess = nearest(key, keys)
            perhaps = f"perhaps {guess}; one of " if guess else "one of "
            raise SmlabError.at(where, "unknown key", key, perhaps + ", ".join(keys))


def load_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; `SmlabError` where it cannot be read, with the line of what is malformed."""
    content = read_bytes(path, "a TOML file", max_bytes=MAX_TOML_BYTES)
    try:
        tables = tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise SmlabError(f"{path}: is not a text file") from error
    except ValueError as error:  # malformed, or a number of thousands of digits
        raise SmlabError(f"{path}: is not valid TOML: {error}") from error
    except RecursionError as error:
        raise SmlabError(f"{path}: is nested too deeply") from error
    check_tree(str(path), tables)
    return tables


def load_json(
    path: Path, expected: str = "a JSON file, plain or .gz", *, repaired: Callable[[str], str] | None = None
) -> Any:
    """The content of a JSON file, plain or gzip, as `parse_json`; ``repaired`` may change the text before it
    is parsed."""
    content = read_bytes(path, expected, max_bytes=MAX_JSON_BYTES)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SmlabError.at(str(path), f"cannot be read: {error}", expected=expected) from error
    return parse_json(str(path), text if repaired is None else repaired(text))


def parse_json(where: str, text: str) -> Any:
    """A JSON document.

    Raises:
        SmlabError: the line of what is malformed, and what `check_tree` refuses.
    """
    try:
        tree = json.loads(text)
    except json.JSONDecodeError as error:
        raise SmlabError(f"{where}: line {error.lineno}: is not JSON: {error.msg}") from error
    except ValueError as error:  # a number of thousands of digits
        raise SmlabError(f"{where}: is not JSON: {error}") from error
    except RecursionError as error:
        raise SmlabError(f"{where}: is not JSON: nested too deeply") from error
    check_tree(where, tree)
    return tree


def check_tree(where: str, tree: Any) -> None:
    """Check what TOML or JSON gave.

    Raises:
        SmlabError: a whole number beyond `MIN_WHOLE` and `MAX_WHOLE`, or more than `MAX_DEPTH` tables and
        lists within each other, with its place.
    """
    left: list[tuple[Any, Any, int]] = [(None, {"": tree}, -1)]
    while left:
        place, node, depth = left.pop()
        if depth > MAX_DEPTH:
            raise SmlabError(f"{where}: {_dotted(place)[:40]}...: is nested too deeply")
        for key, inner in node.items() if isinstance(node, dict) else enumerate(node):
            if type(inner) is int:
                if not MIN_WHOLE <= inner <= MAX_WHOLE:
                    digits = f"about {inner:.0e}" if inner.bit_length() < 1000 else "hundreds of digits"
                    at = f"{where}: {_dotted((place, key))}"
                    raise SmlabError.at(at, "a whole number that is too large", digits, "64 bits at most")
            elif isinstance(inner, dict | list):
                left.append(((place, key), inner, depth + 1))


def _dotted(place: Any) -> str:
    """A place in a tree, its outer place and its own key, as ``table.key[3]``."""
    steps = []
    while place is not None:
        place, key = place
        steps.append(f"[{key}]" if isinstance(key, int) else f".{key}")
    return "".join(reversed(steps)).lstrip(".") or "the document"
