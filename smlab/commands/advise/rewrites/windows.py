"""Windows of shared memory: what neighbouring threads of a block read around them, read by the block once."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from smlab.commands.advise.rewrites.layouts import arrays_of
from smlab.commands.advise.rewrites.memory import written_in
from smlab.commands.advise.rewrites.parsed import (
    SYNC,
    TYPE_BYTES,
    ParsedKernel,
    SourceRewrite,
    TextEdit,
    counted,
    walk,
    whole_number,
)
from smlab.commands.advise.rewrites.tiles import TILE_BYTES, expanded
from smlab.sim.isa.launch.launch_file import LaunchFile

REACH: Final = 16
"""How far from a thread's own element a window goes, at most."""
POINTS: Final = ((0, 0), (1, 2), (5, 3), (2, 7))
"""Threads at which places are compared."""
Offset = tuple[int, int]


@dataclass(frozen=True)
class _Around:
    """A load around a thread: its node, the text of its index, and by loop counter its range."""

    node: Any
    index: str
    counters: Mapping[str, range]


def shared_windows(parsed: ParsedKernel, launch: LaunchFile) -> Iterator[SourceRewrite]:
    """Arrays of which each thread reads elements around its own, by constants or by counters of loops."""
    if launch.threads is None or launch.threads[2] > 1:
        return
    known = dict(parsed.macros)
    for name, value in zip(launch.names, launch.arguments, strict=True):
        if np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iu":
            known[name] = int(value)
    places = _places(launch)
    written = written_in(parsed, parsed.body)
    for name, array in arrays_of(launch).items():
        element = parsed.declared.get(name, "").removesuffix(" *")
        if element in TYPE_BYTES and name not in written:
            loads = list(_loads(parsed, name, known))
            yield from _window(parsed, launch, (name, element, array.size), loads, {**known, **places})


