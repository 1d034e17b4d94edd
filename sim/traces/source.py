"""A trace as what warps execute: the engines' third source, beside programs and machine code.

A warp goes along its recorded instructions; lanes and addresses are the recorded ones, and the passes over
the banks follow from them as for machine code. A warp arrives at a block's barrier when all its lanes that
have not exited wait there, as the record has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.sim.aligned_arrays import aligned
from smlab.sim.instruction_source import (
    ARRIVES,
    EXITS,
    GOES_ON,
    BulkRequest,
    CompiledSource,
    ReferenceSource,
    SharedExecution,
)
from smlab.sim.isa import memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.meanings.memory import bank_wavefronts as counted_passes
from smlab.sim.isa.meanings.warp_state import BlockState, WarpState
from smlab.sim.isa.operation_codes import LOCAL_AT, LOCAL_PAD
from smlab.sim.object_code.loading import ready
from smlab.sim.traces.compiled_step import (
    CONTEXT_WORDS,
    FIRST_AT,
    INDEX_AT,
    KINDS_AT,
    LEAVES,
    LOCAL_FIRST,
    MASK_AT,
    PER_BLOCK,
    PLACES_AT,
    PLAIN,
    WAITS,
    WARP_WORDS,
    WORDS_AT,
    step,
)
from smlab.sim.traces.reading import RecordedKernel


class TraceSource:
    """A recorded kernel as a `smlab.sim.instruction_source.WarpSource`. ``micro`` are its instructions with
    what matters of their accesses, ``kinds`` what each does to its lanes; local memory is ``local`` = (first
    byte, bytes) a thread."""

    ordered = False
    unsampled = None

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
        ready("engine", "trace")
        recorded = self.recorded
        ops = aligned(len(self.micro) * memory_layout.WORDS, np.int64).reshape(-1, memory_layout.WORDS)
        ops[:] = [micro.words() for micro in self.micro]
        context = np.zeros(CONTEXT_WORDS, dtype=np.int64)
        context[memory_layout.OPS] = ops.ctypes.data
        context[memory_layout.THREADS] = recorded.header.threads
        context[LOCAL_FIRST], context[memory_layout.LOCAL_BYTES] = self.local
        context[PER_BLOCK] = recorded.header.warps_per_block
        arrays: dict[int, NDArray[Any]] = {
            FIRST_AT: recorded.first,
            INDEX_AT: recorded.index,
            MASK_AT: recorded.mask,
            PLACES_AT: recorded.place,
            WORDS_AT: recorded.words,
            KINDS_AT: self.kinds,
        }
        for place, values in arrays.items():
            arrays[place] = np.ascontiguousarray(values)
            context[place] = arrays[place].ctypes.data
        state = aligned(warps * WARP_WORDS, np.int64)
        return CompiledSource(
            step.address,
            int(context.ctypes.data),
            int(state.ctypes.data),
            8 * WARP_WORDS,
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

    def bulk_request(self, sm: int, slot: int) -> BulkRequest:
        return BulkRequest()  # a trace does not say what one asked for

    def complete_at(self, sm: int, slot: int) -> int:
        return 0  # a trace has each time that the warp asked

    def pc(self, sm: int, slot: int) -> int:
        w = self.places[sm, slot]
        return int(self.recorded.index[min(w.at, w.end - 1)])

    def fault(self, sm: int, slot: int) -> SmlabError:
        raise AssertionError("a trace has no faults")
