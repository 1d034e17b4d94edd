"""Benchmark ``portability``: what Coyne (2025) found slower on an A100 than on a V100, as kernels of
whole-kernel time.

From Coyne, Performance Portability of CUDA Across NVIDIA GPU Architectures, Virginia Tech 2025: Listings 5.1
(butterfly), 5.2 (warp reduce), 5.3 (neighbour shuffle), 5.4 (bank conflicts), Section 5.5 (Blelloch prefix
sum without and with padding) and Section 5.8 (global atomic add; Listing 5.6, compare-and-swap). The two
library kernels are in `portability_library`. ``empty`` tells what a launch alone takes. As in the thesis,
what is timed is the kernel, so the machine-code contract is for all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from smlab.hw_bench.cuda.kernels.assembly import (
    load_shared,
    reduce_add,
    shared_address,
    store_shared,
    three_operands,
)
from smlab.hw_bench.cuda.kernels.device import count_down, cuda, int32, rolled, uint32
from smlab.hw_bench.cuda.kernels.points import INLINED
from smlab.hw_bench.cuda.kernels.portability_library import LIBRARY
from smlab.hw_bench.cuda.kernels.spec import Count, KernelSpec, Timed, exactly, up_to

BENCHMARK: Final = "portability"
REPEATS: Final = 4
"""How often Listings 5.1 and 5.2 repeat the reduction."""
SHARED_BANK_WAYS: Final = (1, 2, 4, 8, 16, 32)
BANK_THREADS: Final = 256
BANK_STEPS: Final = 32
SCAN: Final = 1024
"""Elements that a block scans at most, one a thread."""
SCAN_WORDS: Final = SCAN + SCAN // 32
WARP_WIDE: Final = ("butterfly", "warp-reduce", "neighbour-shuffle")
"""Kernels of warp-wide instructions, which Numba's CPU simulator does not have."""


def _not_simulated(first: Any, second: Any, third: Any) -> Any:
    raise NotImplementedError("warp-wide instructions are not simulated")


_butterfly = three_operands("shfl.sync.bfly.b32 $0, $1, $2, 31, -1;", int32, _not_simulated)
_reduce_add = three_operands("redux.sync.add.s32 $0, $1, -1;", int32, _not_simulated)


def _empty(out: Any, rounds: Any) -> None:
    if rounds < 0:
        out[0] = rounds


@cuda.jit(**INLINED)
def _start(index: Any) -> Any:
    """The value that Listings 5.1 and 5.2 begin with."""
    return int32(uint32(index + (index >> uint32(5))) & uint32(31))


@cuda.jit(**INLINED)
def _exchange(value: Any) -> Any:
    value = int32(value + _butterfly(value, int32(1), value))
    value = int32(value + _butterfly(value, int32(2), value))
    value = int32(value + _butterfly(value, int32(4), value))
    value = int32(value + _butterfly(value, int32(8), value))
    return int32(value + _butterfly(value, int32(16), value))


def _butterfly_reduction(out: Any, rounds: Any) -> None:
    index = uint32(cuda.grid(1))
    out[index] = _exchange(_exchange(_exchange(_exchange(_start(index)))))


def _warp_reduce(out: Any, rounds: Any) -> None:
    index = uint32(cuda.grid(1))
    first = _reduce_add(_start(index), int32(0), int32(0))
    second = _reduce_add(first, int32(0), int32(0))
    third = _reduce_add(second, int32(0), int32(0))
    fourth = _reduce_add(third, int32(0), int32(0))
    out[index] = int32(int32(first + second) + int32(third + fourth))


_THIRTY_TWO: Final = "".join(
    (
        "{ .reg .s32 lane, got, sum; mov.b32 lane, $2; mov.b32 sum, $3; ",
        "shfl.sync.idx.b32 got, $1, lane, 31, -1; add.s32 sum, sum, got; add.s32 lane, lane, 1; " * 32,
        "mov.b32 $0, sum; }",
    )
)
_from_next_32 = three_operands(_THIRTY_TWO, int32, _not_simulated)
"""The inner loop of Listing 5.3, written out: the value of each of the 32 lanes from the given one on is
added to the sum."""


@cuda.jit(**INLINED)
def _four_starts(value: Any, lane: Any, total: Any, zero: Any) -> Any:
    total = _from_next_32(value, lane, total)
    value = int32(value + zero)
    total = _from_next_32(value, int32(lane + int32(1)), total)
    value = int32(value + zero)
    total = _from_next_32(value, int32(lane + int32(2)), total)
    value = int32(value + zero)
    return int32(value + zero), _from_next_32(value, int32(lane + int32(3)), total)


