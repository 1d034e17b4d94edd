"""The timed cores of `shared-atomics`: one operation, a chain of them, or a stream, between two reads of
the clock."""

from __future__ import annotations

from typing import Any, Final

from smlab.hw_bench.cuda.kernels.device import clock, clock_after, count_down, rolled
from smlab.hw_bench.cuda.kernels.language import cuda, int32
from smlab.hw_bench.cuda.kernels.pairing import INLINED

IN_FLIGHT: Final = 4
"""Operations of a warp that may be under way together, in the independent form with results."""
BODY: Final = 8
"""Operations in the body of the other loops. Iterations are counted in operations and are a multiple of
this."""


@cuda.jit(**INLINED)
def nothing(words: Any, word: Any, value: Any, zero: Any) -> Any:
    return value


@cuda.jit(**INLINED)
def add(words: Any, word: Any, value: Any, zero: Any) -> Any:
    return cuda.atomic.add(words, word, value)


@cuda.jit(**INLINED)
def add_one(words: Any, word: Any, value: Any, zero: Any) -> Any:
    return cuda.atomic.add(words, word, 1)


@cuda.jit(**INLINED)
def maximum(words: Any, word: Any, value: Any, zero: Any) -> Any:
    return cuda.atomic.max(words, word, value)


@cuda.jit(**INLINED)
def exchange(words: Any, word: Any, value: Any, zero: Any) -> Any:
    return cuda.atomic.exch(words, word, value)


@cuda.jit(**INLINED)
def compare_and_swap(words: Any, word: Any, value: Any, zero: Any) -> Any:
    return cuda.atomic.cas(words, word, zero, value)


@cuda.jit(**INLINED)
def link(result: Any, one: Any, zero: Any) -> Any:
    return (result & zero) | one


@cuda.jit(**INLINED)
def link_float(result: Any, one: Any, zero: Any) -> Any:
    return result * zero + one


def batch_core(operate: Any, used: bool) -> Any:
    """One operation of each lane; gives start and finish."""
    if used:

        @cuda.jit(**INLINED)
        def core(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
            start = clock()
            result = operate(words, word, one, zero)
            return start, clock_after(result)

    else:

        @cuda.jit(**INLINED)
        def core(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
            start = clock()
            operate(words, word, one, zero)
            return start, clock_after(words[word])

    return core


def dependent_core(operate: Any, link: Any = link) -> Any:
    """A chain of operations, each needing the result of the one before; gives start and finish."""

    @cuda.jit(**INLINED)
    def core(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
        left = iterations
        result = one
        start = clock()
        while left > 0:
            rolled()
            result = operate(words, word, link(result, one, zero), zero)
            result = operate(words, word, link(result, one, zero), zero)
            result = operate(words, word, link(result, one, zero), zero)
            result = operate(words, word, link(result, one, zero), zero)
            result = operate(words, word, link(result, one, zero), zero)
            result = operate(words, word, link(result, one, zero), zero)
            result = operate(words, word, link(result, one, zero), zero)
            result = operate(words, word, link(result, one, zero), zero)
            left = count_down(left, int32(BODY))
        return start, clock_after(result)

    return core


def independent_core(operate: Any, used: bool) -> Any:
    """A stream of operations that do not wait for each other's results; gives start and finish."""
    if used:

        @cuda.jit(**INLINED)
        def core(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
            left = iterations
            first = second = third = fourth = one
            start = clock()
            while left > 0:
                rolled()
                first = operate(words, word, one, zero)
                second = operate(words, word, one, zero)
                third = operate(words, word, one, zero)
                fourth = operate(words, word, one, zero)
                left = count_down(left, int32(IN_FLIGHT))
            return start, clock_after(int32(first + second + third + fourth))

    else:

        @cuda.jit(**INLINED)
        def core(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
            left = iterations
            start = clock()
            while left > 0:
                rolled()
                operate(words, word, one, zero)
                operate(words, word, one, zero)
                operate(words, word, one, zero)
                operate(words, word, one, zero)
                operate(words, word, one, zero)
                operate(words, word, one, zero)
                operate(words, word, one, zero)
                operate(words, word, one, zero)
                left = count_down(left, int32(BODY))
            return start, clock_after(words[word])

    return core


def burst_core(operate: Any) -> Any:
    """Operations without a result, one after the other, until the last is issued; gives start and the end of
    the issue.

    Nothing is waited for: as long as the unit's queue has room this takes as long as issuing does, and then
    each operation waits for an entry to become free.
    """

    @cuda.jit(**INLINED)
    def core(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
        left = iterations
        start = clock()
        while left > 0:
            rolled()
            operate(words, word, one, zero)
            left = count_down(left, int32(1))
        return start, clock()

    return core
