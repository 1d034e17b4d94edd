"""A trace on a simulated GPU: its instructions lowered, and timed.

An instruction issues when the registers that it reads are there, and those that it overwrites have been read
(`dependences`). All else (pipes, queues, caches, the atomic unit) is as for machine code. What only control
codes say is missing: a branch is taken to hold its warp for `BRANCH_STALL_CYCLES`, what assemblers write, and
predicates are guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.effects import access_words
from smlab.hw_bench.sass.opcodes import kind_of_opcode
from smlab.hw_bench.sass.operations import tensor_product
from smlab.sim.execution.run import InstructionCount, TimedRun, counts_of
from smlab.sim.execution.source import passes_told, pipe_of, request_of
from smlab.sim.instructions import CLASSES, QUEUED_UNITS, InstructionClass, Reason, Unit
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.decode.control import OF_FENCES, UNTIMED
from smlab.sim.isa.decode.decode import ATOMIC_CLASSES
from smlab.sim.isa.decode.micro import ROWS, MicroOperation
from smlab.sim.isa.launch.faults import untimed_note
from smlab.sim.lowering import LoweredKernel, LoweredProgram, Operation
from smlab.sim.machine import Machine, PipeTiming, machine_from
from smlab.sim.options import by_keywords
from smlab.sim.reference import Progress, Record
from smlab.sim.simulate import DEFAULT_ENGINE, ENGINES
from smlab.sim.traces.compiled_step import EVEN, LEAVES, NOWHERE, PLAIN, WAITS
from smlab.sim.traces.dependences import BRANCHES, dependences, printed
from smlab.sim.traces.reading import RecordedKernel
from smlab.sim.traces.source import TraceSource
from smlab.sim.traces.text import TraceInstruction
from smlab.sim.workloads.workload import Instruction, Kernel, Program, check_fits

BRANCH_STALL_CYCLES: Final = 5
_SPACES: Final = {"shared": d.SHARED, "shared-atomic": d.SHARED, "local": d.LOCAL}
_LOCAL_WINDOW: Final = 1 << 32
"""Generic addresses so far behind the beginning of local memory's window are of it."""
_BY_KIND: Final[dict[str, str]] = {
    **{kind: kind for kind in ("tensor", "fp16", "fp32", "fp64", "conversion", "uniform", "control")},
    **{"special": "sfu", "int": "int32"},
}
"""Classes of opcodes that have no meaning here yet, but whose time is known."""
_REFUSED: Final = ("TEX", "TLD", "TLD4", "TMML", "TXD", "TXQ", "SULD", "SUST", "SUATOM", "SURED")
_GENERIC: Final = ("LD", "ST", "ATOM")
_AS_SHARED: Final = {"LD": "shared-load", "ST": "shared-store", "ATOM": "atomic-add"}


def lower_trace(recorded: RecordedKernel, machine: Machine, sms: int) -> LoweredKernel:
    """A recorded kernel as what the engines execute, on ``sms`` SMs of a machine.

    Raises:
        SmlabError: an opcode that cannot be timed, by name; a kernel that the machine cannot hold.
    """
    spaces = _spaces(recorded)
    micro, classes = [], []
    for n, instruction in enumerate(recorded.code):
        cls = _class_of(instruction, spaces[n], recorded.where)
        micro.append(_micro(instruction, spaces[n], cls))
        classes.append(cls)
    late = [cls.unit is not Unit.PIPE or cls.result_reason is not Reason.WAIT for cls in classes]
    found = dependences(recorded, late, [cls.unit in QUEUED_UNITS for cls in classes])
    operations = tuple(
        _operation(n, m, machine, (*found.results[n], *(len(micro) + r for r in found.readings[n])))
        for n, m in enumerate(micro)
    )
    header = recorded.header
    program = LoweredProgram(header.name, operations, operations, recorded=True)
    kernel = Kernel(
        name=header.name,
        programs=(Program(header.name, tuple(Instruction(cls.name) for cls in classes)),),
        roles=((0,) * header.warps_per_block,),
        blocks=header.blocks,
        shared_bytes_per_block=header.shared_bytes,
        registers_per_thread=max(1, header.registers),
        sms=sms,
    )
    check_fits(kernel, machine)
    kinds = np.array([_kind(i) for i in recorded.code], dtype=np.int64)
    source = TraceSource(recorded, tuple(micro), kinds, _local(recorded, spaces))
    return LoweredKernel(kernel, machine, 0, (program,), source)


