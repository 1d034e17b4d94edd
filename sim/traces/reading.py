"""Reading a trace: what each warp executed, as arrays; every inconsistency is refused with its line.

Traces are large, so what is kept is small: a number for each executed instruction, its mask, and addresses as
first one and stride where they are even.
"""

from __future__ import annotations

import io
import lzma
import re
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import check_file, limited_lines
from smlab.sim.traces.compiled_step import EVEN, NOWHERE
from smlab.sim.traces.text import (
    VERSIONS,
    BadLine,
    LineReader,
    TraceHeader,
    TraceInstruction,
    TraceLine,
    lanes_of,
)

SUFFIXES: Final = (".traceg", ".traceg.xz")
LIST_NAME: Final = "kernelslist.g"
MAX_BYTES: Final = 1 << 34
"""Of a trace, unpacked."""
MAX_WARPS: Final = 1 << 24
_KEY: Final = re.compile(r"-([a-z_ ]+?) = ?(.*)$")
_DIMENSIONS: Final = re.compile(r"\((\d{1,10}),(\d{1,10}),(\d{1,10})\)$")
_NEEDED: Final = ("grid dim", "block dim", "shmem", "nregs", "binary version", "accelsim tracer version")


@dataclass(frozen=True, eq=False)
class RecordedKernel:
    """A kernel as it was recorded.

    ``code`` are its instructions, in the order of their PCs. Warp w of the grid (block times warps a block
    plus its place) executed the elements ``first[w]`` to ``first[w + 1]`` of ``index`` (into ``code``) and
    ``mask``. ``place`` says where in ``words`` the addresses of an element are, or `NOWHERE`. There stand
    `EVEN`, first address and stride, or `EACH` and 32 addresses.
    """

    where: str
    header: TraceHeader
    code: tuple[TraceInstruction, ...]
    first: NDArray[np.int64]
    index: NDArray[np.int32]
    mask: NDArray[np.uint32]
    place: NDArray[np.int64]
    words: NDArray[np.int64]

    def addresses(self, n: int) -> dict[int, int]:
        """The byte address of each lane of element ``n`` of the record."""
        at, lanes = int(self.place[n]), lanes_of(int(self.mask[n]))
        if at == NOWHERE:
            return {}
        if self.words[at] == EVEN:
            base, stride = (int(x) for x in self.words[at + 1 : at + 3])
            return {lane: base + stride * (lane - lanes[0]) for lane in lanes}
        return {lane: int(self.words[at + 1 + lane]) for lane in lanes}


@dataclass(frozen=True)
class TraceList:
    """What ``kernelslist.g`` names: copies to the GPU as (address, bytes), and files of kernels, in order."""

    copies: tuple[tuple[int, int], ...]
    kernels: tuple[Path, ...]


def is_trace(path: Path) -> bool:
    """Whether a file is a trace, or a list of traces, by its name."""
    return path.name.endswith(SUFFIXES) or path.name == LIST_NAME


def find_trace(path: Path, name: str | None = None) -> Path:
    """The file of the kernel that a path names: the file itself, or of a list the one called ``name``, or the
    only one.

    Raises:
        SmlabError: a list that cannot be read, or does not name the kernel.
    """
    if path.name != LIST_NAME:
        return path
    kernels = read_list(path).kernels
    if name is not None:
        kernels = tuple(k for k in kernels if k.name == name or k.name.split(".")[0] == name)
    if len(kernels) != 1:
        names = ", ".join(k.name for k in read_list(path).kernels) or "there are none"
        raise SmlabError.at(
            str(path),
            "does not name one kernel" if name is None else "no such kernel",
            name,
            f"name = {names}",
        )
    return kernels[0]


