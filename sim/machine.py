"""A GPU description turned into the whole numbers that the engines compute with.

Fractions of a cycle (an initiation interval of 3.43 cycles, 0.018 cycles of L2 bandwidth a sector) are kept
in *ticks*, 2**20 to the cycle, so that both engines do the same integer arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.instructions import ATOMIC_OPERATIONS, PIPES
from smlab.sim.policies import POLICIES

TICK_BITS = 20
TICKS_PER_CYCLE = 1 << TICK_BITS


def to_ticks(cycles: float) -> int:
    """The nearest whole number of ticks."""
    return round(cycles * TICKS_PER_CYCLE)


def ceil_cycles(ticks: int) -> int:
    """The first whole cycle at or after a moment in ticks."""
    return -(-ticks >> TICK_BITS)


@dataclass(frozen=True)
class PipeTiming:
    """One arithmetic pipe: a warp-instruction every ``interval_cycles``, its result ``latency_cycles``
    after issue."""

    interval_cycles: int
    latency_cycles: int
    per_sm: bool


@dataclass(frozen=True)
class AtomicTiming:
    """One operation of the atomic unit: ``base + passes * per_pass`` ticks of occupancy, then a latency."""

    base_ticks: int
    pass_ticks: int
    latency_cycles: int

    def interval_ticks(self, passes: int) -> int:
        return self.base_ticks + passes * self.pass_ticks


@dataclass(frozen=True)
class CacheShape:
    """A set-associative cache of ``sets * ways`` lines."""

    sets: int
    ways: int


@dataclass(frozen=True)
class Machine:
    """Everything about a GPU that the engines use, as integers. Cycles are SM cycles; ``_ticks`` are
    2**-20 cycles."""

    name: str
    sms: int
    schedulers: int
    policy: str
    warp_lanes: int
    max_warps: int
    max_blocks: int
    max_threads: int
    max_threads_per_block: int
    registers: int
    register_unit_per_warp: int
    max_registers_per_thread: int
    shared_bytes: int
    shared_bytes_per_block: int
    shared_reserved_bytes_per_block: int
    shared_unit_bytes: int
    block_launch_cycles: int
    barrier_latency_cycles: int
    banks: int
    bank_bytes: int
    pipes: dict[str, PipeTiming]
    shared_queue_entries: int
    shared_pass_ticks: int
    shared_load_latency_cycles: int
    shared_store_latency_cycles: int
    atomic_queue_entries: int
    atomic_pipes: int
    atomics: dict[str, AtomicTiming]
    lsu_queue_entries: int
    line_bytes: int
    sector_bytes: int
    l1: CacheShape
    l1_line_ticks: int
    l1_latency_cycles: int
    port_sector_ticks: int
    l2: CacheShape
    l2_sector_ticks: int
    l2_latency_cycles: int
    dram_sector_ticks: int
    dram_latency_cycles: int
    sm_hz: int  # turns cycles into seconds for the counters; the engines do not use it
    gpu: tuple[str, str] | None = None  # title and compute capability, for the counters alone

    @cached_property
    def sectors_per_line(self) -> int:
        return self.line_bytes // self.sector_bytes

    @cached_property
    def l1_hit_tail_cycles(self) -> int:
        """From the end of a one-line L1 access to its data, so that an unloaded hit takes
        ``l1_latency_cycles``."""
        return max(1, self.l1_latency_cycles - ceil_cycles(self.l1_line_ticks))

    @cached_property
    def l2_return_cycles(self) -> int:
        """From a sector's service in L2 to its data at the SM; an unloaded hit takes ``l2_latency_cycles``
        in all."""
        way_down = sum(
            ceil_cycles(t) for t in (self.l1_line_ticks, self.port_sector_ticks, self.l2_sector_ticks)
        )
        return max(1, self.l2_latency_cycles - way_down)

    @cached_property
    def dram_extra_cycles(self) -> int:
        """What a DRAM access adds to an L2 hit; an unloaded miss takes ``dram_latency_cycles`` in all."""
        way_down = ceil_cycles(self.l1_line_ticks) + ceil_cycles(self.port_sector_ticks)
        served = ceil_cycles(self.l2_sector_ticks + self.dram_sector_ticks)
        return max(1, self.dram_latency_cycles - self.l2_return_cycles - way_down - served)

    def dram_sectors_left(self, free_ticks: int, cycle: int) -> int:
        """Sectors that the DRAM server, which will be free at ``free_ticks``, has not moved yet at
        ``cycle``."""
        return max(0, -(-(free_ticks - (cycle << TICK_BITS)) // self.dram_sector_ticks))

    def atomic(self, operation: str) -> AtomicTiming:
        """The timing of an atomic operation; `SmlabError` where this GPU has no such instruction."""
        if operation not in self.atomics:
            raise SmlabError.at(
                self.name,
                "this GPU has no such shared-memory atomic",
                operation.replace("_", "-"),
                "one of " + ", ".join(a.replace("_", "-") for a in self.atomics),
            )
        return self.atomics[operation]


def _cache(gpu: Gpu, level: str, line_bytes: int) -> CacheShape:
    ways = gpu.integer(f"{level}.ways")
    sets = gpu.integer(f"{level}.bytes") // (line_bytes * ways)
    if sets < 1:
        raise SmlabError.at(gpu.name, f"{level}.bytes is smaller than one set", gpu.integer(f"{level}.bytes"))
    return CacheShape(sets, ways)


def _whole_cycles(gpu: Gpu, key: str) -> int:
    """A latency rounded to whole cycles (published means are fractional; the simulator's time is not)."""
    return max(1, math.floor(gpu.number(key) + 0.5))


def _interval_ticks(gpu: Gpu, key: str) -> int:
    value = gpu.number(key)
    if value < 1:
        raise SmlabError.at(
            gpu.name, f"{key} is too short for a unit that serves one at a time", value, "at least 1"
        )
    return to_ticks(value)


def _atomic(gpu: Gpu, op: str) -> AtomicTiming:
    timing = AtomicTiming(
        base_ticks=to_ticks(gpu.number(f"atomic.{op}.base_interval_cycles")),
        pass_ticks=to_ticks(gpu.number(f"atomic.{op}.pass_interval_cycles")),
        latency_cycles=_whole_cycles(gpu, f"atomic.{op}.latency_cycles"),
    )
    # Ticks are rounded, so base and pass that add up to a cycle may miss it by one.
    if timing.interval_ticks(1) < TICKS_PER_CYCLE - 1:
        interval = timing.interval_ticks(1) / TICKS_PER_CYCLE
        raise SmlabError.at(
            gpu.name, f"atomic.{op}: one pass takes less than a cycle", interval, "at least 1"
        )
    return timing


def machine_from(gpu: Gpu, policy: str | None = None) -> Machine:
    """Lower a GPU description; ``policy`` overrides the description's warp scheduler policy."""
    policy = policy or gpu.text("sm.scheduler_policy")
    if policy not in POLICIES:
        raise SmlabError.at(
            "policy", "unknown warp scheduler policy", policy, "one of " + ", ".join(POLICIES)
        )
    sm_hz = gpu.number("clock.sm_hz")
    line_bytes, sector_bytes = gpu.integer("l1.line_bytes"), gpu.integer("l1.sector_bytes")

    def sector_ticks(bytes_per_cycle: float) -> int:
        return max(1, to_ticks(sector_bytes / bytes_per_cycle))

    return Machine(
        name=gpu.name,
        sms=gpu.integer("gpu.sms"),
        schedulers=gpu.integer("sm.schedulers"),
        policy=policy,
        warp_lanes=gpu.integer("sm.warp_lanes"),
        max_warps=gpu.integer("sm.max_warps"),
        max_blocks=gpu.integer("sm.max_blocks"),
        max_threads=gpu.integer("sm.max_threads"),
        max_threads_per_block=gpu.integer("sm.max_threads_per_block"),
        registers=gpu.integer("sm.registers"),
        register_unit_per_warp=gpu.integer("sm.register_unit_per_warp"),
        max_registers_per_thread=gpu.integer("sm.max_registers_per_thread"),
        shared_bytes=gpu.integer("sm.shared_bytes"),
        shared_bytes_per_block=gpu.integer("sm.shared_bytes_per_block"),
        shared_reserved_bytes_per_block=gpu.integer("sm.shared_reserved_bytes_per_block"),
        shared_unit_bytes=gpu.integer("sm.shared_unit_bytes"),
        block_launch_cycles=gpu.integer("sm.block_launch_cycles"),
        barrier_latency_cycles=_whole_cycles(gpu, "sm.barrier_latency_cycles"),
        banks=gpu.integer("banks.count"),
        bank_bytes=gpu.integer("banks.width_bytes"),
        pipes={
            name: PipeTiming(
                interval_cycles=_whole_cycles(gpu, f"pipe.{name}.interval_cycles"),
                latency_cycles=_whole_cycles(gpu, f"pipe.{name}.latency_cycles"),
                per_sm=gpu.text(f"pipe.{name}.shared_by") == "sm",
            )
            for name in PIPES
        },
        shared_queue_entries=gpu.integer("shared.queue_entries"),
        shared_pass_ticks=_interval_ticks(gpu, "shared.interval_cycles_per_pass"),
        shared_load_latency_cycles=_whole_cycles(gpu, "shared.load_latency_cycles"),
        shared_store_latency_cycles=_whole_cycles(gpu, "shared.store_latency_cycles"),
        atomic_queue_entries=gpu.integer("atomic.queue_entries"),
        atomic_pipes=gpu.integer("atomic.pipes") if gpu.has("atomic.pipes") else 1,
        atomics={op: _atomic(gpu, op) for op in ATOMIC_OPERATIONS if gpu.has(f"atomic.{op}.latency_cycles")},
        lsu_queue_entries=gpu.integer("lsu.queue_entries"),
        line_bytes=line_bytes,
        sector_bytes=sector_bytes,
        l1=_cache(gpu, "l1", line_bytes),
        l1_line_ticks=_interval_ticks(gpu, "l1.interval_cycles_per_line"),
        l1_latency_cycles=_whole_cycles(gpu, "l1.latency_cycles"),
        port_sector_ticks=sector_ticks(gpu.number("l2.sm_port_bytes_per_cycle")),
        l2=_cache(gpu, "l2", line_bytes),
        l2_sector_ticks=sector_ticks(gpu.number("l2.bandwidth_bytes_per_s") / sm_hz),
        l2_latency_cycles=_whole_cycles(gpu, "l2.latency_cycles"),
        dram_sector_ticks=sector_ticks(gpu.number("dram.bandwidth_bytes_per_s") / sm_hz),
        dram_latency_cycles=_whole_cycles(gpu, "dram.latency_cycles"),
        sm_hz=round(sm_hz),
        gpu=(gpu.title, gpu.compute_capability),
    )