def _places(launch: LaunchFile) -> dict[str, int]:
    """What ``blockIdx.x`` and the like stand for in a block in the middle of the grid."""
    assert launch.threads is not None
    found: dict[str, int] = {}
    for axis, blocks, threads in zip("xyz", launch.grid, launch.threads, strict=True):
        found |= {f"blockIdx.{axis}": blocks // 2, f"blockDim.{axis}": threads, f"gridDim.{axis}": blocks}
    return found


def _loads(parsed: ParsedKernel, name: str, known: Mapping[str, int]) -> Iterator[_Around]:
    begins = {name: "0"}
    for made in walk(parsed.body):
        target = made.child_by_field_name("declarator") if made.type == "init_declarator" else None
        if target is not None and target.type == "pointer_declarator":
            begin = expanded(parsed, made.child_by_field_name("value"), {}, "")
            if begin is not None and re.match(rf"{name}\s*\+", begin):
                begins[parsed.of(target).lstrip("* ").split()[-1]] = re.sub(rf"^{name}\b", "0", begin)
    for use in walk(parsed.body):
        node = use.parent
        begin = begins.get(parsed.of(use)) if use.type == "identifier" else None
        if begin is None or node.type != "subscript_expression":
            continue
        at = expanded(parsed, node.child_by_field_name("indices").named_children[0], {}, "")
        index = at if at is None or begin == "0" else f"({begin}) + ({at})"
        counters, around = {}, node.parent
        while around is not None and around != parsed.body:
            loop = counted(parsed, around)
            if loop is not None:
                ends = [whole_number(text, known) for text in (loop.begin, loop.limit, loop.step)]
                if None not in ends:
                    counters[loop.name] = range(*ends)  # type: ignore[arg-type]
            around = around.parent
        if index is not None and "threadIdx.x" in index:
            used = {n: r for n, r in counters.items() if re.search(rf"(?<![.\w]){n}\b", index) and len(r)}
            yield _Around(node, index, used)


def _window(
    parsed: ParsedKernel,
    launch: LaunchFile,
    of: tuple[str, str, int],
    loads: list[_Around],
    known: Mapping[str, int],
) -> Iterator[SourceRewrite]:
    name, element, size = of
    assert launch.threads is not None
    if not loads:
        return
    first = max(loads, key=lambda load: len(load.index))  # that which keeps to the array's ends
    fixed = {n: 0 if 0 in r else r[0] for n, r in first.counters.items()}
    found = [_offsets(first.index, fixed, load, known) for load in loads]
    linear = [(load, each) for load, each in zip(loads, found, strict=True) if each is not None]
    reached = [offset for _, each in linear for offset in each.values()]
    if len(set(reached)) < 2 or len(linear) < len(loads):
        return
    (low_x, high_x), (low_y, high_y) = ((min(one), max(one)) for one in zip(*reached, strict=True))
    wide, high = launch.threads[0] + high_x - low_x, launch.threads[1] + high_y - low_y
    if wide * high * TYPE_BYTES[element] > TILE_BYTES:
        return
    at = first.index
    for counter, value in fixed.items():
        at = re.sub(rf"(?<![.\w]){counter}\b", f"({value})", at)
    names = set(re.findall(r"(?<![.\w])[A-Za-z_]\w*", at)) - {"min", "max", "int", "unsigned"}
    if not names <= {*known, "threadIdx", "blockIdx", "blockDim", "gridDim"}:
        return
    at = re.sub(r"\b((?:block|grid)(?:Idx|Dim)\.)", r"(int)\1", at)  # below the first thread is below zero
    at = at.replace("threadIdx.x", f"((int)(smlab_at % {wide}) + {low_x})")
    at = at.replace("threadIdx.y", f"((int)(smlab_at / {wide}) + {low_y})")
    threads = launch.threads[0] * launch.threads[1]
    mine = "threadIdx.x" + (f" + {launch.threads[0]} * threadIdx.y" if launch.threads[1] > 1 else "")
    window = f"smlab_window_{name}"
    fill = (
        f" __shared__ {element} {window}[{wide * high}];"
        f" for (int smlab_at = {mine}; smlab_at < {wide * high}; smlab_at += {threads})"
        f" {window}[smlab_at] = {name}[min(max((int)({at}), 0), {size - 1})]; {SYNC}"
    )
    begin = parsed.body.start_byte + 1
    edits = [TextEdit(begin, begin, fill)]
    for load, each in linear:
        x, y = (_as_text(load.counters, each, axis) for axis in (0, 1))
        row = f"(int)threadIdx.y + ({y}) - ({low_y})" if launch.threads[1] > 1 else "0"
        place = f"{window}[({row}) * {wide} + (int)threadIdx.x + ({x}) - ({low_x})]"
        edits.append(TextEdit(load.node.start_byte, load.node.end_byte, place))
    told = f"{name} around the threads of a block ({wide} x {high}) in a window of shared memory"
    yield SourceRewrite("shared-tiles", told, tuple(edits))


def _offsets(
    reference: str, fixed: Mapping[str, int], load: _Around, known: Mapping[str, int]
) -> dict[tuple[int, ...], Offset] | None:
    """By the ends of a load's counters how many threads away the thread is whose own element it reads; None
    where that is not one thread's, or does not follow the counters evenly."""
    found: dict[tuple[int, ...], Offset] = {}
    for values in itertools.product(*((r[0], r[-1]) for r in load.counters.values())):
        offset = _offset(reference, {**known, **fixed}, load.index, {**known, **_by(load, values)})
        if offset is None:
            return None
        found[values] = offset
    for n, r in enumerate(load.counters.values()):  # one thread a step
        for values, offset in found.items():
            if values[n] == r[0]:
                other = found[(*values[:n], r[-1], *values[n + 1 :])]
                moved = other[0] - offset[0], other[1] - offset[1]
                if moved not in ((0, 0), (r[-1] - r[0], 0), (0, r[-1] - r[0])):
                    return None
    return found


def _by(load: _Around, values: tuple[int, ...]) -> dict[str, int]:
    return dict(zip(load.counters, values, strict=True))


def _offset(reference: str, of: Mapping[str, int], index: str, here: Mapping[str, int]) -> Offset | None:
    """How many threads away the reference's place is that of an index, for all threads that are looked at."""
    for x, y in sorted(
        itertools.product(range(-REACH, REACH + 1), repeat=2), key=lambda o: o[0] ** 2 + o[1] ** 2
    ):
        for tx, ty in POINTS:
            wanted = whole_number(index, {**here, "threadIdx.x": tx, "threadIdx.y": ty})
            if wanted is None:
                return None
            if wanted != whole_number(reference, {**of, "threadIdx.x": tx + x, "threadIdx.y": ty + y}):
                break
        else:
            return x, y
    return None


def _as_text(counters: Mapping[str, range], offsets: Mapping[tuple[int, ...], Offset], axis: int) -> str:
    """An offset along an axis as a sum of counters and a constant."""
    base = next(iter(offsets))
    text, constant = "", offsets[base][axis]
    for n, (name, r) in enumerate(counters.items()):
        other = offsets[(*base[:n], r[-1], *base[n + 1 :])]
        if other[axis] != offsets[base][axis]:
            text += f"{name} + "
            constant -= base[n]
    return f"{text}{constant}"
