"""Files that users name, checked before they are read: one line where they cannot be. For all rooms."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.errors import SmlabError

MAX_TOML_BYTES: Final = 16 * 2**20


def check_file(path: Path, expected: str = "a file", *, max_bytes: int | None = None) -> None:
    """Check that ``path`` is a file that can be opened; ``expected`` says which one it should be.

    Devices and pipes are refused: a device may have no end, a pipe perhaps no writer, and readers look at a
    file more than once.

    Raises:
        SmlabError: what stands there instead, or why it cannot be opened.
    """
    try:
        found = path.stat()
        mode = found.st_mode
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
    if max_bytes is not None and found.st_size > max_bytes:
        raise SmlabError.at(str(path), "is too large", f"{found.st_size} bytes", f"at most {max_bytes}")


def load_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; `SmlabError` where it cannot be read, with the line of what is malformed."""
    check_file(path, "a TOML file", max_bytes=MAX_TOML_BYTES)
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise SmlabError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SmlabError(f"{path}: is not a text file") from error
    except ValueError as error:  # malformed, or a number of thousands of digits
        raise SmlabError(f"{path}: is not valid TOML: {error}") from error
    except RecursionError as error:
        raise SmlabError(f"{path}: is nested too deeply") from error
