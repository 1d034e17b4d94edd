"""Whether several threads may execute one launch at the same time, and whether its SMs met.

SMs execute in no fixed order within a window. That changes nothing where they touch different words of global
memory, or only read a word, or only reduce it by one operation on whole numbers, whose order does not matter.
What the code says is asked first. Then each thread writes down for each word which SM has read, written and
reduced it there. Where two SMs met on a word in another way, the run is void: the arrays become what they
were, and the kernel runs once more on one thread. That does not depend on which thread ran which SM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.sim.execution.access_marks import KINDS, READ, REDUCED, SEVERAL, WRITTEN
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.memory.global_memory import ContentsBefore
from smlab.sim.isa.operation_codes import FIRST_ADDRESS

MAX_SMS: Final = 254
MAX_MARK_BYTES: Final = 1 << 28
"""What the marks of all threads may take."""
GLOBAL_SPACES: Final = (d.GLOBAL, d.GENERIC)
FLOATING: Final = (d.FLOAT32, d.FLOAT64, d.HALF_PAIR, d.BFLOAT16_PAIR)
COMMUTING: Final = (d.ADD, d.MIN, d.MAX, d.AND, d.OR, d.XOR)


def _reaches_global(micro: MicroOperation) -> bool:
    accesses = (d.LOAD, d.STORE, d.ATOMIC, d.COPY)
    return micro.code in accesses and micro.fields.get("space") in GLOBAL_SPACES


def order_matters(launch: MachineLaunch, sms: int, threads: int) -> str | None:
    """Why a launch must run on one thread; None where nothing says so before it runs."""
    if (reason := _of_code(launch)) is not None:
        return reason
    if not writes_global(launch):
        return None
    if sms > MAX_SMS:
        return f"more than {MAX_SMS} SMs cannot be told apart"
    if _words(launch) * len(KINDS) * threads > MAX_MARK_BYTES:
        return "its arrays are too large to watch who writes where"
    return None


def _of_code(launch: MachineLaunch) -> str | None:
    """Why the code alone says that its SMs must run in order; None where it does not."""
    reductions: set[tuple[int, int, int]] = set()
    if launch.ordered:
        return "the launch asks for the order of plain accesses"
    if launch.cluster_blocks > 1:
        return "the blocks of a cluster meet in shared memory"
    if "vprintf" in launch.image.function.parts:
        return "it prints"
    if "malloc" in launch.image.function.parts:
        return "it takes pieces of a heap"
    for micro in launch.code:
        if micro.code == d.BULK_COPY:
            return "nobody watches what its copy engine reads and writes"
        if not _reaches_global(micro):
            continue
        if "STRONG" in micro.instruction.modifiers and micro.code == d.LOAD:
            return "a strong load may wait for another SM"
        if micro.code != d.ATOMIC:
            continue
        operation, kind = micro.fields["operation"], micro.fields["number_type"]
        if micro.returns:
            return "an atomic's result tells what other SMs did"
        if operation not in COMMUTING:
            return "the order of its reductions matters"
        if kind in FLOATING:
            return "the order of sums of floating-point numbers matters"
        compares = operation in (d.MIN, d.MAX)
        reductions.add((operation, micro.fields["width_bytes"], kind if compares else d.U32))
    return "it reduces in several ways" if len(reductions) > 1 else None


@dataclass(frozen=True)
class _Marks:
    """What SMs did on one thread: of each kind a byte a word, the SM + 1, `SEVERAL`, or 0."""

    table: NDArray[np.int64]
    words: tuple[NDArray[np.uint8], ...]


class ThreadConflicts:
    """Watches the threads that execute a launch. Code that writes nothing needs no watching."""

    def __init__(self, launch: MachineLaunch) -> None:
        self.launch = launch
        self.watches = writes_global(launch)
        self.before = ContentsBefore(launch.allocations if self.watches else [])
        self.marks: list[_Marks] = []

    def marks_of_thread(self) -> int:
        """The address of a new thread's table of marks, or 0."""
        if not self.watches:
            return 0
        words = tuple(np.zeros(_words(self.launch) + 64, dtype=np.uint8) for _ in KINDS)
        table = np.array([w.ctypes.data for w in words], dtype=np.int64)
        self.marks.append(_Marks(table, words))
        return int(table.ctypes.data)

    def found(self) -> str | None:
        """Where two SMs met so that their order matters, in words."""
        if (word := _first_meeting(self.marks)) < 0:
            return None
        return f"SMs meet at {self.launch.place(FIRST_ADDRESS + 4 * word)}"

    def undo(self) -> None:
        """Make the arrays what they were at first."""
        self.before.go_back()


def writes_global(launch: MachineLaunch) -> bool:
    return any(_reaches_global(m) and m.code in (d.STORE, d.ATOMIC) for m in launch.code)


def _words(launch: MachineLaunch) -> int:
    return (max((a.end for a in launch.allocations), default=FIRST_ADDRESS) - FIRST_ADDRESS) // 4 + 1


PIECE: Final = 1 << 20
"""Words whose marks are compared at once."""


def _first_meeting(threads: list[_Marks]) -> int:
    """The first word at which two SMs met so that their order matters, or -1."""
    for begin in range(0, len(threads[0].words[READ]) if threads else 0, PIECE):
        changed = [
            kind
            for kind in (WRITTEN, REDUCED)
            if any(thread.words[kind][begin : begin + PIECE].any() for thread in threads)
        ]
        if not changed:
            continue
        marks = [_of_all([thread.words[kind][begin : begin + PIECE] for thread in threads]) for kind in KINDS]
        for kind in changed:
            for other in KINDS if kind == WRITTEN else (READ,):
                both = (marks[kind] != 0) & (marks[other] != 0)
                met = both & ((marks[kind] != marks[other]) | (marks[kind] == SEVERAL))
                if met.any():
                    return begin + int(np.flatnonzero(met)[0])
    return -1


def _of_all(marks: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Marks of one kind, of all threads: the SM where it is one, `SEVERAL`, or 0."""
    total = marks[0].copy()
    for more in marks[1:]:
        several = (total != more) & (total != 0) & (more != 0)
        np.maximum(total, more, out=total)
        total[several] = SEVERAL
    return total
