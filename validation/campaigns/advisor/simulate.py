"""Running machine code for the judges of the advisor: jittered latencies, any policy, one producer made
free.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.pc_samples.samples import (
    KernelSamples,
)
from smlab.sim import Record
from smlab.sim.execution.source import lower_machine_code
from smlab.sim.instructions import CLASSES, Reason
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.lowering import LoweredKernel
from smlab.sim.machine import Machine, PipeTiming, machine_from
from smlab.sim.options import by_keywords
from smlab.sim.simulate import DEFAULT_ENGINE, ENGINES
from smlab.validation.campaigns.advisor.stall_truth import StallTruth, stall_truth
from smlab.validation.sampled_run import Executed

POLICIES: Final = ("gto", "gty", "lrr", "oldest")
"""Those that the judged runs are made under; the truth of a producer's gain is their mean."""
LEAST, MOST = 0.7, 1.4
"""Between these a jittered latency lies, as a share of the described one."""
SMS: Final = 4
"""SMs that kernels run on; they have their share of L2 and DRAM
(`smlab.sim.workloads.histogram.share_of`)."""
_FREE: Final = "free"


class JudgedRun(Executed):
    """A run whose true producers of stalls are known."""

    @cached_property
    def truth(self) -> StallTruth:
        return stall_truth(self.result, self.lowered)

    def every_warp_cycle(self) -> KernelSamples:
        """All warp-cycles in place of samples: what sampling tends to, but for its weighting by scheduler.

        Nothing is known of the scheduler in this form, so every stalled cycle counts as latency.
        """
        stalls = self.result.instruction_stalls
        assert stalls is not None
        waiting = stalls.copy()
        waiting[:, [Reason.SELECTED, Reason.NOT_SELECTED]] = 0
        return self.as_samples(stalls, waiting, 1)


@dataclasses.dataclass(frozen=True)
class ExecuteOptions:
    """Keywords of `execute`."""

    policy: str | None = None
    jitter_seed: int | None = None
    free: int | None = None
    sms: int = SMS
    keep: Record = Record.ALL
    engine: str = DEFAULT_ENGINE


@by_keywords(ExecuteOptions)
def execute(launch: MachineLaunch, gpu: Gpu, options: ExecuteOptions) -> JudgedRun:
    """Run a whole launch on some SMs of a description that has their share of the rest.

    ``free`` is an instruction that costs nothing: it issues, its result is there a cycle later, and it enters
    no unit.
    """
    machine = machine_from(gpu, options.policy)
    if options.jitter_seed is not None:
        machine = jittered(machine, options.jitter_seed)
    lowered = lower_machine_code(launch, machine, min(options.sms, launch.blocks))
    if options.free is not None:
        lowered = freed(lowered, options.free)
    return JudgedRun(launch, lowered, options.sms, ENGINES[options.engine](lowered, options.keep, None, None))


def jittered(machine: Machine, seed: int) -> Machine:
    """Every latency that hardware does not fix, times a factor of its own; those that the compiler's stall
    counts rely on stay."""
    random = np.random.default_rng(seed)

    def scaled(cycles: int) -> int:
        return max(1, round(cycles * float(random.uniform(LEAST, MOST))))

    l1 = scaled(machine.l1_latency_cycles)
    l2 = max(scaled(machine.l2_latency_cycles), l1 + 40)
    return dataclasses.replace(
        machine,
        access_latency_cycles={
            name: max(scaled(cycles), machine.front_cycles + 2)
            for name, cycles in machine.access_latency_cycles.items()
        },
        l1_latency_cycles=l1,
        l2_latency_cycles=l2,
        dram_latency_cycles=max(scaled(machine.dram_latency_cycles), l2 + 80),
        atomics={
            name: dataclasses.replace(timing, latency_cycles=scaled(timing.latency_cycles))
            for name, timing in machine.atomics.items()
        },
        pipes={
            name: dataclasses.replace(timing, latency_cycles=scaled(timing.latency_cycles))
            if name == "sfu"
            else timing
            for name, timing in machine.pipes.items()
        },
    )


def freed(lowered: LoweredKernel, number: int) -> LoweredKernel:
    """The kernel with one instruction made free."""
    nothing = dataclasses.replace(CLASSES["control"], pipe=_FREE, timing=_FREE)
    machine = dataclasses.replace(
        lowered.machine, pipes={**lowered.machine.pipes, _FREE: PipeTiming(1, 1, False)}
    )
    (program,) = lowered.programs
    operations = list(program.operations)
    operations[number] = dataclasses.replace(operations[number], cls=nothing, base_work=0, pass_work=0)
    changed = dataclasses.replace(program, code=tuple(operations), operations=tuple(operations))
    return dataclasses.replace(lowered, machine=machine, programs=(changed,))
