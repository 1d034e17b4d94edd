"""What a launch needs of a kernel's cubin besides its instructions: registers, memory, parameters,
constants."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass.cubin import read_cubin
from smlab.hw_bench.sass.instruction import Function
from smlab.hw_bench.sass.names import mangled_name

PARAMETERS_AT: Final = ((100, 0x380), (90, 0x210), (0, 0x160))
"""Where parameters begin in constant bank 0, from this architecture on."""

_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_REL: Final = struct.Struct("<QQ")
_RELA: Final = struct.Struct("<QQq")
_Symbol = tuple[str, int, int, int]
_KPARAM_INFO, _PARAM_CBANK, _MIN_STACK, _REGISTERS = 0x17, 0x0A, 0x12, 0x2F


@dataclass(frozen=True)
class KernelParameter:
    """One parameter of a kernel: its offset among the parameters and its size, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True)
class Variable:
    """A global or constant variable of the module: its section's offset, size and first content."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class KernelImage:
    """A kernel as the driver would load it.

    ``parameters`` is None where the file does not tell them (a listing). ``banks`` are constant banks with
    their content, bank 0 without what a launch puts there; ``symbols`` are the variables of bank 3
    (``__constant__``); ``globals`` those of the module's global memory, whose content ``global_content``
    begins with; ``addresses`` are the places in bank 4 that hold the address of a global variable, and
    ``global_addresses`` those in the variables themselves: (offset, offset of the variable). Places that hold
    the address of a function have it in them.
    """

    function: Function
    registers: int
    shared_bytes: int = 0
    local_bytes: int = 0
    parameters: tuple[KernelParameter, ...] | None = None
    parameters_at: int = 0x160
    banks: dict[int, bytes] = field(default_factory=dict)
    symbols: tuple[Variable, ...] = ()
    globals: tuple[Variable, ...] = ()
    global_content: bytes = b""
    addresses: tuple[tuple[int, int], ...] = ()
    global_addresses: tuple[tuple[int, int], ...] = ()

    @property
    def architecture(self) -> int:
        return int("".join(c for c in self.function.architecture if c.isdigit()) or 0)


def parameters_at(architecture: int) -> int:
    return next(at for first, at in PARAMETERS_AT if architecture >= first)


def registers_used(function: Function) -> int:
    """Registers a thread, from the highest one that the code names (pairs and quadruples count whole)."""
    highest = -1
    for instruction in function.instructions:
        wide = 4 if "128" in instruction.modifiers else 2 if _pairs(instruction.mnemonic) else 1
        for operand in instruction.operands:
            for register in operand.registers:
                if register.startswith("R") and register != "RZ":
                    highest = max(highest, int(register[1:]) + wide - 1)
    return highest + 1


def _pairs(mnemonic: str) -> bool:
    return ".64" in mnemonic or "WIDE" in mnemonic or mnemonic[0] == "D" or ".F64" in mnemonic


def listed_image(function: Function) -> KernelImage:
    """A kernel of which there is a listing only: its registers are counted, the rest a launch must tell."""
    architecture = int("".join(c for c in function.architecture if c.isdigit()) or 0)
    return KernelImage(function, registers_used(function), parameters_at=parameters_at(architecture))


def read_image(content: bytes | Path, function: Function, where: str = "cubin") -> KernelImage:
    """Read what a launch of ``function`` needs from the cubin that holds it.

    Raises:
        SmlabError: a file that is no cubin, is cut off, or has no such kernel.
    """
    if isinstance(content, Path):
        where, content = str(content), content.read_bytes()
    read_cubin(content, where)
    try:
        return _read(content, function)
    except (struct.error, IndexError, ValueError, UnicodeDecodeError) as error:
        raise SmlabError.at(where, f"is cut off or damaged: {error}") from error


class _Sections:
    def __init__(self, content: bytes) -> None:
        self.content = content
        header = struct.unpack_from("<16sHHIQQQIHHHHHH", content)
        offset, size, count, names_at = header[6], header[11], header[12], header[13]
        rows = [_SECTION.unpack_from(content, offset + i * size) for i in range(count)]
        names = content[rows[names_at][4] : rows[names_at][4] + rows[names_at][5]]
        self.rows = rows
        self.names = [_text(names, row[0]) for row in rows]

    def find(self, name: str) -> int | None:
        return self.names.index(name) if name in self.names else None

    def size(self, name: str) -> int:
        at = self.find(name)
        return 0 if at is None else int(self.rows[at][5])

    def body(self, name: str) -> bytes:
        at = self.find(name)
        if at is None:
            return b""
        row = self.rows[at]
        if row[1] == 8:  # no content in the file
            return bytes(min(int(row[5]), 1 << 28))
        if row[4] + row[5] > len(self.content):
            raise ValueError(f"section {name} ends behind the file")
        return self.content[row[4] : row[4] + row[5]]


class CompiledResources(NamedTuple):
    """What a compiler gave a kernel: registers and local bytes a thread, static shared bytes a block."""

    registers: int
    static_shared_bytes: int
    local_bytes: int


def compiled_resources(content: bytes, where: str = "cubin") -> dict[str, CompiledResources]:
    """The resources of each kernel of a cubin, by its name; no tool is needed.

    Raises:
        SmlabError: a file that is no cubin or is cut off.
    """
    names = [f.name for f in read_cubin(content, where).functions]
    try:
        sections = _Sections(content)
        symbols = _symbols(sections)
        found = {}
        for name in names:
            text = sections.find(f".text.{name}")
            registers = _of_symbol(sections.body(".nv.info"), _REGISTERS, name, symbols)
            registers = registers or int(sections.rows[text or 0][7]) >> 24
            local_bytes = _of_symbol(sections.body(".nv.info"), _MIN_STACK, name, symbols)
            shared_bytes = sections.size(f".nv.shared.{name}")
            found[name] = CompiledResources(registers, shared_bytes, local_bytes)
    except (struct.error, IndexError, ValueError, UnicodeDecodeError) as error:
        raise SmlabError.at(where, f"is cut off or damaged: {error}") from error
    return found


def resources_of(content: bytes, kernel: str, where: str = "cubin") -> CompiledResources:
    """The resources of one kernel, by its plain or mangled name; of the only one, whatever its name."""
    kernels = compiled_resources(content, where)
    mine = [r for name, r in kernels.items() if kernel in (name, mangled_name(name))]
    if len(kernels) == 1:
        mine = list(kernels.values())
    if len(mine) != 1:
        raise SmlabError.at(where, "no such kernel", kernel, ", ".join(kernels))
    return mine[0]


def _text(names: bytes, at: int) -> str:
    return names[at : names.index(b"\0", at)].decode()


def _read(content: bytes, function: Function) -> KernelImage:
    sections = _Sections(content)
    name = function.name
    text = sections.find(f".text.{name}")
    if text is None:
        raise ValueError(f"no kernel {name!r}")
    symbols = _symbols(sections)
    info = sections.body(f".nv.info.{name}")
    parameters, at = _parameters(info)
    architecture = int("".join(c for c in function.architecture if c.isdigit()) or 0)
    banks = {}
    for bank in range(1, 8):
        own = sections.body(f".nv.constant{bank}.{name}") or sections.body(f".nv.constant{bank}")
        if own:
            banks[bank] = own
    initialised = sections.body(".nv.global.init")
    plain_at = -(-len(initialised) // 256) * 256
    of_init, of_plain = sections.find(".nv.global.init"), sections.find(".nv.global")
    bases = {section: base for section, base in ((of_init, 0), (of_plain, plain_at)) if section is not None}
    variables = tuple(
        Variable(s[0], s[2] + (plain_at if s[1] == of_plain else 0), s[3])
        for s in symbols
        if s[0] and s[1] in (of_init, of_plain) and s[1] is not None and s[3]
    )
    bank3 = sections.find(".nv.constant3")
    of_bank, of_globals = (list(_relocations(sections, target, symbols)) for target in _DATA)
    if 4 in banks:
        banks[4] = _with_code(banks[4], of_bank, function.parts)
    initialised = _with_code(initialised, of_globals, function.parts)
    return KernelImage(
        function=function,
        registers=max(_registers(sections, part, symbols) for part in function.parts or (name,))
        or registers_used(function),
        shared_bytes=sections.size(f".nv.shared.{name}"),
        local_bytes=_of_symbol(sections.body(".nv.info"), _MIN_STACK, name, symbols),
        parameters=parameters,
        parameters_at=at or parameters_at(architecture),
        banks=banks,
        symbols=tuple(
            Variable(s[0], s[2], s[3]) for s in symbols if bank3 is not None and s[1] == bank3 and s[3]
        ),
        globals=variables,
        global_content=initialised.ljust(plain_at, b"\0") + bytes(sections.size(".nv.global")),
        addresses=_addresses(of_bank, bases),
        global_addresses=_addresses(of_globals, bases),
    )


def _registers(sections: _Sections, name: str, symbols: list[_Symbol]) -> int:
    """Registers of a function: of a kernel's launch, all those of what it calls."""
    text = sections.find(f".text.{name}")
    of_section = 0 if text is None else int(sections.rows[text][7]) >> 24
    return _of_symbol(sections.body(".nv.info"), _REGISTERS, name, symbols) or of_section


