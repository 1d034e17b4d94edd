"""Tensor maps: what CUDA's driver makes with ``cuTensorMapEncodeTiled``, made here from an array, for the
copy engine. Kernels make and change them too (PTX's ``tensormap.replace``), by plain loads and stores.

NVIDIA does not publish the form. What is used of it here is what NVIDIA's assembler compiles
``tensormap.replace`` to, for each field by itself; the same for sm_90a and sm_120a. Of words of 32 bits,
0 and 1 are the address. Word 2 holds dimensions less one (bits 4 to 6), the type (7 to 10), the interleaving
(11, 12), the exchange of pieces (13, 14), what is read outside (15), and types and exchanges that are not
simulated (16 and up). Words 3 to 6 are the strides over 16, 7 their highest four bits each, 8 to 12 the sizes
less one. Word 13 holds the strides between elements, less one (3 bits each), and the innermost edge of the
box, less one (24 and up); 14 the other four edges, less one.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.sim.isa import operation_codes as d

MAP_BYTES: Final = 128
_FORM: Final = struct.Struct("<Q4I2I5I2I68x")
# The numbers of 32 bits of a map that machine code reads.
W_FORM, W_STRIDES, W_HIGH_STRIDES, W_SHAPE, W_FIRST_BOX, W_BOX = 2, 3, 7, 8, 13, 14
KNOWN_FORM: Final = 0x67F0
"""The bits of word 2 that may be set: the rest is of types, fillings and layouts that are not simulated."""
ELEMENT_STRIDES: Final = 0x7FFF
STRIDE_UNIT_BYTES: Final = 16
MOST_DIMENSIONS: Final = 5
SPANS: Final = {"none": 16, "32": 32, "64": 64, "128": 128}
_MOST_BOX: Final = 256
MOST_ASKED_PIECES: Final = 1 << 16
"""L2 is asked for so many times 16 bytes at once, at most."""
ELEMENT_TYPES: Final = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16")
"""By their numbers in PTX (``.elemtype``), and in a map."""
ELEMENT_SHIFTS: Final = (0, 1, 2, 2, 3, 3, 1, 2, 2, 3, 1)
"""The logarithm of the bytes of each."""
NOT_REDUCED: Final = 15
NUMBER_TYPES: Final = (
    *(NOT_REDUCED, NOT_REDUCED, d.U32, d.S32, d.U64, d.S64, d.HALF_PAIR, d.FLOAT32, NOT_REDUCED, d.FLOAT64),
    d.BFLOAT16_PAIR,
)
"""What a reduction takes the elements of each for."""
_OF_ARRAYS: Final = {"i4": "s32", "i8": "s64", "f2": "f16", "f4": "f32", "f8": "f64"}
_OF_BYTES: Final = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


@dataclass(frozen=True)
class TensorMapWords:
    """A map as the copy engine reads it; the innermost dimension is first, ``strides`` are those of the
    others, in bytes."""

    dimensions: int
    element_type: int
    span_bytes: int
    base: int
    shape: tuple[int, ...]
    box: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def element_bytes(self) -> int:
        return 1 << ELEMENT_SHIFTS[self.element_type]


@dataclass(frozen=True)
class TensorMap:
    """An array as the copy engine sees it: one to five dimensions, the innermost first.

    ``shape`` are elements and ``box`` those of one copy; ``strides_bytes`` are those of all dimensions but
    the innermost, where elements lie side by side; without them the dimensions lie one in the other.
    ``swizzle`` is ``none``, ``32``, ``64`` or ``128``: the bytes of a row of shared memory whose pieces of 16
    bytes are exchanged. ``array`` is an array that is an argument of the launch as well, by itself or by its
    name. ``element_type`` is one of `ELEMENT_TYPES`, by default that of the array, or whole numbers of
    ``element_bytes``; only reductions ask for it.

    Raises:
        SmlabError: what no GPU takes.
    """

    array: NDArray[Any] | str
    shape: Sequence[int]
    box: Sequence[int]
    strides_bytes: Sequence[int] | None = None
    swizzle: str = "none"
    element_bytes: int | None = None
    element_type: str | None = None

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
        if self.element_type is not None and self.element_type not in ELEMENT_TYPES:
            known = ", ".join(ELEMENT_TYPES)
            raise SmlabError.at("tensor map: element_type", "unknown", self.element_type, known)

    def type_of(self, array: NDArray[Any]) -> str:
        """The type of its elements, where it is a map of this array."""
        if self.element_type is not None:
            return self.element_type
        size = self.element_bytes or array.itemsize
        if size not in _OF_BYTES:
            raise SmlabError.at("tensor map: element_bytes", "no size of an element", size, "1, 2, 4 or 8")
        return (
            _OF_ARRAYS.get(array.dtype.str[1:], _OF_BYTES[size])
            if size == array.itemsize
            else _OF_BYTES[size]
        )

    def content(self, address: int, element_type: str) -> bytes:
        """The map's bytes, for an array at an address."""
        number = ELEMENT_TYPES.index(element_type)
        element_bytes = 1 << ELEMENT_SHIFTS[number]
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
        units = [stride // STRIDE_UNIT_BYTES for stride in (*strides, *[0] * MOST_DIMENSIONS)][:4]
        box = _filled(self.box)
        form = (len(self.shape) - 1) << 4 | number << 7 | list(SPANS).index(self.swizzle) << 13
        return _FORM.pack(
            address,
            form,
            *(unit & 0xFFFFFFFF for unit in units),
            sum((unit >> 32 & 15) << 4 * n for n, unit in enumerate(units)),
            *(size - 1 for size in _filled(self.shape)),
            (box[0] - 1) << 24,
            sum((edge - 1) << 8 * n for n, edge in enumerate(box[1:])),
        )


def _filled(numbers: Sequence[int]) -> list[int]:
    return [*(int(n) for n in numbers), *[1] * (MOST_DIMENSIONS - len(numbers))]


def unpack_map(content: bytes) -> TensorMapWords | None:
    """The map that bytes hold; None where they hold none, or one that is not simulated."""
    base, form, *rest = _FORM.unpack_from(content)
    strides, high, shape, (first_box, box) = rest[:4], rest[4], rest[5:10], rest[10:]
    number, n = form >> 7 & 15, (form >> 4 & 7) + 1
    if form & ~KNOWN_FORM or first_box & ELEMENT_STRIDES or base % STRIDE_UNIT_BYTES:
        return None
    if any(content[_FORM.size - 68 :]) or number >= len(ELEMENT_TYPES) or n > MOST_DIMENSIONS:
        return None
    edges = (first_box >> 24, *(box >> 8 * k & 255 for k in range(4)))
    pieces, rest = divmod((edges[0] + 1) << ELEMENT_SHIFTS[number], STRIDE_UNIT_BYTES)
    if rest or pieces * math.prod(edge + 1 for edge in edges[1:n]) > MOST_ASKED_PIECES:
        return None
    return TensorMapWords(
        n,
        number,
        STRIDE_UNIT_BYTES << (form >> 13 & 3),
        base,
        tuple(size + 1 for size in shape[:n]),
        tuple(edge + 1 for edge in edges[:n]),
        tuple((strides[k] | (high >> 4 * k & 15) << 32) * STRIDE_UNIT_BYTES for k in range(n - 1)),
    )
