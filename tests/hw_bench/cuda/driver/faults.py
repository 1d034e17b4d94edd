"""What may go wrong: which call or launch fails, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class CudaError(Exception):
    """A result of the driver other than success, by its name without ``CUDA_ERROR_``."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass
class Faults:
    """None, unless told: which ``kind``, and at which call or launch it strikes."""

    kind: str = ""
    at: int = 0

    def __post_init__(self) -> None:
        self.counts: dict[str, int] = {}

    def count(self, name: str) -> int:
        self.counts[name] = self.counts.get(name, 0) + 1
        return self.counts[name]

    def strike(self, name: str, gpu: Any) -> None:
        """A function of the driver is called."""
        if self.kind in CALLS:
            function, error, sticks = CALLS[self.kind]
            if name == function and self.count(name) >= self.at:
                if sticks:
                    gpu.lost = CudaError(error)
                raise CudaError(error)

    def executing(self, launch: int, gpu: Any) -> None:
        """A kernel begins on the GPU: what fails there spoils the context."""
        if self.kind in LAUNCHES and launch >= self.at:
            gpu.lost = CudaError(LAUNCHES[self.kind])

    def managing(self, name: str) -> int | None:
        """A function of the management library is called: the error that it answers, or None."""
        if self.kind not in QUERIES:
            return None
        function, error, first = QUERIES[self.kind]
        failed = name.startswith(function) and self.count(function) >= (first or self.at)
        return error if failed else None

    def slowness(self, gpu: Any) -> float:
        """By what the SM's clock runs slower."""
        return SLOW if self.kind in ("slow clock", "slow clock, untold") and gpu.launches >= self.at else 1.0


SLOW = 0.5
LAUNCHES = {
    "launch failure": "LAUNCH_FAILED",
    "illegal address": "ILLEGAL_ADDRESS",
    "launch timeout": "LAUNCH_TIMEOUT",
    "ECC error": "ECC_UNCORRECTABLE",
}
QUERIES = {
    "management lost": ("nvml", 15, 0),
    "management mismatch": ("nvmlInit", 18, 1),
    "slow clock, untold": ("nvmlInit", 9, 1),
}
"""Where the management library fails, how (GPU lost, versions differ, nothing loaded), and from which call
on; 0: from the one told."""
CALLS = {
    "context refused": ("cuDevicePrimaryCtxRetain", "DEVICE_UNAVAILABLE", False),
    "out of memory": ("cuMemAlloc", "OUT_OF_MEMORY", False),
    "reset midway": ("cuLaunchKernelEx", "CONTEXT_IS_DESTROYED", True),
    "copy failure": ("cuMemcpyDtoH", "UNKNOWN", False),
    "no such image": ("cuLibraryLoadData", "NO_BINARY_FOR_GPU", False),
    "launch out of resources": ("cuLaunchKernelEx", "LAUNCH_OUT_OF_RESOURCES", False),
    "no device": ("cuInit", "NO_DEVICE", True),
    "driver mismatch": ("cuInit", "SYSTEM_DRIVER_MISMATCH", True),
}
