"""Warps and blocks: what is resident on an SM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from smlab.sim.instructions import Reason
from smlab.sim.lowering import LoopBegin, LoweredProgram, Operation


class Job:
    """One warp-instruction on the memory path, with its five moments.

    ``issue`` < ``taken`` <= ``start`` < ``end`` < ``completion``, in cycles: issued into its sub-core's
    queue, taken from there by the arbiter, service begun, service ended (of an atomic in its unit, of others
    in the data stage), result or acknowledgement back.
    """

    __slots__ = (
        "addresses",
        "awaited",
        "completion",
        "due",
        "end",
        "followers",
        "issue",
        "lanes",
        "operation",
        "passes",
        "read_target",
        "returns",
        "sequence",
        "start",
        "taken",
        "target",
        "warp",
        "work",
    )

    def __init__(
        self, warp: Warp, operation: Operation, sequence: int, issue: int, passes: int, work: int
    ) -> None:
        self.sequence = sequence  # counts the jobs of the SM in the order of their issue
        self.warp = warp
        self.operation = operation
        self.lanes = warp.lanes_of(operation)
        self.target = warp.target_of(operation)  # where its result is waited for, or -1
        self.read_target = warp.read_target_of(operation)  # likewise that its operands have been read
        self.issue = issue
        self.passes = passes
        self.work = work
        self.taken = self.start = self.end = self.completion = -1
        self.addresses: list[int] = []
        self.returns = -1  # when the sectors that a load asked L2 for are in L1, once that is known
        self.awaited = 0  # loads, itself included, whose sectors it needs and whose return is not known yet
        self.due = 0  # the latest of the returns that are known; of a load of constants, of its lines
        self.followers: list[Job] = []  # loads that wait for what this one asked L2 for


@dataclass(frozen=True)
class WarpPlace:
    """Where and when a warp is launched: ``index`` in the grid, over all blocks; ``slot`` on the SM (the
    scheduler is slot mod schedulers); ``age`` among the SM's warps; ``launch``, the cycle."""

    index: int
    program: LoweredProgram
    slot: int
    age: int
    launch: int


