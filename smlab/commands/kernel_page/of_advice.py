"""The page of advice: on a simulated run, or on a profile's samples."""

from __future__ import annotations

from collections.abc import Sequence

from smlab.commands.advise.kernel_advice import KernelAdvice, SimulatedVersion
from smlab.commands.advise.printing import (
    answer_text,
    how_text,
    launch_text,
    place,
    text,
    trials_text,
    tried_text,
)
from smlab.commands.advise.ranking import SIMULATED, RankedAdvice, ranked, why_bound
from smlab.commands.kernel_page.code_listing import ListedInstruction, code_panes
from smlab.commands.kernel_page.content import (
    AdviceCard,
    AdviceCards,
    Block,
    KernelPage,
    PageSection,
    PageTable,
    Prose,
)
from smlab.commands.kernel_page.of_run import PagedRun, busy_bars, page_of_run, stall_bars
from smlab.commands.run.real_time import RealTime
from smlab.hw_bench.gpu.alternatives import Alternative
from smlab.hw_bench.sass.linking import readable_name
from smlab.models.advisor.track_record import as_made_by_others

PLACES = 6
"""Places that a piece of advice leads to."""
BLAMED = 8
"""Rows of the table of blame."""


def pages_of_advice(kernels: Sequence[KernelAdvice], profile: str) -> list[KernelPage]:
    """A page for each kernel; ``profile`` is what was read or run."""
    return [_page(kernel, profile, f"k{n}-" if n else "") for n, kernel in enumerate(kernels)]


def _page(kernel: KernelAdvice, profile: str, key: str) -> KernelPage:
    advice = [PageSection("advice", "What to change", [_cards(kernel, key)])]
    versions = [*kernel.tried, *kernel.trials.versions]
    if versions:
        advice.append(PageSection("tried", "What was tried", _tried(kernel, versions)))
    advice.append(PageSection("blame", "Who made warps wait", [_blame(kernel, key)]))
    if kernel.run is not None:
        reading: Alternative = kernel.gpu.variants()[0][0]
        told = RealTime.of([(reading, kernel.run)], kernel.gpu, None)
        page = page_of_run(PagedRun(kernel.run, kernel.gpu, told, profile, kernel.sectors), advice, key)
        return _with_promise(page, kernel)
    samples = kernel.samples
    sections = list(advice)
    if samples.busy:
        sections.append(PageSection("speed-of-light", "Speed of light", [busy_bars(samples.busy)], half=True))
    stalls = PageSection("stalls", "What warps waited for", [stall_bars(samples.reasons())], half=True)
    listing = [
        ListedInstruction(row.address, row.line, row.text, float(row.samples), _note(row.stalled))
        for row in samples.rows
    ]
    notes = (
        "Percent of the samples at each line and instruction. A line's number leads to its machine code, and "
        "that leads back."
    )
    sections += [
        stalls,
        PageSection("code", "Source and machine code", [code_panes(listing, samples.source, key, notes)]),
    ]
    page = KernelPage(
        title=f"{readable_name(samples.kernel)} on {kernel.gpu.name}",
        subtitle=f"Samples of {samples.where}",
        headline=f"{samples.samples:,} samples, {samples.active:,} of them while the scheduler issued",
        details=[kernel.note] if kernel.note else [],
        sections=sections,
    )
    return _with_promise(page, kernel)


def _with_promise(page: KernelPage, kernel: KernelAdvice) -> KernelPage:
    """The page with the most promising change in its verdict."""
    told = ranked(kernel)
    answer = answer_text(kernel, told)
    promise = [f"{answer[0].upper()}{answer[1:]}."]
    if any(one.how in (*SIMULATED, "replayed") for one in told):
        promise.append(as_made_by_others())
    return KernelPage(
        page.title,
        page.subtitle,
        page.headline,
        [*promise, *page.details],
        page.sections,
        page.word,
        page.notes,
    )


def _number(one: RankedAdvice) -> str:
    """A piece of advice's name, its number, and how that came."""
    if one.advice is None:
        return f"{one.name}, {one.speedup:.2f}x ({how_text(one)})"
    if one.how == "replayed":
        return f"{one.name}, {one.speedup:.2f}x (replayed, {one.low:.2f} to {one.high:.2f})"
    most = f"at most {one.speedup:.2f}x" if one.how == "bound" else "worth trying"
    return f"{one.name}, {most} (no number: {why_bound(one.advice)})"


def _note(stalled: object) -> str:
    reasons = dict(stalled) if isinstance(stalled, dict) else {}
    return max(reasons, key=lambda r: reasons[r], default="")


def _cards(kernel: KernelAdvice, key: str) -> Block:
    told = ranked(kernel)
    if not told:
        return Prose("No change that smlab knows gains anything.")
    return AdviceCards([_card(kernel, one, key) for one in told])


def _card(kernel: KernelAdvice, one: RankedAdvice, key: str) -> AdviceCard:
    if one.advice is None:
        what = tried_text(kernel, one)
        return AdviceCard(_number(one), f"{what}.")
    places = [place(kernel, spot) for spot in one.advice.match.hotspots[:PLACES]]
    return AdviceCard(
        _number(one),
        text(kernel, one.advice),
        [(f"{key}i{p['address']:x}", f"{p['address']:#06x} ({100 * p['share']:.1f} %)") for p in places],
    )


def _tried(kernel: KernelAdvice, versions: Sequence[SimulatedVersion]) -> list[Block]:
    rows = [
        (
            version.what,
            launch_text(version),
            f"{version.cycles:,.0f}",
            "-" if version.results_equal is False else f"{version.speedup:.2f}x",
            _results(version),
            f"{version.cpu_s:.2f}",
        )
        for version in sorted(versions, key=lambda v: v.cycles)
    ]
    columns = ("change", "launch", "cycles", "speedup", "results", "CPU s")
    blocks: list[Block] = [PageTable(columns, rows, frozenset({0, 1, 4}))]
    if kernel.trials.versions:
        blocks.append(Prose(f"{trials_text(kernel)}."))
    return blocks


def _results(version: SimulatedVersion) -> str:
    if version.results_equal is False:
        return f"wrong: {version.note}"
    return "same" if version.results_equal else f"not compared: {version.note}"


def _blame(kernel: KernelAdvice, key: str) -> Block:
    code, blamed = kernel.code, kernel.blamed
    if code is None or blamed is None:
        return Prose("Samples without code are blamed on no other instruction.")
    total = kernel.samples.samples or 1
    found = sorted(blamed.blame, key=lambda b: -b.samples)[:BLAMED]
    rows, links = [], []
    for b in found:
        cause, stalled = code.instructions[b.cause], code.instructions[b.stalled]
        line = code.line(b.cause)
        rows.append(
            (
                f"{cause.address:#06x}",
                str(cause),
                "" if line is None else str(line),
                f"{100 * b.samples / total:.1f} %",
                b.reason,
                f"{stalled.address:#06x}",
            )
        )
        links.append(f"{key}i{cause.address:x}")
    columns = ("cause", "instruction", "line", "samples", "reason", "who waited")
    return PageTable(columns, rows, frozenset({0, 1, 4}), links)
