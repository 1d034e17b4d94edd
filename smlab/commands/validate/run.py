"""``smlab validate``: every cross-check, printed in short; the report in a folder."""

from __future__ import annotations

from collections.abc import Sequence

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar, shown
from smlab.commands.validate.api import validate
from smlab.commands.validate.command import ValidateOptions
from smlab.sim.object_code.loading import ready
from smlab.validation.checks.run import RESULTS
from smlab.validation.method.baseline import Word
from smlab.validation.report.content import Check, CheckVerdict, Finding
from smlab.validation.report.page import error_text, summary_of_checks, summary_of_findings


def run_validate(options: ValidateOptions) -> bool:
    """``smlab validate``; whether no check fell short. Findings about models are told and decide nothing."""
    ready("engine", "machine_code")
    with progress_bar("validating") as advance:
        found = validate(
            options.gpu,
            quick=options.quick,
            seed=options.seed,
            jobs=options.jobs,
            out=options.out,
            resume=options.resume,
            progress=advance,
        )
    if options.as_json:
        print_json(dict(found.document))
    else:
        print_findings(found.findings)
        print_checks(found.checks)
    err.print(f"report: {found.report}", markup=False, soft_wrap=True)
    if found.interrupted:
        err.print(
            f"what was done is in {options.out / RESULTS}; --resume keeps it", markup=False, soft_wrap=True
        )
        raise KeyboardInterrupt
    return found.ok


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
