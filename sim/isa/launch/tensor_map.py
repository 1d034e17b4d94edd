"""Tensor maps: what CUDA's driver makes with ``cuTensorMapEncodeTiled``, made here from an array, for the
copy engine. The bytes are of a form of our own, which the simulated copy engine reads; NVIDIA's is not
published.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError

MAP_BYTES: Final = 128
_MAGIC: Final = 0x534D4C31
_FORM: Final = struct.Struct("<4IQ5I5I4Q")
# The numbers of 32 bits of a map that machine code reads.
W_MAGIC, W_DIMENSIONS, W_ELEMENT, W_SPAN, W_BASE, W_SHAPE, W_BOX, W_STRIDES = 0, 1, 2, 3, 4, 6, 11, 16
MOST_DIMENSIONS: Final = 5
SPANS: Final = {"none": 16, "32": 32, "64": 64, "128": 128}
_MOST_BOX: Final = 256


@dataclass(frozen=True)
class TensorMapWords:
    """A map as the copy engine reads it; the innermost dimension is first, ``strides`` are those of the
    others."""

    dimensions: int
    element_bytes: int
    span_bytes: int
    base: int
    shape: tuple[int, ...]
    box: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class TensorMap:
    """An array as the copy engine sees it: one to five dimensions, the innermost first.

    ``shape`` are elements and ``box`` those of one copy; ``strides_bytes`` are those of all dimensions but
    the innermost, where elements lie side by side; without them the dimensions lie one in the other.
    ``swizzle`` is ``none``, ``32``, ``64`` or ``128``: the bytes of a row of shared memory whose pieces of 16
    bytes are exchanged. ``array`` is an array that is an argument of the launch as well, by itself or by its
    name.

    Raises:
        SmlabError: what no GPU takes.
    """

    array: NDArray[Any] | str
    shape: Sequence[int]
    box: Sequence[int]
    strides_bytes: Sequence[int] | None = None
    swizzle: str = "none"
    element_bytes: int | None = None

    def __post_init__(self) -> None:
        n = len(self.shape)
        if not 1 <= n <= MOST_DIMENSIONS:
            raise SmlabError.at("tensor map: shape", "dimensions", n, "1 to 5")
        if len(self.box) != n:
            raise SmlabError.at("tensor map: box", "as many numbers as the shape", len(self.box), str(n))
        if self.strides_bytes is not None and len(self.strides_bytes) != n - 1:
            found = len(self.strides_bytes)
            raise SmlabError.at("tensor map: strides_bytes", "one less than dimensions", found, str(n - 1))
        if self.swizzle not in SPANS:
            known = ", ".join(SPANS)
            raise SmlabError.at("tensor map: swizzle", "unknown", self.swizzle, known)
        for edge in self.box:
            if not 1 <= edge <= _MOST_BOX:
                raise SmlabError.at("tensor map: box", "an edge out of range", edge, f"1 to {_MOST_BOX}")
        for size in self.shape:
            if not 1 <= size <= 1 << 32:
                raise SmlabError.at("tensor map: shape", "a size out of range", size, "1 to 2^32")

    def content(self, address: int, element_bytes: int) -> bytes:
        """The map's bytes, for an array at an address."""
        inner = self.box[0] * element_bytes
        span = SPANS[self.swizzle]
        if inner % 16:
            raise SmlabError.at("tensor map: box", "bytes of a row of the box", inner, "a multiple of 16")
        if span > 16 and inner > span:
            raise SmlabError.at("tensor map: box", "bytes of a row of the box", inner, f"at most {span}")
        strides = self.strides_bytes
        if strides is None:
            sizes = [element_bytes * int(np.prod(self.shape[: n + 1])) for n in range(len(self.shape) - 1)]
            strides = sizes
        for stride in (address, *strides):
            if stride % 16:
                raise SmlabError.at("tensor map", "an address or stride", stride, "a multiple of 16 bytes")
        return _FORM.pack(
            _MAGIC,
            len(self.shape),
            element_bytes,
            span,
            address,
            *(size - 1 for size in _filled(self.shape, MOST_DIMENSIONS)),
            *_filled(self.box, MOST_DIMENSIONS),
            *_filled(strides, MOST_DIMENSIONS - 1, 0),
        ).ljust(MAP_BYTES, b"\0")


def _filled(numbers: Sequence[int], count: int, rest: int = 1) -> list[int]:
    return [*(int(n) for n in numbers), *[rest] * (count - len(numbers))]


def unpack_map(content: bytes) -> TensorMapWords | None:
    """The map that bytes hold; None where they hold none that was made here."""
    magic, dimensions, element, span, base, *rest = _FORM.unpack_from(content.ljust(MAP_BYTES, b"\0"))
    if magic != _MAGIC:
        return None
    shape = tuple(size + 1 for size in rest[:dimensions])
    strides = tuple(rest[10 : 10 + dimensions - 1])
    return TensorMapWords(dimensions, element, span, base, shape, tuple(rest[5 : 5 + dimensions]), strides)