@dataclass(frozen=True, kw_only=True)
class TraceRunOptions:
    """The options of `run_trace`, as those of `smlab.sim.simulate.simulate`."""

    engine: str | None = None
    policy: str | None = None
    keep: Record = Record.ATOMICS
    max_cycles: int | None = None
    progress: Progress | None = None
    threads: int | None = None


@by_keywords(TraceRunOptions)
def run_trace(recorded: RecordedKernel, gpu: Gpu, options: TraceRunOptions) -> TimedRun:
    """Time a recorded kernel, its whole grid on all SMs.

    Raises:
        SmlabError: as `lower_trace`; ``max_cycles`` passed; a barrier that some warp never comes to.
    """
    engine = options.engine or DEFAULT_ENGINE
    if engine not in ENGINES:
        raise SmlabError.at("engine", "unknown", engine, "one of " + ", ".join(ENGINES))
    machine, blocks = machine_from(gpu, options.policy), recorded.header.blocks
    sms = min(gpu.integer("gpu.sms"), blocks)
    lowered = lower_trace(recorded, machine, sms)
    result = ENGINES[engine](lowered, options.keep, options.max_cycles, options.progress, options.threads)
    cycles = float(result.cycles)
    instructions = _counts(recorded, lowered, result.instruction_stalls)
    return TimedRun(
        lowered=lowered,
        result=result,
        cycles=cycles,
        cycles_low=cycles,
        cycles_high=cycles,
        seconds=cycles / machine.sm_hz,
        sms=sms,
        blocks=blocks,
        blocks_simulated=blocks,
        instructions=instructions,
        dram_sectors_read=float(result.memory.dram_sectors),
        notes=untimed_note([i.opcode for i in instructions if i.executed], (*OF_FENCES, *UNTIMED)),
    )


def _counts(
    recorded: RecordedKernel, lowered: LoweredKernel, stalls: NDArray[np.int64] | None
) -> tuple[InstructionCount, ...]:
    assert lowered.source is not None
    assert stalls is not None
    executions = np.stack([lowered.source.executed, lowered.source.lanes], axis=1)
    return counts_of([(i.pc, i.line, str(i)) for i in recorded.code], executions, stalls)


def _spaces(recorded: RecordedKernel) -> list[int]:
    """The memory space of each instruction that asks for one; a generic one's by its first address."""
    header, found = recorded.header, []
    asked = np.flatnonzero(recorded.place != NOWHERE)
    first = dict(zip(recorded.index[asked][::-1].tolist(), asked[::-1].tolist(), strict=True))
    for n, instruction in enumerate(recorded.code):
        space = _SPACES.get(kind_of_opcode(printed(instruction)), d.GLOBAL)
        if instruction.opcode.split(".")[0] in _GENERIC and n in first and header.shared_base:
            address = next(iter(recorded.addresses(first[n]).values()))
            if header.shared_base <= address < header.local_base:
                space = d.SHARED
            elif header.local_base <= address < header.local_base + _LOCAL_WINDOW:
                space = d.LOCAL
        found.append(space)
    return found


