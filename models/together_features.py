"""Features of kernels from what the service tables make of jobs that come several at a time; part of
`smlab.models.counter_sets`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from smlab.models.together import MAX_ROW, at_count
from smlab.models.trust import Features, UtilizationEstimates

Floats = NDArray[np.float64]


def of_tables(estimates: UtilizationEstimates, block: Floats) -> Mapping[str, Floats]:
    """What the tables make of jobs that come several at a time: of warps let go, of one warp in a row."""
    f, own = estimates.features, estimates.together
    warps = np.maximum(f.warps, 1)
    busy = {f"{k} together": at_count(own.let_go, k) for k in (2, 4, 8)}
    busy |= {f"{k} in a row": at_count(own.in_a_row, k) for k in (2, 4, MAX_ROW)}
    busy |= {"a block together": at_count(own.let_go, block)}
    busy |= {"all together": at_count(own.let_go, warps)}
    return {
        "in a row over together": np.log(busy["4 in a row"] / busy["4 together"]),
        "waiting over busy alone": np.log(own.waiting[:, 0] / own.let_go[:, 0]),
        **{f"place of {name}": place(f, f.throughput * cycles) for name, cycles in busy.items()},
    }


def by_tables(estimates: UtilizationEstimates, block: Floats, waiting: Floats) -> Mapping[str, Floats]:
    """How many come together by how long a job waits, from the tables; and how that time compares with what a
    block that is let go would wait. Where it is neither that nor that of a job alone, the tables are
    another reading's."""
    f, own = estimates.features, estimates.together
    each = waiting / f.throughput
    most = np.maximum(f.warps, 1)
    count = own.count_of(each)
    return {
        "let go": np.log(count),
        "let go per warp": np.log(count / most),
        "let go per warp of a block": np.log(count / block),
        "place if so many are let go": place(f, f.throughput * at_count(own.let_go, np.minimum(count, most))),
        "place if at most a block is let go": place(
            f, f.throughput * at_count(own.let_go, np.minimum(count, block))
        ),
        "place if so many are in a row": place(f, f.throughput * at_count(own.in_a_row, count)),
        "waiting over that of a block": logarithm(each / at_count(own.waiting, np.minimum(block, most))),
        "waiting over that of one": logarithm(each / own.waiting[:, 0]),
    }


def logarithm(ratio: Floats) -> Floats:
    """Of a ratio that may be 0."""
    return np.log(ratio + 0.01)


def place(f: Features, utilization: Floats) -> Floats:
    """Where a utilization lies between floor (0) and ceiling (1)."""
    found: Floats = (np.minimum(utilization, 1) - f.floor) / f.scale
    return found
