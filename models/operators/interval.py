"""How far an operator's projected time may be off: the tool's own bounds, wider by what they were seen to
miss.

The bounds (`smlab.models.operators.projection.OperatorProjection.least_s` and ``most_s``) are what caches,
energy, published bandwidths and a shortfall that may go along allow. They are not symmetric around the
prediction, and the interval is never narrower. `MARGINS` says by how much, in logarithms, times lay outside
of them. By kind of operator it has the quantiles of the errors beyond each bound, for a level of `LEVEL`.
They are over the ordered pairs of NeuSight's V100, A100 40 GB and T4, and each pair has the same weight. How
often the interval holds for a target that was left out of the fit,
`smlab.validation.campaigns.projection.coverage` tells.

Those three cards' library was in view. Of another architecture its kernels are not known: the margins
there, and the bound of the tiles, are `ANOTHER_LIBRARY` times as wide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.operators.tiles import SEEN
from smlab.models.operators.work import Floats, OperatorWork

LEVEL: Final = 0.9
ANOTHER_LIBRARY: Final = 2.0
"""Assumed: no data at hand has two libraries."""


KINDS: Final = ("product", "stream", "once more", "twice more")
"""Kinds of operators with margins of their own: products; operators that touch each byte once; those that
read rows once more (layer norm) or twice (softmax)."""


@dataclass(frozen=True)
class Margin:
    """How far the interval goes below and above the bounds, in logarithms."""

    below: float
    above: float


MARGINS: Final = {
    "product": Margin(0.0, 0.078),
    "stream": Margin(0.0, 0.0),
    "once more": Margin(0.0, 0.008),
    "twice more": Margin(0.0, 0.038),
}


def library_factor(target: Gpu) -> float:
    """How much wider all is that a library's kernels decide on ``target``."""
    return 1.0 if target.compute_capability in SEEN else ANOTHER_LIBRARY


def both_doubts(card: Floats, carried: Floats, target: Gpu) -> Floats:
    """The factor by which two doubts may put a time off, (rows,). One doubt is what the target's card does.
    The other is how much of the source's shortfall goes along. Each is a factor of at least 1.

    They have nothing to do with each other, so their logarithms add in squares. On an architecture that was
    not in view nobody has seen that, and they add up.
    """
    logs = [np.log(np.maximum(factor, 1.0)) for factor in (card, carried)]
    product = np.hypot(*logs) if target.compute_capability in SEEN else logs[0] + logs[1]
    return np.asarray(np.exp(product))


def kinds_of(work: OperatorWork) -> NDArray[np.object_]:
    """The kind of each operator, (rows,)."""
    read = np.select([work.again_bytes == 0, work.again_bytes < work.once_bytes], KINDS[1:3], KINDS[3])
    return np.asarray(np.where(work.flops > 0, KINDS[0], read), dtype=object)


def widened(
    kinds: NDArray[np.object_], least_s: Floats, most_s: Floats, target: Gpu
) -> tuple[Floats, Floats]:
    """The ends of the interval around bounds, (rows,) each."""
    factor = library_factor(target)
    below, above = np.zeros(len(kinds)), np.zeros(len(kinds))
    for kind, margin in MARGINS.items():
        below[kinds == kind], above[kinds == kind] = factor * margin.below, factor * margin.above
    return np.asarray(least_s * np.exp(-below)), np.asarray(most_s * np.exp(above))
