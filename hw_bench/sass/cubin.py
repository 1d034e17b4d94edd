"""What a cubin holds, read with no tool of NVIDIA's: sections, symbols and relocations (by `pyelftools`), the
architecture, and the machine code of each kernel with its digest."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, SymbolTableSection

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import machine_code_bytes

_MAGIC: Final = b"\x7fELF\x02\x01"
_HEADER_BYTES, _SECTION_BYTES, _SYMBOL_BYTES = 64, 64, 24
_CUDA: Final = ("EM_CUDA", 190)
_TEXT: Final = ".text."
_MAX_EMPTY_BYTES: Final = 1 << 28
"""What is read of a section without content in the file (shared memory, variables that begin as zeros)."""
# What pyelftools raises of a damaged file, besides its own: it does not test all that it reads.
_DAMAGED: Final = (ELFError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class CubinSymbol(NamedTuple):
    """A symbol: ``section`` is the number of its section (0: another module defines it; -1: it has none)."""

    name: str
    section: int
    offset: int
    size: int


class CubinRelocation(NamedTuple):
    """A place of 8 bytes in a section that holds an address: the symbol's, and how far behind it."""

    offset: int
    symbol: CubinSymbol
    addend: int


class CubinSections:
    """The sections of a cubin, by name.

    Raises:
        SmlabError: no cubin, or one that is cut off or damaged, here or where a section is read.
    """

    def __init__(self, content: bytes, where: str = "cubin") -> None:
        self.where = where
        if len(content) < _HEADER_BYTES or not content.startswith(_MAGIC):
            raise SmlabError.at(where, "is not a CUDA binary", content[:4], "a 64-bit ELF file")
        self._bytes = len(content)
        with self._reading():
            self._file = ELFFile(io.BytesIO(content))
            machine = self._file["e_machine"]
        if machine not in _CUDA:
            raise SmlabError.at(where, "is an ELF file for another machine", machine, f"{_CUDA[1]} (CUDA)")
        with self._reading():
            count, names = self._file.num_sections(), self._file.get_shstrndx()
            if not 0 < count <= self._bytes // _SECTION_BYTES:
                raise ValueError(f"{count} sections")
            if self._file["e_shentsize"] != _SECTION_BYTES:
                raise ValueError(f"{self._file['e_shentsize']} bytes a section header")
            self._sections = [self._file.get_section(n) for n in range(count)]
            self._test_names(self._sections[names], (s["sh_name"] for s in self._sections))
        self._numbers = {section.name: n for n, section in reversed(list(enumerate(self._sections)))}

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGED as error:
            raise SmlabError.at(self.where, f"is cut off or damaged: {error}") from error

    @property
    def architecture(self) -> str:
        """Such as ``sm_90``."""
        # Version 7 of the ABI keeps it in the lowest byte of the flags, version 8 (CUDA 13) in the second.
        flags, version = self._file["e_flags"], self._file["e_ident"]["EI_ABIVERSION"]
        return f"sm_{flags & 0xFF if version < 8 else flags >> 8 & 0xFF}"

    @property
    def names(self) -> list[str]:
        return [section.name for section in self._sections]

    def find(self, name: str) -> int | None:
        """The number of a section."""
        return self._numbers.get(name)

    def size(self, name: str) -> int:
        """The bytes of a section; 0 where there is none of this name."""
        return self._header(name, "sh_size")

    def info(self, name: str) -> int:
        """The number that a section's header has for what its type says; 0 where there is none."""
        return self._header(name, "sh_info")

    def _header(self, name: str, field: str) -> int:
        at = self.find(name)
        return 0 if at is None else int(self._sections[at][field])

    def body(self, name: str) -> bytes:
        """The content of a section; empty where there is none of this name."""
        at = self.find(name)
        if at is None:
            return b""
        with self._reading():
            return self._content(self._sections[at])

    def _content(self, section: Section) -> bytes:
        if section["sh_type"] == "SHT_NOBITS":
            return bytes(min(section["sh_size"], _MAX_EMPTY_BYTES))
        if section["sh_offset"] + section["sh_size"] > self._bytes:
            raise ValueError(f"section {section.name} ends behind the file")
        if section["sh_flags"] & SH_FLAGS.SHF_COMPRESSED:
            raise ValueError(f"section {section.name} is compressed")
        return section.data()

    def _test_names(self, table: Section, places: Iterable[int]) -> None:
        """Names lie in their table, which `pyelftools` does not ask, and the last one has an end."""
        content = self._content(table)
        if not content.endswith(b"\0"):
            raise ValueError("a table of names has no end")
        if any(at >= len(content) for at in places):
            raise ValueError("a name lies outside of its table")

    @cached_property
    def symbols(self) -> list[CubinSymbol]:
        with self._reading():
            table = next((s for s in self._sections if isinstance(s, SymbolTableSection)), None)
            if table is None:
                return []
            self._content(table)  # its place lies in the file
            if table["sh_entsize"] != _SYMBOL_BYTES:
                raise ValueError(f"{table['sh_entsize']} bytes a symbol")
            symbols = list(table.iter_symbols())
            self._test_names(table.stringtable, (s["st_name"] for s in symbols))
            return [
                CubinSymbol(s.name, _section_number(s["st_shndx"]), s["st_value"], s["st_size"])
                for s in symbols
            ]

    def relocations(self, target: str) -> Iterator[CubinRelocation]:
        """The places in a section that hold addresses."""
        symbols = self.symbols
        with self._reading():
            for name in (f".rel{target}", f".rela{target}"):
                section = self._sections[self._numbers[name]] if name in self._numbers else None
                if not isinstance(section, RelocationSection):
                    continue
                self._content(section)
                for entry in section.iter_relocations():
                    if entry["r_info_sym"] < len(symbols):
                        addend = entry["r_addend"] if entry.is_RELA() else 0
                        yield CubinRelocation(entry["r_offset"], symbols[entry["r_info_sym"]], addend)


def _section_number(index: int | str) -> int:
    """As `pyelftools` gives it: the numbers that are none of a section by their names in the standard."""
    return index if isinstance(index, int) else 0 if index == "SHN_UNDEF" else -1


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
        content = machine_code_bytes(content)
    sections = CubinSections(content, where or "cubin")
    functions = tuple(
        CubinFunction(name.removeprefix(_TEXT), sections.body(name))
        for name in sections.names
        if name.startswith(_TEXT)
    )
    return Cubin(sections.architecture, functions, hashlib.sha256(content).hexdigest())


def unloaded(content: bytes, where: str | None = None) -> bytes:
    """A cubin that a profiler kept as it lay in the GPU's memory, as it was in its file: its symbols and its
    line table have the addresses of the code there, with which NVIDIA's disassembler refuses it.

    Raises:
        SmlabError: no cubin, or a damaged one.
    """
    sections = CubinSections(content, where or "cubin")
    texts = {
        n for name in sections.names if name.startswith(_TEXT) and (n := sections.find(name)) is not None
    }
    placed: dict[int, int] = {}
    for symbol in sections.symbols:
        if symbol.section in texts:
            placed[symbol.section] = min(symbol.offset, placed.get(symbol.section, symbol.offset))
    for address in filter(None, placed.values()):
        content = content.replace(address.to_bytes(8, "little"), bytes(8))
    return content
