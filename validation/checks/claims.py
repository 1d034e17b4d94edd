"""The ledger of claims: what the source papers say, and whether it holds here. The quick ones; `smlab
claims` judges all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from smlab.validation.checks import Plan, Results, Task
from smlab.validation.figure_style import SOFT, log2_axis, look, new_figure, styled
from smlab.validation.papers.claims import JudgedClaim, Ledger, judge_all, load_ledger, tally
from smlab.validation.papers.claims.ledger import JudgedCondition
from smlab.validation.papers.claims.published import GridTable, grid_names, grid_table
from smlab.validation.papers.claims.quantities.portability_tables import ratio_by_block_count
from smlab.validation.papers.claims.registry import Observed
from smlab.validation.papers.judging import Met, PaperVerdict
from smlab.validation.report import Cell, Column, Report, Section

TICKS = (8, 32, 128, 512)


@styled
def blocks_on_each_sm(tables: Sequence[GridTable], rule: Mapping[int, float]) -> Figure:
    """Small multiples, a table each: steady difference in % over the blocks of the grid, and the
    ``rule``'s by blocks."""
    columns = 2
    rows = -(-len(tables) // columns)
    fig = new_figure(6.4, 1.7 * rows + 0.9)
    axes = fig.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    style = look(0)
    for i, table in enumerate(tables):
        ax = axes[i // columns][i % columns]
        ax.axhline(0, color=SOFT, linewidth=0.8)
        (line,) = ax.step(list(rule), list(rule.values()), where="mid", color=look(1).colour, linewidth=0.9)
        (points,) = ax.plot(
            table.blocks, table.steady, linestyle="", marker=style.marker, color=style.colour, markersize=5.5
        )
        log2_axis(ax, TICKS)
        ax.set_title(table.title.split(",")[0], loc="left")
    for ax in axes.flat[len(tables) :]:
        ax.set_axis_off()
    fig.legend([points, line], ["printed", "blocks on the fullest SM"], loc="outside upper left", ncols=2)
    fig.supxlabel("blocks of the grid", fontsize=10)
    fig.supylabel("run time, A100 against V100, %", fontsize=10)
    return fig


LEAST = 45
"""Claims that the ledger holds at the least."""


def tasks(plan: Plan) -> list[Task[str]]:
    return [Task("claims", quick_verdicts, ())]


@dataclass(frozen=True)
class ClaimVerdict:
    """What judging a claim found, without the claim, which the ledger has: what was observed of each of its
    expectations and whether that meets it, and what is missing here."""

    verdict: PaperVerdict
    seen: tuple[tuple[Observed, Met], ...]
    missing: tuple[str, ...]


def quick_verdicts() -> dict[str, ClaimVerdict]:
    return verdicts(judge_quick())


def verdicts(judged: list[JudgedClaim]) -> dict[str, ClaimVerdict]:
    """The verdicts by the claims' ids, as the store of a validation can keep them."""
    return {
        j.claim.id: ClaimVerdict(j.verdict, tuple((o.observed, o.met) for o in j.outcomes), j.missing)
        for j in judged
    }


def _judged(found: dict[str, ClaimVerdict], ledger: Ledger) -> list[JudgedClaim]:
    claims = {claim.id: claim for claim in ledger.claims}
    return [
        JudgedClaim(
            claims[id],
            v.verdict,
            tuple(JudgedCondition(e, o, m) for e, (o, m) in zip(claims[id].expects, v.seen, strict=False)),
            v.missing,
        )
        for id, v in found.items()
    ]


def judge_quick() -> list[JudgedClaim]:
    """The verdicts of the quick claims, in the order of the ledger."""
    return judge_all(load_ledger(), quick=True)


def report(page: Report, plan: Plan, results: Results) -> None:
    ledger = load_ledger()
    judged = _judged(results["claims"], ledger)
    left_out = [c for c in ledger.claims if not c.quick]
    counts = Counter(j.verdict for j in judged)
    overdue = [j.claim.id for j in judged if j.overdue]
    section = page.section(
        "claims",
        "What the source papers claim",
        f"{len(judged)} claims of our source papers, in our words, each with the number that would confirm "
        "it. The verdicts were computed in this run, from the simulator, from measured data, or by "
        "arithmetic on published tables; none is typed by hand. A claim that does not hold is a finding of "
        "this page, not a failure of the run. **Holds**: every number lies, with its whole interval, in the "
        "range that would confirm it. **In part**: at least half of them do, where half of the effect, or "
        f"twice the error, counts half. {len(left_out)} more take longer: `smlab claims` judges all.",
    )
    page.check(
        "claims-judged",
        len(ledger.claims) >= LEAST and not overdue,
        f"{len(judged)} claims of the papers: {tally(judged)}"
        + (f"; what these needed is here now: {', '.join(overdue)}" if overdue else ""),
        "claims",
    )
    page.headline(
        "Claims of the papers",
        f"{counts[PaperVerdict.HOLDS]} of {len(judged)} hold",
        note=", ".join(f"{counts[v]} {v.of_many}" for v in PaperVerdict if v is not PaperVerdict.HOLDS),
    )
    section.fold(
        "Verdicts by paper, Coyne's tables beside the rule of blocks, and every claim with its numbers"
    )
    section.table(
        "claims-by-paper",
        [Column("paper"), *(Column(str(v)) for v in PaperVerdict)],
        [
            [paper, *(sum(j.claim.paper == paper and j.verdict is v for j in judged) for v in PaperVerdict)]
            for paper in ledger.papers
        ],
        "Verdicts by paper.",
    )
    _blocks(section)
    for number, (paper, citation) in enumerate(ledger.papers.items()):
        of_paper = [j for j in judged if j.claim.paper == paper]
        if not of_paper:
            continue
        section.heading(paper)
        section.table(
            f"claims-{number}",
            [
                Column("verdict"),
                Column("claim"),
                Column("where"),
                Column("confirmed by"),
                Column("observed"),
                Column("note"),
            ],
            [
                [
                    str(j.verdict),
                    j.claim.claim,
                    j.claim.source.removeprefix(f"{paper}, ") + f" ({j.claim.id})",
                    j.expected or None,
                    Cell(j.observed, j.evidence),
                    j.claim.note or None,
                ]
                for j in of_paper
            ],
            citation,
        )


def _blocks(section: Section) -> None:
    """Coyne's Tables 5.1 to 5.5 beside the rule of `coyne-more-sms`."""
    tables = [grid_table(name) for name in grid_names()]
    sizes = range(min(min(t.blocks) for t in tables), max(max(t.blocks) for t in tables) + 1)
    rule = dict(zip(sizes, (100 * (ratio_by_block_count(sizes) - 1)).tolist(), strict=True))
    section.figure(
        "claims-blocks",
        blocks_on_each_sm(tables, rule),
        {
            "table": [t.title for t in tables for _ in t.blocks],
            "blocks": [b for t in tables for b in t.blocks],
            "printed_steady_percent": [d for t in tables for d in t.steady],
            "rule_percent": [rule[b] for t in tables for b in t.blocks],
        },
        "Points: steady differences of run time that Coyne prints (below 0: the A100 is faster). Line: what "
        "follows from the blocks on the SM that has most, ceil(blocks / 108) / ceil(blocks / 80). Nothing is "
        "fitted. If an SM bounds the kernel, points lie on the line. 4- and 8-way conflicts lie below it.",
        "Eight small charts. The printed points of shuffles, 16- and 32-way conflicts and prefix sums follow "
        "the steps of the line. With 4- and 8-way conflicts most points lie well below it.",
    )
