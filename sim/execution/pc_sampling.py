"""PC sampling, emulated: every N cycles each scheduler looks at one of its resident warps, in turn.

A sample is the warp's next instruction, what the warp does in that cycle, and whether its scheduler issued
(Zhou et al., Section II-A, with a sample for every scheduler in place of one for each SM in turn). A
scheduler gives one sample a period however many warps it has, so the samples measure *time*, and a warp of a
crowded
scheduler counts less than one that is alone: they are not a share of the warp-cycles in `SimResult.stalls`.
Both engines record what is needed (`Record.ALL`), so the samples are the same from both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.sim.instructions import Reason
from smlab.sim.result import IssueTrace, SimResult, SpanTrace

WANTED: Final = 20_000
"""Samples that the period is chosen for, where none is given."""
SHORTEST_PERIOD: Final = 16
GOLDEN: Final = 0.6180339887498949
"""Schedulers are not sampled in one cycle, but this share of a period apart: all of them execute the same
code, begun in the same cycle, and would give the same samples."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SampleTable:
    """Samples by instruction and reason; arrays of shape ``(instructions, reasons)``.

    ``not_issued`` counts those of ``stalled`` in whose cycle the scheduler issued nothing.
    """

    period_cycles: int
    stalled: Ints
    not_issued: Ints

    @property
    def samples(self) -> int:
        return int(self.stalled.sum())


def period_for(result: SimResult, schedulers: int, wanted: int = WANTED) -> int:
    """The longest period, a power of two, that gives at least ``wanted`` samples (16 cycles at least)."""
    chances = result.cycles * schedulers * len(result.sms)
    period = SHORTEST_PERIOD
    while chances // (2 * period) >= wanted:
        period *= 2
    return period


def sample(
    result: SimResult,
    instructions: int,
    schedulers: int,
    period_cycles: int | None = None,
    first_cycle: int = 0,
) -> SampleTable:
    """Sample a recorded run of machine code.

    Args:
        result: recorded with `Record.ALL`.
        instructions: how many the code has.
        schedulers: of an SM.
        period_cycles: cycles between two samples of a scheduler; by default as `period_for` says.
        first_cycle: when the first samples are taken.

    Raises:
        SmlabError: a run that recorded less.
    """
    issues, spans = result.issues, result.spans
    if issues is None or spans is None:
        raise SmlabError.at("samples", "the run recorded no issues", None, "Record.ALL")
    period = period_cycles or period_for(result, schedulers)
    stalled = np.zeros((instructions, len(Reason)), dtype=np.int64)
    not_issued = np.zeros_like(stalled)
    state = _WarpStates(issues, spans, result.cycles)
    warps = result.warps
    busy_key = np.sort((issues.sm * schedulers + issues.scheduler) * (result.cycles + 1) + issues.cycle)
    for sm in np.unique(warps.sm).tolist():
        for scheduler in range(schedulers):
            mine = np.nonzero((warps.sm == sm) & (warps.slot % schedulers == scheduler))[0]
            if not len(mine):
                continue
            number = sm * schedulers + scheduler
            begin = first_cycle + int(period * (number * GOLDEN % 1))
            times = np.arange(begin, result.cycles, period, dtype=np.int64)
            chosen, when = _in_turn(warps.slot[mine], warps.launch[mine], warps.finish[mine], times)
            index = warps.warp[mine[chosen]]
            reason, place = state.at(index, when)
            key = (sm * schedulers + scheduler) * (result.cycles + 1) + when
            at = np.minimum(np.searchsorted(busy_key, key), max(0, len(busy_key) - 1))
            issued = busy_key[at] == key if len(busy_key) else np.zeros(len(key), dtype=bool)
            np.add.at(stalled, (place, reason), 1)
            np.add.at(not_issued, (place[~issued], reason[~issued]), 1)
    return SampleTable(period, stalled, not_issued)


def _in_turn(slots: Ints, launch: Ints, finish: Ints, times: Ints) -> tuple[Ints, Ints]:
    """Which of a scheduler's warps is sampled at each time at which it has one: the resident one in the next
    slot above the slot sampled last, wrapping around."""
    places = np.unique(slots)
    resident = np.full((len(places), len(times)), -1, dtype=np.int64)
    for n, slot in enumerate(places.tolist()):
        own = np.nonzero(slots == slot)[0]
        own = own[np.argsort(launch[own], kind="stable")]
        at = np.searchsorted(launch[own], times, side="right") - 1
        there = (at >= 0) & (finish[own[np.maximum(at, 0)]] > times)
        resident[n, there] = own[at[there]]
    chosen, when, last = [], [], -1
    columns = resident.T.tolist()
    for time, column in zip(times.tolist(), columns, strict=True):
        for step in range(1, len(column) + 1):
            n = (last + step) % len(column)
            if column[n] >= 0:
                chosen.append(column[n])
                when.append(time)
                last = n
                break
    return np.array(chosen, dtype=np.int64), np.array(when, dtype=np.int64)


class _WarpStates:
    """What each warp did when, and what its next instruction was."""

    def __init__(self, issues: IssueTrace, spans: SpanTrace, cycles: int) -> None:
        self.width = cycles + 2
        order = np.argsort(issues.warp * self.width + issues.cycle, kind="stable")
        self.issue_key = (issues.warp * self.width + issues.cycle)[order]
        self.issue_warp, self.slot = issues.warp[order], issues.slot[order]
        order = np.argsort(spans.warp * self.width + spans.begin, kind="stable")
        self.span_key = (spans.warp * self.width + spans.begin)[order]
        self.reason = spans.reason[order]

    def at(self, warp: Ints, when: Ints) -> tuple[Ints, Ints]:
        """Reason and instruction. A warp at a barrier is at the barrier's instruction, and one that has
        issued its last is there still."""
        key = warp * self.width + when
        reason = self.reason[np.searchsorted(self.span_key, key, side="right") - 1]
        after = np.searchsorted(self.issue_key, key, side="left")
        held = (reason == Reason.BARRIER) | (reason == Reason.DRAIN)
        inside = np.minimum(after, len(self.issue_key) - 1)
        none_left = (after >= len(self.issue_key)) | (self.issue_warp[inside] != warp)
        place = np.where(held | none_left, after - 1, after)
        return reason, self.slot[place]
