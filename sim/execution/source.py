"""Machine code as what warps execute: the engines' source of the next instruction, and a launch lowered for
them."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass import ControlCode
from smlab.hw_bench.sass.operations import tensor_product
from smlab.sim.compiled.jit import bits_set, callback, helper, inlined, lowest_bit, prefetch
from smlab.sim.execution.early_execution import ON_REGISTERS, SHARED_LOAD, WRITE_FOLLOWS
from smlab.sim.execution.functional import start_block_words, start_warp
from smlab.sim.execution.recording import Recording, note
from smlab.sim.execution.thread_conflicts import ThreadConflicts, mark_access, order_matters
from smlab.sim.instruction_source import (
    ANSWER_BITS,
    COPY_GROUPS,
    EXITS,
    FAULTS,
    GOES_ON,
    MAX_EARLY_INSTRUCTIONS,
    NEAR,
    NEXT,
    OPENED,
    PRODUCT_GROUPS,
    SCOREBOARDS,
    START,
    CompiledSource,
    ReferenceSource,
    SharedExecution,
    UnsampledFetches,
)
from smlab.sim.instructions import CLASSES, QUEUED_UNITS, Unit
from smlab.sim.isa import memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.decode.control import empties_l1, is_fence, is_system_fence
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.launch.faults import fault_error
from smlab.sim.isa.launch.launch import MachineLaunch, MachineMemory
from smlab.sim.isa.meanings.interpreter import Interpreter
from smlab.sim.isa.memory.bank_conflicts import bank_wavefronts
from smlab.sim.isa.operation_codes import LOCAL_AT, LOCAL_PAD
from smlab.sim.isa.vectors.divergent_paths import open_barrier
from smlab.sim.isa.vectors.execute import execute
from smlab.sim.isa.vectors.word_access import (
    I_CODE,
    I_EARLY_EXECUTION,
    I_SPACE,
    I_WIDTH_BYTES,
    at,
    fault,
    get64,
    prefetch_rows,
    put,
    put16,
    put64,
)
from smlab.sim.lowering import LoweredKernel, LoweredProgram, Operation
from smlab.sim.machine import NO_REQUEST, Machine, RequestTicks
from smlab.sim.workloads.workload import Instruction, Kernel, Program, check_fits

PREFETCH_BYTES: Final = 16 << 20
"""With more than this in registers a warp's rows are seldom in a cache of the processor when its turn comes,
so they are asked for as soon as the next instruction is known: 1.25 times as fast with 40 MB, a loss with 8.
"""
_SIGNATURE = types.int64(*[types.int64] * 6)


@inlined
def _next(warp, context, now):  # type: ignore[no-untyped-def]
    """Execute the instruction of a warp that is issued, and those after it that may be executed ahead."""
    put(warp, memory_layout.CLOCK, now)
    pc, length = at(warp, memory_layout.PC), at(context, memory_layout.LENGTH)
    if pc < 0 or pc >= length or at(warp, memory_layout.FAULT) != memory_layout.FINE:
        put(warp, memory_layout.LAST_PC, pc)
        if pc < 0 or pc >= length:
            fault(warp, memory_layout.BAD_TARGET, 0, pc * 16)
        return FAULTS
    ops, executed, summed = (
        at(context, memory_layout.OPS),
        at(context, memory_layout.EXECUTED),
        at(context, memory_layout.EXECUTED_LANES),
    )
    answer, issued, may = GOES_ON, 0, 0
    count = at(
        context, memory_layout.NOTHING
    )  # were it a constant, the compiler would write all of this twice
    while True:
        op = ops + pc * (8 * memory_layout.WORDS)
        state = execute(ops, warp, context, length)
        lanes = at(warp, memory_layout.LANES)
        if count != 0 and state == FAULTS:  # which is told when it is issued
            put(warp, memory_layout.PC, pc)
            count -= 1
            break
        put(executed, pc, at(executed, pc) + 1)
        put(summed, pc, at(summed, pc) + bits_set(lanes))
        if count != 0:
            if at(op, I_EARLY_EXECUTION) & SHARED_LOAD != 0:
                put16(
                    warp + 8 * memory_layout.AHEAD + 2 * (pc & (MAX_EARLY_INSTRUCTIONS - 1)),
                    bits_set(lanes) | bank_wavefronts(op, warp) << 6,
                )
        else:
            answer, issued = state, lanes
            may = _after_issue(op, warp, context, pc, state, lanes)
        pc = at(warp, memory_layout.PC)
        if count == MAX_EARLY_INSTRUCTIONS or pc < 0 or pc >= length:
            break
        if at(ops + pc * (8 * memory_layout.WORDS), I_EARLY_EXECUTION) & may == 0:
            break
        count += 1
    put(warp, memory_layout.LANES, issued)
    if at(context, memory_layout.PREFETCHES) != 0 and 0 <= pc < length:
        prefetch_rows(ops + pc * (8 * memory_layout.WORDS), warp)
    return answer + (count << ANSWER_BITS)


def _after_issue_body(op, warp, context, pc, state, lanes):  # type: ignore[no-untyped-def]
    """What the engine and the block are to know of an instruction just issued; the marks of what may follow
    it before it is issued."""
    if state != GOES_ON:
        put(warp, memory_layout.LAST_PC, pc)
    if state == FAULTS:
        return 0
    if at(context, memory_layout.RECORDING) != 0:
        note(op, warp, context, pc, lanes)
    code, may = at(op, I_CODE), ON_REGISTERS | SHARED_LOAD
    matrices = code == d.LOAD_MATRIX or code == d.STORE_MATRIX
    if code == d.LOAD or code == d.STORE or code == d.ATOMIC or code == d.COPY or matrices:
        space = at(op, I_SPACE)
        if space == d.SHARED:
            put(warp, memory_layout.PASSES, bank_wavefronts(op, warp))
        else:
            may = ON_REGISTERS  # the engine asks for this access's addresses later
            if at(context, memory_layout.MARKS) != 0 and lanes != 0:
                mark_access(op, warp, context, code, lanes)
            if space == d.LOCAL and code != d.COPY:
                _place_local(op, warp, context, lanes)
    block, following = at(warp, memory_layout.BLOCK), at(warp, memory_layout.PC)
    if code == d.BARRIER:
        following = pc + 1
    writes = 0
    if state != EXITS and following >= 0 and following < at(context, memory_layout.LENGTH):
        writes = (
            at(at(context, memory_layout.OPS) + following * (8 * memory_layout.WORDS), I_EARLY_EXECUTION)
            // WRITE_FOLLOWS
        ) & 1
    known = at(warp, memory_layout.MAY_WRITE)
    if writes != known and (writes != 0 or state == EXITS or at(warp, memory_layout.PATHS) == 0):
        put(warp, memory_layout.MAY_WRITE, writes)
        put(block, memory_layout.WRITERS, at(block, memory_layout.WRITERS) + writes - known)
    if at(block, memory_layout.WRITERS) != 0:
        may &= ON_REGISTERS
    if state != GOES_ON or at(context, memory_layout.RECORDING) != 0:
        return 0
    return may


_after_issue = helper(_after_issue_body)


def _step(kind, warp, context, now, p, q):  # type: ignore[no-untyped-def]
    """The source of the compiled engine; see `smlab.sim.instruction_source.CompiledSource`."""
    if kind == NEXT:
        return _next(warp, context, now)
    if kind == NEAR:
        following = at(warp, memory_layout.PC)
        if at(context, memory_layout.PREFETCHES) != 0 and 0 <= following < at(context, memory_layout.LENGTH):
            prefetch(warp + 8 * memory_layout.LIVE)
            prefetch(warp + 8 * (memory_layout.PREDICATES + memory_layout.PT))
            prefetch_rows(at(context, memory_layout.OPS) + following * (8 * memory_layout.WORDS), warp)
        return GOES_ON
    if kind == START:
        place, room = q & 63, q >> 6
        if at(context, memory_layout.BLOCK_MAP) != 0:
            p = get64(at(context, memory_layout.BLOCK_MAP) + 8 * p)
        block = at(context, memory_layout.BLOCKS_AT) + 8 * memory_layout.BLOCK_WORDS * room
        if place == 0:
            start_block_words(context, block, at(context, memory_layout.KNOWN_BYTES), p)
            put(block, memory_layout.WRITERS, at(context, memory_layout.WARPS))
        threads = min(32, at(context, memory_layout.THREADS) - 32 * place)
        start_warp(context, warp, block, place, threads)
        put(warp, memory_layout.SM_ID, now)
        put(warp, memory_layout.INDEX, p)
        put(warp, memory_layout.MAY_WRITE, 1)
        return GOES_ON
    if kind == OPENED:
        open_barrier(warp)
    return GOES_ON


def _place_local_body(op, warp, context, lanes):  # type: ignore[no-untyped-def]
    """Local addresses as the caches see them: a place of the SM has its memory, whichever block is there."""
    out = warp + 8 * memory_layout.ADDRESSES
    put(warp, memory_layout.CONSECUTIVE, 0)
    width = at(op, I_WIDTH_BYTES)
    room = (at(warp, memory_layout.BLOCK) - at(context, memory_layout.BLOCKS_AT)) // (
        8 * memory_layout.BLOCK_WORDS
    )
    number = room * at(context, memory_layout.WARPS) + at(warp, memory_layout.WARP_OF_BLOCK)
    base = LOCAL_AT + number * (at(context, memory_layout.LOCAL_BYTES) * 32 + LOCAL_PAD)
    rest = lanes
    while rest != 0:
        lane = lowest_bit(rest)
        rest &= rest - 1
        inside = get64(out + 8 * lane)
        put64(out + 8 * lane, base + (inside & ~(width - 1)) * 32 + lane * max(width, 4))


_place_local = helper(_place_local_body)
_step_function: Any = None


def step_address() -> int:
    """The address of the source's function, compiled at the first call."""
    global _step_function
    if _step_function is None:
        _step_function = callback(_SIGNATURE, _step)
    return int(_step_function.address)


