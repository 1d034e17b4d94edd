"""A trace as what warps execute: the engines' third source, beside programs and machine code.

A warp goes along its recorded instructions; lanes and addresses are the recorded ones, and the passes over
the banks follow from them as for machine code. A warp arrives at a block's barrier when all its lanes that
have not exited wait there, as the record has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.sim.aligned_arrays import aligned
from smlab.sim.compiled.jit import bits_set, callback, helper, lowest_bit
from smlab.sim.instruction_source import (
    ADDRESSES,
    ARRIVES,
    CONSECUTIVE,
    EXITS,
    GOES_ON,
    LANES,
    NEXT,
    PASSES,
    PC,
    SHARED_WORDS,
    START,
    CompiledSource,
    ReferenceSource,
    SharedExecution,
)
from smlab.sim.isa import memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.meanings.memory import bank_wavefronts as counted_passes
from smlab.sim.isa.meanings.warp_state import BlockState, WarpState
from smlab.sim.isa.memory.bank_conflicts import bank_wavefronts
from smlab.sim.isa.operation_codes import LOCAL_AT, LOCAL_PAD
from smlab.sim.isa.vectors.word_access import (
    I_SPACE,
    I_WIDTH_BYTES,
    at,
    get32,
    get64,
    put,
    put64,
)
from smlab.sim.traces.reading import EVEN, NOWHERE, RecordedKernel

PLAIN, WAITS, LEAVES = 0, 1, 2
"""What an instruction does to its lanes: nothing, they wait at the block's barrier, they exit."""

# The words of a warp behind those that it shares with the engines.
_AT, _END, _LIVE, _WAITING, _NUMBER = range(SHARED_WORDS, SHARED_WORDS + 5)
_WARP_WORDS: Final = SHARED_WORDS + 8
# The words of a trace behind those of a launch, of which it has the operations and the room for counting.
(_FIRST, _INDEX, _MASK, _PLACE, _WORDS, _KINDS, _PER_BLOCK, _LOCAL_FIRST) = range(
    memory_layout.LAUNCH_WORDS, memory_layout.LAUNCH_WORDS + 8
)
_CONTEXT_WORDS: Final = memory_layout.LAUNCH_WORDS + 16


def _step(kind, warp, context, now, p, q):  # type: ignore[no-untyped-def]
    """The source of the compiled engine; see `smlab.sim.instruction_source.CompiledSource`."""
    if kind == NEXT:
        n = at(warp, _AT)
        pc = at(warp, PC)
        lanes = get32(at(context, _MASK) + 4 * n)
        put(warp, LANES, lanes)
        place = get64(at(context, _PLACE) + 8 * n)
        if place != NOWHERE:
            op = at(context, memory_layout.OPS) + pc * (8 * memory_layout.WORDS)
            _addresses(at(context, _WORDS) + 8 * place, op, warp, context, lanes)
        else:
            put(warp, PASSES, 1)  # of a matrix's load or store no addresses were recorded
        kinds = get64(at(context, _KINDS) + 8 * pc)
        put(warp, _AT, n + 1)
        if n + 1 == at(warp, _END):
            return EXITS
        put(warp, PC, get32(at(context, _INDEX) + 4 * (n + 1)))
        if kinds == PLAIN:
            return GOES_ON
        if kinds == WAITS:
            put(warp, _WAITING, at(warp, _WAITING) | lanes)
        else:
            put(warp, _LIVE, at(warp, _LIVE) & ~lanes)
        waiting = at(warp, _WAITING)
        if waiting != 0 and at(warp, _LIVE) & ~waiting == 0:
            put(warp, _WAITING, 0)
            return ARRIVES
        return GOES_ON
    if kind == START:
        number = p * at(context, _PER_BLOCK) + (q & 63)
        first = at(context, _FIRST) + 8 * number
        put(warp, _AT, get64(first))
        put(warp, _END, get64(first + 8))
        put(warp, PC, get32(at(context, _INDEX) + 4 * get64(first)))
        threads = min(32, at(context, memory_layout.THREADS) - 32 * (q & 63))
        put(warp, _LIVE, (1 << threads) - 1)
        put(warp, _WAITING, 0)
        put(warp, _NUMBER, (q >> 6) * at(context, _PER_BLOCK) + (q & 63))
    return GOES_ON


def _addresses_body(words, op, warp, context, lanes):  # type: ignore[no-untyped-def]
    """The lanes' addresses, as the caches and banks see them."""
    out, width = warp + 8 * ADDRESSES, at(op, I_WIDTH_BYTES)
    low = lowest_bit(lanes)
    even = 0
    if get64(words) == EVEN:
        base, stride = get64(words + 8), get64(words + 16)
        even = 1 if stride == width else 0
        address = base
        for lane in range(low, low + bits_set(lanes)):
            put64(out + 8 * lane, address)
            address += stride
    else:
        for lane in range(32):
            put64(out + 8 * lane, get64(words + 8 + 8 * lane))
    put(warp, CONSECUTIVE, even)
    if at(op, I_SPACE) == d.SHARED:
        put(warp, PASSES, bank_wavefronts(op, warp))
    elif at(op, I_SPACE) == d.LOCAL:
        put(warp, CONSECUTIVE, 0)
        base = LOCAL_AT + at(warp, _NUMBER) * (at(context, memory_layout.LOCAL_BYTES) * 32 + LOCAL_PAD)
        for lane in range(32):
            inside = get64(out + 8 * lane) - at(context, _LOCAL_FIRST)
            put64(out + 8 * lane, base + (inside & ~(width - 1)) * 32 + lane * max(width, 4))


_addresses = helper(_addresses_body)
_step_function: Any = None


def step_address() -> int:
    """The address of the source's function, compiled at the first call."""
    global _step_function
    if _step_function is None:
        _step_function = callback(types.int64(*[types.int64] * 6), _step)
    return int(_step_function.address)


