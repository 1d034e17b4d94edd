"""The launch that measures the points of `shared-atomics` and `shared-banks`, and what their counters must
come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.cuda.kernels.atomic_cores import BURSTS
from smlab.hw_bench.cuda.kernels.points import (
    ABANDONED,
    DESK_COLUMNS,
    LANES,
    MAX_WARPS,
    QUEUE_COLUMNS,
    AtomicPoint,
)
from smlab.hw_bench.cuda.kernels.shared_atomics import (
    FIRST_START,
    LAST_FINISH,
    LAST_START,
    POINT_COLUMNS,
    SAMPLE_COLUMNS,
    SUM_COLUMNS,
    TOTAL,
    WORDS,
)
from smlab.hw_bench.cuda.kernels.spec import KernelSpec
from smlab.hw_bench.cuda.measuring.driver import cuda
from smlab.hw_bench.cuda.measuring.launch import ready
from smlab.hw_bench.cuda.toolkit import SIMULATED
from smlab.hw_bench.errors import SmlabError

_DESKS = 1024


@dataclass(frozen=True)
class AtomicTimes:
    """What one launch measured. All arrays have a row for each point, in the order asked for.

    ``cycles`` is T, first start to last finish over all warps, and ``issue_cycles`` first start to last
    start, both of shape ``(points, repetitions)`` in the order of measurement. ``sms`` of shape ``(points,
    blocks)`` says where each block ran; ``sums`` of shape ``(points, blocks, SUM_COLUMNS)`` adds up the
    words of each block after the last repetition. ``measured`` is false for a point whose blocks found no
    partner.
    """

    points: tuple[AtomicPoint, ...]
    cycles: NDArray[np.int64]
    issue_cycles: NDArray[np.int64]
    sms: NDArray[np.int32]
    sums: NDArray[np.int64]
    measured: NDArray[np.bool_]
    abandoned_sms: int


def measure(
    spec: KernelSpec,
    points: Sequence[AtomicPoint],
    *,
    repetitions: int,
    iterations: int,
    blocks: int = 1,
    sms: int = 1,
    block_warps: int = MAX_WARPS,
) -> AtomicTimes:
    """Measure all points in one launch on ``sms`` SMs, with ``blocks`` (1 or 2) blocks of ``block_warps``
    warps sharing an SM.

    Raises:
        SmlabError: for more warps than the blocks hold, or when blocks that share work ran on different SMs.
    """
    if spec.name.startswith("float") and any(point.cas_warps for point in points):
        raise SmlabError("float-add already is a loop of compare-and-swap; its points have no cas_warps")
    if spec.name.endswith("burst") and (iterations not in BURSTS or any(point.cas_warps for point in points)):
        raise SmlabError.at(
            "burst", "no such burst of additions", iterations, "one of " + ", ".join(map(str, BURSTS))
        )
    most = max(point.warps for point in points)
    if most > blocks * block_warps or (blocks == 2 and min(point.warps for point in points) < 2):
        raise SmlabError.at("warps", f"cannot be spread over {blocks} blocks", most)
    patterns = list(dict.fromkeys(point.pattern for point in points))
    row = {pattern: at for at, pattern in enumerate(patterns)}
    table = np.empty((len(points), POINT_COLUMNS), dtype=np.int32)
    for at, point in enumerate(points):
        table[at] = point.warps, point.cas_warps, row[point.pattern], point.warp_stride_words
    number = np.float32 if spec.name.startswith("float") else np.int32
    places = cuda.to_device(np.full((len(points), blocks), -1, dtype=np.int32))
    samples = cuda.to_device(np.zeros((len(points), repetitions, blocks, SAMPLE_COLUMNS), dtype=np.int64))
    sums = cuda.to_device(np.zeros((len(points), blocks, SUM_COLUMNS), dtype=np.int64))
    queue = cuda.to_device(np.zeros(QUEUE_COLUMNS, dtype=np.int32))
    # Warps beyond a point's n wait at a barrier; the simulator, where each thread is a Python thread, goes
    # without them.
    threads = LANES * (most if SIMULATED else block_warps)
    ready(spec)[sms * blocks, threads](
        cuda.to_device(table),
        cuda.to_device(np.stack([pattern.words() for pattern in patterns])),
        cuda.to_device(np.array([0, 1], dtype=number)),
        queue,
        cuda.to_device(np.zeros((_DESKS, DESK_COLUMNS), dtype=np.int32)),
        samples,
        places,
        sums,
        repetitions,
        blocks,
        iterations,
    )
    times, where = samples.copy_to_host(), places.copy_to_host()
    if (where != where[:, :1]).any():
        raise SmlabError("blocks that measured together ran on different SMs; the data cannot be used")
    first = times[..., FIRST_START].min(axis=2)
    return AtomicTimes(
        points=tuple(points),
        cycles=times[..., LAST_FINISH].max(axis=2) - first,
        issue_cycles=times[..., LAST_START].max(axis=2) - first,
        sms=where,
        sums=sums.copy_to_host(),
        measured=(where >= 0).all(axis=1),
        abandoned_sms=int(queue.copy_to_host()[ABANDONED]),
    )


def expected_sums(
    operation: str, point: AtomicPoint, iterations: int, blocks: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Between which values the sums over the words of each block must be after one repetition, each of shape
    ``(SUM_COLUMNS,)``.

    All words begin at 0. A compare-and-swap makes a word 1 if it is 0; when additions run beside it, it may
    come first or not.
    """
    half = (point.warps + 1) // 2 if blocks == 2 else point.warps
    warps_of = [range(half), range(half, point.warps)][:blocks]
    limits = []
    for warps in warps_of:
        swapping = range(warps.start, min(warps.stop, max(warps.start, point.cas_warps)))
        others = range(swapping.stop, warps.stop)
        swapped, touched = _touches(point, swapping) > 0, _touches(point, others)
        if operation == "load":
            low = high = 0 * touched
        elif operation == "none":
            low = high = swapped.astype(np.int64)
        elif operation in {"max", "exchange", "store"}:
            low = high = (swapped | (touched > 0)).astype(np.int64)
        else:
            low = touched * iterations + (swapped & (touched == 0))
            high = touched * iterations + swapped
        limits.append((_WEIGHTS @ low, _WEIGHTS @ high))
    return limits


