"""The page of a comparison of two runs."""

from __future__ import annotations

from smlab.commands.compare.comparison import RunComparison
from smlab.commands.compare.output import line_name, number
from smlab.commands.kernel_page.colours import colour_of
from smlab.commands.kernel_page.content import Bars, KernelPage, PageSection, PageTable, ShareBar
from smlab.hw_bench.sass.linking import readable_name


def page_of_comparison(comparison: RunComparison) -> KernelPage:
    """The verdict, then the time, reasons, source lines and counters of both runs beside each other."""
    before, after = comparison.before, comparison.after
    equal, said = comparison.results
    results = {True: "The same results", False: "Other results", None: "Results not compared"}[equal]
    most = max(before.seconds, after.seconds)
    times = [
        ShareBar(f"{word}: {run.name}", run.seconds / most, f"{1e6 * run.seconds:,.2f} us")
        for word, run in (("before", before), ("after", after))
    ]
    details = [
        f"{results}: {said}.",
        f"Before: {before.name} on {before.gpu}, {before.cycles:,.0f} cycles.",
        f"After: {after.name} on {after.gpu}, {after.cycles:,.0f} cycles.",
    ]
    word = "fell short" if comparison.fell_short() else "held" if equal else "plain"
    return KernelPage(
        title=f"{readable_name(after.kernel)}: what changed",
        subtitle=f"{before.name} on {before.gpu}, and {after.name} on {after.gpu}; simulated by smlab. "
        f"The second may be {100 * comparison.tolerance:g} % slower.",
        headline=comparison.headline,
        details=details,
        sections=[
            PageSection("time", "Time", [Bars(times)]),
            PageSection("stalls-before", "What warps waited for, before", [_bars(before.stalls)], half=True),
            PageSection("stalls-after", "What warps waited for, after", [_bars(after.stalls)], half=True),
            PageSection("lines", "Time by source line", [_lines(comparison)]),
            PageSection("counters", "Counters that changed", [_counters(comparison)]),
        ],
        word=word,
    )


def _bars(shares: dict[str, float]) -> Bars:
    order = sorted(shares, key=lambda reason: -shares[reason])
    return Bars([ShareBar(r, shares[r], f"{100 * shares[r]:.1f} %", colour_of(r)) for r in order])


def _lines(comparison: RunComparison) -> PageTable:
    rows = [
        (
            line_name(line),
            f"{1e6 * line.before_s:,.2f}",
            f"{1e6 * line.after_s:,.2f}",
            f"{1e6 * (line.after_s - line.before_s):+,.2f}",
        )
        for line in comparison.lines
    ]
    return PageTable(("line", "before us", "after us", "change us"), rows)


def _counters(comparison: RunComparison) -> PageTable:
    rows = [
        (
            counter.counter,
            number(counter.before),
            number(counter.after),
            f"x {counter.ratio:.3g}" if counter.before else "new",
        )
        for counter in comparison.counters
    ]
    return PageTable(("counter", "before", "after", "after over before"), rows)
