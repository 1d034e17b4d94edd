"""What the advisor tries by itself: launch shapes and versions of the source, each alone, then together."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from pathlib import Path
from typing import Final

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
    cpu_s,
    fastest_of,
    shape_candidates,
    simulated,
)
from smlab.commands.run.results import result_arrays
from smlab.commands.run.run import run_file
from smlab.hw_bench.errors import SmlabError
from smlab.sim import Record
from smlab.sim.isa.launch.launch_file import LaunchFile, read_launch

FEWEST_TRIALS: Final = 10
"""Runs of the kernel that have to fit into the time; of a longer one a part of the grid is tried first."""
PART_S: Final = 0.7
"""CPU time of a run of such a part."""
CONFIRMED: Final = 1.5
"""Runs of the whole grid that time is kept for then, the longest of them a half longer than the kernel."""


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
    part = base
    if source is not None:
        try:
            part = _part_of(base, budget_s - (cpu_s() - since_s))
            versions = SourceVersions(part, source, advice)
        except SmlabError as error:
            budget.note = f"versions of the source were not tried: {error}"
    candidates = None if versions is None else versions.candidates()
    if versions is not None and candidates is not None and part is not base:
        screening = TrialBudget(budget_s - CONFIRMED * base.cpu_s, since_s, part.cpu_s)
        screening.try_in_turn([candidates])
        budget.late += screening.late
        budget.refused += screening.refused
        budget.note = (
            f"{len(screening.versions)} versions of the source were tried on {part.run.sms} SMs first; "
            "what gained most there was tried on all"
        )
        candidates = versions.confirmed(base)
    budget.try_in_turn([*([] if candidates is None else [candidates]), shape_candidates(base)])
    shape = fastest_of(budget.versions, SHAPE_KINDS)
    if versions is not None and shape is not None:
        budget.try_in_turn([_combined(base, versions, shape)])
    return budget.trials()


def _part_of(base: TriedKernel, left_s: float) -> TriedKernel:
    """The kernel on so few SMs that a run takes `PART_S`, where fewer than `FEWEST_TRIALS` of its runs would
    end in the time that is left; else the kernel."""
    if not base.run.whole or base.cpu_s * FEWEST_TRIALS < left_s:
        return base
    sms = max(1, math.ceil(base.gpu.integer("gpu.sms") * PART_S / base.cpu_s))
    how = {**base.how, "sms": sms}
    begun, launch = cpu_s(), read_launch(base.launch_path, base.defines)
    run = run_file(base.kernel, launch, base.gpu, defines=base.defines, keep=Record.TOTALS, **how)
    most = int(SLOWEST * run.cycles)
    return dataclasses.replace(
        base,
        how={**how, "max_cycles": most},
        run=run,
        after=result_arrays(launch),
        cpu_s=cpu_s() - begun,
    )


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
