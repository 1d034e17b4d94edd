"""One launch of each kind of kernel: arguments laid out, times brought back, results checked.

The same functions serve a GPU and Numba's CPU simulator, in which the times mean nothing and the results
still hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.cuda.kernels.assembly import ARITHMETIC
from smlab.hw_bench.cuda.kernels.ceilings import MIXES
from smlab.hw_bench.cuda.kernels.histogram import CHANNELS, COUNTERS
from smlab.hw_bench.cuda.kernels.spec import KernelSpec
from smlab.hw_bench.cuda.measuring.driver import cuda
from smlab.hw_bench.cuda.measuring.launch import ready
from smlab.hw_bench.cuda.measuring.timing import Enough, launches, once
from smlab.hw_bench.cuda.toolkit import SIMULATED
from smlab.hw_bench.errors import SmlabError

_NUMPY = {"int32": np.int32, "float32": np.float32, "float64": np.float64}


@dataclass(frozen=True)
class WarpTimes:
    """Times of one launch: ``starts`` and ``finishes`` of each repetition or warp in cycles of its SM's
    clock.

    ``seconds`` are the times of all launches by the GPU's events, in order (the others are of the last
    launch); ``sms`` says where each block ran. Both are empty for launches of one block. ``wrong`` says what
    is wrong with the results, or is empty.
    """

    starts: NDArray[np.int64]
    finishes: NDArray[np.int64]
    seconds: tuple[float, ...]
    sms: NDArray[np.int32]
    wrong: str

    @property
    def cycles(self) -> NDArray[np.int64]:
        return self.finishes - self.starts

    def sm_cycles(self, warps_of_block: int) -> dict[int, int]:
        """For each SM, first start to last finish over the warps of its blocks."""
        spans = {}
        block = np.arange(len(self.starts)) // warps_of_block
        for sm in np.unique(self.sms):
            here = self.sms[block] == sm
            spans[int(sm)] = int(self.finishes[here].max() - self.starts[here].min())
        return spans


_NOWHERE = np.zeros(0, dtype=np.int32)


def chase(
    spec: KernelSpec,
    *,
    footprint_bytes: int,
    stride_bytes: int,
    links: int,
    repetitions: int,
    warm_links: int,
    flush_bytes: int = 0,
) -> WarpTimes:
    """Follow a random cycle through every ``stride_bytes`` of ``footprint_bytes``, as `latency`'s memory
    kernels do.

    ``flush_bytes`` of other data are written before, so that the caches hold nothing of the chain.
    """
    shared = spec.name == "shared"
    number: Any = np.int32 if shared else np.uint64
    entry = np.dtype(number).itemsize
    entries = footprint_bytes // stride_bytes
    if entries < 2 or stride_bytes % entry:
        raise SmlabError.at("chase: stride_bytes", "makes no chain", stride_bytes, f"a multiple of {entry}")
    order = np.random.default_rng(0).permutation(entries).astype(np.int64)
    size = max(footprint_bytes // entry, 1024 if shared else 0)
    chain = cuda.device_array(size, dtype=number)
    base = 0 if shared or SIMULATED else int(chain.__cuda_array_interface__["data"][0])
    content = np.zeros(size, dtype=number)
    content[order * (stride_bytes // entry)] = (base + np.roll(order, -1) * stride_bytes).astype(number)
    chain.copy_to_device(content)
    samples = cuda.to_device(np.zeros((repetitions, 2), dtype=np.int64))
    reached = cuda.to_device(np.zeros(1, dtype=number))
    begin = cuda.to_device(np.array([base + order[0] * stride_bytes], dtype=number))
    if flush_bytes:
        cuda.to_device(np.zeros(flush_bytes, dtype=np.uint8))
    ready(spec)[1, 1](chain, begin, warm_links, links, samples, reached)
    times = samples.copy_to_host()
    last = int(reached.copy_to_host()[0]) - base
    expected = int(order[(warm_links + links * repetitions) % entries]) * stride_bytes
    wrong = "" if last == expected else f"the chain ended at byte {last}, not {expected}"
    return WarpTimes(times[:, 0], times[:, 1], (), _NOWHERE, wrong)


def arithmetic(spec: KernelSpec, *, links: int, repetitions: int) -> WarpTimes:
    """A chain of one arithmetic instruction, by one warp."""
    link = next(link for link in ARITHMETIC if link.name == spec.name)
    number: Any = _NUMPY[str(link.number)]
    a, b, x = _numbers(number)
    numbers = cuda.to_device(np.array([a, b] + [x] * 32, dtype=number))
    samples = cuda.to_device(np.zeros((repetitions, 2), dtype=np.int64))
    reached = cuda.to_device(np.zeros(1, dtype=number))
    ready(spec)[1, 32](numbers, links, samples, reached)
    times = samples.copy_to_host()
    expected = x
    for _ in range(links * repetitions):
        expected = link.simulated(expected, a, b)
    wrong = compare(reached.copy_to_host(), expected, link.exact)
    return WarpTimes(times[:, 0], times[:, 1], (), _NOWHERE, wrong)


def mix(spec: KernelSpec, *, blocks: int, threads: int, operations: int, enough: Enough = once) -> WarpTimes:
    """All threads computing: ``operations`` instructions of each."""
    first, second = (next(link for link in ARITHMETIC if link.name == name) for name in MIXES[spec.name])
    number: Any = _NUMPY[str(first.number)]
    a, b, x = _numbers(number)
    samples = cuda.to_device(np.zeros((blocks * threads // 32, 2), dtype=np.int64))
    places = cuda.to_device(np.zeros(blocks, dtype=np.int32))
    results = cuda.to_device(np.zeros(blocks * threads, dtype=number))
    numbers = cuda.to_device(np.array([a, b, x], dtype=number))
    kernel = ready(spec)[blocks, threads]
    seconds = launches(lambda: kernel(numbers, operations, samples, places, results), enough)
    times = samples.copy_to_host()
    expected = x
    for _ in range(operations // 16):
        expected = second.simulated(first.simulated(expected, a, b), a, b)
    wrong = compare(results.copy_to_host(), number(8) * expected, exact=False)
    return WarpTimes(times[:, 0], times[:, 1], seconds, places.copy_to_host(), wrong)


def memory(
    spec: KernelSpec, *, blocks: int, threads: int, slice_length: int, passes: int, enough: Enough = once
) -> WarpTimes:
    """Going over memory: each block ``passes`` times over a slice of ``slice_length`` elements."""
    what = spec.name.split("-")[1]
    size = blocks * slice_length
    host_b, host_c = (_repeating(period, size) for period in (8, 5))
    a, b, c = (cuda.to_device(array) for array in (np.zeros(size, dtype=np.float32), host_b, host_c))
    samples = cuda.to_device(np.zeros((blocks * threads // 32, 2), dtype=np.int64))
    places = cuda.to_device(np.zeros(blocks, dtype=np.int32))
    scale = cuda.to_device(np.array([3.0], dtype=np.float32))
    kernel = ready(spec)[blocks, threads]
    seconds = launches(lambda: kernel(a, b, c, scale, slice_length, passes, samples, places), enough)
    times, result = samples.copy_to_host(), a.copy_to_host()
    if what == "read":
        sums = host_b.reshape(blocks, slice_length // threads, threads).sum(axis=1) * passes
        wrong = compare(result.reshape(blocks, slice_length)[:, :threads], sums, exact=True)
    elif what == "triad":
        wrong = compare(result, host_b + np.float32(3) * host_c, exact=True)
    else:
        wrong = compare(result, np.float32(3), exact=True)
    return WarpTimes(times[:, 0], times[:, 1], seconds, places.copy_to_host(), wrong)


def histogram(
    spec: KernelSpec, *, image: NDArray[np.uint8], blocks: int, threads: int, enough: Enough = once
) -> WarpTimes:
    """The histogram of an image of shape ``(pixels, 4)``."""
    counts = cuda.to_device(np.zeros(COUNTERS, dtype=np.int32))
    samples = cuda.to_device(np.zeros((blocks * threads // 32, 2), dtype=np.int64))
    places = cuda.to_device(np.zeros(blocks, dtype=np.int32))
    pixels = cuda.to_device(image.reshape(-1))
    kernel = ready(spec)[blocks, threads]
    seconds = launches(lambda: kernel(pixels, len(image), counts, samples, places), enough)
    times = samples.copy_to_host()
    expected = [np.bincount(image[:, c], minlength=COUNTERS // CHANNELS) for c in range(CHANNELS)]
    wrong = compare(counts.copy_to_host(), np.concatenate(expected) * len(seconds), exact=True)
    return WarpTimes(times[:, 0], times[:, 1], seconds, places.copy_to_host(), wrong)


def image(kind: str, pixels: int, seed: int = 0) -> NDArray[np.uint8]:
    """A ``solid`` image, or one of ``uniform`` random channels; shape ``(pixels, 4)``."""
    if kind == "solid":
        return np.full((pixels, CHANNELS), 7, dtype=np.uint8)
    if kind == "uniform":
        return np.random.default_rng(seed).integers(0, 256, (pixels, CHANNELS), dtype=np.uint8)
    raise SmlabError.at("image", "unknown kind", kind, "solid or uniform")


def _repeating(period: int, size: int) -> NDArray[np.float32]:
    """0, 1, ... up to the period, over and over; copied in large pieces, which is much faster than a
    remainder."""
    piece = np.arange(period * 8192, dtype=np.float32) % period
    return np.tile(piece, -(-size // len(piece)))[:size]


def _numbers(number: Any) -> tuple[Any, Any, Any]:
    """Constants and a beginning that keep a chain of any length within range."""
    if number is np.int32:
        return number(5), number(3), number(1)
    return number(0.75), number(0.25), number(0.5)


def compare(result: Any, expected: Any, exact: bool) -> str:
    result, expected = np.asarray(result), np.broadcast_to(np.asarray(expected), np.shape(result))
    good = result == expected if exact else np.isclose(result, expected, rtol=1e-3, atol=1e-6)
    if good.all():
        return ""
    at = int(np.flatnonzero(~good.reshape(-1))[0])
    return (
        f"{np.size(good) - np.count_nonzero(good)} of {np.size(good)} results are wrong, the first at {at}: "
        f"{result.reshape(-1)[at]}, not {expected.reshape(-1)[at]}"
    )
