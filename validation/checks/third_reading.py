"""How far intervals can be trusted on a machine of a reading that no description carries."""

from __future__ import annotations

from collections.abc import Sequence

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.counter_maps import shipped_maps
from smlab.models.trust import CLOSED, TrustMap
from smlab.sim.machine import machine_from
from smlab.validation.checks import Plan, Results, Task
from smlab.validation.report import Report, Section
from smlab.validation.trust.campaign import PART, campaign_parts
from smlab.validation.trust.families import HELD_OUT
from smlab.validation.trust.judge import Reading, by_family, judge
from smlab.validation.trust.judge_sets import judge_sets, set_rows
from smlab.validation.trust.simulate import CampaignTable, run_part
from smlab.validation.trust.two_pipes import on_two_pipes

COUNT = 7
"""Kernels of each family."""
QUICK_COVERAGE = (80.0, 97.0)
"""What 90 % intervals shall cover where a campaign is too small to tell it closely."""
LEAST = 87.0
"""Percent: intervals that hold fewer are told to fall short."""
KEY = "campaign-third-"

assert COUNT <= PART


def tasks(plan: Plan, carried: Sequence[Gpu], seed: int) -> list[Task[str]]:
    """The campaign on two pipes, where the GPU is ``carried`` under several readings that have one; none in a
    quick run."""
    if plan.quick or len(carried) < 2 or any(machine_from(gpu).atomic_pipes > 1 for gpu in carried):
        return []
    parts = campaign_parts(on_two_pipes(plan.gpu), list(HELD_OUT), COUNT, seed)
    return [Task(f"{KEY}{i}", run_part, part) for i, part in enumerate(parts)]


def report(
    page: Report, section: Section, results: Results, readings: Sequence[Reading], trust: TrustMap
) -> None:
    """What the ``readings`` that are carried tell of it, if it was simulated."""
    keys = sorted((k for k in results if k.startswith(KEY)), key=lambda k: int(k.removeprefix(KEY)))
    drawn = [results[key] for key in keys]
    if not drawn:
        return
    judged = judge(CampaignTable.joined(drawn), readings, trust)
    row, told = by_family(judged)[-1], set_rows([judge_sets(judged, shipped_maps())])
    covered, count = row.covered_percent[CLOSED], row.errors[CLOSED].n
    low, high = QUICK_COVERAGE
    short = [r.counters for r in told if r.utilization_held < LEAST]
    listed = ", ".join(f"{r.utilization_held:.1f} % ({r.counters}, {r.utilization_points:.1f})" for r in told)
    section.text(
        f"**A third reading.** The evidence leaves one that the description does not carry: two pipes, each "
        f"kept for twice as long. {count} kernels of the same families were simulated on such a machine, and "
        f"told by the readings that are carried. Their 90 % intervals hold, by set of counters (points off): "
        f"{listed}. " + (f"**Fewer than {LEAST:g} %** from: {', '.join(short)}." if short else "")
    )
    page.check(
        "campaign-coverage-third-reading",
        low <= covered <= high,
        f"on a machine of a third reading, which no description carries, 90 % intervals from launch and "
        f"atomic counters hold {covered:.1f} % of {count} kernels",
        "campaign",
    )
