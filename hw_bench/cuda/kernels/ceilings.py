"""Benchmark ``ceilings``: what the GPU can do at best, for arithmetic and for memory at each level.

Arithmetic: every thread keeps eight independent chains of one or two instructions going. Memory: every block
goes over a slice of its own, once or again and again, so that the level is chosen by the sizes: ``init``
stores, ``read`` loads and adds up, ``triad`` is a = b + s * c of STREAM; the same three in shared memory.
Elements are single-precision: a warp's 128 bytes fill one cycle of the load/store unit, and double-precision
arithmetic would be the limit on GPUs with little of it.

Each warp notes the SM's clock before and after, so that the host can tell each SM's rate in operations a
cycle, and the kernel's time gives the GPU's rate a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from smlab.hw_bench.cuda.kernels.assembly import ARITHMETIC
from smlab.hw_bench.cuda.kernels.device import (
    clock,
    clock_after,
    count_down,
    cuda,
    float32,
    int32,
    rolled,
    settle,
    sm_id,
    uint32,
    uint64,
)
from smlab.hw_bench.cuda.kernels.points import INLINED
from smlab.hw_bench.cuda.kernels.spec import KernelSpec, Timed, exactly
from smlab.hw_bench.cuda.toolkit import SIMULATED

BENCHMARK: Final = "ceilings"
BODY: Final = 32
"""Operations of a thread in the body of the arithmetic loop: counts are a multiple of this."""
THREADS: Final = 64 if SIMULATED else 1024
"""Threads of a block of the memory kernels; fixed, so that addresses in a loop's body differ by constants."""
UNROLL: Final = 8
"""Elements of a thread in the body of a memory loop."""
SLICE: Final = THREADS * UNROLL
"""Elements that a block takes in one turn of its loop: slices are a multiple of this."""
SHARED_THREADS: Final = THREADS // 2
SHARED_UNROLL: Final = 4
SHARED_SLICE: Final = 2 * SHARED_THREADS * SHARED_UNROLL
"""Elements of a slice in shared memory, of which there are three: all that fit without asking for more."""

START, FINISH = range(2)
"""Columns of a sample, in cycles of the SM's clock. There is a row for each warp of the grid."""
A, B, X = range(3)
"""Columns of the numbers that the compiler must not know: the constants, and where the chains begin."""

MIXES: Final = {
    "fp32-fma": ("fp32-fma", "fp32-fma"),
    "fp32-add-mul": ("fp32-add", "fp32-mul"),
    "fp32-fma-add": ("fp32-fma", "fp32-add"),
    "fp64-fma": ("fp64-fma", "fp64-fma"),
    "fp64-add-mul": ("fp64-add", "fp64-mul"),
    "fp64-fma-add": ("fp64-fma", "fp64-add"),
}
"""Arithmetic ceilings: the two instructions that take turns."""

_BY_NAME: Final = {link.name: link for link in ARITHMETIC}


def flops_each(mix: str) -> float:
    """Floating-point operations of an average instruction of the mix."""
    return sum(_BY_NAME[name].flops for name in MIXES[mix]) / 2


@cuda.jit(**INLINED)
def _note(samples: Any, start: Any, finish: Any) -> Any:
    """Write down the times of this thread's warp."""
    if cuda.threadIdx.x & 31 == 0:
        row = uint32(cuda.grid(1)) >> uint32(5)
        samples[row, START] = start
        samples[row, FINISH] = finish


def _arithmetic(mix: str) -> Callable[..., None]:
    first, second = (_BY_NAME[name].device_function() for name in MIXES[mix])

    def kernel(numbers: Any, operations: Any, samples: Any, places: Any, results: Any) -> None:
        """``operations`` instructions of each thread; ``results`` has its eight chains' sum."""
        a, b = numbers[A], numbers[B]
        x0 = x1 = x2 = x3 = x4 = x5 = x6 = x7 = numbers[X]
        settle(int32(a))
        settle(int32(b))
        settle(int32(x0))
        left = operations
        if cuda.threadIdx.x == 0:
            places[cuda.blockIdx.x] = sm_id()
        cuda.syncthreads()
        start = clock()
        while left > 0:
            rolled()
            x0 = first(x0, a, b)
            x1 = first(x1, a, b)
            x2 = first(x2, a, b)
            x3 = first(x3, a, b)
            x4 = first(x4, a, b)
            x5 = first(x5, a, b)
            x6 = first(x6, a, b)
            x7 = first(x7, a, b)
            x0 = second(x0, a, b)
            x1 = second(x1, a, b)
            x2 = second(x2, a, b)
            x3 = second(x3, a, b)
            x4 = second(x4, a, b)
            x5 = second(x5, a, b)
            x6 = second(x6, a, b)
            x7 = second(x7, a, b)
            x0 = first(x0, a, b)
            x1 = first(x1, a, b)
            x2 = first(x2, a, b)
            x3 = first(x3, a, b)
            x4 = first(x4, a, b)
            x5 = first(x5, a, b)
            x6 = first(x6, a, b)
            x7 = first(x7, a, b)
            x0 = second(x0, a, b)
            x1 = second(x1, a, b)
            x2 = second(x2, a, b)
            x3 = second(x3, a, b)
            x4 = second(x4, a, b)
            x5 = second(x5, a, b)
            x6 = second(x6, a, b)
            x7 = second(x7, a, b)
            left = count_down(left, int32(BODY))
        total = x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7
        finish = clock_after(float32(total))
        _note(samples, start, finish)
        results[cuda.grid(1)] = total

    return kernel


