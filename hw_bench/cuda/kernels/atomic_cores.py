"""The timed cores of `shared-atomics`: one operation, a chain of them, or a stream, between two reads of
the clock."""

from __future__ import annotations

from typing import Any, Final

from smlab.hw_bench.cuda.kernels.device import clock, clock_after, count_down, cuda, int32, rolled, settle
from smlab.hw_bench.cuda.kernels.points import INLINED

IN_FLIGHT: Final = 4
"""Loads in the body of a loop whose results are all held."""
STREAM: Final = 16
"""Operations in the body of the independent form with results, each of which is used four operations later:
the compiler makes it four to eight that are under way together."""
BODY: Final = 8
"""Operations in the body of the other loops. Iterations are counted in operations and are a multiple of
this."""
BURSTS: Final = (2, 4, 8, 16, 24, 32, 48, 64, 96, 128)
"""Lengths of a burst, the operations of a warp. Where a unit has two pipes, the data stage hands operations
over little faster than both serve them: only the longest fill a queue of some 32 entries. A burst tells the
queue's depth best when it is just long enough to fill it, hence lengths half way."""


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


@cuda.jit(**INLINED)
def _drained(finish: Any, words: Any, word: Any, zero: Any) -> Any:
    """The clock that was read, once the unit has done what was still queued before it: an operation with a
    result comes behind all others of its warp, a load may pass them. Otherwise the next repetition begins
    with a unit that is at work."""
    settle(cuda.atomic.add(words, word, zero))
    return finish


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
            return start, _drained(clock_after(words[word]), words, word, zero)

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
    """A stream of operations that do not wait for each other's results; gives start and finish.

    Without results, it ends with one that has: a load may pass operations that are queued, and what the
    queue still holds would not be timed.
    """
    if used:

        @cuda.jit(**INLINED)
        def core(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
            left = iterations
            sum = zero
            first = second = third = fourth = one
            start = clock()
            while left > 0:
                rolled()
                sum = int32(sum + first)
                first = operate(words, word, one, zero)
                sum = int32(sum + second)
                second = operate(words, word, one, zero)
                sum = int32(sum + third)
                third = operate(words, word, one, zero)
                sum = int32(sum + fourth)
                fourth = operate(words, word, one, zero)
                sum = int32(sum + first)
                first = operate(words, word, one, zero)
                sum = int32(sum + second)
                second = operate(words, word, one, zero)
                sum = int32(sum + third)
                third = operate(words, word, one, zero)
                sum = int32(sum + fourth)
                fourth = operate(words, word, one, zero)
                sum = int32(sum + first)
                first = operate(words, word, one, zero)
                sum = int32(sum + second)
                second = operate(words, word, one, zero)
                sum = int32(sum + third)
                third = operate(words, word, one, zero)
                sum = int32(sum + fourth)
                fourth = operate(words, word, one, zero)
                sum = int32(sum + first)
                first = operate(words, word, one, zero)
                sum = int32(sum + second)
                second = operate(words, word, one, zero)
                sum = int32(sum + third)
                third = operate(words, word, one, zero)
                sum = int32(sum + fourth)
                fourth = operate(words, word, one, zero)
                left = count_down(left, int32(STREAM))
            return start, clock_after(int32(sum + first + second + third + fourth))

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
            return start, clock_after(cuda.atomic.add(words, word, zero))

    return core


@cuda.jit(**INLINED)
def _issued(words: Any, word: Any, one: Any, zero: Any) -> Any:
    """The clock, in registers that no operation still reads: address and value are needed behind it."""
    finish = _drained(clock(), words, word, zero)
    settle(one)
    return finish


def _doubled(operate: Any) -> Any:
    @cuda.jit(**INLINED)
    def both(words: Any, word: Any, value: Any, zero: Any) -> None:
        operate(words, word, value, zero)
        operate(words, word, value, zero)

    return both


def burst_core(operate: Any) -> Any:
    """``iterations`` operations without a result, until the last is issued; gives start and the end of the
    issue.

    ``iterations`` is one of `BURSTS`, each written out: a loop's end waits until the operands of its last
    operation have been read. As long as the queues have room, this takes as long as issuing does; then each
    operation waits for an entry to become free.
    """
    two = _doubled(operate)
    four = _doubled(two)
    eight = _doubled(four)
    sixteen = _doubled(eight)
    thirty_two = _doubled(sixteen)
    sixty_four = _doubled(thirty_two)

    @cuda.jit(**INLINED)
    def core(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
        if iterations <= 2:
            start = clock()
            two(words, word, one, zero)
            return start, _issued(words, word, one, zero)
        if iterations <= 4:
            start = clock()
            four(words, word, one, zero)
            return start, _issued(words, word, one, zero)
        if iterations <= 8:
            start = clock()
            eight(words, word, one, zero)
            return start, _issued(words, word, one, zero)
        if iterations <= 16:
            start = clock()
            sixteen(words, word, one, zero)
            return start, _issued(words, word, one, zero)
        if iterations <= 24:
            start = clock()
            sixteen(words, word, one, zero)
            eight(words, word, one, zero)
            return start, _issued(words, word, one, zero)
        if iterations <= 32:
            start = clock()
            thirty_two(words, word, one, zero)
            return start, _issued(words, word, one, zero)
        if iterations <= 48:
            start = clock()
            thirty_two(words, word, one, zero)
            sixteen(words, word, one, zero)
            return start, _issued(words, word, one, zero)
        if iterations <= 64:
            start = clock()
            sixty_four(words, word, one, zero)
            return start, _issued(words, word, one, zero)
        if iterations <= 96:
            start = clock()
            sixty_four(words, word, one, zero)
            thirty_two(words, word, one, zero)
            return start, _issued(words, word, one, zero)
        start = clock()
        sixty_four(words, word, one, zero)
        sixty_four(words, word, one, zero)
        return start, _issued(words, word, one, zero)

    return core
