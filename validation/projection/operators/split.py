"""Which shapes of the NeuSight set were looked at while the projection of operators was designed.

By a hash of variant and shape, one half on every GPU. Of the other half's rows on the A100 40 GB and the T4
only the overall quantiles of the latencies were seen, and no error was computed on them, until the
predictions were final; the bounds of the interval were widened after that, with all rows in view. All rows of
the V100 were read. No constant was fitted to either half, but the forms of the mechanisms, and the choice
among figures of the T4's bandwidth, were made with the half looked at in view.

The other half is a weak test: most of its shapes have near twins in the first (``mul`` beside ``add`` of one
shape, the next batch size). GPUs that are in no file of the set at design time are the strong one.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.datasets import OperatorTimes


def looked_at(times: OperatorTimes) -> NDArray[np.bool_]:
    """For each row, whether its shape belongs to the half that was looked at, (rows,)."""
    product = np.isin(times.operator, ["linear", "bmm"])
    seen = []
    for i in range(len(times)):
        name = times.variant[i]
        if product[i]:
            shape = f"{name}:{times.batch[i]},{times.m[i]},{times.n[i]},{times.k[i]},0"
        else:
            shape = f"{name}:{times.m[i]},0,0,0,{times.n[i]}"
        seen.append(hashlib.sha256(shape.encode()).digest()[0] % 2 == 0)
    return np.array(seen, dtype=bool)
