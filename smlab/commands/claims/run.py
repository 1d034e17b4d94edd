"""``smlab claims``: the ledger judged and printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar, shown
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.schema import nearest
from smlab.validation.papers.claims import Claim, Judged, Ledger, Verdict, judge_all, load_ledger, tally
from smlab.validation.papers.claims.judging import Met

STYLES = {
    Verdict.HOLDS: "green",
    Verdict.PARTLY: "yellow",
    Verdict.FAILS: "red",
    Verdict.UNJUDGED: "dim",
}
MARKS = {Met.YES: "[green]+[/]", Met.PARTLY: "[yellow]~[/]", Met.NO: "[red]-[/]"}


@dataclass(frozen=True)
class ClaimsOptions:
    """What ``smlab claims`` was asked for; ``only`` are ids, or what ids begin with."""

    quick: bool
    only: tuple[str, ...]
    as_json: bool


def run_claims(options: ClaimsOptions) -> bool:
    """Whether every claim was judged or names what is missing; a claim that does not hold is a finding,
    not a failure."""
    ledger = load_ledger()
    chosen = Ledger(ledger.papers, choose(ledger, options.only))
    with progress_bar("judging claims") as advance:
        judged = judge_all(chosen, quick=options.quick, progress=advance)
    if options.as_json:
        print_json(
            {
                "claims": [j.as_row() for j in judged],
                "counts": {str(v): sum(j.verdict is v for j in judged) for v in Verdict},
                "papers": ledger.papers,
                "left_out": [c.id for c in chosen.claims if options.quick and not c.quick],
            }
        )
    else:
        _print(chosen, judged)
        left_out = len(chosen.claims) - len(judged)
        if left_out:
            err.print(f"{left_out} claims take longer and were left out (--quick)")
    overdue = [j.claim.id for j in judged if j.overdue]
    if overdue:
        err.print("what these claims needed is here now, but they have no quantity: " + ", ".join(overdue))
    return not overdue


def choose(ledger: Ledger, only: Sequence[str]) -> tuple[Claim, ...]:
    """The claims of these ids, or of the ids that begin so; all of them without ids. `SmlabError` for an
    unknown id."""
    if not only:
        return ledger.claims
    ids = {c.id for c in ledger.claims}
    for wanted in only:
        if not any(i == wanted or i.startswith(f"{wanted}-") for i in ids):
            guess = nearest(wanted, ids)
            raise SmlabError.at(
                "--only", "no such claim", wanted, f"perhaps {guess}" if guess else "an id of `smlab claims`"
            )
    return tuple(c for c in ledger.claims if any(c.id == w or c.id.startswith(f"{w}-") for w in only))


def _print(ledger: Ledger, judged: Sequence[Judged]) -> None:
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
    out.print(f"{len(judged)} claims: {tally(judged)}")


def _lines(j: Judged) -> list[str]:
    """What was observed, a line for each number, and the note."""
    lines = [
        f"{MARKS[o.met]} {shown(o.observed_line)} [dim]({shown(o.expectation.range.text(''))})[/dim]"
        for o in j.outcomes
    ]
    if not lines:
        lines.append(shown(j.observed))
    return lines + ([f"[dim]{shown(j.claim.note)}[/dim]"] if j.claim.note else [])
