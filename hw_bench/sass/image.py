"""What a launch needs of a kernel's cubin besides its instructions: registers, memory, parameters,
constants."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import machine_code_bytes
from smlab.hw_bench.sass.cubin import CubinRelocation, CubinSections
from smlab.hw_bench.sass.instruction import Function
from smlab.hw_bench.sass.linking import mangled_name
from smlab.hw_bench.sass.opcodes import SINGLE_PAIRS

PARAMETERS_AT: Final = ((100, 0x380), (90, 0x210), (0, 0x160))
"""Where parameters begin in constant bank 0, from this architecture on."""

RESERVED_SHARED: Final = ((90, 1024), (0, 0))
"""Bytes of a block's shared memory that belong to the system and lie first, from this architecture on. A
cubin's section counts them, where a kernel has shared memory; the driver's limits do not."""

_KPARAM_INFO, _PARAM_CBANK, _MIN_STACK, _REGISTERS, _CLUSTER = 0x17, 0x0A, 0x12, 0x2F, 0x3D


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
    the address of a function have it in them. ``cluster`` is how many blocks of the grid, in each direction,
    the kernel was compiled to run together.
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
    cluster: tuple[int, int, int] = (1, 1, 1)

    @property
    def architecture(self) -> int:
        return int("".join(c for c in self.function.architecture if c.isdigit()) or 0)

    @cached_property
    def registers_named(self) -> int:
        """Registers a thread, from the highest one that the code names; a damaged file may say fewer."""
        return registers_used(self.function)


def parameters_at(architecture: int) -> int:
    return next(at for first, at in PARAMETERS_AT if architecture >= first)


def registers_used(function: Function) -> int:
    """Registers a thread, from the highest one that the code names (pairs and quadruples count whole)."""
    highest = -1
    for instruction in function.instructions:
        wide = 4 if "128" in instruction.modifiers else 2 if _pairs(instruction.mnemonic) else 1
        for operand in instruction.operands:
            for register in operand.registers:
                # One of four digits is none; whoever executes or times the instruction refuses it.
                if register.startswith("R") and register != "RZ" and len(register) <= 4:
                    highest = max(highest, int(register[1:]) + wide - 1)
    return highest + 1


def _pairs(mnemonic: str) -> bool:
    pairs = mnemonic.startswith(("D", *SINGLE_PAIRS))
    return pairs or ".64" in mnemonic or "WIDE" in mnemonic or ".F64" in mnemonic


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
        where, content = str(content), machine_code_bytes(content)
    sections = CubinSections(content, where)
    try:
        return _read(sections, function)
    except (struct.error, IndexError, ValueError) as error:
        raise SmlabError.at(where, f"is cut off or damaged: {error}") from error


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
    sections = CubinSections(content, where)
    try:
        resources = {}
        for name in (n.removeprefix(".text.") for n in sections.names if n.startswith(".text.")):
            local_bytes = _of_symbol(sections, _MIN_STACK, name)
            shared_bytes = _own_shared_bytes(sections, name)
            resources[name] = CompiledResources(_registers(sections, name), shared_bytes, local_bytes)
    except (struct.error, IndexError, ValueError) as error:
        raise SmlabError.at(where, f"is cut off or damaged: {error}") from error
    return resources


def resources_of(content: bytes, kernel: str, where: str = "cubin") -> CompiledResources:
    """The resources of one kernel, by its plain or mangled name; of the only one, whatever its name."""
    kernels = compiled_resources(content, where)
    mine = [r for name, r in kernels.items() if kernel in (name, mangled_name(name))]
    if len(kernels) == 1:
        mine = list(kernels.values())
    if len(mine) != 1:
        raise SmlabError.at(where, "no such kernel", kernel, ", ".join(kernels))
    return mine[0]


def _read(sections: CubinSections, function: Function) -> KernelImage:
    name, symbols = function.name, sections.symbols
    if sections.find(f".text.{name}") is None:
        raise ValueError(f"no kernel {name!r}")
    info = sections.body(f".nv.info.{name}")
    parameters, at = _parameters(info)
    architecture = int("".join(c for c in function.architecture if c.isdigit()) or 0)
    banks = {}
    for bank in range(1, 8):
        bank_bytes = sections.body(f".nv.constant{bank}.{name}") or sections.body(f".nv.constant{bank}")
        if bank_bytes:
            banks[bank] = bank_bytes
    initialised = sections.body(".nv.global.init")
    plain_at = -(-len(initialised) // 256) * 256
    of_init, of_plain = sections.find(".nv.global.init"), sections.find(".nv.global")
    bases = {section: base for section, base in ((of_init, 0), (of_plain, plain_at)) if section is not None}
    variables = tuple(
        Variable(s.name, s.offset + (plain_at if s.section == of_plain else 0), s.size)
        for s in symbols
        if s.name and s.section in (of_init, of_plain) and s.size
    )
    bank3 = sections.find(".nv.constant3")
    of_bank, of_globals = (list(sections.relocations(target)) for target in _DATA)
    if 4 in banks:
        banks[4] = _with_code(banks[4], of_bank, function.parts)
    initialised = _with_code(initialised, of_globals, function.parts)
    return KernelImage(
        function=function,
        registers=max(_registers(sections, part) for part in function.parts or (name,))
        or registers_used(function),
        shared_bytes=_own_shared_bytes(sections, name),
        local_bytes=_of_symbol(sections, _MIN_STACK, name),
        parameters=parameters,
        parameters_at=at or parameters_at(architecture),
        banks=banks,
        symbols=tuple(Variable(s.name, s.offset, s.size) for s in symbols if s.section == bank3 and s.size),
        globals=variables,
        global_content=initialised.ljust(plain_at, b"\0") + bytes(sections.size(".nv.global")),
        addresses=_addresses(of_bank, bases),
        global_addresses=_addresses(of_globals, bases),
        cluster=_cluster(info),
    )


def reserved_shared_bytes(architecture: int) -> int:
    """`RESERVED_SHARED` of an architecture such as 90."""
    return next(size for first, size in RESERVED_SHARED if architecture >= first)


def _own_shared_bytes(sections: CubinSections, name: str) -> int:
    """A kernel's static shared memory, in bytes, without the system's."""
    reserved = reserved_shared_bytes(int(sections.architecture.removeprefix("sm_")))
    return max(sections.size(f".nv.shared.{name}") - reserved, 0)


def _registers(sections: CubinSections, name: str) -> int:
    """Registers of a function: of a kernel's launch, all those of what it calls."""
    return _of_symbol(sections, _REGISTERS, name) or sections.info(f".text.{name}") >> 24


