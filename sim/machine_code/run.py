"""Running a launch on a simulated GPU: whole, or some SMs and some waves of its blocks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.histogram import share_of
from smlab.sim.instructions import Reason
from smlab.sim.lowering import LoweredKernel
from smlab.sim.machine import Machine, machine_from
from smlab.sim.machine_code.elsewhere import Neighbours
from smlab.sim.machine_code.launch import MachineLaunch
from smlab.sim.machine_code.recording import Recording
from smlab.sim.machine_code.source import MachineSource, lower_machine_code
from smlab.sim.reference import Progress, Record
from smlab.sim.result import SimResult
from smlab.sim.simulate import DEFAULT_ENGINE, ENGINES
from smlab.sim.workload import blocks_per_sm

WAVES: Final = 4, 96
"""Waves of blocks that a sample runs, at least and at most: the first fills the SM, the last empties it, and
blocks that began together take some waves to get out of step."""
GRID_INSTRUCTIONS: Final = 6_000_000
"""Warp-instructions of the whole GPU in the waves of a sample, where that is more waves than the fewest."""
SAMPLES: Final = 3
UNSEEN: Final = 0.03
"""What a sample cannot see of how SMs meet in L2 and DRAM, as a part of the cycles."""
T_HALF_WIDTH: Final = 4.303
"""Student's t for 95 % with two degrees of freedom."""


@dataclass(frozen=True)
class InstructionCount:
    """What one instruction of the code did: executions by warps, active lanes in sum, warp-cycles by
    reason."""

    address: int
    line: int | None
    text: str
    executed: int
    lanes: int
    stalls: dict[str, int]

    @property
    def opcode(self) -> str:
        """The mnemonic up to its first modifier, without the guard."""
        words = self.text.split()
        return words[words[0].startswith("@")].split(".")[0]


@dataclass(frozen=True)
class TimedRun:
    """A kernel on a simulated GPU, executed or recorded elsewhere.

    ``cycles`` is the time of the whole grid, from ``cycles_low`` to ``cycles_high`` where it was sampled (a
    95 % interval from independent samples, how far they drift, and what no sample sees); ``result`` is what
    was simulated, the first sample. ``instructions`` and ``stalls`` are of that, and ``lowered`` is what was
    executed for it.
    ``dram_sectors_read`` is of the whole grid, as if L2 kept what blocks near each other share.
    """

    lowered: LoweredKernel
    result: SimResult
    cycles: float
    cycles_low: float
    cycles_high: float
    seconds: float
    sms: int
    blocks: int
    blocks_simulated: int
    instructions: tuple[InstructionCount, ...]
    dram_sectors_read: float

    @property
    def whole(self) -> bool:
        """Whether every block ran, so that the arrays hold what the kernel computes."""
        return self.blocks == self.blocks_simulated


@dataclass(frozen=True)
class MachineRun(TimedRun):
    """A launch of machine code on a simulated GPU."""

    launch: MachineLaunch

    @property
    def printed(self) -> str:
        """What the blocks that ran have printed with ``printf``."""
        return self.launch.printed


def run_machine_code(
    launch: MachineLaunch,
    gpu: Gpu,
    *,
    sms: int | str = "all",
    engine: str | None = None,
    policy: str | None = None,
    keep: Record = Record.ATOMICS,
    max_cycles: int | None = None,
    progress: Progress | None = None,
    recording: Recording | None = None,
) -> MachineRun:
    """Execute a launch, timed.

    ``sms`` is how many of the GPU's SMs run, ``all`` of them or fewer: then each runs some waves of blocks
    that it would get, with its share of the bandwidth of L2 and DRAM, three times with other blocks, and
    the grid's time follows. What their neighbours fetch is in L2 (`smlab.sim.machine_code.elsewhere`).

    A launch finds in L2 what the launches before it on the same `GlobalMemory` left there, as far as whole
    grids ran; memory of its own has never been in L2.

    ``recording`` writes down what every warp executes, of a whole grid.

    Raises:
        SmlabError: what cannot be executed, a fault of the kernel, ``max_cycles`` passed.
    """
    engine = engine or DEFAULT_ENGINE
    if engine not in ENGINES:
        raise SmlabError.at("engine", "unknown", engine, "one of " + ", ".join(ENGINES))
    all_sms = gpu.integer("gpu.sms")
    count = all_sms if sms == "all" else sms
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= all_sms:
        raise SmlabError.at("sms", "out of range", sms, f"1 to {all_sms}, or all")
    if count == all_sms:
        used = min(all_sms, launch.blocks)
        machine = machine_from(gpu, policy)
        lowered = lower_machine_code(launch, machine, used, recording)
        lowered = dataclasses.replace(lowered, l2=launch.memory.l2)
        result = ENGINES[engine](lowered, keep, max_cycles, progress)
        cycles = float(result.cycles)
        moved = float(result.memory.dram_sectors)
        return _told(
            launch, lowered, result, [GridEstimate(cycles)], machine.sm_hz, used, launch.blocks, moved
        )
    if recording is not None:
        raise SmlabError.at("sms", "a part of the grid is no recording of the kernel", sms, "all")
    launch.memory.l2.forget()  # what a part of the grid leaves in L2 tells nothing of the whole grid's
    return _sampled(launch, gpu, count, all_sms, engine, policy, keep, max_cycles, progress)


