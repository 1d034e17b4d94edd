"""What the reference engine writes down while it runs."""

from __future__ import annotations

from enum import IntEnum

from smlab.sim.instructions import Unit
from smlab.sim.lowering import Operation
from smlab.sim.reference.warp import Block, Job, Warp


class Record(IntEnum):
    """How much to keep: totals only, every atomic job, or every issue, job and change of a warp's state."""

    TOTALS = 0
    ATOMICS = 1
    ALL = 2


class Meter:
    """A level that goes up and down; keeps the area under it and the time during which it is above zero."""

    def __init__(self) -> None:
        self.level = 0
        self.since = 0
        self.area = 0
        self.busy = 0
        self.ups = 0
        self.downs = 0

    def change(self, now: int, by: int) -> None:
        self.area += self.level * (now - self.since)
        if self.level > 0:
            self.busy += now - self.since
        self.since = now
        self.level += by
        if by > 0:
            self.ups += by
        else:
            self.downs -= by


class Recorder:
    """Collects rows; `smlab.sim.result` turns them into arrays."""

    def __init__(self, keep: Record) -> None:
        self.keep = keep
        self.issues: list[tuple[int, int, int, int, int]] = []
        self.jobs: list[tuple[int, ...]] = []
        self.spans: list[tuple[int, int, int, int, int]] = []
        self.warps: list[tuple[int, ...]] = []
        self.stalls: list[list[int]] = []
        self.blocks: list[tuple[int, int, int, int]] = []

    def issue(self, now: int, sm: int, scheduler: int, warp: Warp, operation: Operation) -> None:
        if self.keep is Record.ALL:
            self.issues.append((now, sm, scheduler, warp.index, operation.slot))

    def job(self, job: Job, sm: int) -> None:
        unit = job.operation.cls.unit
        if self.keep is Record.ALL or (self.keep is Record.ATOMICS and unit is Unit.ATOMIC):
            operation = job.operation
            self.jobs.append(
                (
                    sm,
                    job.sequence,
                    job.warp.index,
                    operation.slot,
                    int(unit),
                    operation.cls.code,
                    job.lanes,
                    job.passes,
                    job.issue,
                    job.start,
                    job.end,
                    job.completion,
                    job.taken,
                )
            )

    def span(self, warp: Warp, sm: int, now: int) -> None:
        if self.keep is Record.ALL and now > warp.since:
            self.spans.append((sm, warp.index, int(warp.reason), warp.since, now))

    def warp(self, warp: Warp, sm: int) -> None:
        self.warps.append((warp.index, sm, warp.slot, warp.block.index, warp.launch, warp.finish))
        self.stalls.append(warp.stall_cycles)

    def block(self, block: Block, sm: int) -> None:
        self.blocks.append((block.index, sm, block.launch, block.retire))
