"""What the source GPU's own measurements tell, beside the rows one by one: what a launch costs, and its
sustained maxima.

Van Lanker et al. 2024, section 4.1: the maxima of the source are measured, those of the target published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.operators.work import Floats, OperatorWork

BEST_QUANTILE: Final = 0.95
"""Of the measured rates: the best but for a few (a clock above its rating, a warm cache)."""

MIN_ROWS: Final = 8
MIN_SIZE_RATIO: Final = 3.0
"""Streams must be so many, and differ by so much in bytes, for the intercept of their line to mean
something."""


@dataclass(frozen=True)
class OperatorCalibration:
    """Of the source GPU: ``launch_s``, in each measured time and not scaling with the GPU; what its memory
    sustains and what its FP32 arithmetic does. None where no row tells. ``streams`` and ``products`` are the
    rows behind them.
    """

    launch_s: float
    best_bytes_per_s: float | None
    best_flops_per_s: float | None
    streams: int
    products: int


def calibrate(work: OperatorWork, seconds: Floats, gpu: Gpu) -> OperatorCalibration:
    """From rows measured on ``gpu``, the source; ``seconds`` of shape ``(rows,)``.

    Streams are rows without arithmetic to speak of that read nothing again and do not fit L2. The launch's
    cost is the intercept of their time against bytes: least squares of relative errors, with one slope for
    each number of operands. It is 0 where there are fewer than 8 streams or sizes within a factor of 3, and
    at most half the shortest of all times. The maxima are 95 % quantiles of the rates without the launch.
    """
    stream = (work.flops == 0) & (work.again_bytes == 0) & (work.once_bytes > 2 * gpu.number("l2.bytes"))
    arithmetic = work.flops > 0
    launch = _intercept(work.take(stream), seconds[stream])
    launch = min(max(launch, 0.0), float(seconds.min()) / 2) if len(seconds) else 0.0
    return OperatorCalibration(
        launch_s=launch,
        best_bytes_per_s=_best(work.once_bytes[stream], seconds[stream] - launch),
        best_flops_per_s=_best(work.flops[arithmetic], seconds[arithmetic] - launch),
        streams=int(stream.sum()),
        products=int(arithmetic.sum()),
    )


def _intercept(streams: OperatorWork, seconds: Floats) -> float:
    size = streams.once_bytes
    if len(size) < MIN_ROWS or size.max() < MIN_SIZE_RATIO * size.min():
        return 0.0
    slopes = [size * (streams.stream_kind == kind) for kind in np.unique(streams.stream_kind)]
    columns = np.stack([np.ones(len(size)), *slopes], axis=1) / seconds[:, None]
    scale = columns.max(axis=0)  # bytes and seconds are many orders of magnitude apart
    fitted, *_ = np.linalg.lstsq(columns / scale, np.ones(len(size)), rcond=None)
    return float(fitted[0] / scale[0])


def _best(amount: Floats, seconds: Floats) -> float | None:
    return float(np.quantile(amount / seconds, BEST_QUANTILE)) if len(amount) else None
