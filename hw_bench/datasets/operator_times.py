"""Measured latencies of deep-learning operators: what every reader of such a set gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu
from smlab.hw_bench.gpu.devices import is_called
from smlab.hw_bench.rows import Rows


@dataclass(frozen=True, eq=False)
class OperatorTimes(Rows):
    """One row a measurement; all arrays of shape ``(rows,)``.

    ``operator`` is a family whose work `smlab.models.operators` derives from the shape, ``variant`` the set's
    own name (``add``, ``gelu``). The shape: ``batch`` products of an m x k by a k x n matrix for ``linear``
    and ``bmm``; m rows of n values, batch and k 1, for all others. ``tensors`` are the operands of the full
    shape that are read or written. ``gpu``
    names a description, or is the device's own name where none ships; ``blocks`` and ``threads_per_block`` (0
    where unknown) the launch of the kernel ``kernel``. ``skipped`` lists rows that could not be used, with
    the reason. ``launch_s`` is what a launch takes of each time by operator, by the way the set was measured;
    nothing for one that is not in it.
    """

    path: Path
    operator: NDArray[np.object_]
    variant: NDArray[np.object_]
    gpu: NDArray[np.object_]
    kernel: NDArray[np.object_]
    batch: NDArray[np.int64]
    m: NDArray[np.int64]
    n: NDArray[np.int64]
    k: NDArray[np.int64]
    tensors: NDArray[np.int64]
    element_bytes: NDArray[np.int64]
    blocks: NDArray[np.int64]
    threads_per_block: NDArray[np.int64]
    seconds: NDArray[np.float64]
    skipped: tuple[tuple[str, str], ...]
    launch_s: Mapping[str, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.seconds)

    def labels(self) -> list[str]:
        """A name for each row by which rows of two GPUs are matched: variant and shape."""
        columns = zip(self.variant, self.batch, self.m, self.n, self.k, self.element_bytes, strict=True)
        return [f"{v} {b}x{m}x{n}x{k} ({8 * e} bit)" for v, b, m, n, k, e in columns]


def named_as(times: OperatorTimes, gpus: Sequence[Gpu]) -> OperatorTimes:
    """The same with the rows of each of ``gpus`` under its name: a description of the user's own may be of a
    device that another describes, or none."""
    names = times.gpu.copy()
    for name in sorted(set(times.gpu)):
        called = load_gpu(name).title if name in list_gpus() else name
        for gpu in gpus:
            if name not in (g.name for g in gpus) and is_called(gpu, called):
                names[times.gpu == name] = gpu.name
    return replace(times, gpu=names)


def match(
    times: OperatorTimes, source: str, target: str
) -> tuple[OperatorTimes, OperatorTimes, tuple[str, ...]]:
    """The rows that both GPUs have, in one order, and notes on what was left out or put together.

    A shape measured more than once on one GPU is taken at the median of its times.
    """
    sides, notes = [], []
    for gpu in (source, target):
        own_times = times.take(np.flatnonzero(times.gpu == gpu))
        groups: dict[str, list[int]] = {}
        for i, label in enumerate(own_times.labels()):
            groups.setdefault(label, []).append(i)
        several = sum(len(rows) > 1 for rows in groups.values())
        if several:
            notes.append(f"{gpu}: {several} shapes measured more than once, taken at the median")
        sides.append((own_times, groups))
    (here, first), (there, second) = sides
    common = sorted(set(first) & set(second))
    for gpu, only in ((source, set(first) - set(second)), (target, set(second) - set(first))):
        if only:
            notes.append(f"{len(only)} shapes only on {gpu}, not used (such as {min(only)})")
    picked = []
    for own_times, groups in ((here, first), (there, second)):
        rows = own_times.take(np.array([groups[label][0] for label in common], dtype=np.int64))
        for i, label in enumerate(common):
            rows.seconds[i] = np.median(own_times.seconds[groups[label]])
        picked.append(rows)
    return picked[0], picked[1], tuple(notes)
