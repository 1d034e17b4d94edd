"""What PC sampling and a profiler's throughput counters would tell of a simulated launch of machine code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.pc_samples.samples import (
    RESOURCES,
    InstructionSamples,
    KernelSamples,
    LaunchFacts,
    reason_of,
)
from smlab.hw_bench.sass.effects import access_words
from smlab.sim import SimResult
from smlab.sim.execution.pc_sampling import SampleTable, sample
from smlab.sim.execution.run import MachineRun
from smlab.sim.instructions import CLASSES, Reason, Unit
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.lowering import LoweredKernel
from smlab.sim.machine import TICKS_PER_CYCLE


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

    def table(self, period_cycles: int | None = None, first_cycle: int = 0) -> SampleTable:
        count, schedulers = len(self.launch.code), self.lowered.machine.schedulers
        return sample(self.result, count, schedulers, period_cycles, first_cycle)

    def samples(self, period_cycles: int | None = None, first_cycle: int = 0) -> KernelSamples:
        """What PC sampling would give."""
        table = self.table(period_cycles, first_cycle)
        return self.as_samples(table.stalled, table.not_issued, table.period_cycles)

    def as_samples(
        self, stalled: NDArray[np.int64], waiting: NDArray[np.int64], period: int
    ) -> KernelSamples:
        """The samples that ``stalled`` and ``waiting`` (instructions, reasons) amount to."""
        executions = self.result.instruction_executions
        assert executions is not None
        rows, passes = [], self.passes()
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
            device=self.lowered.machine.name,
            launch=self.facts,
            period_cycles=period,
            busy={name: share for name, share in self.busy.items() if name in RESOURCES},
            excess=self._excess(),
        )

    @cached_property
    def busy(self) -> dict[str, float]:
        """Shares of the time in which each resource works, as a profiler's throughput counters give them; and
        the tensor cores, which files of samples do not have."""
        result, machine = self.result, self.lowered.machine
        time, sms = result.cycles, self.lowered.kernel.sms
        jobs, memory = result.jobs, result.memory
        assert jobs is not None
        sectors = sum(s.l1_sector_misses + s.l1_store_sectors for s in result.sms)
        l2 = memory.l2_sector_hits + memory.l2_sector_misses + self._atomic_sectors()
        told = {
            "issue": result.warp_instructions / (time * sms * machine.schedulers),
            "port": sectors * machine.port_sector_ticks / TICKS_PER_CYCLE / (time * sms),
            # A slice may be full while the way to L2 is not.
            "l2": max(l2 * machine.l2_sector_ticks, memory.l2_busiest_slice_ticks) / TICKS_PER_CYCLE / time,
            "dram": memory.dram_sectors * machine.dram_sector_ticks / TICKS_PER_CYCLE / time,
        }
        stage = np.array([machine.stage_ticks(cls) for cls in CLASSES.values()])[jobs.op] / TICKS_PER_CYCLE
        passes_cycles = np.maximum(jobs.passes * stage, machine.request_interval_cycles)
        told["memory"] = float(passes_cycles.sum()) / (time * sms)
        told["atomic"] = sum(s.atomic_occupied_cycles for s in result.sms) / (
            time * sms * machine.atomic_pipes
        )
        executions = result.instruction_executions
        assert executions is not None
        for operation, (times, _) in zip(self.lowered.programs[0].operations, executions, strict=True):
            pipe = operation.cls.pipe
            if operation.cls.unit is Unit.PIPE and pipe in (*RESOURCES, "tensor"):
                timing = operation.pipe or machine.pipes[operation.cls.timing]
                taken = timing.interval_cycles + timing.fraction_ticks / TICKS_PER_CYCLE
                each = sms * (1 if timing.per_sm else machine.schedulers)
                told[pipe] = told.get(pipe, 0.0) + float(times) * taken / (time * each)
        return {name: share for name, share in told.items() if share > 0}

    def _atomic_sectors(self) -> float:
        """What atomics on global memory take of L2 beyond what as many plain sectors would, in sectors: their
        lanes are taken to be thrown at random on the sectors of their lines."""
        machine, executions = self.lowered.machine, self.result.instruction_executions
        assert executions is not None
        beyond = machine.l2_atomic_sector_ticks / machine.l2_sector_ticks - 1
        passes, found = self.passes(), 0.0
        for n, micro in enumerate(self.launch.code):
            if CLASSES[micro.cls].operation in ("reduce", "atomic"):
                times, lanes = (float(x) for x in executions[n])
                places = machine.sectors_per_line * passes.get(n, 0.0)
                if times and places:
                    found += beyond * times * places * (1 - (1 - 1 / places) ** (lanes / times))
        return found

    def passes(self) -> dict[int, float]:
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
            blocks=self.lowered.kernel.blocks,  # of a part of a grid those that ran
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
