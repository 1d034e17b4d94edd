"""What a cubin holds, read with no tool: the architecture and the machine code of each kernel, with its
digest."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from smlab.hw_bench.errors import SmlabError

_MAGIC: Final = b"\x7fELF\x02\x01"
_CUDA_MACHINE: Final = 190
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_TEXT: Final = ".text."


@dataclass(frozen=True)
class CubinFunction:
    """The machine code of one kernel. Its digest does not depend on names or line tables, as a file's
    would."""

    name: str
    code: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.code).hexdigest()


@dataclass(frozen=True)
class Cubin:
    """A CUDA binary; ``architecture`` is such as ``sm_90``, ``sha256`` the digest of the whole file."""

    architecture: str
    functions: tuple[CubinFunction, ...]
    sha256: str


def read_cubin(content: bytes | Path, where: str | None = None) -> Cubin:
    """Read a cubin from a file or from memory; `SmlabError` for anything else."""
    if isinstance(content, Path):
        where = where or str(content)
        try:
            content = content.read_bytes()
        except OSError as error:
            raise SmlabError(f"{where}: cannot be read: {error}") from error
    where = where or "cubin"
    if len(content) < _HEADER.size or not content.startswith(_MAGIC):
        raise SmlabError.at(where, "is not a CUDA binary", content[:4], "a 64-bit ELF file")
    header = _HEADER.unpack_from(content)
    machine, offset, flags, size, count, names_at = (
        header[2],
        header[6],
        header[7],
        header[11],
        header[12],
        header[13],
    )
    if machine != _CUDA_MACHINE:
        raise SmlabError.at(where, "is an ELF file for another machine", machine, f"{_CUDA_MACHINE} (CUDA)")
    try:
        sections = [_SECTION.unpack_from(content, offset + i * size) for i in range(count)]
        names = _body(content, sections[names_at])
        functions = tuple(
            CubinFunction(name[len(_TEXT) :], _body(content, section))
            for section in sections
            if (name := _name(names, section[0])).startswith(_TEXT)
        )
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise SmlabError.at(where, f"is cut off: {error}") from error
    # Version 7 of the ABI keeps the architecture in the lowest byte, version 8 (CUDA 13) in the second.
    low, second = flags & 0xFF, flags >> 8 & 0xFF
    architecture = low if content[8] < 8 else second
    return Cubin(f"sm_{architecture}", functions, hashlib.sha256(content).hexdigest())


def _body(content: bytes, section: tuple[int, ...]) -> bytes:
    return content[section[4] : section[4] + section[5]]


def _name(names: bytes, at: int) -> str:
    return names[at : names.index(b"\0", at)].decode("utf-8", errors="replace")