class MachineSource:
    """Machine code as a `smlab.sim.instruction_source.WarpSource`."""

    def __init__(
        self,
        launch: MachineLaunch,
        sms: int,
        blocks: NDArray[np.int64] | None = None,
        elsewhere: UnsampledFetches | None = None,
        recording: Recording | None = None,
    ) -> None:
        self.launch = launch
        self.recording = recording
        self.blocks = blocks
        self.elsewhere = elsewhere
        self.memory: MachineMemory | None = None
        self.interpreter: Interpreter | None = None
        self.warps_of_sm = 1
        shares = any(m.code == d.ATOMIC and m.returns and m.fields["space"] != d.SHARED for m in launch.code)
        strong = any("STRONG" in m.instruction.modifiers and m.code == d.LOAD for m in launch.code)
        self.ordered = sms > 1 and (launch.ordered or shares or strong)

    @property
    def executed(self) -> NDArray[np.int64]:
        if self.interpreter is not None:
            return self.interpreter.executed
        assert self.memory is not None
        return self.memory.executed

    @property
    def lanes(self) -> NDArray[np.int64]:
        if self.interpreter is not None:
            return self.interpreter.lanes
        assert self.memory is not None
        return self.memory.lanes

    @property
    def unwritten(self) -> NDArray[np.int64]:
        """What each instruction read of shared memory that nobody had written:
        ``(instructions, record.UNWRITTEN_WORDS)``."""
        if self.interpreter is not None:
            return self.interpreter.unwritten
        assert self.memory is not None
        return self.memory.unwritten

    def compiled(self, sms: int, warps: int, rooms: int) -> CompiledSource:
        self.memory = MachineMemory(self.launch, rooms, warps)
        if self.blocks is not None:
            self.memory.words[memory_layout.BLOCK_MAP] = self.blocks.ctypes.data
        self.memory.words[memory_layout.PREFETCHES] = self.memory.warps.nbytes > PREFETCH_BYTES
        if self.recording is not None:
            self.memory.words[memory_layout.RECORDING] = self.recording.words.ctypes.data
        self.warps_of_sm = warps // sms
        self.memory.time_copies(sms)
        return CompiledSource(
            step_address(),
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


def request_of(micro: MicroOperation, machine: Machine) -> RequestTicks:
    """What the address unit, the port and L2 take for an access; nothing for another instruction."""
    cls = CLASSES[micro.cls]
    if cls.unit not in QUEUED_UNITS:
        return NO_REQUEST
    registers = micro.bits // 32
    if micro.fields.get("operation") in (d.SWAP, d.SPIN):
        registers *= 2  # the value compared with, and the new one
    floating = micro.fields.get("number_type") in _FLOATING and micro.fields.get("operation") == d.ADD
    return machine.request_ticks(cls, registers, floating)


_FLOATING: Final = (d.FLOAT32, d.FLOAT64, d.HALF_PAIR, d.BFLOAT16_PAIR)


def stall_of(micro: MicroOperation, control: ControlCode, machine: Machine) -> int:
    """How long an instruction keeps its warp from the next one."""
    beyond = machine.system_fence_cycles if is_system_fence(micro.instruction) else 0
    return max(1, control.stall_cycles) + beyond


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
    launch.sm_hz = machine.sm_hz
    launch.copy_latency_cycles = machine.copy_latency_cycles
    launch.copy_sector_ticks = max(machine.port_sector_ticks, machine.l2_sector_ticks * machine.sms)
    code = launch.code
    operations = []
    copies = next(
        (
            c.write_barrier
            for m in code
            if m.instruction.opcode == "LDGDEPBAR" and (c := m.instruction.control)
        ),
        None,
    )
    waits_for_stores = any(is_fence(m.instruction) for m in code)
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
        product = tensor_product(micro.instruction)
        cls = CLASSES[micro.cls]
        base, each, tail, free, read = 0, 0, 0, 1, 0
        if cls.unit is Unit.ATOMIC:
            timing = machine.atomic(cls.operation)
            base, each = timing.base_ticks, timing.pass_ticks
            tail = timing.latency_cycles
        elif cls.name in machine.access_latency_cycles:
            tail = machine.tail_cycles(cls, micro.bits)
        if cls.unit in QUEUED_UNITS:
            free = micro.bits // 32
            read = machine.read_offset_cycles(cls, micro.bits)
        operations.append(
            Operation(
                slot=number,
                cls=cls,
                after=(),
                lanes=32,
                returns=control.write_barrier is not None or micro.code == d.COPY,
                passes=int(cls.operation != "constant"),
                work=base + each,
                control=control,
                base_work=base,
                pass_work=each,
                tail_cycles=tail,
                hidden_wavefronts=free,
                read_offset_cycles=read,
                request=request_of(micro, machine),
                pipe=machine.tensor_timing(product),
                stall_cycles=stall_of(micro, control, machine),
                joins_group=micro.code == d.COPY,
                closes_group=micro.instruction.opcode == "LDGDEPBAR",
                groups_left=left,
                joins_products=bool(micro.fields.get("joins_products")),
                closes_products=bool(micro.fields.get("closes_products")),
                products_left=_products_left(micro),
                is_fence=is_fence(micro.instruction),
                fenced=waits_for_stores
                and cls.operation in ("store", "reduce")
                and cls.unit is Unit.GLOBAL
                and control.write_barrier is None,
                empties_l1=empties_l1(micro.instruction),
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
    return LoweredKernel(kernel, machine, 0, (program,), MachineSource(launch, sms, recording=recording))
