"""The drawings of a kernel's page: SVG of fixed size, coloured by the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from smlab.commands.kernel_page.colours import colour_of
from smlab.commands.kernel_page.content import Picture
from smlab.models.roofline.ceilings import Ceilings
from smlab.models.roofline.work import LEVELS
from smlab.sim.instructions import Reason
from smlab.sim.result import SimResult

WIDTH: Final = 380
"""Of drawings that stand beside each other, in pixels: a telephone shows one unscaled."""
BINS: Final = 300
"""Moments that the timeline tells apart."""
TIMELINE_WIDTH: Final = 900
NEAR: Final = 40
"""Pixels within which the dots of a roofline share their label."""


def short(value: float, unit: str = "") -> str:
    """A number with a prefix of thousands, as people read it: ``12.3 G``."""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()


def _svg(width: int, height: int, parts: Sequence[str], alt: str) -> Markup:
    drawn = "".join(parts)
    return Markup(
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(alt)}">{drawn}</svg>'
    )


def _text(x: float, y: float, words: str, anchor: str = "start", soft: bool = False) -> str:
    style = ' class="soft"' if soft else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(words)}</text>'


@dataclass(frozen=True)
class _LogAxes:
    """Two logarithmic axes: decades ``x`` and ``y`` from first to last, in a box of pixels."""

    x: tuple[int, int]
    y: tuple[int, int]
    left: float = 56
    top: float = 26
    right: float = WIDTH - 14
    bottom: float = 252

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - self.x[0]) / (self.x[1] - self.x[0])
        up = (math.log10(y) - self.y[0]) / (self.y[1] - self.y[0])
        return self.left + across * (self.right - self.left), self.bottom - up * (self.bottom - self.top)

    def grid(self) -> list[str]:
        parts = []
        step = 1 if self.x[1] - self.x[0] <= 6 else 2
        for decade in range(self.x[0], self.x[1] + 1, step):
            x, _ = self.at(10.0**decade, 10.0 ** self.y[0])
            parts.append(f'<path class="line" d="M{x:.1f} {self.top}V{self.bottom}"/>')
            parts.append(_text(x, self.bottom + 16, f"{10.0**decade:g}", "middle", soft=True))
        for decade in range(self.y[0], self.y[1] + 1):
            _, y = self.at(10.0 ** self.x[0], 10.0**decade)
            parts.append(f'<path class="line" d="M{self.left} {y:.1f}H{self.right}"/>')
            parts.append(_text(self.left - 6, y + 4, short(10.0**decade), "end", soft=True))
        return parts


def roofline_picture(ceilings: Ceilings) -> Picture | None:
    """The first kernel of ``ceilings`` under the roofs of its GPU, at each level of memory. Without
    floating-point operations its instructions count. None where it has no traffic either."""
    instructions = bool(ceilings.by_instructions[0])
    work = float(ceilings.work.instructions[0]) if instructions else float(ceilings.flops[0])
    peak = float(ceilings.maxima.issue_per_s) if instructions else float(ceilings.peak_ceiling[0])
    unit, per = ("inst/s", "inst/byte") if instructions else ("FLOP/s", "FLOP/byte")
    rate = work / float(ceilings.work.seconds[0])
    byte_counts = {
        level: float(count)
        for level, count in zip(LEVELS, ceilings.work.level_bytes[0], strict=True)
        if np.isfinite(count) and count > 0
    }
    if not work > 0 or not byte_counts or not peak > 0:
        return None
    bandwidth = dict(zip(LEVELS, map(float, ceilings.maxima.bandwidth), strict=True))
    points = {level: work / count for level, count in byte_counts.items()}
    ridges = [peak / bandwidth[level] for level in bandwidth]
    xs, ys = [*points.values(), *ridges], [rate, peak]
    axes = _LogAxes(
        (math.floor(math.log10(min(xs) * 0.6)), math.ceil(math.log10(max(xs) * 1.5))),
        (math.floor(math.log10(min(rate, peak) * 0.8)), math.ceil(math.log10(max(ys) * 1.2))),
    )
    parts = axes.grid()
    low = 10.0 ** axes.y[0]
    for level, roof in bandwidth.items():
        # From the lower or the left edge up to the ridge.
        begin = max(low / roof, 10.0 ** axes.x[0])
        x0, y0 = axes.at(begin, begin * roof)
        x1, y1 = axes.at(peak / roof, peak)
        parts.append(f'<path class="roof" d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}"/>')
        parts.append(_text(x1 - 4, y1 - 6, level.upper(), "middle", soft=True))
    x0, y0 = axes.at(peak / max(bandwidth.values()), peak)
    parts.append(f'<path class="roof" d="M{x0:.1f} {y0:.1f}H{axes.right}"/>')
    named: list[tuple[float, float, list[str]]] = []
    for level, intensity in sorted(points.items(), key=lambda one: one[1]):
        x, y = axes.at(intensity, rate)
        parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="5"/>')
        if named and x - named[-1][0] < NEAR:
            named[-1][2].append(level.upper())
        else:
            named.append((x, y, [level.upper()]))
    for x, y, names in named:
        anchor = "end" if x > axes.right - 2 * NEAR else "middle"
        parts.append(_text(min(x + 8, axes.right) if anchor == "end" else x, y - 9, ", ".join(names), anchor))
    parts.append(_text(axes.left, 14, unit, "middle", soft=True))
    parts.append(_text(axes.right, axes.bottom + 32, per, "end", soft=True))
    told = ", ".join(f"{level.upper()} {intensity:.3g}" for level, intensity in points.items())
    alt = f"This kernel does {short(rate, unit)} of at most {short(peak, unit)}; {per} by level: {told}."
    caption = f"{alt} Each dot is this kernel, with its bytes counted at one level; lines are the roofs."
    return Picture(_svg(WIDTH, 290, parts, alt), alt, caption)


def memory_picture(counted: Mapping[str, float], seconds: float) -> Picture:
    """The units of memory with what moved between them, by the names of the counters."""

    def number(name: str) -> float:
        return counted.get(name, 0.0)

    loads = number("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum")
    stores = number("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum")
    hits = number("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum")
    l2, l2_hits = number("lts__t_sectors.sum"), number("lts__t_sectors_lookup_hit.sum")
    l1_bytes, l2_bytes = number("l1tex__t_bytes.sum"), number("lts__t_bytes.sum")
    dram_bytes = number("dram__bytes.sum")
    wavefronts = number("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum")
    conflicts = number("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum")
    shared_bytes = number("smsp__sass_data_bytes_mem_shared.sum")

    def rate(part: float, whole: float) -> str:
        return f"hit rate {100 * part / whole:.1f} %" if whole else "not used"

    def moved(count: float) -> str:
        return f"{short(count, 'B')} ({short(count / seconds, 'B/s')})"

    parts = [
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>'
    ]

    def box(x: float, y: float, width: float, height: float, title: str, detail: str) -> None:
        parts.append(f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>')
        parts.append(_text(x + width / 2, y + height / 2 - 4, title, "middle"))
        parts.append(_text(x + width / 2, y + height / 2 + 13, detail, "middle", soft=True))

    def flow(x: float, y0: float, y1: float, byte_count: float) -> None:
        weight = 1 + (min(4.0, math.log10(max(byte_count, 1)) / 2.5) if byte_count else 0)
        ends = 'marker-start="url(#head)" marker-end="url(#head)"'
        dashes = "" if byte_count else ' stroke-dasharray="3 4"'
        parts.append(f'<path class="flow" stroke-width="{weight:.1f}"{dashes} {ends} d="M{x} {y0}V{y1}"/>')

    executed = number("smsp__inst_executed.sum")
    box(8, 4, 364, 42, "Kernel", f"{short(executed)} warp-instructions")
    box(8, 112, 176, 42, "L1", rate(hits, loads))
    box(196, 112, 176, 42, "Shared memory", f"{short(wavefronts)} wavefronts")
    box(8, 212, 364, 42, "L2", rate(l2_hits, l2))
    box(8, 300, 364, 42, "DRAM", f"{short(dram_bytes / seconds, 'B/s')}")
    flow(40, 50, 108, l1_bytes)
    parts.append(_text(54, 72, moved(l1_bytes), soft=False))
    parts.append(_text(54, 89, f"{short(loads)} + {short(stores)} sectors", soft=True))
    flow(228, 50, 108, shared_bytes)
    parts.append(_text(242, 72, moved(shared_bytes)))
    parts.append(_text(242, 89, f"{short(conflicts)} conflicts", soft=True))
    flow(40, 158, 208, l2_bytes)
    parts.append(_text(54, 188, f"{moved(l2_bytes)}, {short(l2)} sectors"))
    flow(40, 258, 296, dram_bytes)
    parts.append(_text(54, 282, moved(dram_bytes)))
    alt = (
        f"L1 {rate(hits, loads)}, L2 {rate(l2_hits, l2)}, DRAM {moved(dram_bytes)}, shared memory "
        f"{short(wavefronts)} wavefronts with {short(conflicts)} bank conflicts."
    )
    caption = "Sectors of L1 are those of loads and of stores; a dashed arrow moved nothing."
    return Picture(_svg(WIDTH, 346, parts, alt), alt, caption)


def states_by_slot(result: SimResult, sm: int) -> NDArray[np.int64]:
    """For each warp slot of an SM (rows) and each of `BINS` moments the reason that took most of it, -1 where
    no warp was resident."""
    spans = result.spans
    assert spans is not None
    slot_of = np.zeros(int(result.warps.warp.max()) + 1, dtype=np.int64)
    slot_of[result.warps.warp] = result.warps.slot
    mine = spans.sm == sm
    slots, reasons = slot_of[spans.warp[mine]], spans.reason[mine]
    width = max(result.cycles, 1) / BINS
    begin, end = spans.begin[mine] / width, spans.end[mine] / width
    first = np.minimum(begin.astype(np.int64), BINS - 1)
    last = np.minimum(np.maximum(np.ceil(end).astype(np.int64) - 1, first), BINS - 1)
    time = np.zeros((int(slots.max(initial=0)) + 1, BINS, len(Reason)))
    inside = first == last
    np.add.at(time, (slots[inside], first[inside], reasons[inside]), (end - begin)[inside])
    for n in np.flatnonzero(~inside):
        slot, reason = slots[n], reasons[n]
        time[slot, first[n], reason] += first[n] + 1 - begin[n]
        time[slot, first[n] + 1 : last[n], reason] += 1
        time[slot, last[n], reason] += end[n] - last[n]
    found = time.argmax(axis=2)
    return np.where(time.sum(axis=2) > 0.5, found, -1)


def timeline_picture(result: SimResult, sm: int) -> Picture:
    """What each warp slot of one SM did over time."""
    states = states_by_slot(result, sm)
    slots = len(states)
    height = max(4, min(14, 420 // slots))
    left, top = 46, 6
    step = (TIMELINE_WIDTH - left - 10) / BINS
    paths: dict[int, list[str]] = {}
    for slot, row in enumerate(states):
        edges = np.flatnonzero(np.diff(row)) + 1
        for begin, end in zip([0, *edges], [*edges, BINS], strict=True):
            if row[begin] >= 0:
                x, width = left + begin * step, (end - begin) * step
                paths.setdefault(int(row[begin]), []).append(
                    f"M{x:.0f} {top + slot * height}h{width:.0f}v{height - 1}h-{width:.0f}z"
                )
    parts = [
        f'<path class="r-{colour_of(Reason(reason).label)}" d="{"".join(found)}"/>'
        for reason, found in sorted(paths.items())
    ]
    bottom = top + slots * height
    for part in range(5):
        x = left + part / 4 * BINS * step
        parts.append(f'<path class="line" d="M{x:.1f} {top}V{bottom + 4}"/>')
        anchor = "end" if part == 4 else "middle" if part else "start"
        parts.append(_text(x, bottom + 18, f"{result.cycles * part / 4:,.0f}", anchor, soft=True))
    parts.append(_text(0, top + 11, "slot 0", soft=True))
    if slots * height > 30:
        parts.append(_text(0, bottom - 2, f"{slots - 1}", soft=True))
    parts.append(_text(left + (TIMELINE_WIDTH - left) / 2, bottom + 34, "cycles", "middle", soft=True))
    shown = states[states >= 0]
    shares = {Reason(int(r)).label: float((shown == r).mean()) for r in np.unique(shown) if len(shown)}
    most = sorted(shares, key=lambda r: -shares[r])[:3]
    told = ", ".join(f"{reason} {100 * shares[reason]:.0f} %" for reason in most)
    alt = f"SM {sm}: {slots} warp slots over {result.cycles:,} cycles; mostly {told}."
    return Picture(_svg(TIMELINE_WIDTH, bottom + 40, parts, alt), alt, f"{alt} White: no warp is there.")
