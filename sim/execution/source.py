"""Machine code as what warps execute: the engines' source of the next instruction, and a launch lowered for
them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass import ControlCode
from smlab.hw_bench.sass.effects import effects_of, split_operands
from smlab.hw_bench.sass.instruction import Operand, SassInstruction
from smlab.hw_bench.sass.operations import tensor_product
from smlab.sim.execution.compiled_step import step
from smlab.sim.execution.recording import Recording
from smlab.sim.execution.thread_conflicts import ThreadConflicts, order_matters
from smlab.sim.instruction_source import (
    COPY_GROUPS,
    PRODUCT_GROUPS,
    SCOREBOARDS,
    TOLD,
    CompiledSource,
    ReferenceSource,
    SharedExecution,
    UnsampledFetches,
)
from smlab.sim.instructions import CLASSES, QUEUED_UNITS, Unit
from smlab.sim.isa import memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.decode.control import (
    asks_l2,
    awaits_errors,
    branches_to_register,
    empties_l1,
    is_fence,
    is_shared_fence,
    is_system_fence,
)
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.decode.operands import constant_place
from smlab.sim.isa.launch.faults import fault_error
from smlab.sim.isa.launch.launch import MachineLaunch, MachineMemory
from smlab.sim.isa.meanings.interpreter import Interpreter
from smlab.sim.lowering import (
    INDEXED_CONSTANT,
    NO_CONSTANT,
    LoweredKernel,
    LoweredProgram,
    Operation,
    without_collection,
)
from smlab.sim.machine import (
    ADDRESS_REGISTERS,
    NO_REQUEST,
    ConstantTiming,
    Machine,
    PipeTiming,
    RequestTicks,
    ceil_cycles,
    groups_of_sms,
)
from smlab.sim.workloads.workload import Instruction, Kernel, Program, check_fits

CLOSING: Final = ("LDGDEPBAR", "UTMACMDFLUSH")
"""What closes a group of copies: of those by warps, and of those of the copy engine to global memory."""
PREFETCH_BYTES: Final = 16 << 20
"""With more than this in registers a warp's rows are seldom in a cache of the processor when its turn comes,
so they are asked for as soon as the next instruction is known: 1.25 times as fast with 40 MB, a loss with 8.
"""


class MachineSource:
    """Machine code as a `smlab.sim.instruction_source.WarpSource`."""

    def __init__(
        self,
        launch: MachineLaunch,
        sms: int,
        blocks: NDArray[np.int64] | None = None,
        unsampled: UnsampledFetches | None = None,
        recording: Recording | None = None,
    ) -> None:
        self.launch = launch
        self.recording = recording
        self.blocks = launch.launch_order if blocks is None else blocks
        self.unsampled = unsampled
        self.memory: MachineMemory | None = None
        self.interpreter: Interpreter | None = None
        self.warps_of_sm = 1
        shares = any(m.code == d.ATOMIC and m.returns and m.fields["space"] != d.SHARED for m in launch.code)
        strong = any("STRONG" in m.instruction.modifiers and m.code == d.LOAD for m in launch.code)
        self.ordered = sms > 1 and (launch.ordered or shares or strong or launch.cluster_blocks > 1)

    @property
    def _counts(self) -> Interpreter | MachineMemory:
        """The one that runs, which counts."""
        running = self.interpreter if self.interpreter is not None else self.memory
        assert running is not None
        return running

    @property
    def executed(self) -> NDArray[np.int64]:
        return self._counts.executed

    @property
    def lanes(self) -> NDArray[np.int64]:
        return self._counts.lanes

    @property
    def unwritten(self) -> NDArray[np.int64]:
        """What each instruction read of shared memory that nobody had written:
        ``(instructions, record.UNWRITTEN_WORDS)``."""
        return self._counts.unwritten

    @property
    def products(self) -> NDArray[np.int64]:
        """What products in tensor memory each instruction made: ``(instructions, record.PRODUCT_WORDS)``."""
        return self._counts.products

    def compiled(self, sms: int, warps: int, rooms: int) -> CompiledSource:
        self.memory = MachineMemory(self.launch, rooms, warps, sms)
        if self.blocks is not None:
            self.memory.words[memory_layout.BLOCK_MAP] = self.blocks.ctypes.data
        self.memory.words[memory_layout.PREFETCHES] = self.memory.warps.nbytes > PREFETCH_BYTES
        if self.recording is not None:
            self.memory.words[memory_layout.RECORDING] = self.recording.words.ctypes.data
        self.warps_of_sm = warps // sms
        self.memory.time_copies()
        return CompiledSource(
            step.address,
            int(self.memory.words.ctypes.data),
            self.memory.warp_address(0, 0),
            self.memory.warp_bytes,
            self.memory,
            self.watch_threads,
        )

    def serial_reason(self, sms: int, threads: int) -> str | None:
        """Why several threads may not execute this; None where they may."""
        if self.recording is not None:
            return "what warps execute is written down"
        return order_matters(self.launch, sms, threads)

    def watch_threads(self) -> SharedExecution:
        """Let several threads execute this."""
        assert self.memory is not None
        memory, conflicts = self.memory, ThreadConflicts(self.launch)
        memory.words[memory_layout.THREADED] = 1
        memory.words[memory_layout.MARKS] = conflicts.marks_of_thread()
        return SharedExecution(
            lambda: memory.another_context(conflicts.marks_of_thread()),
            memory.add_contexts,
            conflicts.found,
            conflicts.undo,
        )

    def reference(self) -> ReferenceSource:
        self.interpreter = Interpreter(self.launch, self.blocks, self.recording)
        return self.interpreter

    def stuck_at(self, sm: int, slot: int) -> SmlabError:
        if self.interpreter is not None:
            return self.interpreter.stuck_at(sm, slot)
        assert self.memory is not None
        words = self._words(sm, slot)
        first = (words[memory_layout.LIVE] & -words[memory_layout.LIVE]).bit_length() - 1
        return fault_error(
            self.launch,
            memory_layout.NEVER_OPENS,
            words[memory_layout.LAST_PC],
            words[memory_layout.INDEX],
            words[memory_layout.WARP_OF_BLOCK],
            first,
            words[memory_layout.BARRIER],
        )

    def _words(self, sm: int, slot: int) -> list[int]:
        assert self.memory is not None
        first = (sm * self.warps_of_sm + slot) * self.memory.warp_bytes // 8
        words: list[int] = self.memory.warps[first : first + memory_layout.REGISTERS_AT].tolist()
        return words

    def fault_of(self, sm: int, slot: int) -> SmlabError:
        words = self._words(sm, slot)
        return fault_error(
            self.launch,
            words[memory_layout.FAULT],
            words[memory_layout.LAST_PC],
            words[memory_layout.INDEX],
            words[memory_layout.WARP_OF_BLOCK],
            words[memory_layout.FAULT_LANE],
            words[memory_layout.FAULT_ADDRESS],
        )


_SCOREBOARD: Final = re.compile(r"SB(\d)")
_SCOREBOARDS: Final = re.compile(r"\{([\d,]+)\}")


def _closing_scoreboard(control: ControlCode, machine: Machine) -> int | None:
    """The scoreboard that what closes a group of copies names: LDGDEPBAR as one that is written, UTMACMDFLUSH
    as one that is read, which a wait is for where it is measured how long that takes."""
    if control.write_barrier is None and machine.bulk_writes["store"].read_cycles:
        return control.read_barrier
    return control.write_barrier


def _waits(micro: MicroOperation, control: ControlCode, copies: int | None) -> tuple[ControlCode, int]:
    """What an instruction waits for: its control code, and how many groups of copies may be on their way when
    it goes on (-1: any). ``copies`` is the scoreboard that LDGDEPBAR names, which DEPBAR asks for; where it
    asks for another one, it waits for all that this one counts."""
    left = 0 if copies is not None and control.waits_for(copies) else -1
    if micro.instruction.opcode != "DEPBAR":
        return control, left
    mask = control.wait_mask
    texts = [operand.text for operand in micro.instruction.operands]
    for text in texts:
        if (several := _SCOREBOARDS.match(text)) is not None:
            mask |= sum(1 << int(digit) for digit in set(several[1].split(",")) if int(digit) < SCOREBOARDS)
        elif (one := _SCOREBOARD.match(text)) is not None:
            if int(one[1]) != copies:
                mask |= 1 << int(one[1])
            else:
                counts = [int(t, 16) for t in texts if t.startswith("0x")]
                left = min(counts[0] if counts else 0, COPY_GROUPS - 2)
    return dataclasses.replace(control, wait_mask=mask), left


def _products_left(micro: MicroOperation) -> int:
    """How many groups of products may be on their way when an instruction goes on (-1: any)."""
    instruction = micro.instruction
    if instruction.opcode != "WARPGROUP" or "DEPBAR" not in instruction.modifiers:
        return -1
    return min(int(instruction.operands[1].text, 0), PRODUCT_GROUPS - 2)


def passes_told(micro: MicroOperation, machine: Machine) -> int:
    """The passes of every execution of an instruction, or that its source tells them; of an access to global
    memory the fewest."""
    cls = CLASSES[micro.cls]
    told = cls.unit in (Unit.SHARED, Unit.ATOMIC) or cls.operation in ("match", "copy")
    if told or micro.code == d.LOAD_CONSTANT:
        return TOLD
    return machine.least_passes(cls, micro.bits)


def request_of(micro: MicroOperation, machine: Machine) -> RequestTicks:
    """What the address unit, the port and L2 take for an access; nothing for another instruction."""
    cls = CLASSES[micro.cls]
    if _bulk_copy(micro) == "reduce":
        own = machine.global_atomics
        summed = micro.fields["operation"] == d.ADD
        floating = summed and (micro.fields["dimensions"] > 0 or micro.fields["number_type"] in _FLOATING)
        return RequestTicks(
            word=own.float_word_ticks if floating else own.word_ticks,
            sector=machine.l2_slices.atomic_sector_ticks,
            past=machine.l2_slices.past_ticks(returns=False),
        )
    if cls.unit not in QUEUED_UNITS:
        return NO_REQUEST
    registers, operand_factor = micro.bits // 32, 1.0
    floating = micro.fields.get("number_type") in _FLOATING and micro.fields.get("operation") == d.ADD
    if micro.fields.get("operation") in (d.SWAP, d.SPIN):
        registers *= 2  # the value compared with, and the new one
    if floating and micro.fields["number_type"] == d.FLOAT64:
        operand_factor = machine.l2_slices.double_factor
    uniform = micro.fields.get("a") == memory_layout.zero_at()  # [UR4] has no register of a lane's own
    address = 0 if uniform else ADDRESS_REGISTERS
    return machine.request_ticks(cls, registers, floating, address, operand_factor)


_FLOATING: Final = (d.FLOAT32, d.FLOAT64, d.HALF_PAIR, d.BFLOAT16_PAIR)


def _crowded_cycles(code: Sequence[MicroOperation], number: int, machine: Machine) -> int:
    """How long an instruction keeps its scheduler for the registers that it reads while the tensor core does
    products by groups of warps. What the instruction before it marked for reuse is not read again."""
    here = code[number]
    if not machine.group_read_ticks or here.code in (d.MMA_GROUP, d.EMPTY_GROUP):
        return 1
    reads = {name for name in effects_of(here.instruction).reads if name.startswith("R")}
    if number:
        reads -= {name for o in code[number - 1].instruction.operands if o.reused for name in o.registers}
    return max(1, ceil_cycles(len(reads) * machine.group_read_ticks))


def _bulk_copy(micro: MicroOperation) -> str | None:
    """What a bulk copy does with global memory."""
    if micro.code != d.BULK_COPY:
        return None
    if micro.fields.get("is_reduction"):
        return "reduce"
    return "store" if micro.fields["to_global"] else "load"


def _check_cluster(launch: MachineLaunch, machine: Machine, sms: int) -> None:
    """Whether the blocks of a cluster have SMs of their own in one group."""
    size = launch.cluster_blocks
    if size == 1:
        return
    if machine.group_sms == 0:
        raise SmlabError.at(
            f"{launch.where} on {machine.name}", "this GPU has no clusters of blocks", size, "1"
        )
    largest = max(len(group) for group in groups_of_sms(sms, machine.group_sms))
    if size > largest:
        most = f"at most {largest}"
        raise SmlabError.at(f"{launch.where}: cluster", "more blocks than a group of SMs has", size, most)


def pipe_of(micro: MicroOperation, reads: int, machine: Machine) -> PipeTiming | None:
    """What an instruction takes of its pipe where that is not what its class does: a product of matrices; a
    NOP, which takes its issue alone; and one that has more ``reads`` of one bank of the registers than its
    pipe has cycles for it."""
    cls = CLASSES[micro.cls]
    if micro.instruction.opcode == "NOP":
        return dataclasses.replace(machine.pipes["control"], interval_cycles=1)
    if micro.code in (d.TENSOR_LOAD, d.TENSOR_STORE):
        f = micro.fields
        columns = f["registers"] << f["packs"] << (f["lane_shape"] >= d.BITS_64)
        passes = 2 if f["lane_shape"] == d.BITS_256 else 1  # whose columns of one parity meet in a bank
        return machine.tensor_memory_timing(columns * passes, micro.code == d.TENSOR_STORE)
    uniform = machine.pipes["uniform"]
    if micro.instruction.opcode == "ULDC" and machine.uniform_constant_cycles < uniform.interval_cycles:
        return dataclasses.replace(uniform, interval_cycles=machine.uniform_constant_cycles)
    if cls.unit is Unit.PIPE and cls.pipe in _BANKED:
        timing = machine.pipes[cls.timing]
        interval = timing.interval_cycles * cls.intervals
        if max(reads, interval) > timing.interval_cycles:
            return dataclasses.replace(timing, interval_cycles=max(reads, interval))
    return machine.tensor_timing(tensor_product(micro.instruction))


_BANKED: Final = ("int32", "fp32", "fp16")
"""Pipes of a fixed latency that read their operands when they issue."""


def reads_of_one_bank(code: Sequence[MicroOperation], banks: int) -> list[int]:
    """How many registers each instruction reads of the bank that it reads most of.

    The operand cache has a register for each place of an operand and each bank. A register that was read with
    ``.reuse`` stays there until another instruction reads that bank at that place (Huerta et al., 2025,
    section 5.3).
    """
    kept: dict[tuple[int, int], str] = {}
    most = []
    for micro in code:
        read: set[str] = set()
        for place, operand in _sources(micro.instruction):
            for name in _registers_read(operand):
                key = (place, int(name[1:]) % banks)
                if kept.pop(key, None) != name:
                    read.add(name)
                if operand.reused:
                    kept[key] = name
        counts = [0] * banks
        for name in read:
            counts[int(name[1:]) % banks] += 1
        most.append(max(counts))
    return most


def _registers_read(operand: Operand) -> list[str]:
    """The general registers of a source; of a pair of singles both."""
    names = [name for name in operand.registers if name[0] == "R" and name != "RZ"]
    if "F32x2" in operand.text:
        names += [f"R{int(name[1:]) + 1}" for name in names]
    return names


def _sources(instruction: SassInstruction) -> Iterator[tuple[int, Operand]]:
    """The operands that an instruction reads, but predicates, by place."""
    return enumerate(operand for operand in split_operands(instruction)[1] if operand.kind != "predicate")


def constant_lines(code: Sequence[MicroOperation], timing: ConstantTiming | None, brought: int) -> list[int]:
    """The line of constants that each instruction reads, or what stands in place of one.

    Where a cache has room for all that the launch brings, and the code asks for nothing else, nothing ever
    leaves it: then nobody need look.
    """
    lines = [NO_CONSTANT] * len(code)
    if timing is None:
        return lines
    for number, micro in enumerate(code):
        if micro.code == d.LOAD_CONSTANT:
            lines[number] = INDEXED_CONSTANT
            continue
        for operand in micro.instruction.operands:
            if (place := constant_place(operand.text)) is not None:
                lines[number] = place // timing.line_bytes
    room, kept = timing.first.sets * timing.first.ways, timing.lines_of(brought)
    loads = [CLASSES[micro.cls].operation == "constant" for micro in code]
    for of_loads in (True, False):
        own = [n for n, loaded in enumerate(loads) if loaded == of_loads and lines[n] != NO_CONSTANT]
        if kept <= room and all(0 <= lines[n] < kept for n in own):
            for n in own:
                lines[n] = NO_CONSTANT
    return lines


def stall_of(micro: MicroOperation, control: ControlCode, machine: Machine) -> int:
    """How long an instruction keeps its warp from the next one."""
    if branches_to_register(micro.instruction):
        return max(1, control.stall_cycles, machine.return_cycles)
    beyond = machine.system_fence_cycles if is_system_fence(micro.instruction) else 0
    if awaits_errors(micro.instruction):
        beyond = machine.error_barrier_cycles
    return max(1, control.stall_cycles) + beyond


@without_collection()
def lower_machine_code(
    launch: MachineLaunch,
    machine: Machine,
    sms: int,
    recording: Recording | None = None,
    blocks: int | None = None,
) -> LoweredKernel:
    """A launch as what the engines execute, on ``sms`` SMs of a machine: its grid, or a part of ``blocks``
    blocks.

    Raises:
        SmlabError: an instruction that cannot be executed or has no encoding, a launch that the machine
        cannot hold.
    """
    launch.sm_hz, launch.network_cycles = machine.sm_hz, machine.network_cycles
    launch.cluster_barrier_cycles = machine.cluster_barrier_cycles
    _check_cluster(launch, machine, sms)
    if launch.uses_tensor_memory and machine.memory_products is None:
        raise SmlabError.at(f"{launch.where} on {machine.name}", "this GPU has no tensor memory")
    code = launch.code
    operations = []
    copies = next(
        (
            _closing_scoreboard(c, machine)
            for m in code
            if m.instruction.opcode in CLOSING and (c := m.instruction.control)
        ),
        None,
    )
    fenced_units = {
        unit
        for unit, fences in ((Unit.GLOBAL, is_fence), (Unit.SHARED, is_shared_fence))
        if any(fences(m.instruction) for m in code)
    }
    reads = reads_of_one_bank(code, machine.register_banks)
    brought = len(launch.banks[0])
    constants = constant_lines(code, machine.constants, brought)
    for number, micro in enumerate(code):
        control = micro.instruction.control
        if control is None:
            raise SmlabError.at(
                launch.where,
                "has no encodings, which hold the control codes",
                None,
                "a listing made with -hex",
            )
        control, left = _waits(micro, control, copies)
        cls = CLASSES[micro.cls]
        base, each, tail, free, read = 0, 0, 0, 1, 0
        if cls.unit is Unit.ATOMIC:
            timing = machine.atomic(cls.operation)
            base, each = timing.base_ticks, timing.pass_ticks
            tail = timing.latency_cycles
        elif cls.name in machine.access_latency_cycles:
            tail = machine.tail_cycles(cls, micro.latency_bits)
            if "phase_predicate" in micro.fields:
                tail += machine.phase_check_extra_cycles
        if cls.unit in QUEUED_UNITS:
            free = micro.latency_bits // 32
            read = machine.read_offset_cycles(cls, micro.bits)
        operations.append(
            Operation(
                slot=number,
                cls=cls,
                after=(),
                lanes=32,
                returns=control.write_barrier is not None or micro.code == d.COPY,
                passes=passes_told(micro, machine),
                work=base + each,
                control=control,
                base_work=base,
                pass_work=each,
                tail_cycles=tail,
                hidden_wavefronts=free,
                read_offset_cycles=read,
                request=request_of(micro, machine),
                pipe=pipe_of(micro, reads[number], machine),
                stall_cycles=stall_of(micro, control, machine),
                joins_group=micro.code == d.COPY or _bulk_copy(micro) in ("store", "reduce"),
                closes_group=micro.instruction.opcode in CLOSING,
                groups_left=left,
                joins_products=bool(micro.fields.get("joins_products")),
                closes_products=bool(micro.fields.get("closes_products")),
                products_left=_products_left(micro),
                in_tensor_memory=micro.code in (d.TENSOR_PRODUCT, d.TENSOR_COPY),
                asks_phase="phase_predicate" in micro.fields,
                follows_products=micro.code == d.TENSOR_COMMIT,
                crowded_cycles=_crowded_cycles(code, number, machine),
                is_fence=is_fence(micro.instruction),
                fence_cycles=machine.fence_cycles * is_fence(micro.instruction),
                is_shared_fence=is_shared_fence(micro.instruction),
                fenced=micro.code == d.TENSOR_STORE
                or (
                    cls.unit in fenced_units
                    and cls.operation in ("store", "reduce")
                    and control.write_barrier is None
                ),
                empties_l1=empties_l1(micro.instruction),
                bulk_copy=_bulk_copy(micro),
                multicast=micro.code == d.BULK_COPY and bool(micro.fields.get("multicast")),
                follows_copies=micro.fields.get("action") == d.ARRIVE_AFTER_COPIES,
                bulk_sectors=launch.most_bulk_sectors if micro.code == d.BULK_COPY else 0,
                past_l1=asks_l2(micro.instruction),
                passes_inactive=machine.shared_inactive_passes > 0
                and micro.instruction.opcode in ("LDS", "STS"),
                constant_line=constants[number],
            )
        )
    program = LoweredProgram(launch.where, tuple(operations), tuple(operations))
    body = tuple(Instruction(micro.cls) for micro in code)
    kernel = Kernel(
        name=launch.where,
        programs=(Program(launch.where, body),),
        roles=((0,) * launch.warps_per_block,),
        blocks=launch.blocks if blocks is None else blocks,
        shared_bytes_per_block=launch.shared_bytes,
        registers_per_thread=max(launch.image.registers, 1),
        sms=sms,
    )
    check_fits(kernel, machine)
    source = MachineSource(launch, sms, recording=recording)
    return LoweredKernel(
        *(kernel, machine, 0, (program,), source),
        cluster_blocks=launch.cluster_blocks,
        brought_constants=brought,
    )