@cuda.jit(**INLINED)
def _constant(b: Any, c: Any, i: Any, value: Any, before: Any) -> Any:
    return value


@cuda.jit(**INLINED)
def _sum(b: Any, c: Any, i: Any, value: Any, before: Any) -> Any:
    return before + b[i]


@cuda.jit(**INLINED)
def _scaled_sum(b: Any, c: Any, i: Any, value: Any, before: Any) -> Any:
    return b[i] + value * c[i]


@cuda.jit(**INLINED)
def _keep(a: Any, i: Any, value: Any) -> Any:
    a[i] = value


@cuda.jit(**INLINED)
def _drop(a: Any, i: Any, value: Any) -> Any:
    pass


_STEPS: Final = {"init": (_constant, _keep), "read": (_sum, _drop), "triad": (_scaled_sum, _keep)}
"""What each thread computes from b and c at an element, and what it does with it. Stores come after all
the loads of a turn."""


def _memory(what: str) -> Callable[..., None]:
    """A kernel that goes over this block's slice, ``passes`` times; `read` leaves each thread's sum in a."""
    (compute, store), keeps_sum = _STEPS[what], what == "read"

    def kernel(
        a: Any, b: Any, c: Any, scale: Any, slice_length: Any, passes: Any, samples: Any, places: Any
    ) -> None:
        begin = uint64(cuda.blockIdx.x) * uint64(slice_length) + uint64(cuda.threadIdx.x)
        end = (uint64(cuda.blockIdx.x) + uint64(1)) * uint64(slice_length)
        value = scale[0]
        settle(value)
        left = passes
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = float32(0)
        if cuda.threadIdx.x == 0:
            places[cuda.blockIdx.x] = sm_id()
        cuda.syncthreads()
        start = clock()
        while left > 0:
            at = begin
            while at < end:
                rolled()
                s0 = compute(b, c, at, value, s0)
                s1 = compute(b, c, uint64(at + uint64(THREADS)), value, s1)
                s2 = compute(b, c, uint64(at + uint64(2 * THREADS)), value, s2)
                s3 = compute(b, c, uint64(at + uint64(3 * THREADS)), value, s3)
                s4 = compute(b, c, uint64(at + uint64(4 * THREADS)), value, s4)
                s5 = compute(b, c, uint64(at + uint64(5 * THREADS)), value, s5)
                s6 = compute(b, c, uint64(at + uint64(6 * THREADS)), value, s6)
                s7 = compute(b, c, uint64(at + uint64(7 * THREADS)), value, s7)
                store(a, at, s0)
                store(a, uint64(at + uint64(THREADS)), s1)
                store(a, uint64(at + uint64(2 * THREADS)), s2)
                store(a, uint64(at + uint64(3 * THREADS)), s3)
                store(a, uint64(at + uint64(4 * THREADS)), s4)
                store(a, uint64(at + uint64(5 * THREADS)), s5)
                store(a, uint64(at + uint64(6 * THREADS)), s6)
                store(a, uint64(at + uint64(7 * THREADS)), s7)
                at = uint64(at + uint64(SLICE))
            left = count_down(left, int32(1))
        total = s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7
        finish = clock_after(total)
        _note(samples, start, finish)
        if keeps_sum:
            a[begin] = total

    return kernel


