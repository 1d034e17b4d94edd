"""The instruction classes that a warp program can use, and the stall reasons that they cause.

This is the one file to read before adding an instruction class. An arithmetic class that runs on an existing
pipe is one line in `CLASSES`; one with a pipe of its own also needs the constants ``pipe.<name>.*`` in the
GPU descriptions; one that takes the memory path to somewhere of its own needs a latency in `machine`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Reason(IntEnum):
    """What a resident warp does with a cycle; named as Nsight Compute names its warp states.

    The order is the order of the columns of every stall table.
    """

    SELECTED = 0
    NOT_SELECTED = 1
    WAIT = 2
    SHORT_SCOREBOARD = 3
    LONG_SCOREBOARD = 4
    MIO_THROTTLE = 5
    LG_THROTTLE = 6
    MATH_PIPE_THROTTLE = 7
    BARRIER = 8
    DRAIN = 9
    DISPATCH_STALL = 10
    NO_INSTRUCTION = 11

    @property
    def label(self) -> str:
        return self.name.lower()


class Unit(IntEnum):
    """Where an instruction goes when it has been issued."""

    PIPE = 0  # an arithmetic pipe: fixed latency, the pipe accepts one every `interval` cycles
    THINK = 1  # no unit: the result is there after a given time (everything that a study does not model)
    SHARED = 2  # the memory path to shared memory
    ATOMIC = 3  # the memory path to the shared-memory atomic unit
    GLOBAL = 4  # the memory path to L1, L2 and DRAM
    BARRIER = 5  # the block's barrier
    EXCHANGE = 6  # the memory path to what has no queue of its own: shuffles, matches, constant loads


@dataclass(frozen=True)
class InstructionClass:
    """One class of warp-instructions.

    ``pipe`` is the pipe that it takes (unit PIPE only) and ``timing`` names the constants ``pipe.<timing>.*``
    of the GPU description that say for how long: the pipe's own, but for ``imad``, which takes the ``fp32``
    pipe at a rate of its own. ``operation`` tells the operations of one unit apart: ``add``, ``cas``,
    ``popc_inc`` for the atomic unit; ``load``, ``store`` for memory, and for global memory ``reduce`` (an
    atomic whose result nobody reads, RED), ``atomic`` (one whose result comes back, ATOMG) and ``copy``
    (to shared memory, LDGSTS). ``result_reason`` is what a warp waits with while it needs this instruction's
    result; ``full_reason`` is what it waits with while the unit cannot take the instruction. ``arithmetic``
    is the floating-point operation that a profiler counts it as, by the name in Nsight Compute's counters
    (``ffma``, ``dadd``, ...), ``numbers`` how many of them a lane makes, and ``intervals`` how often the
    pipe's interval it takes: two for pairs of singles, as the compiler of sm_100 issues them.
    """

    name: str
    unit: Unit
    result_reason: Reason
    full_reason: Reason
    pipe: str = ""
    operation: str = ""
    arithmetic: str = ""
    timing: str = ""
    numbers: int = 1
    intervals: int = 1

    @property
    def code(self) -> int:
        """The class's number in traces: its place in `CLASSES`."""
        return _CODES[self.name]


def _pipe(name: str, result_reason: Reason = Reason.WAIT) -> InstructionClass:
    return InstructionClass(name, Unit.PIPE, result_reason, Reason.MATH_PIPE_THROTTLE, pipe=name, timing=name)


def _floating(name: str, arithmetic: str, numbers: int = 1, intervals: int = 1) -> InstructionClass:
    """``fp32`` is the fused multiply-add; ``fp32-add`` and ``fp32-mul`` take the same pipe for half its
    work."""
    pipe = name.split("-")[0]
    reasons = Reason.WAIT, Reason.MATH_PIPE_THROTTLE
    return InstructionClass(
        name,
        Unit.PIPE,
        *reasons,
        pipe=pipe,
        arithmetic=arithmetic,
        timing=pipe,
        numbers=numbers,
        intervals=intervals,
    )


def _memory(name: str, unit: Unit, operation: str) -> InstructionClass:
    if unit is Unit.GLOBAL:
        return InstructionClass(name, unit, Reason.LONG_SCOREBOARD, Reason.LG_THROTTLE, operation=operation)
    return InstructionClass(name, unit, Reason.SHORT_SCOREBOARD, Reason.MIO_THROTTLE, operation=operation)


