"""What a simulation gives: traces and exact truth, as arrays and frozen dataclasses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from smlab.sim.instructions import CLASS_NAMES, Reason, Unit

if TYPE_CHECKING:
    import pandas as pd

Ints = NDArray[np.int64]


def _columns(rows: Sequence[tuple[int, ...]], width: int, order_by: tuple[int, ...]) -> Ints:
    """Rows of whole numbers as columns, ``(width, rows)``, sorted by the columns ``order_by``, the first
    one first."""
    table = np.array(rows, dtype=np.int64).reshape(-1, width)
    return np.ascontiguousarray(table[np.lexsort(tuple(table[:, k] for k in reversed(order_by)))].T)


@dataclass(frozen=True)
class JobTrace:
    """Jobs of the memory path, one element a job, in the order of issue on each SM; arrays of shape
    ``(jobs,)``.

    ``op`` indexes `CLASS_NAMES`, ``unit`` is a `Unit`. The five moments are cycles: issued, taken from the
    sub-core's queue, service started, service ended, completed (result or acknowledgement back).
    """

    sm: Ints
    sequence: Ints
    warp: Ints
    slot: Ints
    unit: Ints
    op: Ints
    lanes: Ints
    passes: Ints
    issue: Ints
    start: Ints
    end: Ints
    completion: Ints
    taken: Ints

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[int, ...]]) -> JobTrace:
        return cls(*_columns(rows, 13, order_by=(0, 1)))

    def __len__(self) -> int:
        return len(self.sm)

    def chosen(self, mask: NDArray[np.bool_]) -> JobTrace:
        return JobTrace(**{name: getattr(self, name)[mask] for name in self.__dataclass_fields__})

    def of_unit(self, unit: Unit, sm: int | None = None) -> JobTrace:
        """The jobs of one unit, on one SM or on all."""
        mask = self.unit == int(unit)
        return self.chosen(mask if sm is None else mask & (self.sm == sm))

    @property
    def op_names(self) -> list[str]:
        return [CLASS_NAMES[code] for code in self.op]


@dataclass(frozen=True)
class IssueTrace:
    """Every issued warp-instruction, in the order of (cycle, SM, scheduler); arrays of shape
    ``(issues,)``."""

    cycle: Ints
    sm: Ints
    scheduler: Ints
    warp: Ints
    slot: Ints

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[int, ...]]) -> IssueTrace:
        return cls(*_columns(rows, 5, order_by=(0, 1, 2)))


@dataclass(frozen=True)
class SpanTrace:
    """What each warp did when: ``reason`` (a `Reason`) from ``begin`` to ``end``; arrays of shape
    ``(spans,)``."""

    sm: Ints
    warp: Ints
    reason: Ints
    begin: Ints
    end: Ints

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[int, ...]]) -> SpanTrace:
        return cls(*_columns(rows, 5, order_by=(1, 3)))


@dataclass(frozen=True)
class WarpTable:
    """Every warp that ran, by its index in the grid; arrays of shape ``(warps,)``, ``stall_cycles (warps,
    reasons)``.

    A warp is resident from ``launch`` until ``finish``; ``slot`` is its place on the SM.
    """

    warp: Ints
    sm: Ints
    slot: Ints
    block: Ints
    launch: Ints
    finish: Ints
    stall_cycles: Ints

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[int, ...]], stalls: Sequence[Sequence[int]]) -> WarpTable:
        table = np.array(rows, dtype=np.int64).reshape(-1, 6)
        order = np.argsort(table[:, 0], kind="stable")
        stall_cycles = np.array(stalls, dtype=np.int64).reshape(-1, len(Reason))[order]
        warp, sm, slot, block, launch, finish = np.ascontiguousarray(table[order].T)
        return cls(warp, sm, slot, block, launch, finish, stall_cycles)

    def max_resident_warps(self, sm: int) -> int:
        """The most warps of ``sm`` that were resident at a time."""
        own = self.sm == sm
        times = np.concatenate([self.launch[own], self.finish[own]])
        change = np.repeat([1, -1], int(own.sum()))
        # At equal times those that finish go first: their places are what the others take.
        return int(change[np.lexsort((change, times))].cumsum().max(initial=0))


@dataclass(frozen=True)
class BlockTable:
    """Every block: its SM and its residency from ``launch`` until ``retire``; arrays of shape
    ``(blocks,)``."""

    block: Ints
    sm: Ints
    launch: Ints
    retire: Ints

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[int, ...]]) -> BlockTable:
        return cls(*_columns(rows, 4, order_by=(0,)))


@dataclass(frozen=True)
class SmTruth:
    """What the engine counted on one SM while it ran. Areas are in job-cycles (or warp-cycles), all whole
    numbers.

    ``atomic_job_cycles`` is the area under n(t), the number of atomic jobs between issue and completion;
    ``atomic_busy_cycles`` the time with n > 0; ``atomic_occupied_cycles`` the time in which the server held a
    job. ``active_cycles`` is the time with at least one resident warp. ``thread_operations`` counts active
    lanes of atomics, ``stage_occupied_cycles`` the time in which the data stage held a wavefront,
    ``atomic_passes`` their passes over the banks; ``shared_load_passes`` and ``shared_store_passes`` those of
    shared loads and stores. ``l1_store_sectors`` are the sectors that stores sent on to L2.
    """

    sm: int
    warp_instructions: int
    resident_warp_cycles: int
    active_cycles: int
    atomic_arrivals: int
    atomic_completions: int
    atomic_cas_jobs: int
    atomic_job_cycles: int
    atomic_cas_job_cycles: int
    atomic_busy_cycles: int
    atomic_occupied_cycles: int
    thread_operations: int
    atomic_passes: int
    stage_occupied_cycles: int
    shared_load_passes: int
    shared_store_passes: int
    l1_sector_hits: int
    l1_sector_misses: int
    l1_store_sectors: int


@dataclass(frozen=True)
class MemoryTruth:
    """Sector counts of the levels that all SMs share.

    ``dram_sectors`` were asked of DRAM; ``dram_sectors_left`` of them it had not moved yet when the kernel
    ended, since stores do not wait for the lines that they evict. ``l2_slice_ticks`` is what all slices of L2
    had to do together, ``l2_busiest_slice_ticks`` what one of them had, in ticks of 2^-20 cycles; both 0
    without slices. ``l2_sectors_merged`` are hits that another read of the same SMs had asked for.
    """

    l2_sector_hits: int
    l2_sector_misses: int
    dram_sectors: int
    dram_sectors_left: int
    l2_slice_ticks: int = 0
    l2_busiest_slice_ticks: int = 0
    l2_sectors_merged: int = 0


@dataclass(frozen=True)
class Launch:
    """What is known of a launch before it runs.

    ``warp_instructions`` and ``thread_instructions`` (active lanes) are by instruction class, in the order of
    `CLASS_NAMES`. Every warp runs its program to the end, so the program says how often each is executed.
    ``gpu`` is the GPU's title and compute capability.
    """

    blocks: int
    threads_per_block: int
    registers_per_thread: int
    shared_bytes_per_block: int
    blocks_per_sm: int
    sector_bytes: int
    bank_bytes: int
    sm_hz: int
    gpu: tuple[str, str] | None
    warp_instructions: tuple[int, ...]
    thread_instructions: tuple[int, ...]


@dataclass(frozen=True)
class AtomicSummary:
    """The atomic unit over all simulated SMs; averages are over the kernel's ``cycles`` on each of them.

    ``n_mean`` is the time average of n (by area), and ``n_busy_mean`` the same over busy time only.
    ``e_mean`` is the mean of passes a job (lanes that one bank serialises), ``lanes_mean`` that of active
    lanes a job. ``c_mean`` is the time average of the compare-and-swap jobs among n. ``service_cycles`` is
    busy time per completion (S of the operational laws).
    """

    jobs: int
    cas_jobs: int
    n_mean: float
    n_busy_mean: float
    e_mean: float
    lanes_mean: float
    c_mean: float
    busy_cycles: int
    utilization: float
    service_cycles: float


@dataclass(frozen=True, repr=False)
class SimResult:
    """One simulated kernel. ``cycles`` runs from its launch to the retirement of its last block.

    ``issues`` and ``spans`` are None unless everything was recorded; ``jobs`` holds the atomic jobs, or all
    jobs of queued units when everything was recorded, or is None when only totals were kept.
    ``instruction_stalls`` (instructions, reasons) are warp-cycles by the instruction that a warp was at, of
    machine code, or of all programs one after the other where the lowered kernel asked for them;
    ``instruction_executions`` (instructions, 2) of machine code: how often warps executed each, and the
    active lanes in sum. ``runs_serially``: more than one thread of the processor was there, and it took one,
    as SMs read each other's writes or their order matters.
    """

    kernel: str
    gpu: str
    engine: str
    policy: str
    seed: int
    max_warps: int
    cycles: int
    warp_instructions: int
    wall_s: float
    sms: tuple[SmTruth, ...]
    memory: MemoryTruth
    warps: WarpTable
    blocks: BlockTable
    launch: Launch
    jobs: JobTrace | None
    issues: IssueTrace | None
    spans: SpanTrace | None
    instruction_stalls: Ints | None = None
    instruction_executions: Ints | None = None
    runs_serially: bool = False

    def __repr__(self) -> str:
        return f"<{self.kernel} on {self.gpu}: {self.cycles:,} cycles, {self.seconds:.3g} s, {self.engine}>"

    @property
    def seconds(self) -> float:
        """The time at the SM clock of the GPU's description."""
        return self.cycles / self.launch.sm_hz

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.to_dataframe().to_html(max_rows=20, border=0)}"

    def to_dataframe(self) -> pd.DataFrame:
        """What was counted on each simulated SM: one row an SM, with the names of `SmTruth`."""
        import pandas as pd

        return pd.DataFrame([asdict(s) for s in self.sms])

    @property
    def stalls(self) -> dict[str, int]:
        """Warp-cycles by reason, over all warps."""
        totals = self.warps.stall_cycles.sum(axis=0)
        return {reason.label: int(totals[reason]) for reason in Reason}

    @property
    def atomic(self) -> AtomicSummary:
        jobs = sum(s.atomic_completions for s in self.sms)
        busy = sum(s.atomic_busy_cycles for s in self.sms)
        area = sum(s.atomic_job_cycles for s in self.sms)
        time = self.cycles * len(self.sms)

        def ratio(over: int, under: int) -> float:
            return over / under if under else 0.0

        return AtomicSummary(
            jobs=jobs,
            cas_jobs=sum(s.atomic_cas_jobs for s in self.sms),
            n_mean=ratio(area, time),
            n_busy_mean=ratio(area, busy),
            e_mean=ratio(sum(s.atomic_passes for s in self.sms), jobs),
            lanes_mean=ratio(sum(s.thread_operations for s in self.sms), jobs),
            c_mean=ratio(sum(s.atomic_cas_job_cycles for s in self.sms), time),
            busy_cycles=busy,
            utilization=ratio(busy, time),
            service_cycles=ratio(busy, jobs),
        )
