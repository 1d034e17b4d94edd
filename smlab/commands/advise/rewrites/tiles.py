"""Tiles of shared memory: what the threads of a block read one by one in a loop, read by all of them once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from smlab.commands.advise.rewrites.memory import written_in
from smlab.commands.advise.rewrites.parsed import (
    SYNC,
    TYPE_BYTES,
    ParsedKernel,
    Render,
    SourceRewrite,
    TextEdit,
    counted,
    walk,
)
from smlab.sim.isa.launch.launch_file import LaunchFile

ROUNDS: Final = 32
"""Of a loop, that a tile holds; of what all threads read alike, as many as there are threads."""
TILE_BYTES: Final = 3 << 14
"""Of static shared memory, that a block may have."""


@dataclass(frozen=True)
class _TiledLoad:
    """A load in a loop: its element, the axis of the block (or none) that it hangs on, and whether the next
    round's lies beside it."""

    element: str
    axis: str
    beside: bool


def shared_tiles(parsed: ParsedKernel, launch: LaunchFile) -> Iterator[SourceRewrite]:
    """Loops whose loads hang on the round and on one axis of the block, or on the round alone."""
    if launch.threads is None:
        return
    for loop in walk(parsed.body):
        if loop.type == "for_statement":
            yield from _tiled(parsed, launch, loop)