def _symbols(sections: _Sections) -> list[_Symbol]:
    table, names = sections.body(".symtab"), sections.body(".strtab")
    rows = [_SYMBOL.unpack_from(table, at) for at in range(0, len(table) - _SYMBOL.size + 1, _SYMBOL.size)]
    return [(_text(names, r[0]), r[3], r[4], r[5]) for r in rows]


def _entries(info: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at + 4 <= len(info):
        form, kind, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == 4:
            found.append((kind, info[at : at + size]))
            at += size
        else:
            found.append((kind, struct.pack("<H", size)))
    return found


def _parameters(info: bytes) -> tuple[tuple[KernelParameter, ...], int]:
    rows, at = {}, 0
    for kind, body in _entries(info):
        if kind == _KPARAM_INFO:
            _, ordinal, offset, packed = struct.unpack("<IHHI", body)
            rows[ordinal] = KernelParameter(offset, packed >> 18)
        elif kind == _PARAM_CBANK:
            at = struct.unpack_from("<H", body, 4)[0]
    return tuple(rows[ordinal] for ordinal in sorted(rows)), at


def _of_symbol(info: bytes, kind: int, name: str, symbols: list[_Symbol]) -> int:
    """A number that the file's notes give for the kernel: registers, bytes of stack that it needs at
    least."""
    for found, body in _entries(info):
        if found == kind and len(body) == 8:
            index, size = struct.unpack("<II", body)
            if index < len(symbols) and symbols[index][0] == name:
                return int(size)
    return 0


class _Relocation(NamedTuple):
    """A place of 8 bytes in a section that holds an address: the symbol's, and how far behind it."""

    offset: int
    symbol: _Symbol
    addend: int


_DATA: Final = (".nv.constant4", ".nv.global.init")
"""Sections of data that hold addresses."""


def _relocations(sections: _Sections, target: str, symbols: list[_Symbol]) -> Iterator[_Relocation]:
    for prefix, shape in ((".rel", _REL), (".rela", _RELA)):
        body = sections.body(f"{prefix}{target}")
        for at in range(0, len(body) - shape.size + 1, shape.size):
            offset, info, *addend = shape.unpack_from(body, at)
            if info >> 32 < len(symbols):
                yield _Relocation(offset, symbols[info >> 32], sum(addend))


def functions_pointed_at(content: bytes) -> tuple[str, ...]:
    """The functions whose addresses the module's data hold, also those that nobody defines: what calls by
    address may reach."""
    sections = _Sections(content)
    symbols = _symbols(sections)
    found = (r.symbol for target in _DATA for r in _relocations(sections, target, symbols))
    return tuple(
        dict.fromkeys(
            name
            for name, section, *_ in found
            if name and (section == 0 or sections.find(f".text.{name}") is not None)
        )
    )


def _with_code(content: bytes, relocations: Iterable[_Relocation], code: Mapping[str, int]) -> bytes:
    """Data with the addresses of functions in it."""
    filled = bytearray(content)
    for relocation in relocations:
        if relocation.symbol[0] in code and relocation.offset + 8 <= len(filled):
            address = code[relocation.symbol[0]] + relocation.addend
            struct.pack_into("<Q", filled, relocation.offset, address)
    return bytes(filled)


def _addresses(relocations: Iterable[_Relocation], bases: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    """Where data hold addresses of the module's variables, and of which of their bytes."""
    return tuple(
        (r.offset, bases[r.symbol[1]] + r.symbol[2] + r.addend) for r in relocations if r.symbol[1] in bases
    )
