"""``smlab claims``: the ledger judged and printed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar, shown
from smlab.commands.claims.api import claims
from smlab.commands.claims.command import ClaimsOptions
from smlab.sim.object_code.loading import ready
from smlab.validation.papers.claims import JudgedClaim, Ledger, tally
from smlab.validation.papers.judging import Met, PaperVerdict

STYLES = {
    PaperVerdict.HOLDS: "green",
    PaperVerdict.PARTLY: "yellow",
    PaperVerdict.FAILS: "red",
    PaperVerdict.UNJUDGED: "dim",
}
MARKS = {Met.YES: "[green]+[/]", Met.PARTLY: "[yellow]~[/]", Met.NO: "[red]-[/]"}


def run_claims(options: ClaimsOptions) -> bool:
    """Whether every claim was judged or names what is missing; a claim that does not hold is a finding,
    not a failure."""
    ready("engine")
    with progress_bar("judging claims") as advance:
        found = claims(
            options.only or (), sources=options.sources or (), quick=options.quick, progress=advance
        )
    if options.as_json:
        print_json(
            {
                "claims": [j.as_row() for j in found.judged],
                "counts": {str(v): sum(j.verdict is v for j in found.judged) for v in PaperVerdict},
                "papers": found.ledger.papers,
                "left_out": list(found.left_out),
            }
        )
    else:
        chosen = bool(options.only or options.sources)
        paged = out.is_terminal and options.details and not chosen
        with out.pager(styles=True) if paged else nullcontext():
            _print(found.ledger, found.judged, options.details or chosen)
        if found.left_out:
            err.print(f"{len(found.left_out)} claims take longer and were left out (--quick)")
    if found.overdue:
        err.print(
            "what these claims needed is here now, but they have no quantity: " + ", ".join(found.overdue)
        )
    return not found.overdue


def _print(ledger: Ledger, judged: Sequence[JudgedClaim], each: bool) -> None:
    """The count, then how many of each paper; then ``each`` claim with what was observed."""
    out.print(f"[bold]{len(judged)} claims[/bold]: {tally(judged)}")
    out.print(_by_source(ledger, judged))
    if not each:
        out.print("[dim]--details, or --source NAME or --only ID: each claim with what was observed[/dim]")
        return
    for short, citation in ledger.papers.items():
        of_paper = [j for j in judged if j.claim.paper == short]
        if not of_paper:
            continue
        out.print(f"\n[bold]{shown(short)}[/bold]: {shown(citation)}")
        table = Listing()
        table.add_column("verdict")
        table.add_column("claim", fold=True)
        table.add_column("observed (what would confirm)", fold=True)
        table.add_column("evidence", drop=1)
        for j in of_paper:
            place = j.claim.source.removeprefix(f"{short}, ")
            table.add_row(
                f"[{STYLES[j.verdict]}]{j.verdict}[/]",
                f"{shown(j.claim.claim)} [dim]{shown(place)}; {j.claim.id}[/dim]",
                "\n".join(_lines(j)),
                j.evidence or "none",
            )
        out.print(table)


def _by_source(ledger: Ledger, judged: Sequence[JudgedClaim]) -> Listing:
    """How many claims of each paper got each verdict."""
    table = Listing()
    table.add_column("source", fold=True)
    for verdict in PaperVerdict:
        table.add_column(str(verdict), justify="right")
    for short in ledger.papers:
        of_paper = [j.verdict for j in judged if j.claim.paper == short]
        if of_paper:
            table.add_row(shown(short), *(str(of_paper.count(v)) for v in PaperVerdict))
    return table


def _lines(j: JudgedClaim) -> list[str]:
    """What was observed, a line for each number, and the note."""
    lines = [
        f"{MARKS[o.met]} {shown(o.observed_line)} [dim]({shown(o.expectation.range.text(''))})[/dim]"
        for o in j.outcomes
    ]
    if not lines:
        lines.append(shown(j.observed))
    return lines + ([f"[dim]{shown(j.claim.note)}[/dim]"] if j.claim.note else [])
