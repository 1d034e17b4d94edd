"""What runs on the simulated GPU: kernels of thread blocks, whose warps run programs of warp-instructions.

Everything here is plain, frozen data, checked on construction. `smlab.sim.lowering` turns it into what the
engines execute.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from smlab.hw_bench.errors import SmlabError
from smlab.sim.address_patterns import Affine, GlobalPattern, RandomBytes, RandomWords, SharedPattern, Strided
from smlab.sim.instructions import CLASSES, QUEUED_UNITS, WIDTHS, InstructionClass, Unit
from smlab.sim.machine import Machine

NO_WARP = -1
"""In `Kernel.roles`: this place of the block is left empty."""

MAX_LOOP_COUNT = 2**40
MAX_WARP_INSTRUCTIONS = 2**40
MAX_WARPS = 2**22
"""Of a grid that is simulated whole: the engines keep a row for each (1 GB for this many)."""
MAX_LOOP_DEPTH = 8


CONSECUTIVE_WORDS = Strided()
CONSECUTIVE_BYTES = Affine()


@dataclass(frozen=True)
class Duration:
    """A time in cycles: ``fixed``, or drawn anew for each execution from an ``exponential`` distribution."""

    mean_cycles: float
    distribution: str = "fixed"

    def __post_init__(self) -> None:
        if self.distribution not in ("fixed", "exponential"):
            raise SmlabError.at("distribution", "unknown", self.distribution, "fixed or exponential")
        if not 1 <= self.mean_cycles < 2**40:
            raise SmlabError.at("mean_cycles", "out of range", self.mean_cycles, "at least 1 cycle")


@dataclass(frozen=True)
class Instruction:
    """One static warp-instruction.

    ``after`` names the earlier instructions whose results it needs. ``returns`` says whether an atomic's
    result is used (the warp keeps a scoreboard for it) or only acknowledged. ``duration`` is the time of a
    ``think``, or replaces the initiation interval of an atomic (for experiments with random service times).
    ``width`` is the bits that each lane of a load, store or copy moves, from its own address on. ``uniform``
    says that the address is in a uniform register (of a constant load: known to the assembler).
    ``after_read`` names earlier memory instructions whose operands must have been read first, since this one
    overwrites them.
    """

    op: str
    name: str = ""
    after: tuple[str, ...] = ()
    lanes: int = 32
    shared: SharedPattern = CONSECUTIVE_WORDS
    memory: GlobalPattern = CONSECUTIVE_BYTES
    returns: bool = True
    duration: Duration | None = None
    width: int = 32
    uniform: bool = False
    after_read: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.op not in CLASSES:
            raise SmlabError.at("op", "unknown instruction class", self.op, "one of " + ", ".join(CLASSES))
        if not 1 <= self.lanes <= 32:
            raise SmlabError.at(f"{self.op}: lanes", "out of range", self.lanes, "1 to 32 active lanes")
        unit = self.cls.unit
        if unit is Unit.THINK and self.duration is None:
            raise SmlabError.at(self.op, "needs a time", expected="cycles")
        if self.duration is not None and unit not in (Unit.THINK, Unit.ATOMIC):
            raise SmlabError.at(self.op, "takes no time of its own", self.duration.mean_cycles)
        if self.width not in WIDTHS:
            raise SmlabError.at(f"{self.op}: width", "not a width", self.width, "32, 64 or 128 bits a lane")
        if self.width != 32 and self.cls.operation not in ("load", "store", "copy"):
            raise SmlabError.at(f"{self.op}: width", "only loads, stores and copies are wider", self.width)
        if self.uniform and unit not in QUEUED_UNITS:
            raise SmlabError.at(f"{self.op}: uniform", "has no address")

    @property
    def cls(self) -> InstructionClass:
        return CLASSES[self.op]

    @property
    def random(self) -> bool:
        """Whether executions differ by chance, so that each needs its own random numbers."""
        return (
            (self.cls.unit in (Unit.SHARED, Unit.ATOMIC) and isinstance(self.shared, RandomWords))
            or (self.cls.unit is Unit.GLOBAL and isinstance(self.memory, RandomBytes))
            or (self.duration is not None and self.duration.distribution != "fixed")
        )


@dataclass(frozen=True)
class Loop:
    """``body`` run ``count`` times; the loop itself costs nothing (write its arithmetic out where it
    matters)."""

    count: int
    body: tuple[Instruction | Loop, ...]

    def __post_init__(self) -> None:
        if isinstance(self.count, float) and math.isinf(self.count):
            raise SmlabError.at(
                "loop", "never ends", self.count, f"a count from 1 to 2**{MAX_LOOP_COUNT.bit_length() - 1}"
            )
        if (
            isinstance(self.count, bool)
            or not isinstance(self.count, int)
            or not 1 <= self.count <= MAX_LOOP_COUNT
        ):
            raise SmlabError.at("loop", "not a usable count", self.count, "a whole number from 1 to 2**40")
        if not self.body:
            raise SmlabError.at("loop", "has an empty body")


@dataclass(frozen=True)
class Program:
    """What one warp runs, from its start to its exit."""

    name: str
    body: tuple[Instruction | Loop, ...]

    def instructions(self) -> Iterator[tuple[Instruction, int]]:
        """Each static instruction with the number of times that one warp executes it, in program order."""

        def walk(
            body: tuple[Instruction | Loop, ...], times: int, depth: int
        ) -> Iterator[tuple[Instruction, int]]:
            if depth > MAX_LOOP_DEPTH:
                raise SmlabError.at(
                    f"program {self.name!r}", "loops are nested too deeply", depth, "at most 8 levels"
                )
            for item in body:
                if isinstance(item, Loop):
                    yield from walk(item.body, times * item.count, depth + 1)
                else:
                    yield item, times

        yield from walk(self.body, 1, 0)

    @property
    def length(self) -> int:
        """Warp-instructions that one warp executes."""
        return sum(times for _, times in self.instructions())


@dataclass(frozen=True)
class Kernel:
    """A grid of ``blocks`` thread blocks.

    ``roles`` has one row for all blocks, or one row a block. A row gives for each warp of the block the index
    of its program (`NO_WARP` leaves the place empty). ``sms`` is the number of SMs that share the grid.
    ``in_l2`` is a range of global memory, first byte and size, that L2 has seen just before the launch.
    """

    name: str
    programs: tuple[Program, ...]
    roles: tuple[tuple[int, ...], ...]
    blocks: int = 1
    shared_bytes_per_block: int = 0
    registers_per_thread: int = 32
    sms: int = 1
    in_l2: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        if self.blocks < 1:
            raise SmlabError.at(self.name, "needs at least one block", self.blocks)
        if self.sms < 1:
            raise SmlabError.at(self.name, "needs at least one SM", self.sms)
        if self.roles and self.blocks * len(self.roles[0]) > MAX_WARPS:
            raise SmlabError.at(
                self.name,
                "has too many warps",
                f"{self.blocks} blocks of {len(self.roles[0])}",
                f"at most {MAX_WARPS} in all; of a larger grid a sample (smlab run --sms N)",
            )
        if min(self.in_l2) < 0 or sum(self.in_l2) > 2**48:
            raise SmlabError.at(
                self.name, "no range of global memory", self.in_l2, "first byte and size, within 2**48 bytes"
            )
        if len(self.roles) not in (1, self.blocks) or not self.roles[0]:
            raise SmlabError.at(self.name, "one row of roles for all blocks, or one a block", len(self.roles))
        if len({len(row) for row in self.roles}) != 1:
            raise SmlabError.at(self.name, "every block has the same number of places for warps")
        for row in self.roles:
            for role in row:
                if role != NO_WARP and not 0 <= role < len(self.programs):
                    raise SmlabError.at(self.name, "a warp's role names no program", role)
            if all(role == NO_WARP for role in row):
                raise SmlabError.at(self.name, "a block has no warps")
        for program in self.programs:
            if not program.body:
                raise SmlabError.at(f"{self.name}: program {program.name!r}", "has no instructions")
            self._check_names(program)
        total = self.warp_instructions
        if total > MAX_WARP_INSTRUCTIONS:
            raise SmlabError.at(
                self.name, "runs practically for ever", total, "at most 2**40 warp-instructions"
            )

    @property
    def warps_per_block(self) -> int:
        return len(self.roles[0])

    @property
    def warp_instructions(self) -> int:
        """Warp-instructions of the whole grid."""
        lengths = [p.length for p in self.programs]
        per_row = [sum(lengths[r] for r in row if r != NO_WARP) for row in self.roles]
        return per_row[0] * self.blocks if len(self.roles) == 1 else sum(per_row)

    def role(self, block: int, warp: int) -> int:
        return self.roles[block if len(self.roles) > 1 else 0][warp]

    def _check_names(self, program: Program) -> None:
        where = f"{self.name}: program {program.name!r}"
        instructions = [i for i, _ in program.instructions()]
        seen: dict[str, Instruction] = {}
        for instruction in instructions:
            if instruction.name and instruction.name in seen:
                raise SmlabError.at(where, "two instructions have one name", instruction.name)
            if instruction.name:
                seen[instruction.name] = instruction
        for instruction in instructions:
            for needed in (*instruction.after, *instruction.after_read):
                if needed not in seen:
                    raise SmlabError.at(
                        f"{where}: {instruction.op}", "waits for an instruction that is not there", needed
                    )
            for needed in instruction.after_read:
                if seen[needed].cls.unit not in QUEUED_UNITS:
                    what = "waits for the operands of what reads them at issue"
                    raise SmlabError.at(f"{where}: {instruction.op}", what, needed, "a memory instruction")
            for needed in instruction.after:
                source = seen[needed]
                if source.cls.unit is Unit.BARRIER or not source.returns:
                    raise SmlabError.at(
                        f"{where}: {instruction.op}", "waits for a result that never comes", needed
                    )


def check_fits(kernel: Kernel, machine: Machine) -> None:
    """Refuse a kernel that the GPU could not launch; the message names the limit that it breaks."""

    def at_most(what: str, value: int, limit: int, limit_name: str) -> None:
        if value > limit:
            raise SmlabError.at(
                f"{kernel.name} on {machine.name}",
                f"{what} exceed what {limit_name} has",
                value,
                f"at most {limit}",
            )

    threads = kernel.warps_per_block * machine.warp_lanes
    at_most("SMs", kernel.sms, machine.sms, "the GPU")
    at_most("threads in a block", threads, machine.max_threads_per_block, "a block")
    at_most("warps in a block", kernel.warps_per_block, machine.max_warps, "an SM")
    at_most(
        "bytes of shared memory in a block",
        kernel.shared_bytes_per_block,
        machine.shared_bytes_per_block,
        "an SM",
    )
    at_most(
        "registers in a thread", kernel.registers_per_thread, machine.max_registers_per_thread, "a thread"
    )
    at_most("registers in a block", registers_of_block(kernel, machine), machine.registers, "an SM")
    if kernel.registers_per_thread:
        room = warps_by_registers(kernel, machine)
        at_most("warps of so many registers in a block", kernel.warps_per_block, room, "an SM")
    for program in kernel.programs:
        for instruction, _ in program.instructions():
            if instruction.cls.unit is Unit.ATOMIC:
                machine.atomic(instruction.cls.operation)


def registers_of_warp(kernel: Kernel, machine: Machine) -> int:
    """Registers that one warp takes, rounded up to the allocation unit."""
    unit = machine.register_unit_per_warp
    return -(-kernel.registers_per_thread * machine.warp_lanes // unit) * unit


def registers_of_block(kernel: Kernel, machine: Machine) -> int:
    """Registers that one block takes."""
    return registers_of_warp(kernel, machine) * kernel.warps_per_block


def warps_by_registers(kernel: Kernel, machine: Machine) -> int:
    """Warps that an SM's registers hold: each scheduler has its own part of them."""
    share = machine.registers // machine.schedulers
    return machine.schedulers * (share // registers_of_warp(kernel, machine))


def shared_bytes_of_block(kernel: Kernel, machine: Machine) -> int:
    """Shared memory that one block takes, with the system's share, rounded up to the allocation unit."""
    unit = machine.shared_unit_bytes
    wanted = kernel.shared_bytes_per_block + machine.shared_reserved_bytes_per_block
    return -(-wanted // unit) * unit


def blocks_per_sm(kernel: Kernel, machine: Machine) -> int:
    """How many blocks of this kernel one SM can hold at a time: its theoretical occupancy in blocks."""
    limits = [
        machine.max_blocks,
        machine.max_warps // kernel.warps_per_block,
        machine.max_threads // (kernel.warps_per_block * machine.warp_lanes),
    ]
    if kernel.registers_per_thread:
        limits.append(warps_by_registers(kernel, machine) // kernel.warps_per_block)
    if shared := shared_bytes_of_block(kernel, machine):
        limits.append(machine.shared_bytes // shared)
    return min(limits)
