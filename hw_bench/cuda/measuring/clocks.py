"""What the GPU's clocks were, and whether it was held back, through NVIDIA's management library where that
is installed."""

from __future__ import annotations

import importlib
import os
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from smlab.hw_bench.cuda.toolkit import one_line

_SLOWDOWNS: Final = {
    "nvmlClocksThrottleReasonSwPowerCap": "power cap",
    "nvmlClocksThrottleReasonHwSlowdown": "hardware slowdown",
    "nvmlClocksThrottleReasonSwThermalSlowdown": "thermal slowdown",
    "nvmlClocksThrottleReasonHwThermalSlowdown": "hardware thermal slowdown",
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": "power brake",
}


@dataclass(frozen=True)
class ClockReading:
    """Clocks in MHz, temperature and power at one moment, and what held the GPU back, if anything; None for
    what this GPU or driver does not tell. ``of_library`` is false where a kernel measured the clock."""

    sm_mhz: int | None
    memory_mhz: int | None
    temperature_c: int | None
    power_w: float | None
    slowdowns: tuple[str, ...]
    of_library: bool = True

    @classmethod
    def measured(cls, sm_mhz: int | None, told: ClockReading | None) -> ClockReading:
        """A reading whose SM clock a kernel measured, with whatever else was ``told``."""
        if told is None:
            return cls(sm_mhz, None, None, None, (), of_library=False)
        return replace(told, sm_mhz=sm_mhz)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Clocks:
    """Reads one GPU's clocks and settings. Every reading is None where the package ``nvidia-ml-py`` or the
    driver does not serve it, each query by itself.

    The GPU is found by its ``uuid``, else by its ``pci_bus_id``: the management library counts GPUs that
    ``CUDA_VISIBLE_DEVICES`` hides, so a number would name another one. With neither, it is the only GPU there
    is, or none. ``there = False`` reads nothing: the clocks of a GPU that is simulated. ``missing`` says what
    was not told last, and why.
    """

    def __init__(self, uuid: str | None = None, pci_bus_id: str | None = None, *, there: bool = True) -> None:
        self._nvml: Any = None
        self._device: Any = None
        self.missing: str | None = None
        if not there:
            self.missing = "the GPU is simulated"
            return
        try:
            nvml = importlib.import_module("pynvml")
            nvml.nvmlInit()
        except Exception as error:  # the library has its own exceptions, which exist only when it does
            self.missing = one_line(error)
            return
        self._nvml = nvml
        self._device = self._handle(uuid, pci_bus_id)

    def _handle(self, uuid: str | None, pci_bus_id: str | None) -> Any:
        if uuid is not None and (device := self._ask("nvmlDeviceGetHandleByUUID", uuid)) is not None:
            return device
        if pci_bus_id is not None and (device := self._ask("nvmlDeviceGetHandleByPciBusId", pci_bus_id)):
            return device
        if uuid is None and pci_bus_id is None and self._ask("nvmlDeviceGetCount") == 1:
            return self._ask("nvmlDeviceGetHandleByIndex", 0)
        return None

    def _ask(self, query: str, *arguments: Any) -> Any:
        """What the library answers; None where it, the driver or the GPU does not know the query."""
        if self._nvml is None:
            return None
        try:
            answer = getattr(self._nvml, query)(*arguments)
        except (AttributeError, self._nvml.NVMLError) as error:
            self.missing = f"{query}: {one_line(error)}"
            return None
        return answer.decode() if isinstance(answer, bytes) else answer

    def _of_gpu(self, query: str, *arguments: str) -> Any:
        """As `_ask`, of the GPU; ``arguments`` name constants of the library."""
        if self._device is None:
            return None
        values = [getattr(self._nvml, name, None) for name in arguments]
        return None if None in values else self._ask(query, self._device, *values)

    @property
    def driver(self) -> str | None:
        version = self._ask("nvmlSystemGetDriverVersion")
        return None if version is None else str(version)

    def settings(self) -> dict[str, Any]:
        """What may explain a measurement later: which GPU exactly, how it was set up, who else was on it.

        The library does not tell whether clocks are locked: the clock that was measured beside the highest
        one does (`timing.clock_rate`).
        """
        ecc = self._of_gpu("nvmlDeviceGetEccMode")
        mig = self._of_gpu("nvmlDeviceGetMigMode")
        limit = self._of_gpu("nvmlDeviceGetPowerManagementLimit")
        processes = self._of_gpu("nvmlDeviceGetComputeRunningProcesses")
        return {
            "uuid": self._of_gpu("nvmlDeviceGetUUID"),
            "ecc": None if ecc is None else bool(ecc[0]),
            "mig": None if mig is None else bool(mig[0]),
            "persistence": _flag(self._of_gpu("nvmlDeviceGetPersistenceMode")),
            "compute_mode": self._of_gpu("nvmlDeviceGetComputeMode"),
            "power_limit_w": None if limit is None else limit / 1e3,
            "application_sm_mhz": self._of_gpu("nvmlDeviceGetApplicationsClock", "NVML_CLOCK_SM"),
            "application_memory_mhz": self._of_gpu("nvmlDeviceGetApplicationsClock", "NVML_CLOCK_MEM"),
            "max_sm_mhz": self._of_gpu("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM"),
            "max_memory_mhz": self._of_gpu("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_MEM"),
            "other_processes": None if processes is None else sum(p.pid != os.getpid() for p in processes),
        }

    def read(self) -> ClockReading | None:
        """The clocks now; None where nothing is told."""
        if self._device is None:
            return None
        reasons = self._of_gpu("nvmlDeviceGetCurrentClocksThrottleReasons") or 0
        power_mw = self._of_gpu("nvmlDeviceGetPowerUsage")
        reading = ClockReading(
            sm_mhz=self._of_gpu("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
            memory_mhz=self._of_gpu("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"),
            temperature_c=self._of_gpu("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
            power_w=None if power_mw is None else power_mw / 1e3,
            slowdowns=tuple(
                word for name, word in _SLOWDOWNS.items() if reasons & int(getattr(self._nvml, name, 0))
            ),
        )
        return None if reading == _NOTHING else reading


_NOTHING: Final = ClockReading(None, None, None, None, ())


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)