CLASSES: dict[str, InstructionClass] = {
    c.name: c
    for c in (
        _pipe("int32"),
        _floating("fp32", "ffma"),
        _floating("fp64", "dfma"),
        _floating("fp16", "hfma", numbers=2),
        _pipe("sfu", Reason.SHORT_SCOREBOARD),
        _pipe("control"),
        InstructionClass("think", Unit.THINK, Reason.WAIT, Reason.WAIT),
        _memory("shared-load", Unit.SHARED, "load"),
        _memory("shared-store", Unit.SHARED, "store"),
        _memory("atomic-add", Unit.ATOMIC, "add"),
        _memory("atomic-cas", Unit.ATOMIC, "cas"),
        _memory("atomic-popc-inc", Unit.ATOMIC, "popc_inc"),
        _memory("global-load", Unit.GLOBAL, "load"),
        _memory("global-store", Unit.GLOBAL, "store"),
        InstructionClass("barrier", Unit.BARRIER, Reason.BARRIER, Reason.BARRIER),
        _floating("fp32-add", "fadd"),
        _floating("fp32-mul", "fmul"),
        _floating("fp64-add", "dadd"),
        _floating("fp64-mul", "dmul"),
        _floating("fp16-add", "hadd", numbers=2),
        _floating("fp16-mul", "hmul", numbers=2),
        _memory("global-reduce", Unit.GLOBAL, "reduce"),
        InstructionClass(
            "imad", Unit.PIPE, Reason.WAIT, Reason.MATH_PIPE_THROTTLE, pipe="fp32", timing="imad"
        ),
        _pipe("conversion", Reason.SHORT_SCOREBOARD),
        _pipe("uniform"),
        _pipe("tensor"),
        _pipe("vote"),
        _memory("match", Unit.EXCHANGE, "match"),
        _pipe("redux", Reason.SHORT_SCOREBOARD),
        _pipe("special-register", Reason.SHORT_SCOREBOARD),
        _memory("shuffle", Unit.EXCHANGE, "shuffle"),
        _memory("constant-load", Unit.EXCHANGE, "constant"),
        _memory("global-atomic", Unit.GLOBAL, "atomic"),
        _memory("async-copy", Unit.GLOBAL, "copy"),
        InstructionClass(
            "fp64-conversion",
            Unit.PIPE,
            Reason.SHORT_SCOREBOARD,
            Reason.MATH_PIPE_THROTTLE,
            pipe="fp64",
            timing="fp64-conversion",
        ),
        _pipe("packed-conversion"),
        _floating("fp32-pair", "ffma", numbers=2, intervals=2),
        _floating("fp32-pair-add", "fadd", numbers=2, intervals=2),
        _floating("fp32-pair-mul", "fmul", numbers=2, intervals=2),
        _pipe("tensor-memory", Reason.SHORT_SCOREBOARD),
    )
}

_CODES = {name: code for code, name in enumerate(CLASSES)}
CLASS_NAMES: tuple[str, ...] = tuple(CLASSES)
PIPES: tuple[str, ...] = tuple(dict.fromkeys(c.pipe for c in CLASSES.values() if c.pipe))
ATOMIC_OPERATIONS: tuple[str, ...] = ("add", "cas", "popc_inc")
QUEUED_UNITS: tuple[Unit, ...] = (Unit.SHARED, Unit.ATOMIC, Unit.GLOBAL, Unit.EXCHANGE)
"""The ends of the memory path: what an instruction of theirs waits for first is its sub-core's queue."""
LONG_NUMBERS: frozenset[str] = frozenset(("F64", "S64", "U64"))
"""Modifiers of a conversion from or to 64 bits, which is an ``fp64-conversion``."""
TIMINGS: dict[str, str] = {c.timing: c.pipe for c in CLASSES.values() if c.timing}
"""Names of constants ``pipe.<name>.*``, with the pipe that instructions of that timing take."""
WIDTHS: tuple[int, ...] = (32, 64, 128)
"""Bits that a lane of a memory access can move."""
