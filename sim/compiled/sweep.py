"""The inner loop of service tables: one small run after another over the same tables."""

from __future__ import annotations

from smlab.sim.compiled.gpu import run, start
from smlab.sim.compiled.jit import clear, entry, helper, job_row_at, point_at, role_at, state_at
from smlab.sim.compiled.layout import DONE, NEVER, Record, State


@helper
def arrange(st: State, point: Record) -> None:
    """Lay the point's warps out: the first ``cas`` of them run the second of its two programs, the others
    the first."""
    clear(st.arena, st.arena_bytes)
    st.blocks, st.places, st.role_rows = point.blocks, point.places, point.blocks
    st.blocks_per_sm = point.blocks_per_sm
    for place in range(point.blocks * point.places):
        role = point.code
        if place >= point.jobs:
            role = -1
        elif place < point.cas:
            role += 1
        role_at(st, place).value = role


@helper
def sort_completions(st: State) -> None:
    """Sort the completions among the recorded jobs. They are nearly in order, so insertion takes linear
    time."""
    for n in range(1, st.jobs_kept):
        completion = job_row_at(st, n).completion
        at = n
        while at > 0 and job_row_at(st, at - 1).completion > completion:
            job_row_at(st, at).completion = job_row_at(st, at - 1).completion
            at -= 1
        job_row_at(st, at).completion = completion


@entry
def sweep(address: int, low: int, high: int, skipped: int, timed: int) -> int:
    """Run the points from ``low`` up to ``high``.

    A point is timed from the end of ``skipped`` rounds of completions (from the first issue, if 0) to the end
    of ``timed`` rounds more.
    """
    st = state_at(address)
    for p in range(low, high):
        point = point_at(st, p)
        arrange(st, point)
        start(st)
        st.steps_left = NEVER
        status = run(st, 0, 1)
        if status != DONE:
            return status
        point.begin = job_row_at(st, 0).issue
        sort_completions(st)
        if skipped != 0:
            point.begin = job_row_at(st, skipped * point.jobs - 1).completion
        point.end = job_row_at(st, (skipped + timed) * point.jobs - 1).completion
    return DONE