def _local(recorded: RecordedKernel, spaces: list[int]) -> tuple[int, int]:
    """The first byte and the bytes of a thread's local memory, as far as the record asks for it."""
    local = np.array([s == d.LOCAL and i.width > 0 for s, i in zip(spaces, recorded.code, strict=True)])
    asked = np.flatnonzero((recorded.place != NOWHERE) & local[recorded.index])
    if not len(asked):
        return 0, 0
    at = recorded.place[asked]
    even = recorded.words[at] == EVEN
    ends = [recorded.words[at[even] + 1]]
    count = np.bitwise_count(recorded.mask[asked[even]]).astype(np.int64)
    ends.append(ends[0] + recorded.words[at[even] + 2] * (count - 1))
    for n in asked[~even]:
        ends.append(np.array(list(recorded.addresses(int(n)).values()), dtype=np.int64))
    every = np.concatenate(ends)
    low = int(every.min()) // 16 * 16
    return low, -(-(int(every.max()) + 16 - low) // 16) * 16


def _class_of(instruction: TraceInstruction, space: int, where: str) -> InstructionClass:
    opcode, *modifiers = instruction.opcode.split(".")
    row = ROWS.get(opcode)
    if row is not None:
        name = "uniform" if row.uniform and row.cls != "vote" else row.cls
        if opcode in _AS_SHARED and space == d.SHARED:
            name = _AS_SHARED[opcode]
        if name == "atomic-add":
            operation = {"CAS": d.SWAP, "CAST": d.SPIN, "POPC": d.COUNT}
            name = next((ATOMIC_CLASSES[operation[m]] for m in modifiers if m in operation), name)
        return CLASSES[name]
    kind = kind_of_opcode(printed(instruction))
    known = kind == "shared" or (kind in _BY_KIND and not (kind == "int" and instruction.width))
    if opcode in _REFUSED or not known:
        raise SmlabError.at(
            f"{where}: PC {instruction.pc:#x}", "an opcode that cannot be timed here", instruction.opcode
        )
    return CLASSES["shared-load" if kind == "shared" else _BY_KIND[kind]]


def _micro(instruction: TraceInstruction, space: int, cls: InstructionClass) -> MicroOperation:
    """What of an instruction the passes of its accesses hang on."""
    code, fields = d.LOAD, {"space": space}
    if cls.unit is Unit.ATOMIC or cls.operation in ("atomic", "reduce"):
        code, fields["operation"] = d.ATOMIC, d.COUNT if cls.operation == "popc_inc" else d.ADD
    listed = printed(instruction)
    width = max(instruction.width, 4 * access_words(listed)) if instruction.width >= 4 else instruction.width
    return MicroOperation(listed, code, cls.name, {**fields, "width_bytes": min(width, 16)})


def _kind(instruction: TraceInstruction) -> int:
    opcode, *modifiers = instruction.opcode.split(".")
    if opcode == "BAR" and "ARV" not in modifiers:
        return WAITS
    return LEAVES if opcode == "EXIT" else PLAIN


def _pipe_of(micro: MicroOperation, machine: Machine) -> PipeTiming | None:
    """A trace has no stall cycles, so what needs a product waits for its result, not for its scoreboard."""
    timing = pipe_of(micro, 1, machine)
    if timing is None or tensor_product(micro.instruction) is None:
        return timing
    return replace(timing, latency_cycles=max(timing.latency_cycles, machine.pipes["tensor"].latency_cycles))


def _operation(n: int, micro: MicroOperation, machine: Machine, after: tuple[int, ...]) -> Operation:
    cls = CLASSES[micro.cls]
    base, each, tail, free, read = 0, 0, 0, 1, 0
    if cls.unit is Unit.ATOMIC:
        timing = machine.atomic(cls.operation)
        base, each, tail = timing.base_ticks, timing.pass_ticks, timing.latency_cycles
    elif cls.name in machine.access_latency_cycles:
        tail = machine.tail_cycles(cls, micro.latency_bits)
    if cls.unit in QUEUED_UNITS:
        free, read = micro.latency_bits // 32, machine.read_offset_cycles(cls, micro.bits)
    return Operation(
        slot=n,
        cls=cls,
        after=after,
        lanes=32,
        returns=bool(micro.instruction.operands),
        passes=passes_told(micro, machine),
        work=base + each,
        base_work=base,
        pass_work=each,
        tail_cycles=tail,
        hidden_wavefronts=free,
        read_offset_cycles=read,
        request=request_of(micro, machine),
        pipe=_pipe_of(micro, machine),
        stall_cycles=BRANCH_STALL_CYCLES if micro.instruction.opcode in BRANCHES else 1,
    )