class TraceSource:
    """A recorded kernel as a `smlab.sim.instruction_source.WarpSource`. ``micro`` are its instructions with
    what matters of their accesses, ``kinds`` what each does to its lanes; local memory is ``local`` = (first
    byte, bytes) a thread."""

    ordered = False
    elsewhere = None

    def __init__(
        self,
        recorded: RecordedKernel,
        micro: tuple[MicroOperation, ...],
        kinds: NDArray[np.int64],
        local: tuple[int, int],
    ) -> None:
        self.recorded, self.micro, self.kinds, self.local = recorded, micro, kinds, local
        size = len(recorded.code)
        self.executed = np.bincount(recorded.index, minlength=size).astype(np.int64)
        lanes = np.bitwise_count(recorded.mask)
        self.lanes = np.bincount(recorded.index, weights=lanes, minlength=size).astype(np.int64)

    def compiled(self, sms: int, warps: int, rooms: int) -> CompiledSource:
        recorded = self.recorded
        ops = aligned(len(self.micro) * memory_layout.WORDS, np.int64).reshape(-1, memory_layout.WORDS)
        ops[:] = [micro.words() for micro in self.micro]
        context = np.zeros(_CONTEXT_WORDS, dtype=np.int64)
        context[memory_layout.OPS] = ops.ctypes.data
        context[memory_layout.THREADS] = recorded.header.threads
        context[_LOCAL_FIRST], context[memory_layout.LOCAL_BYTES] = self.local
        context[_PER_BLOCK] = recorded.header.warps_per_block
        arrays: dict[int, NDArray[Any]] = {
            _FIRST: recorded.first,
            _INDEX: recorded.index,
            _MASK: recorded.mask,
            _PLACE: recorded.place,
            _WORDS: recorded.words,
            _KINDS: self.kinds,
        }
        for place, values in arrays.items():
            arrays[place] = np.ascontiguousarray(values)
            context[place] = arrays[place].ctypes.data
        state = aligned(warps * _WARP_WORDS, np.int64)
        return CompiledSource(
            step_address(),
            int(context.ctypes.data),
            int(state.ctypes.data),
            8 * _WARP_WORDS,
            (context, ops, state, list(arrays.values())),
            lambda: SharedExecution(lambda: int(context.ctypes.data)),
        )

    def serial_reason(self, sms: int, threads: int) -> str | None:
        return None

    def reference(self) -> ReferenceSource:
        return RecordedWarps(self)

    def fault_of(self, sm: int, slot: int) -> SmlabError:
        raise AssertionError("a trace has no faults")

    def stuck_at(self, sm: int, slot: int) -> SmlabError:
        return SmlabError.at(self.recorded.header.name, "has a barrier that some warp never comes to")


@dataclass
class _Place:
    """Where a warp is in its record, and which of its lanes live and wait."""

    number: int
    at: int
    end: int
    live: int
    waiting: int = 0
    state: WarpState = field(
        default_factory=lambda: WarpState(BlockState(0, (0, 0, 0), bytearray(), {}), 0, 0, 0, 0)
    )


class RecordedWarps:
    """The same for the reference engine; see `smlab.sim.instruction_source.ReferenceSource`."""

    def __init__(self, source: TraceSource) -> None:
        self.source = source
        self.recorded = source.recorded
        self.places: dict[tuple[int, int], _Place] = {}

    def start(self, sm: int, slot: int, block: int, place: int, room: int) -> None:
        header = self.recorded.header
        number = block * header.warps_per_block + place
        begin, end = (int(x) for x in self.recorded.first[number : number + 2])
        live = (1 << min(32, header.threads - 32 * place)) - 1
        self.places[sm, slot] = _Place(room * header.warps_per_block + place, begin, end, live)

    def next(self, sm: int, slot: int, now: int) -> tuple[int, int, int, list[int]]:
        w = self.places[sm, slot]
        n, w.at = w.at, w.at + 1
        mask, instruction = int(self.recorded.mask[n]), int(self.recorded.index[n])
        passes, addresses = 1, self.recorded.addresses(n)
        micro = self.source.micro[instruction]
        if addresses and micro.fields["space"] == d.SHARED:
            w.state.lanes = mask
            for lane, address in addresses.items():
                w.state.addresses[lane] = address
            passes = counted_passes(micro, w.state)
        elif addresses and micro.fields["space"] == d.LOCAL:
            addresses = self._placed(w, micro, addresses)
        kind = int(self.source.kinds[instruction])
        if kind == WAITS:
            w.waiting |= mask
        elif kind == LEAVES:
            w.live &= ~mask
        state = GOES_ON
        if w.at == w.end:
            state = EXITS
        elif kind != PLAIN and w.waiting and not w.live & ~w.waiting:
            w.waiting, state = 0, ARRIVES
        return state, mask, passes, list(addresses.values())

    def _placed(self, w: _Place, micro: MicroOperation, addresses: dict[int, int]) -> dict[int, int]:
        (first, size), width = self.source.local, micro.fields["width_bytes"]
        base = LOCAL_AT + w.number * (size * 32 + LOCAL_PAD)
        return {
            lane: base + ((address - first) & ~(width - 1)) * 32 + lane * max(width, 4)
            for lane, address in addresses.items()
        }

    def opened(self, sm: int, slot: int) -> None:
        return None

    def barrier(self, sm: int, slot: int) -> tuple[int, int]:
        return 0, 0

    def pc(self, sm: int, slot: int) -> int:
        w = self.places[sm, slot]
        return int(self.recorded.index[min(w.at, w.end - 1)])

    def fault(self, sm: int, slot: int) -> SmlabError:
        raise AssertionError("a trace has no faults")
