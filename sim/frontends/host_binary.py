"""Machine code inside other files: fat binaries, object files, libraries and programs of the host.

A fat binary begins with a number of its own, wherever it lies, so that any file is searched for it. In it are
cubins and PTX, one an architecture, plain or compressed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import MAX_CODE_BYTES
from smlab.hw_bench.sass import read_cubin
from smlab.hw_bench.sass.linking import called, demangled
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.frontends.protocol import KernelSource, LoadedKernel
from smlab.sim.frontends.ptx import assembled

_BEGIN: Final = struct.pack("<IHH", 0xBA55ED50, 1, 16)
_ENTRY: Final = struct.Struct("<HHIQIIHHI")
"""Kind, version, bytes of the header and of what follows, bytes of it that are compressed, and, after three
numbers of no interest here, the architecture."""
HOST_FILES: Final = (b"\x7fELF", b"MZ", _BEGIN)
"""How programs and libraries of the host begin, and fat binaries."""
_FLAGS_AT, _WHOLE_AT, _LEAST_HEADER = 40, 56, 64
_PTX, _CUBIN = 1, 2
_CODECS: Final = {0x2000: "lz4_raw", 0x8000: "zstd"}
_HELPERS: Final = "__"


@dataclass(frozen=True)
class FatEntry:
    """One entry of a fat binary: machine code or PTX for one architecture."""

    kind: int
    architecture: int
    content: bytes


def load_binary(source: KernelSource) -> LoadedKernel:
    """A kernel of a file that holds fat binaries: its machine code for the architecture, of an earlier card
    of the same generation, or else its PTX, assembled.

    Raises:
        SmlabError: no machine code inside, none for the architecture, none or several of that name.
    """
    source.check_options()
    entries = list(entries_of(source.content(), source.where))
    if not entries:
        raise SmlabError.at(source.where, "holds no machine code of a GPU", None, "a program built by nvcc")
    wanted = int(source.architecture.removeprefix("sm_"))
    fitting = [e for e in entries if e.architecture // 10 == wanted // 10 and e.architecture <= wanted]
    cubins = [e for e in fitting if e.kind == _CUBIN]
    best = max((e.architecture for e in cubins), default=0)
    contents = [e.content for e in cubins if e.architecture == best]
    if not contents:
        ptx = [e for e in entries if e.kind == _PTX and e.architecture <= wanted]
        best = max((e.architecture for e in ptx), default=0)
        contents = [
            assembled(e.content.strip(b"\0").decode(errors="replace"), source.architecture, [], source.where)
            for e in ptx
            if e.architecture == best
        ]
    if not contents:
        there = ", ".join(dict.fromkeys(_told(e) for e in entries))
        raise SmlabError.at(source.where, "has no code for the GPU", source.architecture, f"one of {there}")
    return LoadedKernel(from_cubin(_with_kernel(contents, source), source.name, source.where))


def _told(entry: FatEntry) -> str:
    return f"{'compute' if entry.kind == _PTX else 'sm'}_{entry.architecture}"


def _with_kernel(cubins: list[bytes], source: KernelSource) -> bytes:
    """The cubin with the kernel of that name: a program has one of each file that it was built from."""
    kernels: dict[str, bytes] = {}
    for content in cubins:
        for function in read_cubin(content, source.where).functions:
            if not function.name.startswith(_HELPERS):
                kernels[function.name] = content
    names = [*kernels]
    if source.name is not None:
        exact = [name for name in names if source.name in (name, demangled(name))]
        names = exact or [name for name in names if called(name, source.name)]
    if len(names) != 1:
        known = "; ".join(demangled(name) for name in kernels) or "there are none"
        what = "no such kernel" if source.name is not None and not names else "does not hold one kernel"
        raise SmlabError.at(source.where, what, source.name, f"name = one of {known}")
    return kernels[names[0]]


def entries_of(content: bytes, where: str) -> Iterator[FatEntry]:
    """All entries of all fat binaries in a file.

    Raises:
        SmlabError: one that is cut off, damaged, or compressed in a way that is not known.
    """
    at = content.find(_BEGIN)
    while at >= 0:
        (size,) = struct.unpack_from("<Q", content.ljust(at + 16, b"\0"), at + 8)
        end = at + 16 + size
        if end > len(content):
            raise SmlabError.at(where, "is cut off: a fat binary ends behind the file", f"{size} bytes")
        place = at + 16
        while place + _LEAST_HEADER <= end:
            kind, _, header, length, packed, _, _, _, architecture = _ENTRY.unpack_from(content, place)
            first = place + header
            if header < _LEAST_HEADER or first + length > end or packed > length:
                raise SmlabError.at(where, "is damaged: an entry of a fat binary", f"{length} bytes")
            flags, whole = (struct.unpack_from("<Q", content, place + a)[0] for a in (_FLAGS_AT, _WHOLE_AT))
            if kind in (_PTX, _CUBIN):
                body = content[first : first + (packed or length)]
                yield FatEntry(kind, architecture, _unpacked(body, flags, whole, where) if packed else body)
            place = first + length
        at = content.find(_BEGIN, end)


def _unpacked(body: bytes, flags: int, whole: int, where: str) -> bytes:
    codec = next((name for bit, name in _CODECS.items() if flags & bit), None)
    if codec is None or not 0 < whole <= MAX_CODE_BYTES:
        advice = "`cuobjdump -xelf all FILE`, which takes the cubins out"
        raise SmlabError.at(where, "is compressed in a way that is not known here", hex(flags), advice)
    import pyarrow as pa

    try:
        unpacked: bytes = pa.Codec(codec).decompress(body, decompressed_size=whole, asbytes=True)
    except (OSError, ValueError) as error:
        raise SmlabError.at(where, f"is damaged: {codec} cannot unpack it") from error
    return unpacked
