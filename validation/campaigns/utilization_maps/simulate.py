"""Running a campaign: draw kernels, simulate them, and keep what counters see beside what only the
simulator knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.random import SeedSequence, default_rng
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.atomics.atomic_spacing import SPACING_NAMES, AtomicCode, spacing
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU
from smlab.hw_bench.rows import Rows
from smlab.models.utilization.counter_sets import REQUEST_NAMES
from smlab.sim import compiled
from smlab.sim.address_patterns import Grouped
from smlab.sim.instructions import CLASSES, Reason, Unit
from smlab.sim.lowering import lower
from smlab.sim.machine import Machine, machine_from
from smlab.sim.reference import Record
from smlab.sim.result import SimResult, SmTruth
from smlab.sim.workloads.workload import Instruction, Kernel, Loop
from smlab.validation.campaigns.utilization_maps.families import (
    FAMILIES,
    FIRST_RANDOM,
    NUMBERS,
    RANDOM,
    Family,
)

Floats = NDArray[np.float64]

SAMPLING_CYCLES = 2048
"""A profiler looks at one warp of each scheduler every so many cycles."""

MAX_CYCLES = 2_000_000_000
"""A kernel that runs longer is a mistake in a family; the campaign stops and names it."""


@dataclass(frozen=True, eq=False)
class CampaignTable(Rows):
    """One row for each simulated kernel, and one more for each SM of those that ran on several; all arrays
    (rows,).

    ``family`` and ``kernel`` (its number in the campaign) say which, ``sm`` is the SM or `WHOLE_GPU`. What
    counters see, summed over the ``sms`` of the row: ``jobs``, ``cas_jobs``, ``wavefronts``,
    ``thread_operations``, ``requests`` (rows, `REQUEST_NAMES`); as the mean over them: ``elapsed_cycles``,
    ``active_cycles`` and ``warps`` (resident, over the active cycles), ``states`` (rows, reasons), the mean
    number of warps in each state over the active cycles, ``at_atomic``, those of them whose next instruction
    is an atomic, ``at_result``, those whose next instruction uses an atomic's result, and ``spacing`` (rows,
    `SPACING_NAMES`), all three as seen by a profiler's samples where they were asked for; ``peak_warps`` is
    the most that were resident on one of them and ``block_warps`` the size of the blocks, which the launch
    tells. The truth, over the elapsed cycles: ``utilization`` and ``n``. ``gain`` is how many times as fast
    the kernel would be if the atomic unit took half the time for everything, ``gain_spread`` if no lanes of
    an atomic met on a bank. ``requests``, ``at_...``, ``spacing`` and both gains are NaN in rows of one SM.
    """

    family: NDArray[np.object_]
    kernel: NDArray[np.int64]
    sm: NDArray[np.int64]
    sms: Floats
    jobs: Floats
    cas_jobs: Floats
    wavefronts: Floats
    thread_operations: Floats
    requests: Floats
    elapsed_cycles: Floats
    active_cycles: Floats
    warps: Floats
    peak_warps: Floats
    block_warps: Floats
    states: Floats
    at_atomic: Floats
    at_result: Floats
    spacing: Floats
    utilization: Floats
    n: Floats
    gain: Floats
    gain_spread: Floats

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def whole(self) -> NDArray[np.bool_]:
        """The rows of whole kernels, one each, as Nsight Compute counts."""
        found: NDArray[np.bool_] = self.sm == WHOLE_GPU
        return found

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> CampaignTable:
        """A table of what `observe` gave."""
        columns = {f.name: np.array([row[f.name] for row in rows]) for f in fields(cls)}
        return cls(**{**columns, "family": columns["family"].astype(object)})


def run_part(gpu: Gpu, family: str, first: int, last: int, seed: int) -> CampaignTable:
    """Simulate the kernels number ``first`` to ``last`` - 1 of a family."""
    draw, place = family_of(family)
    rows = []
    machine, machines = machine_from(gpu), _Machines(gpu)
    for number in range(first, last):
        stream = SeedSequence(seed, spawn_key=(place, number))  # what spawning twice gives
        kernel, lowering_seed = drawn(draw, machine, stream)
        share, faster = machines.of(kernel.sms)
        spread = without_conflicts(kernel)
        result, *changed = (
            compiled.run(
                replace(lower(run, on, lowering_seed), by_instruction=run is kernel and on is share),
                Record.TOTALS,
                MAX_CYCLES,
                threads=1,
            )
            for run, on in ((kernel, share), (kernel, faster), (spread, share))
        )
        gains = (result.cycles / other.cycles for other in changed)
        seen = as_sampled(result, gpu.integer("gpu.sms"), lowering_seed)
        rows += observe(result, family, number, *gains, seen=seen_code(kernel, seen))
    return CampaignTable.of_rows(rows)


class _Machines:
    """A GPU's share for so many SMs, as it is and with a unit twice as fast, each made once."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._made: dict[int, tuple[Machine, Machine]] = {}

    def of(self, sms: int) -> tuple[Machine, Machine]:
        if sms not in self._made:
            share = fair_share(self.gpu, sms)
            self._made[sms] = machine_from(share), machine_from(twice_as_fast(share))
        return self._made[sms]


