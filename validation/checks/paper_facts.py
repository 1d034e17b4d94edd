"""What Dong & Pai report of their measured table, asked of the simulated one (their Section 3.2 and Figure
1)."""

from __future__ import annotations

import xarray as xr

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.service_table import service_table
from smlab.validation.checks import Plan, Results, Task
from smlab.validation.papers.judging import PaperVerdict
from smlab.validation.papers.table_facts import least_and_greatest_s, table_facts
from smlab.validation.report import Column, Report
from smlab.validation.report.figures import service_time_grid

MUST_HOLD = ("s-falls-with-n", "s-rises-with-e", "linear-in-c", "tenfold-spread")
"""What any sound simulation of the unit must show. That mixing saturates beyond one block is a finding about
the mechanism, which is told and fails nothing."""

SHOWN_N = (1, 8, 16, 32, 48, 64)
SHOWN_E = (1, 8, 16, 32)


def tasks(plan: Plan) -> list[Task[str]]:
    return [Task("table", full_table, (plan.gpu, plan.engine))]


def full_table(gpu: Gpu, engine: str) -> xr.DataArray:
    """T(n, e, c) for all n of the GPU, all e to 32 and all c up to n."""
    return service_table(gpu, engine=engine)


def report(page: Report, plan: Plan, results: Results) -> None:
    section = page.section(
        "table",
        "The service table T(n, e, c)",
        f"The simulated microbenchmark of Dong & Pai on `{plan.gpu.name}`: n warps issue one atomic each, "
        "all at once. e lanes of each are on one word, and c of the n do compare-and-swap. T is the time "
        "from the first issue to the last completion, and S = T / n. Nobody has published this table of any "
        "GPU as numbers. Their Figure 1 is a picture of a few rows.",
    )
    table: xr.DataArray = results["table"]
    found = table_facts(table)
    for name in MUST_HOLD:
        page.check(f"fact-{name}", found[name].verdict is PaperVerdict.HOLDS, found[name].seen, "table")
    n = table.n.values
    least, greatest = least_and_greatest_s(table)
    page.headline(
        "Service time S, best to worst",
        f"{least:.1f} to {greatest:.0f} cycles",
        kind="simulated",
        note=f"{greatest / least:.0f} times, by n, e and c",
    )
    shown = table.sel(n=[k for k in SHOWN_N if k in n], e=list(SHOWN_E))
    s = shown.values / shown.n.values[:, None, None]
    rows = [
        (int(a), int(b), int(cc), float(s[i, j, k]))
        for i, a in enumerate(shown.n.values)
        for j, b in enumerate(shown.e.values)
        for k, cc in enumerate(shown.c.values)
        if cc <= a
    ]
    columns = list(zip(*rows, strict=True))
    section.fold("The table drawn as the paper's Figure 1, and what the paper reports of it, fact by fact")
    section.figure(
        "service-time",
        service_time_grid(
            shown.n.values,
            shown.e.values,
            s,
            c_values=shown.c.values,
            show=(list(shown.n.values)[:6], SHOWN_E),
        ),
        {"n": columns[0], "e": columns[1], "c": columns[2], "s_cycles": columns[3]},
        "The analogue of Dong & Pai's Figure 1, simulated: S over c, a row for each n, a column for each e.",
        "Small multiples: the service time falls from row to row as n grows, rises from column to column as "
        "e grows, and rises linearly with the number of compare-and-swap jobs.",
    )
    section.table(
        "table-facts",
        [Column("what the paper reports"), Column("in the simulated table"), Column("verdict")],
        [[fact.claim, fact.seen, str(fact.verdict)] for fact in found.values()],
        "Facts of the paper's measured table (Titan V), asked of the simulated one. What compare-and-swap "
        "costs is assumed here.",
    )
