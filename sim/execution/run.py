"""Running a launch on a simulated GPU: whole, or some SMs and some waves of its blocks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.linking import readable_name
from smlab.sim.execution.functional_warming import Neighbours
from smlab.sim.execution.recording import Recording
from smlab.sim.execution.source import MachineSource, lower_machine_code
from smlab.sim.instructions import Reason
from smlab.sim.isa.launch.faults import notes_of
from smlab.sim.isa.launch.launch import MachineLaunch, add_unwritten
from smlab.sim.isa.memory.global_memory import ContentsBefore
from smlab.sim.lowering import LoweredKernel
from smlab.sim.machine import Machine, groups_of_sms, machine_from
from smlab.sim.object_code.loading import ready
from smlab.sim.options import by_keywords
from smlab.sim.reference import Progress, Record
from smlab.sim.result import SimResult
from smlab.sim.simulate import DEFAULT_ENGINE, ENGINES
from smlab.sim.workloads.histogram import part_of
from smlab.sim.workloads.workload import blocks_per_sm

if TYPE_CHECKING:
    import pandas as pd

WAVES: Final = 4, 96
"""Waves of blocks that a sample runs, at least and at most: the first fills the SM, the last empties it, and
blocks that began together take some waves to get out of step."""
GRID_INSTRUCTIONS: Final = 6_000_000
"""Warp-instructions of the whole GPU in the waves of a sample, where that is more waves than the fewest."""
SAMPLES: Final = 3
"""Samples that tell a time with its interval."""
UNSEEN: Final = 0.03
UNSEEN_BY_ONE_SM: Final = 0.12
"""What a sample cannot see of how SMs meet in L2 and DRAM, as a part of the cycles: the first of any sample,
the second over its number of SMs. Fitted to 115 kernels by others that ran whole on an A100, of which the
intervals of 1, 2 and 4 SMs hold 107, 105 and 107 (`validation/campaigns/sampling`)."""
T_HALF_WIDTH: Final = 4.303
"""Student's t for 95 % with two degrees of freedom."""

DEPENDENT: Final = "a part of the grid may not tell its time: blocks depend on each other"
"""How the note begins of a sample of such blocks."""


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