def _shared(what: str) -> Callable[..., None]:
    """The same in shared memory: the block copies its slices in, goes over them, and copies the first one
    out.

    ``slice_length`` must be `SHARED_SLICE`: only at run time, so that no load is taken out of the loop.
    """
    (compute, store), keeps_sum = _STEPS[what], what == "read"

    def kernel(
        a: Any, b: Any, c: Any, scale: Any, slice_length: Any, passes: Any, samples: Any, places: Any
    ) -> None:
        here_a = cuda.shared.array(SHARED_SLICE, float32)
        here_b = cuda.shared.array(SHARED_SLICE, float32)
        here_c = cuda.shared.array(SHARED_SLICE, float32)
        thread = uint64(cuda.threadIdx.x)
        offset = uint64(cuda.blockIdx.x) * uint64(slice_length)
        length = uint64(slice_length)
        at = thread
        while at < length:
            here_a[at] = a[offset + at]
            here_b[at] = b[offset + at]
            here_c[at] = c[offset + at]
            at = uint64(at + uint64(SHARED_THREADS))
        value = scale[0]
        settle(value)
        left = passes
        s0 = s1 = s2 = s3 = float32(0)
        if thread == 0:
            places[cuda.blockIdx.x] = sm_id()
        cuda.syncthreads()
        # The stores of this warp are done when a load behind them is, and then those of all are.
        settle(here_c[thread])
        cuda.syncthreads()
        start = clock()
        while left > 0:
            at = thread
            while at < length:
                rolled()
                s0 = compute(here_b, here_c, at, value, s0)
                s1 = compute(here_b, here_c, uint64(at + uint64(SHARED_THREADS)), value, s1)
                s2 = compute(here_b, here_c, uint64(at + uint64(2 * SHARED_THREADS)), value, s2)
                s3 = compute(here_b, here_c, uint64(at + uint64(3 * SHARED_THREADS)), value, s3)
                store(here_a, at, s0)
                store(here_a, uint64(at + uint64(SHARED_THREADS)), s1)
                store(here_a, uint64(at + uint64(2 * SHARED_THREADS)), s2)
                store(here_a, uint64(at + uint64(3 * SHARED_THREADS)), s3)
                at = uint64(at + uint64(SHARED_UNROLL * SHARED_THREADS))
            left = count_down(left, int32(1))
        total = s0 + s1 + s2 + s3
        finish = clock_after(total + here_a[thread])
        _note(samples, start, finish)
        if keeps_sum:
            here_a[thread] = total
        cuda.syncthreads()
        at = thread
        while at < length:
            a[offset + at] = here_a[at]
            at = uint64(at + uint64(SHARED_THREADS))

    return kernel


def _expect_mix(mix: str) -> Callable[[int], tuple[Timed, ...]]:
    first, second = (_BY_NAME[name].mnemonic for name in MIXES[mix])
    half = BODY // 2
    counts = {first: exactly(BODY)} if first == second else {first: exactly(half), second: exactly(half)}

    def expect(architecture: int) -> tuple[Timed, ...]:
        return (Timed("chains", "loop", counts, others=6),)

    return expect


_MEMORY: Final = {"init": (0, 1), "read": (1, 0), "triad": (2, 1)}
"""Loads and stores of one element."""


def bytes_each(what: str) -> int:
    """Bytes that one element moves, as STREAM counts them (no write-allocate traffic)."""
    return 4 * sum(_MEMORY[what])


def _expect_memory(what: str, load: str, store: str, unroll: int) -> Callable[[int], tuple[Timed, ...]]:
    loads, stores = _MEMORY[what]
    wanted = {load: unroll * loads, store: unroll * stores}
    counts = {name: exactly(times) for name, times in wanted.items() if times}
    # One addition, or a multiplication and an addition, for each element; the rest keeps both loops.
    work = 0 if what == "init" else unroll

    def expect(architecture: int) -> tuple[Timed, ...]:
        return (Timed(what, "loop", counts, others=work + 40),)

    return expect


def _specs() -> tuple[KernelSpec, ...]:
    specs = []
    for mix in MIXES:
        number = _BY_NAME[MIXES[mix][0]].number
        signature = f"void({number}[::1], int32, int64[:,::1], int32[::1], {number}[::1])"
        specs.append(KernelSpec(BENCHMARK, mix, _arithmetic(mix), signature, _expect_mix(mix), (1024, 1)))
    signature = (
        "void(float32[::1], float32[::1], float32[::1], float32[::1], int32, int32, int64[:,::1], int32[::1])"
    )
    for what in _MEMORY:
        bounds = (THREADS, 2)
        expect = _expect_memory(what, "LDG.E", "STG.E", UNROLL)
        specs.append(KernelSpec(BENCHMARK, f"global-{what}", _memory(what), signature, expect, bounds))
        bounds = (SHARED_THREADS, 1)
        expect = _expect_memory(what, "LDS", "STS", SHARED_UNROLL)
        specs.append(KernelSpec(BENCHMARK, f"shared-{what}", _shared(what), signature, expect, bounds))
    return tuple(specs)


KERNELS: Final = _specs()