def atomic_users(kernel: Kernel) -> list[int]:
    """Which of the kernel's instructions, all programs one after the other, need a shared-memory atomic's
    result and are none."""
    users = []
    place = 0
    for program in kernel.programs:
        written = [i for i, _ in program.instructions()]
        counting = {i.name for i in written if CLASSES[i.op].unit is Unit.ATOMIC and i.returns}
        for i in written:
            if CLASSES[i.op].unit is not Unit.ATOMIC and counting.intersection(i.after):
                users.append(place)
            place += 1
    return users


@dataclass(frozen=True, eq=False)
class SeenCode:
    """A kernel's code as a source page has it, all programs one after the other: the ``code``, warp-cycles
    (instructions, reasons) at each instruction, and those that need an atomic's result, no atomics."""

    code: AtomicCode
    stalls: Floats
    users: list[int]


def seen_code(kernel: Kernel, stalls: Floats) -> SeenCode:
    """The kernel's code with the warp-cycles at each instruction."""
    written: list[Instruction] = []
    loops: list[tuple[int, int]] = []

    def walk(body: tuple[Instruction | Loop, ...]) -> None:
        for item in body:
            if isinstance(item, Loop):
                first = len(written)
                walk(item.body)
                loops.append((first, len(written) - 1))
            else:
                written.append(item)

    for program in kernel.programs:
        walk(program.body)
    units = np.array([CLASSES[i.op].unit for i in written])
    code = AtomicCode(
        units == Unit.ATOMIC,
        (units == Unit.ATOMIC) & np.array([i.returns for i in written]),
        units == Unit.BARRIER,
        stalls[:, Reason.SELECTED],
        stalls.sum(axis=1),
        tuple(loops),
    )
    return SeenCode(code, stalls, atomic_users(kernel))


def as_sampled(result: SimResult, sms: int, seed: int) -> Floats:
    """The warp-cycles (instructions, reasons) at each instruction as a profiler sees them, which looks at one
    warp of each of 4 schedulers of ``sms`` SMs every `SAMPLING_CYCLES`; but how often each instruction was
    executed is counted."""
    stalls = result.instruction_stalls
    assert stalls is not None
    warp_cycles = sum(s.resident_warp_cycles for s in result.sms)
    active = sum(s.active_cycles for s in result.sms) / len(result.sms)
    rate = 4 * sms * active / SAMPLING_CYCLES / warp_cycles
    seen = np.random.default_rng([seed, 1]).poisson(stalls * rate) / rate
    seen[:, Reason.SELECTED] = stalls[:, Reason.SELECTED]
    return seen


def family_of(name: str) -> tuple[Family, int]:
    """The family of a name, and its number among all, which its kernels' random numbers hang on."""
    if name in RANDOM:
        return RANDOM[name], FIRST_RANDOM + list(RANDOM).index(name)
    return FAMILIES[name], NUMBERS[name]


def draw_kernel(machine: Machine, family: str, stream: SeedSequence) -> tuple[Kernel, int]:
    """A kernel of the family, and the seed of its own random numbers."""
    return drawn(family_of(family)[0], machine, stream)


def drawn(draw: Family, machine: Machine, stream: SeedSequence) -> tuple[Kernel, int]:
    """As `draw_kernel`, of a family that has no name."""
    drawing, running = stream.spawn(2)
    kernel = draw(default_rng(drawing), machine)
    return kernel, int(running.generate_state(1, np.uint32)[0])


def fair_share(gpu: Gpu, sms: int) -> Gpu:
    """``gpu`` with the part of L2's and DRAM's bandwidth that falls to ``sms`` of its SMs when all of them
    run."""
    share = sms / gpu.integer("gpu.sms")
    keys = ("l2.bandwidth_bytes_per_s", "dram.bandwidth_bytes_per_s", "dram.sustained_bandwidth_bytes_per_s")
    values = {key: gpu.number(key) * share for key in keys if gpu.has(key)}
    return gpu.with_values(values, source="assumed: the share of the simulated SMs")