@dataclass(frozen=True, repr=False)
class TimedRun:
    """A kernel on a simulated GPU, executed or recorded elsewhere.

    ``cycles`` is the time of the whole grid, from ``cycles_low`` to ``cycles_high`` where it was sampled (a
    95 % interval from independent samples, how far they drift, and what no sample sees); ``result`` is what
    was simulated, the first sample. ``instructions`` and ``stalls`` are of that, and ``lowered`` is what was
    executed for it.
    ``dram_sectors_read`` is of the whole grid, as if L2 kept what blocks near each other share. ``notes`` say
    what looks wrong in the kernel or is not in the cycles, a line each.
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
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    def __repr__(self) -> str:
        span = "" if self.whole else f" ({self.cycles_low:,.0f} to {self.cycles_high:,.0f})"
        return (
            f"<{readable_name(self.result.kernel)} on {self.result.gpu}: {self.cycles:,.0f} cycles{span}, "
            f"{self.seconds:.3g} s, {self.blocks_simulated:,} of {self.blocks:,} blocks>"
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.to_dataframe().to_html(max_rows=20, border=0)}"

    def to_dataframe(self) -> pd.DataFrame:
        """One row an instruction, with the keys of ``instructions`` in ``smlab run --json``; ``stalls`` are
        columns ``stalls.REASON``."""
        import pandas as pd

        return pd.json_normalize([dataclasses.asdict(i) for i in self.instructions])

    @property
    def whole(self) -> bool:
        """Whether every block ran, so that the arrays hold what the kernel computes."""
        return self.blocks == self.blocks_simulated


@dataclass(frozen=True, repr=False)
class MachineRun(TimedRun):
    """A launch of machine code on a simulated GPU. ``printed`` is what the blocks that ran have printed with
    ``printf``."""

    launch: MachineLaunch
    printed: str


@dataclass(frozen=True, kw_only=True)
class MachineRunOptions:
    """The options of `run_machine_code`.

    ``samples`` are those of a part of the grid, one to three; one tells a time without its spread. A grid of
    ``whole_up_to`` warp-instructions runs whole, however many SMs are asked for. ``before`` is what the
    arrays hold, for who launches on the same arrays again and again: a sampled run makes no copy of them
    then, and leaves them as they were.

    Raises:
        SmlabError: an unknown engine, too many samples.
    """

    sms: int | str = "all"
    engine: str | None = None
    policy: str | None = None
    keep: Record = Record.ATOMICS
    max_cycles: int | None = None
    progress: Progress | None = None
    recording: Recording | None = None
    threads: int | None = None
    samples: int = SAMPLES
    whole_up_to: int = 0
    before: ContentsBefore | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.samples <= SAMPLES:
            raise SmlabError.at("samples", "out of range", self.samples, f"1 to {SAMPLES}")
        if self.engine and self.engine not in ENGINES:
            raise SmlabError.at("engine", "unknown", self.engine, "one of " + ", ".join(ENGINES))

    def simulate(self, lowered: LoweredKernel) -> SimResult:
        """
        Raises:
            SmlabError: ``max_cycles`` passed, a fault of the kernel.
        """
        run = ENGINES[self.engine or DEFAULT_ENGINE]
        return run(lowered, self.keep, self.max_cycles, self.progress, self.threads)


@by_keywords(MachineRunOptions)
def run_machine_code(launch: MachineLaunch, gpu: Gpu, options: MachineRunOptions) -> MachineRun:
    """Execute a launch, timed.

    ``sms`` is how many of the GPU's SMs run, ``all`` of them or fewer: then, if the grid has more blocks,
    each runs some waves of blocks that it would get, with its share of the bandwidth of L2 and DRAM, three
    times with other blocks, and the grid's time follows. Of a kernel in clusters so many SMs run as whole
    clusters need, and blocks are chosen by clusters. What their neighbours fetch is in L2
    (`smlab.sim.execution.functional_warming`). Each time the arrays hold what they held at first; at the end
    they hold what the blocks of all three wrote.

    A launch finds in L2 what the launches before it on the same `GlobalMemory` left there, as far as whole
    grids ran; memory of its own has never been in L2. A grid whose blocks wait for each other runs whole, and
    all of them must find room at once.

    ``recording`` writes down what every warp executes, of a whole grid.

    Raises:
        SmlabError: what cannot be executed, a fault of the kernel, ``max_cycles`` passed.
    """
    if (options.engine or DEFAULT_ENGINE) == "compiled":
        ready("engine", "machine_code")
    if launch.uses_tensor_cores:
        gpu = gpu.at_tensor_clock()
    sms, all_sms = options.sms, gpu.integer("gpu.sms")
    count = all_sms if sms == "all" else sms
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= all_sms:
        raise SmlabError.at("sms", "out of range", sms, f"1 to {all_sms}, all or auto")
    if options.recording is not None and launch.blocks > count != all_sms:
        raise SmlabError.at("sms", "a part of the grid is no recording of the kernel", sms, "all")
    if launch.waits_for_itself:
        return _whole(launch, gpu, options)
    share = _clustered(launch, gpu, count)
    # A block that has an SM of its own needs no sample.
    if launch.blocks > count != all_sms and share is not None:
        found = _sampled(launch, *share, options)
        if found is not None:
            return found
    return _whole(launch, gpu, options)


def _whole(launch: MachineLaunch, gpu: Gpu, options: MachineRunOptions) -> MachineRun:
    all_sms = gpu.integer("gpu.sms")
    used = min(all_sms, launch.blocks)
    lowered = lower_machine_code(launch, machine_from(gpu, options.policy), used, options.recording)
    room = blocks_per_sm(lowered.kernel, lowered.machine) * all_sms
    if launch.waits_for_itself and launch.blocks > room:
        what = "a grid whose blocks wait for each other finds no room for all at once"
        raise SmlabError.at(f"{launch.where}: grid", what, launch.blocks, f"at most {room} blocks")
    lowered = dataclasses.replace(lowered, l2=launch.memory.l2)
    result = options.simulate(lowered)
    simulated = _Simulated(lowered, result, used, launch.blocks)
    moved = float(result.memory.dram_sectors)
    run = _told(launch, simulated, [GridEstimate(float(result.cycles))], moved)
    return dataclasses.replace(run, notes=_notes(launch, result, [_source(lowered)]))


@dataclass(frozen=True)
class _Simulated:
    """What was executed, on how many SMs, and how many blocks of the grid."""

    lowered: LoweredKernel
    result: SimResult
    sms: int
    blocks: int


def _clustered(launch: MachineLaunch, gpu: Gpu, count: int) -> tuple[Gpu, int] | None:
    """The GPU as a grid of clusters sees it, and how many of its SMs are a sample of ``count`` or a few more:
    only whole clusters find room, each in one group of SMs. None where a sample would be the whole GPU."""
    size, all_sms = launch.cluster_blocks, gpu.integer("gpu.sms")
    if size == 1:
        return gpu, count
    machine = machine_from(gpu)
    room = blocks_per_sm(lower_machine_code(launch, machine, all_sms, blocks=size).kernel, machine)
    groups = [len(group) for group in groups_of_sms(all_sms, machine.group_sms)]
    # So many SMs would be full of clusters; others stay empty, or have fewer blocks.
    used = sum(sms * room // size for sms in groups) * size // room // size * size
    count = -(-count // size) * size
    if count >= used:
        return None
    return gpu.with_values({"gpu.sms": used}, "assumed: the SMs that clusters find room on"), count


def _sampled(launch: MachineLaunch, gpu: Gpu, count: int, options: MachineRunOptions) -> MachineRun | None:
    """The run of a part of the grid; None for a grid that is small enough to run whole."""
    all_sms = gpu.integer("gpu.sms")
    size, order = launch.cluster_blocks, launch.launch_order
    each = math.ceil(launch.blocks / all_sms)  # blocks that the busiest SM gets
    machine = machine_from(gpu, options.policy)
    room = blocks_per_sm(lower_machine_code(launch, machine, count, blocks=1).kernel, machine)
    # In a single wave the other SMs have fewer blocks, and ask for less, from the first cycle on.
    share = Fraction(count * each, launch.blocks) if each <= room else Fraction(count, all_sms)
    machine = _share_of_machine(launch, gpu, share, options.policy)
    whole = lower_machine_code(launch, machine, count, blocks=1)
    neighbours = Neighbours(launch, machine.sector_bytes, options.before)
    if options.samples == 1:
        neighbours.room = 0  # there is no later sample to keep anything for
    per_block = neighbours.block_instructions(min(launch.blocks, room * all_sms))
    if per_block * launch.blocks <= options.whole_up_to:
        return None
    waves = GRID_INSTRUCTIONS // max(1, per_block * room * all_sms)
    # The last wave is as full as the whole run's: what is left out are whole waves.
    wanted = min(each, min(max(waves, WAVES[0]), WAVES[1]) * room + each % room) * count
    wanted = min(wanted, launch.blocks)
    l2 = launch.memory.l2.for_a_sample()
    launch.memory.l2.forget()  # what a part of the grid leaves there tells nothing of the whole grid's
    estimates: list[GridEstimate] = []
    reads: list[float] = []
    sources: list[MachineSource] = []
    printed = ""
    first: _Simulated | None = None
    first_clusters = np.zeros(0, dtype=np.int64)
    for sample in range(options.samples):
        clusters = _blocks_of(launch.blocks // size, all_sms // size, count // size, wanted // size, sample)
        if sample and np.array_equal(clusters, first_clusters):
            break
        first_clusters = clusters if not sample else first_clusters
        chosen = (clusters[:, None] * size + np.arange(size)).reshape(-1)
        if sample:
            neighbours.before.go_back(keep=options.before is None)
        unsampled = neighbours.fetched(chosen, room * all_sms, float(1 / share) - 1)
        reads.append(unsampled.read_each * launch.blocks)
        touched = (unsampled.read_each + unsampled.written_each) * launch.blocks
        held = machine.l2.sets * machine.l2.ways * machine.sectors_per_line
        unsampled = dataclasses.replace(unsampled, writes_back=touched > held)
        source = MachineSource(launch, count, chosen if order is None else order[chosen], unsampled)
        kernel = dataclasses.replace(whole.kernel, blocks=len(chosen))
        lowered = dataclasses.replace(whole, kernel=kernel, source=source, l2=l2.for_a_sample())
        # What is recorded is the first sample's; of the others only the time is told.
        result = (dataclasses.replace(options, keep=Record.TOTALS) if sample else options).simulate(lowered)
        sources.append(source)
        printed += launch.printed
        first = first or _Simulated(lowered, result, count, wanted)
        estimates.append(_extended(result, launch.blocks / all_sms, count, room))
    assert first is not None
    if options.before is None:
        neighbours.before.put_in()
    else:
        neighbours.before.go_back()
    run = _told(launch, first, estimates, float(np.mean(reads)))
    notes = _notes(launch, first.result, sources)
    if neighbours.cut_short:
        notes = (
            "functional warming ended early: what blocks around the sample bring to L2 is known in part, so "
            "the time may be too long",
            *notes,
        )
    if (dependence := neighbours.dependence()) is not None:
        notes = (f"{DEPENDENT}, {dependence}; --sms all runs them all", *notes)
    return dataclasses.replace(run, printed=printed, notes=notes)


def _source(lowered: LoweredKernel) -> MachineSource:
    assert isinstance(lowered.source, MachineSource)
    return lowered.source


def _notes(launch: MachineLaunch, result: SimResult, sources: Sequence[MachineSource]) -> tuple[str, ...]:
    """The notes of runs of some blocks each."""
    assert result.instruction_executions is not None
    unwritten = sources[0].unwritten.copy()
    for source in sources[1:]:
        add_unwritten(unwritten, source.unwritten)
    return notes_of(launch, result.instruction_executions[:, 0], unwritten)


def _share_of_machine(launch: MachineLaunch, gpu: Gpu, share: Fraction, policy: str | None) -> Machine:
    """The machine of a sample with its ``share`` of what all SMs share: bandwidth, and, for a kernel whose
    memory does not fit into L2, room in that (or else a sample would never write back what it stores)."""
    all_sms, machine = gpu.integer("gpu.sms"), machine_from(part_of(gpu, share), policy)
    slices = dataclasses.replace(machine.l2_slices, sms=share.numerator, all_sms=share.denominator)
    machine = dataclasses.replace(machine, shares_dram=True, l2_slices=slices)
    lines = machine.l2.sets * machine.l2.ways
    local = 32 * launch.warps_per_block * launch.local_bytes
    if local:
        resident = blocks_per_sm(lower_machine_code(launch, machine, 1, blocks=1).kernel, machine)
        local *= min(launch.blocks, all_sms * resident)
    if sum(len(a.content) for a in launch.allocations) + local <= lines * machine.line_bytes:
        return machine
    sets = max(1, round(machine.l2.sets * share))
    return dataclasses.replace(machine, l2=dataclasses.replace(machine.l2, sets=sets))


def _blocks_of(blocks: int, all_sms: int, count: int, wanted: int, sample: int) -> np.ndarray:
    """Grid indices of the blocks of a sample: what ``count`` SMs of all get one after the other, from a
    wave of the sample's own on.

    SMs are spread over those that get the most blocks. SMs side by side from the first one on would see one
    edge of the grid only, where the columns of the grid divide the number of SMs.
    """
    waves = np.arange(math.ceil(blocks / all_sms))
    start = (len(waves) * sample // SAMPLES) if len(waves) * count > wanted else 0
    filled = min(all_sms, blocks)  # SMs that get a block at all
    busiest = blocks - (len(waves) - 1) * all_sms
    lanes = np.arange(sample * count, (sample + 1) * count)
    if busiest >= SAMPLES * count:
        lanes = (lanes + 1) * _step_of(busiest) % busiest
    else:
        lanes %= filled
    order = (np.roll(waves, -start)[:, None] * all_sms + lanes[None, :]).reshape(-1)
    order = order[order < blocks]
    return order[:wanted].astype(np.int64)


def _step_of(sms: int) -> int:
    """A step through so many SMs that comes to each once and spreads the first few: near the golden section,
    and without a common divisor."""
    golden = round(sms * (math.sqrt(5) - 1) / 2)
    steps = (golden + side * far for far in range(sms) for side in (1, -1))
    return next(step for step in steps if math.gcd(step, sms) == 1)


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
    launch: MachineLaunch, simulated: _Simulated, estimates: list[GridEstimate], sectors: float
) -> MachineRun:
    values = [e.cycles for e in estimates]
    mean = float(np.mean(values))
    width = float(np.mean([e.drift_cycles for e in estimates]))
    if len(values) > 1:
        factor = T_HALF_WIDTH if len(values) == SAMPLES else 12.706
        spread = factor * float(np.std(values, ddof=1)) / math.sqrt(len(values))
        unseen = UNSEEN + UNSEEN_BY_ONE_SM / simulated.sms
        width = math.hypot(width, spread, unseen * mean)
    return MachineRun(
        launch=launch,
        printed=launch.printed,
        lowered=simulated.lowered,
        result=simulated.result,
        cycles=mean,
        cycles_low=max(0.0, mean - width),
        cycles_high=mean + width,
        seconds=mean / simulated.lowered.machine.sm_hz,
        sms=simulated.sms,
        blocks=launch.blocks,
        blocks_simulated=simulated.blocks,
        instructions=_instructions(launch, simulated.result),
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
    rows, labels = [], [r.label for r in Reason]
    by_instruction = zip(told, executions.tolist(), stalls.tolist(), strict=False)
    for (address, line, text), (executed, lanes), cycles in by_instruction:
        reasons = {label: n for label, n in zip(labels, cycles, strict=False) if n}
        rows.append(InstructionCount(address, line, text, executed, lanes, reasons))
    return tuple(rows)
