"""The two kernels of `portability` that Coyne took from libraries, written anew: the libraries' own code is
not ours to time.

``column-permutation`` does what RAFT's ``permuteKernel`` does for a column-major matrix (Coyne, Section 5.6):
row ``tid`` of the result is row ``(a tid + b) mod rows`` of the input, column after column, with a grid of 2
x 256 threads whatever the size. ``knn`` finds the four nearest of the reference points (of two coordinates,
the default of the library's generator) to each of them, by squared Euclidean distance (Section 5.7): tiles of
points in shared memory, the best four in registers.
"""

from __future__ import annotations

from typing import Any, Final

from smlab.hw_bench.cuda.kernels.device import count_down, cuda, float32, int32, rolled, uint32
from smlab.hw_bench.cuda.kernels.spec import Count, exactly

PERMUTE_THREADS: Final = 256
KNN_THREADS: Final = 128
NEIGHBOURS: Final = 4
FAR: Final = 3.0e38


def _permute(values: Any, out: Any, rows: Any, columns: Any, a: Any, b: Any) -> None:
    """The loop over the columns is left to the compiler, which takes up to sixteen of them at a time."""
    row = uint32(cuda.grid(1))
    if row >= uint32(rows):
        return
    source = uint32(uint32(uint32(a) * row + uint32(b)) % uint32(rows))
    target = row
    left = columns
    while left > 0:
        out[target] = values[source]
        source = uint32(source + uint32(rows))
        target = uint32(target + uint32(rows))
        left = int32(left - int32(1))


def _knn(x: Any, y: Any, points: Any, distances: Any, neighbours: Any) -> None:
    """``distances`` and ``neighbours`` of shape ``(4 points,)``: the nearest of all points, then the
    second nearest, ..."""
    tile_x = cuda.shared.array(KNN_THREADS, float32)
    tile_y = cuda.shared.array(KNN_THREADS, float32)
    thread = uint32(cuda.threadIdx.x)
    threads = uint32(cuda.blockDim.x)
    query = uint32(cuda.grid(1))
    count = uint32(points)
    here_x, here_y = x[query], y[query]
    d0 = d1 = d2 = d3 = float32(FAR)
    i0 = i1 = i2 = i3 = int32(-1)
    first = uint32(0)
    while first < count:
        rolled()
        cuda.syncthreads()
        tile_x[thread] = x[uint32(first + thread)]
        tile_y[thread] = y[uint32(first + thread)]
        cuda.syncthreads()
        at = uint32(0)
        left = int32(threads)
        while left > 0:
            rolled()
            off_x = float32(tile_x[at] - here_x)
            off_y = float32(tile_y[at] - here_y)
            d = float32(off_x * off_x + off_y * off_y)
            me = int32(first + at)
            # The new point goes before those that are farther, without a branch.
            in0, in1, in2, in3 = d < d0, d < d1, d < d2, d < d3
            d3 = (d2 if in2 else d) if in3 else d3
            i3 = (i2 if in2 else me) if in3 else i3
            d2 = (d1 if in1 else d) if in2 else d2
            i2 = (i1 if in1 else me) if in2 else i2
            d1 = (d0 if in0 else d) if in1 else d1
            i1 = (i0 if in0 else me) if in1 else i1
            d0 = d if in0 else d0
            i0 = me if in0 else i0
            at = uint32(at + uint32(1))
            left = count_down(left, int32(1))
        first = uint32(first + threads)
    distances[query] = d0
    distances[uint32(query + count)] = d1
    distances[uint32(query + uint32(2) * count)] = d2
    distances[uint32(query + uint32(3) * count)] = d3
    neighbours[query] = i0
    neighbours[uint32(query + count)] = i1
    neighbours[uint32(query + uint32(2) * count)] = i2
    neighbours[uint32(query + uint32(3) * count)] = i3


LIBRARY: Final[tuple[tuple[str, Any, str, dict[str, Count], int, int], ...]] = (
    (
        "column-permutation",
        _permute,
        "void(float32[::1], float32[::1], int32, int32, int32, int32)",
        {"LDG.E": exactly(29), "STG.E": exactly(29)},
        220,
        PERMUTE_THREADS,
    ),
    (
        "knn",
        _knn,
        "void(float32[::1], float32[::1], int32, float32[::1], int32[::1])",
        {
            "LDG.E": exactly(4),
            "STS": exactly(2),
            "LDS": exactly(2),
            "STG.E": exactly(2 * NEIGHBOURS),
            "BAR.SYNC": exactly(2),
        },
        160,
        KNN_THREADS,
    ),
)
"""Name, kernel, signature, what it must become, other instructions, threads of a block."""
