"""What the atomic unit does with jobs that come several at a time, from the service tables: those of as many
warps, let go at once, and those of one warp in a row.

The batch table holds n jobs of n warps that are issued at once, T(n). Its i-th job is done after about T(i),
so that their mean time is the mean of T(1) ... T(n); and the unit is busy for as much longer than with one
job as T(n) is longer than T(1). A warp's own jobs all go through the queue and the address unit of one
sub-core and, where the unit has several pipes, through one of these: a row takes longer than as many jobs of
several warps, and neither table above knows of it. The *row* table does: T(n) of n jobs that one warp issues
without waiting.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.models.service_table import ServiceTable

Floats = NDArray[np.float64]

MAX_LET_GO: Final = 32
"""Warps of the largest block."""
MAX_ROW: Final = 8
"""Jobs of the longest row."""


@dataclass(frozen=True, eq=False)
class Together:
    """Cycles a job of each kernel's kind of jobs that come 1, 2, ... at a time: ``let_go`` and ``in_a_row``,
    for which the unit is busy, (kernels, `MAX_LET_GO`) and (kernels, `MAX_ROW`); ``waiting`` (kernels,
    `MAX_LET_GO`), from issue to completion, of jobs let go."""

    let_go: Floats
    waiting: Floats
    in_a_row: Floats

    def take(self, chosen: NDArray[Any]) -> Together:
        return Together(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})

    def count_of(self, waiting: Floats) -> Floats:
        """How many are let go at a time where the mean time from issue to completion is ``waiting``
        (kernels,)."""
        rising = np.maximum.accumulate(self.waiting, axis=1)
        rows, above = np.arange(len(waiting)), (rising < waiting[:, None]).sum(axis=1)
        below = np.clip(above, 1, MAX_LET_GO - 1)
        step = rising[rows, below] - rising[rows, below - 1]
        part = np.clip((waiting - rising[rows, below - 1]) / np.maximum(step, 1e-9), 0, 1)
        found: Floats = np.where(above == 0, 1.0, np.where(above == MAX_LET_GO, MAX_LET_GO, below + part))
        return found


def at_count(cycles: Floats, count: Floats | float) -> Floats:
    """A column of `Together`, (kernels, counts), at a count (kernels,) that need not be whole."""
    rows, last = np.arange(len(cycles)), cycles.shape[1]
    at = np.clip(np.broadcast_to(count, len(cycles)), 1, last)
    low = np.minimum(np.floor(at).astype(np.intp), last - 1)
    found: Floats = cycles[rows, low - 1] * (low + 1 - at) + cycles[rows, low] * (at - low)
    return found


def several_together(
    e: Floats,
    cas_share: Floats,
    alone: Floats,
    at_full: Floats,
    batch: ServiceTable | None,
    row: ServiceTable | None,
) -> Together:
    """`Together` of kernels with ``e`` lanes a job, a ``cas_share``, and busy times of a job ``alone`` and
    ``at_full`` load, all (kernels,).

    Without a batch table each job more keeps the unit for as long as at full load; without a row table
    (measured tables have none) a row is as good as so many jobs let go.
    """
    count = np.arange(1, MAX_LET_GO + 1)
    later = np.outer(at_full, count - 1)
    total = alone[:, None] + later if batch is None else _totals(batch, e, cas_share, MAX_LET_GO)
    let_go = (total - total[:, :1] + alone[:, None]) / count
    waiting = total.cumsum(axis=1) / count
    in_a_row = let_go[:, :MAX_ROW]
    if row is not None:
        total = _totals(row, e, cas_share, MAX_ROW)
        in_a_row = (total - total[:, :1] + alone[:, None]) / count[:MAX_ROW]
    return Together(let_go, waiting, in_a_row)


def _totals(table: ServiceTable, e: Floats, cas_share: Floats, most: int) -> Floats:
    """T(1) ... T(``most``), (kernels, most); beyond the table's most it goes on as steeply as at its end."""
    inside = min(most, table.n_max)
    n = np.broadcast_to(np.arange(1.0, inside + 1), (len(e), inside))
    found = table.total_cycles(n, np.broadcast_to(e[:, None], n.shape), n * cas_share[:, None])
    slope = found[:, -1:] - found[:, -2:-1] if inside > 1 else found
    return np.concatenate([found, found[:, -1:] + slope * np.arange(1, most - inside + 1)], axis=1)
