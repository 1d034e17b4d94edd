"""Arrays of numpy in files that users name, read within limits. For all rooms."""

from __future__ import annotations

import io
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import replacing
from smlab.hw_bench.inputs import check_file

MAX_BYTES: Final = 2**30
"""Of the arrays of one file."""
_UNREADABLE: Final = (
    *(OSError, ValueError, EOFError, TypeError, KeyError, AttributeError, RuntimeError, MemoryError),
    *(SyntaxError, ArithmeticError, NotImplementedError, struct.error, tokenize.TokenError),
    *(zipfile.BadZipFile, zlib.error),
)
"""What numpy raises for a file that is damaged."""


def load_array(path: Path) -> NDArray[Any]:
    """The array of a ``.npy`` file; `SmlabError` for anything else, and for more than `MAX_BYTES`."""
    check_file(path, "an array (.npy)", max_bytes=MAX_BYTES)
    try:
        # A header may promise more than the file has, and more than numpy can count.
        with np.errstate(all="raise"):
            found = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(found, np.ndarray):
            raise ValueError("several arrays")  # noqa: TRY004
        return np.array(found)
    except _UNREADABLE as error:
        raise SmlabError(f"{path}: no array of numpy (.npy): {_why(error)}") from error


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a ``.npz`` file by name; `SmlabError` for anything else, and beyond `MAX_BYTES`."""
    check_file(path, "arrays (.npz)", max_bytes=MAX_BYTES)
    try:
        content = path.read_bytes()
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size <= MAX_BYTES:
            with np.errstate(all="raise"), np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                return {name: np.asarray(arrays[name]) for name in arrays.files}
    except _UNREADABLE as error:
        what = "no arrays of numpy in it (expected an .npz file)"
        raise SmlabError(f"{path}: {what}: {_why(error)}") from error
    raise SmlabError.at(str(path), "is too large unpacked", f"{size} bytes", f"at most {MAX_BYTES}")


def _why(error: BaseException) -> str:
    """What numpy says; it takes what is no array for pickled objects, and says how to execute them."""
    return "what is there are no numbers" if "allow_pickle" in str(error) else str(error)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Arrays by name as ``.npz``, whole or not at all, in the very file that ``path`` names.

    Raises:
        OSError: as `smlab.hw_bench.files.replacing`.
    """
    # numpy.savez adds a suffix, and takes names such as "file" for its own arguments.
    with replacing(path) as beside, beside.open("wb") as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
