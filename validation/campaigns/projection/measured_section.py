"""How good projections are on kernels that others measured: the kept results, by kind of kernel and pair of
cards, and the gain of each mechanism."""

from __future__ import annotations

from smlab.validation.campaigns.projection.records import EACH, MADE_BY, MeasuredRecords, shipped_records
from smlab.validation.checks import Plan, Results, Task
from smlab.validation.method.baseline import Comparison
from smlab.validation.report import Column, Report, Section
from smlab.validation.report.content import Finding

MODEL = "smlab project"


def tasks(plan: Plan) -> list[Task[str]]:
    return []


def report(page: Report, plan: Plan, results: Results) -> None:
    found = shipped_records()
    single_pairs = [p for p in found.pairs if p.source != EACH]
    words = [p.comparison.word for p in single_pairs]
    section = page.section(
        "projection-measured",
        "Projection, on kernels that others measured",
        f"{found.about}: {len(single_pairs)} kinds of kernel and pairs of cards, projected from one card's "
        f"measurements to the other's times. {words.count('better')} of them are better than the better of "
        f"two ratios that need no counter (FP32 peaks, bandwidths), {words.count('worse')} worse. Not made "
        f"in this run: by `{MADE_BY}` on {found.made_on}, since the data are not ours to ship.",
    )
    pooled = {p.kind for p in found.pairs if p.source == EACH}
    for pair in found.pairs:
        if pair.kind in pooled and pair.source != EACH:
            continue
        between = "all pairs of cards" if pair.source == EACH else f"{pair.source} to {pair.target}"
        page.finding(
            Finding(
                f"Time, {pair.kind}, {between}",
                MODEL,
                pair.comparison,
                unit="%",
                evidence="published",
                group="pairs of cards" if pair.source == EACH else _group(pair.comparison),
                section="projection-measured",
            )
        )
    _pairs(section, found)
    _mechanism_gain(section, found)


def _group(comparison: Comparison) -> str:
    return "tile shapes" if comparison.groups < comparison.n else ""


def _pairs(section: Section, found: MeasuredRecords) -> None:
    section.fold("Every kind of kernel and pair of cards")
    section.table(
        "projection-measured-pairs",
        [
            Column("kind of kernel"),
            Column("from"),
            Column("to"),
            Column("n", digits=0),
            Column("MAPE", unit="%", kind="modelled", digits=1),
            Column("baseline"),
            Column("its MAPE", unit="%", digits=1, key="baseline_mape"),
            Column("best constant", unit="%", digits=1),
            Column("word"),
            Column("interval holds", unit="%", digits=0, key="held"),
            Column("width", unit="%", digits=0),
            Column("rank of the ratio", digits=2),
            Column("width fitted"),
        ],
        [
            [
                p.kind,
                p.source,
                p.target,
                p.comparison.n,
                p.comparison.error,
                p.comparison.baseline,
                p.comparison.baseline_error,
                p.constant,
                p.comparison.word,
                p.held,
                p.width,
                p.rank,
                p.left_out,
            ]
            for p in found.pairs
        ],
        "Errors by kind of kernel and pair of cards. The best constant is fitted to the truth that judges "
        "it. The interval is meant to hold 90 %.",
    )


def _mechanism_gain(section: Section, found: MeasuredRecords) -> None:
    section.fold("What each mechanism buys on which set")
    section.table(
        "projection-mechanisms",
        [
            Column("mechanism"),
            Column("set"),
            Column("n", digits=0),
            Column("with it", unit="%", digits=2),
            Column("without", unit="%", digits=2),
            Column("buys", unit="points", digits=2),
        ],
        [
            [b.mechanism, b.cases, b.n, b.with_it, b.without, b.without - b.with_it]
            for b in found.mechanism_gain
        ],
        "MAPE with each mechanism and with it alone switched off. One that buys nothing on any set is not "
        "kept.",
    )
