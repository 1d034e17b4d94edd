"""Running a campaign: draw kernels, simulate them, and keep what counters see beside what only the
simulator knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.random import SeedSequence, default_rng
from numpy.typing import NDArray
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU
from smlab.sim import compiled
from smlab.sim.instructions import CLASSES, Reason, Unit
from smlab.sim.lowering import lower
from smlab.sim.machine import Machine, machine_from
from smlab.sim.reference import Record
from smlab.sim.result import SimResult, SmTruth
from smlab.sim.workload import Kernel
from smlab.validation.trust.changes import twice_as_fast, without_conflicts
from smlab.validation.trust.families import FAMILIES

Floats = NDArray[np.float64]

REQUESTS = (
    "shared_loads",
    "shared_stores",
    "global_loads",
    "global_stores",
    "shared_wavefronts",
    "load_sectors",
    "store_sectors",
    "instructions",
)
"""What else goes through an SM's memory path, as the columns of ``requests``: warp-instructions by kind,
passes of shared loads and stores, sectors of L1, and all warp-instructions."""

MAX_CYCLES = 2_000_000_000
"""A kernel that runs longer is a mistake in a family; the campaign stops and names it."""


@dataclass(frozen=True, eq=False)
class CampaignTable:
    """One row for each simulated kernel, and one more for each SM of those that ran on several; all arrays
    (rows,).

    ``family`` and ``kernel`` (its number in the campaign) say which, ``sm`` is the SM or `WHOLE_GPU`. What
    counters see, summed over the ``sms`` of the row: ``jobs``, ``cas_jobs``, ``wavefronts``,
    ``thread_operations``, ``requests`` (rows, `REQUESTS`); as the mean over them: ``elapsed_cycles``,
    ``active_cycles`` and ``warps`` (resident, over the active cycles), ``states`` (rows, reasons), the mean
    number of warps in each state over the active cycles, ``at_atomic``, those of them whose next instruction
    is an atomic, and ``at_result``, those whose next instruction uses an atomic's result; ``peak_warps`` is
    the most that were resident on one of them, which the launch tells. The truth, over the elapsed cycles:
    ``utilization`` and ``n``. ``gain`` is how many times as fast the kernel would be if the atomic unit took
    half the time for everything, ``gain_spread`` if no lanes of an atomic met on a bank. ``requests``,
    ``at_...`` and both gains are NaN in the rows of one SM.
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
    states: Floats
    at_atomic: Floats
    at_result: Floats
    utilization: Floats
    n: Floats
    gain: Floats
    gain_spread: Floats

    def __len__(self) -> int:
        return len(self.jobs)

    def take(self, chosen: NDArray[Any]) -> CampaignTable:
        """The chosen rows, by mask or by index."""
        return CampaignTable(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})

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

    @classmethod
    def joined(cls, parts: Iterable[CampaignTable]) -> CampaignTable:
        tables = list(parts)
        return cls(**{f.name: np.concatenate([getattr(t, f.name) for t in tables]) for f in fields(cls)})


def run_part(gpu: Gpu, family: str, first: int, last: int, seed: int) -> CampaignTable:
    """Simulate the kernels number ``first`` to ``last`` - 1 of a family."""
    place = list(FAMILIES).index(family)
    rows = []
    machine, machines = machine_from(gpu), _Machines(gpu)
    for number in range(first, last):
        stream = SeedSequence(seed, spawn_key=(place, number))  # what spawning twice gives
        kernel, lowering_seed = draw_kernel(machine, family, stream)
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
        rows += observe(result, family, number, *gains, places=atomic_places(kernel))
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


def atomic_places(kernel: Kernel) -> tuple[list[int], list[int]]:
    """Which of the kernel's instructions, all programs one after the other, are shared-memory atomics, and
    which of the others need a result of one."""
    atomics, users = [], []
    place = 0
    for program in kernel.programs:
        written = [i for i, _ in program.instructions()]
        counting = {i.name for i in written if CLASSES[i.op].unit is Unit.ATOMIC and i.returns}
        for i in written:
            if CLASSES[i.op].unit is Unit.ATOMIC:
                atomics.append(place)
            elif counting.intersection(i.after):
                users.append(place)
            place += 1
    return atomics, users


def draw_kernel(machine: Machine, family: str, stream: SeedSequence) -> tuple[Kernel, int]:
    """A kernel of the family, and the seed of its own random numbers."""
    drawing, running = stream.spawn(2)
    kernel = FAMILIES[family](default_rng(drawing), machine)
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
    places: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> list[Mapping[str, Any]]:
    """The rows of one simulated kernel: the whole GPU, and each SM where there are several. ``places``
    (`atomic_places`) says which of its instructions are atomics, and which need their results, where the
    stalls of each were counted."""
    rows = [_row(result, WHOLE_GPU, list(result.sms))]
    rows[0].update(gain=gain, gain_spread=gain_spread, requests=_requests(result))
    if result.instruction_stalls is not None:
        active = sum(s.active_cycles for s in result.sms)
        for name, own in zip(("at_atomic", "at_result"), places, strict=True):
            rows[0][name] = result.instruction_stalls[list(own)].sum(axis=0) / active
    if len(result.sms) > 1:
        rows += [_row(result, sm.sm, [sm]) for sm in result.sms]
    return [{"family": family, "kernel": number, **row} for row in rows]


def _requests(result: SimResult) -> Floats:
    """`REQUESTS` of the whole GPU."""
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
        "requests": np.full(len(REQUESTS), np.nan),
        "elapsed_cycles": elapsed / len(members),
        "active_cycles": active / len(members),
        "warps": sum(s.resident_warp_cycles for s in members) / active,
        "peak_warps": float(max(result.warps.max_resident_warps(s.sm) for s in result.sms)),
        "states": result.warps.stall_cycles[chosen].sum(axis=0) / active,
        "at_atomic": np.full(len(Reason), np.nan),
        "at_result": np.full(len(Reason), np.nan),
        "utilization": sum(s.atomic_busy_cycles for s in members) / elapsed,
        "n": sum(s.atomic_job_cycles for s in members) / elapsed,
        "gain": np.nan,
        "gain_spread": np.nan,
    }