def observe(
    result: SimResult,
    family: str = "",
    number: int = 0,
    gain: float = np.nan,
    gain_spread: float = np.nan,
    *,
    seen: SeenCode | None = None,
) -> list[Mapping[str, Any]]:
    """The rows of one simulated kernel: the whole GPU, and each SM where there are several. ``seen`` is what
    a source page has, where there is one."""
    rows = [_row(result, WHOLE_GPU, list(result.sms))]
    rows[0].update(gain=gain, gain_spread=gain_spread, requests=_requests(result))
    if seen is not None:
        active = sum(s.active_cycles for s in result.sms)
        rows[0]["at_atomic"] = seen.stalls[seen.code.atomic].sum(axis=0) / active
        rows[0]["at_result"] = seen.stalls[seen.users].sum(axis=0) / active
        if (found := spacing(seen.code)) is not None:
            rows[0]["spacing"] = found.row()
    if len(result.sms) > 1:
        rows += [_row(result, sm.sm, [sm]) for sm in result.sms]
    return [{"family": family, "kernel": number, **row} for row in rows]


def _requests(result: SimResult) -> Floats:
    """`REQUEST_NAMES` of the whole GPU."""
    executed = dict(zip(CLASSES.values(), result.launch.warp_instructions, strict=True))

    def issued(unit: Unit, *operations: str) -> int:
        return sum(n for c, n in executed.items() if c.unit is unit and c.operation in operations)

    return np.array(
        [
            issued(Unit.SHARED, "load"),
            issued(Unit.SHARED, "store"),
            issued(Unit.GLOBAL, "load"),
            issued(Unit.GLOBAL, "store"),
            sum(s.shared_load_passes + s.shared_store_passes for s in result.sms),
            sum(s.l1_sector_hits + s.l1_sector_misses for s in result.sms),
            sum(s.l1_store_sectors for s in result.sms),
            result.warp_instructions,
        ],
        dtype=np.float64,
    )


def _row(result: SimResult, sm: int, members: list[SmTruth]) -> dict[str, Any]:
    active = sum(s.active_cycles for s in members)
    # The simulator's counters of one SM know its active cycles only, as nvprof's do: they stand for the
    # elapsed ones.
    elapsed = result.cycles * len(members) if sm == WHOLE_GPU else active
    chosen = np.isin(result.warps.sm, [s.sm for s in members])
    return {
        "sm": sm,
        "sms": float(len(members)),
        "jobs": float(sum(s.atomic_completions for s in members)),
        "cas_jobs": float(sum(s.atomic_cas_jobs for s in members)),
        "wavefronts": float(sum(s.atomic_passes for s in members)),
        "thread_operations": float(sum(s.thread_operations for s in members)),
        "requests": np.full(len(REQUEST_NAMES), np.nan),
        "elapsed_cycles": elapsed / len(members),
        "active_cycles": active / len(members),
        "warps": sum(s.resident_warp_cycles for s in members) / active,
        "peak_warps": float(max(result.warps.max_resident_warps(s.sm) for s in result.sms)),
        "block_warps": float(-(-result.launch.threads_per_block // 32)),
        "states": result.warps.stall_cycles[chosen].sum(axis=0) / active,
        "at_atomic": np.full(len(Reason), np.nan),
        "at_result": np.full(len(Reason), np.nan),
        "spacing": np.full(len(SPACING_NAMES), np.nan),
        "utilization": sum(s.atomic_busy_cycles for s in members) / elapsed,
        "n": sum(s.atomic_job_cycles for s in members) / elapsed,
        "gain": np.nan,
        "gain_spread": np.nan,
    }


def twice_as_fast(gpu: Gpu) -> Gpu:
    """``gpu`` with an atomic unit that takes half the time for everything: its pipeline, what an atomic's
    passes take of the data stage, a round's gap. (Where nothing is left beyond the passes, one pass takes a
    cycle still.)"""
    values = {"atomic.stage_factor": float(gpu.number("atomic.stage_factor")) / 2}
    kept = ("atomic.address_interval_cycles",)  # a sub-core's, not the unit's
    for key in gpu.constants:
        if key.startswith("atomic.") and key.endswith("_cycles") and key not in kept:
            values[key] = float(gpu.number(key)) / 2
    for key in [k for k in values if k.endswith(".base_interval_cycles")]:
        passing = values[key.replace("base_interval", "pass_interval")]
        values[key] = max(values[key], 1 - passing)
    return gpu.with_values(values, source="assumed: twice as fast a unit")


def without_conflicts(kernel: Kernel) -> Kernel:
    """``kernel`` with every atomic's lanes on words of banks of their own (e = 1)."""
    programs = (replace(p, body=_spread(p.body)) for p in kernel.programs)
    return replace(kernel, programs=tuple(programs))


def _spread(body: tuple[Instruction | Loop, ...]) -> tuple[Instruction | Loop, ...]:
    return tuple(
        replace(item, body=_spread(item.body))
        if isinstance(item, Loop)
        else replace(item, shared=Grouped(1))
        if CLASSES[item.op].unit is Unit.ATOMIC
        else item
        for item in body
    )
