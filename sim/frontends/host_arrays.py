"""Arrays and tensors of the host as memory of the simulated GPU: what a kernel's pointers point to.

A view keeps its place in what it is a view of. Pointers that were so many bytes apart on the host are so on
the GPU, and two views of one array share its memory.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.sim.isa.memory.global_memory import GlobalMemory
from smlab.sim.isa.operation_codes import FIRST_ADDRESS

_ANYWHERE: Final = 1 << 20
"""An address as good as any: compilers ask only what powers of two divide it."""


def is_array(value: object) -> bool:
    """Whether it is an array of NumPy, or something that tells its dtype and the place of its data."""
    return isinstance(value, np.ndarray) or (hasattr(value, "data_ptr") and hasattr(value, "dtype"))


class NamedArray:
    """An array of NumPy with the names that a tensor has: what compilers ask for, and what scripts call on
    tensors between launches. Anything else is the array's own."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.dtype = array.dtype

    def data_ptr(self) -> int:
        """An address that the same powers of two divide as the simulated one."""
        place, (first, _) = self.array.ctypes.data, _extent(_owner(self.array))
        return _ANYWHERE + place - first

    def zero_(self) -> NamedArray:
        self.array[...] = 0
        return self

    def clone(self) -> NamedArray:
        return NamedArray(self.array.copy())

    def copy_(self, other: NamedArray) -> NamedArray:
        self.array[...] = other.array
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.array, name)


class ToldPointers:
    """Addresses of tensors that a script has asked for (``data_ptr``), to put them into tables of pointers: a
    kernel that finds one there may use it as long as the tensor lives."""

    def __init__(self) -> None:
        self._told: dict[int, tuple[int, weakref.ref[Any]]] = {}

    def tell(self, tensor: Any, memory: GlobalMemory) -> int:
        """The simulated address of a tensor's first element."""
        storage = tensor.untyped_storage()
        first = ArgumentMemory(memory).address_of("data_ptr", storage)
        self._told[first] = first + storage.nbytes(), weakref.ref(storage)
        return first + int(tensor.storage_offset() * tensor.element_size())

    def among(self, words: NDArray[np.int64]) -> Iterator[tuple[int, Any]]:
        """The storages to which one of these words points, that live, with their addresses."""
        pointers = np.sort(words[words >= FIRST_ADDRESS], axis=None)
        if not len(pointers):
            return
        for first, (end, told) in list(self._told.items()):
            storage = told()
            if storage is None:
                del self._told[first]
            elif np.searchsorted(pointers, first) < np.searchsorted(pointers, end):
                yield first, storage


class ArgumentMemory:
    """The global memory of one launch, which holds arrays of the host."""

    def __init__(self, memory: GlobalMemory) -> None:
        self.memory = memory

    def address_of(self, name: str, value: Any) -> int:
        """The simulated address of an array's first element.

        Raises:
            SmlabError: a tensor that is not on the CPU, an array that cannot be written.
        """
        while isinstance(value, NamedArray) or (hasattr(value, "base") and hasattr(value, "data_ptr")):
            value = value.array if isinstance(value, NamedArray) else value.base  # triton.reinterpret
        if isinstance(value, np.ndarray):
            if not value.flags.writeable:
                raise SmlabError.at(name, "cannot be written to", None, "a writable array")
            whole = _owner(value)
            first, end = _extent(whole)
            place = value.ctypes.data
        else:
            storage = value.untyped_storage() if hasattr(value, "untyped_storage") else value
            device = getattr(getattr(storage, "device", None), "type", "cpu")
            if device != "cpu":
                raise SmlabError.at(name, "a tensor on another device", device, "a tensor on the CPU")
            first = storage.data_ptr()
            place = first if storage is value else first + value.storage_offset() * value.element_size()
            end = first + storage.nbytes()
        content = np.ctypeslib.as_array((ctypes.c_uint8 * max(end - first, 1)).from_address(first))
        return self.memory.allocate(name, content) + place - first

    def reach(self, name: str, words: NDArray[np.int64], pointers: ToldPointers) -> None:
        """Put in the tensors to which these words point, where a script was told so."""
        for address, storage in pointers.among(words):
            if self.address_of(name, storage) != address:
                what = "a pointer from before the program's addresses began anew"
                raise SmlabError.at(name, what, hex(address), "one that is taken before the launch")

    def zeros(self, name: str, size: int) -> int:
        """The address of so many bytes of zeros."""
        return self.memory.allocate(name, np.zeros(size, dtype=np.uint8))


def _owner(array: NDArray[Any]) -> NDArray[Any]:
    """The array that this one is a view of, in the end."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _extent(array: NDArray[Any]) -> tuple[int, int]:
    first, end = np.lib.array_utils.byte_bounds(array)
    return int(first), int(end)
