"""The machine code of the histogram kernels, as the workload `smlab.sim.workloads.histogram` runs it.

The paper gives source (Listings 1 and 2), not machine code. These instructions are what NVIDIA's compiler
(NVRTC 12.9) makes of the listings, with four channels and the omitted parts written in the obvious way. There
are as many of each kind, with their dependences, in nearly their order. (Assumed: that the authors' compiler,
CUDA 12.3, did the same.) ``imad`` runs on the FP32 pipe, as all of IMAD does since Volta, and ``int32`` on
the integer pipe. ``control`` stands for branches, YIELD and instructions that are predicated off, which take
an issue slot and do nothing.

A pixel's loop is, for (sm_70 original, reordered; sm_86 original, reordered): the address, 2 imad; 4 byte
loads; independent of the pixel (the next index, comparisons of channel numbers) 2 + 2, 3 + 17; 2 + 1, 2 + 17
(imad + int32); for each channel 1, 6; 1, 6 imad from its byte to the atomic's address (reordered: four
selections, an addition, a shift); 4 atomics; at the end 3 int32 + 5 control on sm_70 (where a loop ends in a
vote), 2 control on sm_86. The dummy read on sm_86 adds 1 imad, and for each atomic a comparison of its result
and a store that is predicated off.

The listings say ``channels`` and ``chans``, which may have been variables. Then the compiler keeps the bytes
in local memory, and Listing 2 divides. On sm_70 the original has 77 instructions a pixel in place of 26, the
reordered kernel 135 in place of 62. The ``variable`` code is that (on sm_86 with that architecture's loop
end). An access to local memory is a shared-memory access of four passes here, which has about an L1 hit's
latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from smlab.sim.address_patterns import Affine, RecordedBytes, RecordedWords, Strided
from smlab.sim.workloads.workload import Instruction, Loop

Body = tuple[Instruction, ...]

CHANNELS = 4
FOUR_LINES = Strided(stride=CHANNELS)
"""Four words a lane: as many passes as the L1 cache needs for the four lines that local memory spreads
them over."""


@dataclass(frozen=True)
class LoopCost:
    """What a pixel's loop has besides its address, loads and atomics; see the module's text."""

    free_imad: int
    free_int32: int
    channel_imad: int
    end_int32: int
    end_control: int


COSTS = {
    (True, False): LoopCost(2, 2, 1, 3, 5),
    (True, True): LoopCost(3, 17, 6, 3, 5),
    (False, False): LoopCost(2, 1, 1, 0, 2),
    (False, True): LoopCost(2, 17, 6, 0, 2),
}
"""By (Volta, reordered)."""


def _several(op: str, count: int, after: tuple[str, ...] = ()) -> Body:
    return tuple(Instruction(op, after=after) for _ in range(count))


def start_code(rounds: int, reordered: bool, volta: bool) -> tuple[Instruction | Loop, ...]:
    """From the launch to the pixels: indices, the block's counters set to zero in ``rounds`` rounds, the
    barrier."""
    init = (
        Instruction("imad", name="init place"),
        Instruction("int32", name="init next", after=("init next",)),
        Instruction("int32", name="init test", after=("init next",)),
        Instruction("shared-store", after=("init place",)),
        Instruction("control", name="init branch", after=("init test", "init branch")),
    )
    indices = (*_several("imad", 3), *_several("int32", 5), *_several("control", 2))
    # Listing 2 computes the places of its four channels once, before the loop.
    places = (*_several("imad", 9), *_several("int32", 11)) if reordered else ()
    last = (Instruction("imad", name="next", after=("init branch",)), *_several("int32", 1, ("next",)))
    return (*indices, Loop(rounds, init), Instruction("barrier"), *last, Instruction("control"), *places)


@dataclass(frozen=True)
class PixelCode:
    """One pixel a lane: four byte loads at ``image``, four atomics at ``counters``; names begin with
    ``prefix``.

    ``variable`` says that the number of channels is not known to the compiler, ``reads`` that the atomics'
    results are used.
    """

    prefix: str
    image: Sequence[Affine]
    counters: Sequence[RecordedWords]
    lanes: int
    operation: str
    reordered: bool
    reads: bool
    volta: bool
    variable: bool

    def body(self) -> Body:
        """The loop's instructions in their order."""
        cost = COSTS[self.volta, self.reordered]
        middle = self._by_way_of_memory() if self.variable else self._in_registers(cost)
        return (*middle, *self._atomics(), *self._end(cost))

    def _op(self, op: str, name: str = "", *after: str) -> Instruction:
        return Instruction(
            op, name=self.prefix + name if name else "", after=tuple(self.prefix + a for a in after)
        )

    def _chain(self, ops: Sequence[str], name: str, *after: str) -> Body:
        """Each needs the one before, the first what is named; the last is called ``name``."""
        found = []
        for n, op in enumerate(ops):
            own = name if n == len(ops) - 1 else f"{name}.{n}"
            found.append(self._op(op, own, *after))
            after = (own,)
        return tuple(found)

    def _address(self) -> Body:
        base = self._op("imad", "base", "branch")
        needs = (*(self.prefix + a for a in ("base", "advance")), "next")
        return base, Instruction("imad", name=self.prefix + "address", after=needs)

    def _loads(self) -> Body:
        return tuple(
            Instruction(
                "global-load",
                name=f"{self.prefix}byte{c}",
                after=(self.prefix + "address",),
                lanes=self.lanes,
                memory=pattern,
            )
            for c, pattern in enumerate(self.image)
        )

    def _index(self) -> Body:
        return self._op("imad", "advance", "advance"), self._op("int32", "test", "advance")

    def _in_registers(self, cost: LoopCost) -> Body:
        """Listing 1: a channel's place needs its own byte. Listing 2: any of the four, selected one after the
        other; the compiler interleaves the channels."""
        code = [*self._address(), *self._loads()]
        code += _several("int32", cost.free_int32 - 1)
        code += _several("imad", cost.free_imad - 1 + self.reads)
        code += self._index()
        for stage in range(cost.channel_imad):
            for c in range(CHANNELS):
                needs = f"byte{c}" if not self.reordered else f"byte{stage}"
                if stage >= CHANNELS:
                    needs = f"place{c}.{stage - 1}"
                last = stage == cost.channel_imad - 1
                code.append(self._op("imad", f"place{c}" if last else f"place{c}.{stage}", needs))
        return tuple(code)

    def _by_way_of_memory(self) -> Body:
        """With a variable number of channels the bytes are stored to local memory and loaded again (see
        the module's text)."""
        code = [*_several("imad", 8), *_several("int32", 9), *_several("control", 5), *self._address()]
        code += [*self._loads(), *_several("int32", 5), *_several("imad", 3), *self._index()]
        code.append(Instruction("shared-store", after=self._bytes(), shared=FOUR_LINES))
        first = "byte0"
        if self.reordered:
            # The reciprocal of the number of channels, then the thread's number modulo it.
            code += self._chain(("sfu", "sfu", "int32", "sfu", *("imad",) * 6), "modulo", "byte3")
            code += self._chain(("int32",) * 7, "first", "modulo")
            code += [*_several("imad", 5), *_several("control", 2)]
            chain = ("imad", "imad", "imad", "int32", "int32", "int32", "int32", "int32", "imad")
            chains = [self._chain(chain, f"which{c}", "first") for c in range(CHANNELS)]
            code += [i for stage in zip(*chains, strict=True) for i in stage]
            code += _several("int32", 6)
        else:
            code += [*_several("imad", 4), *_several("int32", 1), *_several("control", 2)]
        for c in range(CHANNELS if self.reordered else 1):
            which = (f"which{c}",) if self.reordered else (first,)
            found = self._op("shared-load", f"local{c}", *which)
            code.append(replace(found, shared=FOUR_LINES))
        code += [*_several("imad", 1), *_several("int32", 2)]
        steps = ("imad", "imad") if self.reordered else ("imad", "int32", "imad")
        places = [
            self._chain(steps, f"place{c}", f"local{c if self.reordered else 0}") for c in range(CHANNELS)
        ]
        code += [i for stage in zip(*places, strict=True) for i in stage]
        return (*code, *_several("control", 3))

    def _bytes(self) -> tuple[str, ...]:
        return tuple(f"{self.prefix}byte{c}" for c in range(CHANNELS))

    def _atomics(self) -> Body:
        code = [
            Instruction(
                self.operation,
                name=f"{self.prefix}atomic{c}",
                after=(f"{self.prefix}place{c}",),
                lanes=self.lanes,
                shared=pattern,
                returns=self.reads,
            )
            for c, pattern in enumerate(self.counters)
        ]
        for c in range(CHANNELS if self.reads else 0):
            code += [self._op("int32", f"seen{c}", f"atomic{c}"), self._op("control", "", f"seen{c}")]
        return tuple(code)

    def _end(self, cost: LoopCost) -> Body:
        test = (self.prefix + "test",)
        return (
            *_several("int32", cost.end_int32, test),
            *_several("control", cost.end_control - 1, test),
            self._op("control", "branch", "test"),
        )


def merge_code(addresses: RecordedBytes, volta: bool) -> Body:
    """A round of the merge: each thread adds one of the block's counters to the global histogram."""
    return (
        Instruction("imad", name="out base", after=("out branch",)),
        Instruction("imad", name="out place", after=("out base",)),
        Instruction("int32", name="out low", after=("out base",)),
        Instruction("shared-load", name="count", after=("out place",)),
        Instruction("int32", name="out next", after=("out next",)),
        Instruction("int32", name="out high", after=("out low",)),
        Instruction("int32", name="out test", after=("out next",)),
        Instruction("global-reduce", after=("count", "out high"), memory=addresses),
        *(_several("int32", 3, ("out test",)) if volta else ()),
        *_several("control", 3 if volta else 1, ("out test",)),
        Instruction("control", name="out branch", after=("out test",)),
    )