def _sampled(
    launch: MachineLaunch,
    gpu: Gpu,
    count: int,
    all_sms: int,
    engine: str,
    policy: str | None,
    keep: Record,
    max_cycles: int | None,
    progress: Progress | None,
) -> MachineRun:
    machine = _share_of_machine(launch, gpu, count, all_sms, policy)
    whole = lower_machine_code(launch, machine, count)
    room = blocks_per_sm(whole.kernel, machine)
    each = math.ceil(launch.blocks / all_sms)  # blocks that the busiest SM gets
    neighbours = Neighbours(launch, machine.sector_bytes)
    waves = GRID_INSTRUCTIONS // max(1, neighbours.block_instructions() * room * all_sms)
    # The last wave is as full as the whole run's: what is left out are whole waves.
    wanted = min(each, min(max(waves, WAVES[0]), WAVES[1]) * room + each % room) * count
    wanted = min(wanted, launch.blocks)
    estimates: list[GridEstimate] = []
    reads: list[float] = []
    first: tuple[LoweredKernel, SimResult] | None = None
    for sample in range(SAMPLES):
        chosen = _blocks_of(launch.blocks, all_sms, count, wanted, sample)
        if sample and np.array_equal(chosen, _blocks_of(launch.blocks, all_sms, count, wanted, 0)):
            break
        elsewhere = neighbours.fetched(chosen, room * all_sms)
        reads.append(elsewhere.read_each * launch.blocks)
        source = MachineSource(launch, count, chosen, elsewhere)
        kernel = dataclasses.replace(whole.kernel, blocks=len(chosen))
        lowered = dataclasses.replace(whole, kernel=kernel, source=source)
        result = ENGINES[engine](lowered, keep, max_cycles, progress)
        first = first or (lowered, result)
        estimates.append(_extended(result, launch.blocks / all_sms, count, room))
    assert first is not None
    return _told(launch, *first, estimates, machine.sm_hz, count, wanted, float(np.mean(reads)))


def _share_of_machine(
    launch: MachineLaunch, gpu: Gpu, count: int, all_sms: int, policy: str | None
) -> Machine:
    """The machine of ``count`` SMs with their share of what all share: bandwidth, and, for a kernel whose
    memory does not fit into L2, room in that (or else a sample would never write back what it stores)."""
    machine = machine_from(share_of(gpu, count), policy)
    lines = machine.l2.sets * machine.l2.ways
    local = 32 * launch.warps_per_block * launch.local_bytes
    if local:
        resident = blocks_per_sm(lower_machine_code(launch, machine, count).kernel, machine)
        local *= min(launch.blocks, all_sms * resident)
    if sum(len(a.content) for a in launch.allocations) + local <= lines * machine.line_bytes:
        return machine
    sets = max(1, round(machine.l2.sets * count / all_sms))
    return dataclasses.replace(machine, l2=dataclasses.replace(machine.l2, sets=sets))


