"""A GPU description turned into the whole numbers that the engines compute with.

Fractions of a cycle (an initiation interval of 3.43 cycles, 0.018 cycles of L2 bandwidth a sector) are kept
in *ticks*, 2**20 to the cycle, so that both engines do the same integer arithmetic.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.gpu.schema import TENSOR_TYPES
from smlab.hw_bench.sass.operations import TensorProduct
from smlab.sim.instruction_source import PRODUCT_DEPTH_BYTES
from smlab.sim.instructions import ATOMIC_OPERATIONS, TIMINGS, InstructionClass, Unit
from smlab.sim.policies import POLICIES

TICK_BITS = 20
TICKS_PER_CYCLE = 1 << TICK_BITS
INSTRUCTION_BYTES = 16
"""Of machine code from Volta on."""
ADDRESS_REGISTERS = 2
"""Which hold a 64-bit address."""


def to_ticks(cycles: float) -> int:
    """The nearest whole number of ticks."""
    return round(cycles * TICKS_PER_CYCLE)


def ceil_cycles(ticks: int) -> int:
    """The first whole cycle at or after a moment in ticks."""
    return -(-ticks >> TICK_BITS)


@dataclass(frozen=True)
class PipeTiming:
    """One arithmetic pipe: a warp-instruction every ``interval_cycles``, its result ``latency_cycles``
    after issue. Where it keeps a queue, an instruction is accepted while ``backlog_cycles`` of work at most
    are in front of it, and both times count from when its turn comes. Beyond the whole cycles of its interval
    it takes ``fraction_ticks``; what is left of a cycle is carried on. In ``spare_cycles`` of its interval
    the banks of shared memory give it nothing."""

    interval_cycles: int
    latency_cycles: int
    per_sm: bool
    backlog_cycles: int = 0
    fraction_ticks: int = 0
    spare_cycles: int = 0


@dataclass(frozen=True)
class MemoryProductTiming:
    """Products in tensor memory. The SM's tensor cores update ``cell_ticks``' worth of a sum (a row and a
    column) at a time, with no fewer rows than ``least_rows``. Reading the second matrix from shared memory
    takes ``second_cycles`` at least. The sums are there ``tail_cycles`` later, and later still by what
    reading the first matrix from shared memory takes. A product is accepted while what is not done takes less
    time than ``queue_entries`` like it. A store to tensor memory is done ``store_cycles`` after its last
    column."""

    cell_ticks: int
    least_rows: int
    second_cycles: int
    tail_cycles: int
    queue_entries: int
    store_cycles: int


@dataclass(frozen=True)
class AtomicTiming:
    """One operation of the atomic unit: ``base + passes * per_pass`` ticks of occupancy, then a latency.

    ``latency_cycles`` is what comes after the occupancy, so that an operation of one pass which finds the
    path empty takes what the description says from issue to use.
    """

    base_ticks: int
    pass_ticks: int
    latency_cycles: int

    def interval_ticks(self, passes: int) -> int:
        return self.base_ticks + passes * self.pass_ticks


@dataclass(frozen=True)
class CacheShape:
    """A set-associative cache of ``sets * ways`` lines. The set of a line is its number modulo ``sets``, or
    if ``hashed`` that of a hash which spreads lines in a row evenly (`sim/SEMANTICS.md`, 7.6). With two
    ``halves`` each has half of the sets, and lines of the second one have `SECOND_HALF` in their number."""

    sets: int
    ways: int
    hashed: bool = False
    halves: int = 1

    def set_of(self, line: int) -> int:
        half, line = divmod(line, SECOND_HALF)
        sets = self.sets // self.halves
        if not self.hashed or sets < HASHED_LINES:
            return half * sets + line % sets
        scattered = line // HASHED_LINES * SLICE_SPREAD & 0xFFFFFFFF
        return half * sets + HASHED_LINES * (scattered * (sets // HASHED_LINES) >> 32) + line % HASHED_LINES


RESULT_SCOREBOARD_TYPES: Final = frozenset({"fp64", "int8", "int4", "int1"})
"""Types of products whose scoreboard tells that the result is there. Of others stall cycles tell it."""
HASHED_LINES: Final = 8
"""Lines in a row that a hash leaves in a row."""
SECOND_HALF: Final = 1 << 44
EVERY_LINE: Final = 1 << 40
"""Of code that an earlier launch has left in the cache of a group of SMs."""


@dataclass(frozen=True)
class FetchTiming:
    """Where instructions come from: an L0 in each sub-core, which asks for ``prefetch_lines`` ahead,
    an L1 in each SM, and a cache of the group of SMs. A launch brings the first ``preloaded_lines`` of the
    code to both.

    ``l0_miss_cycles`` is what a line takes that L0 does not have and L1 has, ``l1_miss_cycles`` what it takes
    beyond that from the group's cache; one request leaves the sub-cores every ``request_interval_cycles``.
    ``warm``: L1 has the kernel's code from an earlier launch; from 2 on, each L0 too. ``l0_sub_cores`` share
    an L0.
    """

    line_instructions: int
    l0: CacheShape
    l1: CacheShape
    prefetch_lines: int
    l0_miss_cycles: int
    l1_miss_cycles: int
    preloaded_lines: int
    request_interval_cycles: int
    warm: int
    l0_sub_cores: int = 1


@dataclass(frozen=True)
class ConstantTiming:
    """Caches of constants: one for the constant loads of an SM, one in each sub-core for operands,
    all of the shape ``first``, and a second one behind them, which keeps every line that was asked for.

    ``load_miss_cycles`` and ``operand_miss_cycles`` are what a line takes that the first one lacks,
    ``second_miss_cycles`` what it takes beyond that if the second one lacks it, too.
    """

    line_bytes: int
    first: CacheShape
    load_miss_cycles: int
    operand_miss_cycles: int
    second_lines: int  # lines of the first cache in one of the second
    second_miss_cycles: int

    def lines_of(self, size: int) -> int:
        """How many lines the first bytes of a bank take."""
        return -(-size // self.line_bytes)


@dataclass(frozen=True)
class GlobalAtomicTiming:
    """What atomics on global memory take that other accesses do not.

    The address unit takes ``register_ticks`` for each register that it reads. The SM's port takes
    ``byte_ticks`` for each byte of the lanes' operands, and at least ``packet_ticks`` for each packet
    (``return_packet_ticks`` if a result comes back); lanes on one word go in packets of their own. L2 takes
    ``word_ticks`` from one of them to the next, ``float_word_ticks`` if they add floating-point numbers. An
    SM has ``in_flight`` places for such requests. ``port_sms`` SMs share their port for them.
    """

    register_ticks: int
    byte_ticks: int
    packet_ticks: int
    return_packet_ticks: int
    word_ticks: int
    float_word_ticks: int
    in_flight: int
    port_sms: int = 1


@dataclass(frozen=True)
class StoreTiming:
    """What a store takes of its SM's port for a sector, and more for a line of which it does not write all
    bytes of its sectors; and the same of what all SMs share on the way to L2."""

    sector_ticks: int
    partial_line_ticks: int
    l2_sector_ticks: int
    l2_partial_line_ticks: int = 0

    def port_ticks(self, sectors: int, lines: int, whole: bool) -> int:
        """What a store of so many sectors in so many lines takes of the port."""
        return sectors * self.sector_ticks + (0 if whole else lines * self.partial_line_ticks)


@dataclass(frozen=True)
class SliceTiming:
    """The slices of L2 (`sim/SEMANTICS.md`, 7.3), each a server of its own; one where ``count`` is 0.

    A region of 2^``region_bits`` lines lies in two of them, 2^``part_bits`` in one and as many in the other,
    in turn. A slice takes ``sector_ticks`` for a sector read or written. An atomic takes it
    ``atomic_sector_ticks`` for a sector, and ``atomic_line_ticks`` for each line. Of ``all_sms`` SMs
    ``sms`` are simulated: what they ask of a slice, the others ask as well. With ``waits_for_lanes`` it
    serves the lanes on one word before it takes the next sector. The ways between SMs and slices differ by up
    to ``spread_ticks``. With two ``partitions`` half of an atomic's way leads past a slice of the other one,
    and its result's as well.
    """

    count: int = 0
    part_bits: int = 1
    region_bits: int = 3
    sector_ticks: int = 0
    atomic_sector_ticks: int = 0
    atomic_line_ticks: int = 0
    sms: int = 1
    all_sms: int = 1
    waits_for_lanes: bool = False
    spread_ticks: int = 0
    partitions: int = 1
    across_ticks: int = 0
    double_factor: float = 1.0

    def slice_of(self, line: int) -> int:
        """The slice that a line lies in. Regions are spread by Knuth's multiplicative hash, which puts
        neighbours, and those a power of two apart, far from each other."""
        scattered = (line >> self.region_bits) * SLICE_SPREAD & 0xFFFFFFFF
        pair = scattered * max(1, self.count // 2) >> 32
        part = line >> self.part_bits ^ scattered >> 15
        return 2 * pair + (part & 1) if self.count > 1 else 0

    def wait_parts(self, line: int) -> int:
        """How often the mean a read of the line waits in the queue of its slice's memory channel, in parts of
        1,024: lengths scattered as in a queue that never runs dry, in equal steps within each halving."""
        place = 2 * (line >> self.region_bits) + (self.slice_of(line) & 1)
        mixed = place * SLICE_SPREAD & 0xFFFFFFFF
        mixed = (mixed >> 15 ^ mixed) * WAIT_SPREAD & 0xFFFFFFFF
        mixed = mixed >> 13 ^ mixed | 1 << 21
        halvings = (mixed & -mixed).bit_length() - 1
        return (2 * ((halvings << 10) + (mixed >> 22))) // 3

    def across(self, number: int) -> int:
        """The slice of the other partition that the SMs over there ask for what lies in slice ``number``."""
        return self.count - 1 - number

    def in_second_half(self, line: int) -> bool:
        """Whether a line's slice is in the second of two partitions."""
        return 2 * self.slice_of(line) >= self.count

    def past_ticks(self, returns: bool) -> int:
        """What an atomic's sector takes of the slice across, in the mean of the SMs: half of them ask there
        first, and a result comes back that way."""
        passes = (2 if returns else 1) if self.partitions > 1 else 0
        return passes * self.atomic_sector_ticks // 2

    def way_ticks(self, line: int, group: int) -> int:
        """How much longer a line's way to a group of SMs is than the shortest one. Which slice is near which
        group is scattered by the same hash."""
        place = (self.slice_of(line) * SMS_APART + group + 1) * SLICE_SPREAD & 0xFFFFFFFF
        return self.spread_ticks * place >> 32 if self.count else 0

    def occupied(self, ticks: int) -> int:
        """What a slice has to do for all SMs when a simulated one asks for ``ticks`` of it."""
        return -(-ticks * self.all_sms // self.sms)


@dataclass(frozen=True)
class ReadMerging:
    """In front of L2 each group of SMs makes one read of at most so many ``reads`` of a sector, of those
    within ``cycles`` of the first (`sim/SEMANTICS.md`, 7.3). 0: there is no such merging. The answers to all
    SMs take ``reply_ticks`` a sector, merged or not."""

    cycles: int = 0
    reads: int = 1
    reply_ticks: int = 0


MERGED_LINES: Final = CacheShape(4096, 1, hashed=True)
"""Where each group of SMs keeps lines whose reads merge (assumed)."""


def groups_of_sms(sms: int, most: int) -> list[range]:
    """SMs in groups with consecutive indices, of at most ``most`` SMs (an even number) and of pairs, as equal
    as they can be; one group where ``most`` is 0 (`sim/SEMANTICS.md`, 9.20)."""
    pairs, groups = -(-sms // 2), number_of_groups(sms, most)
    firsts = [min(sms, 2 * (group * pairs // groups)) for group in range(groups + 1)]
    firsts[-1] = sms
    return [range(*ends) for ends in itertools.pairwise(firsts)]


def number_of_groups(sms: int, most: int) -> int:
    """How many groups of at most ``most`` SMs there are."""
    return -(-sms // most) if most else 1


SMS_APART = 4096
DRAM_WINDOW_CYCLES = 4096
"""What DRAM did counts half, each time that so many cycles are counted. For half as long before a launch it
counts as idle, so that its first accesses do not find it busy."""
DRAM_LEAST_IDLE = 12
"""DRAM counts as idle for this part of the time at least."""
WAIT_SPREAD = 0x85EBCA77
"""An odd number whose products scatter the bits of 32 (Collet, xxHash, its second prime)."""
SLICE_SPREAD = 0x9E3779B1
"""2^32 over the golden ratio, made odd (Knuth, The Art of Computer Programming, volume 3, section 6.4)."""


@dataclass(frozen=True)
class RequestTicks:
    """What one access takes: of its address unit; of the data stage for each pass, and ``later`` its result
    comes for each pass beyond those that its width needs; of its address unit at least ``address_pass`` for
    each pass; of an atomic on global memory, of the port for each lane and packet, and of L2 for each lane on
    a word; of its slice of L2 for a sector, at least for each lane (``operand``), and of the slice across.
    ``bytes`` are a lane's of a load or store, whole words."""

    address: int = 0
    stage: int = 0
    later: int = 0
    lane: int = 0
    packet: int = 0
    word: int = 0
    address_pass: int = 0
    bytes: int = 0
    sector: int = 0
    operand: int = 0
    past: int = 0

    def in_slice(self, lanes: int, packets: int) -> int:
        """What a sector takes of its slice, in the mean of those of a request with so many lanes and
        packets."""
        return max(self.sector, lanes * self.operand // packets)


NO_REQUEST = RequestTicks()
"""Of an instruction that asks for nothing."""


@dataclass(frozen=True)
class BulkWriteTiming:
    """A copy to global memory: what a sector takes of the SM's port, and how many cycles after that its group
    knows that its bytes have been read (0: it is waited for until it is done)."""

    sector_ticks: int
    read_cycles: int = 0


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
    register_banks: int
    shared_bytes: int
    shared_bytes_per_block: int
    shared_reserved_bytes_per_block: int
    shared_unit_bytes: int
    block_launch_cycles: int
    # From a block's exit to the first issue of the one that gets its room, at least.
    block_turnover_cycles: int
    warp_launch_ticks: int  # the warps of a block follow each other
    block_turn: int | None  # schedulers; None: warps take the lowest free slots
    block_dispatch_ticks: int
    warp_dispatch_ticks: int
    block_refill_ticks: int  # the same for a block that takes the place of another
    warp_refill_ticks: int
    barrier_latency_cycles: int
    barrier_interval_cycles: int
    banks: int
    bank_bytes: int
    pipes: dict[str, PipeTiming]
    tensor_rates: dict[str, float]  # multiply-adds a cycle of a scheduler's tensor core, by type
    # Rows, bytes of a row, and rows of doubles that a product takes at least.
    least_tensor_shape: tuple[int, int, int]
    least_tensor_ticks: int  # what a product takes at least
    group_tail_cycles: tuple[int, int]  # first matrix in registers, shared
    group_read_ticks: int  # a sub-core's reading of a register beside such a product; 0: it takes no time
    group_queue_entries: tuple[
        int, int
    ]  # products accepted by a tensor core: first matrix in registers, shared
    wakes_waiting_warps: bool  # where it is known when a phase will be complete that a warp asked for in vain
    memory_products: MemoryProductTiming | None  # None: there is no tensor memory
    tensor_columns_per_cycle: float  # of tensor memory that a warp reads or writes
    group_sms: int  # SMs that a cluster of blocks may be spread over; 0: there are no clusters
    network_sector_ticks: int  # what an SM's port to other SMs takes for a sector; 0: there is no limit
    network_cycles: int  # from one of them to another
    cluster_barrier_cycles: int  # from a cluster's last arrival until its blocks know it
    bulk_extra_cycles: int  # what a bulk copy takes beyond a load; less than nothing: it is done sooner
    bulk_line_ticks: int  # what the copy engine takes for a line
    bulk_sector_ticks: int  # what a sector of a bulk copy takes of the SM's port
    bulk_writes: dict[str, BulkWriteTiming]  # by what a copy to global memory does: store, reduce
    mio_queue_entries: int
    front_cycles: int
    address_ticks: int
    request_interval_cycles: int
    constant_interval_cycles: int
    return_cycles: int  # from a branch to an address in a register to its warp's next instruction, at least
    taken_branch_cycles: int  # from a taken branch to its warp's next instruction, at least
    shared_pass_ticks: int
    stage_jobs: int  # that the data stage works on at once
    shared_inactive_passes: int  # of a load or a store in which no lane takes part
    stage_entries: int  # jobs that wait for it or are in it; 0 where the arbiter waits instead
    shared_pass_latency_ticks: int  # how much later an access is done for each pass beyond its width's
    match_pass_ticks: int  # what a match takes of the data stage for each register of each distinct value
    match_value_ticks: int  # how much later its result comes for each value beyond the first
    access_latency_cycles: dict[str, int]  # issue to use, 32 bits a lane, by class name
    phase_check_extra_cycles: int  # what asking a barrier in shared memory takes beyond a load from it
    wide_extra_cycles: dict[tuple[Unit, int], int]  # of a load, by unit and bits a lane
    uniform_saving_cycles: dict[Unit, int]
    read_cycles: dict[tuple[str, bool], int]  # issue to operands read, by what reads them and whether uniform
    wide_store_read_cycles: dict[int, int]  # what more bits a lane add to that of a store
    atomic_queue_entries: int
    atomic_pipes: int
    atomic_address_ticks: int
    atomic_stage_ticks: int  # a pass of an atomic in the data stage
    cas_stage_ticks: int  # that of a compare-and-swap
    atomic_round_gap_cycles: int
    atomics: dict[str, AtomicTiming]
    line_bytes: int
    sector_bytes: int
    l1: CacheShape
    l1_line_ticks: int
    l1_latency_cycles: int
    l1_tag_banks: int  # lines that L1 looks up at once; 0: a line is a pass, whatever its words
    keeps_local_stores: bool  # L1 has what stores to local memory wrote
    pending_cycles: int  # that a load with sectors on their way keeps the arbiter longer
    l1_register_bytes: int  # that L1 gives the registers of a warp in a cycle; 0: there is no such limit
    l1_address_line_ticks: int  # what a sub-core's address unit takes for each line, or pass, of a load
    port_sector_ticks: int
    stores: StoreTiming
    l2: CacheShape
    l2_sector_ticks: int
    l2_line_ticks: int  # of a line read, at least
    l2_atomic_sector_ticks: int
    l2_slices: SliceTiming
    global_atomics: GlobalAtomicTiming
    # What a fence for the GPU takes from where it could issue without accesses; 0: those alone.
    fence_cycles: int
    error_barrier_cycles: int  # what the wait for errors behind it takes
    system_fence_cycles: int  # what a fence for the whole system takes beyond one for the GPU
    l2_latency_cycles: int
    read_merging: ReadMerging
    dram_sector_ticks: int  # of a sector read
    dram_write_ticks: int
    dram_drain_cycles: int  # what is left, in the mean, of the writes that a read finds DRAM at
    dram_read_cycles: int  # and of the reads
    dram_latency_cycles: int
    fetch: FetchTiming
    fp64_tail_cycles: int  # of a product of doubles, from its own multiply-adds to its result; 0: as others
    float_scoreboard_cycles: int  # from other floating-point products to their scoreboards; 0: as others
    constants: ConstantTiming | None  # None: they are always there
    uniform_constant_cycles: int  # for which a load to a uniform register keeps the uniform pipe
    sm_hz: int  # turns cycles into seconds for the counters; the engines do not use it
    shares_dram: bool = (
        False  # a sample of the SMs: what it leaves of its share of DRAM others take, and give back
    )
    gpu: tuple[str, str] | None = None  # title and compute capability, for the counters alone

    @cached_property
    def sectors_per_line(self) -> int:
        return self.line_bytes // self.sector_bytes

    def stage_ticks(self, cls: InstructionClass) -> int:
        """What a pass, or a line, of an access of a class takes of the data stage."""
        if cls.operation == "constant":
            return 0
        if cls.operation == "match":
            return self.match_pass_ticks
        if cls.operation == "cas":
            return self.cas_stage_ticks
        return {Unit.GLOBAL: self.l1_line_ticks, Unit.ATOMIC: self.atomic_stage_ticks}.get(
            cls.unit, self.shared_pass_ticks
        )

    @property
    def generic_shared_saving(self) -> int:
        """How much sooner a generic access to shared memory completes than one that hits L1: as a load from
        shared memory does."""
        return max(0, self.l1_latency_cycles - self.access_latency_cycles["shared-load"])

    @property
    def network_load_cycles(self) -> int:
        """What a load from another SM takes beyond one from its own shared memory: what is published of the
        network is the whole way, from issue to use."""
        return max(0, self.network_cycles - self.access_latency_cycles["shared-load"])

    @cached_property
    def l1_hit_tail_cycles(self) -> int:
        """From a global access's leaving its sub-core to its data in L1, so that an unloaded hit takes
        ``l1_latency_cycles``."""
        return max(1, self.l1_latency_cycles - self.front_cycles)

    @property
    def l2_served_ticks(self) -> int:
        """From a sector's arrival at an idle L2 to the end of its service: what all share, or its slice."""
        return max(self.l2_sector_ticks, self.l2_line_ticks, self.l2_slices.sector_ticks)

    @cached_property
    def l2_return_cycles(self) -> int:
        """From a sector's service in L2 to its data at the SM; an unloaded hit takes ``l2_latency_cycles``
        in all."""
        way_down = self.front_cycles + sum(
            ceil_cycles(t) for t in (self.l1_line_ticks, self.port_sector_ticks, self.l2_served_ticks)
        )
        return max(1, self.l2_latency_cycles - ceil_cycles(self.l2_slices.spread_ticks // 2) - way_down)

    @cached_property
    def dram_extra_cycles(self) -> int:
        """What a DRAM access adds to an L2 hit; an unloaded miss takes ``dram_latency_cycles`` in all."""
        way_down = self.front_cycles + ceil_cycles(self.l1_line_ticks) + ceil_cycles(self.port_sector_ticks)
        shared = max(self.l2_sector_ticks, self.l2_line_ticks) + self.dram_sector_ticks
        served = ceil_cycles(max(shared, self.l2_slices.sector_ticks))
        way_back = self.l2_return_cycles + ceil_cycles(self.l2_slices.spread_ticks // 2)
        return max(1, self.dram_latency_cycles - way_back - way_down - served)

    def least_passes(self, cls: InstructionClass, bits: int) -> int:
        """Of an access to global memory, however few lines it asks for: a load takes L1 as long as its
        registers take to be written. ``bits`` are a lane's."""
        if cls.operation != "load" or not self.l1_register_bytes:
            return 1
        return max(1, self.warp_lanes * bits // 8 // self.l1_register_bytes)

    def tail_cycles(self, cls: InstructionClass, width: int = 32, uniform: bool = False) -> int:
        """From leaving the sub-core to the result of an access without conflicts of ``width`` bits."""
        cycles = self.access_latency_cycles[cls.name] - self.front_cycles
        if cls.name == "constant-load" and uniform:
            cycles = self.access_latency_cycles["constant-immediate"] - self.front_cycles
        elif cls.operation in ("load", "copy"):  # a copy takes as long whatever its width
            # Nobody has published what 256 bits take: as much as 128 (assumed).
            extra = self.wide_extra_cycles.get((cls.unit, min(width, 128)), 0)
            cycles += extra if cls.operation == "load" else 0
            cycles -= self.uniform_saving_cycles[cls.unit] if uniform else 0
        elif cls.operation == "match":  # a second register is read, and compared
            more = self.global_atomics.register_ticks + self.match_pass_ticks
            cycles += (width // 32 - 1) * more >> TICK_BITS
        return max(1, cycles)

    def read_offset_cycles(self, cls: InstructionClass, width: int = 32, uniform: bool = False) -> int:
        """From when an access could leave its sub-core to when its operands are read (it may be < 0)."""
        stores = cls.operation in ("store", "reduce", "atomic") or cls.unit is Unit.ATOMIC
        reader = cls.operation
        if reader not in ("constant", "copy"):
            reader = f"{_ROOMS.get(cls.unit, 'shared')}.{'store' if stores else 'load'}"
        cycles = self.read_cycles[reader, uniform] - self.front_cycles
        return cycles + (self.wide_store_read_cycles.get(min(width, 128), 0) if stores else 0)

    def request_ticks(
        self,
        cls: InstructionClass,
        registers: int = 1,
        floating: bool = False,
        address_registers: int = ADDRESS_REGISTERS,
        operand_factor: float = 1.0,
    ) -> RequestTicks:
        """What an access of a class takes whose operands, without the address, or whose result fill
        ``registers`` of a lane. A slice of L2 takes an atomic's operands ``operand_factor`` times as long as
        whole numbers."""
        stage = self.stage_ticks(cls)
        if cls.unit is Unit.ATOMIC:
            return RequestTicks(self.atomic_address_ticks, stage)
        if cls.operation == "constant":
            return RequestTicks(0, stage, self.constant_interval_cycles << TICK_BITS)
        if cls.operation == "match":
            each = self.match_value_ticks + (registers - 1) * self.match_pass_ticks
            return RequestTicks(self.address_ticks, stage, each // registers)
        if cls.operation not in ("reduce", "atomic"):
            later = self.shared_pass_latency_ticks if cls.unit is Unit.SHARED else stage
            loads = cls.unit in (Unit.GLOBAL, Unit.SHARED) and cls.operation == "load"
            return RequestTicks(
                self.address_ticks,
                stage,
                later,
                address_pass=self.l1_address_line_ticks if loads else 0,
                bytes=4 * registers if cls.operation in ("load", "store") else 0,
            )
        own = self.global_atomics
        return RequestTicks(
            stage=stage,
            later=stage,
            address=max(self.address_ticks, (address_registers + registers) * own.register_ticks),
            lane=4 * registers * own.byte_ticks,
            packet=own.packet_ticks if cls.operation == "reduce" else own.return_packet_ticks,
            word=own.float_word_ticks if floating else own.word_ticks,
            sector=self.l2_slices.atomic_sector_ticks,
            operand=round(
                operand_factor * self.l2_slices.atomic_sector_ticks * 4 * registers / self.sector_bytes
            ),
            past=self.l2_slices.past_ticks(cls.operation == "atomic"),
        )

    def tensor_timing(self, product: TensorProduct | None) -> PipeTiming | None:
        """What a product of matrices takes of its scheduler's tensor core: its multiply-adds at the rate of
        its type, those of the smallest shape at least. A product by a group of warps also takes the time in
        which shared memory gives its matrices, which does not delay its result, and waits in a queue for the
        tensor core. None for another
        instruction, or where the description has no rate for the type."""
        if product is None:
            return None
        rate = self.tensor_rates.get(f"group_{product.type}" if product.of_group else product.type)
        if rate is None:
            return None
        cycles = product.padded_multiply_adds(*self.least_tensor_shape) / rate
        if not product.of_group:
            ticks = max(TICKS_PER_CYCLE, self.least_tensor_ticks, round(cycles * TICKS_PER_CYCLE))
            whole, part = divmod(ticks, TICKS_PER_CYCLE)
            own = replace(self.pipes["tensor"], interval_cycles=whole, fraction_ticks=part)
            if self.float_scoreboard_cycles and product.type not in RESULT_SCOREBOARD_TYPES:
                return replace(own, latency_cycles=self.float_scoreboard_cycles)
            if product.type != "fp64" or not self.fp64_tail_cycles:
                return own
            working = math.ceil(product.multiply_adds / rate)
            return replace(own, latency_cycles=working + self.fp64_tail_cycles)
        reading = -(-product.shared_bytes // (self.banks * self.bank_bytes))
        interval = max(1, round(cycles), reading)
        latency = max(1, round(cycles)) + self.group_tail_cycles[product.first_in_shared]
        entries = self.group_queue_entries[product.first_in_shared]
        return replace(
            self.pipes["tensor"],
            interval_cycles=interval,
            latency_cycles=latency,
            backlog_cycles=interval * (entries - 1),
            spare_cycles=interval - reading,
        )

    def memory_product_timing(self, told: int) -> PipeTiming:
        """What a product in tensor memory takes, from what its source tells: columns, rows from bit 16 on,
        and in bit 32 whether its first matrix is in shared memory. Bit 33: a copy to tensor memory, which
        reads its bytes as columns of 16 and multiplies nothing."""
        own = self.memory_products
        assert own is not None
        columns, rows, in_shared = told & 0xFFFF, told >> 16 & 0xFFFF, told >> 32 & 1
        row_bytes = self.banks * self.bank_bytes
        first = -(-rows * in_shared * PRODUCT_DEPTH_BYTES // row_bytes)
        reading = first + max(own.second_cycles, -(-columns * PRODUCT_DEPTH_BYTES // row_bytes))
        multiplies = told >> 33 == 0
        working = ceil_cycles(columns * max(rows, own.least_rows) * own.cell_ticks) if multiplies else reading
        interval = max(working, reading)
        return replace(
            self.pipes["tensor"],
            interval_cycles=interval,
            latency_cycles=working + first + own.tail_cycles,
            backlog_cycles=interval * (own.queue_entries - 1),
            spare_cycles=interval - reading,
        )

    def peak_multiply_adds(self, kind: str) -> float:
        """What the tensor cores of an SM do a cycle at most, with products of a type as one warp issues them
        or, where there is tensor memory, one thread does."""
        if self.memory_products is None or kind not in _ELEMENTS_OF_PRODUCT:
            return self.tensor_rates[kind] * self.schedulers
        return TICKS_PER_CYCLE / self.memory_products.cell_ticks * _ELEMENTS_OF_PRODUCT[kind]

    def tensor_memory_timing(self, columns: int, stores: bool) -> PipeTiming:
        """What moving so many columns between tensor memory and a warp's registers takes."""
        pipe, own = self.pipes["tensor-memory"], self.memory_products
        interval = max(1, math.ceil(columns / self.tensor_columns_per_cycle))
        beyond = own.store_cycles if stores and own is not None else pipe.latency_cycles
        return replace(pipe, interval_cycles=interval, latency_cycles=beyond + interval)

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


_ELEMENTS_OF_PRODUCT: Final = {
    "fp16": 16,
    "fp16_fp32": 16,
    "bf16": 16,
    "tf32": 8,
    "fp8": 32,
    "fp8_fp32": 32,
    "mxfp8": 32,
    "mxfp4": 64,
    "int8": 32,
}
"""Of a row of a product in tensor memory."""
_ROOMS = {Unit.SHARED: "shared", Unit.GLOBAL: "l1"}
"""Where the description has the constants of a unit's accesses."""


_READS = {
    **{
        f"{room}.{op}": (f"{room}.{op}_read_cycles", f"{room}.{op}_read_uniform_cycles")
        for room in _ROOMS.values()
        for op in ("load", "store")
    },
    "copy": ("l1.copy_read_cycles", "l1.copy_read_cycles"),
    "constant": ("constant.read_cycles", "constant.immediate_read_cycles"),
}
"""Which constants say when operands are read: with a lane's own address, and with a uniform one."""


def _cache(gpu: Gpu, level: str, line_bytes: int) -> CacheShape:
    """Of ``l1.``, ``l2.`` or, with a longer name, ``icache.l0_``."""
    ways, size = gpu.integer(f"{level}ways"), gpu.integer(f"{level}bytes")
    sets = size // (line_bytes * ways)
    if sets < 1:
        raise SmlabError.at(gpu.name, f"{level}bytes is smaller than one set", size)
    halves = 2 if _optional(gpu, f"{level}across_cycles") else 1
    return CacheShape(sets, ways, _optional(gpu, f"{level}hashes_sets") > 0, halves)


def _group_sms(gpu: Gpu) -> int:
    if not gpu.has("gpu.group_sms"):
        return 0
    if (sms := gpu.integer("gpu.group_sms")) % 2:
        raise SmlabError.at(f"{gpu.name}: gpu.group_sms", "SMs come in pairs", sms, "an even number")
    return sms


def _read_merging(gpu: Gpu, sm_hz: float, sector_bytes: int) -> ReadMerging:
    if not gpu.has("l2.merge_cycles"):
        return ReadMerging()
    return ReadMerging(
        cycles=_whole_cycles(gpu, "l2.merge_cycles"),
        reads=gpu.integer("l2.merged_reads"),
        reply_ticks=to_ticks(sector_bytes * sm_hz / gpu.number("l2.reply_bytes_per_s")),
    )


def _slices(gpu: Gpu, line_bytes: int) -> SliceTiming:
    """Of a description without them: none, so that L2 is one server."""
    if not gpu.has("l2.slice_bytes") or gpu.integer("l2.slice_bytes") == 0:
        return SliceTiming()
    region, part = gpu.integer("l2.slice_region_bytes"), gpu.integer("l2.slice_part_bytes")
    # In pairs, since a region lies in two of them; of an L2 smaller than two slices one.
    count = max(1, gpu.integer("l2.bytes") // gpu.integer("l2.slice_bytes") // 2 * 2)
    for key, size, least in (("part", part, line_bytes), ("region", region, 2 * part)):
        if size < least or size.bit_count() != 1:
            expected = f"a power of two, at least {least}"
            raise SmlabError.at(gpu.name, f"l2.slice_{key}_bytes: no such {key} of lines", size, expected)
    return SliceTiming(
        count=count,
        part_bits=(part // line_bytes).bit_length() - 1,
        region_bits=(region // line_bytes).bit_length() - 1,
        sector_ticks=to_ticks(gpu.number("l2.slice_sector_cycles")),
        atomic_sector_ticks=to_ticks(gpu.number("l2.slice_atomic_sector_cycles")),
        atomic_line_ticks=to_ticks(gpu.number("l2.slice_atomic_line_cycles")),
        waits_for_lanes=_optional(gpu, "l2.slice_waits_for_lanes") > 0,
        spread_ticks=to_ticks(_optional(gpu, "l2.slice_spread_cycles")),
        partitions=round(_optional(gpu, "l2.partitions", 1)),
        across_ticks=to_ticks(_optional(gpu, "l2.across_cycles")),
        double_factor=_optional(gpu, "l2.slice_double_factor", 1),
    )


def _fetch(gpu: Gpu) -> FetchTiming:
    line_bytes, earlier = gpu.integer("icache.line_bytes"), gpu.integer("icache.earlier_launches")
    return FetchTiming(
        line_instructions=max(1, line_bytes // INSTRUCTION_BYTES),
        l0=_cache(gpu, "icache.l0_", line_bytes),
        l1=_cache(gpu, "icache.l1_", line_bytes),
        prefetch_lines=gpu.integer("icache.ahead_lines"),
        l0_miss_cycles=_whole_cycles(gpu, "icache.l0_miss_cycles"),
        l1_miss_cycles=gpu.integer("icache.l1_miss_cycles"),
        preloaded_lines=EVERY_LINE if earlier else gpu.integer("icache.preloaded_bytes") // line_bytes,
        request_interval_cycles=gpu.integer("icache.request_interval_cycles"),
        warm=earlier,
        l0_sub_cores=round(_optional(gpu, "icache.l0_sub_cores", 1)),
    )


def _constant_caches(gpu: Gpu) -> ConstantTiming | None:
    if not gpu.has("constant.line_bytes"):
        return None
    line_bytes, second_bytes = gpu.integer("constant.line_bytes"), gpu.integer("constant.second_line_bytes")
    return ConstantTiming(
        line_bytes=line_bytes,
        first=_cache(gpu, "constant.cache_", line_bytes),
        load_miss_cycles=gpu.integer("constant.load_miss_cycles"),
        operand_miss_cycles=gpu.integer("constant.operand_miss_cycles"),
        second_lines=max(1, second_bytes // line_bytes),
        second_miss_cycles=gpu.integer("constant.second_miss_cycles"),
    )


def _refill_ticks(gpu: Gpu, what: str) -> int:
    """What the dispatcher takes where a block has finished; as at first, where nothing else is told."""
    key = f"gpu.{what}_refill_cycles"
    return to_ticks(gpu.number(key if gpu.has(key) else f"gpu.{what}_dispatch_cycles"))


def _atomic_pass_cycles(gpu: Gpu) -> float:
    """A pass of an atomic in the data stage."""
    return float(gpu.number("atomic.stage_factor") * gpu.number("shared.interval_cycles_per_pass"))


def _of_group(gpu: Gpu, name: str, without: int) -> int:
    """A constant of products by groups of warps; ``without`` where a description has none."""
    key = f"tensor.group_{name}"
    return round(gpu.number(key)) if gpu.has(key) else without


def _memory_products(gpu: Gpu) -> MemoryProductTiming | None:
    if not gpu.has("tensor.memory_cells_per_cycle"):
        return None
    return MemoryProductTiming(
        cell_ticks=to_ticks(1 / gpu.number("tensor.memory_cells_per_cycle")),
        least_rows=gpu.integer("tensor.memory_least_rows"),
        second_cycles=_whole_cycles(gpu, "tensor.memory_second_cycles"),
        tail_cycles=_whole_cycles(gpu, "tensor.memory_tail_cycles"),
        queue_entries=gpu.integer("tensor.memory_queue_entries"),
        store_cycles=math.floor(gpu.number("tensor.memory_store_cycles") + 0.5),
    )


def _optional(gpu: Gpu, key: str, without: float = 0.0) -> float:
    """A constant of a rule that a description may do without."""
    return gpu.number(key) if gpu.has(key) else without


def _whole_cycles(gpu: Gpu, key: str) -> int:
    """A latency rounded to whole cycles (published means are fractional; the simulator's time is not)."""
    return max(1, math.floor(gpu.number(key) + 0.5))


def _bulk_write(gpu: Gpu, kind: str, sector_bytes: int, bytes_per_cycle: float) -> BulkWriteTiming:
    rate, read = (f"copy_engine.{kind}_{what}" for what in ("bytes_per_cycle", "read_cycles"))
    if gpu.has(rate):
        bytes_per_cycle = gpu.number(rate)
    ticks = max(1, to_ticks(sector_bytes / bytes_per_cycle))
    return BulkWriteTiming(ticks, _whole_cycles(gpu, read) if gpu.has(read) else 0)


def _interval_ticks(gpu: Gpu, key: str) -> int:
    value = gpu.number(key)
    if value < 1:
        raise SmlabError.at(
            gpu.name, f"{key} is too short for a unit that serves one at a time", value, "at least 1"
        )
    return to_ticks(value)


def _atomic(gpu: Gpu, op: str) -> AtomicTiming:
    base = to_ticks(gpu.number(f"atomic.{op}.base_interval_cycles"))
    per_pass = to_ticks(gpu.number(f"atomic.{op}.pass_interval_cycles"))
    before = gpu.integer("mio.front_cycles") + ceil_cycles(base + per_pass)
    whole = _whole_cycles(gpu, f"atomic.{op}.latency_cycles")
    timing = AtomicTiming(base, per_pass, max(1, whole - before))
    # Ticks are rounded, so base and pass that add up to a cycle may miss it by one.
    if timing.interval_ticks(1) < TICKS_PER_CYCLE - 1:
        interval = timing.interval_ticks(1) / TICKS_PER_CYCLE
        raise SmlabError.at(
            gpu.name, f"atomic.{op}: one pass takes less than a cycle", interval, "at least 1"
        )
    return timing


def machine_from(gpu: Gpu, policy: str | None = None) -> Machine:
    """Lower a GPU description; ``policy`` overrides the description's warp scheduler policy."""
    where = "policy" if policy else f"{gpu.name}: sm.scheduler_policy"
    policy = policy or gpu.text("sm.scheduler_policy")
    if policy not in POLICIES:
        raise SmlabError.at(where, "unknown warp scheduler policy", policy, "one of " + ", ".join(POLICIES))
    sm_hz = gpu.number("clock.sm_hz")
    line_bytes, sector_bytes = gpu.integer("l1.line_bytes"), gpu.integer("l1.sector_bytes")

    def sector_ticks(bytes_per_cycle: float) -> int:
        return max(1, to_ticks(sector_bytes / bytes_per_cycle))

    sustained = gpu.number("dram.sustained_bandwidth_bytes_per_s")
    read_factor = _optional(gpu, "dram.read_factor", 1.0)
    l2_sector_ticks = sector_ticks(gpu.number("l2.bandwidth_bytes_per_s") / sm_hz)
    own_port = gpu.has("copy_engine.port_bytes_per_cycle")
    bulk_bytes_per_cycle = gpu.number(
        "copy_engine.port_bytes_per_cycle" if own_port else "l2.sm_port_bytes_per_cycle"
    )
    slices = _slices(gpu, line_bytes)
    stores = "l2.sm_store_port_bytes_per_cycle"
    store_sector = sector_ticks(gpu.number(stores if gpu.has(stores) else "l2.sm_port_bytes_per_cycle"))
    partial_line = to_ticks(_optional(gpu, "l2.store_partial_line_cycles"))
    store_factor = _optional(gpu, "l2.store_sector_factor", 1.0)

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
        register_banks=gpu.integer("sm.register_banks"),
        shared_bytes=gpu.integer("sm.shared_bytes"),
        shared_bytes_per_block=gpu.integer("sm.shared_bytes_per_block"),
        shared_reserved_bytes_per_block=gpu.integer("sm.shared_reserved_bytes_per_block"),
        shared_unit_bytes=gpu.integer("sm.shared_unit_bytes"),
        block_launch_cycles=gpu.integer("sm.block_launch_cycles"),
        block_turnover_cycles=round(_optional(gpu, "sm.block_turnover_cycles")),
        warp_launch_ticks=to_ticks(_optional(gpu, "sm.warp_launch_cycles")),
        block_turn=gpu.integer("sm.block_turn") if gpu.has("sm.block_turn") else None,
        block_dispatch_ticks=to_ticks(gpu.number("gpu.block_dispatch_cycles")),
        warp_dispatch_ticks=to_ticks(gpu.number("gpu.warp_dispatch_cycles")),
        block_refill_ticks=_refill_ticks(gpu, "block"),
        warp_refill_ticks=_refill_ticks(gpu, "warp"),
        barrier_latency_cycles=_whole_cycles(gpu, "sm.barrier_latency_cycles"),
        barrier_interval_cycles=gpu.integer("sm.barrier_interval_cycles"),
        banks=gpu.integer("banks.count"),
        bank_bytes=gpu.integer("banks.width_bytes"),
        pipes={
            name: PipeTiming(
                interval_cycles=_whole_cycles(gpu, f"pipe.{name}.interval_cycles"),
                latency_cycles=_whole_cycles(gpu, f"pipe.{name}.latency_cycles"),
                per_sm=gpu.text(f"pipe.{pipe}.shared_by") == "sm",
            )
            for name, pipe in TIMINGS.items()
        },
        tensor_rates={
            name: gpu.number(key)
            for kind in TENSOR_TYPES
            for name in (kind, f"group_{kind}")
            if gpu.has(key := f"tensor.{name}_fma_per_cycle")
        },
        least_tensor_shape=(
            gpu.integer("tensor.least_rows"),
            gpu.integer("tensor.least_depth_bytes"),
            round(_optional(gpu, "tensor.least_fp64_rows", 1)),
        ),
        least_tensor_ticks=to_ticks(_optional(gpu, "tensor.least_interval_cycles")),
        network_sector_ticks=(
            sector_ticks(gpu.number("gpu.network_bytes_per_cycle"))
            if gpu.has("gpu.network_bytes_per_cycle")
            else 0
        ),
        wakes_waiting_warps=_optional(gpu, "shared.phase_check_wakes") > 0,
        memory_products=_memory_products(gpu),
        tensor_columns_per_cycle=_optional(gpu, "tensor.memory_columns_per_cycle", 1),
        group_sms=_group_sms(gpu),
        network_cycles=(
            _whole_cycles(gpu, "gpu.network_latency_cycles") if gpu.has("gpu.network_latency_cycles") else 1
        ),
        cluster_barrier_cycles=_whole_cycles(
            gpu,
            key if gpu.has(key := "gpu.cluster_barrier_latency_cycles") else "gpu.network_latency_cycles",
        )
        if gpu.has("gpu.network_latency_cycles")
        else 1,
        bulk_extra_cycles=(
            math.floor(gpu.number("copy_engine.extra_cycles") + 0.5)
            if gpu.has("copy_engine.extra_cycles")
            else 0
        ),
        bulk_line_ticks=(
            to_ticks(gpu.number("copy_engine.line_interval_cycles"))
            if gpu.has("copy_engine.line_interval_cycles")
            else 0
        ),
        bulk_sector_ticks=sector_ticks(bulk_bytes_per_cycle),
        bulk_writes={
            kind: _bulk_write(gpu, kind, sector_bytes, bulk_bytes_per_cycle) for kind in ("store", "reduce")
        },
        group_tail_cycles=(
            _of_group(gpu, "register_tail_cycles", 0),
            _of_group(gpu, "shared_tail_cycles", 0),
        ),
        group_read_ticks=(
            to_ticks(1 / gpu.number("tensor.group_reads_left_per_cycle"))
            if gpu.has("tensor.group_reads_left_per_cycle")
            else 0
        ),
        group_queue_entries=(
            _of_group(gpu, "register_queue_entries", 1),
            _of_group(gpu, "shared_queue_entries", 1),
        ),
        mio_queue_entries=gpu.integer("mio.queue_entries"),
        front_cycles=gpu.integer("mio.front_cycles"),
        address_ticks=to_ticks(gpu.integer("mio.address_interval_cycles")),
        request_interval_cycles=gpu.integer("mio.request_interval_cycles"),
        constant_interval_cycles=gpu.integer("constant.interval_cycles"),
        return_cycles=gpu.integer("sm.return_cycles"),
        taken_branch_cycles=gpu.integer("sm.taken_branch_cycles"),
        shared_pass_ticks=_interval_ticks(gpu, "shared.interval_cycles_per_pass"),
        stage_jobs=round(_optional(gpu, "shared.jobs_at_once", 1)),
        shared_inactive_passes=round(_optional(gpu, "shared.inactive_passes")),
        stage_entries=round(_optional(gpu, "shared.queue_entries")),
        shared_pass_latency_ticks=to_ticks(gpu.number("shared.pass_latency_cycles")),
        match_pass_ticks=to_ticks(gpu.number("mio.match_pass_cycles")),
        match_value_ticks=to_ticks(gpu.number("mio.match_value_cycles")),
        access_latency_cycles={
            "shared-load": _whole_cycles(gpu, "shared.load_latency_cycles"),
            "shared-store": _whole_cycles(gpu, "shared.store_latency_cycles"),
            "shuffle": _whole_cycles(gpu, "mio.shuffle_latency_cycles"),
            "match": _whole_cycles(gpu, "mio.match_latency_cycles"),
            "constant-load": _whole_cycles(gpu, "constant.latency_cycles"),
            "constant-immediate": _whole_cycles(gpu, "constant.immediate_latency_cycles"),
            "global-load": _whole_cycles(gpu, "l1.latency_cycles"),
            "async-copy": _whole_cycles(gpu, "l1.copy_latency_cycles"),
        },
        phase_check_extra_cycles=(
            gpu.integer("shared.phase_check_latency_cycles") - gpu.integer("shared.load_latency_cycles")
            if gpu.has("shared.phase_check_latency_cycles")
            else 0
        ),
        wide_extra_cycles={
            (unit, width): round(gpu.number(f"{room}.load_{width}_extra_cycles"))
            for unit, room in _ROOMS.items()
            for width in (64, 128)
        },
        uniform_saving_cycles={
            unit: round(gpu.number(f"{room}.uniform_saving_cycles")) for unit, room in _ROOMS.items()
        },
        read_cycles={
            (reader, uniform): _whole_cycles(gpu, key)
            for reader, keys in _READS.items()
            for uniform, key in zip((False, True), keys, strict=True)
        },
        wide_store_read_cycles={
            width: round(gpu.number(f"mio.store_read_{width}_extra_cycles")) for width in (64, 128)
        },
        atomic_queue_entries=gpu.integer("atomic.queue_entries"),
        atomic_pipes=gpu.integer("atomic.pipes") if gpu.has("atomic.pipes") else 1,
        atomic_address_ticks=to_ticks(gpu.number("atomic.address_interval_cycles")),
        atomic_stage_ticks=max(1, to_ticks(_atomic_pass_cycles(gpu))),
        cas_stage_ticks=max(
            1,
            to_ticks(_atomic_pass_cycles(gpu) * _optional(gpu, "atomic.cas_stage_factor", 1.0)),
        ),
        atomic_round_gap_cycles=round(gpu.number("atomic.round_gap_cycles")),
        atomics={op: _atomic(gpu, op) for op in ATOMIC_OPERATIONS if gpu.has(f"atomic.{op}.latency_cycles")},
        line_bytes=line_bytes,
        sector_bytes=sector_bytes,
        l1=_cache(gpu, "l1.", line_bytes),
        l1_line_ticks=_interval_ticks(gpu, "l1.interval_cycles_per_line"),
        l1_latency_cycles=_whole_cycles(gpu, "l1.latency_cycles"),
        l1_tag_banks=round(_optional(gpu, "l1.lines_per_cycle")),
        keeps_local_stores=_optional(gpu, "l1.keeps_local_stores") > 0,
        pending_cycles=round(_optional(gpu, "l1.pending_lookups"))
        * gpu.integer("mio.request_interval_cycles"),
        l1_register_bytes=round(_optional(gpu, "l1.register_bytes_per_cycle")),
        l1_address_line_ticks=to_ticks(_optional(gpu, "mio.address_line_cycles")),
        port_sector_ticks=sector_ticks(gpu.number("l2.sm_port_bytes_per_cycle")),
        stores=StoreTiming(
            sector_ticks=store_sector,
            partial_line_ticks=partial_line,
            l2_sector_ticks=round(l2_sector_ticks * store_factor),
            l2_partial_line_ticks=round(l2_sector_ticks * store_factor * partial_line / store_sector),
        ),
        l2=_cache(gpu, "l2.", line_bytes),
        l2_sector_ticks=l2_sector_ticks,
        l2_line_ticks=round(l2_sector_ticks * _optional(gpu, "l2.read_line_sectors", 1.0)),
        # With slices, these know what an atomic takes.
        l2_atomic_sector_ticks=round(
            l2_sector_ticks * (1 if slices.count else gpu.number("l2.atomic_sector_factor"))
        ),
        l2_slices=slices,
        global_atomics=GlobalAtomicTiming(
            register_ticks=to_ticks(gpu.number("mio.atomic_register_cycles")),
            byte_ticks=to_ticks(1 / gpu.number("l1.atomic_bytes_per_cycle")),
            packet_ticks=to_ticks(gpu.number("l1.atomic_packet_cycles")),
            return_packet_ticks=to_ticks(gpu.number("l1.atomic_return_packet_cycles")),
            word_ticks=to_ticks(gpu.number("l2.atomic_interval_cycles")),
            float_word_ticks=to_ticks(gpu.number("l2.atomic_float_interval_cycles")),
            in_flight=gpu.integer("l1.atomics_in_flight"),
            port_sms=round(_optional(gpu, "l1.atomic_port_sms", 1.0)),
        ),
        fence_cycles=_whole_cycles(gpu, "gpu.fence_cycles") if gpu.has("gpu.fence_cycles") else 0,
        error_barrier_cycles=(
            _whole_cycles(gpu, "gpu.error_barrier_cycles") if gpu.has("gpu.error_barrier_cycles") else 0
        ),
        system_fence_cycles=_whole_cycles(gpu, "gpu.system_fence_cycles"),
        l2_latency_cycles=_whole_cycles(gpu, "l2.latency_cycles"),
        read_merging=_read_merging(gpu, sm_hz, sector_bytes),
        dram_sector_ticks=sector_ticks(sustained * read_factor / sm_hz),
        dram_drain_cycles=round(_optional(gpu, "dram.write_drain_s") * sm_hz),
        dram_read_cycles=round(_optional(gpu, "dram.read_drain_s") * sm_hz),
        # Two reads and a write take as long as three sectors of the sustained stream.
        dram_write_ticks=sector_ticks(sustained / (3 - 2 / read_factor) / sm_hz),
        dram_latency_cycles=_whole_cycles(gpu, "dram.latency_cycles"),
        fetch=_fetch(gpu),
        fp64_tail_cycles=round(_optional(gpu, "tensor.fp64_tail_cycles")),
        float_scoreboard_cycles=round(_optional(gpu, "tensor.scoreboard_cycles")),
        constants=_constant_caches(gpu),
        uniform_constant_cycles=round(
            _optional(gpu, "constant.uniform_interval_cycles", gpu.number("pipe.uniform.interval_cycles"))
        ),
        sm_hz=round(sm_hz),
        gpu=(gpu.title, gpu.compute_capability),
    )
