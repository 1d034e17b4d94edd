"""The operational laws on random workloads, drawn by hypothesis, in exact arithmetic."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from smlab.sim.policies import POLICIES
from smlab.validation.checks import Plan, Results, Task, shares
from smlab.validation.laws.identities import LAWS, Run, violations
from smlab.validation.laws.strategies import for_each_drawn, runs
from smlab.validation.report import Column, Report

RUNS, QUICK_RUNS, PATHS = 2000, 200, 8
KEPT = 5
"""Violations that one part keeps in words; all are counted."""


@dataclass
class Campaign:
    """What one part of the campaign saw."""

    runs: int = 0
    distinct: set[int] = field(default_factory=set)
    warp_instructions: int = 0
    atomic_jobs: int = 0
    by_policy: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)


def check_runs(count: int, stream: int, engine: str) -> Campaign:
    """Draw ``count`` runs and count the laws that do not hold on them."""
    campaign = Campaign()

    def one(run: Run) -> None:
        result = run.result
        campaign.runs += 1
        campaign.distinct.add(hash((run.kernel, repr(run.machine), result.seed)))
        campaign.warp_instructions += result.warp_instructions
        campaign.atomic_jobs += result.atomic.jobs
        campaign.by_policy[result.policy] += 1
        found = violations(run)
        campaign.broken.update({v.law for v in found})
        for violation in found[: KEPT - len(campaign.told)]:
            campaign.told.append(
                f"{violation}; kernel {run.kernel}, machine {run.machine}, seed {result.seed}"
            )

    for_each_drawn(runs(engine=engine), count, stream, one)
    return campaign


def tasks(plan: Plan) -> list[Task[str]]:
    total = QUICK_RUNS if plan.quick else RUNS
    return [
        Task(f"laws-{i}", check_runs, (count, plan.seed * PATHS + i, plan.engine))
        for i, count in enumerate(shares(total, PATHS))
    ]


def report(page: Report, plan: Plan, results: Results) -> None:
    parts: list[Campaign] = [results[f"laws-{i}"] for i in range(PATHS)]
    wanted = QUICK_RUNS if plan.quick else RUNS
    count = sum(p.runs for p in parts)
    broken = sum((p.broken for p in parts), Counter[str]())
    policies = sum((p.by_policy for p in parts), Counter[str]())
    distinct = sum(len(p.distinct) for p in parts)
    instructions = sum(p.warp_instructions for p in parts)
    section = page.section(
        "laws",
        "Operational laws, exactly",
        f"{count:,} random workloads on random machines ({distinct:,} of them distinct; {instructions:,} "
        f"warp-instructions, {sum(p.atomic_jobs for p in parts):,} atomic jobs), drawn by hypothesis. On a "
        "finished run each law is an identity, so it is checked in whole numbers and fractions with **no "
        "tolerance**. One side is what the engine counted while it ran. The other follows from the event "
        "trace, by a path that shares no code with it. That a broken engine is caught is tested in "
        "`tests/validation/laws/test_laws.py`.",
    )
    page.check(
        "laws",
        not broken and count >= wanted and set(policies) == set(POLICIES),
        f"{len(LAWS)} laws hold exactly on {count:,} random runs over {len(policies)} policies"
        if not broken
        else f"{sum(broken.values())} violations: " + ", ".join(f"{law} ({n})" for law, n in broken.items()),
        "laws",
    )
    section.fold("The laws one by one")
    section.table(
        "laws",
        [
            Column("law"),
            Column("what is compared"),
            Column("runs", align="right"),
            Column("violations", kind="simulated"),
        ],
        [
            [name, (law.__doc__ or "").split("\n")[0], count, broken.get(name, 0)]
            for name, law in LAWS.items()
        ],
        "By policy: " + ", ".join(f"{name} {n:,} runs" for name, n in sorted(policies.items())) + ".",
    )
    for told in (t for p in parts for t in p.told):
        section.text(told)
