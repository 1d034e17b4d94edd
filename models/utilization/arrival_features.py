"""Features of kernels from what the service tables say of batch arrivals; part of
`smlab.models.utilization.counter_sets`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from smlab.models.utilization.simultaneous_arrivals import MAX_ROW, at_size
from smlab.models.utilization.trust_map import Features, UtilizationEstimates

Floats = NDArray[np.float64]


def batches_of_sizes(estimates: UtilizationEstimates, block: Floats) -> Mapping[str, Floats]:
    """What the tables say of batches of given sizes: of several warps, and of one warp's consecutive jobs."""
    f, service = estimates.features, estimates.batch_service
    warps = np.maximum(f.warps, 1)
    busy = {f"a batch of {k}": at_size(service.batch_busy, k) for k in (2, 4, 8)}
    busy |= {f"{k} consecutive jobs": at_size(service.row_busy, k) for k in (2, 4, MAX_ROW)}
    busy |= {"a block's batch, by the tables": at_size(service.batch_busy, block)}
    busy |= {"a batch of all warps": at_size(service.batch_busy, warps)}
    return {
        "four consecutive jobs over a batch of four": np.log(
            busy["4 consecutive jobs"] / busy["a batch of 4"]
        ),
        "response over busy time of one job": np.log(service.batch_response[:, 0] / service.batch_busy[:, 0]),
        **{
            f"normalized utilization of {name}": normalized_utilization(f, f.throughput * cycles)
            for name, cycles in busy.items()
        },
    }


def batches_by_waiting(
    estimates: UtilizationEstimates, block: Floats, waiting: Floats
) -> Mapping[str, Floats]:
    """The size of batches by how long a job waits, from the tables; and how that time compares with what a
    block's batch would wait. Where it is neither that nor that of a job alone, the tables are another
    reading's."""
    f, service = estimates.features, estimates.batch_service
    each = waiting / f.throughput
    most = np.maximum(f.warps, 1)
    count = service.batch_size(each)
    return {
        "batch size by the tables": np.log(count),
        "batch size by the tables per warp": np.log(count / most),
        "batch size by the tables per warp of a block": np.log(count / block),
        "normalized utilization of such batches by the tables": normalized_utilization(
            f, f.throughput * at_size(service.batch_busy, np.minimum(count, most))
        ),
        "normalized utilization of such batches within a block by the tables": normalized_utilization(
            f, f.throughput * at_size(service.batch_busy, np.minimum(count, block))
        ),
        "normalized utilization of as many consecutive jobs": normalized_utilization(
            f, f.throughput * at_size(service.row_busy, count)
        ),
        "waiting over that of a block's batch": logarithm(
            each / at_size(service.batch_response, np.minimum(block, most))
        ),
        "waiting over that of one job": logarithm(each / service.batch_response[:, 0]),
    }


def logarithm(ratio: Floats) -> Floats:
    """Of a ratio that may be 0."""
    return np.log(ratio + 0.01)


def normalized_utilization(f: Features, utilization: Floats) -> Floats:
    """Where a utilization lies between floor (0) and ceiling (1)."""
    share: Floats = (np.minimum(utilization, 1) - f.floor) / f.scale
    return share
