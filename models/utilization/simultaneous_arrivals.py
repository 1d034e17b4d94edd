"""How the atomic unit serves batch arrivals, from the service tables: jobs of as many warps that are issued
at once, and consecutive jobs of one warp.

The batch table holds n jobs of n warps that are issued at once, T(n). Its i-th job is done after about T(i),
so that their mean time is the mean of T(1) ... T(n); and the unit is busy for as much longer than with one
job as T(n) is longer than T(1). A warp's own jobs all go through the queue and the address unit of one
sub-core. Where the unit has several pipes, they go through one of these. So a row takes longer than as many
jobs of several warps. Neither table above knows of that. The *row* table does: T(n) of n jobs that one warp
issues without waiting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.rows import Rows
from smlab.models.utilization.service_table import ServiceTable

Floats = NDArray[np.float64]

MAX_BATCH: Final = 32
"""Warps of the largest block."""
MAX_ROW: Final = 8
"""Jobs of the longest row."""


@dataclass(frozen=True, eq=False)
class BatchService(Rows):
    """How the unit serves jobs of each kernel's kind that arrive as a batch of 1, 2, ... The busy cycles a
    job are ``batch_busy`` for one job of each of so many warps (kernels, `MAX_BATCH`), and ``row_busy`` for
    one warp's consecutive jobs (kernels, `MAX_ROW`). ``batch_response`` (kernels, `MAX_BATCH`) has the mean
    cycles from issue to completion in a batch."""

    batch_busy: Floats
    batch_response: Floats
    row_busy: Floats

    def batch_size(self, response: Floats) -> Floats:
        """The size of batches in which the mean time from issue to completion is ``response`` (kernels,)."""
        rising = np.maximum.accumulate(self.batch_response, axis=1)
        rows, above = np.arange(len(response)), (rising < response[:, None]).sum(axis=1)
        below = np.clip(above, 1, MAX_BATCH - 1)
        step = rising[rows, below] - rising[rows, below - 1]
        part = np.clip((response - rising[rows, below - 1]) / np.maximum(step, 1e-9), 0, 1)
        size: Floats = np.where(above == 0, 1.0, np.where(above == MAX_BATCH, MAX_BATCH, below + part))
        return size


def at_size(cycles: Floats, size: Floats | float) -> Floats:
    """A column of `BatchService`, (kernels, sizes), at a batch size (kernels,) that need not be whole."""
    rows, last = np.arange(len(cycles)), cycles.shape[1]
    at = np.clip(np.broadcast_to(size, len(cycles)), 1, last)
    low = np.minimum(np.floor(at).astype(np.intp), last - 1)
    value: Floats = cycles[rows, low - 1] * (low + 1 - at) + cycles[rows, low] * (at - low)
    return value


def batch_service(
    e: Floats,
    cas_share: Floats,
    alone: Floats,
    at_full: Floats,
    batch: ServiceTable | None,
    row: ServiceTable | None,
) -> BatchService:
    """`BatchService` of kernels with ``e`` lanes a job, a ``cas_share``, and busy times of a job ``alone``
    and ``at_full`` load, all (kernels,).

    Without a batch table each further job keeps the unit for as long as at full load. Without a row table
    (measured tables have none) a row counts as a batch of as many.
    """
    count = np.arange(1, MAX_BATCH + 1)
    later = np.outer(at_full, count - 1)
    total = alone[:, None] + later if batch is None else _totals(batch, e, cas_share, MAX_BATCH)
    batch_busy = (total - total[:, :1] + alone[:, None]) / count
    batch_response = total.cumsum(axis=1) / count
    row_busy = batch_busy[:, :MAX_ROW]
    if row is not None:
        total = _totals(row, e, cas_share, MAX_ROW)
        row_busy = (total - total[:, :1] + alone[:, None]) / count[:MAX_ROW]
    return BatchService(batch_busy, batch_response, row_busy)


def _totals(table: ServiceTable, e: Floats, cas_share: Floats, most: int) -> Floats:
    """T(1) ... T(``most``), (kernels, most); beyond the table's most it goes on as steeply as at its end."""
    inside = min(most, table.n_max)
    n = np.broadcast_to(np.arange(1.0, inside + 1), (len(e), inside))
    total = table.total_cycles(n, np.broadcast_to(e[:, None], n.shape), n * cas_share[:, None])
    slope = total[:, -1:] - total[:, -2:-1] if inside > 1 else total
    return np.concatenate([total, total[:, -1:] + slope * np.arange(1, most - inside + 1)], axis=1)
