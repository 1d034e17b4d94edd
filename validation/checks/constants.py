"""The GPU description that the run used: every constant with its kind, so that nothing assumed passes as
measured."""

from __future__ import annotations

from collections import Counter

from smlab.validation.checks import Plan, Results, Task
from smlab.validation.report import Cell, Column, Report


def tasks(plan: Plan) -> list[Task[str]]:
    return []


def report(page: Report, plan: Plan, results: Results) -> None:
    constants = list(plan.gpu.constants.values())
    kinds = Counter(c.kind for c in constants)
    section = page.section(
        "constants",
        f"The constants of {plan.gpu.title}",
        "Every number that describes the GPU, with its source. "
        + ", ".join(f"{n} are `{kind}`" for kind, n in kinds.most_common())
        + ". What is `assumed` has never been measured, by us or anybody whom we could cite.",
    )
    section.fold(f"All {len(constants)} constants")
    section.table(
        "constants",
        [
            Column("key"),
            Column("value", align="right"),
            Column("low"),
            Column("high"),
            Column("unit"),
            Column("source"),
        ],
        [[c.key, Cell(c.value, c.kind), c.low, c.high, c.unit, c.source] for c in constants],
    )
