"""What the GPU's clocks were, and whether it was held back, through NVIDIA's management library where that
is installed.

Whether the GPU was held back in a launch: by what its management library tells, or else by its clock.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from smlab.hw_bench.cuda.measuring.timing import clock_mhz, launches_not_held
from smlab.hw_bench.cuda.toolkit import one_line
from smlab.hw_bench.errors import SmlabError

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
    def measured(cls, sm_mhz: int | None, reading: ClockReading | None) -> ClockReading:
        """A reading whose SM clock a kernel measured, with whatever else was ``reading``."""
        if reading is None:
            return cls(sm_mhz, None, None, None, (), of_library=False)
        return replace(reading, sm_mhz=sm_mhz)

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


_SLOW: Final = 0.97
"""A launch counts as throttled when the SM clock behind it is below this share of the highest seen."""
_RETRIES: Final = 3
_BETWEEN_S: Final = 0.1
_RENEWED_S: Final = 0.01
"""Readings are this far apart at least. A GPU changes its clock no faster, and each of a reading's queries
takes a fraction of a millisecond: many times as long as a short launch."""


class Throttle:
    """Asked after a launch whether its seconds count. It remembers the highest clock seen, and tells when the
    GPU runs below it, says that it is held back, or began the launch before all of it was queued. A reading
    of the clocks serves the launches of the next ``renewed_s`` seconds.

    Where the management library does not tell the clock (there is none, or the GPU is split into instances),
    a short kernel does, in MHz: ``measured``.
    """

    def __init__(
        self,
        clocks: Clocks,
        measured: Callable[[], int | None] = clock_mhz,
        renewed_s: float = _RENEWED_S,
    ) -> None:
        self._clocks = clocks
        self._measured = measured
        self._renewed_s = renewed_s
        self._read_at_s = -renewed_s
        self._slow = False
        self._highest = 0
        self._not_held = launches_not_held()
        self.seen: list[ClockReading] = []

    def __call__(self) -> bool:
        late = launches_not_held() > self._not_held
        self._not_held = launches_not_held()
        if time.monotonic() - self._read_at_s >= self._renewed_s:
            self._slow = self._held_back()
            self._read_at_s = time.monotonic()
        return late or self._slow

    def _held_back(self) -> bool:
        """By a reading made now."""
        reading = self._clocks.read()
        if reading is None and any(r.of_library for r in self.seen):
            reading = self._read_again()
        if reading is None or reading.sm_mhz is None:
            measured = self._measured()
            if reading is None and measured is None:
                return False
            reading = ClockReading.measured(measured, reading)
        self.seen.append(reading)
        if reading.sm_mhz is None:
            return bool(reading.slowdowns)
        self._highest = max(self._highest, reading.sm_mhz)
        return bool(reading.slowdowns) or reading.sm_mhz < _SLOW * self._highest

    def _read_again(self) -> ClockReading:
        """A reading of the library, which gave one before.

        Raises:
            SmlabError: where it gives none any more, as of a GPU that is lost.
        """
        for _ in range(_RETRIES):
            time.sleep(_BETWEEN_S)
            if (reading := self._clocks.read()) is not None:
                return reading
        raise SmlabError(
            f"the GPU's clocks, read so far, cannot be read any more: {self._clocks.missing}; whether it is "
            "held back would not be known"
        )

    def describe(self, late: list[str]) -> str:
        """The message about batches that are not kept."""
        reasons = sorted({word for reading in self.seen for word in reading.slowdowns})
        slowest = min((r.sm_mhz for r in self.seen if r.sm_mhz is not None), default=None)
        why = ", ".join(reasons) or "a slow clock"
        clock = "" if slowest is None else f"; the SM ran at {slowest} to {self._highest} MHz"
        more = f" and {len(late) - 1} more" if len(late) > 1 else ""
        return (
            f"not kept, since the GPU was held back ({why}{clock}): {late[0]}{more}; --resume measures them "
            "again, --keep-held-back keeps them"
        )

    def as_json(self) -> dict[str, Any] | None:
        """The clocks of all readings."""
        if not self.seen:
            return None
        mhz = [reading.sm_mhz for reading in self.seen if reading.sm_mhz is not None]
        return {
            "readings": len(self.seen),
            "sm_mhz_min": min(mhz, default=None),
            "sm_mhz_median": float(np.median(mhz)) if mhz else None,
            "sm_mhz_max": max(mhz, default=None),
            "slowdowns": sorted({word for reading in self.seen for word in reading.slowdowns}),
        }
