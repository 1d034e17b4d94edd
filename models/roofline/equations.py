"""The ten equations of Van Lanker, Taboada, Brunet and Trahay, Euro-Par 2024, one function each.

Arguments are arrays that are broadcast against each other; rates are a second (FLOP/s, bytes/s).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def _ratio(above: Floats, below: Floats) -> Floats:
    """above / below; infinite where only ``below`` is 0, NaN where both are."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.divide(above, below), dtype=np.float64)


def _floats(*values: ArrayLike) -> tuple[Floats, ...]:
    return tuple(np.asarray(v, dtype=np.float64) for v in values)


def roofline(intensity: ArrayLike, bandwidth: ArrayLike, peak: ArrayLike) -> Floats:
    """Eq. 1: the attainable FLOP/s, ``min(BW x OI, Perf)``."""
    oi, bw, perf = _floats(intensity, bandwidth, peak)
    return np.asarray(np.minimum(bw * oi, perf))


def mixed_peak(
    fma: ArrayLike, add: ArrayLike, mul: ArrayLike, peak_fma: ArrayLike, peak_add_mul: ArrayLike
) -> Floats:
    """Eq. 2: the peak FLOP/s of a mix of instructions.

    ``fma``, ``add`` and ``mul`` are numbers of instructions. Since each kind of instruction takes as long as
    any other, the mean of the two peaks weighted by instructions is exact. NaN with no operation at all.
    """
    n_fma, n_add, n_mul, p_fma, p_add_mul = _floats(fma, add, mul, peak_fma, peak_add_mul)
    all_ = n_fma + n_add + n_mul
    return p_fma * _ratio(n_fma, all_) + p_add_mul * _ratio(n_add + n_mul, all_)


def transfer_seconds(bytes_: ArrayLike, bandwidth: ArrayLike) -> Floats:
    """Eq. 4: the time for the bytes that a level serves."""
    n, bw = _floats(bytes_, bandwidth)
    return _ratio(n, bw)


def shared_seconds(
    bytes_: ArrayLike,
    bytes_per_cycle: ArrayLike,
    bandwidth: ArrayLike,
    max_bytes_per_cycle: ArrayLike = 128.0,
) -> Floats:
    """Eq. 5: the time in shared memory, which bank conflicts stretch: ``N / N_pc x N_pc^max / BW``.

    ``bytes_per_cycle`` is what the kernel's accesses get in a cycle, 128 without conflict. ``N / N_pc`` are
    the passes, so with passes counted, ``bytes_ = passes`` and ``bytes_per_cycle = 1`` give the same. 0 where
    there are no bytes.
    """
    n, each, bw, most = _floats(bytes_, bytes_per_cycle, bandwidth, max_bytes_per_cycle)
    return np.asarray(np.where(n > 0, _ratio(n, each) * _ratio(most, bw), 0.0))


def bandwidth_ceilings(
    served_bytes: ArrayLike, seconds: ArrayLike, shared_bytes: ArrayLike, shared_s: ArrayLike
) -> Floats:
    """Eq. 6, 7 and 8: the bandwidths at which a kernel's data pass L1, L2 and DRAM, shape (..., 3).

    Weighted harmonic means of the levels' bandwidths. ``served_bytes`` and ``seconds`` of shape (..., 3) are
    what L1, L2 and DRAM serve and the time for it (Eq. 4); shared memory counts at L1. NaN at a level that
    nothing passes.

    They take it that transfers of different levels do not overlap. Where they do, a kernel can be faster.
    """
    n, t, n_shared, t_shared = _floats(served_bytes, seconds, shared_bytes, shared_s)
    bytes_, time = (np.cumsum(x[..., ::-1], axis=-1)[..., ::-1].copy() for x in (n, t))
    bytes_[..., 0] += n_shared
    time[..., 0] += t_shared
    return _ratio(bytes_, time)


def projected(perf_source: ArrayLike, roofline_source: ArrayLike, roofline_target: ArrayLike) -> Floats:
    """Eq. 9: the performance on the target, the share of its roofline that the kernel reached on the
    source."""
    perf, source, target = _floats(perf_source, roofline_source, roofline_target)
    return _ratio(perf, source) * target


def operational_intensity(flops: ArrayLike, traversing_bytes: ArrayLike) -> Floats:
    """Eq. 10: FLOPs a byte that traverses the level; infinite where no byte does, NaN where there is
    neither."""
    operations, bytes_ = _floats(flops, traversing_bytes)
    return _ratio(operations, bytes_)