def _neighbour_shuffle(out: Any, rounds: Any) -> None:
    """Both loops are unrolled, as in the listing: 1,024 shuffles.

    They have to be: up to Ada, the linker that Numba uses makes each shuffle in a loop a call of a function,
    in case the warp has diverged (the assembler alone does not). As listed, the assembler merges shuffles
    from equal lanes, on Volta to Ada down to 63; so ``rounds``, which is 0, is added to the value in each
    turn of the outer loop."""
    value = int32(uint32(cuda.threadIdx.x) & uint32(31))
    lane = value
    value, total = _four_starts(value, lane, int32(0), rounds)
    value, total = _four_starts(value, int32(lane + int32(4)), total, rounds)
    value, total = _four_starts(value, int32(lane + int32(8)), total, rounds)
    value, total = _four_starts(value, int32(lane + int32(12)), total, rounds)
    value, total = _four_starts(value, int32(lane + int32(16)), total, rounds)
    value, total = _four_starts(value, int32(lane + int32(20)), total, rounds)
    value, total = _four_starts(value, int32(lane + int32(24)), total, rounds)
    value, total = _four_starts(value, int32(lane + int32(28)), total, rounds)
    out[uint32(cuda.grid(1))] = total


@cuda.jit(**INLINED)
def _add_at(cache: Any, address: Any, thread: Any) -> Any:
    store_shared(cache, address, int32(load_shared(cache, address) + thread))


