"""From a lowered kernel to the arrays of the compiled engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.sim.aligned_arrays import aligned
from smlab.sim.compiled import layout
from smlab.sim.compiled.issue import POLICY_CODES
from smlab.sim.compiled.threads import yield_address
from smlab.sim.instruction_source import (
    BLOCK_BARRIERS,
    FENCED_SLOTS,
    GROUP_SLOT,
    LONG_SLOT,
    PRODUCT_SLOT,
    SCOREBOARDS,
    SHARED_STORE_SLOT,
    SHORT_SLOT,
    SLOTS,
    STORE_SLOT,
    CompiledSource,
)
from smlab.sim.instructions import QUEUED_UNITS, Reason, Unit
from smlab.sim.isa.operation_codes import BANK_BITS, BANKS, FIRST_ADDRESS, LOCAL_AT
from smlab.sim.lowering import (
    INDEXED_CONSTANT,
    LoopBegin,
    LoopEnd,
    LoweredKernel,
    LoweredProgram,
    Operation,
    without_collection,
)
from smlab.sim.machine import MERGED_LINES, TICK_BITS, TICKS_PER_CYCLE, Machine, SliceTiming, number_of_groups
from smlab.sim.workloads.workload import blocks_per_sm

MAX_WARPS_OF_SCHEDULER = 64
FIRST_ROWS = 4096
FIRST_ACCESSES = 4096


@dataclass
class Code:
    """The code of several programs, one after the other, as it is put together."""

    machine: Machine
    items: list[tuple[int, ...]] = field(default_factory=list)
    needs: list[tuple[int, int]] = field(default_factory=list)
    entries: list[int] = field(default_factory=list)
    resources: dict[object, int] = field(default_factory=dict)
    tables: list[NDArray[np.int64]] = field(
        default_factory=list
    )  # kept alive: the code holds their addresses
    slots: int = 1
    depth: int = 1
    uses_memory: bool = False
    bulk_sectors: int = 0

    def add(self, program: LoweredProgram) -> None:
        begin = len(self.items)
        self.entries.append(begin)
        first = SLOTS if program.recorded else 0  # places that a source's warps have besides
        self.slots = max(
            self.slots, _whole_lines(SLOTS) if program.has_instruction_source else first + 2 * program.slots
        )
        watched = {slot for operation in program.operations for slot in operation.after}
        depth = 0
        for item in program.code:
            if isinstance(item, Operation):
                self.items.append(self._operation(program, item, watched))
            elif isinstance(item, LoopBegin):
                depth += 1
                self.depth = max(self.depth, depth)
                self.items.append(_item(kind=layout.LOOP_BEGIN, count=item.count))
            elif isinstance(item, LoopEnd):
                depth -= 1
                self.items.append(_item(kind=layout.LOOP_END, start=begin + item.start))
        self.items.append(
            _item(kind=layout.END, line=self._line(len(program.operations) - 1), groups_left=-1)
        )

    def _line(self, slot: int) -> int:
        return slot // self.machine.fetch.line_instructions

    def _operation(self, program: LoweredProgram, operation: Operation, watched: set[int]) -> tuple[int, ...]:
        machine, cls = self.machine, operation.cls
        needs, first = len(self.needs), SLOTS if program.recorded else 0
        for place in operation.after:
            slot, read = place % program.slots, place >= program.slots
            self.needs.append((first + 2 * slot + read, int(program.class_at(place).result_reason)))
        if operation.is_fence:
            self.needs += ((slot, int(Reason.LONG_SCOREBOARD)) for slot in FENCED_SLOTS)
        if operation.is_shared_fence:
            self.needs.append((SHARED_STORE_SLOT, int(Reason.SHORT_SCOREBOARD)))
        values: dict[str, int] = {}
        resource: object = None
        if cls.unit is Unit.PIPE:
            timing = operation.pipe or machine.pipes[cls.timing]
            resource = cls.pipe
            values.update(
                wide=layout.PER_SM
                if machine.pipes[cls.pipe].per_sm
                else layout.IN_PARTS * (timing.fraction_ticks > 0),
                interval=timing.interval_cycles,
                latency=timing.latency_cycles,
                backlog=timing.backlog_cycles,
                fraction=timing.fraction_ticks,
                spare=timing.spare_cycles,
            )
        elif cls.unit in QUEUED_UNITS:
            resource = cls.full_reason
            values.update(
                tail=operation.tail_cycles,
                hidden_wavefronts=operation.hidden_wavefronts,
                read_offset=operation.read_offset_cycles,
                address_ticks=operation.request.address,
                address_pass_ticks=operation.request.address_pass,
                lane_bytes=operation.request.bytes,
                past_l1=operation.past_l1,
                passes_inactive=operation.passes_inactive,
                stage_ticks=operation.request.stage,
                later_ticks=operation.request.later,
                lane_ticks=operation.request.lane,
                packet_ticks=operation.request.packet,
                word_ticks=operation.request.word,
                sector_ticks=operation.request.sector,
                operand_ticks=operation.request.operand,
                past_ticks=operation.request.past,
                cas=cls.operation == "cas",
                store={"store": layout.STORE, "constant": layout.CONSTANT}.get(cls.operation, layout.LOAD),
            )
        if cls.unit is Unit.ATOMIC:
            self._check_interval(operation)
        elif cls.unit is Unit.GLOBAL:
            self.uses_memory = True
            loads = cls.operation in ("load", "copy")
            values.update(
                store=layout.LOAD if loads else layout.STORE if cls.operation == "store" else layout.REDUCE,
                extra=max(0, operation.tail_cycles - machine.l1_hit_tail_cycles) if loads else 0,
            )
            if operation.addresses is not None:
                values.update(
                    addresses_at=self._table(operation.addresses), times=operation.addresses.shape[1]
                )
            elif operation.affine is not None:
                values.update(
                    base=operation.affine.base_bytes,
                    warp_stride=operation.affine.warp_stride_bytes,
                    iteration_stride=operation.affine.iteration_stride_bytes,
                    lane_stride=operation.affine.lane_stride_bytes,
                )
        if operation.bulk_copy is not None:
            self.uses_memory = True
            self.bulk_sectors = max(self.bulk_sectors, operation.bulk_sectors)
            does = {"load": layout.LOAD, "store": layout.STORE, "reduce": layout.REDUCE}[operation.bulk_copy]
            writes = machine.bulk_writes.get(operation.bulk_copy)
            values.update(
                stage_ticks=writes.sector_ticks if writes else machine.bulk_sector_ticks,
                tail=writes.read_cycles if writes else 0,
                store=layout.BULK + does,
                multicast=operation.multicast,
                extra=machine.bulk_extra_cycles,
                word_ticks=operation.request.word,
                sector_ticks=operation.request.sector,
                operand_ticks=operation.request.operand,
                past_ticks=operation.request.past,
            )
        if operation.in_tensor_memory and (own := machine.memory_products) is not None:
            values.update(
                latency=own.tail_cycles,
                fraction=own.cell_ticks,
                spare=own.least_rows,
                extra=own.second_cycles,
                backlog=own.queue_entries - 1,
            )
        if operation.fence_cycles:
            values["extra"] = operation.fence_cycles
        if operation.control is not None:
            self._control_code(operation, values)
        else:
            at = first + 2 * operation.slot
            values["target"], values["read_target"] = at, at + 1
        values["base_work"], values["pass_work"] = operation.base_work, operation.pass_work
        for name, value in (("passes", operation.passes), ("work", operation.work)):
            if isinstance(value, np.ndarray):
                values.update({f"{name}_at": self._table(value), "times": value.shape[1]})
            else:
                values[name] = value
        line = self._line(operation.slot)
        needs_constant = operation.constant_line >= 0 and cls.operation != "constant"
        return _item(
            kind=layout.OPERATION,
            slot=operation.slot,
            unit=cls.unit,
            stall=operation.stall_cycles,
            resource=self.resources.setdefault(resource, len(self.resources)),
            reason=cls.full_reason,
            lanes=operation.lanes,
            watched=values.pop("watched", operation.slot in watched),
            read_watched=values.pop("read_watched", program.slots + operation.slot in watched),
            cls=cls.code,
            line=-1 - line if needs_constant else line,
            constant=layout.INDEXED
            if operation.constant_line == INDEXED_CONSTANT
            else operation.constant_line + 1,
            joins=operation.joins_group,
            effect=_effect_of(operation),
            groups_left=operation.groups_left,
            after_begin=needs,
            after_end=len(self.needs),
            **values,
        )

    def _control_code(self, operation: Operation, values: dict[str, int]) -> None:
        """What a control code says: the scoreboards that the instruction waits for and those that it sets."""
        control = operation.control
        assert control is not None
        values["waits"] = control.wait_mask & ((1 << SCOREBOARDS) - 1)
        kind = LONG_SLOT if operation.cls.unit is Unit.GLOBAL else SHORT_SLOT
        written = control.write_barrier
        values["target"] = -1 if written is None or written >= SCOREBOARDS else kind + written
        read = control.read_barrier
        values["read_target"] = -1 if read is None or read >= SCOREBOARDS else SHORT_SLOT + read
        values["watched"], values["read_watched"] = values["target"] >= 0, values["read_target"] >= 0
        values["base_work"], values["pass_work"] = operation.base_work, operation.pass_work
        values["crowded"] = operation.crowded_cycles
        if operation.joins_group and operation.bulk_copy is None:
            values["target"], values["watched"] = GROUP_SLOT, 1
        elif operation.joins_products:
            values["target"], values["watched"] = PRODUCT_SLOT, 1
        elif operation.fenced:
            values["target"] = STORE_SLOT if operation.cls.unit is Unit.GLOBAL else SHARED_STORE_SLOT
            values["watched"] = 1

    def _table(self, values: NDArray[np.int64]) -> int:
        self.tables.append(np.ascontiguousarray(values, dtype=np.int64))
        return int(self.tables[-1].ctypes.data)

    def _check_interval(self, operation: Operation) -> None:
        timing = self.machine.atomics[operation.cls.operation]
        if timing.interval_ticks(1) < TICKS_PER_CYCLE and np.min(operation.work) < TICKS_PER_CYCLE:
            raise SmlabError.at(
                self.machine.name,
                f"atomic.{operation.cls.operation}'s interval is too short for a unit that serves one at a "
                f"time",
                timing.interval_ticks(1) / TICKS_PER_CYCLE,
                "at least 1 cycle with one pass",
            )


_OP_FIELDS: tuple[str, ...] = layout.OP.names or ()
_OP_PLACE = {name: place for place, name in enumerate(_OP_FIELDS)}


def _item(**values: int) -> tuple[int, ...]:
    row = [0] * len(_OP_FIELDS)
    for name, value in values.items():
        row[_OP_PLACE[name]] = int(value)
    return tuple(row)


def _effect_of(operation: Operation) -> int:
    """What an issue does besides; no instruction does two of these."""
    if operation.products_left >= 0:
        return layout.AWAITS_PRODUCTS + operation.products_left
    if operation.closes_group:
        return layout.CLOSES_GROUP
    if operation.empties_l1:
        return layout.EMPTIES_L1
    if operation.in_tensor_memory:
        return layout.MULTIPLIES_IN_MEMORY
    if operation.follows_products:
        return layout.FOLLOWS_PRODUCTS
    if operation.constant_line == INDEXED_CONSTANT and operation.cls.unit is Unit.PIPE:
        return layout.NEEDS_CONSTANTS
    if operation.asks_phase:
        return layout.ASKS_PHASE
    if operation.closes_products:
        return layout.CLOSES_PRODUCTS
    if operation.joins_products:
        return layout.JOINS_PRODUCTS
    if operation.bulk_copy is not None:
        return layout.COPIES_IN_BULK
    if operation.fence_cycles:
        return layout.FENCES
    return layout.FOLLOWS_COPIES if operation.follows_copies else layout.NO_EFFECT


def _whole_lines(words: int) -> int:
    """Words up to the end of the processor's cache line."""
    return -(-words // layout.CACHE_LINE_WORDS) * layout.CACHE_LINE_WORDS


def _shift(size: int) -> int:
    """log2 of a power of two, else -1."""
    return size.bit_length() - 1 if size & (size - 1) == 0 else -1


class Memory:
    """The state of a run as Python holds it: the root record, and the tables that it points to."""

    def __init__(self, constants: dict[str, int], arena: NDArray[np.int64]) -> None:
        self.root = aligned(1, layout.STATE)
        self.arena = arena  # holds the tables that begin as zeros and never grow
        self.tables: dict[str, NDArray[Any]] = {}
        self.source: CompiledSource | None = None
        self.keepalive: list[NDArray[np.int64]] = []  # random tables: the code holds their addresses
        self.root[0] = tuple(constants.get(name, 0) for name in layout.STATE.names or ())
        self["arena"], self["arena_bytes"] = arena.ctypes.data, arena.nbytes

    @property
    def address(self) -> int:
        """What compiled functions are given."""
        return int(self.root.ctypes.data)

    def __getitem__(self, name: str) -> int:
        return int(self.root[name][0])

    def __setitem__(self, name: str, value: int) -> None:
        self.root[name][0] = value

    def put(self, name: str, table: NDArray[Any]) -> None:
        """Install a table, in place of an earlier one if there is one."""
        self.tables[name] = table
        self[f"{name}_table"] = table.ctypes.data

    @property
    def common(self) -> Any:
        """What there is once for all threads."""
        return self.tables["common"][0]

    def copy(self) -> Memory:
        """Another root over the same tables."""
        other = Memory({}, self.arena)
        other.root[:] = self.root
        other.tables, other.keepalive, other.source = dict(self.tables), self.keepalive, self.source
        return other

    def rows(self, kind: str) -> NDArray[Any]:
        """The rows written so far of ``job``, ``issue`` or ``span``."""
        return self.tables[f"{kind}_row"][: self[f"{kind}s_kept"]]


@without_collection()
def prepare(lowered: LoweredKernel, keep: int, limit: int) -> Memory:
    """Lay out the state for a run of ``lowered`` through cycle ``limit``."""
    code = Code(lowered.machine)
    for program in lowered.programs:
        code.add(program)
    code.uses_memory |= lowered.cluster_blocks > 1  # whose SMs run cycle by cycle
    memory = assemble(lowered, code, np.array(lowered.kernel.roles, dtype=np.int64), keep, limit)
    if lowered.source is not None:
        sms, rooms = lowered.kernel.sms, memory["blocks_per_sm"]
        source = lowered.source.compiled(sms, sms * memory["max_warps"], sms * rooms)
        memory["source"], memory["context"] = source.step, source.context
        memory["source_warps"], memory["source_bytes"] = source.warps, source.warp_bytes
        memory.source = source
    return memory


def assemble(lowered: LoweredKernel, code: Code, roles: NDArray[np.int64], keep: int, limit: int) -> Memory:
    """The state for a run of ``code`` (of the lowered kernel or of many like it) by warps with these
    ``roles``."""
    machine, kernel = lowered.machine, lowered.kernel
    resident = min(blocks_per_sm(kernel, machine), -(-kernel.blocks // kernel.sms))
    # The lowest free slots are taken first, of the SM or of a scheduler: no others are ever in use.
    of_block = int((roles >= 0).sum(axis=1).max())
    if machine.block_turn is not None:
        of_block = -(-of_block // machine.schedulers) * machine.schedulers
    warps = max(1, min(machine.max_warps, resident * of_block))
    if -(-warps // machine.schedulers) > MAX_WARPS_OF_SCHEDULER:
        raise SmlabError.at(
            f"{kernel.name} on {machine.name}",
            "more warps of one scheduler than the compiled engine handles",
            -(-warps // machine.schedulers),
            f"at most {MAX_WARPS_OF_SCHEDULER}",
        )
    constants = _constants(lowered, code)
    constants.update(max_warps=warps, role_rows=len(roles), blocks_per_sm=resident, keep=keep, limit=limit)
    constants["positions"] = _whole_lines(-(-warps // machine.schedulers))
    schedulers, all_warps = kernel.sms * machine.schedulers, kernel.sms * warps
    grid = kernel.blocks * kernel.warps_per_block
    counts = {
        "stopped": kernel.sms,
        "assigned": kernel.sms * resident,
        "sm": kernel.sms,
        "scheduler": schedulers,
        "group": schedulers * constants["width"],
        "mask": schedulers * constants["width"],
        "free": schedulers * constants["width"],
        "queued": schedulers * constants["mio_entries"],
        "server": kernel.sms * constants["servers"],
        "ring": kernel.sms * constants["servers"] * constants["atomic_entries"],
        "slice": machine.l2_slices.count,
        "merged": constants["groups"] * MERGED_LINES.sets * (machine.read_merging.cycles > 0),
        "passed": kernel.sms * max(1, constants["stage_entries"]),
        "returning": kernel.sms * constants["atomics_in_flight"],
        "warp": all_warps,
        "wake": schedulers * constants["positions"],
        "age": schedulers * constants["positions"],
        "block": kernel.blocks,
        "barrier": kernel.sms * resident * constants["barriers"],
        "member": kernel.sms * resident * kernel.warps_per_block,
        "retiring": kernel.sms * resident,
        "counter": all_warps * code.depth,
        "result": all_warps * code.slots,
        "executions": all_warps * code.slots,
        "warp_row": grid,
        "stall_of": constants["instructions"] * layout.REASON_WORDS,
        "stall": all_warps * layout.REASON_WORDS,
        "stall_row": grid * layout.REASON_WORDS,
    }
    sizes = [-(-count * layout.TABLES[name].itemsize // 8) for name, count in counts.items()]
    lines = [_whole_lines(size) for size in sizes]
    begins = [0, *np.cumsum(lines).tolist()]
    memory = Memory(constants, aligned(begins[-1], np.int64))
    for name, begin, size in zip(counts, begins, sizes, strict=False):
        memory.put(name, memory.arena[begin : begin + size].view(layout.TABLES[name]))
    items = aligned(len(code.items), layout.OP)
    items[:] = np.array(code.items, dtype=layout.OP)
    memory.put("op", items)
    share(memory, 1)
    memory.put("need", np.array(code.needs or [(0, 0)], dtype=np.int64))
    memory.put("entry", np.array(code.entries, dtype=np.int64))
    memory.put("role", np.ascontiguousarray(roles))
    memory.keepalive = code.tables
    if lowered.l2 is not None:
        left = np.ascontiguousarray(lowered.l2.of(machine), dtype=np.int64)
        memory["left_lines"], memory["lines_left"] = left.ctypes.data, len(left)
        memory.keepalive = [*code.tables, left]
    make_rows(memory)
    _make_caches(memory, machine, kernel.sms, code.uses_memory, lowered.source is not None)
    return memory


def share(memory: Memory, threads: int) -> None:
    """What ``threads`` threads have in common."""
    memory.put("common", aligned(1, layout.COMMON))
    memory.put("thread", aligned(threads, layout.THREAD))
    memory.common["threads"], memory.common["yields"] = threads, yield_address()


def make_rows(memory: Memory) -> None:
    """Empty tables for what is recorded."""
    keep = memory["keep"]
    everything = FIRST_ROWS if keep == layout.ALL else 0
    for kind, room in (
        ("job", FIRST_ROWS if keep != layout.TOTALS else 0),
        ("issue", everything),
        ("span", everything + layout.SPARE_SPANS if everything else 0),
    ):
        memory.put(f"{kind}_row", np.empty(room, dtype=layout.TABLES[f"{kind}_row"]))
        memory[f"{kind}_rows"], memory[f"{kind}s_kept"] = room, 0


def _make_caches(memory: Memory, machine: Machine, sms: int, data: bool, code: bool) -> None:
    """An L1 for each SM and L2, and room for accesses in flight; an L0 for each sub-core's instructions and
    an L1 for each SM's."""
    shapes = [machine.l1] * sms + [machine.l2] if data else []
    if code:
        fetch = machine.fetch
        if -(-memory["fetch_lines"] // fetch.l0.sets) <= fetch.l0.ways:
            memory["l0_lines"] = _whole_lines(memory["fetch_lines"])
        l0s = sms * memory["l0s"]
        memory.put("fetched", aligned(max(1, l0s * memory["l0_lines"]), np.int64))
        memory["first_l0"], memory["first_l1i"] = len(shapes), len(shapes) + l0s
        shapes += [fetch.l0] * l0s + [fetch.l1] * sms
        if machine.constants is not None:
            operands = sms * machine.schedulers
            memory["first_operands"], memory["first_loads"] = len(shapes), len(shapes) + operands
            shapes += [machine.constants.first] * (operands + sms)
            memory.put("second", aligned(sms * memory["second_room"], np.int64))
    if not shapes:
        return
    caches = aligned(len(shapes), layout.CACHE)
    lines = sets = buckets = 0
    for cache, shape in zip(caches, shapes, strict=True):
        count = shape.sets * shape.ways
        cache["first_line"], cache["first_set"], cache["first_bucket"] = lines, sets, buckets
        cache["hashed"], cache["halves"] = shape.hashed, shape.halves
        cache["sets"], cache["ways"], cache["buckets"] = shape.sets, shape.ways, 1 << count.bit_length()
        lines, sets, buckets = lines + count, sets + shape.sets, buckets + int(cache["buckets"])
    memory.put("cache", caches)
    memory.put("line", aligned(lines, layout.LINE))
    memory.put("cache_set", np.zeros(sets, dtype=layout.CACHE_SET))
    memory.put("bucket", aligned(buckets, layout.LINK))
    if not data:
        return
    memory.put("ready", aligned(machine.l2.sets * machine.l2.ways * machine.sectors_per_line, np.int64))
    chunks = -(-memory["spare_accesses"] // layout.ACCESS_CHUNK) + 1
    count = max(FIRST_ACCESSES, chunks * layout.ACCESS_CHUNK * sms)
    memory.put("access", aligned(count, layout.ACCESS))
    memory.put("answer", aligned(count, layout.ANSWER))
    memory.put("sector", aligned(count * layout.MAX_LANES, layout.SECTOR))
    memory.put("asked_bucket", aligned(sms * layout.ASKED_BUCKETS, layout.LINK))
    memory.put("arrival", np.zeros(memory["window"], dtype=layout.ARRIVAL))
    memory.put("request", np.empty(count, dtype=np.int64))
    memory["accesses"] = count


def _policy_code(policy: str) -> int:
    if policy not in POLICY_CODES:
        raise SmlabError.at(
            "policy",
            "not in the compiled engine",
            policy,
            "--engine simpy, or a branch in sim/compiled/issue.py",
        )
    return POLICY_CODES[policy]


def _constants(lowered: LoweredKernel, code: Code) -> dict[str, int]:
    machine, kernel = lowered.machine, lowered.kernel
    resources: dict[object, int] = code.resources
    unsampled = None if lowered.source is None else lowered.source.unsampled
    keeps_local_stores = machine.keeps_local_stores and lowered.source is not None
    groups = number_of_groups(kernel.sms, machine.group_sms)
    return {
        "sms": kernel.sms,
        "schedulers": machine.schedulers,
        "policy": _policy_code(machine.policy),
        "launch_cycles": machine.block_launch_cycles,
        "turnover_cycles": machine.block_turnover_cycles,
        "warp_launch_ticks": machine.warp_launch_ticks,
        "block_dispatch_ticks": machine.block_dispatch_ticks,
        "warp_dispatch_ticks": machine.warp_dispatch_ticks,
        "block_refill_ticks": machine.block_refill_ticks,
        "warp_refill_ticks": machine.warp_refill_ticks,
        "turns": int(machine.block_turn is not None),
        "block_turn": machine.block_turn or 0,
        "barrier_cycles": machine.barrier_latency_cycles,
        "blocks": kernel.blocks,
        "places": kernel.warps_per_block,
        "resources": len(code.resources),
        "width": _whole_lines(len(code.resources)),
        "slots": code.slots,
        "barriers": 1 if lowered.source is None else BLOCK_BARRIERS,
        "depth": code.depth,
        "mio_entries": machine.mio_queue_entries,
        "mio_resource": resources.get(Reason.MIO_THROTTLE, -1) + 1,
        "lg_resource": resources.get(Reason.LG_THROTTLE, -1) + 1,
        "front": machine.front_cycles,
        "request_interval": machine.request_interval_cycles,
        "stage_jobs": machine.stage_jobs,
        "stage_entries": machine.stage_entries,
        "constant_interval": machine.constant_interval_cycles,
        "taken_branch": machine.taken_branch_cycles,
        "atomic_entries": machine.atomic_queue_entries,
        "round_gap": machine.atomic_round_gap_cycles,
        "barrier_interval": machine.barrier_interval_cycles,
        "held_base": kernel.in_l2[0],
        "held_bytes": kernel.in_l2[1],
        "unsampled_bits": 0 if unsampled is None else unsampled.bits.ctypes.data,
        "unsampled_arriving": 0 if unsampled is None else unsampled.arriving.ctypes.data,
        "unsampled_first": 0 if unsampled is None else unsampled.first,
        "unsampled_sectors": 0 if unsampled is None else unsampled.sectors,
        "writes_back": unsampled is not None and unsampled.writes_back,
        "unsampled_atomics": 0 if unsampled is None else unsampled.other_atomics.ctypes.data,
        "counted_sectors": 0 if unsampled is None else 8 * len(unsampled.other_atomics),
        "servers": machine.atomic_pipes,
        "uses_memory": code.uses_memory,
        "tag_banks": machine.l1_tag_banks,
        "pending_cycles": machine.pending_cycles,
        "local_from": LOCAL_AT // machine.sector_bytes,
        "local_end": (FIRST_ADDRESS if keeps_local_stores else LOCAL_AT) // machine.sector_bytes,
        "line_bytes": machine.line_bytes,
        "line_shift": _shift(machine.line_bytes),
        "sector_bytes": machine.sector_bytes,
        "sector_shift": _shift(machine.sector_bytes),
        "line_sectors": machine.sectors_per_line,
        "line_sectors_shift": _shift(machine.sectors_per_line),
        "l1_tail": machine.l1_hit_tail_cycles,
        "port_ticks": machine.port_sector_ticks,
        "store_ticks": machine.stores.sector_ticks,
        "partial_line_ticks": machine.stores.partial_line_ticks,
        "l2_store_ticks": machine.stores.l2_sector_ticks,
        "l2_partial_ticks": machine.stores.l2_partial_line_ticks,
        "l2_ticks": machine.l2_sector_ticks,
        "l2_line_ticks": machine.l2_line_ticks,
        "l2_atomic_sector_ticks": machine.l2_atomic_sector_ticks,
        "atomics_in_flight": machine.global_atomics.in_flight,
        "atomic_ports": lowered.kernel.sms
        if machine.shares_dram
        else -(-machine.sms // machine.global_atomics.port_sms),
        "atomic_port_factor": machine.global_atomics.port_sms if machine.shares_dram else 1,
        "l2_return": machine.l2_return_cycles,
        "dram_ticks": machine.dram_sector_ticks,
        "dram_write_ticks": machine.dram_write_ticks,
        "shares_dram": int(machine.shares_dram),
        "merge_ticks": machine.read_merging.cycles << TICK_BITS,
        "merged_reads": machine.read_merging.reads,
        "reply_ticks": machine.read_merging.reply_ticks,
        "l2_halves": machine.l2.halves,
        **_slice_constants(machine.l2_slices),
        "dram_extra": machine.dram_extra_cycles,
        "dram_drain": machine.dram_drain_cycles,
        "dram_read_drain": machine.dram_read_cycles,
        "window": 1
        if lowered.source is not None and lowered.source.ordered
        else machine.l2_return_cycles + 1 + min(0, machine.bulk_extra_cycles * (code.bulk_sectors > 0)),
        # What one step of an SM may need: an access, or the parts of a bulk copy, for each scheduler.
        "spare_accesses": machine.schedulers * (1 + -(-code.bulk_sectors // layout.MAX_LANES)),
        "bulk_line_ticks": machine.bulk_line_ticks,
        "wakes_waiting_warps": machine.wakes_waiting_warps,
        "bank_row_bytes": machine.banks * machine.bank_bytes,
        "cluster_blocks": lowered.cluster_blocks,
        "groups": groups,
        "sm_pairs": -(-lowered.kernel.sms // 2),
        "network_sector_ticks": machine.network_sector_ticks,
        "network": machine.network_load_cycles,
        "shared_saving": machine.generic_shared_saving,
        "instructions": len(code.items) if lowered.by_instruction else 0,
        **_fetch_constants(lowered),
        **_constant_caches(lowered),
    }


def _slice_constants(slices: SliceTiming) -> dict[str, int]:
    """What a read or a store takes of a slice of L2, and what the slice then has to do for all SMs; what an
    atomic takes of it for a line, beyond its sectors."""
    return {
        "slices": slices.count,
        "slice_pairs": slices.count // 2,
        "slice_both": int(slices.count > 1),
        "across_ticks": slices.across_ticks,
        "slice_part_bits": slices.part_bits,
        "slice_region_bits": slices.region_bits,
        "slice_ticks": slices.sector_ticks,
        "slice_occupied": slices.occupied(slices.sector_ticks),
        "slice_line_ticks": slices.atomic_line_ticks,
        "slice_waits": int(slices.waits_for_lanes),
        "slice_spread": slices.spread_ticks,
        "slice_sms": slices.sms,
        "slice_all_sms": slices.all_sms,
    }


def _constant_caches(lowered: LoweredKernel) -> dict[str, int]:
    """Of the caches of constants, for machine code."""
    own = lowered.machine.constants
    if own is None or lowered.source is None:
        return {}
    return {
        "constant_line_bytes": own.line_bytes,
        "constant_lines": own.lines_of(lowered.brought_constants),
        "second_lines": own.second_lines,
        "second_room": (BANKS << BANK_BITS) // (own.second_lines * own.line_bytes) + 1,
        "load_miss": own.load_miss_cycles,
        "operand_miss": own.operand_miss_cycles,
        "second_miss": own.second_miss_cycles,
    }


def _fetch_constants(lowered: LoweredKernel) -> dict[str, int]:
    """Of the instruction caches, which programs do without: they have no addresses."""
    if lowered.source is None:
        return {}
    fetch, code = lowered.machine.fetch, len(lowered.programs[0].operations)
    return {
        "fetch_lines": -(-code // fetch.line_instructions),
        "prefetch_lines": fetch.prefetch_lines,
        "fetch_warm": fetch.warm,
        "l0_miss": fetch.l0_miss_cycles,
        "l0s": -(-lowered.machine.schedulers // fetch.l0_sub_cores),
        "l0_sub_cores": fetch.l0_sub_cores,
        "l1_miss": fetch.l1_miss_cycles,
        "preloaded_lines": fetch.preloaded_lines,
        "fetch_interval": fetch.request_interval_cycles,
        "fetch_l2": lowered.machine.l2_latency_cycles,
    }