def _blocks_of(blocks: int, all_sms: int, count: int, wanted: int, sample: int) -> np.ndarray:
    """Grid indices of the blocks of a sample: what ``count`` SMs of all get one after the other, from a
    wave of the sample's own on."""
    waves = np.arange(math.ceil(blocks / all_sms))
    start = (len(waves) * sample // SAMPLES) if len(waves) * count > wanted else 0
    filled = min(all_sms, blocks)  # SMs that get a block at all
    lanes = (np.arange(min(count, filled)) + sample * count) % filled
    order = (np.roll(waves, -start)[:, None] * all_sms + lanes[None, :]).reshape(-1)
    order = order[order < blocks]
    return order[:wanted].astype(np.int64)


@dataclass(frozen=True)
class GridEstimate:
    """The whole grid's cycles from one sample, and how far they would move had other waves of it been
    taken."""

    cycles: float
    drift_cycles: float = 0.0


def _extended(result: SimResult, mean_blocks: float, sms: int, room: int) -> GridEstimate:
    """The cycles of the busiest SM, when each has ``mean_blocks`` in the mean, from a run of fewer.

    Each place for a block is taken again as soon as it is free, so blocks follow each other on an SM at
    their mean time of residence over the number of places (Little's law), whether they are in step or not.
    The first wave (cold caches, in step) and the last (in which places stay empty) are left out of the
    mean.
    """
    simulated, each = len(result.blocks.sm) / sms, math.ceil(mean_blocks)
    # Whether the last block makes a difference depends on what the other SMs still have to do.
    last = (each - mean_blocks) * result.cycles / simulated
    if each <= simulated:
        return GridEstimate(float(result.cycles), last)
    order = np.lexsort((result.blocks.launch, result.blocks.sm))
    times, early, late = [], [], []
    for sm in np.unique(result.blocks.sm):
        mine = order[result.blocks.sm[order] == sm]
        middle = (result.blocks.retire - result.blocks.launch)[mine][room:-room]
        times.append(middle)
        early.append(middle[: len(middle) // 2])
        late.append(middle[len(middle) // 2 :])
    inner = np.concatenate(times)
    rest = each - simulated
    if not len(inner):
        rate = result.cycles / simulated
        return GridEstimate(float(result.cycles + rest * rate), max(last, rest * rate / 2))
    first, second = np.concatenate(early), np.concatenate(late)
    moved = abs(float(np.mean(second)) - float(np.mean(first))) if len(first) and len(second) else 0.0
    rate = float(np.mean(inner)) / room
    return GridEstimate(float(result.cycles + rest * rate), math.hypot(last, rest * moved / room))


def _told(
    launch: MachineLaunch,
    lowered: LoweredKernel,
    result: SimResult,
    estimates: list[GridEstimate],
    hz: int,
    sms: int,
    simulated: int,
    sectors: float,
) -> MachineRun:
    values = [e.cycles for e in estimates]
    mean = float(np.mean(values))
    width = float(np.mean([e.drift_cycles for e in estimates]))
    if len(values) > 1:
        factor = T_HALF_WIDTH if len(values) == SAMPLES else 12.706
        spread = factor * float(np.std(values, ddof=1)) / math.sqrt(len(values))
        width = math.hypot(width, spread, UNSEEN * mean)
    return MachineRun(
        launch=launch,
        lowered=lowered,
        result=result,
        cycles=mean,
        cycles_low=max(0.0, mean - width),
        cycles_high=mean + width,
        seconds=mean / hz,
        sms=sms,
        blocks=launch.blocks,
        blocks_simulated=simulated,
        instructions=_instructions(launch, result),
        dram_sectors_read=sectors,
    )


def _instructions(launch: MachineLaunch, result: SimResult) -> tuple[InstructionCount, ...]:
    assert result.instruction_stalls is not None
    assert result.instruction_executions is not None
    told = []
    for instruction in (micro.instruction for micro in launch.code):
        line = instruction.source.outermost.line if instruction.source is not None else None
        told.append((instruction.address, line, str(instruction)))
    return counts_of(told, result.instruction_executions, result.instruction_stalls)


def counts_of(
    told: Sequence[tuple[int, int | None, str]], executions: NDArray[np.int64], stalls: NDArray[np.int64]
) -> tuple[InstructionCount, ...]:
    """What instructions, given by address, line and text, did: ``executions`` (instructions, 2) by warps and
    lanes, ``stalls`` (instructions, reasons) in warp-cycles."""
    rows = []
    for n, (address, line, text) in enumerate(told):
        executed, lanes = (int(x) for x in executions[n])
        reasons = {r.label: int(stalls[n, r]) for r in Reason if stalls[n, r]}
        rows.append(InstructionCount(address, line, text, executed, lanes, reasons))
    return tuple(rows)
