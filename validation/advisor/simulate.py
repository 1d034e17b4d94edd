"""Running machine code for the advisor: jittered latencies, any policy, samples, one producer made free."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.samples import (
    RESOURCES,
    InstructionSamples,
    KernelSamples,
    LaunchFacts,
    reason_of,
)
from smlab.hw_bench.sass.effects import access_words
from smlab.sim import Record, SimResult
from smlab.sim.instructions import CLASSES, Reason, Unit
from smlab.sim.lowering import LoweredKernel
from smlab.sim.machine import TICKS_PER_CYCLE, Machine, PipeTiming, machine_from
from smlab.sim.machine_code.launch import MachineLaunch
from smlab.sim.machine_code.run import MachineRun
from smlab.sim.machine_code.samples import SampleTable, sample
from smlab.sim.machine_code.source import lower_machine_code
from smlab.sim.simulate import DEFAULT_ENGINE, ENGINES
from smlab.validation.advisor.truth import StallTruth, stall_truth

LEAST, MOST = 0.7, 1.4
"""Between these a jittered latency lies, as a share of the described one."""
SMS: Final = 4
"""SMs that kernels run on; they have their share of L2 and DRAM (`smlab.sim.histogram.share_of`)."""
_FREE: Final = "free"


@dataclass(frozen=True)
class Executed:
    """A simulated launch with what the advisor and its judges need of it."""

    launch: MachineLaunch
    lowered: LoweredKernel
    sms: int
    result: SimResult

    @property
    def cycles(self) -> int:
        return self.result.cycles

    @cached_property
    def truth(self) -> StallTruth:
        return stall_truth(self.result, self.lowered)

    def table(self, period_cycles: int | None = None, first_cycle: int = 0) -> SampleTable:
        count, schedulers = len(self.launch.code), self.lowered.machine.schedulers
        return sample(self.result, count, schedulers, period_cycles, first_cycle)

    def samples(self, period_cycles: int | None = None, first_cycle: int = 0) -> KernelSamples:
        """What PC sampling would give."""
        table = self.table(period_cycles, first_cycle)
        return self._as_samples(table.stalled, table.not_issued, table.period_cycles)

    def every_warp_cycle(self) -> KernelSamples:
        """All warp-cycles in place of samples: what sampling tends to, but for its weighting by scheduler.

        Nothing is known of the scheduler in this form, so every stalled cycle counts as latency.
        """
        stalls = self.result.instruction_stalls
        assert stalls is not None
        waiting = stalls.copy()
        waiting[:, [Reason.SELECTED, Reason.NOT_SELECTED]] = 0
        return self._as_samples(stalls, waiting, 1)

    def _as_samples(
        self, stalled: NDArray[np.int64], waiting: NDArray[np.int64], period: int
    ) -> KernelSamples:
        executions = self.result.instruction_executions
        assert executions is not None
        rows, passes = [], self._passes()
        for n, micro in enumerate(self.launch.code):
            times, lanes = (int(x) for x in executions[n])
            source = micro.instruction.source
            rows.append(
                InstructionSamples(
                    micro.instruction.address,
                    str(micro.instruction),
                    None if source is None else source.outermost.line,
                    {reason_of(r.label): int(stalled[n, r]) for r in Reason if stalled[n, r]},
                    {reason_of(r.label): int(waiting[n, r]) for r in Reason if waiting[n, r]},
                    times,
                    lanes / times if times else None,
                    passes.get(n),
                )
            )
        return KernelSamples(
            kernel=self.launch.where,
            rows=tuple(rows),
            where=f"{self.launch.where} on {self.lowered.machine.name}",
            architecture=self.launch.image.function.architecture,
            launch=self.facts,
            period_cycles=period,
            busy=self.busy,
            excess=self._excess(),
        )

    @cached_property
    def busy(self) -> dict[str, float]:
        """Shares of the time in which each resource works, as a profiler's throughput counters give them."""
        result, machine = self.result, self.lowered.machine
        time, sms = result.cycles, self.lowered.kernel.sms
        jobs, memory = result.jobs, result.memory
        assert jobs is not None
        sectors = sum(s.l1_sector_misses + s.l1_store_sectors for s in result.sms)
        l2 = memory.l2_sector_hits + memory.l2_sector_misses + self._atomic_sectors()
        told = {
            "issue": result.warp_instructions / (time * sms * machine.schedulers),
            "port": sectors * machine.port_sector_ticks / TICKS_PER_CYCLE / (time * sms),
            "l2": l2 * machine.l2_sector_ticks / TICKS_PER_CYCLE / time,
            "dram": memory.dram_sectors * machine.dram_sector_ticks / TICKS_PER_CYCLE / time,
        }
        stage = np.array([machine.stage_ticks(unit) for unit in Unit])[jobs.unit] / TICKS_PER_CYCLE
        taken = np.maximum(jobs.passes * stage, machine.request_interval_cycles)
        told["memory"] = float(taken.sum()) / (time * sms)
        told["atomic"] = sum(s.atomic_occupied_cycles for s in result.sms) / (
            time * sms * machine.atomic_pipes
        )
        executions = result.instruction_executions
        assert executions is not None
        for operation, (times, _) in zip(self.lowered.programs[0].operations, executions, strict=True):
            pipe = operation.cls.pipe
            if operation.cls.unit is Unit.PIPE and pipe in RESOURCES:
                timing = machine.pipes[operation.cls.timing]
                each = sms * (1 if timing.per_sm else machine.schedulers)
                told[pipe] = told.get(pipe, 0.0) + float(times) * timing.interval_cycles / (time * each)
        return {name: share for name, share in told.items() if share > 0}

    def _atomic_sectors(self) -> float:
        """What atomics on global memory take of L2 beyond what as many plain sectors would, in sectors: their
        lanes are taken to be thrown at random on the sectors of their lines."""
        machine, executions = self.lowered.machine, self.result.instruction_executions
        assert executions is not None
        beyond = machine.l2_atomic_sector_ticks / machine.l2_sector_ticks - 1
        passes, found = self._passes(), 0.0
        for n, micro in enumerate(self.launch.code):
            if CLASSES[micro.cls].operation in ("reduce", "atomic"):
                times, lanes = (float(x) for x in executions[n])
                places = machine.sectors_per_line * passes.get(n, 0.0)
                if times and places:
                    found += beyond * times * places * (1 - (1 - 1 / places) ** (lanes / times))
        return found

    def _passes(self) -> dict[int, float]:
        """Mean passes of each access through the data stage; of global ones, lines."""
        jobs = self.result.jobs
        assert jobs is not None
        count = np.bincount(jobs.slot, minlength=len(self.launch.code))
        total = np.bincount(jobs.slot, weights=jobs.passes, minlength=len(self.launch.code))
        return {int(n): float(total[n] / count[n]) for n in np.nonzero(count)[0]}

    def _excess(self) -> dict[str, float]:
        """Sectors that global accesses move at each level over those that their bytes fill."""
        executions = self.result.instruction_executions
        assert executions is not None
        needed = 0.0
        for micro, (times, lanes) in zip(self.launch.code, executions, strict=True):
            if CLASSES[micro.cls].unit is Unit.GLOBAL and times:
                width = 4 * access_words(micro.instruction)
                needed += times * max(1.0, lanes / times * width / self.lowered.machine.sector_bytes)
        if not needed:
            return {}
        sent = sum(s.l1_sector_misses + s.l1_store_sectors for s in self.result.sms)
        return {"l2": sent / needed, "dram": self.result.memory.dram_sectors / needed}

    @property
    def facts(self) -> LaunchFacts:
        launch, machine = self.launch, self.lowered.machine
        result = self.result
        area = sum(sm.resident_warp_cycles for sm in result.sms)
        active = sum(sm.active_cycles for sm in result.sms)
        return LaunchFacts(
            blocks=launch.blocks,
            threads_per_block=launch.threads,
            registers_per_thread=launch.image.registers,
            shared_bytes_per_block=launch.shared_bytes,
            sms=self.sms,
            warps_per_scheduler=area / max(1, active) / machine.schedulers,
            cycles=float(result.cycles),
        )


def executed(run: MachineRun, gpu: Gpu) -> Executed:
    """A run of the front door, recorded with `Record.ALL`, for the advisor."""
    sms = gpu.integer("gpu.sms") if run.whole else run.sms
    return Executed(run.launch, run.lowered, sms, run.result)


def execute(
    launch: MachineLaunch,
    gpu: Gpu,
    *,
    policy: str | None = None,
    jitter_seed: int | None = None,
    free: int | None = None,
    sms: int = SMS,
    keep: Record = Record.ALL,
    engine: str = DEFAULT_ENGINE,
) -> Executed:
    """Run a whole launch on some SMs of a description that has their share of the rest.

    ``free`` is an instruction that costs nothing: it issues, its result is there a cycle later, and it enters
    no unit.
    """
    machine = machine_from(gpu, policy)
    if jitter_seed is not None:
        machine = jittered(machine, jitter_seed)
    lowered = lower_machine_code(launch, machine, min(sms, launch.blocks))
    if free is not None:
        lowered = freed(lowered, free)
    return Executed(launch, lowered, sms, ENGINES[engine](lowered, keep, None, None))


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
