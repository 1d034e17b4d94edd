"""The page of a simulated run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.commands.advise.printing import shape_text
from smlab.commands.compare.output import number
from smlab.commands.kernel_page.code_listing import ListedInstruction, code_panes
from smlab.commands.kernel_page.colours import colour_of
from smlab.commands.kernel_page.content import (
    Bars,
    Block,
    ColourKey,
    KernelPage,
    PageSection,
    PageTable,
    Prose,
    ShareBar,
)
from smlab.commands.kernel_page.drawings import memory_picture, roofline_picture, short, timeline_picture
from smlab.commands.kernel_page.source_text import source_of
from smlab.commands.run.real_time import RealTime
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.reading import as_profile
from smlab.hw_bench.profiles.work.roofline_quantities import roofline_quantities
from smlab.hw_bench.sass.effects import access_words
from smlab.hw_bench.sass.linking import readable_name
from smlab.models.projection.peak_rates import maxima_of
from smlab.models.roofline.ceilings import LOW_EFFICIENCY, ceilings
from smlab.sim.execution.run import InstructionCount, MachineRun
from smlab.sim.instructions import CLASSES, Unit
from smlab.validation.grid_counters import grid_counters, whole_gpu
from smlab.validation.sampled_run import Executed, executed

UNITS: Final = {
    "issue": "Schedulers (issue)",
    "memory": "L1 and shared memory",
    "atomic": "Shared-memory atomics",
    "port": "SM's port to L2",
    "l2": "L2",
    "dram": "DRAM",
    "fp32": "FP32 pipe",
    "int32": "Integer pipe",
    "fp64": "FP64 pipe",
    "sfu": "Special functions",
    "fp16": "FP16 pipe",
    "tensor": "Tensor cores",
}
HOT: Final = 8
"""Rows of the table of the hottest places."""
_SHORT_WIDTHS: Final = {"U8": 1, "S8": 1, "U16": 2, "S16": 2}


@dataclass(frozen=True)
class PagedRun:
    """A run for its page: recorded with `Record.ALL`, ``told`` is its time, ``kernel`` what was run,
    ``sectors`` of each instruction where they were counted, ``checks`` of the results."""

    run: MachineRun
    gpu: Gpu
    told: RealTime
    kernel: str
    sectors: NDArray[np.int64] | None = None
    checks: Sequence[Mapping[str, object]] = field(default=())


def page_of_run(paged: PagedRun, more: Iterable[PageSection] = (), key: str = "") -> KernelPage:
    """What the page of a run says; ``more`` are sections of advice, which come behind the verdict, ``key``
    makes its anchors its own."""
    done, told = paged.run, paged.told
    found = executed(done, paged.gpu)
    name = readable_name(done.result.kernel)
    return KernelPage(
        title=f"{name} on {paged.gpu.name}",
        subtitle=f"{shape_text(done.launch.grid)} blocks of {shape_text(done.launch.block)} threads on "
        f"{paged.gpu.title}, simulated by smlab at {told.clock}",
        headline=f"{1e6 * told.seconds:,.2f} us, {done.cycles:,.0f} cycles: {limit_of(found)}",
        details=[*_details(paged, found)],
        sections=[*more, *sections_of_run(paged, found, key)],
        word=_word(paged.checks),
        notes=done.notes,
    )


def _word(checks: Sequence[Mapping[str, object]]) -> str:
    """The colour of the verdict: plain where no result was checked."""
    if not checks:
        return "plain"
    return "fell short" if any(c["verdict"] == "fell short" for c in checks) else "held"


def limit_of(executed: Executed) -> str:
    """What limits a run, in a few words: the busiest unit, or latency where none is busy enough."""
    busy = executed.busy
    top = max(busy, key=lambda unit: busy[unit], default=None)
    if top is None:
        return "no unit was used"
    share = f"{100 * busy[top]:.0f} %"
    if busy[top] >= LOW_EFFICIENCY:
        return f"limited by {UNITS.get(top, top)}, {share} busy"
    return f"limited by latency or occupancy; the busiest unit is {UNITS.get(top, top)}, {share}"


def _details(paged: PagedRun, found: Executed) -> Iterable[str]:
    done = paged.run
    sms = paged.gpu.integer("gpu.sms")
    if done.blocks < sms:
        yield f"{done.blocks} blocks leave {sms - done.blocks} of {sms} SMs without work."
    total = sum(done.result.stalls.values()) or 1
    hottest = max(done.instructions, key=_waited, default=None)
    if hottest is not None and hottest.stalls:
        reason = max(hottest.stalls, key=lambda r: hottest.stalls[r])
        at = f"line {hottest.line}" if hottest.line is not None else f"{hottest.address:#06x}"
        yield (
            f"Warps spend {100 * _waited(hottest) / total:.0f} % of their time at {at}, mostly for {reason}."
        )
    warps = found.facts.warps_per_scheduler
    if warps is not None:
        yield f"A scheduler has {warps:.1f} warps in the mean, of {_max_warps(paged):.0f} at most."
    for line in paged.told.lines():
        yield f"{line[0].upper()}{line[1:]}."
    for check in paged.checks:
        yield f"{check['verdict']}: {check['name']}: {check['summary']}"
    if not done.whole:
        yield (
            f"{done.blocks_simulated:,} of {done.blocks:,} blocks ran on {done.sms} SMs; sampling alone, "
            f"95 %: {done.cycles_low:,.0f} to {done.cycles_high:,.0f} cycles."
        )


def _max_warps(paged: PagedRun) -> float:
    return paged.run.result.max_warps / paged.run.lowered.machine.schedulers


def _waited(instruction: InstructionCount) -> int:
    return sum(instruction.stalls.values())


def sections_of_run(paged: PagedRun, executed: Executed, key: str = "") -> list[PageSection]:
    """The sections that a run fills."""
    done = paged.run
    counted = whole_gpu(done)
    sections = [
        PageSection("speed-of-light", "Speed of light", [busy_bars(executed.busy)], half=True),
        PageSection("stalls", "What warps waited for", [stall_bars(done.result.stalls)], half=True),
    ]
    roofline = _roofline(paged)
    sections.append(PageSection("roofline", "Roofline", [roofline], half=True))
    picture = memory_picture(counted, paged.told.seconds)
    sections.append(PageSection("memory", "Memory", [picture], half=True))
    sections.append(PageSection("hottest", "Where the time goes", [_hottest(done.instructions, key)]))
    listing = [
        ListedInstruction(i.address, i.line, i.text, float(_waited(i)), _note(i)) for i in done.instructions
    ]
    panes = code_panes(
        listing,
        source_of(done.launch, paged.kernel),
        key,
        "Percent of the time that warps spent at each line and instruction. A line's number leads to its "
        "machine code, and that leads back.",
    )
    sections.append(PageSection("code", "Source and machine code", [panes]))
    sections.append(PageSection("accesses", "Memory accesses by line", [_accesses(paged, executed, key)]))
    sm = done.result.sms[0].sm
    blocks: list[Block] = [timeline_picture(done.result, sm), ColourKey(stall_bars(done.result.stalls).rows)]
    sections.append(PageSection("timeline", f"Timeline of SM {sm}", blocks))
    sections.append(PageSection("counters", "Counters", [_counter_table(counted)]))
    return sections


def busy_bars(busy: Mapping[str, float]) -> Bars:
    """The part of the time in which each unit works, the busiest first."""
    order = sorted(busy, key=lambda unit: -busy[unit])
    return Bars([ShareBar(UNITS.get(u, u), busy[u], f"{100 * busy[u]:.1f} %") for u in order])


def stall_bars(stalls: Mapping[str, float]) -> Bars:
    """Each reason's part of the warps' time, the largest first."""
    total = sum(stalls.values()) or 1
    order = sorted((r for r in stalls if stalls[r]), key=lambda r: -stalls[r])
    return Bars(
        [ShareBar(r, stalls[r] / total, f"{100 * stalls[r] / total:.1f} %", colour_of(r)) for r in order]
    )


def _roofline(paged: PagedRun) -> Block:
    quantities = roofline_quantities(as_profile(grid_counters(paged.run)), paged.gpu)
    if not len(quantities.work):
        return Prose("The counters place this kernel on no roofline.")
    picture = roofline_picture(ceilings(quantities.work, paged.gpu, maxima_of(paged.gpu)))
    return picture or Prose("The kernel has no traffic, or no operations.")


def _hottest(instructions: Sequence[InstructionCount], key: str) -> PageTable:
    total = sum(map(_waited, instructions)) or 1
    ranked = sorted(instructions, key=lambda i: -_waited(i))[:HOT]
    rows = [
        (
            f"{i.address:#06x}",
            i.text,
            "" if i.line is None else str(i.line),
            f"{100 * _waited(i) / total:.1f} %",
            max(i.stalls, key=lambda r: i.stalls[r], default=""),
            f"{i.executed:,}",
            f"{i.lanes / i.executed:.1f}" if i.executed else "",
        )
        for i in ranked
        if _waited(i)
    ]
    columns = ("address", "instruction", "line", "warps' time", "mostly for", "executed", "lanes")
    links = [f"{key}i{i.address:x}" for i in ranked if _waited(i)]
    return PageTable(columns, rows, frozenset({0, 1, 4}), links)


def _note(instruction: InstructionCount) -> str:
    """What stands behind an instruction: how often it ran, and what warps waited for at it."""
    if not instruction.executed:
        return "never executed"
    reason = max(instruction.stalls, key=lambda r: instruction.stalls[r], default="")
    return f"{instruction.executed:,} x {reason}"


def _accesses(paged: PagedRun, found: Executed, key: str) -> Block:
    """Passes over the banks and sectors of each access, beside what the same bytes need at least."""
    passes, done = found.passes(), paged.run
    rows, links, waste = [], [], []
    for n, (micro, count) in enumerate(zip(done.launch.code, done.instructions, strict=True)):
        unit = CLASSES[micro.cls].unit
        if unit not in (Unit.SHARED, Unit.ATOMIC, Unit.GLOBAL) or not count.executed:
            continue
        width = _bytes_of(micro.instruction.modifiers, access_words(micro.instruction))
        row_bytes = width * count.lanes / count.executed
        taken = needed = sectors = ideal = ""
        extra = 0.0
        if unit is not Unit.GLOBAL:
            least = max(1.0, np.ceil(row_bytes / 128)) * count.executed
            told = passes.get(n, 0.0) * count.executed
            taken, needed, extra = f"{told:,.0f}", f"{least:,.0f}", told - least
        elif paged.sectors is not None:
            least = max(1.0, np.ceil(row_bytes / 32)) * count.executed
            told = float(paged.sectors[n])
            sectors, ideal, extra = f"{told:,.0f}", f"{min(least, told):,.0f}", told - least
        where = "" if count.line is None else str(count.line)
        head = (where or f"{count.address:#06x}", count.text, f"{count.executed:,}")
        rows.append((*head, taken, needed, sectors, ideal))
        links.append(f"{key}i{count.address:x}")
        waste.append(extra)
    if not rows:
        return Prose("The kernel accesses neither shared nor global memory.")
    order = sorted(range(len(rows)), key=lambda n: -waste[n])
    columns = ["line", "instruction", "executed", "passes", "least passes", "sectors", "least sectors"]
    kept = [n for n in range(len(columns)) if n < 3 or any(row[n] for row in rows)]
    return PageTable(
        [columns[n] for n in kept],
        [[rows[place][n] for n in kept] for place in order],
        frozenset({0, 1}),
        [links[place] for place in order],
    )


def _bytes_of(modifiers: Sequence[str], words: int) -> int:
    return next((_SHORT_WIDTHS[m] for m in modifiers if m in _SHORT_WIDTHS), 4 * words)


def _counter_table(counted: Mapping[str, float]) -> PageTable:
    rows = [(name, number(value), short(value)) for name, value in sorted(counted.items()) if value]
    return PageTable(
        ("counter", "value", ""),
        rows,
        frozenset({0}),
        folded=f"{len(rows)} counters, as a profiler names them",
    )
