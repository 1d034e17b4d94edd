"""What ``smlab validate`` prints: how good the models are, and whether the testbed is right."""

from __future__ import annotations

from collections.abc import Sequence

from smlab.cli.tables import Listing
from smlab.cli.terminal import out, shown
from smlab.validation.method.baseline import Word
from smlab.validation.report.content import Check, CheckVerdict, Finding
from smlab.validation.report.page import error_text, summary_of_checks, summary_of_findings

WORD_STYLES: dict[Word, str] = {"better": "green", "no better": "yellow", "worse": "red"}
VERDICT_STYLES: dict[CheckVerdict, str] = {"fell short": "bold red", "not done": "yellow", "held": "green"}
"""In the order of the list: what needs a look comes first."""


def print_findings(findings: Sequence[Finding]) -> None:
    """Which models are no better than their baseline, then each model's error beside it, by question."""
    if not findings:
        return
    out.print(f"\n[bold]How good the models are[/bold]\n{_bold(summary_of_findings(findings))}")
    table = Listing()
    table.add_column("question", fold=True)
    table.add_column("model", fold=True)
    table.add_column("n", justify="right", drop=2)
    table.add_column("error (95 %)", justify="right")
    table.add_column("baseline", fold=True)
    table.add_column("model is")
    question = None
    for f in findings:
        c = f.comparison
        table.add_row(
            "" if f.question == question else f"{shown(f.question)} [dim]({f.unit}, {f.evidence})[/dim]",
            shown(f.model),
            f"{c.n:,}",
            f"{error_text(c.error)} ({error_text(c.low)}..{error_text(c.high)})",
            f"{error_text(c.baseline_error)} {shown(f.baseline)}",
            f"[{WORD_STYLES[f.word]}]{f.word}[/]",
        )
        question = f.question
    out.print(table)


def print_checks(checks: Sequence[Check]) -> None:
    """What fell short or was not done first, then what held; the sum of it at the end."""
    out.print("[bold]Whether the testbed is right[/bold]")
    table = Listing(header=False)
    table.add_column("verdict")
    table.add_column("check")
    table.add_column("what was seen", fold=True)
    for verdict, style in VERDICT_STYLES.items():
        for check in (c for c in checks if c.verdict == verdict):
            table.add_row(f"[{style}]{verdict}[/]", check.name, shown(check.summary))
    out.print(table)
    summary = summary_of_checks(checks)
    out.print(f"[{VERDICT_STYLES[summary.verdict]}]{summary.headline}.[/] {summary.counts}")


def _bold(text: str) -> str:
    """The page's **bold** in the terminal's own way."""
    parts = shown(text).split("**")
    return "".join(f"[bold]{part}[/bold]" if i % 2 else part for i, part in enumerate(parts))
