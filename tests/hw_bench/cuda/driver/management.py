"""The management library's functions, as `libnvidia_ml.c` forwards them."""

from __future__ import annotations

import ctypes
import uuid
from collections.abc import Sequence
from typing import Final

from driven_gpu import DrivenGpu
from driver import UUID, put, put_text

DEVICE: Final = 0x77
GPU_UUID: Final = f"GPU-{uuid.UUID(bytes=UUID)}"
OK, UNSUPPORTED, NOT_FOUND = 0, 3, 6
SM, POWER_CAP = 1, 0x4
NUMBERS: Final = {
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetComputeMode": 0,
    "nvmlDeviceGetPowerManagementLimit": 400_000,
    "nvmlDeviceGetPowerUsage": 123_000,
}


class Management:
    """Answers the queries about the one GPU. It has no multi-instance mode and does not know that query."""

    def __init__(self, gpu: DrivenGpu) -> None:
        self.gpu = gpu

    def __call__(self, name: str, w: Sequence[int]) -> int:
        if (failed := self.gpu.faults.managing(name)) is not None:
            return failed
        if name in NUMBERS:
            put(w[1], ctypes.c_uint, NUMBERS[name])
            return OK
        told = getattr(self, name, None)
        return UNSUPPORTED if told is None else told(w)

    def nvmlInitWithFlags(self, w: Sequence[int]) -> int:
        return OK

    def nvmlSystemGetDriverVersion(self, w: Sequence[int]) -> int:
        put_text(w[0], b"575.57", w[1])
        return OK

    def nvmlDeviceGetCount_v2(self, w: Sequence[int]) -> int:
        put(w[0], ctypes.c_uint, 1)
        return OK

    def nvmlDeviceGetHandleByUUID(self, w: Sequence[int]) -> int:
        if ctypes.string_at(w[0]).decode() != GPU_UUID:
            return NOT_FOUND
        put(w[1], ctypes.c_void_p, DEVICE)
        return OK

    def nvmlDeviceGetUUID(self, w: Sequence[int]) -> int:
        put_text(w[1], GPU_UUID.encode(), w[2])
        return OK

    def nvmlDeviceGetEccMode(self, w: Sequence[int]) -> int:
        put(w[1], ctypes.c_uint, 1)
        put(w[2], ctypes.c_uint, 1)
        return OK

    def nvmlDeviceGetTemperature(self, w: Sequence[int]) -> int:
        put(w[2], ctypes.c_uint, 41)
        return OK

    def nvmlDeviceGetClockInfo(self, w: Sequence[int]) -> int:
        put(w[2], ctypes.c_uint, self._mhz(w[1], self.gpu.faults.slowness(self.gpu)))
        return OK

    def nvmlDeviceGetMaxClockInfo(self, w: Sequence[int]) -> int:
        put(w[2], ctypes.c_uint, self._mhz(w[1], 1.0))
        return OK

    nvmlDeviceGetApplicationsClock = nvmlDeviceGetMaxClockInfo

    def _mhz(self, clock: int, factor: float) -> int:
        return round(float(self.gpu.gpu.number("clock.sm_hz")) * factor / 1e6) if clock == SM else 1215

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, w: Sequence[int]) -> int:
        slow = self.gpu.faults.slowness(self.gpu) < 1
        put(w[1], ctypes.c_uint64, POWER_CAP if slow else 0)
        return OK

    def nvmlDeviceGetComputeRunningProcesses_v3(self, w: Sequence[int]) -> int:
        put(w[1], ctypes.c_uint, 0)
        return OK
