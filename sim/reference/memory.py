"""Global memory: L1 of each SM, and L2 and DRAM, which all SMs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from smlab.sim.instruction_source import OF_OTHERS, UnsampledFetches
from smlab.sim.isa.operation_codes import FIRST_ADDRESS, LOCAL_AT
from smlab.sim.lowering import Operation
from smlab.sim.machine import (
    DRAM_LEAST_IDLE,
    DRAM_WINDOW_CYCLES,
    MERGED_LINES,
    SECOND_HALF,
    TICK_BITS,
    CacheShape,
    Machine,
    ceil_cycles,
    groups_of_sms,
)
from smlab.sim.reference.clock import Clock, Phase
from smlab.sim.reference.warp import Job

ATOMICS = ("reduce", "atomic")
"""What L2 does on global memory."""
NEVER = 1 << 62
SHARED_END = 1 << 32
"""Of generic addresses in shared memory, as a source gives them."""
BULK_PART_SECTORS = 32
L1_BANKS = 32
"""Of words, as shared memory has them."""


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
        lines = self.sets.setdefault(self.shape.set_of(line_address), [])
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


@dataclass
class BulkPart:
    """A part of a bulk copy: its sectors, and the lines among them that the part before has not begun."""

    sectors: list[int]
    lines: int = 0


def parts_of(runs: list[tuple[int, int]], machine: Machine) -> list[BulkPart]:
    """What a bulk copy of runs of bytes asks for, in parts; a sector that ends a run and begins the next one
    once."""
    parts: list[BulkPart] = []
    last_sector = last_line = -1
    for first, end in runs:
        for sector in range(first // machine.sector_bytes, (end - 1) // machine.sector_bytes + 1):
            if sector == last_sector:
                continue
            if not parts or len(parts[-1].sectors) == BULK_PART_SECTORS:
                parts.append(BulkPart([]))
            parts[-1].sectors.append(sector)
            line = sector // machine.sectors_per_line
            parts[-1].lines += line != last_line
            last_sector, last_line = sector, line
    return parts


@dataclass(frozen=True)
class L2Request:
    """What L2 is asked to do with sectors: which operation, by which SM, for atomics how many lanes ask for
    one word of each sector, whether a store writes all bytes of its sectors, how many lanes ask in
    all, and for atomics of lanes what the request took of the port."""

    asks: Operation
    sm: int
    lanes_per_word: dict[int, int]
    whole: bool = True
    lanes: int = 0
    port_ticks: int = 0


@dataclass
class MergedLine:
    """What a group of SMs has asked of a line: how often each sector, when the last of them is ready, and
    until when other reads of them merge."""

    tag: int = -1
    asked: Counter[int] = field(default_factory=Counter)
    ready_ticks: int = 0
    until_ticks: int = 0


class ReadGroup:
    """The reads that merge in front of L2 for a group of SMs (`sim/SEMANTICS.md`, 7.3)."""

    def __init__(self, machine: Machine, number: int) -> None:
        self.machine = machine
        self.number = number
        self.places: dict[int, MergedLine] = {}

    def _line(self, sector: int) -> tuple[int, int, MergedLine]:
        tag, place = divmod(sector, self.machine.sectors_per_line)
        return tag, place, self.places.setdefault(MERGED_LINES.set_of(tag), MergedLine())

    def merges(self, sector: int, arrival: int) -> int | None:
        """When a sector is ready that other reads of the group have just asked for, with which this one
        merges; None: L2 must read it."""
        tag, place, line = self._line(sector)
        if line.tag != tag or arrival > line.until_ticks:
            return None
        if not 0 < line.asked[place] < self.machine.read_merging.reads:
            return None
        line.asked[place] += 1
        return line.ready_ticks

    def asks(self, sector: int, arrival: int, ready: int) -> None:
        """L2 reads a sector for the group, ready at that time."""
        tag, place, line = self._line(sector)
        if line.tag != tag or arrival > line.until_ticks:
            line = self.places[MERGED_LINES.set_of(tag)] = MergedLine(tag)
        window = self.machine.read_merging.cycles << TICK_BITS
        line.asked[place] = 1
        line.ready_ticks = max(line.ready_ticks, ready)
        line.until_ticks = max(line.until_ticks, ready, arrival + window)


class MemorySystem:
    """L2 and DRAM. A request's sectors are served one after the other; times are in ticks.

    L2 and DRAM are servers that take work in the order in which requests reach L2, so their times follow from
    the end of the work before (start = max(arrival, free)). ``unsampled`` says which sectors blocks that
    are not simulated have brought to L2, and how many of their atomics come to one.
    """

    def __init__(self, machine: Machine, sms: int, unsampled: UnsampledFetches | None = None) -> None:
        self.machine = machine
        self.unsampled = unsampled
        groups = groups_of_sms(sms, machine.group_sms)
        by_number = [ReadGroup(machine, number) for number in range(len(groups))]
        self.group_of = {sm: by_number[number] for number, group in enumerate(groups) for sm in group}
        self.sms = sms
        self.replies_free_ticks = 0
        self.merged_sectors = 0
        self.l2 = Cache(machine.l2, machine.sectors_per_line)
        self.l2_free_ticks = 0
        self.slice_free_ticks = [0] * machine.l2_slices.count
        self.slice_busy_ticks = [0] * machine.l2_slices.count
        self.slice_deepest_ticks = 0
        self.dram_free_ticks = 0
        self.dram_deepest_ticks = 0
        self.dram_sectors = 0
        self.dram_since_ticks = -(DRAM_WINDOW_CYCLES // 2) << TICK_BITS
        self.dram_read_ticks = 0
        self.dram_write_ticks = 0
        # A sample has no SM of the same port: the one that would share it is as busy.
        sharing = machine.global_atomics.port_sms
        self.atomic_ports = sms if machine.shares_dram else -(-machine.sms // sharing)
        self.atomic_port_factor = sharing if machine.shares_dram else 1
        self.atomic_port_free_ticks = [0] * self.atomic_ports

    def hold(self, base_bytes: int, size_bytes: int) -> None:
        """What L2 holds at launch: the lines of a range, as if looked up in ascending order just before."""
        m = self.machine
        lines = range(base_bytes // m.line_bytes, -(-(base_bytes + size_bytes) // m.line_bytes))
        for line_address in lines if size_bytes else ():
            _, home = self._halves(line_address, 0, reads=False)
            line, _ = self.l2.allocate(home + line_address)
            line.valid = (1 << m.sectors_per_line) - 1

    def begin(self, lines: NDArray[np.int64]) -> None:
        """L2 holds the lines that an earlier launch left (`LevelTwoLines`), all of them there at once."""
        for tag, valid, dirty in lines.tolist():
            line, _ = self.l2.allocate(tag)
            line.valid, line.dirty = valid, dirty

    def left(self) -> NDArray[np.int64]:
        """The lines that L2 holds now, (lines, 3), by set."""
        rows = [
            (line.tag, line.valid, line.dirty) for _, lines in sorted(self.l2.sets.items()) for line in lines
        ]
        return np.array(rows, dtype=np.int64).reshape(-1, 3)

    def serve(self, sectors: list[int], job: L2Request, now: int) -> int:
        """Serve a request that reaches L2 in cycle ``now``; the cycle when the last of its sectors is
        ready."""
        m = self.machine
        last, before, in_advance = 0, -1, 0
        asks, lanes_per_word = job.asks, job.lanes_per_word
        operation = asks.bulk_copy or asks.cls.operation
        atomic = operation in ATOMICS
        waits = m.l2_slices.count > 0 and m.l2_slices.waits_for_lanes
        reads = operation in ("load", "copy")
        for sector in sectors:
            tag, place = divmod(sector, m.sectors_per_line)
            half, home = self._halves(tag, job.sm, reads)
            line, evicted = self.l2.allocate(half + tag)
            hit = bool(line.valid >> place & 1)
            group = self.group_of[job.sm] if reads and not asks.multicast and m.read_merging.cycles else None
            merged = group.merges(sector, now << TICK_BITS) if group is not None and hit else None
            served = 0
            self.merged_sectors += merged is not None
            if merged is None:
                begins_line = tag != before // m.sectors_per_line
                ticks = self._l2_ticks(operation, begins_line and not job.whole)
                if reads and begins_line:  # a line's least time comes with its first sector
                    in_advance = max(0, m.l2_line_ticks - ticks)
                    ticks += in_advance
                elif reads:
                    done = min(in_advance, ticks)
                    in_advance, ticks = in_advance - done, ticks - done
                self.l2_free_ticks = max(now << TICK_BITS, self.l2_free_ticks) + ticks
                ticks = m.l2_slices.sector_ticks
                if atomic:
                    each = asks.request.in_slice(job.lanes, sum(lanes_per_word.values()))
                    ticks = each + (m.l2_slices.atomic_line_ticks if begins_line else 0)
                    ticks += (lanes_per_word[sector] - 1) * max(asks.request.word, each) if waits else 0
                number = (
                    m.l2_slices.slice_of(tag)
                    if half == home
                    else m.l2_slices.across(m.l2_slices.slice_of(tag))
                )
                in_slice = self._slice(number, now << TICK_BITS, ticks, asks.request.past if atomic else 0)
                served = max(self.l2_free_ticks, in_slice)
                before = sector
            writes_back = self.unsampled is not None and self.unsampled.writes_back
            self._write_back(evicted, line)
            if hit:
                self.l2.hits += 1
                ready = max(served, line.ready_ticks[place])
            elif operation == "store":
                self.l2.misses += 1
                ready = max(served, line.ready_ticks[place])
            elif self.unsampled is not None and sector in self.unsampled:
                self.l2.misses += 1
                ready = served
                if self.unsampled.arrives(sector):
                    ready = max(served, self.dram_free_ticks) + (m.dram_extra_cycles << TICK_BITS)
            elif (across := self._across(home + tag, place, now << TICK_BITS) if home != half else 0) != 0:
                self.l2.hits += 1
                ready = max(served, across)
            else:
                self.l2.misses += 1
                ready = max(served, self._dram(1)) + (m.dram_extra_cycles << TICK_BITS)
                ready += self._drain_wait(tag)
                if home != half:
                    self._keep(home + tag, place, ready)
            if atomic and not waits:
                ready += lanes_per_word[sector] * asks.request.word
            if not hit or atomic:
                line.valid |= 1 << place
                line.ready_ticks[place] = ready
                if atomic and not waits and self.unsampled is not None:
                    # Atomics of blocks that are not simulated follow, as many as come for one of these. (A
                    # slice that waits for the lanes has those of all SMs already.)
                    lanes = lanes_per_word[sector] * self.unsampled.atomics_of_others(sector)
                    line.ready_ticks[place] += lanes * asks.request.word
            if not reads:
                self._forget(SECOND_HALF - half + tag, place)
                if writes_back and not line.dirty >> place & 1:
                    taken = self._dram(1, writes=True)
                    if operation == "store":
                        ready = line.ready_ticks[place] = max(ready, taken)
                line.dirty |= 1 << place
            if group is not None:
                begin = max(self.replies_free_ticks, now << TICK_BITS)
                self.replies_free_ticks = begin + m.read_merging.reply_ticks
                ready = max(self.replies_free_ticks, ready if merged is None else merged)
                if merged is None:
                    group.asks(sector, now << TICK_BITS, ready)
            last = max(last, ready + m.l2_slices.way_ticks(tag, self.group_of[job.sm].number))
        return ceil_cycles(last + self._shared_port(job, now << TICK_BITS))

    def _shared_port(self, job: L2Request, arrival: int) -> int:
        """How much later an atomic comes as its SM shares the port with others. Alone an SM never waits:
        its own port has let the requests through one after the other, to whole cycles."""
        at, begun = job.sm % self.atomic_ports, arrival - job.port_ticks - (1 << TICK_BITS) + 1
        if not job.port_ticks:
            return 0
        begin = max(begun, self.atomic_port_free_ticks[at])
        self.atomic_port_free_ticks[at] = begin + job.port_ticks * self.atomic_port_factor
        return max(0, begin + job.port_ticks - arrival)

    def _halves(self, tag: int, sm: int, reads: bool) -> tuple[int, int]:
        """What a line's number gets in the half of L2 that an SM asks, and in that of the line's slice."""
        if self.machine.l2.halves == 1:
            return 0, 0
        home = SECOND_HALF * self.machine.l2_slices.in_second_half(tag)
        return SECOND_HALF * (2 * sm >= self.sms) if reads else home, home

    def _across(self, number: int, place: int, arrival: int) -> int:
        """When a sector that the half of its slice has is ready in the other half; 0: it is not there."""
        line, _ = self.l2.touch(number)
        if line is None or not line.valid >> place & 1:
            return 0
        slices = self.machine.l2_slices
        served = self._slice(slices.slice_of(number % SECOND_HALF), arrival, slices.sector_ticks, 0)
        return max(served, line.ready_ticks[place]) + slices.across_ticks

    def _keep(self, number: int, place: int, ready: int) -> None:
        """A sector that DRAM sends to the other half of L2 stays in the half of its slice as well."""
        line, evicted = self.l2.allocate(number)
        self._write_back(evicted, line)
        line.valid |= 1 << place
        line.ready_ticks[place] = ready

    def _forget(self, number: int, place: int) -> None:
        """What is written is no longer in the other half."""
        for line in self.l2.sets.get(self.l2.shape.set_of(number), []):
            if line.tag == number:
                line.valid &= ~(1 << place)

    def _write_back(self, evicted: CacheLine | None, line: CacheLine) -> None:
        """A line that had to go is written to DRAM, where that was not counted when it was written. Stores to
        the line in its place wait for that. Reads do not wait for what others wrote before the launch."""
        writes_back = self.unsampled is not None and self.unsampled.writes_back
        if evicted is not None and evicted.dirty and not writes_back:
            taken = self._dram(evicted.dirty.bit_count(), writes=evicted.dirty >> OF_OTHERS == 0)
            line.ready_ticks = [taken] * len(line.ready_ticks)

    def _l2_ticks(self, operation: str, begins_partial_line: bool) -> int:
        """What a sector takes of what all SMs share on the way to L2."""
        stores = self.machine.stores
        if operation in ATOMICS:
            return self.machine.l2_atomic_sector_ticks
        if operation != "store":
            return self.machine.l2_sector_ticks
        return stores.l2_sector_ticks + (stores.l2_partial_line_ticks if begins_partial_line else 0)

    def _slice(self, at: int, arrival: int, ticks: int, past: int) -> int:
        """When slice ``at`` has served a sector for so many ticks; 0 where L2 has none. In a sample, what the
        other SMs ask of the slice comes behind it. The slice across, which nobody waits for here, takes
        ``past`` ticks."""
        timing = self.machine.l2_slices
        if not timing.count:
            return 0
        self.slice_deepest_ticks = max(self.slice_deepest_ticks, self.slice_free_ticks[at] - arrival)
        earliest = arrival - (self.slice_deepest_ticks if self.machine.shares_dram else 0)
        begin = self._occupy(at, earliest, timing.occupied(ticks))
        if past:
            self._occupy(timing.across(at), earliest, timing.occupied(past))
        return max(arrival, begin) + ticks

    def _occupy(self, at: int, earliest: int, ticks: int) -> int:
        """When slice ``at`` begins with work of so many ticks."""
        begin = max(earliest, self.slice_free_ticks[at])
        self.slice_free_ticks[at] = begin + ticks
        self.slice_busy_ticks[at] += ticks
        return begin

    def _drain_wait(self, line: int) -> int:
        """How long a read of a line waits for what DRAM is at: in the mean as in a queue in which reads go
        before writes (Cobham 1954), by the parts of the last time that reads and writes took."""
        elapsed = self._fade()
        left = max(elapsed - self.dram_read_ticks, elapsed // DRAM_LEAST_IDLE)
        mean = self.machine.dram_drain_cycles * ((self.dram_write_ticks << 10) // left)
        mean += self.machine.dram_read_cycles * ((self.dram_read_ticks << 10) // left)
        return mean * self.machine.l2_slices.wait_parts(line) << (TICK_BITS - 20)

    def _fade(self) -> int:
        """Let DRAM's work count less, the older it is; over how many ticks that counts which is left."""
        elapsed = self.l2_free_ticks - self.dram_since_ticks
        while elapsed > DRAM_WINDOW_CYCLES << TICK_BITS:
            elapsed >>= 1
            self.dram_read_ticks >>= 1
            self.dram_write_ticks >>= 1
            self.dram_since_ticks = self.l2_free_ticks - elapsed
        return elapsed

    def _dram(self, sectors: int, writes: bool = False) -> int:
        sector_ticks = self.machine.dram_write_ticks if writes else self.machine.dram_sector_ticks
        arrival = self.l2_free_ticks
        self.dram_deepest_ticks = max(self.dram_deepest_ticks, self.dram_free_ticks - arrival)
        saved = self.dram_deepest_ticks if self.machine.shares_dram else 0
        self.dram_free_ticks = max(arrival - saved, self.dram_free_ticks) + sectors * sector_ticks
        self.dram_sectors += sectors
        if writes:
            self.dram_write_ticks += sectors * sector_ticks
        else:
            self.dram_read_ticks += sectors * sector_ticks
        return max(arrival, self.dram_free_ticks)


