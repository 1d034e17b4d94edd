"""The launch that measures the points of `shared-atomics` and `shared-banks`, and what their counters must
come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from smlab.hw_bench.cuda.kernels.pairing import ABANDONED, DESK_COLUMNS, QUEUE_COLUMNS
from smlab.hw_bench.cuda.kernels.points import LANES, MAX_WARPS, AtomicPoint
from smlab.hw_bench.cuda.kernels.shared_atomics import (
    FIRST_START,
    LAST_FINISH,
    LAST_START,
    POINT_COLUMNS,
    SAMPLE_COLUMNS,
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
    blocks)`` says where each block ran; ``sums`` adds up the words of each block after the last repetition.
    ``measured`` is false for a point whose blocks found no partner.
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
    sums = cuda.to_device(np.zeros((len(points), blocks), dtype=np.int64))
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


def expected_sums(operation: str, point: AtomicPoint, iterations: int, blocks: int) -> list[tuple[int, int]]:
    """Between which values the words of each block must add up after one repetition.

    All words begin at 0. A compare-and-swap makes a word 1 if it is 0; when additions run beside it, it may
    come first or not.
    """
    half = (point.warps + 1) // 2 if blocks == 2 else point.warps
    warps_of = [range(half), range(half, point.warps)][:blocks]
    base = point.pattern.words()
    limits = []
    for warps in warps_of:
        adders = [warp for warp in warps if warp >= point.cas_warps]
        touched: dict[str, set[int]] = {"add": set(), "swap": set()}
        spread = (
            warps if point.warp_stride_words else [*adders[:1], *[w for w in warps if w not in adders][:1]]
        )
        for warp in spread:
            words = (base[base >= 0] + warp * point.warp_stride_words) % WORDS
            touched["add" if warp in adders else "swap"].update(map(int, words))
        swapped = len(touched["swap"])
        if operation == "none":
            low = high = swapped
        elif operation == "load":
            low = high = 0
        elif operation in {"max", "exchange", "store"}:
            low = high = len(touched["swap"] | touched["add"])
        else:
            low = len(adders) * point.pattern.lanes * iterations + len(touched["swap"] - touched["add"])
            high = low + len(touched["swap"] & touched["add"])
        limits.append((low, high))
    return limits


def wrong_sums(operation: str, times: AtomicTimes, iterations: int) -> list[str]:
    """The measured points whose counters do not come to what they must, in words."""
    blocks = times.sums.shape[1]
    wrong = []
    for at in np.flatnonzero(times.measured):
        limits = expected_sums(operation, times.points[at], iterations, blocks)
        for block, (low, high) in enumerate(limits):
            if not low <= times.sums[at, block] <= high:
                expected = str(low) if low == high else f"{low} to {high}"
                wrong.append(
                    f"{times.points[at]}: block {block} counted {times.sums[at, block]}, not {expected}"
                )
    return wrong