def read_list(path: Path) -> TraceList:
    """Read ``kernelslist.g``.

    Raises:
        SmlabError: a line that is neither a copy nor a kernel's file, with its number.
    """
    copies: list[tuple[int, int]] = []
    kernels: list[Path] = []
    with _opened(path) as file:
        for number, raw in limited_lines(str(path), file):
            line = raw.strip()
            if not line:
                continue
            if line.startswith("Memcpy"):
                match = re.fullmatch(r"Memcpy(HtoD|DtoH),0x([0-9a-f]{1,16}),(\d{1,18})", line)
                if match is None:
                    raise _at(path, number, BadLine("no copy", line[:60], "MemcpyHtoD,0x<address>,<bytes>"))
                if match[1] == "HtoD":
                    copies.append((int(match[2], 16), int(match[3])))
            elif line.startswith("kernel") and line.endswith(SUFFIXES) and "/" not in line:
                kernels.append(path.parent / line)
            else:
                raise _at(path, number, BadLine("no command", line[:60], "MemcpyHtoD,... or kernel-N.traceg"))
    return TraceList(tuple(copies), tuple(kernels))


def read_trace(path: Path) -> RecordedKernel:
    """Read a trace, plain or compressed with xz.

    Raises:
        SmlabError: a file that is cut off, or says two things that do not agree; with the line.
    """
    with _opened(path) as file:
        lines = limited_lines(str(path), file)
        header = _read_header(path, lines)
        return _BlockReader(path, header).read(lines)


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    check_file(path, "a trace of Accel-Sim")
    try:
        if path.suffix != ".xz":
            with path.open(encoding="utf-8", newline="\n") as file:
                yield file
            return
        with lzma.open(path) as content:
            limited = _Limited(path, content)
            yield io.TextIOWrapper(io.BufferedReader(limited, 1 << 20), encoding="utf-8", newline="\n")
    except UnicodeDecodeError as error:
        raise SmlabError(f"{path}: is not a text file") from error
    except (lzma.LZMAError, EOFError) as error:
        raise SmlabError(f"{path}: is cut off or no xz file: {error}") from error
    except OSError as error:
        raise SmlabError(f"{path}: cannot be read: {error.strerror}") from error


class _Limited(io.RawIOBase):
    """What a compressed trace unpacks to, `MAX_BYTES` of it at most."""

    def __init__(self, path: Path, content: IO[bytes]) -> None:
        self.path, self.content = path, content
        self.left = MAX_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        found = self.content.read(min(len(room), 1 << 20))
        self.left -= len(found)
        if self.left < 0:
            raise SmlabError.at(
                str(self.path), "is too large unpacked", f"more than {MAX_BYTES} bytes", "a shorter trace"
            )
        room[: len(found)] = found
        return len(found)


def _at(path: Path, number: int, bad: BadLine) -> SmlabError:
    return SmlabError.at(f"{path}: line {number}", bad.what, bad.value, bad.expected)


def _read_header(path: Path, lines: Iterator[tuple[int, str]]) -> TraceHeader:
    found: dict[str, str] = {}
    number = 0
    for number, raw in lines:
        line = raw.rstrip("\n")
        if line.startswith("#"):
            break
        if not line.strip():
            continue
        match = _KEY.match(line)
        if match is None:
            raise _at(path, number, BadLine("no line of a header", line[:60], "-key = value"))
        found[match[1]] = match[2].strip()
    else:
        raise SmlabError.at(
            f"{path}: line {number}", "the file ends in its header", None, "a line #traces format = ..."
        )
    try:
        return _header(found, path.name)
    except BadLine as bad:
        raise _at(path, number, bad) from None