class LevelOne:
    """L1 of one SM, and its port to L2.

    Stores write through and do not allocate in L1. A missed sector is valid in L1 when it has come back. A
    load that misses it before that waits for it, and does not ask L2 for it again.
    """

    def __init__(
        self,
        clock: Clock,
        sm: int,
        machine: Machine,
        memory: MemorySystem,
        complete_after: Callable[[Job, int], None],
    ) -> None:
        self.clock = clock
        self.sm = sm
        self.machine = machine
        self.memory = memory
        self.complete_after = complete_after
        self.cache = Cache(machine.l1, machine.sectors_per_line)
        self.atomics: list[Job] = []  # on global memory, in the order in which they came
        self.asked: dict[int, Job] = {}  # the load that asked L2 for each sector that is on its way
        self.cluster_blocks = 1
        self.has_local_memory = False  # a kernel of machine code
        self.port_free_ticks = 0
        self.network_free_ticks = 0
        self.bulk_free_ticks = 0  # when the copy engine has asked for all that it was to
        self.store_sectors = 0

    def room_at(self) -> int:
        """From when on L1 can take one more atomic on global memory: they have their places in turn."""
        places = self.machine.global_atomics.in_flight
        if len(self.atomics) < places:
            return 0
        before = self.atomics[-places].completion
        return NEVER if before < 0 else before

    def _network_wait(self, job: Job, sectors: int) -> int:
        """How long a job's sectors take of the port to other SMs, beyond one that finds it free."""
        each = self.machine.network_sector_ticks
        self.network_free_ticks = max(job.end << TICK_BITS, self.network_free_ticks) + sectors * each
        return ceil_cycles(self.network_free_ticks - each) - job.end

    def serve(self, job: Job, hit_cycle: int) -> bool:
        """Look a job's sectors up now; if all are there, it completes in ``hit_cycle``. The others go through
        the port from the end of the job's wavefronts on. Whether some are on their way for another load."""
        m, now = self.machine, self.clock.now
        operation = job.operation.cls.operation
        loads = operation in ("load", "copy")
        looks = loads and not job.operation.past_l1
        sectors = sorted({a // m.sector_bytes for a in job.addresses})
        if self.cluster_blocks > 1 and sectors and sectors[0] * m.sector_bytes < SHARED_END:
            rank = sectors[0] * m.sector_bytes >> 24
            remote = rank != job.warp.block.index % self.cluster_blocks
            if operation in ATOMICS:
                self.atomics.append(job)
            job.addresses = []
            network = m.network_load_cycles + self._network_wait(job, len(sectors)) if remote else 0
            self.complete_after(job, max(job.end + 1, hit_cycle - m.generic_shared_saving) + network - now)
            return False
        lanes_per_word, ticks = {}, 0
        if operation in ATOMICS:
            self.atomics.append(job)
            lanes_per_word, request = same_line_queues(job.addresses, m.sector_bytes), job.operation.request
            ticks = max(len(job.addresses) * request.lane, sum(lanes_per_word.values()) * request.packet)
        missed = [s for s in sectors if not self._hit(s)] if looks else sectors
        self.cache.misses += len(sectors) if loads and not looks else 0
        self.store_sectors += 0 if loads else len(sectors)
        if operation == "store" and self.has_local_memory and m.keeps_local_stores:
            self._keep_local(sectors)
        if not missed:
            job.addresses = []
            self.complete_after(job, max(job.end + 1, hit_cycle) - now)
            return False
        lanes = len(job.addresses)
        wanted = [s for s in missed if not looks or s not in self.asked]
        job.addresses = wanted if looks else []  # from here on: the sectors to fill when they come back
        leaders = [self.asked[s] for s in missed if looks and s in self.asked]
        self._await(job, bool(wanted), leaders)
        if not wanted:
            return True
        self.asked |= dict.fromkeys(job.addresses, job)
        begin = job.end << TICK_BITS
        whole = True
        if operation == "store":
            lines = len({s // m.sectors_per_line for s in wanted})
            whole = lanes * job.operation.request.bytes >= len(wanted) * m.sector_bytes
            ticks = m.stores.port_ticks(len(wanted), lines, whole)
        elif loads:
            ticks = len(wanted) * m.port_sector_ticks
        self.port_free_ticks = max(begin, self.port_free_ticks) + ticks
        arrival = ceil_cycles(self.port_free_ticks)
        extra = max(0, job.operation.tail_cycles - m.l1_hit_tail_cycles) if loads else 0

        port = ticks if operation in ATOMICS else 0
        asked = L2Request(job.operation, self.sm, lanes_per_word, whole, lanes, port)

        def reach_l2() -> None:
            job.returns = self.memory.serve(wanted, asked, self.clock.now) + m.l2_return_cycles + extra
            if looks:
                wait = job.returns - self.clock.now
                self.clock.call(wait, Phase.RETURN, lambda: self.fill(job), self.sm, job.sequence)
            for each in (job, *job.followers):
                self._arrived(each, job.returns)

        self.clock.call(arrival - now, Phase.MEMORY, reach_l2, self.sm, job.sequence)
        return bool(leaders)

    def ask_in_bulk(
        self, part: BulkPart, operation: Operation, sequence: int, known: Callable[[int], None]
    ) -> int:
        """The copy engine asks L2 for a part of a bulk copy; ``known`` is told when that will be back. The
        cycle in which the port has taken it."""
        m, now = self.machine, self.clock.now
        self.bulk_free_ticks = max(now << TICK_BITS, self.bulk_free_ticks) + part.lines * m.bulk_line_ticks
        begin = max(self.bulk_free_ticks, self.port_free_ticks)
        writes = m.bulk_writes.get(operation.bulk_copy or "")
        ticks = writes.sector_ticks if writes else m.bulk_sector_ticks
        self.port_free_ticks = begin + len(part.sectors) * ticks
        taken = ceil_cycles(self.port_free_ticks)

        def reach_l2() -> None:
            # Of a reduction, one element on each word.
            asked = L2Request(operation, self.sm, dict.fromkeys(part.sectors, 1))
            ready = self.memory.serve(part.sectors, asked, self.clock.now)
            known(ready + m.l2_return_cycles + m.bulk_extra_cycles)

        self.clock.call(taken - now, Phase.MEMORY, reach_l2, self.sm, sequence)
        return taken

    def _await(self, job: Job, asks: bool, leaders: list[Job]) -> None:
        """Let a job wait for the sectors that it asks for itself and for those of other loads."""
        distinct = dict.fromkeys(leaders)
        job.awaited = asks + len(distinct)
        for leader in distinct:
            if leader.returns < 0:
                leader.followers.append(job)
            else:
                self._arrived(job, leader.returns)

    def _arrived(self, job: Job, returns: int) -> None:
        """One of the returns that a job waits for is known; with the last one its completion is."""
        job.due = max(job.due, returns)
        job.awaited -= 1
        if not job.awaited:
            self.complete_after(job, max(job.end + 1, job.due) - self.clock.now)

    def _keep_local(self, sectors: list[int]) -> None:
        """L1 has the sectors that a store to local memory writes."""
        first, end = (place // self.machine.sector_bytes for place in (LOCAL_AT, FIRST_ADDRESS))
        for sector in sectors if sectors and first <= sectors[0] < end else ():
            line, _ = self.cache.allocate(sector // self.machine.sectors_per_line)
            line.valid |= 1 << sector % self.machine.sectors_per_line

    def _hit(self, sector: int) -> bool:
        line, _ = self.cache.touch(sector // self.machine.sectors_per_line)
        hit = line is not None and bool(line.valid >> sector % self.machine.sectors_per_line & 1)
        if hit:
            self.cache.hits += 1
        else:
            self.cache.misses += 1
        return hit

    def empty(self) -> None:
        """No sector is valid any more; those on their way will be."""
        for lines in self.cache.sets.values():
            for line in lines:
                line.valid = 0

    def fill(self, job: Job) -> None:
        """The sectors that a load asked L2 for have come back."""
        for sector in job.addresses:
            del self.asked[sector]
            line, _ = self.cache.allocate(sector // self.machine.sectors_per_line)
            line.valid |= 1 << sector % self.machine.sectors_per_line


def passes_needed(addresses: list[int], words: int, machine: Machine) -> int:
    """What an access takes of the data stage: a pass for each line, or, where L1 looks up several lines at
    once, as many as the banks or the tags need for loads and stores of ``words`` words a lane (0: another
    access)."""
    lines = sorted({a // machine.line_bytes for a in addresses})
    if not words or not machine.l1_tag_banks:
        return len(lines)
    first_words = {a >> 2 for a in addresses}
    on_bank = Counter((word + k) % L1_BANKS for word in first_words for k in range(words))
    looks: list[set[int]] = []
    for line in lines:
        bank = tag_bank(line, machine.l1_tag_banks)
        if not looks or bank in looks[-1]:
            looks.append(set())
        looks[-1].add(bank)
    return max(len(looks), *on_bank.values()) if lines else 0


def tag_bank(line: int, banks: int) -> int:
    """The part of L1's tags that a line is looked up in: its pairs of bits, one on the other."""
    folded = 0
    while line:
        folded ^= line & 3
        line >>= 2
    return folded & (banks - 1)


def same_line_queues(addresses: list[int], sector_bytes: int) -> dict[int, int]:
    """The most lanes on one word of each sector."""
    words = Counter(a // 4 for a in addresses)
    found: dict[int, int] = {}
    for word, count in words.items():
        sector = 4 * word // sector_bytes
        found[sector] = max(found.get(sector, 0), count)
    return found
