"""Turn a kernel into what the engines execute: flat code, resolved dependences, costs in ticks, random
numbers drawn.

Both engines read the same lowered kernel, so the arithmetic of addresses and all randomness are settled here,
once. Each random instruction of each warp has a stream of its own, spawned from the seed by (warp,
instruction): two variants of a study that share a warp's instruction see the same numbers for it, whatever
else differs.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass import ControlCode
from smlab.sim.address_patterns import (
    Affine,
    RandomBytes,
    RandomWords,
    RecordedBytes,
    RecordedWords,
    Strided,
    fixed_wavefronts,
    passes,
)
from smlab.sim.instruction_source import WarpSource
from smlab.sim.instructions import QUEUED_UNITS, InstructionClass, Reason, Unit
from smlab.sim.l2_contents import LevelTwoLines
from smlab.sim.machine import NO_REQUEST, TICKS_PER_CYCLE, Machine, PipeTiming, RequestTicks
from smlab.sim.workloads.workload import (
    CONSECUTIVE_BYTES,
    CONSECUTIVE_WORDS,
    Duration,
    Instruction,
    Kernel,
    Loop,
    Program,
    check_fits,
)

MAX_DRAWS = 2**27
"""Random numbers that one kernel may need; more are refused rather than exhausting the memory."""


RECORDED_AT_A_TIME = 2**21
"""Recorded words whose passes are counted at a time; keeps the memory small."""

ADDRESSES_END = 2**49
"""The end of a GPU's virtual addresses, in bytes."""
NO_CONSTANT, INDEXED_CONSTANT = -1, -2
"""In place of a line of the caches of constants: the instruction reads none, or its source tells which."""

ADDRESSES, TIMES = 0, 1
"""What a random stream is for."""