def _header(found: dict[str, str], name: str) -> TraceHeader:
    for key in _NEEDED:
        if key not in found:
            raise BadLine(f"the header has no -{key}")

    def whole(key: str, default: str = "0", most: int = 1 << 31) -> int:
        text = found.get(key, default)
        if not (text.isascii() and text.isdigit()) or len(text) > 20 or int(text) > most:
            raise BadLine(f"the header's -{key} is no whole number in range", text[:40])
        return int(text)

    def address(key: str) -> int:
        text = found.get(key, "0x0")
        try:
            value = int(text, 16)
        except ValueError:
            value = -1
        if not 0 <= value < 1 << 63:
            raise BadLine(f"the header's -{key} is no address", text[:40])
        return value

    shapes = []
    for key in ("grid dim", "block dim"):
        match = _DIMENSIONS.match(found[key])
        shape = tuple(int(n) for n in match.groups()) if match is not None else ()
        if len(shape) != 3 or min(shape) < 1:
            raise BadLine(f"the header's -{key} is no shape", found[key][:40], "(x,y,z), each from 1 on")
        shapes.append(shape)
    version = whole("accelsim tracer version")
    if version not in VERSIONS:
        raise BadLine("a version of the tracer that is not read here", version, "3 to 5")
    header = TraceHeader(
        name=found.get("kernel name", name),
        grid=shapes[0],
        block=shapes[1],
        shared_bytes=whole("shmem", most=1 << 20),
        registers=whole("nregs", most=256),
        binary_version=whole("binary version", most=999),
        shared_base=address("shmem base_addr"),
        local_base=address("local mem base_addr"),
        kernel_id=whole("kernel id", "1"),
        stream=whole("cuda stream id", most=(1 << 64) - 1),
        line_numbers=whole("enable lineinfo") != 0,
    )
    if header.threads > 1024:
        raise BadLine("the header's -block dim has too many threads", header.threads, "at most 1024")
    warps = header.blocks * header.warps_per_block
    if warps > MAX_WARPS:
        raise BadLine("the header's -grid dim has too many warps", warps, f"at most {MAX_WARPS}")
    return header


