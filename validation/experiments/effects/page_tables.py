"""The tables that a study's section gets for one response."""

from __future__ import annotations

from smlab.validation.experiments.effects.page_rows import (
    anchor,
    level_columns,
    level_row,
    percent,
    three,
    unit_of,
)
from smlab.validation.experiments.effects.points import Layout
from smlab.validation.experiments.effects.results import ResponseEffects
from smlab.validation.report import Column, Section


def add_tables(section: Section, layout: Layout, found: ResponseEffects) -> None:
    """Add the tables of one response, whatever its design gives."""
    name = (layout.name, found.response)
    if found.levels:
        section.table(
            anchor(*name, "levels"),
            level_columns(layout.kind),
            [level_row(e) for e in found.levels],
            f"{found.response.replace('_', ' ')} by level{unit_of(found.response, ', in ')}. "
            "**Pairing** is how many times more independent runs the same interval would need.",
        )
    if found.shares:
        section.table(
            anchor(*name, "shares"),
            [
                Column("Factors", key="factors"),
                Column("Share of the variance", unit="%", key="share", digits=2, kind=layout.kind),
                Column("low", unit="%", key="share_low", digits=2),
                Column("high", unit="%", key="share_high", digits=2),
            ],
            [
                [
                    " × ".join(s.factors) or "three and more factors together",
                    *(percent(x) for x in three(s.share)),
                ]
                for s in found.shares
            ],
            f"Where the variance of {found.response.replace('_', ' ')} over the grid comes from. A pair's "
            f"share is its "
            "interaction: what the two give beyond the sum of their effects.",
        )
    if found.sobol:
        section.table(
            anchor(*name, "sobol"),
            [
                Column("Factors", key="factors"),
                Column("Index", key="index", digits=3, kind=layout.kind),
                Column("low", key="index_low", digits=3),
                Column("high", key="index_high", digits=3),
                Column("Total", key="total", digits=3, kind=layout.kind),
                Column("low", key="total_low", digits=3),
                Column("high", key="total_high", digits=3),
            ],
            [[" × ".join(i.factors), *three(i.index), *three(i.total)] for i in found.sobol],
            f"Shares of the variance of {found.response.replace('_', ' ')}: a factor's first-order index "
            f"and its total with all "
            f"interactions; a pair's second-order index. {found.sobol[0].index.count} base samples.",
        )
    if found.ranks:
        section.table(
            anchor(*name, "ranks"),
            [
                Column("Factor", key="factor"),
                Column("Rank coefficient", key="coefficient", digits=3, kind=layout.kind),
                Column("low", key="low", digits=3),
                Column("high", key="high", digits=3),
            ],
            [[r.factor, *three(r.coefficient)] for r in found.ranks],
            f"Standardised regression of the ranks of {found.response.replace('_', ' ')}; R² "
            f"{found.ranks[0].r_squared:.3f}.",
        )
