"""What Dong & Pai report of their measured table, asked of the simulated one (their Section 3.2 and Figure
1)."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.table import service_table
from smlab.validation.checks import Plan, Results, Task
from smlab.validation.report import Column, Report
from smlab.validation.report.figures import service_time_grid

ONE_BLOCK = 32
SHOWN_N = (1, 8, 16, 32, 48, 64)
SHOWN_E = (1, 8, 16, 32)


def tasks(plan: Plan) -> list[Task]:
    return [Task("table", full_table, (plan.gpu, plan.engine))]


def full_table(gpu: Gpu, engine: str) -> xr.DataArray:
    """T(n, e, c) for all n of the GPU, all e to 32 and all c up to n."""
    return service_table(gpu, engine=engine)


def largest_rise_with_n(t: NDArray[np.float64], n: NDArray[np.int64]) -> float:
    """The largest of S(n + 1) - S(n), in units of 1/n: what one whole cycle more in T(n + 1) would be.

    ``t`` has shape (n, e). T is a whole number of cycles, so S is known to 1/n only.
    """
    s = t / n[:, None]
    return float(((s[1:] - s[:-1]) * n[1:, None]).max())


def largest_bend_in_c(t: NDArray[np.float64], n: NDArray[np.int64]) -> tuple[float, float]:
    """How far T(n, e, c) is from the straight line between c = 0 and c = n: in cycles, and as a percentage of
    T.

    ``t`` has shape (n, e, c) with c = 0, 1, 2, ... and NaN where c > n.
    """
    c = np.arange(t.shape[2])[None, None, :]
    ends = np.take_along_axis(t, n[:, None, None].repeat(t.shape[1], axis=1), axis=2)
    line = t[:, :, :1] + (ends - t[:, :, :1]) * c / n[:, None, None]
    off = np.abs(t - line)
    return float(np.nanmax(off)), float(np.nanmax(100 * off / t))


def report(page: Report, plan: Plan, results: Results) -> None:
    section = page.section(
        "table",
        "The service table T(n, e, c)",
        f"The simulated microbenchmark of Dong & Pai on `{plan.gpu.name}`: n warps issue one atomic each, "
        f"all at once, e lanes of "
        "each on one word, c of the n doing compare-and-swap; T is the time from the first issue to the "
        "last completion and "
        "S = T / n. Nobody has published this table of any GPU as numbers; their Figure 1 is a picture of a "
        "few rows.",
    )
    table: xr.DataArray = results["table"]
    n = table.n.values
    fetch = table.sel(c=0).values
    cas = np.array([table.sel(n=k, c=k).values for k in n])
    within = table.sel(n=[k for k in n if k <= ONE_BLOCK], c=slice(0, ONE_BLOCK))
    service = fetch / n[:, None]

    rise = largest_rise_with_n(fetch, n)
    halves = [k for k in n if 2 * k in n]
    falls = all((service[n == 2 * k] < service[n == k]).all() for k in halves)
    page.check(
        "fact-s-falls-with-n",
        rise <= 1 and falls,
        f"S(2n) < S(n) for every n and e; from n to n + 1 it never rises by more than the rounding of T to "
        f"whole cycles "
        f"({rise:.2f} of it)",
        "table",
    )
    least_step = float(np.diff(fetch, axis=1).min())
    page.check(
        "fact-s-rises-with-e",
        least_step > 0,
        f"T grows with every lane, by at least {least_step:.0f} cycles",
        "table",
    )
    bend, bend_percent = largest_bend_in_c(within.values, within.n.values)
    page.check(
        "fact-linear-in-c",
        bend_percent <= 5,
        f"T(n, e, c) for n <= {ONE_BLOCK} is within {bend:.1f} cycles ({bend_percent:.1f} %) of a line in c "
        f"(bound 5 %)",
        "table",
    )
    spread = float(max(service.max(), (cas / n[:, None]).max()) / service.min())
    page.check(
        "fact-tenfold-spread",
        spread > 10,
        f"S varies {spread:.1f} times between best and worst pattern (over 10)",
        "table",
    )
    page.headline(
        "Service time S, best to worst",
        f"{service.min():.1f} to {max(service.max(), (cas / n[:, None]).max()):.0f} cycles",
        kind="simulated",
        note=f"{spread:.0f} times, by n, e and c",
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
    section.figure(
        "service-time",
        service_time_grid(
            shown.n.values,
            shown.e.values,
            s,
            c_values=shown.c.values,
            show_n=list(shown.n.values)[:6],
            show_e=SHOWN_E,
        ),
        {"n": columns[0], "e": columns[1], "c": columns[2], "s_cycles": columns[3]},
        "The analogue of Dong & Pai's Figure 1, simulated: S over c, a row for each n, a column for each e.",
        "Small multiples: the service time falls from row to row as n grows, rises from column to column as "
        "e grows, and rises "
        "linearly with the number of compare-and-swap jobs.",
    )
    section.table(
        "table-facts",
        [Column("what the paper reports"), Column("in the simulated table"), Column("verdict")],
        [
            [
                "S falls with n",
                f"S(2n) < S(n) throughout; steps rise by at most {rise:.2f} of a cycle's rounding",
                "shown",
            ],
            ["S rises with e", f"each lane adds at least {least_step:.0f} cycles to T", "shown"],
            [f"nearly linear in c for n <= {ONE_BLOCK}", f"within {bend_percent:.1f} % of a line", "shown"],
            ["S varies more than tenfold", f"{spread:.1f} times", "shown" if spread > 10 else "not shown"],
            [
                f"for n > {ONE_BLOCK}, mixing saturates at the compare-and-swap time",
                "stays linear: nothing in the mechanism depends on the number of blocks",
                "cannot be shown (STORIES.md)",
            ],
        ],
        "Facts of the paper's measured table (Titan V), asked of the simulated one. What compare-and-swap "
        "costs is assumed here.",
    )
