"""What the advisor tries by itself: launch shapes and versions of the source, each alone, then together."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

from smlab.commands.advise.kernel_advice import (
    COMBINED,
    SHAPE_KINDS,
    SLOWEST,
    KernelAdvice,
    SimulatedVersion,
    Trials,
)
from smlab.commands.advise.source_versions import SourceChange, SourceVersions
from smlab.commands.advise.trying import (
    Trial,
    TrialBudget,
    TrialSource,
    TriedKernel,
    fastest_of,
    shape_candidates,
    simulated,
)
from smlab.hw_bench.errors import SmlabError
from smlab.sim.isa.launch.launch_file import LaunchFile


def try_changes(
    base: TriedKernel, advice: KernelAdvice, budget_s: float, since_s: float, source: Path | None
) -> Trials:
    """Simulate changes until ``budget_s`` of CPU time are spent since ``since_s``: launch shapes and versions
    of the ``source`` in turn, and at last the best of both."""
    if budget_s <= 0:
        return Trials()
    most = int(SLOWEST * base.run.cycles)  # a loop may not end where its numbers are wrong
    base = dataclasses.replace(base, how={**base.how, "max_cycles": most})
    budget, versions = TrialBudget(budget_s, since_s, base.cpu_s), None
    if source is not None:
        try:
            versions = SourceVersions(base, source, advice)
        except SmlabError as error:
            budget.note = f"versions of the source were not tried: {error}"
    budget.try_in_turn([shape_candidates(base), *([] if versions is None else [versions.candidates()])])
    shape = fastest_of(budget.versions, SHAPE_KINDS)
    if versions is not None and shape is not None:
        budget.try_in_turn([_combined(base, versions, shape)])
    return budget.trials()


def _combined(base: TriedKernel, versions: SourceVersions, shape: SimulatedVersion) -> TrialSource:
    """The best launch with the best version of the source, and with the one that goes least far: more threads
    leave each of them less to do."""
    changes = sorted(versions.gaining, key=lambda change: sum(loop.factor for loop in change.loops))

    def run(what: str, change: SourceChange) -> SimulatedVersion:
        def relaunched(launch: LaunchFile) -> LaunchFile:
            return dataclasses.replace(change.relaunched(launch), grid=shape.grid, threads=shape.block)

        image = versions.compiled(change)
        return simulated(base, what, COMBINED, kernel=image, change=relaunched, restore=change.restored)

    for change in dict.fromkeys(c for c in (versions.best, *changes[:1]) if c is not None):
        what = f"{shape.what} + {change.text}"
        yield Trial(what, COMBINED, partial(run, what, change))
