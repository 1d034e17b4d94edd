"""Simulated kernels against their ceilings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import Floats, KernelWork
from smlab.models.roofline.ceilings import Ceilings, CeilingSwitches, ceilings
from smlab.sim.address_patterns import Strided
from smlab.sim.machine import Machine
from smlab.sim.workloads.workload import Instruction, Kernel, Loop, Program
from smlab.validation.campaigns.projection.kernels import DrawnKernel

EXACT: Final = 1e-4
"""How far a simulated kernel may be beyond a bound: bandwidths are rounded to ticks of 2^-20 cycles, which is
2e-5 of the shortest. A profiler's counters need far more room; simulated ones are exact."""


@dataclass(frozen=True, eq=False)
class Beaten:
    """Kernels against their ceilings on one GPU; arrays (kernels,).

    ``of_bound`` is the least time by any resource over the measured time: above 1 something is wrong.
    ``of_eq3`` is the achieved FLOP/s over the published peak ceiling (NaN without FLOPs), ``of_eq678`` the
    largest time by the published bandwidth ceilings over the measured time: above 1 they are no ceilings of
    this kernel.
    """

    gpu: Gpu
    limiter: NDArray[np.object_]
    of_bound: Floats
    of_eq3: Floats
    of_eq678: Floats

    @property
    def violations(self) -> NDArray[np.int64]:
        """The kernels faster than a bound."""
        return np.flatnonzero(self.of_bound > 1 + EXACT)

    @property
    def beats_published(self) -> NDArray[np.bool_]:
        """The kernels faster than a published ceiling, (kernels,)."""
        return np.asarray(
            (np.nan_to_num(self.of_eq3) > 1 + EXACT) | (np.nan_to_num(self.of_eq678) > 1 + EXACT)
        )

    @property
    def beyond(self) -> Floats:
        """How many times as fast as its published ceilings each kernel is, (kernels,)."""
        return np.fmax(np.nan_to_num(self.of_eq3), np.nan_to_num(self.of_eq678))


def judge_ceilings(work: KernelWork, gpu: Gpu) -> Beaten:
    """Simulated kernels against the bounds and the published ceilings of the GPU that they ran on."""
    own = ceilings(work, gpu, "spec")
    published = ceilings(work, gpu, "spec", CeilingSwitches(issue=False, parallelism=False))
    return Beaten(
        gpu=gpu,
        limiter=own.limiter,
        of_bound=own.bound_s / work.seconds,
        of_eq3=published.achieved_flops_per_s / published.peak_ceiling,
        of_eq678=_memory_seconds(published, work) / work.seconds,
    )


def _memory_seconds(c: Ceilings, work: KernelWork) -> Floats:
    """The largest time that Eq. 6 to 8 give: the bytes that pass a level, over the bandwidth ceiling
    there."""
    through = work.level_bytes.copy()
    through[:, 0] += np.nan_to_num(work.shared_bytes)
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds = np.where(c.bandwidth_ceilings > 0, through / c.bandwidth_ceilings, np.nan)
    return np.asarray(np.max(np.nan_to_num(seconds), axis=1))


def atomics_beside_loads(machine: Machine) -> DrawnKernel:
    """Shared loads without conflict and shared atomics at once: together they ask for all that the banks
    have.

    Both pass one data stage (SEMANTICS.md, 6.5). It is no part of any regime, and none of those has shared
    atomics.
    """
    loads = [Instruction("shared-load", shared=Strided(1)) for _ in range(5)]
    body = (*loads, Instruction("atomic-add", shared=Strided(1), returns=False))
    program = Program("p", (Loop(100, body),))
    kernel = Kernel("atomics beside loads", (program,), ((0,) * 16,), 4 * machine.sms, 8192)
    return DrawnKernel("atomics beside loads", kernel, 0)
