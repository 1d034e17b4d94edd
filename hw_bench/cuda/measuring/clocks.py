"""What the GPU's clocks were, and whether it was held back, through NVIDIA's management library where that
is installed."""

from __future__ import annotations

import importlib
from dataclasses import asdict, dataclass
from typing import Any, Final

_SLOWDOWNS: Final = {
    "nvmlClocksThrottleReasonSwPowerCap": "power cap",
    "nvmlClocksThrottleReasonHwSlowdown": "hardware slowdown",
    "nvmlClocksThrottleReasonSwThermalSlowdown": "thermal slowdown",
    "nvmlClocksThrottleReasonHwThermalSlowdown": "hardware thermal slowdown",
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": "power brake",
}


@dataclass(frozen=True)
class ClockReading:
    """Clocks in MHz, temperature and power at one moment, and what held the GPU back, if anything."""

    sm_mhz: int
    memory_mhz: int
    temperature_c: int
    power_w: float
    slowdowns: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Clocks:
    """Reads one GPU's clocks; every reading is None where the package ``nvidia-ml-py`` or the driver does
    not serve it."""

    def __init__(self, index: int = 0) -> None:
        self._nvml: Any = None
        self._device: Any = None
        try:
            nvml = importlib.import_module("pynvml")
            nvml.nvmlInit()
            self._device = nvml.nvmlDeviceGetHandleByIndex(index)
            self._nvml = nvml
        except Exception:  # the library has its own exceptions, which exist only when it does
            self._nvml = None

    @property
    def driver(self) -> str | None:
        if self._nvml is None:
            return None
        version = self._nvml.nvmlSystemGetDriverVersion()
        return version.decode() if isinstance(version, bytes) else str(version)

    def read(self) -> ClockReading | None:
        if self._nvml is None:
            return None
        nvml, device = self._nvml, self._device
        try:
            reasons = int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device))
            return ClockReading(
                sm_mhz=int(nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM)),
                memory_mhz=int(nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_MEM)),
                temperature_c=int(nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU)),
                power_w=float(nvml.nvmlDeviceGetPowerUsage(device)) / 1e3,
                slowdowns=tuple(
                    word for name, word in _SLOWDOWNS.items() if reasons & int(getattr(nvml, name, 0))
                ),
            )
        except nvml.NVMLError:
            return None