@contextmanager
def without_collection() -> Iterator[None]:
    """No garbage is searched for meanwhile: what lowering makes stays, and one search through all that a
    process has loaded takes as long as lowering a large kernel."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@dataclass(frozen=True)
class LoopBegin:
    """Enter a loop: set its counter."""

    count: int


@dataclass(frozen=True)
class LoopEnd:
    """End of a loop's body: go back to ``start`` (the first item of the body) until the counter is used
    up."""

    start: int


@dataclass(frozen=True)
class Operation:
    """One static instruction, lowered.

    ``slot`` numbers the instructions of its program. ``after`` holds places of the scoreboard: slot s for the
    result of s, slots + s for the reading of its operands. ``passes`` and ``work`` are constants, or arrays
    of shape ``(warps of the grid, executions)`` where executions differ. ``work`` is the occupancy of the
    atomic unit in ticks or the time of a ``think`` in cycles; ``passes`` are what a shared access or an
    atomic takes of the data stage (a global one's lines follow from its addresses). ``addresses`` holds
    random or recorded byte addresses ``(warps, executions, lanes)``; affine ones stay in ``affine``.

    Of what takes the memory path: ``tail_cycles`` from leaving the sub-core to the result, for an access of
    ``hidden_wavefronts``; ``read_offset_cycles`` from being ready to leave until its operands are read.

    An instruction of machine code has a ``control`` code in place of ``after``, and its work follows from
    the passes that its execution needs: ``base_work`` and ``pass_work`` for each of them. One of a recorded
    kernel has ``after``, work by its passes, and ``stall_cycles`` until its warp's next one.

    ``request`` is what it takes of its address unit, of the SM's port and of L2; ``pipe`` what it takes of
    its pipe, where that is not what its class does.

    Asynchronous copies of a warp form groups: an instruction may join the open one, close it, or wait until
    at most ``groups_left`` closed ones (-1: it does not wait) have copies on their way. A fence waits for its
    warp's accesses to global memory, and takes ``fence_cycles`` from where it could issue without them. A
    *shared fence* waits for its stores to shared memory; ``fenced`` is a store
    or reduction that one of them may wait for. Products of matrices by a group of warps form groups in the
    same way: ``joins_products``, ``closes_products`` and ``products_left``. Of one ``in_tensor_memory`` the
    source tells the shape; what ``follows_products`` is there when its warp's products are. What
    ``asks_phase`` of a barrier in memory may wait for it. While the tensor core does such products, an
    instruction keeps its scheduler for ``crowded_cycles``. ``bulk_copy`` is what the copy engine does with
    global memory, a load or a store, of ``bulk_sectors`` sectors at most. A load ``past_l1`` asks L2 whatever
    L1 has. ``constant_line`` is the line of the caches of constants that it reads: a number,
    `NO_CONSTANT`, or `INDEXED_CONSTANT` where its source tells the addresses.
    """

    slot: int
    cls: InstructionClass
    after: tuple[int, ...]
    lanes: int
    returns: bool
    passes: int | NDArray[np.int64]
    work: int | NDArray[np.int64]
    affine: Affine | None = None
    addresses: NDArray[np.int64] | None = None
    control: ControlCode | None = None
    base_work: int = 0
    pass_work: int = 0
    tail_cycles: int = 0
    hidden_wavefronts: int = 1
    read_offset_cycles: int = 0
    stall_cycles: int = 1
    joins_group: bool = False
    closes_group: bool = False
    groups_left: int = -1
    joins_products: bool = False
    closes_products: bool = False
    products_left: int = -1
    in_tensor_memory: bool = False
    follows_products: bool = False
    asks_phase: bool = False
    crowded_cycles: int = 1
    request: RequestTicks = NO_REQUEST
    pipe: PipeTiming | None = None
    is_fence: bool = False
    fence_cycles: int = 0
    is_shared_fence: bool = False
    fenced: bool = False
    empties_l1: bool = False
    bulk_copy: str | None = None
    multicast: bool = False
    follows_copies: bool = False
    bulk_sectors: int = 0
    past_l1: bool = False
    passes_inactive: bool = False
    constant_line: int = NO_CONSTANT


Code = tuple[Operation | LoopBegin | LoopEnd, ...]


@dataclass(frozen=True)
class LoweredProgram:
    """Flat code of one program; ``slots`` is the number of its static instructions.

    A warp's scoreboard has a place for the result of each, and one for the reading of its operands.
    ``recorded`` says that a trace leads the warps: what comes next is its to say, but not what waits for
    what.
    """

    name: str
    code: Code
    operations: tuple[Operation, ...]
    recorded: bool = False

    @property
    def slots(self) -> int:
        return len(self.operations)

    @property
    def has_instruction_source(self) -> bool:
        """Whether control codes drive the issue, and a source says what comes next."""
        return bool(self.operations) and self.operations[0].control is not None

    def class_at(self, place: int) -> InstructionClass:
        """Whose result, or whose reading, a place of the scoreboard is."""
        return self.operations[place % self.slots].cls

    @cached_property
    def needed(self) -> tuple[tuple[tuple[int, Reason], ...], ...]:
        """By instruction: the places of the scoreboard that it waits for, with the reason of each."""
        return tuple(
            tuple((place, self.class_at(place).result_reason) for place in operation.after)
            for operation in self.operations
        )


@dataclass(frozen=True)
class LoweredKernel:
    """A kernel ready to run on ``machine``; ``by_instruction`` says that the engines count what warps do at
    each instruction, as they always do for machine code. ``l2`` is what L2 holds before the run, and then
    what it holds after it; an L2 that nobody looks at again needs none.
    ``cluster_blocks`` consecutive blocks are launched at once, on SMs of one group. ``brought_constants`` are
    the bytes of constant bank 0 that the launch brings to the caches of constants."""

    kernel: Kernel
    machine: Machine
    seed: int
    programs: tuple[LoweredProgram, ...]
    source: WarpSource | None = None
    by_instruction: bool = False
    l2: LevelTwoLines | None = None
    cluster_blocks: int = 1
    brought_constants: int = 0

    def __post_init__(self) -> None:
        if self.source is not None:
            object.__setattr__(self, "by_instruction", True)


def lower(kernel: Kernel, machine: Machine, seed: int = 0) -> LoweredKernel:
    """Check that the kernel fits the machine and lower it; `SmlabError` where it does not."""
    check_fits(kernel, machine)
    draws = sum(
        _draws(instruction, times) * _warps_with_role(kernel, index)
        for index, program in enumerate(kernel.programs)
        for instruction, times in program.instructions()
    )
    if draws > MAX_DRAWS:
        raise SmlabError.at(kernel.name, "needs too many random numbers", draws, f"at most {MAX_DRAWS}")
    return LoweredKernel(
        kernel=kernel,
        machine=machine,
        seed=seed,
        programs=tuple(
            _lower_program(kernel, index, p, machine, seed) for index, p in enumerate(kernel.programs)
        ),
    )


def _draws(instruction: Instruction, times: int) -> int:
    return times * instruction.lanes if instruction.random else 0


def _warps_with_role(kernel: Kernel, index: int) -> int:
    counts = [sum(role == index for role in row) for row in kernel.roles]
    return counts[0] * kernel.blocks if len(counts) == 1 else sum(counts)


@dataclass(frozen=True)
class _Context:
    """What lowering an instruction needs to know beyond the instruction: where it stands and who executes
    it."""

    kernel: Kernel
    machine: Machine
    seed: int
    warps: tuple[int, ...]  # the warps of the grid, numbered over all blocks, that run this program

    @property
    def all_warps(self) -> int:
        return self.kernel.blocks * self.kernel.warps_per_block

    def where(self, instruction: Instruction) -> str:
        return f"{self.kernel.name}: {instruction.op}"

    def stream(self, warp: int, slot: int, purpose: int) -> np.random.Generator:
        """The instruction's own random numbers in this warp, apart for `ADDRESSES` and `TIMES`."""
        key = (warp, slot, purpose)
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy=self.seed, spawn_key=key)))


