"""A comparison for people: on a terminal, as Markdown, as JUnit's XML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from smlab.cli.tables import Listing
from smlab.cli.terminal import out, shown
from smlab.cli.text import one_line
from smlab.commands.compare.comparison import LineChange, RunComparison
from smlab.hw_bench.files import write_atomic
from smlab.hw_bench.sass.linking import readable_name

SHOWN: Final = 40
"""Letters of what changed that are printed without ``--details``."""
FEW: Final = 3
"""Counters and lines that are printed without ``--details``."""


def print_comparison(comparison: RunComparison, details: bool) -> None:
    """The verdict, then counters and lines that changed most."""
    after = comparison.after
    out.print(
        f"[bold]{shown(readable_name(after.kernel))}[/bold] on {shown(after.gpu)}: "
        f"[bold]{shown(comparison.headline)}[/bold]"
    )
    equal, said = comparison.results
    word = {True: "the same results", False: "[red]other results[/red]", None: "results not compared"}[equal]
    out.print(f"{word}: {shown(said)}")
    few = None if details else FEW
    table = Listing()
    table.add_column("what changed", fold=True, min_width=20)
    for heading in ("before", "after"):
        table.add_column(heading, justify="right")
    table.add_column("change", justify="right", drop=1)
    for line in comparison.lines[:few]:
        table.add_row(
            shown(line_name(line) if details else _cut(line_name(line))),
            f"{1e6 * line.before_s:,.2f} us",
            f"{1e6 * line.after_s:,.2f} us",
            f"{1e6 * (line.after_s - line.before_s):+,.2f} us",
        )
    for counter in comparison.counters[:few]:
        ratio = f"x {counter.ratio:.3g}" if counter.before else "new"
        name = counter.counter if details else _cut(counter.counter, SHOWN // 2)
        table.add_row(shown(name), number(counter.before), number(counter.after), ratio)
    for reason, before, after_share in comparison.reasons[: len(comparison.reasons) if details else 1]:
        change = f"{100 * (after_share - before):+.1f}"
        table.add_row(
            f"warps' time: {shown(reason)}", f"{100 * before:.1f} %", f"{100 * after_share:.1f} %", change
        )
    if comparison.lines or comparison.counters or comparison.reasons:
        out.print(table)


def number(value: float) -> str:
    """A counter's value: a count whole, anything else in six digits."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}"


def _cut(text: str, end: int = 0) -> str:
    """What fits a line of a table, with as many of the last characters as ``end``: names of counters differ
    there. ``--details`` has all of it."""
    if len(text) <= SHOWN:
        return text
    return f"{text[: SHOWN - 3 - end]}...{text[len(text) - end :]}"


def line_name(line: LineChange) -> str:
    """``line 10 atomicAdd(...)``, with both numbers where they differ."""
    a, b = line.line_before, line.line_after
    if not a and not b:
        return "code without a line"
    if a is None:
        return f"line {b} (new) {line.text}"
    if b is None:
        return f"line {a} (gone) {line.text}"
    return f"line {a if a == b else f'{a}, now {b}'} {line.text}"


def markdown(comparison: RunComparison) -> str:
    """The comparison as Markdown, for a summary page of continuous integration."""
    return "\n".join(_markdown(comparison)) + "\n"


def _markdown(comparison: RunComparison) -> Iterator[str]:
    after = comparison.after
    mark = "fell short" if comparison.fell_short() else "held"
    yield f"### {_cell(readable_name(after.kernel))} on {_cell(after.gpu)}: {comparison.headline}"
    yield ""
    yield f"**{mark}**, with a tolerance of {100 * comparison.tolerance:g} %. {_cell(comparison.results[1])}."
    yield ""
    yield "| source line | before us | after us |"
    yield "|---|---:|---:|"
    for line in comparison.lines[:10]:
        yield f"| {_cell(line_name(line))} | {1e6 * line.before_s:,.2f} | {1e6 * line.after_s:,.2f} |"
    yield ""
    yield "| counter | before | after |"
    yield "|---|---:|---:|"
    for counter in comparison.counters[:10]:
        yield f"| `{counter.counter}` | {number(counter.before)} | {number(counter.after)} |"


def _cell(text: str) -> str:
    """A text that stays within its cell of a table."""
    for mark in "\\|`*_[]<>":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")


def junit(comparison: RunComparison, checks: Sequence[Mapping[str, object]]) -> str:
    """The comparison and the checks of the results as JUnit's XML, which continuous integration shows."""
    after = comparison.after
    equal, said = comparison.results
    cases: list[tuple[str, str, bool]] = [
        ("time", comparison.headline, comparison.verdict == "slower"),
        ("results", said, equal is False),
    ]
    cases += [(f"check {c['name']}", str(c["summary"]), c["verdict"] == "fell short") for c in checks]
    suite = ElementTree.Element(
        "testsuite",
        name=one_line(f"smlab {after.kernel} on {after.gpu}"),
        tests=str(len(cases)),
        failures=str(sum(failed for *_, failed in cases)),
    )
    for name, message, failed in cases:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=one_line(after.kernel),
            name=one_line(name),
            time=f"{after.seconds:.9f}",
        )
        if failed:
            ElementTree.SubElement(case, "failure", message=one_line(message))
        elif name == "results" and equal is None:
            ElementTree.SubElement(case, "skipped", message=one_line(message))
    ElementTree.indent(suite)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suite, encoding="unicode")}\n'


def write_outputs(
    comparison: RunComparison,
    checks: Sequence[Mapping[str, object]],
    junit_path: Path | None,
    markdown_path: Path | None,
) -> None:
    """Write the files that were asked for."""
    if junit_path is not None:
        write_atomic(junit_path, junit(comparison, checks))
    if markdown_path is not None:
        write_atomic(markdown_path, markdown(comparison))
