"""Tensor descriptors that a script makes for a kernel of Triton (`triton.tools.tensor_descriptor`).

On a GPU with a copy engine such an argument is a tensor map, its shape and its strides; on others it is a
pointer, shape and strides twice, and flags. Triton's compiler says which (``tensordesc_meta``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.sim.frontends.host_arrays import ArgumentMemory
from smlab.sim.isa.launch.tensor_map import ELEMENT_TYPES, SPANS, TensorMap

KIND: Final = "tensordesc"
_REFUSED: Final = (
    ("fp4_padded", "numbers of 4 bits"),
    ("is_im2col", "images as columns"),
)


def descriptor_parameters(
    name: str, descriptor: Any, compiled: Mapping[str, Any] | None, memory: ArgumentMemory
) -> Iterator[tuple[str, str, Any]]:
    """The parameters of one descriptor: name, kind and value of each. ``compiled`` is what the compiler
    decided of its copies; None where they are plain loads and stores.

    Raises:
        SmlabError: a descriptor that is not simulated, by what it has.
    """
    if compiled is None:
        for n, value in enumerate(_decomposed(descriptor)):
            yield f"{name}[{n}]", "i64" if n else "*i8", value
        return
    refused = [what for key, what in _REFUSED if compiled.get(key)]
    if descriptor.padding == "nan":
        refused.append("NaN for what lies outside")
    if getattr(descriptor, "round_f32_to_tf32", False):
        refused.append("copies that round to TF32")
    if refused:
        raise SmlabError.at(name, "a tensor descriptor that is not simulated", refused[0])
    size = int(compiled["elem_size"])
    *outer, _ = (int(stride) for stride in descriptor.strides)
    made = TensorMap(
        array=np.empty(0, dtype=np.uint8),
        shape=tuple(int(n) for n in reversed(descriptor.shape)),
        box=tuple(int(n) for n in reversed(compiled["block_size"])),
        strides_bytes=tuple(size * stride for stride in reversed(outer)),
        swizzle=list(SPANS)[compiled["swizzle"]],
    )
    content = made.content(memory.address_of(name, descriptor.base), ELEMENT_TYPES[compiled["elem_type"]])
    yield name, "nvTmaDesc", content
    for n, value in enumerate((*descriptor.shape, *descriptor.strides)):
        yield f"{name}[{n}]", "i64", int(value)


def _decomposed(descriptor: Any) -> list[Any]:
    """What this release of Triton passes for a descriptor without a copy engine."""
    try:
        from triton.backends.driver import decompose_descriptor
    except ImportError:  # before 3.7
        own, strides = descriptor.shape, descriptor.strides
        return [descriptor.base, *own, *strides, descriptor.padding == "nan", *own, *strides]
    found: list[Any] = decompose_descriptor(descriptor)
    return found
