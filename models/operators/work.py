"""Bytes and floating-point operations of an operator, from its shape and from how its kernel goes over the
data.

No counter is needed: an element-wise kernel touches each operand once, a product of matrices does 2 m n k
operations, and layer norm and softmax are known from PyTorch's source (2.1, ``aten/src/ATen/native/cuda``):
``vectorized_layer_norm_kernel`` reads a row for its moments and once more to normalise it;
``cunn_SoftMaxForward`` reads a row for its maximum, for its sum and for the result; ``softmax_warp_forward``
keeps the row in registers, later versions' ``cunn_SoftMaxForwardSmem`` in shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.rows import Rows
from smlab.models.operators.tiles import Shapes, tile_named

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

OPERATORS: Final = ("linear", "bmm", "elementwise", "layernorm", "softmax")
"""Families of operators whose work follows from the shape."""


class OperatorShapes(Protocol):
    """Shapes and launches of operators, as a set of measured times has them; all arrays of shape
    ``(rows,)``.

    The columns mean what `smlab.hw_bench.datasets.OperatorTimes` says of them; ``path`` is named in
    messages.
    """

    @property
    def path(self) -> Path: ...
    @property
    def operator(self) -> NDArray[np.object_]: ...
    @property
    def kernel(self) -> NDArray[np.object_]: ...
    @property
    def batch(self) -> Integers: ...
    @property
    def m(self) -> Integers: ...
    @property
    def n(self) -> Integers: ...
    @property
    def k(self) -> Integers: ...
    @property
    def tensors(self) -> Integers: ...
    @property
    def element_bytes(self) -> Integers: ...
    @property
    def blocks(self) -> Integers: ...
    @property
    def threads_per_block(self) -> Integers: ...
    @property
    def launch_s(self) -> Mapping[str, float]: ...


@dataclass(frozen=True, eq=False)
class OperatorWork(Rows):
    """The work of operators; all arrays of shape ``(rows,)``.

    ``flops`` are operations that the roof of FP32 bounds (0 for operators that only move data);
    ``once_bytes`` are read or written at least once, ``again_bytes`` are read again later by the same
    block, after the rest of its row. ``values`` are those of a row (of products: not used), ``row_bytes`` is
    what a block reads between two touches, ``passes`` how many times that an equally fast block moves, reads
    and writes together, while a block is in two of its passes that follow each other. ``blocks`` and
    ``threads_per_block`` are of the launch on the GPU that was measured, 0 where unknown. ``shapes`` are the
    sizes of products, ``tile`` the tile that the kernel's name tells, empty where it tells none. ``launch_s``
    is in each time and does not scale with the GPU.
    """

    operator: NDArray[np.object_]
    flops: Floats
    once_bytes: Floats
    again_bytes: Floats
    values: Floats
    row_bytes: Floats
    passes: Floats
    blocks: NDArray[np.int64]
    threads_per_block: NDArray[np.int64]
    shapes: Shapes
    tile: NDArray[np.object_]
    launch_s: Floats

    def __len__(self) -> int:
        return len(self.flops)


def operator_work(times: OperatorShapes) -> OperatorWork:
    """The work of each row of ``times``; `SmlabError` for an operator that is not in `OPERATORS`."""
    unknown = [name for name in times.operator if name not in OPERATORS]
    if unknown:
        raise SmlabError.at(
            str(times.path), "operator whose work is not known", unknown[0], ", ".join(OPERATORS)
        )
    batch, m, n, k, tensors, size = (
        np.asarray(x, dtype=np.float64)
        for x in (times.batch, times.m, times.n, times.k, times.tensors, times.element_bytes)
    )
    product = np.isin(times.operator, ["linear", "bmm"])
    norm = times.operator == "layernorm"
    kept = np.array(["softmax_warp" in k or "ForwardSmem" in k for k in times.kernel], dtype=bool)
    softmax = (times.operator == "softmax") & ~kept
    matrices = batch * (m * k + k * n + m * n) * size
    row = n * size
    once = np.where(product, matrices, tensors * m * row)
    rereads = np.where(norm, 1.0, np.where(softmax, 2.0, 0.0))
    rows_of_a_block = np.where(times.blocks > 0, m / np.maximum(times.blocks, 1), 1.0)
    return OperatorWork(
        operator=times.operator,
        flops=np.where(product, 2.0 * batch * m * n * k, 0.0),
        once_bytes=once,
        again_bytes=rereads * m * row,
        values=n,
        row_bytes=np.where(product, 0.0, rows_of_a_block * row),
        # A block reads its row rereads + 1 times, and writes it in the last of these passes.
        passes=2.0 * (rereads + 2.0) / (rereads + 1.0),
        blocks=times.blocks,
        threads_per_block=times.threads_per_block,
        shapes=Shapes(batch, m, n, k),
        tile=np.array([tile_named(name) for name in times.kernel], dtype=object),
        launch_s=np.array([times.launch_s.get(name, 0.0) for name in times.operator], dtype=np.float64),
    )