def _lower_program(
    kernel: Kernel, index: int, program: Program, machine: Machine, seed: int
) -> LoweredProgram:
    listed = list(program.instructions())
    slots = {instruction.name: slot for slot, (instruction, _) in enumerate(listed) if instruction.name}
    warps = tuple(
        block * kernel.warps_per_block + warp
        for block in range(kernel.blocks)
        for warp in range(kernel.warps_per_block)
        if kernel.role(block, warp) == index
    )
    context = _Context(kernel, machine, seed, warps)
    operations = tuple(
        _lower_instruction(
            context,
            instruction,
            slot,
            times,
            (
                *(slots[name] for name in instruction.after),
                *(len(listed) + slots[name] for name in instruction.after_read),
            ),
        )
        for slot, (instruction, times) in enumerate(listed)
    )
    code: list[Operation | LoopBegin | LoopEnd] = []
    remaining = iter(operations)

    def emit(body: tuple[Instruction | Loop, ...]) -> None:
        for item in body:
            if isinstance(item, Loop):
                code.append(LoopBegin(item.count))
                start = len(code)
                emit(item.body)
                code.append(LoopEnd(start))
            else:
                code.append(next(remaining))

    emit(program.body)
    return LoweredProgram(program.name, tuple(code), operations)


def _lower_instruction(
    context: _Context, instruction: Instruction, slot: int, times: int, after: tuple[int, ...]
) -> Operation:
    cls, machine = instruction.cls, context.machine
    count: int | NDArray[np.int64] = 1
    work: int | NDArray[np.int64] = 0
    affine: Affine | None = None
    addresses: NDArray[np.int64] | None = None
    if cls.unit in (Unit.SHARED, Unit.ATOMIC):
        count = _bank_wavefronts(context, instruction, slot, times)
    if cls.unit is Unit.ATOMIC and instruction.duration is None:
        timing = machine.atomic(cls.operation)
        work = timing.base_ticks + count * timing.pass_ticks
    elif cls.unit is Unit.ATOMIC and instruction.duration is not None:
        count = 1  # the time is the experiment's, so the passes shall not be felt in the data stage either
        work = _durations(context, instruction.duration, slot, times, TICKS_PER_CYCLE)
    elif cls.operation == "constant":
        count = 0
    elif cls.unit is Unit.THINK and instruction.duration is not None:
        work = _durations(context, instruction.duration, slot, times, 1)
    elif cls.unit is Unit.GLOBAL and isinstance(instruction.memory, RandomBytes):
        width = instruction.width // 8
        addresses = np.zeros((context.all_warps, times, instruction.lanes), dtype=np.int64)
        for warp in context.warps:
            drawn = instruction.memory.draw(context.stream(warp, slot, ADDRESSES), times, instruction.lanes)
            addresses[warp] = drawn if instruction.width == 32 else drawn - drawn % width
    elif cls.unit is Unit.GLOBAL and isinstance(instruction.memory, RecordedBytes):
        where = context.where(instruction)
        addresses = instruction.memory.addresses(context.all_warps, times, instruction.lanes, where)
    elif cls.unit is Unit.GLOBAL and isinstance(instruction.memory, Affine):
        affine = instruction.memory
        if affine is CONSECUTIVE_BYTES:
            words = instruction.width // 32
            affine = Affine(lane_stride_bytes=4 * words, warp_stride_bytes=128 * words)
    if cls.unit is Unit.GLOBAL:
        count = machine.least_passes(cls, instruction.width)
        _check_aligned(context, instruction, affine, addresses)
    if affine is not None:
        _check_range(context, instruction, affine, times)
    returns = instruction.returns and cls.operation not in ("store", "reduce")
    operation = Operation(slot, cls, after, instruction.lanes, returns, count, work, affine, addresses)
    if cls.unit not in QUEUED_UNITS:
        return operation
    width, uniform = instruction.width, instruction.uniform
    tail = 0
    if cls.unit is Unit.ATOMIC:
        tail = machine.atomic(cls.operation).latency_cycles
    elif cls.name in machine.access_latency_cycles:
        tail = machine.tail_cycles(cls, width, uniform)
    return replace(
        operation,
        tail_cycles=tail,
        hidden_wavefronts=width // 32,
        read_offset_cycles=machine.read_offset_cycles(cls, width, uniform),
        request=machine.request_ticks(cls, width // 32 if cls.operation in ("load", "store") else 1),
    )


def _check_range(context: _Context, instruction: Instruction, affine: Affine, times: int) -> None:
    """Refuse addresses that no GPU has: below 0, or of more than 49 bits. The engines' caches rely on it."""
    reach = [
        stride * (count - 1)
        for stride, count in (
            (affine.lane_stride_bytes, instruction.lanes),
            (affine.warp_stride_bytes, context.all_warps),
            (affine.iteration_stride_bytes, times),
        )
    ]
    lowest = affine.base_bytes + sum(min(0, r) for r in reach)
    highest = affine.base_bytes + sum(max(0, r) for r in reach)
    if lowest < 0:
        raise SmlabError.at(context.where(instruction), "a negative byte address", lowest, "0 or more")
    if highest >= ADDRESSES_END:
        raise SmlabError.at(
            context.where(instruction), "a byte address beyond a GPU's", highest, f"less than {ADDRESSES_END}"
        )


def _check_aligned(
    context: _Context, instruction: Instruction, affine: Affine | None, addresses: NDArray[np.int64] | None
) -> None:
    """Refuse wide global accesses that the hardware would: those not aligned to their own width."""
    size = instruction.width // 8
    if instruction.width == 32:
        return
    if affine is not None:
        numbers = (
            affine.base_bytes,
            affine.lane_stride_bytes,
            affine.warp_stride_bytes,
            affine.iteration_stride_bytes,
        )
        wrong = [n for n in numbers if n % size]
    else:
        assert addresses is not None
        wrong = addresses[addresses % size != 0].reshape(-1)[:1].tolist()
    if wrong:
        what = f"an access of {instruction.width} bits a lane is not aligned"
        raise SmlabError.at(context.where(instruction), what, wrong[0], f"a multiple of {size} bytes")


def _bank_wavefronts(
    context: _Context, instruction: Instruction, slot: int, times: int
) -> int | NDArray[np.int64]:
    """Passes over the banks, one number or ``(warps, executions)``; refuses words outside the block's
    memory."""
    banks, operation = context.machine.banks, instruction.cls.operation
    count = instruction.width // 32
    pattern = Strided(count) if instruction.shared is CONSECUTIVE_WORDS else instruction.shared
    result: int | NDArray[np.int64]
    if isinstance(pattern, RecordedWords):
        result, last_word = _recorded_wavefronts(context, pattern, instruction, times)
    elif isinstance(pattern, RandomWords):
        last_word = (pattern.count - 1) // count * count
        result = np.ones((context.all_warps, times), dtype=np.int64)
        for warp in context.warps:
            drawn = pattern.draw(context.stream(warp, slot, ADDRESSES), times, instruction.lanes)
            result[warp] = passes(operation, drawn - drawn % count, banks, count)
    else:
        words, result = fixed_wavefronts(pattern, operation, instruction.lanes, banks, count)
        last_word = int(words.max())
        _check_words_aligned(context, instruction, words)
        if int(words.min()) < 0:
            raise SmlabError.at(context.where(instruction), "a negative word address", int(words.min()))
    needed, given = (last_word + count) * context.machine.bank_bytes, context.kernel.shared_bytes_per_block
    if needed > given:
        raise SmlabError.at(
            context.where(instruction),
            "touches shared memory beyond the block's own",
            f"{needed} bytes",
            f"at most shared_bytes_per_block = {given}",
        )
    return result


def _recorded_wavefronts(
    context: _Context, pattern: RecordedWords, instruction: Instruction, times: int
) -> tuple[int | NDArray[np.int64], int]:
    """The passes of recorded words, one number where they are all alike, and the last word that they
    touch."""
    where, operation, banks = context.where(instruction), instruction.cls.operation, context.machine.banks
    warps = np.array(context.warps, dtype=np.int64)
    result = np.ones((context.all_warps, times), dtype=np.int64)
    if pattern.table.strides[:2] == (0, 0):
        warps = warps[-1:]  # one row, repeated for all
    last_word = 0
    step = max(1, RECORDED_AT_A_TIME // (times * instruction.lanes))
    for part in (warps[k : k + step] for k in range(0, len(warps), step)):
        words = pattern.words_of(part, times, instruction.lanes, where)
        if int(words.min()) < 0:
            raise SmlabError.at(where, "a negative word address", int(words.min()))
        last_word = max(last_word, int(words.max()))
        _check_words_aligned(context, instruction, words)
        result[part] = passes(operation, words, banks, instruction.width // 32)
    executed = result[warps]
    if executed.size and (executed == executed.flat[0]).all():
        return int(executed.flat[0]), last_word
    return result, last_word


def _check_words_aligned(context: _Context, instruction: Instruction, words: NDArray[np.int64]) -> None:
    wrong = words[words % (instruction.width // 32) != 0].reshape(-1)
    if wrong.size:
        what = f"an access of {instruction.width} bits a lane begins at an odd word"
        expected = f"a multiple of {instruction.width // 32}"
        raise SmlabError.at(context.where(instruction), what, int(wrong[0]), expected)


def _durations(
    context: _Context, duration: Duration, slot: int, times: int, units_per_cycle: int
) -> int | NDArray[np.int64]:
    """A time in units of ``1/units_per_cycle`` cycles, at least one cycle; drawn for each execution where
    random."""
    if duration.distribution == "fixed":
        return max(units_per_cycle, round(duration.mean_cycles * units_per_cycle))
    result = np.full((context.all_warps, times), units_per_cycle, dtype=np.int64)
    for warp in context.warps:
        drawn = context.stream(warp, slot, TIMES).exponential(duration.mean_cycles, size=times)
        result[warp] = np.maximum(units_per_cycle, np.floor(drawn * units_per_cycle + 0.5))
    return result
