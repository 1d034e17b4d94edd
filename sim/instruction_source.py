"""What a warp executes next, when it is not a program of a workload: the one interface of traces and
machine code.

The engines issue; a *source* says what an issued instruction was: which lanes took part, how many passes
over the banks or which addresses it asked for, and where the warp goes on. Everything after issue is the
same for all.

A source of the compiled engine is a function in machine code (`CompiledSource.step`) on words that it
shares with the engine, a source of the reference a Python object (`WarpSource`). Both answer with a state
of the warp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from smlab.hw_bench.errors import SmlabError

GOES_ON, ARRIVES, EXITS, FAULTS, NOTIFIES, AWAITS = 0, 1, 2, 3, 4, 5
"""What an instruction leaves its warp with: another instruction, a barrier of the block to wait at, nothing
more to do, an error, another instruction and a barrier that has been told of the warp's arrival, or another
instruction (or the same again), `RETRY_CYCLES` later than it would, since others must act before."""
RETRY_CYCLES: Final = 16

OF_OTHERS: Final = 8
"""By how many bits the mask of a line's dirty sectors is moved where somebody else wrote them before the
launch: they are written to DRAM like others, and no read waits for that."""

START, NEXT, OPENED, NEAR = 0, 1, 2, 3
"""What the engine asks of a source: a new warp's first instruction, the issued one's effect, the way on
after a barrier; and that what the warp executes next be brought near, which changes nothing but the time
that the simulation takes."""

# The words of a warp that engine and source share; a source may keep more behind them.
PC: Final = 0
LANES: Final = 1  # mask of the lanes that took part in the last instruction
PASSES: Final = 2  # its passes over the banks, or a match's over its values
PRODUCT_DEPTH_BYTES: Final = 32
"""What a product in tensor memory has of a row of its first matrix, and of a column of its second. As its
passes the source tells its columns, from bit 16 on its rows, and from bit 32 on whether its first matrix is
in shared memory."""
TOLD: Final = -1
"""Stands for the passes of an instruction whose source tells them."""
CONSECUTIVE: Final = 3  # whether its lanes ask global memory for consecutive places, in ascending order
ADDRESSES: Final = 8  # and its lanes' byte addresses in global memory, by lane
BARRIER: Final = 40  # the block's barrier it came to last: its number, and 16 times the warps that it is for
SHARED_WORDS: Final = 41
COMPLETE_AT: Final = 51
"""The cycle in which the phase of a barrier in memory will be complete that the warp has just asked for in
vain; 0 where that is not known yet."""
AHEAD: Final = 168
MAX_EARLY_INSTRUCTIONS: Final = 64
"""A source may execute so many instructions before they are issued, those that follow the one asked for in
the code: it adds 256 times their number to its answer, and the program counter is behind them. For each of
those that take a place in a queue it leaves its lanes, plus 64 times its passes, in 16 bits: by the number of
the instruction modulo `MAX_EARLY_INSTRUCTIONS`, four in each of the warp's words from `AHEAD` on."""
ANSWER_BITS: Final = 8
BULK_REQUEST: Final = 33
"""The word of the context that has the address of what the bulk copy issued last asks for: the number of
runs of bytes, the address of what the engine is to write down (0: nothing), then each run's first byte and
end."""
RUN_COUNT, TO_WRITE, FIRST_RUN = 0, 1, 2
COPY_DONE, COPY_LEFT, COPY_NEXT, COPY_ISSUED = 0, 1, 5, 6
"""What is written down: the latest cycle in which one of the copy's requests is back, of those of which that
is known, and how many are left; and the address of the next place where the same is written down, or 0. An
arrival that waits for its warp's copies by lanes waits for those issued before it: for jobs of the SM with a
lower number than `COPY_ISSUED`."""
BLOCK_BARRIERS: Final = 16
"""Barriers of a block. One that is for no number of warps is for all that have not exited."""

# Where a warp keeps what its scoreboards wait for: six for results of global memory, the same six for
# others' results and for operands that must have been read, the stall counter of the last instruction, its
# latest groups of asynchronous copies, in turn, its stores and reductions, which only a fence waits for, its
# stores to shared memory, which another fence waits for, and its latest groups of products, in turn.
SCOREBOARDS: Final = 6
COPY_GROUPS: Final = 8
LONG_SLOT, SHORT_SLOT, STALL_SLOT, GROUP_SLOT, STORE_SLOT = 0, 6, 12, 13, 13 + COPY_GROUPS
SHARED_STORE_SLOT: Final = STORE_SLOT + 1
PRODUCT_SLOT: Final = SHARED_STORE_SLOT + 1
PRODUCT_GROUPS: Final = 8
SLOTS: Final = PRODUCT_SLOT + PRODUCT_GROUPS
FENCED_SLOTS: Final = (STORE_SLOT, *range(LONG_SLOT, LONG_SLOT + SCOREBOARDS))
"""What a fence waits for: its warp's accesses to global memory."""


def awaited_slots(groups: int, left: int) -> list[int]:
    """The places of the groups of copies that must be complete for ``left`` of the ``groups`` that the warp
    has closed to remain, and none of those before."""
    return [GROUP_SLOT + (groups - back) % COPY_GROUPS for back in range(left + 1, COPY_GROUPS)]


