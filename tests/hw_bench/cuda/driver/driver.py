"""The driver's functions as `libcuda.c` forwards them: each by its name, with its arguments as words."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from driven_gpu import DrivenGpu, DriverEvent, elf_bytes, images_of
from faults import CudaError

UUID = bytes(range(16))
VERSION = 12090


def put(address: int, kind: Any, value: Any) -> None:
    """Store at an address of the host."""
    kind.from_address(address).value = value


def put_text(address: int, text: bytes, size: int) -> None:
    ctypes.memmove(address, text[: size - 1] + b"\0", min(len(text), size - 1) + 1)


class CudaDriver:
    """Answers the calls of one process. Handles are numbers that nobody looks into."""

    def __init__(self, gpu: DrivenGpu) -> None:
        self.gpu = gpu
        self.codes = results()
        self.texts = {
            n: ctypes.create_string_buffer(f"CUDA_ERROR_{e}".encode()) for e, n in self.codes.items()
        }
        self.handles: dict[int, Any] = {}
        self._next = itertools.count(0x1000, 16)
        self.contexts: list[int] = []
        self.context = self.handle("the context")
        self.attributes = attributes(gpu)

    def handle(self, thing: Any) -> int:
        number = next(self._next)
        self.handles[number] = thing
        return number

    def __call__(self, name: str, words: Sequence[int]) -> int:
        """The result of a call, as a number."""
        try:
            if name != "cuGetErrorName" and name != "cuGetErrorString":
                self.gpu.called(name)
            getattr(self, name)(words)
        except CudaError as error:
            return self.codes[error.name]
        return 0

    # Initialisation, device, context.

    def cuInit(self, w: Sequence[int]) -> None: ...

    def cuDriverGetVersion(self, w: Sequence[int]) -> None:
        put(w[0], ctypes.c_int, VERSION)

    def cuGetErrorName(self, w: Sequence[int]) -> None:
        put(w[1], ctypes.c_void_p, ctypes.addressof(self.texts[w[0] & 0xFFFFFFFF]))

    cuGetErrorString = cuGetErrorName

    def cuDeviceGet(self, w: Sequence[int]) -> None:
        put(w[0], ctypes.c_int, w[1])

    def cuDeviceGetCount(self, w: Sequence[int]) -> None:
        put(w[0], ctypes.c_int, 1)

    def cuDeviceGetName(self, w: Sequence[int]) -> None:
        put_text(w[0], self.gpu.gpu.name.encode(), w[1])

    def cuDeviceGetUuid(self, w: Sequence[int]) -> None:
        ctypes.memmove(w[0], UUID, 16)

    def cuDeviceTotalMem(self, w: Sequence[int]) -> None:
        put(w[0], ctypes.c_size_t, self.gpu.room()[1])

    def cuDeviceGetAttribute(self, w: Sequence[int]) -> None:
        if w[1] not in self.attributes:
            raise CudaError("INVALID_VALUE")
        put(w[0], ctypes.c_int, self.attributes[w[1]])

    def cuDevicePrimaryCtxRetain(self, w: Sequence[int]) -> None:
        put(w[0], ctypes.c_void_p, self.context)

    def cuDevicePrimaryCtxRelease(self, w: Sequence[int]) -> None: ...

    def cuDevicePrimaryCtxReset(self, w: Sequence[int]) -> None: ...

    def cuCtxPushCurrent(self, w: Sequence[int]) -> None:
        self.contexts.append(w[0])

    def cuCtxPopCurrent(self, w: Sequence[int]) -> None:
        put(w[0], ctypes.c_void_p, self.contexts.pop())

    def cuCtxSetCurrent(self, w: Sequence[int]) -> None:
        self.contexts[-1:] = [w[0]] if w[0] else []

    def cuCtxGetCurrent(self, w: Sequence[int]) -> None:
        put(w[0], ctypes.c_void_p, self.contexts[-1] if self.contexts else 0)

    def cuCtxGetDevice(self, w: Sequence[int]) -> None:
        put(w[0], ctypes.c_int, 0)

    def cuCtxSynchronize(self, w: Sequence[int]) -> None:
        self.gpu.drain()

    def cuStreamSynchronize(self, w: Sequence[int]) -> None:
        self.gpu.drain()

    def cuStreamGetCtx(self, w: Sequence[int]) -> None:
        put(w[1], ctypes.c_void_p, self.context)

    # Code.

    def cuLibraryLoadData(self, w: Sequence[int]) -> None:
        self.gpu.drain()  # loading waits for the GPU
        put(w[0], ctypes.c_void_p, self.handle(images_of(elf_bytes(w[1]), "the loaded library")))

    def cuLibraryUnload(self, w: Sequence[int]) -> None:
        del self.handles[w[0]]

    def cuLibraryGetKernel(self, w: Sequence[int]) -> None:
        name = ctypes.string_at(w[2]).decode()
        if name not in self.handles[w[1]]:
            raise CudaError("NOT_FOUND")
        put(w[0], ctypes.c_void_p, self.handle(self.handles[w[1]][name]))

    def cuKernelGetFunction(self, w: Sequence[int]) -> None:
        put(w[0], ctypes.c_void_p, w[1])

    def cuKernelGetLibrary(self, w: Sequence[int]) -> None:
        raise CudaError("NOT_SUPPORTED")

    def cuKernelGetAttribute(self, w: Sequence[int]) -> None:
        image = self.handles[w[2]]
        known = {0: 1024, 1: image.shared_bytes, 2: 0, 3: image.local_bytes, 4: image.registers}
        put(w[0], ctypes.c_int, known.get(w[1], 0))

    def cuKernelSetAttribute(self, w: Sequence[int]) -> None: ...

    def cuKernelGetParamInfo(self, w: Sequence[int]) -> None:
        parameters = self.handles[w[0]].parameters
        if w[1] >= len(parameters):
            raise CudaError("INVALID_VALUE")
        put(w[2], ctypes.c_size_t, parameters[w[1]].offset)
        put(w[3], ctypes.c_size_t, parameters[w[1]].size)

    def cuLaunchKernelEx(self, w: Sequence[int]) -> None:
        shape = (ctypes.c_uint * 7).from_address(w[0])
        image = self.handles[w[1]]
        places = (ctypes.c_void_p * len(image.parameters)).from_address(w[2])
        words = [ctypes.string_at(place, p.size) for place, p in zip(places, image.parameters, strict=True)]
        (x, y, z), (bx, by, bz) = shape[:3], shape[3:6]
        self.gpu.launch(image, (x, y, z), (bx, by, bz), words)

    # Memory.

    def cuMemAlloc(self, w: Sequence[int]) -> None:
        put(w[0], ctypes.c_uint64, self.gpu.allocate(w[1]))

    def cuMemFree(self, w: Sequence[int]) -> None:
        self.gpu.free(w[0])

    def cuMemGetInfo(self, w: Sequence[int]) -> None:
        for address, value in zip(w, self.gpu.room(), strict=False):
            put(address, ctypes.c_size_t, value)

    def cuMemHostAlloc(self, w: Sequence[int]) -> None:
        put(w[0], ctypes.c_void_p, self.gpu.share(w[1]).address)

    def cuMemFreeHost(self, w: Sequence[int]) -> None:
        block = self.gpu.shared.pop(w[0])
        self.gpu.free(block.device)

    def cuMemHostGetDevicePointer(self, w: Sequence[int]) -> None:
        put(w[0], ctypes.c_uint64, self.gpu.shared[w[1]].device)

    def cuPointerGetAttribute(self, w: Sequence[int]) -> None:
        raise CudaError("INVALID_VALUE")

    def cuMemcpyHtoD(self, w: Sequence[int]) -> None:
        self.gpu.drain()
        self.gpu.bytes_at(w[0], w[2])[:] = np.frombuffer(ctypes.string_at(w[1], w[2]), dtype=np.uint8)

    cuMemcpyHtoDAsync = cuMemcpyHtoD

    def cuMemcpyDtoH(self, w: Sequence[int]) -> None:
        self.gpu.drain()
        ctypes.memmove(w[0], self.gpu.bytes_at(w[1], w[2]).tobytes(), w[2])

    cuMemcpyDtoHAsync = cuMemcpyDtoH

    # Events.

    def cuEventCreate(self, w: Sequence[int]) -> None:
        put(w[0], ctypes.c_void_p, self.handle(DriverEvent()))

    def cuEventDestroy(self, w: Sequence[int]) -> None:
        del self.handles[w[0]]

    def cuEventRecord(self, w: Sequence[int]) -> None:
        self.gpu.record(self.handles[w[0]])

    def cuEventSynchronize(self, w: Sequence[int]) -> None:
        self.gpu.drain()

    def cuEventQuery(self, w: Sequence[int]) -> None:
        if self.handles[w[0]].at is None:
            raise CudaError("NOT_READY")

    def cuEventElapsedTime(self, w: Sequence[int]) -> None:
        begin, end = self.handles[w[1]].at, self.handles[w[2]].at
        if begin is None or end is None:
            raise CudaError("NOT_READY")
        put(w[0], ctypes.c_float, (end - begin) * 1e3)


def results() -> dict[str, int]:
    """The driver's errors by name."""
    from cuda.bindings import driver

    return {r.name.removeprefix("CUDA_ERROR_"): int(r) for r in driver.CUresult}


def attributes(simulated: DrivenGpu) -> dict[int, int]:
    """What the driver tells of the device, by the number of the attribute."""
    from cuda.bindings import driver

    gpu = simulated.gpu
    major, minor = map(int, gpu.compute_capability.split("."))
    told = {
        "COMPUTE_CAPABILITY_MAJOR": major,
        "COMPUTE_CAPABILITY_MINOR": minor,
        "MULTIPROCESSOR_COUNT": gpu.integer("gpu.sms"),
        "MAX_THREADS_PER_MULTIPROCESSOR": 32 * gpu.integer("sm.max_warps"),
        "MAX_THREADS_PER_BLOCK": 1024,
        "L2_CACHE_SIZE": gpu.integer("l2.bytes"),
        "WARP_SIZE": 32,
        "PCI_DOMAIN_ID": 0,
        "PCI_BUS_ID": 7,
        "PCI_DEVICE_ID": 0,
        "CAN_MAP_HOST_MEMORY": 1,
        "UNIFIED_ADDRESSING": 1,
        "COOPERATIVE_LAUNCH": 1,
        "MEMORY_POOLS_SUPPORTED": 0,
    }
    return {int(getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{n}")): v for n, v in told.items()}
