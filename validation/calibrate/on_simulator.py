"""A simulated GPU for the CUDA suite: its own kernels' machine code, launched with its own plan. Behind
``smlab bench run --on-simulator``, and under the trials of a calibration."""

from __future__ import annotations

from functools import lru_cache

from smlab.hw_bench.cuda.contract.compiler import Compiled, compile_kernel
from smlab.hw_bench.cuda.kernels.spec import KernelSpec
from smlab.hw_bench.cuda.measuring.plan import DeviceLimits
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.image import KernelImage, read_image
from smlab.sim import Record
from smlab.sim.execution.device import SimulatedDevice
from smlab.sim.execution.run import run_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch


class BenchmarkGpu(SimulatedDevice):
    """What the suite asks of a GPU, answered by the simulator; clocks are those of the description."""

    def __init__(self, gpu: Gpu) -> None:
        architecture = gpu.sm_architecture
        self.compiled = lru_cache(maxsize=None)(lambda spec: _compiled(spec, architecture))
        self.gpu = gpu
        self.remark = f"SIMULATED by smlab on its description of {gpu.name}, not measured"
        self.limits = DeviceLimits(
            name=f"simulated {gpu.name}",
            compute_capability=gpu.compute_capability,
            sms=gpu.integer("gpu.sms"),
            max_warps=gpu.integer("sm.max_warps"),
            l2_bytes=gpu.integer("l2.bytes"),
        )
        super().__init__(self._image, self._execute)

    def cubin(self, spec: KernelSpec) -> bytes:
        """The machine code that runs."""
        found: Compiled = self.compiled(spec)
        return found.cubin

    def _image(self, spec: KernelSpec) -> KernelImage:
        found: Compiled = self.compiled(spec)
        return read_image(found.cubin, found.function)

    def _execute(self, launch: MachineLaunch) -> float:
        return run_machine_code(launch, self.gpu, keep=Record.TOTALS).seconds


@lru_cache(maxsize=256)
def _compiled(spec: KernelSpec, architecture: str) -> Compiled:
    """Once for all GPUs of an architecture."""
    return compile_kernel(spec, architecture)