class Warp:
    """A resident warp: its place in its program, its scoreboard, and what it does with each of its cycles.

    Life: launched, executing (``next`` is the instruction to issue), exited (``next`` is None; draining while
    ``in_flight`` is not 0), finished.
    """

    __slots__ = (
        "age",
        "at_barrier",
        "block",
        "counters",
        "executions",
        "fetched",
        "finish",
        "in_flight",
        "index",
        "issued",
        "launch",
        "left",
        "next",
        "pending",
        "position",
        "program",
        "ready",
        "reason",
        "result_at",
        "since",
        "slot",
        "stall_cycles",
    )

    def __init__(self, block: Block, place: WarpPlace) -> None:
        self.block = block
        self.index = place.index
        self.program = program = place.program
        self.slot = place.slot
        self.age = place.age
        self.launch = self.issued = launch = place.launch
        self.ready = launch  # when it may issue for the first time
        self.fetched = 0  # when its next instruction has come from the instruction caches
        self.finish = -1
        self.reason = Reason.DISPATCH_STALL
        self.since = launch
        self.stall_cycles = [0] * len(Reason)
        self.pending = [0] * 2 * program.slots  # results on their way, and operands not read, by place
        self.result_at = [0] * program.slots  # when a fixed-latency result is there, by instruction
        self.executions = [0] * program.slots
        self.in_flight = 0  # jobs in queued units, with and without a result
        self.at_barrier = False
        self.left = False  # has exited, a cycle after issuing its last instruction
        self.counters: list[int] = []
        self.position = 0
        self.next: Operation | None = None
        self._settle()

    @property
    def exited(self) -> bool:
        return self.next is None

    def advance(self) -> None:
        """Go past the instruction that was just issued."""
        assert self.next is not None
        self.executions[self.next.slot] += 1
        self.position += 1
        self._settle()

    def _settle(self) -> None:
        """Follow loop marks, which take no time, to the next instruction or to the exit."""
        code = self.program.code
        while self.position < len(code):
            item = code[self.position]
            if isinstance(item, Operation):
                self.next = item
                return
            if isinstance(item, LoopBegin):
                self.counters.append(item.count)
                self.position += 1
            else:
                self.counters[-1] -= 1
                if self.counters[-1]:
                    self.position = item.start
                else:
                    self.counters.pop()
                    self.position += 1
        self.next = None

    def value(self, operation: Operation, of: str) -> int:
        """``passes`` or ``work`` of the coming execution of an operation."""
        value = operation.passes if of == "passes" else operation.work
        if isinstance(value, np.ndarray):
            return int(value[self.index, self.executions[operation.slot]])
        return value

    def byte_addresses(self, operation: Operation) -> list[int]:
        """Where the lanes of the coming execution of a global load or store point."""
        execution = self.executions[operation.slot]
        if operation.addresses is not None:
            return [int(a) for a in operation.addresses[self.index, execution]]
        affine = operation.affine
        assert affine is not None
        base = (
            affine.base_bytes
            + self.index * affine.warp_stride_bytes
            + execution * affine.iteration_stride_bytes
        )
        return [base + lane * affine.lane_stride_bytes for lane in range(operation.lanes)]

    def lanes_of(self, operation: Operation) -> int:
        """The active lanes of the coming execution."""
        return operation.lanes

    def target_of(self, operation: Operation) -> int:
        """Where the warp waits for the result of a job, or -1."""
        return operation.slot if operation.returns else -1

    def read_target_of(self, operation: Operation) -> int:
        """Where it waits for a job's operands to have been read, or -1."""
        return self.program.slots + operation.slot

    def needed(self) -> Sequence[tuple[int, Reason]]:
        """What the next instruction waits for: places of the scoreboard, with the reason of each."""
        assert self.next is not None
        return self.program.needed[self.next.slot]

    def dependence(self, now: int) -> tuple[Reason, int] | None:
        """What the next instruction still waits for: the reason, and the cycle when it ends if that is known
        (else 0).

        A result that is on its way outranks a fixed latency, and global memory outranks the rest: the reason
        is the one expected to hold longest.
        """
        assert self.next is not None
        on_its_way: Reason | None = None
        fixed, until = Reason.WAIT, 0
        for place, reason in self.needed():
            if self.pending[place]:
                on_its_way = reason if on_its_way is None else max(on_its_way, reason)
            if place < len(self.result_at) and self.result_at[place] > now:
                fixed = max(fixed, reason)
                until = min(until, self.result_at[place]) if until else self.result_at[place]
        if on_its_way is not None:
            return on_its_way, 0
        return (fixed, until) if until else None

    def charge(self, now: int, reason: Reason) -> None:
        """Book the cycles since the last change to the reason held so far; from ``now`` on, ``reason``
        holds."""
        self.stall_cycles[self.reason] += now - self.since
        self.reason = reason
        self.since = now


class BlockBarrier:
    """A barrier of a block: warps that came, warps that it is for (0: all that have not exited), those that
    wait, and when the SM's barrier unit has taken the last arrival."""

    __slots__ = ("arrived", "expected", "served", "waiting")

    def __init__(self) -> None:
        self.arrived = 0
        self.expected = 0
        self.served = 0
        self.waiting: list[Warp] = []


class Block:
    """A resident thread block and its barriers."""

    __slots__ = ("barriers", "executing", "index", "launch", "left", "retire", "room", "unfinished", "warps")

    def __init__(self, index: int, launch: int) -> None:
        self.index = index
        self.launch = launch
        self.left = self.retire = -1  # when its last warp so far exited, and when the block was gone
        self.room = -1  # its place among the blocks of its SM, where a source keeps its memory
        self.warps: list[Warp] = []
        self.executing = 0  # warps that have not exited: the ones that a barrier waits for
        self.unfinished = 0  # warps that are still resident
        self.barriers: dict[int, BlockBarrier] = {}  # those that some warp has come to, by number