class _BlockReader:
    """Reads the blocks behind a header; warps may come in any order."""

    def __init__(self, path: Path, header: TraceHeader) -> None:
        self.path, self.header = path, header
        self.lines = LineReader(header.line_numbers)
        self.numbers: dict[TraceInstruction, int] = {}
        self.index, self.mask = array("i"), array("I")
        self.place, self.words = array("q"), array("q")
        warps = header.blocks * header.warps_per_block
        self.begin = np.full(warps, -1, dtype=np.int64)
        self.count = np.zeros(warps, dtype=np.int64)
        # What is being read.
        self.block: int | None = None
        self.inside = False
        self.warp = self.declared = -1
        self.found = 0

    def read(self, lines: Iterator[tuple[int, str]]) -> RecordedKernel:
        number = 0
        try:
            for at, raw in lines:
                number = at
                if line := raw.strip():
                    self._line(line)
            self._check_complete()
        except BadLine as bad:
            raise _at(self.path, number, bad) from None
        return self._recorded()

    def _line(self, line: str) -> None:
        first = line[0]
        if first not in "#twic" or (first == "c" and not line.startswith("cluster")):
            self._execution(line)
        elif line.startswith("#BEGIN_TB"):
            if self.inside:
                raise BadLine("a block begins inside another", None, "#END_TB before it")
            self.inside, self.block = True, None
        elif line.startswith("#END_TB"):
            self._end_block()
        elif line.startswith("thread block = "):
            self._begin_block(line)
        elif line.startswith("warp = "):
            self._begin_warp(line)
        elif line.startswith("insts = "):
            if self.warp < 0 or self.declared >= 0:
                raise BadLine("a number of instructions without a warp before it", line[:40])
            self.declared = _number(line)
        elif not (line.startswith("cluster ") and self.inside):
            raise BadLine("no line of a trace", line[:60])

    def _execution(self, text: str) -> None:
        if self.declared < 0:
            raise BadLine("an instruction before its warp's number of instructions", text[:60])
        if self.found == self.declared:
            raise BadLine(f"more instructions than warp {self.warp} says", self.found + 1, f"{self.declared}")
        line = self.lines.read(text)
        self.found += 1
        instruction = line.instruction
        self.index.append(self.numbers.setdefault(instruction, len(self.numbers)))
        self.mask.append(line.mask)
        if not line.addresses:
            self.place.append(NOWHERE)
            return
        self.place.append(len(self.words))
        self._keep(line)

    def _keep(self, line: TraceLine) -> None:
        low, high = min(line.addresses), max(line.addresses)
        if low < 0 or high >= 1 << 63:
            raise BadLine("an address beyond what a GPU has", f"{high if low >= 0 else low:#x}")
        if line.stride is not None:
            self.words.extend((EVEN, line.addresses[0], line.stride))
            return
        each = [0] * 33
        for lane, address in zip(lanes_of(line.mask), line.addresses, strict=True):
            each[lane + 1] = address
        self.words.extend(each)

    def _begin_block(self, line: str) -> None:
        match = re.fullmatch(r"thread block = (\d{1,10}),(\d{1,10}),(\d{1,10})", line)
        if match is None or not self.inside or self.block is not None:
            raise BadLine("a block where none begins", line[:60], "thread block = x,y,z behind #BEGIN_TB")
        place, grid = tuple(int(n) for n in match.groups()), self.header.grid
        if any(at >= size for at, size in zip(place, grid, strict=True)):
            raise BadLine("a block outside of the grid", place, "below ({},{},{})".format(*grid))
        self.block = place[0] + grid[0] * (place[1] + grid[1] * place[2])
        first = self.block * self.header.warps_per_block
        if (self.begin[first : first + self.header.warps_per_block] >= 0).any():
            raise BadLine("a block that came before", place)

    def _begin_warp(self, line: str) -> None:
        if self.block is None:
            raise BadLine("a warp without a block before it", line[:40])
        self._end_warp()
        warp = _number(line)
        if warp >= self.header.warps_per_block:
            raise BadLine(
                "a warp that its block does not have", warp, f"0 to {self.header.warps_per_block - 1}"
            )
        at = self.block * self.header.warps_per_block + warp
        if self.begin[at] >= 0:
            raise BadLine("a warp that came before", warp)
        self.warp, self.declared, self.found = warp, -1, 0
        self.begin[at] = len(self.index)

    def _end_warp(self) -> None:
        if self.warp < 0:
            return
        if self.declared < 0:
            raise BadLine(f"warp {self.warp} has no number of instructions", None, "insts = n")
        if self.found != self.declared:
            raise BadLine(f"fewer instructions than warp {self.warp} says", self.found, f"{self.declared}")
        if not self.found:
            raise BadLine(f"warp {self.warp} executed nothing", 0, "an EXIT at least")
        assert self.block is not None
        self.count[self.block * self.header.warps_per_block + self.warp] = self.found
        self.warp = self.declared = -1

    def _end_block(self) -> None:
        if not self.inside or self.block is None:
            raise BadLine("the end of a block that did not begin", "#END_TB")
        self._end_warp()
        first = self.block * self.header.warps_per_block
        missing = np.flatnonzero(self.begin[first : first + self.header.warps_per_block] < 0)
        if len(missing):
            raise BadLine(f"the block ends without its warp {missing[0]}")
        self.inside, self.block = False, None

    def _check_complete(self) -> None:
        if self.inside:
            raise BadLine("the file ends inside a block", None, "#END_TB")
        missing = np.flatnonzero(self.begin < 0)
        if len(missing):
            block, (x, y, z) = int(missing[0]) // self.header.warps_per_block, self.header.grid
            place = block % x, block // x % y, block // (x * y)
            have = int((self.begin >= 0).sum()) // self.header.warps_per_block
            raise BadLine(
                "the file ends without the block {},{},{}".format(*place), have, f"{x * y * z} blocks"
            )

    def _recorded(self) -> RecordedKernel:
        """Warps in the order of the grid, instructions in that of their PCs."""
        code = list(self.numbers)
        order = sorted(range(len(code)), key=lambda n: (code[n].pc, n))
        rank = np.empty(len(code), dtype=np.int32)
        rank[order] = np.arange(len(code), dtype=np.int32)
        index = rank[np.frombuffer(self.index, dtype=np.int32)]
        mask = np.frombuffer(self.mask, dtype=np.uint32)
        place = np.frombuffer(self.place, dtype=np.int64)
        first = np.concatenate([[0], np.cumsum(self.count)]).astype(np.int64)
        if not np.array_equal(first[:-1], self.begin):
            moved = np.repeat(self.begin - first[:-1], self.count) + np.arange(len(index))
            index, mask, place = index[moved], mask[moved], place[moved]
        words = np.frombuffer(self.words, dtype=np.int64) if self.words else np.zeros(1, dtype=np.int64)
        return RecordedKernel(
            str(self.path), self.header, tuple(code[n] for n in order), first, index, mask, place, words
        )


def _number(line: str) -> int:
    text = line.partition(" = ")[2].strip()
    if not (text.isascii() and text.isdigit()) or len(text) > 10:
        raise BadLine("no number", line[:40])
    return int(text)
