"""Cubins written here, byte by byte: what is read of them, and that each kind of damage is one line."""

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass import read_cubin
from smlab.hw_bench.sass.cubin import CubinSections, CubinSymbol
from smlab.hw_bench.sass.image import compiled_resources, functions_pointed_at

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
PROGBITS, SYMTAB, STRTAB, RELA, NOBITS = 1, 2, 3, 4, 8
CODE = bytes(range(64))
Change = Callable[[list[Any]], None]


def cubin(changed: dict[str, Change] | None = None, *, machine: int = 190, flags: int = 0x4B) -> bytes:
    """A cubin for sm_75 with one kernel and a table that points at it; ``changed`` changes the fields of
    sections' headers (name, type, flags, address, offset, size, link, info, alignment, entry size)."""
    strings = b"\0kernel\0"
    symbols = SYMBOL.pack(0, 0, 0, 0, 0, 0) + SYMBOL.pack(1, 0x12, 0, 5, 0, len(CODE))
    info = struct.pack("<BBHII", 4, 0x2F, 8, 1, 24) + struct.pack("<BBHII", 4, 0x12, 8, 1, 16)
    sections: Sequence[tuple[str, int, bytes, tuple[int, int, int]]] = (
        ("", 0, b"", (0, 0, 0)),
        (".shstrtab", STRTAB, b"", (0, 0, 0)),
        (".strtab", STRTAB, strings, (0, 0, 0)),
        (".symtab", SYMTAB, symbols, (2, 0, SYMBOL.size)),
        (".nv.info", PROGBITS, info, (0, 0, 0)),
        (".text.kernel", PROGBITS, CODE, (0, 0, 0)),
        (".nv.shared.kernel", NOBITS, bytes(256), (0, 0, 0)),
        (".nv.constant4", PROGBITS, bytes(8), (0, 0, 0)),
        (".rela.nv.constant4", RELA, struct.pack("<QQq", 0, 1 << 32 | 1, 16), (3, 7, 24)),
    )
    names = b"".join(name.encode() + b"\0" for name, *_ in sections)
    rows, content = [], b""
    at = HEADER.size + SECTION.size * len(sections)
    for name, kind, body, (link, info_, entry) in sections:
        body = names if name == ".shstrtab" else body
        row = [names.index(name.encode() + b"\0"), kind, 0, 0, at, len(body), link, info_, 1, entry]
        if kind != NOBITS:
            content += body
            at += len(body)
        (changed or {}).get(name, lambda row: None)(row)
        rows.append(SECTION.pack(*row))
    ident = b"\x7fELF\x02\x01\x01\x33\x07".ljust(16, b"\0")
    header = HEADER.pack(
        ident, 2, machine, 1, 0, 0, HEADER.size, flags, HEADER.size, 0, 0, SECTION.size, len(sections), 1
    )
    return header + b"".join(rows) + content


def test_what_a_cubin_holds() -> None:
    found = read_cubin(cubin())
    assert found.architecture == "sm_75"
    assert [(f.name, f.code) for f in found.functions] == [("kernel", CODE)]
    sections = CubinSections(cubin())
    assert sections.symbols[1] == CubinSymbol("kernel", 5, 0, 64)
    (relocation,) = sections.relocations(".nv.constant4")
    assert (relocation.offset, relocation.symbol.name, relocation.addend) == (0, "kernel", 16)
    assert sections.body(".nv.shared.kernel") == bytes(256)
    assert sections.body("no such section") == b""
    assert functions_pointed_at(cubin()) == ("kernel",)
    assert compiled_resources(cubin()) == {"kernel": (24, 256, 16)}


@pytest.mark.parametrize(("flags", "own"), [(0x4B, 2048), (0x50, 2048), (0x5A, 1024), (0x78, 1024)])
def test_the_system_s_shared_memory_is_not_the_kernel_s(flags: int, own: int) -> None:
    """From sm_90 on the section counts the 1,024 bytes that the driver keeps in each block. An H100's
    driver refuses Triton's kernels that ask for so many fewer."""

    def of_2_kib(section: list[Any]) -> None:
        section[5] = 2048

    resources = compiled_resources(cubin({".nv.shared.kernel": of_2_kib}, flags=flags))["kernel"]
    assert resources.static_shared_bytes == own


def test_a_section_without_content_is_read_to_a_bound() -> None:
    def huge(row: list[Any]) -> None:
        row[5] = 1 << 60

    sections = CubinSections(cubin({".nv.shared.kernel": huge}))
    assert sections.size(".nv.shared.kernel") == 1 << 60
    assert len(sections.body(".nv.shared.kernel")) == 1 << 28


def test_every_beginning_of_a_cubin_is_refused() -> None:
    whole = cubin()
    for size in range(0, len(whole), 7):
        with pytest.raises(SmlabError, match="is not a CUDA binary|is cut off or damaged"):
            _read_all(whole[:size])


@pytest.mark.parametrize(
    ("section", "field", "value"),
    [
        (".text.kernel", 0, 10_000),  # the name
        (".text.kernel", 2, 0x800),  # compressed
        (".text.kernel", 4, 1 << 62),
        (".text.kernel", 5, 1 << 40),
        (".symtab", 5, 47),
        (".symtab", 6, 77),  # the table of its names
        (".symtab", 6, 5),
        (".symtab", 9, 0),
        (".symtab", 9, 1),
        (".strtab", 5, 3),
        (".shstrtab", 5, 3),
        (".shstrtab", 4, 1 << 63),
        (".rela.nv.constant4", 9, 1),
        (".nv.info", 5, 1 << 63),
    ],
)
def test_each_damage_is_told_in_one_line(section: str, field: int, value: int) -> None:
    def damage(row: list[Any]) -> None:
        row[field] = value

    with pytest.raises(SmlabError, match="kernel.cubin: is cut off or damaged: .") as refused:
        _read_all(cubin({section: damage}))
    assert "\n" not in str(refused.value)


def _read_all(content: bytes) -> None:
    read_cubin(content, "kernel.cubin")
    sections = CubinSections(content, "kernel.cubin")
    for name in sections.names:
        sections.body(name)
    list(sections.relocations(".nv.constant4"))
