"""Other work for a thread: that of several blocks, or a part of a row that it had to itself."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Final

from smlab.commands.advise.rewrites.parsed import (
    SYNC,
    CountedLoop,
    ParsedKernel,
    SourceRewrite,
    TextEdit,
    around,
    counted,
    walk,
)
from smlab.commands.advise.rewrites.sums import sums_of
from smlab.sim.isa.launch.launch_file import LaunchFile

BLOCKS: Final = (2, 4)
"""Of which a block does the work."""
LANES: Final = 32
_THREAD: Final = re.compile(
    r"blockIdx\.x\s*\*\s*blockDim\.x\s*\+\s*threadIdx\.x|threadIdx\.x\s*\+\s*blockIdx\.x\s*\*\s*blockDim\.x"
    r"|blockDim\.x\s*\*\s*blockIdx\.x\s*\+\s*threadIdx\.x|threadIdx\.x\s*\+\s*blockDim\.x\s*\*\s*blockIdx\.x"
)
_PLACES: Final = ("threadIdx", "blockIdx", "blockDim", "gridDim")
_STRIDE: Final = re.compile(r"gridDim\.x\s*\*\s*blockDim\.x|blockDim\.x\s*\*\s*gridDim\.x")


@dataclasses.dataclass(frozen=True)
class Blocks:
    """A launch with another number of blocks along the grid's first axis: ``times`` as many, over
    ``divided``."""

    times: int = 1
    divided: int = 1

    def __call__(self, launch: LaunchFile) -> LaunchFile:
        return dataclasses.replace(
            launch, grid=(launch.grid[0] * self.times // self.divided, *launch.grid[1:])
        )


def more_work(parsed: ParsedKernel, launch: LaunchFile) -> Iterator[SourceRewrite]:
    """Each block does the work of several: what does not hang on the block stands before, the rest in a loop
    that is unrolled."""
    statements = [s for s in parsed.body.named_children if s.type != "comment"]
    first = next((n for n, s in enumerate(statements) if "blockIdx.x" in parsed.of(s)), None)
    if first is None:
        return
    rest = statements[first:]
    text = parsed.text[rest[0].start_byte : rest[-1].end_byte]
    returns = [n for s in rest for n in walk(s) if n.type == "return_statement"]
    inner = any(around(r, kind) is not None for r in returns for kind in ("for_statement", "while_statement"))
    barriers = "__sync" in text or "__shared__" in text
    if inner or (returns and barriers):
        return
    for blocks in BLOCKS:
        if launch.grid[0] % blocks or launch.grid[0] < 2 * blocks:
            continue
        body = re.sub(r"\bblockIdx\.x\b", f"(blockIdx.x * {blocks} + smlab_block)", text)
        body = re.sub(r"\bgridDim\.x\b", f"(gridDim.x * {blocks})", body)
        body = re.sub(r"\breturn\s*;", "continue;", body)
        new = (
            f'_Pragma("unroll") for (unsigned smlab_block = 0; smlab_block < {blocks}; smlab_block++)'
            f" {{ {body} {SYNC if barriers else ''} }}"
        )
        told = f"the work of {blocks} blocks for each, {blocks} times fewer blocks"
        edit = TextEdit(rest[0].start_byte, rest[-1].end_byte, new)
        yield SourceRewrite("more-work", told, (edit,), Blocks(divided=blocks))


def turned_axes(parsed: ParsedKernel, launch: LaunchFile) -> Iterator[SourceRewrite]:
    """The block's two axes exchanged over a grid that covers as much: lanes that went along the slow index
    go along the fast one."""
    names = {f"{one}.{a}": f"{one}.{b}" for one in _PLACES for a, b in ("xy", "yx")}
    edits = tuple(
        TextEdit(n.start_byte, n.end_byte, names[parsed.of(n)])
        for n in walk(parsed.root)
        if n.type == "field_expression" and parsed.of(n) in names
    )
    if launch.threads is None or not {"threadIdx.x", "threadIdx.y"} <= {
        parsed.text[edit.first : edit.last] for edit in edits
    }:
        return
    yield SourceRewrite("lanes-along-rows", "threads of a warp along the other axis", edits, _turned)


def _turned(launch: LaunchFile) -> LaunchFile:
    """A launch whose grid covers along each axis what it covered along the other."""
    assert launch.threads is not None
    (x, y, _), grid = launch.threads, launch.grid
    return dataclasses.replace(launch, grid=(-(-grid[1] * y // x), -(-grid[0] * x // y), grid[2]))


def warps_for_rows(parsed: ParsedKernel, launch: LaunchFile) -> Iterator[SourceRewrite]:
    """A thread's own loop over the lanes of a warp, whose sums are added by shuffles; with as many warps as
    there were threads, or, where threads stride over the grid, with as many blocks as now. A loop that adds
    nothing up may set marks, which each lane has for itself."""
    threads = _THREAD.findall(parsed.of(parsed.body))
    if not threads or launch.threads is None or launch.threads[0] % LANES or launch.threads[1:] != (1, 1):
        return
    if "__s" in parsed.of(parsed.body) or "threadIdx" in _THREAD.sub("", parsed.of(parsed.body)):
        return
    strides = _STRIDE.search(parsed.of(parsed.body)) is not None
    for loop in walk(parsed.body):
        header = counted(parsed, loop)
        sums = {} if header is None else sums_of(parsed, loop, header)
        if header is None or header.step != "1" or "Idx" in header.begin:
            continue
        if not sums and not _only_marks(parsed, header):
            continue
        if any(choice for _, choice in sums.values()):
            continue
        edits = [
            TextEdit(parsed.body.start_byte + f.start(), parsed.body.start_byte + f.end(), new)
            for pattern in (_THREAD, _STRIDE)
            for f in pattern.finditer(parsed.of(parsed.body))
            for new in [f"(({f[0]}) / {LANES})"]
        ]
        parts = "".join(f" {kind} smlab_{name} = 0;" for name, (kind, _) in sums.items())
        head = (
            f"{{{parts} for ({header.kind} {header.name} = ({header.begin}) + (threadIdx.x & 31);"
            f" {header.name} < {header.limit}; {header.name} += {LANES}) "
        )
        edits.append(TextEdit(parsed.begin_of(loop), header.body.start_byte, head))
        for n in walk(header.body):
            if n.type == "identifier" and parsed.of(n) in sums:
                edits.append(TextEdit(n.start_byte, n.end_byte, f"smlab_{parsed.of(n)}"))
        behind = "".join(
            f" for (int smlab_lane = 16; smlab_lane > 0; smlab_lane /= 2) smlab_{name} +="
            f" __shfl_xor_sync(0xffffffffu, smlab_{name}, smlab_lane); {name} += smlab_{name};"
            for name in sums
        )
        edits.append(TextEdit(loop.end_byte, loop.end_byte, f"{behind} }}"))
        told = f"a warp in place of a thread, its lanes along the loop at line {parsed.line(loop)}"
        if strides:
            yield SourceRewrite("lanes-along-rows", told, tuple(edits))
        many = f"{told}, {LANES} times as many blocks"
        yield SourceRewrite("lanes-along-rows", many, tuple(edits), Blocks(times=LANES))


def _only_marks(parsed: ParsedKernel, header: CountedLoop) -> bool:
    """Whether a loop sets what is declared outside of it to constants alone, and goes through all rounds."""
    marks = 0
    for n in walk(header.body):
        if n.type == "assignment_expression" and n.child_by_field_name("left").type == "identifier":
            if n.child_by_field_name("right").type not in ("true", "false", "number_literal"):
                return False
            marks += 1
    jumps = re.search(r"\b(?:break|return|goto)\b", parsed.of(header.body))
    return bool(marks) and jumps is None and not any(n.type == "update_expression" for n in walk(header.body))
