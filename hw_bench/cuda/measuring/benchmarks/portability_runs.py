"""Launches of the kernels of `portability`: arguments laid out, seconds of each launch, results checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.cuda.kernels.portability import BANK_STEPS
from smlab.hw_bench.cuda.kernels.portability_library import NEIGHBOURS
from smlab.hw_bench.cuda.kernels.spec import KernelSpec
from smlab.hw_bench.cuda.measuring.driver import cuda
from smlab.hw_bench.cuda.measuring.launch import ready
from smlab.hw_bench.cuda.measuring.runners import compare
from smlab.hw_bench.cuda.measuring.timing import Enough, launches, once

_EACH_EIGHT = BANK_STEPS // 8
_A, _B = 7, 3
"""Of the permutation: a has no factor in common with the number of rows, a power of two."""


@dataclass(frozen=True)
class LaunchTimes:
    """Seconds of all launches by the GPU's events, in order; ``wrong`` says what is wrong with the
    results, or is empty."""

    seconds: tuple[float, ...]
    wrong: str


def run(spec: KernelSpec, *, size: int, blocks: int, threads: int, enough: Enough = once) -> LaunchTimes:
    """Launch one kernel until it is enough. ``size`` is the contention level or the number of elements,
    where it has one."""
    kernel = ready(spec)[blocks, threads]
    total = blocks * threads
    name = spec.name.split("/")[0]
    if name.startswith("global-atomic"):
        return _atomics(spec, kernel, size, total, enough)
    if name == "column-permutation":
        return _permutation(kernel, size, total, enough)
    if name == "knn":
        return _knn(kernel, total, enough)
    if name.startswith("prefix-sum"):
        values = np.arange(total, dtype=np.int32) % 17
        source, out = cuda.to_device(values), cuda.to_device(np.zeros(total, dtype=np.int32))
        seconds = launches(lambda: kernel(source, out), enough)
        inclusive = np.cumsum(values.reshape(blocks, threads), axis=1)
        expected = (inclusive - values.reshape(blocks, threads)).reshape(-1)
        return LaunchTimes(seconds, compare(out.copy_to_host(), expected, exact=True))
    rounds = _EACH_EIGHT if name == "bank-conflicts" else 0
    out = cuda.to_device(np.zeros(total, dtype=np.int32))
    seconds = launches(lambda: kernel(out, rounds), enough)
    result = out.copy_to_host()
    if name == "bank-conflicts":
        return LaunchTimes(seconds, _wrong_columns(result, int(spec.name.split("/")[1])))
    return LaunchTimes(seconds, compare(result, np.int32(_same_everywhere(name)), exact=True))


def _same_everywhere(name: str) -> int:
    """What every thread of the warp-wide kernels ends with. Each warp's 32 values are 0 to 31 in some
    order."""
    each = sum(range(32))
    if name == "butterfly":
        return each * 32**3
    if name == "warp-reduce":
        return each * (1 + 32 + 32**2 + 32**3)
    return 32 * each if name == "neighbour-shuffle" else 0


def _wrong_columns(result: NDArray[np.int32], way: int) -> str:
    """Between the last addition alone and all of them: the threads of a block race, as in Listing 5.4."""
    thread = np.arange(256)
    columns = 32 // way
    row, group = thread // columns % way, np.arange(8)
    least, most = np.zeros(256, dtype=np.int64), np.zeros(256, dtype=np.int64)
    words: dict[int, list[int]] = {}
    for step in group:
        position = row * 256 + thread % columns + (thread // 32 + step) % 8 * columns
        for word, value in zip(position.tolist(), thread.tolist(), strict=True):
            words.setdefault(word, []).append(value)
    for word, values in words.items():
        least[word % 256] += min(values)
        most[word % 256] += _EACH_EIGHT * sum(values)
    sums = result.reshape(-1, 256)
    bad = np.argwhere((sums < least) | (sums > most))
    if not len(bad):
        return ""
    block, at = bad[0]
    return f"block {block}, column {at}: {sums[block, at]}, not {least[at]} to {most[at]}"


def _atomics(spec: KernelSpec, kernel: Any, level: int, total: int, enough: Enough) -> LaunchTimes:
    numbers = cuda.to_device(np.zeros(level, dtype=np.int32))
    seconds = launches(lambda: kernel(numbers, level), enough)
    result = numbers.copy_to_host()
    places = np.arange(level)
    reached = places < total
    if spec.name.endswith("add"):
        threads = np.bincount(np.arange(total) % level, minlength=level)
        return LaunchTimes(seconds, compare(result, threads * len(seconds), exact=True))
    good = np.where(reached, (result % level == places) & (result < total), result == 0)
    return LaunchTimes(seconds, compare(good, True, exact=True))


def _permutation(kernel: Any, elements: int, total: int, enough: Enough) -> LaunchTimes:
    rows = min(elements, total)
    columns = elements // rows
    values = np.arange(rows * columns, dtype=np.float32)
    device_values, out = cuda.to_device(values), cuda.to_device(np.zeros_like(values))
    seconds = launches(lambda: kernel(device_values, out, rows, columns, _A, _B), enough)
    source = (_A * np.arange(rows) + _B) % rows
    expected = values.reshape(columns, rows)[:, source].reshape(-1)
    return LaunchTimes(seconds, compare(out.copy_to_host(), expected, exact=True))


def _knn(kernel: Any, points: int, enough: Enough) -> LaunchTimes:
    x, y = np.random.default_rng(0).normal(size=(2, points)).astype(np.float32)
    distances = cuda.to_device(np.zeros(NEIGHBOURS * points, dtype=np.float32))
    neighbours = cuda.to_device(np.zeros(NEIGHBOURS * points, dtype=np.int32))
    on_device = cuda.to_device(x), cuda.to_device(y)
    seconds = launches(lambda: kernel(*on_device, points, distances, neighbours), enough)
    result = neighbours.copy_to_host().reshape(NEIGHBOURS, points)
    if result.min() < 0 or result.max() >= points:
        return LaunchTimes(seconds, f"a neighbour is none of the {points} points")
    # A sample of the queries, so that checking takes no longer than measuring.
    queries = np.unique(np.linspace(0, points - 1, 64).astype(int))
    squared = (x[queries, None] - x[None, :]) ** 2 + (y[queries, None] - y[None, :]) ** 2
    expected = np.sort(squared, axis=1)[:, :NEIGHBOURS].T
    near = distances.copy_to_host().reshape(NEIGHBOURS, points)[:, queries]
    at = result[:, queries]
    again = (x[at] - x[queries]) ** 2 + (y[at] - y[queries]) ** 2
    return LaunchTimes(seconds, compare(near, expected, exact=False) or compare(again, expected, exact=False))