def _entries(info: bytes) -> list[tuple[int, bytes]]:
    entries, at = [], 0
    while at + 4 <= len(info):
        form, kind, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == 4:
            entries.append((kind, info[at : at + size]))
            at += size
        else:
            entries.append((kind, struct.pack("<H", size)))
    return entries


def _parameters(info: bytes) -> tuple[tuple[KernelParameter, ...], int]:
    rows, at = {}, 0
    for kind, body in _entries(info):
        if kind == _KPARAM_INFO:
            _, ordinal, offset, packed = struct.unpack("<IHHI", body)
            rows[ordinal] = KernelParameter(offset, packed >> 18)
        elif kind == _PARAM_CBANK:
            at = struct.unpack_from("<H", body, 4)[0]
    return tuple(rows[ordinal] for ordinal in sorted(rows)), at


def _cluster(info: bytes) -> tuple[int, int, int]:
    for kind, body in _entries(info):
        if kind == _CLUSTER:
            x, y, z = struct.unpack("<III", body)
            return x, y, z
    return 1, 1, 1


def _of_symbol(sections: CubinSections, kind: int, name: str) -> int:
    """A number that the file's notes give for the kernel: registers, bytes of stack that it needs at
    least."""
    symbols = sections.symbols
    for entry_kind, body in _entries(sections.body(".nv.info")):
        if entry_kind == kind and len(body) == 8:
            index, size = struct.unpack("<II", body)
            if index < len(symbols) and symbols[index].name == name:
                return int(size)
    return 0


_DATA: Final = (".nv.constant4", ".nv.global.init")
"""Sections of data that hold addresses."""


def functions_pointed_at(content: bytes) -> tuple[str, ...]:
    """The functions whose addresses the module's data hold, also those that nobody defines: what calls by
    address may reach."""
    sections = CubinSections(content)
    symbols = (relocation.symbol for target in _DATA for relocation in sections.relocations(target))
    return tuple(
        dict.fromkeys(
            symbol.name
            for symbol in symbols
            if symbol.name and (symbol.section == 0 or sections.find(f".text.{symbol.name}") is not None)
        )
    )


def _with_code(content: bytes, relocations: Iterable[CubinRelocation], code: Mapping[str, int]) -> bytes:
    """Data with the addresses of functions in it."""
    filled = bytearray(content)
    for relocation in relocations:
        if relocation.symbol.name in code and relocation.offset + 8 <= len(filled):
            address = code[relocation.symbol.name] + relocation.addend
            struct.pack_into("<Q", filled, relocation.offset, address)
    return bytes(filled)


def _addresses(
    relocations: Iterable[CubinRelocation], bases: Mapping[int, int]
) -> tuple[tuple[int, int], ...]:
    """Where data hold addresses of the module's variables, and of which of their bytes."""
    return tuple(
        (r.offset, bases[r.symbol.section] + r.symbol.offset + r.addend)
        for r in relocations
        if r.symbol.section in bases
    )
