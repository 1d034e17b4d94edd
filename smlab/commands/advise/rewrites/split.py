"""Work over other threads: a loop over several blocks, or over the lanes of a warp."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from smlab.commands.advise.rewrites.parsed import ParsedKernel, SourceRewrite, TextEdit, counted, walk
from smlab.sim.isa.launch.launch_file import LaunchFile

ROW_COUNTS: Final = (4, 16, 64)
LANES: Final = 32


def split_loops(parsed: ParsedKernel, launch: LaunchFile) -> Iterator[SourceRewrite]:
    """``for (i = a; i < n; i += s) sum += f(i); p[j] = sum;`` over the rows of a grid, where ``p`` begins as
    zeros. Between loop and store the threads of a block may add up what they have."""
    if launch.grid[1:] != (1, 1):
        return
    arrays = dict(zip(launch.names, launch.arguments, strict=True))
    statements = [s for s in parsed.body.named_children if s.type != "comment"]
    for loop in statements:
        header = counted(parsed, loop)
        if header is None or "__sync" in parsed.of(loop) or "gridDim" in header.step:
            continue
        body = header.body
        sums = _sums(parsed, body)
        edits: list[TextEdit] = []
        behind = (n for s in statements[statements.index(loop) + 1 :] for n in walk(s))
        for store in behind:
            target = store.child_by_field_name("left") if store.type == "assignment_expression" else None
            name = None if target is None or target.type == "identifier" else _first_name(parsed, target)
            if target is None or parsed.parameter(name or "") is None:
                continue  # what a block has to itself
            value, array = parsed.of(store.child_by_field_name("right")), arrays.get(name or "")
            plain = store.child_by_field_name("operator").type == "="
            if not plain or value not in sums or not isinstance(array, np.ndarray) or array.any():
                edits = []
                break
            new = f"atomicAdd(&{parsed.of(target)}, {value})"
            edits.append(TextEdit(store.start_byte, store.end_byte, new))
        if not edits:
            continue
        kind, name, begin, limit, step = header.kind, header.name, header.begin, header.limit, header.step
        rows = f"({step}) * (int)gridDim.y"
        each = f"(({limit} - ({begin}) + {rows} - 1) / ({rows}) * ({step}))"
        new = (
            f"for ({kind} {name} = ({begin}) + (int)blockIdx.y * {each};"
            f" {name} < min((int)({limit}), (int)(({begin}) + ((int)blockIdx.y + 1) * {each}));"
            f" {name} += {step}) "
        )
        for parts in ROW_COUNTS:
            text = f"the loop at line {parsed.line(loop)} over {parts} rows of the grid, which add their sums"
            whole = (TextEdit(loop.start_byte, body.start_byte, new), *edits)
            yield SourceRewrite("split-loop", text, whole, _GridRows(parts))


def lanes_along_rows(parsed: ParsedKernel, launch: LaunchFile) -> Iterator[SourceRewrite]:
    """Threads that each walk a row of their own: instead a warp takes a row, and its lanes go along it."""
    if launch.threads is None or launch.threads[0] % LANES:
        return
    for loop in walk(parsed.body):
        outer = counted(parsed, loop)
        if outer is None or "threadIdx.x" not in outer.begin or "blockDim.x" not in outer.step:
            continue
        for inner in walk(outer.body):
            header = counted(parsed, inner)
            if header is None or header.begin != "0" or header.step != "1":
                continue
            rows = _head(parsed, loop).replace("threadIdx.x", "(threadIdx.x / 32)")
            rows = rows.replace("blockDim.x", "(blockDim.x / 32)")
            kind, name, limit = header.kind, header.name, header.limit
            along = f"for ({kind} {name} = threadIdx.x % 32; {name} < {limit}; {name} += 32) "
            edits = (
                TextEdit(loop.start_byte, loop.child_by_field_name("body").start_byte, rows),
                TextEdit(inner.start_byte, inner.child_by_field_name("body").start_byte, along),
            )
            text = f"a warp for each round of the loop at line {parsed.line(loop)}, its lanes along line"
            yield SourceRewrite("lanes-along-rows", f"{text} {parsed.line(inner)}", edits)


def _head(parsed: ParsedKernel, loop: Any) -> str:
    return parsed.text[loop.start_byte : loop.child_by_field_name("body").start_byte]


@dataclasses.dataclass(frozen=True)
class _GridRows:
    """A launch with so many rows of blocks."""

    parts: int

    def __call__(self, launch: LaunchFile) -> LaunchFile:
        return dataclasses.replace(launch, grid=(launch.grid[0], self.parts, 1))


def _first_name(parsed: ParsedKernel, node: Any) -> str:
    return next((parsed.of(n) for n in walk(node) if n.type == "identifier"), "")


def _sums(parsed: ParsedKernel, body: Any) -> set[str]:
    """Names that a loop only adds to."""
    added: set[str] = set()
    other: set[str] = set()
    for node in walk(body):
        if node.type == "assignment_expression":
            target = parsed.of(node.child_by_field_name("left"))
            (added if node.child_by_field_name("operator").type in ("+=", "-=") else other).add(target)
    return added - other