def _tiled(parsed: ParsedKernel, launch: LaunchFile, loop: Any) -> Iterator[SourceRewrite]:
    header = counted(parsed, loop)
    if header is None or header.step != "1":
        return
    body = header.body
    text = parsed.of(body)
    if "__sync" in text or re.search(r"\b(?:break|return|goto|continue)\b", text):
        return
    kind, name, begin, limit = header.kind, header.name, header.begin, header.limit
    assert launch.threads is not None
    sizes = dict(zip("xyz", launch.threads, strict=True))
    threads = int(np.prod(launch.threads))
    reads = {
        parsed.of(node): read
        for node in walk(body)
        if node.type == "subscript_expression" and (read := _read_of(parsed, node, name, body)) is not None
    }
    if not reads:
        return
    x, y, z = launch.threads
    thread = (
        "threadIdx.x"
        + (f" + {x} * threadIdx.y" if y > 1 else "")
        + (f" + {x * y} * threadIdx.z" if z > 1 else "")
    )
    axes = {read.axis for read in reads.values()}
    rounds = (
        min(threads, 256)
        if axes == {""}
        else min(ROUNDS, *(sizes[a] for a in axes if a and sizes[a] >= 8), ROUNDS)
    )
    arrays = {read: f"smlab_tile{n}" for n, read in enumerate(reads)}
    begun, made, used = "", "", 0
    first = f"smlab_first_{name}"
    known = {
        n: int(v)
        for n, v in zip(launch.names, launch.arguments, strict=True)
        if np.ndim(v) == 0 and np.asarray(v).dtype.kind in "iu"
    } | parsed.macros
    last = known.get(limit, int(limit) if limit.isdecimal() else 0)
    even = begin == "0" and last > 0 and last % rounds == 0
    nodes = {parsed.of(node): node for node in walk(body) if node.type == "subscript_expression"}
    for text_of, read in reads.items():
        across = sizes[read.axis] if read.axis else 1
        row = rounds + 1 if read.axis and read.beside else rounds
        used += across * (rounds + 1) * TYPE_BYTES[read.element]
        place = (
            f"[smlab_row * {row} + smlab_round]"
            if read.beside or not read.axis
            else f"[smlab_round * {across} + smlab_row]"
        )
        split = (
            f"smlab_round = smlab_at % {rounds}, smlab_row = smlab_at / {rounds}"
            if read.beside or not read.axis
            else f"smlab_row = smlab_at % {across}, smlab_round = smlab_at / {across}"
        )
        source = expanded(parsed, nodes[text_of], {name: f"({first} + smlab_round)"}, read.axis)
        begun += f" __shared__ {read.element} {arrays[text_of]}[{across * (rounds + 1)}];"
        here = [] if even else [f"{first} + smlab_round < {limit}"]
        steps = -(-across * rounds // threads)
        if across * rounds % threads:
            here.append(f"smlab_at < {across * rounds}")
        inside = f"if ({' && '.join(here)}) " if here else ""
        made += (
            f' _Pragma("unroll") for (int smlab_step = 0; smlab_step < {steps}; smlab_step++)'
            f" {{ const int smlab_at = {thread} + smlab_step * {threads}, {split};"
            f" {inside}{arrays[text_of]}{place} = {source}; }}"
        )
    if used > TILE_BYTES:
        return

    def rule(node: Any, _: Render) -> str | None:
        read = reads.get(parsed.of(node)) if node.type == "subscript_expression" else None
        if read is None:
            return None
        mine = f"threadIdx.{read.axis}" if read.axis else "0"
        across = sizes[read.axis] if read.axis else 1
        row = rounds + 1 if read.axis and read.beside else rounds
        here = f"({name} - {first})"
        if read.beside or not read.axis:
            return f"{arrays[parsed.of(node)]}[{mine} * {row} + {here}]"
        return f"{arrays[parsed.of(node)]}[{here} * {across} + {mine}]"

    inner = text
    for edit in sorted(parsed.edits(rule, body), key=lambda e: -e.first):
        a, b = edit.first - body.start_byte, edit.last - body.start_byte
        inner = inner[:a] + edit.new + inner[b:]
    until = f"{name} < {first} + {rounds}" + ("" if even else f" && {name} < {limit}")
    pragma = '_Pragma("unroll") ' if rounds <= ROUNDS else ""
    new = (
        f"{{{begun} for ({kind} {first} = {begin}; {first} < {limit}; {first} += {rounds}) {{{made} {SYNC}"
        f" {pragma}for ({kind} {name} = {first}; {until}; {name}++) {inner} {SYNC} }} }}"
    )
    told = f"{', '.join(reads)} of {rounds} rounds at line {parsed.line(loop)} in tiles of shared memory"
    yield SourceRewrite("shared-tiles", told, (TextEdit(parsed.begin_of(loop), loop.end_byte, new),))


def _read_of(parsed: ParsedKernel, node: Any, name: str, body: Any) -> _TiledLoad | None:
    parent = node.parent
    if parent.type in ("pointer_expression", "subscript_expression"):
        return None
    if parent.type == "assignment_expression" and parent.child_by_field_name("left") == node:
        return None
    pointer = parsed.of(node.child_by_field_name("argument"))
    element = parsed.declared.get(pointer, "")
    index = node.child_by_field_name("indices").named_children[0]
    if not element.endswith(" *") or pointer in written_in(parsed, body) or "[" in parsed.of(index):
        return None
    if parsed.names_in(index) & parsed.changed_in(body) or name not in parsed.names_in(index):
        return None
    if TYPE_BYTES.get(element.removesuffix(" *")) is None:
        return None
    text = expanded(parsed, node, {}, "")
    if text is None or "[" in text.split("[", 1)[1]:
        return None
    axes = {axis for axis in "xyz" if f"threadIdx.{axis}" in text}
    if len(axes) > 1:
        return None
    summed = re.search(rf"(?:^|\+)\s*{name}\s*(?:$|[-+])", parsed.of(index)) is not None
    return _TiledLoad(element.removesuffix(" *"), "".join(axes), summed)


def expanded(parsed: ParsedKernel, node: Any, given: dict[str, str], axis: str, depth: int = 0) -> str | None:
    """The text of an expression with what its names were declared as, and another thread of an ``axis``;
    None where it cannot be told."""
    text, at, end = "", node.start_byte, node.end_byte
    for n in [m for m in walk(node) if m.type in ("identifier", "field_expression")]:
        if n.start_byte < at:
            continue
        new = parsed.of(n)
        if n.type == "field_expression":
            new = "smlab_row" if axis and new == f"threadIdx.{axis}" else new
        elif new in given:
            new = given[new]
        else:
            made = _declarations(parsed, new)
            if len(made) > 1 or depth > 8:
                return None
            if made:
                inner = expanded(parsed, made[0].child_by_field_name("value"), given, axis, depth + 1)
                if inner is None:
                    return None
                new = f"({inner})"
        text += parsed.text[at : n.start_byte] + new
        at = n.end_byte
    return text + parsed.text[at:end]


def _declarations(parsed: ParsedKernel, name: str) -> list[Any]:
    """Where the body declares a name with a value that nothing changes."""
    found = []
    for node in walk(parsed.body):
        if node.type == "init_declarator":
            target = node.child_by_field_name("declarator")
            if name in parsed.names_in(target):
                loop = node.parent.parent
                if loop is None or loop.type != "for_statement":
                    found.append(node)
    return found
