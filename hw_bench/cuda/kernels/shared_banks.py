"""Benchmark ``shared-banks``: loads and stores of shared memory under bank conflicts and broadcast.

The points are those of `shared-atomics` (n warps, a pattern of lanes, words and banks), and so are the forms:
one access of each lane at once, a chain of loads each waiting for the last, or a stream. Lanes on one word
are served together here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from smlab.hw_bench.cuda.kernels.assembly import load_shared, shared_address, store_shared
from smlab.hw_bench.cuda.kernels.atomic_cores import BODY, IN_FLIGHT
from smlab.hw_bench.cuda.kernels.device import clock, clock_after, count_down, cuda, int32, rolled, settle
from smlab.hw_bench.cuda.kernels.points import INLINED, MAX_WARPS
from smlab.hw_bench.cuda.kernels.shared_atomics import loop_extras, point_kernel, point_signature
from smlab.hw_bench.cuda.kernels.spec import KernelSpec, Timed, exactly

BENCHMARK: Final = "shared-banks"


@cuda.jit(**INLINED)
def _load_batch(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
    address = int32(shared_address(words) + int32(4) * int32(word))
    settle(address)
    start = clock()
    return start, clock_after(load_shared(words, address))


@cuda.jit(**INLINED)
def _load_dependent(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
    address = int32(shared_address(words) + int32(4) * int32(word))
    settle(address)
    left = iterations
    result = zero
    start = clock()
    while left > 0:
        rolled()
        result = load_shared(words, (result & zero) | address)
        result = load_shared(words, (result & zero) | address)
        result = load_shared(words, (result & zero) | address)
        result = load_shared(words, (result & zero) | address)
        result = load_shared(words, (result & zero) | address)
        result = load_shared(words, (result & zero) | address)
        result = load_shared(words, (result & zero) | address)
        result = load_shared(words, (result & zero) | address)
        left = count_down(left, int32(BODY))
    return start, clock_after(result)


@cuda.jit(**INLINED)
def _load_independent(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
    address = int32(shared_address(words) + int32(4) * int32(word))
    settle(address)
    left = iterations
    first = second = third = fourth = zero
    start = clock()
    while left > 0:
        rolled()
        first = load_shared(words, address)
        second = load_shared(words, address)
        third = load_shared(words, address)
        fourth = load_shared(words, address)
        left = count_down(left, int32(IN_FLIGHT))
    return start, clock_after(int32(first + second + third + fourth))


@cuda.jit(**INLINED)
def _store_batch(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
    address = int32(shared_address(words) + int32(4) * int32(word))
    settle(address)
    start = clock()
    store_shared(words, address, one)
    return start, clock_after(load_shared(words, address))


@cuda.jit(**INLINED)
def _store_independent(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
    address = int32(shared_address(words) + int32(4) * int32(word))
    settle(address)
    left = iterations
    start = clock()
    while left > 0:
        rolled()
        store_shared(words, address, one)
        store_shared(words, address, one)
        store_shared(words, address, one)
        store_shared(words, address, one)
        store_shared(words, address, one)
        store_shared(words, address, one)
        store_shared(words, address, one)
        store_shared(words, address, one)
        left = count_down(left, int32(BODY))
    return start, clock_after(load_shared(words, address))


def _expect_batch(stores: int) -> Callable[[int], tuple[Timed, ...]]:
    counts = {"LDS": exactly(1)} | ({"STS": exactly(stores)} if stores else {})
    return lambda architecture: (Timed("access", "between", counts, others=3, waits_for="LDS"),)


def _expect_loop(instruction: str, times: int, links: int = 0) -> Callable[[int], tuple[Timed, ...]]:
    def expect(architecture: int) -> tuple[Timed, ...]:
        counts = {instruction: exactly(times)} | loop_extras(architecture)
        others = 4 + links + (5 if architecture < 80 else 0)
        # A stream of stores ends with one load, which tells when they are done.
        waits_for = "LDS" if instruction == "STS" else instruction
        chained = instruction if links else None
        return (
            Timed(
                "access", "loop", counts, others, waits_for, chained=chained, anywhere=instruction, step=times
            ),
        )

    return expect


def _spec(name: str, core: Any, expect: Callable[[int], tuple[Timed, ...]]) -> KernelSpec:
    return KernelSpec(
        BENCHMARK, name, point_kernel(core, int32), point_signature("int32"), expect, (32 * MAX_WARPS, 2)
    )


KERNELS: Final = (
    _spec("load/batch", _load_batch, _expect_batch(0)),
    _spec("load/dependent", _load_dependent, _expect_loop("LDS", BODY, BODY)),
    _spec("load/independent", _load_independent, _expect_loop("LDS", IN_FLIGHT)),
    _spec("store/batch", _store_batch, _expect_batch(1)),
    _spec("store/independent", _store_independent, _expect_loop("STS", BODY)),
)