_WEIGHTS = np.stack([np.ones(WORDS, dtype=np.int64), np.arange(WORDS, dtype=np.int64) ** 2 + 1])


def _touches(point: AtomicPoint, warps: range) -> NDArray[np.int64]:
    """How many lanes of all these warps touch each word."""
    base = point.pattern.words()
    base = base[base >= 0]
    stride = point.warp_stride_words
    first = np.array(warps, dtype=np.int64)[:, None] * stride if stride else np.zeros((1, 1), dtype=np.int64)
    touched = np.bincount(((base + first) % WORDS).reshape(-1), minlength=WORDS)
    return touched * (1 if stride else len(warps))


def wrong_sums(operation: str, times: AtomicTimes, iterations: int) -> list[str]:
    """The measured points whose words do not come to what they must, in words."""
    blocks = times.sums.shape[1]
    wrong = []
    for at in np.flatnonzero(times.measured):
        limits = expected_sums(operation, times.points[at], iterations, blocks)
        for block, (low, high) in enumerate(limits):
            sums = times.sums[at, block]
            if ((low <= sums) & (sums <= high)).all():
                continue
            where = f"{times.points[at]}: block {block}"
            if low[TOTAL] <= sums[TOTAL] <= high[TOTAL]:
                wrong.append(f"{where} counted in other words than those of the pattern")
            else:
                bounds = [str(n[TOTAL]) for n in (low, high)]
                expected = bounds[0] if bounds[0] == bounds[1] else " to ".join(bounds)
                wrong.append(f"{where} counted {sums[TOTAL]}, not {expected}")
    return wrong
