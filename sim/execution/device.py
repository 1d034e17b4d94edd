"""A simulated GPU as the benchmarks see one: the functions of `numba.cuda` that they use, on memory of the
simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass.image import KernelImage
from smlab.sim.isa.launch.launch import Dim, MachineLaunch
from smlab.sim.isa.memory.global_memory import GlobalMemory

Execute = Callable[[MachineLaunch], float]
"""Runs a launch; gives its seconds on the simulated GPU."""


class DeviceArray:
    """An array in simulated global memory."""

    def __init__(self, memory: GlobalMemory, array: NDArray[Any]) -> None:
        self.array = np.ascontiguousarray(array).copy()
        self.address = memory.allocate("an array", self.array.reshape(-1).view(np.uint8))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "data": (self.address, False),
            "shape": self.array.shape,
            "typestr": self.array.dtype.str,
            "version": 3,
        }

    def copy_to_host(self) -> NDArray[Any]:
        return self.array.copy()

    def copy_to_device(self, array: NDArray[Any]) -> None:
        self.array[...] = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return self.array.astype(dtype) if dtype is not None else self.array.copy()


class Event:
    """A moment on the simulated GPU's clock."""

    seconds = 0.0

    def __init__(self, device: SimulatedDevice) -> None:
        self.device = device

    def record(self) -> None:
        self.seconds = self.device.seconds

    def synchronize(self) -> None:
        return None


class SimulatedDevice:
    """The stand-in driver: ``image`` gives a kernel's machine code, ``execute`` runs a launch of it."""

    stand_in = True

    def __init__(self, image: Callable[[Any], KernelImage], execute: Execute) -> None:
        self.image = image
        self.execute = execute
        self.memory = GlobalMemory()
        self.seconds = 0.0

    def to_device(self, array: Any) -> DeviceArray:
        return DeviceArray(self.memory, np.asarray(array))

    def device_array(self, shape: Any, dtype: Any = np.float64) -> DeviceArray:
        return DeviceArray(self.memory, np.zeros(shape, dtype=dtype))

    def event(self, timing: bool = True) -> Event:
        return Event(self)

    def event_elapsed_time(self, begin: Event, end: Event) -> float:
        return (end.seconds - begin.seconds) * 1e3

    def synchronize(self) -> None:
        return None

    def kernel(self, spec: Any) -> Launchable:
        """A kernel to be launched, repeatedly if need be. It begins with an empty L2, whatever ran before, so
        that a run of a suite that was broken off and resumed gives the same times."""
        self.memory.l2.forget()
        return Launchable(self, self.image(spec))


class Launchable:
    """``kernel[grid, block](...)`` as Numba writes it."""

    def __init__(self, device: SimulatedDevice, image: KernelImage) -> None:
        self.device = device
        self.image = image

    def __getitem__(self, shape: Any) -> Callable[..., None]:
        grid, block = (as_dim(x) for x in shape[:2])
        dynamic = int(shape[3]) if len(shape) > 3 else 0

        def launch(*arguments: Any) -> None:
            flat = flatten(self.image, arguments)
            self.device.seconds += self.device.execute(
                MachineLaunch(
                    self.image,
                    grid,
                    block,
                    flat,
                    dynamic_shared_bytes=dynamic,
                    check_shared=False,
                    memory=self.device.memory,
                )
            )

        return launch


def as_dim(value: Any) -> Dim:
    """A launch shape of one to three numbers."""
    numbers = (value,) if isinstance(value, (int, np.integer)) else tuple(value)
    if not 1 <= len(numbers) <= 3:
        raise SmlabError.at("launch", "a shape of one to three numbers", value)
    x, y, z = (*(int(n) for n in numbers), 1, 1, 1)[:3]
    return x, y, z


def flatten(image: KernelImage, arguments: tuple[Any, ...]) -> list[bytes]:
    """Numba's calling convention: an array is a record of pointers, counts, shape and strides."""
    flat: list[bytes] = []
    for argument in arguments:
        if isinstance(argument, DeviceArray):
            array = argument.array
            words = [0, 0, array.size, array.itemsize, argument.address, *array.shape, *array.strides]
            flat.extend(np.int64(word).tobytes() for word in words)
            continue
        size = (
            image.parameters[len(flat)].size if image.parameters and len(flat) < len(image.parameters) else 8
        )
        flat.append(_scalar(argument, size))
    return flat


def _scalar(value: Any, size: int) -> bytes:
    if isinstance(value, np.generic):
        content = value.tobytes()
        if len(content) == size:
            return content
        value = value.item()
    if isinstance(value, float):
        return np.float32(value).tobytes() if size == 4 else np.float64(value).tobytes()
    return int(value).to_bytes(size, "little", signed=int(value) < 0)
