"""Benchmark ``histogram``: the image histogram of Dong & Pai, Listing 1 and (channels reordered) Listing 2.

An image has four 8-bit channels a pixel; each block counts its pixels in shared memory and adds its counts to
the global histogram. The additions are of 1 with the result unused, which becomes ATOMS.POPC.INC from Ampere
on, or with the result used, which keeps ATOMS.ADD (the paper's "dummy read").

Listing 2 reads ``offsets[chan]`` with a channel that the thread's number decides; so that this needs no local
memory, the four values are loaded in that order instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from smlab.hw_bench.cuda.kernels.device import clock, clock_after, cuda, int32, rolled, settle, sm_id, uint32
from smlab.hw_bench.cuda.kernels.points import INLINED
from smlab.hw_bench.cuda.kernels.spec import KernelSpec, Timed, exactly, up_to

BENCHMARK: Final = "histogram"
CHANNELS: Final = 4
BINS: Final = 256
COUNTERS: Final = CHANNELS * BINS
START, FINISH = range(2)
"""Columns of a sample, in cycles of the SM's clock. There is a row for each warp of the grid."""


@cuda.jit(**INLINED)
def _count(counts: Any, place: Any, seen: Any) -> Any:
    cuda.atomic.add(counts, place, 1)
    return seen


@cuda.jit(**INLINED)
def _count_and_look(counts: Any, place: Any, seen: Any) -> Any:
    return int32(seen | cuda.atomic.add(counts, place, 1))


def _kernel(name: str, count: Any, reordered: bool) -> Callable[..., None]:
    def kernel(image: Any, pixels: Any, histogram: Any, samples: Any, places: Any) -> None:
        """Count all ``pixels`` of ``image`` (four bytes each) into ``histogram``, 256 counters a channel."""
        counts = cuda.shared.array(COUNTERS, int32)
        thread = uint32(cuda.threadIdx.x)
        threads = uint32(cuda.blockDim.x)
        index = thread
        while index < uint32(COUNTERS):
            counts[index] = 0
            index = uint32(index + threads)
        first = uint32(0)
        if reordered:
            first = thread & uint32(3)
        c0 = first
        c1 = uint32((first + uint32(1)) & uint32(3))
        c2 = uint32((first + uint32(2)) & uint32(3))
        c3 = uint32((first + uint32(3)) & uint32(3))
        base0, base1 = uint32(c0 * uint32(BINS)), uint32(c1 * uint32(BINS))
        base2, base3 = uint32(c2 * uint32(BINS)), uint32(c3 * uint32(BINS))
        if thread == 0:
            places[cuda.blockIdx.x] = sm_id()
        pixel = uint32(cuda.grid(1))
        step = uint32(cuda.gridsize(1))
        seen = int32(0)
        cuda.syncthreads()
        # The stores of this warp are done when a load behind them is, and then those of all are.
        settle(counts[thread])
        cuda.syncthreads()
        start = clock()
        while pixel < uint32(pixels):
            rolled()
            at = uint32(pixel * uint32(CHANNELS))
            v0 = uint32(image[uint32(at + c0)])
            v1 = uint32(image[uint32(at + c1)])
            v2 = uint32(image[uint32(at + c2)])
            v3 = uint32(image[uint32(at + c3)])
            seen = count(counts, uint32(base0 + v0), seen)
            seen = count(counts, uint32(base1 + v1), seen)
            seen = count(counts, uint32(base2 + v2), seen)
            seen = count(counts, uint32(base3 + v3), seen)
            pixel = uint32(pixel + step)
        finish = clock_after(seen)
        cuda.syncthreads()
        if thread & uint32(31) == 0:
            row = uint32(cuda.grid(1)) >> uint32(5)
            samples[row, START] = start
            samples[row, FINISH] = finish
        index = thread
        while index < uint32(COUNTERS):
            cuda.atomic.add(histogram, index, counts[index])
            index = uint32(index + threads)

    # A profiler knows kernels by their names alone.
    kernel.__name__ = kernel.__qualname__ = name
    return kernel


def _expect(operation: str, reordered: bool) -> Callable[[int], tuple[Timed, ...]]:
    def expect(architecture: int) -> tuple[Timed, ...]:
        counting = operation == "popc-inc" and architecture >= 80
        counts = {
            "ATOMS.POPC.INC" if counting else "ATOMS.ADD": exactly(CHANNELS),
            "LDG.E.U8": exactly(CHANNELS),
        }
        votes = {"VOTE": up_to(2), "VOTEU": up_to(1)} if architecture < 80 else {}
        return (Timed("pixel", "loop", counts | votes, others=32 + 8 * reordered),)

    return expect


def _specs() -> tuple[KernelSpec, ...]:
    return tuple(
        KernelSpec(
            benchmark=BENCHMARK,
            name=f"{'reordered' if reordered else 'original'}/{operation}",
            function=_kernel(
                f"histogram_{'reordered' if reordered else 'original'}_{operation.replace('-', '_')}",
                count,
                reordered,
            ),
            signature="void(uint8[::1], int32, int32[::1], int64[:,::1], int32[::1])",
            expect=_expect(operation, reordered),
            launch_bounds=(1024, 1),
        )
        for reordered in (False, True)
        for operation, count in (("popc-inc", _count), ("add", _count_and_look))
    )


KERNELS: Final = _specs()
