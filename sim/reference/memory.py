"""Global memory: the SM's load/store unit with its L1, and L2 and DRAM, which all SMs share."""

from __future__ import annotations

from smlab.sim.instructions import Unit
from smlab.sim.machine import TICK_BITS, CacheShape, Machine, ceil_cycles
from smlab.sim.reference.clock import Clock, Phase
from smlab.sim.reference.units import FifoUnit, UnitOwner
from smlab.sim.reference.warp import Job


class CacheLine:
    """A cache line: which of its sectors are valid, which are dirty, and when each is there."""

    __slots__ = ("dirty", "ready_ticks", "tag", "valid")

    def __init__(self, tag: int, sectors: int) -> None:
        self.tag = tag
        self.valid = 0
        self.dirty = 0
        self.ready_ticks = [0] * sectors


class Cache:
    """Set-associative, sectored, least recently used out first. Sets are filled in the order of use,
    oldest first."""

    def __init__(self, shape: CacheShape, sectors_per_line: int) -> None:
        self.shape = shape
        self.sectors_per_line = sectors_per_line
        self.sets: dict[int, list[CacheLine]] = {}
        self.hits = 0
        self.misses = 0

    def touch(self, line_address: int) -> tuple[CacheLine | None, list[CacheLine]]:
        """The line if it is there, now most recently used, and its set."""
        lines = self.sets.setdefault(line_address % self.shape.sets, [])
        for position, line in enumerate(lines):
            if line.tag == line_address:
                lines.append(lines.pop(position))
                return line, lines
        return None, lines

    def allocate(self, line_address: int) -> tuple[CacheLine, CacheLine | None]:
        """The line, made if need be, and the line that had to go for it."""
        line, lines = self.touch(line_address)
        if line is not None:
            return line, None
        evicted = lines.pop(0) if len(lines) == self.shape.ways else None
        line = CacheLine(line_address, self.sectors_per_line)
        lines.append(line)
        return line, evicted


class MemorySystem:
    """L2 and DRAM. A request's sectors are served one after the other; times are in ticks.

    L2 and DRAM are servers that take work in the order in which requests reach L2, so their times follow from
    the end of the work before (start = max(arrival, free)).
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.l2 = Cache(machine.l2, machine.sectors_per_line)
        self.l2_free_ticks = 0
        self.dram_free_ticks = 0
        self.dram_sectors = 0

    def hold(self, base_bytes: int, size_bytes: int) -> None:
        """What L2 holds at launch: the lines of a range, as if looked up in ascending order just before."""
        m = self.machine
        lines = range(base_bytes // m.line_bytes, -(-(base_bytes + size_bytes) // m.line_bytes))
        for line_address in lines if size_bytes else ():
            line, _ = self.l2.allocate(line_address)
            line.valid = (1 << m.sectors_per_line) - 1

    def serve(self, sectors: list[int], operation: str, now: int) -> int:
        """Serve a request that reaches L2 in cycle ``now``; the cycle when the last of its sectors is
        ready there."""
        m = self.machine
        last = 0
        for sector in sectors:
            self.l2_free_ticks = max(now << TICK_BITS, self.l2_free_ticks) + m.l2_sector_ticks
            line, evicted = self.l2.allocate(sector // m.sectors_per_line)
            if evicted is not None and evicted.dirty:
                self._dram(evicted.dirty.bit_count(), self.l2_free_ticks)
            place = sector % m.sectors_per_line
            hit = bool(line.valid >> place & 1)
            if hit:
                self.l2.hits += 1
                ready = max(self.l2_free_ticks, line.ready_ticks[place])
            elif operation == "store":
                self.l2.misses += 1
                ready = self.l2_free_ticks
            else:
                self.l2.misses += 1
                ready = self._dram(1, self.l2_free_ticks) + (m.dram_extra_cycles << TICK_BITS)
            if not hit:
                line.valid |= 1 << place
                line.ready_ticks[place] = ready
            if operation != "load":
                line.dirty |= 1 << place
            last = max(last, ready)
        return ceil_cycles(last)

    def _dram(self, sectors: int, arrival_ticks: int) -> int:
        self.dram_free_ticks = (
            max(arrival_ticks, self.dram_free_ticks) + sectors * self.machine.dram_sector_ticks
        )
        self.dram_sectors += sectors
        return self.dram_free_ticks


class LoadStoreUnit(FifoUnit):
    """Global loads and stores of one SM: one L1 line after another, then misses and stores go through the
    port to L2.

    Stores write through and do not allocate in L1. A missed sector is valid in L1 when it has come back; a
    load that asks for it before that goes to L2 as well, unless all that it misses is on its way for the same
    warp's last load before.
    """

    unit = Unit.GLOBAL

    def __init__(self, clock: Clock, sm: UnitOwner, machine: Machine, memory: MemorySystem) -> None:
        super().__init__(clock, sm, machine.lsu_queue_entries)
        self.machine = machine
        self.memory = memory
        self.l1 = Cache(machine.l1, machine.sectors_per_line)
        self.port_free_ticks = 0
        self.store_sectors = 0

    def accept(self, job: Job) -> None:
        lines = {a // self.machine.line_bytes for a in job.addresses}
        job.passes = len(lines)
        job.work = len(lines) * self.machine.l1_line_ticks
        super().accept(job)

    def served(self, job: Job) -> None:
        m = self.machine
        operation = job.operation.cls.operation
        load = operation == "load"
        sectors = sorted({a // m.sector_bytes for a in job.addresses})
        wanted = [s for s in sectors if not self._hit(s)] if load else sectors
        self.store_sectors += 0 if load else len(sectors)
        job.addresses = wanted if load else []  # from here on: the sectors to fill when the job completes
        if not wanted:
            self.complete_after(job, m.l1_hit_tail_cycles)
            return
        if load:
            leader = job.warp.last_missed
            if leader is not None and leader.completion < 0 and set(wanted) <= set(leader.addresses):
                job.addresses = []
                if leader.due < 0:
                    leader.followers.append(job)
                else:
                    self.complete_after(job, leader.due - self.clock.now)
                return
            job.warp.last_missed = job
        now_ticks = self.clock.now << TICK_BITS
        self.port_free_ticks = max(now_ticks, self.port_free_ticks) + len(wanted) * m.port_sector_ticks
        arrival = ceil_cycles(self.port_free_ticks)

        def reach_l2() -> None:
            ready = self.memory.serve(wanted, operation, self.clock.now)
            job.due = ready + m.l2_return_cycles
            for each in (job, *job.followers):
                self.complete_after(each, job.due - self.clock.now)

        self.clock.call(arrival - self.clock.now, Phase.MEMORY, reach_l2, self.sm.index, job.sequence)

    def _hit(self, sector: int) -> bool:
        line, _ = self.l1.touch(sector // self.machine.sectors_per_line)
        hit = line is not None and bool(line.valid >> sector % self.machine.sectors_per_line & 1)
        if hit:
            self.l1.hits += 1
        else:
            self.l1.misses += 1
        return hit

    def fill(self, job: Job) -> None:
        """The sectors that a load missed have come back."""
        for sector in job.addresses:
            line, _ = self.l1.allocate(sector // self.machine.sectors_per_line)
            line.valid |= 1 << sector % self.machine.sectors_per_line