def _bank_conflicts(way: int) -> Callable[..., None]:
    """Listing 5.4: in step i, warp w adds to the words of column group (w + i) mod 8, ``way`` lanes on each
    bank.

    The threads race, as in the listing: which additions survive is open.
    """
    columns, words = 32 // way, BANK_THREADS * way

    def kernel(out: Any, rounds: Any) -> None:
        """``rounds`` (4) times eight steps; each thread's column of the words is summed up to be looked
        at."""
        cache = cuda.shared.array(words, int32)
        thread = uint32(cuda.threadIdx.x)
        index = thread
        left = int32(way)
        while left > 0:
            rolled()
            cache[index] = 0
            index = uint32(index + uint32(BANK_THREADS))
            left = count_down(left, int32(1))
        row = uint32(uint32(thread // uint32(columns)) % uint32(way))
        base = int32(
            shared_address(cache)
            + int32(uint32(row * uint32(BANK_THREADS) + thread % uint32(columns)) * uint32(4))
        )
        group = uint32(thread >> uint32(5))
        step = int32(4 * columns)
        mine = int32(thread)
        cuda.syncthreads()
        left = rounds
        while left > 0:
            rolled()
            _add_at(cache, int32(base + int32((group + uint32(0)) & uint32(7)) * step), mine)
            _add_at(cache, int32(base + int32((group + uint32(1)) & uint32(7)) * step), mine)
            _add_at(cache, int32(base + int32((group + uint32(2)) & uint32(7)) * step), mine)
            _add_at(cache, int32(base + int32((group + uint32(3)) & uint32(7)) * step), mine)
            _add_at(cache, int32(base + int32((group + uint32(4)) & uint32(7)) * step), mine)
            _add_at(cache, int32(base + int32((group + uint32(5)) & uint32(7)) * step), mine)
            _add_at(cache, int32(base + int32((group + uint32(6)) & uint32(7)) * step), mine)
            _add_at(cache, int32(base + int32((group + uint32(7)) & uint32(7)) * step), mine)
            left = count_down(left, int32(1))
        cuda.syncthreads()
        total = int32(0)
        index = thread
        left = int32(way)
        while left > 0:
            rolled()
            total = int32(total + cache[index])
            index = uint32(index + uint32(BANK_THREADS))
            left = count_down(left, int32(1))
        out[uint32(cuda.grid(1))] = total

    return kernel


def _prefix_sum(padded: bool) -> Callable[..., None]:
    """Blelloch's exclusive scan of a block's elements, one a thread; padding skips a word every 32."""
    shift = uint32(5 if padded else 31)

    def kernel(values: Any, out: Any) -> None:
        cache = cuda.shared.array(SCAN_WORDS, int32)
        thread = uint32(cuda.threadIdx.x)
        length = uint32(cuda.blockDim.x)
        place = uint32(thread + (thread >> shift))
        cache[place] = values[uint32(cuda.grid(1))]
        stride = uint32(2)
        while stride <= length:
            rolled()
            cuda.syncthreads()
            right = uint32((thread + uint32(1)) * stride - uint32(1))
            if right < length:
                left = uint32(right - (stride >> uint32(1)))
                right = uint32(right + (right >> shift))
                cache[right] = int32(cache[right] + cache[uint32(left + (left >> shift))])
            stride = uint32(stride << uint32(1))
        cuda.syncthreads()
        if thread == 0:
            last = uint32(length - uint32(1))
            cache[uint32(last + (last >> shift))] = 0
        stride = length
        while stride >= uint32(2):
            rolled()
            cuda.syncthreads()
            right = uint32((thread + uint32(1)) * stride - uint32(1))
            if right < length:
                left = uint32(right - (stride >> uint32(1)))
                right = uint32(right + (right >> shift))
                left = uint32(left + (left >> shift))
                partial = cache[left]
                cache[left] = cache[right]
                cache[right] = int32(cache[right] + partial)
            stride = uint32(stride >> uint32(1))
        cuda.syncthreads()
        out[uint32(cuda.grid(1))] = cache[place]

    return kernel


def _atomic_add(numbers: Any, level: Any) -> None:
    """Every thread adds to the word of its index modulo the contention level, a power of two."""
    index = uint32(cuda.grid(1))
    reduce_add(numbers, uint32(index & uint32(level - int32(1))), int32(1))


def _compare_and_swap(numbers: Any, level: Any) -> None:
    """Listing 5.6: every thread puts its index into its word, until no other came between."""
    index = uint32(cuda.grid(1))
    place = uint32(index & uint32(level - int32(1)))
    seen = numbers[place]
    while True:
        found = cuda.atomic.cas(numbers, place, seen, int32(index))
        if found == seen:
            return
        seen = numbers[place]


def _whole(counts: dict[str, Count], others: int) -> Callable[[int], tuple[Timed, ...]]:
    """A contract for the whole kernel. Before Ampere, loops in divergent code end with votes."""

    def expect(architecture: int) -> tuple[Timed, ...]:
        extras = {"VOTE": up_to(4), "VOTEU": up_to(2)} if architecture < 80 else {}
        named = {_reduction(architecture) if name == "RED" else name: count for name, count in counts.items()}
        return (Timed("kernel", "kernel", named | extras, others + 20 * (architecture < 80)),)

    return expect


def _reduction(architecture: int) -> str:
    """The atomic addition to global memory without a result has another name on Hopper."""
    return "REDG.E.ADD" if architecture >= 90 else "RED.E.ADD"


_TURNS: Final = "void(int32[::1], int32)"


def _spec(
    name: str,
    function: Callable[..., None],
    signature: str,
    counts: dict[str, Count],
    others: int,
    threads: int = 1024,
    minimum: int = 70,
) -> KernelSpec:
    # The threads alone bound the registers; blocks on an SM are what Coyne's grids fill: two of 1,024
    # threads.
    bounds = (threads, 2048 // threads if threads < 1024 else 1)
    expect = _whole(counts, others)
    return KernelSpec(
        BENCHMARK, name, function, signature, expect, bounds, minimum, warp_wide=name in WARP_WIDE
    )


def _specs() -> tuple[KernelSpec, ...]:
    stored = {"STG.E": exactly(1)}
    specs = [
        _spec("empty", _empty, _TURNS, {"STG.E": up_to(1)}, 24),
        _spec("butterfly", _butterfly_reduction, _TURNS, stored | {"SHFL.BFLY": exactly(5 * REPEATS)}, 60),
        _spec("warp-reduce", _warp_reduce, _TURNS, stored | {"REDUX.SUM": exactly(REPEATS)}, 40, minimum=80),
        _spec("neighbour-shuffle", _neighbour_shuffle, _TURNS, stored | {"SHFL.IDX": exactly(1024)}, 2200),
    ]
    for way in SHARED_BANK_WAYS:
        counts = {"LDS": exactly(9), "STS": exactly(9), "BAR.SYNC": exactly(2)}
        specs.append(
            _spec(f"bank-conflicts/{way}", _bank_conflicts(way), _TURNS, stored | counts, 160, BANK_THREADS)
        )
    for name, padded in (("prefix-sum", False), ("prefix-sum-padded", True)):
        counts = {"LDG.E": exactly(1), "LDS": exactly(6), "STS": exactly(5), "BAR.SYNC": exactly(4)}
        specs.append(_spec(name, _prefix_sum(padded), "void(int32[::1], int32[::1])", stored | counts, 120))
    specs.append(_spec("global-atomic-add", _atomic_add, _TURNS, {"RED": exactly(1)}, 30))
    counts = {"LDG.E": Count(1, 2), "ATOMG.E.CAS": exactly(1)}
    specs.append(_spec("global-atomic-cas", _compare_and_swap, _TURNS, counts, 40))
    for name, function, signature, counts, others, threads in LIBRARY:
        specs.append(_spec(name, function, signature, counts, others, threads))
    return tuple(specs)


KERNELS: Final = _specs()