def awaited_product_slots(groups: int, left: int) -> list[int]:
    """The same for groups of products of matrices by a group of warps."""
    return [PRODUCT_SLOT + (groups - back) % PRODUCT_GROUPS for back in range(left + 1, PRODUCT_GROUPS)]


@dataclass(frozen=True)
class SharedExecution:
    """A source that several threads execute. ``another_context`` makes what a further one calls it with,
    ``add_contexts`` adds up what they all counted. ``conflict`` says where they met so that their order
    matters, in words: then the run is void, and ``undo`` makes the arrays what they were."""

    another_context: Callable[[], int]
    add_contexts: Callable[[], None] = lambda: None
    conflict: Callable[[], str | None] = lambda: None
    undo: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class CompiledSource:
    """A source for the compiled engine.

    ``step`` is the address of ``int64 (int64 kind, int64 warp, int64 context, int64 now, int64 p, int64
    q)``, ``context`` what it is called with; ``warps`` is the address of the words of warp 0,
    ``warp_bytes`` what each warp has. ``p`` and ``q`` of a `START` are the block's index in the grid and
    the warp's place in its block, with the number of the block's room (of ``sms * blocks_per_sm``) times 64
    added. ``watch_threads`` lets several threads call ``step``.
    """

    step: int
    context: int
    warps: int
    warp_bytes: int
    keepalive: Any
    watch_threads: Callable[[], SharedExecution]


@dataclass
class CopyOnItsWay:
    """A bulk copy to shared memory, or an arrival from another block: the barrier that is to be told, bytes,
    and the cycle in which it is told, once that is known; arrivals; whether the barrier is two words, as
    sm_80 has them; and the numbers of the copies by lanes that an arrival still waits for."""

    barrier: int
    size: int
    done: int | None = None
    arrivals: int = 0
    in_halves: bool = False
    awaited: set[int] = field(default_factory=set)


@dataclass
class BulkRequest:
    """What a bulk copy asks of global memory, as runs of bytes (first, end); and where the engine writes down
    when it is done, one for each block that it goes to."""

    runs: list[tuple[int, int]] = field(default_factory=list)
    copies: list[CopyOnItsWay] = field(default_factory=list)

    def add_run(self, first: int, end: int) -> None:
        if self.runs and self.runs[-1][1] == first:
            first = self.runs.pop()[0]
        self.runs.append((first, end))


class ReferenceSource(Protocol):
    """A source for the reference engine; warps are known by (SM, slot)."""

    def start(self, sm: int, slot: int, block: int, place: int, room: int) -> None: ...

    def next(self, sm: int, slot: int, now: int) -> tuple[int, int, int, list[int]]:
        """Execute the instruction just issued: state, mask of its lanes, passes, byte addresses of its
        lanes."""
        ...

    def opened(self, sm: int, slot: int) -> None: ...

    def barrier(self, sm: int, slot: int) -> tuple[int, int]:
        """The block's barrier that the warp came to last: its number, and the warps that it is for."""
        ...

    def pc(self, sm: int, slot: int) -> int: ...

    def bulk_request(self, sm: int, slot: int) -> BulkRequest:
        """What the bulk copy that the warp has just issued asks for."""
        ...

    def complete_at(self, sm: int, slot: int) -> int:
        """`COMPLETE_AT` of the warp."""
        ...

    def fault(self, sm: int, slot: int) -> SmlabError: ...


class UnsampledFetches(Protocol):
    """Sectors of global memory that blocks which are not simulated bring to L2: ``sectors`` of them from
    ``first`` on, a bit each in ``bits``; and in ``arriving``, if DRAM still sends them then."""

    @property
    def first(self) -> int: ...

    @property
    def sectors(self) -> int: ...

    @property
    def bits(self) -> NDArray[np.int64]: ...

    @property
    def arriving(self) -> NDArray[np.int64]: ...

    @property
    def writes_back(self) -> bool: ...

    @property
    def other_atomics(self) -> NDArray[np.int64]: ...

    def atomics_of_others(self, sector: int, /) -> int: ...

    def __contains__(self, sector: object, /) -> bool: ...

    def arrives(self, sector: int, /) -> bool: ...


class WarpSource(Protocol):
    """What a lowered kernel has in place of programs' addresses and loops.

    ``executed`` and ``lanes`` count each instruction's executions by warps and their active lanes.
    ``ordered`` says that what SMs read of each other's writes matters, so that their cycles must not be run
    out of order; ``serial_reason`` why they must run on one thread, if they must. ``unsampled`` is what
    blocks of the grid that are not simulated bring to L2, if that is known."""

    @property
    def executed(self) -> NDArray[np.int64]: ...

    @property
    def lanes(self) -> NDArray[np.int64]: ...

    @property
    def ordered(self) -> bool: ...

    def serial_reason(self, sms: int, threads: int) -> str | None: ...

    @property
    def unsampled(self) -> UnsampledFetches | None: ...

    def compiled(self, sms: int, warps: int, rooms: int) -> CompiledSource: ...

    def reference(self) -> ReferenceSource: ...

    def fault_of(self, sm: int, slot: int) -> SmlabError: ...

    def stuck_at(self, sm: int, slot: int) -> SmlabError:
        """The error for a warp at a barrier that never opens."""
        ...
