"""Exchange between lanes and special registers in plain Python; see `exchange`."""

from __future__ import annotations

from functools import reduce

from smlab.sim.instruction_source import BLOCK_BARRIERS
from smlab.sim.isa import memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.meanings.memory import combined
from smlab.sim.isa.meanings.operands import WarpOperands
from smlab.sim.isa.meanings.vector_meanings import chosen_single
from smlab.sim.isa.meanings.warp_state import (
    LANES,
    Fault,
    WarpState,
    members,
)
from smlab.sim.isa.operation_codes import BANK_BITS, BANK_MASK, SHARED_WINDOW
from smlab.sim.isa.vector_operation import M32


class WarpExchange(WarpOperands):
    """Shuffles, votes, matches, reductions, special registers."""

    def _between_lanes(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        f, code = micro.fields, micro.code
        if code == d.SPECIAL:
            for lane in members(lanes):
                value = special(w, self.launch, f["special_register"], lane)
                self.put(w, f["dst"], lane, value)
                if f["width_bytes"] == 8:
                    high = w.clock >> 32 if f["special_register"] == 7 else 0
                    self.put(w, f["dst"] + memory_layout.ROW_BYTES, lane, high)
        elif code == d.SHUFFLE:
            self._shuffle(w, micro, lanes)
        elif code == d.VOTE:
            here = w.active if f.get("uniform") else lanes
            holds = self.predicate(w, micro, "predicate_a") & here
            agreed = (holds != 0, holds == here, holds in (0, here))[f["mode"]]
            for lane in members(lanes):
                self.put(w, f["dst"], lane, holds)
            self.set_predicate(w, micro, "predicate_dst", M32 if agreed else 0, lanes)
        elif code == d.MATCH:
            self._match(w, micro, lanes)
        elif code == d.REDUCE:
            words = [self.word(w, micro, "a", lane) for lane in members(w.active)]
            if f["number_type"] == d.FLOAT32:
                is_least, nan_wins = f["operation"] == d.MIN, f["nan_wins"]
                total = reduce(lambda a, b: chosen_single(a, b, is_least, 0, nan_wins), words, words[0])
            else:
                total = reduce(lambda a, b: combined(f["operation"], f["number_type"], a, b, 0) & M32, words)
            for lane in LANES:
                self.put(w, f["dst"], lane, total)
        elif code == d.LOAD_CONSTANT:
            self._load_constant(w, micro, lanes)
        elif code == d.PLOP3:
            first, second, third = (self.predicate(w, micro, f"predicate_{x}") for x in "abc")
            tables = {"predicate_dst": f["truth_table"], "predicate_dst_b": f["truth_table_b"]}
            for name, table in tables.items():
                value = 0
                for lane in LANES:
                    k = (first >> lane & 1) << 2 | (second >> lane & 1) << 1 | third >> lane & 1
                    value |= (table >> k & 1) << lane
                self.set_predicate(w, micro, name, value, lanes)
        elif code in (d.R2P, d.P2R):
            self._packed_predicates(w, micro, lanes)
        elif code == d.BARRIER_RESULT:
            gathered = w.block.result.get(w.barrier % BLOCK_BARRIERS, 0)
            kind, truth = gathered >> 20 & 3, gathered & 0xFFFF
            if kind:
                truth = M32 if (gathered >> 16 & 1 if kind == 2 else not gathered >> 17 & 1) else 0
            for lane in members(lanes):
                self.put(w, f["dst"], lane, truth)
            self.set_predicate(w, micro, "predicate_dst", M32 if truth else 0, lanes)
        elif code == d.BMOV_OUT:
            for lane in members(lanes):
                self.put(w, f["dst"], lane, w.barriers.get((f["barrier"], lane), 0))
                if f["clears"]:
                    w.barriers[f["barrier"], lane] = 0
        elif code == d.BMOV_IN:
            for lane in members(lanes):
                w.barriers[f["barrier"], lane] = self.word(w, micro, "a", lane)

    def _shuffle(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        held, inside = list(self.row(w, micro, "a")), 0
        for lane in members(lanes):
            b, c = self.word(w, micro, "b", lane) & 31, self.word(w, micro, "c", lane)
            segment, clamp = c >> 8 & 31, c & 31
            low = lane & segment
            high = low | clamp & ~segment
            j = (low | b & ~segment, lane - b, lane + b, lane ^ b)[micro.fields["mode"]]
            fine = j >= high if micro.fields["mode"] == 1 else j <= high
            inside |= int(fine) << lane
            self.put(w, micro.fields["dst"], lane, held[(j if fine else lane) & 31])
        self.set_predicate(w, micro, "predicate_dst", inside, lanes)

    def _match(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        f = micro.fields
        if f["mode"] >= d.OTHERS:
            if lanes:
                value = self.word(w, micro, "a", members(lanes)[0])
                others = sum(1 << n for n in members(lanes) if self.word(w, micro, "a", n) != value)
                if f["mode"] == d.MORE_OTHERS:
                    others |= w.predicates[f["predicate_dst"]]
                for lane in LANES:
                    self.put(w, f["dst"], lane, value)
                self.set_predicate(w, micro, "predicate_dst", others, lanes)
            return
        if f["mode"] == d.DIFFERENT:
            values = [self.word(w, micro, "a", lane) for lane in members(w.active)]
            for lane in LANES:
                self.put(w, f["dst"], lane, values[0])
            self.set_predicate(
                w, micro, "predicate_dst", M32 if len(set(values)) > 1 else 0, lanes & w.active
            )
            return
        held = [
            self.row(w, micro, "a")[lane] | (self.row(w, micro, "a", 1)[lane] << 32 if f["is_64_bit"] else 0)
            for lane in LANES
        ]
        same = {lane: sum(1 << o for o in members(lanes) if held[o] == held[lane]) for lane in members(lanes)}
        everyone = all(mask == lanes for mask in same.values())
        w.passes = len(set(same.values())) * (1 + f["is_64_bit"])
        for lane, mask in same.items():
            self.put(w, f["dst"], lane, (lanes if everyone else 0) if f["mode"] == d.SAME else mask)
        if f["mode"] == d.SAME:
            self.set_predicate(w, micro, "predicate_dst", M32 if everyone else 0, lanes)

    def _load_constant(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        f, width = micro.fields, micro.fields["width_bytes"]
        bank = self.launch.banks.get(f["bank"], b"")
        row = self.row(w, micro, "a")
        w.passes = max(1, len({((row[lane] + f["offset_bytes"]) & M32) >> 2 for lane in members(lanes)}))
        for lane in members(lanes):
            address = (row[lane] + f["offset_bytes"]) & M32
            w.addresses[lane] = f["bank"] << BANK_BITS | address & BANK_MASK
            if address & (min(width, 4) - 1):
                raise Fault(memory_layout.MISALIGNED, lane, address)
            if address + width > len(bank):
                raise Fault(memory_layout.OUT_OF_BOUNDS, lane, address)
            value = int.from_bytes(
                bank[address : address + width], "little", signed=width < 4 and bool(f["is_signed"])
            )
            for k in range(max(1, width // 4)):
                self.put(w, f["dst"] + k * memory_layout.ROW_BYTES, lane, value >> 32 * k)

    def _packed_predicates(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        for lane in members(lanes):
            which = self.word(w, micro, "b", lane)
            if micro.code == d.R2P:
                value = self.word(w, micro, "a", lane)
                for p in range(7):
                    if which >> p & 1:
                        w.predicates[p] = w.predicates[p] & ~(1 << lane) | (value >> p & 1) << lane
            else:
                first = micro.fields["mode"]
                value = sum((w.predicates[first + p] >> lane & 1) << p for p in range(7))
                kept = self.word(w, micro, "a", lane) & ~which
                self.put(w, micro.fields["dst"], lane, kept | value & which)


def special(w: WarpState, launch: MachineLaunch, number: int, lane: int) -> int:
    """A special register, by its number in `decode.SPECIALS`."""
    thread, (x, y, _) = w.number * 32 + lane, launch.block
    values = {
        0: thread % x,
        1: thread // x % y,
        2: thread // (x * y),
        3: w.block.place[0],
        4: w.block.place[1],
        5: w.block.place[2],
        6: lane,
        7: w.clock,
        8: w.clock >> 32,
        9: w.sm,
        10: (1 << lane) - 1,
        11: (2 << lane) - 1,
        12: M32 & ~((2 << lane) - 1),
        13: M32 & ~((1 << lane) - 1),
        14: 1 << lane,
        15: w.block.rank,
        17: x,
        18: w.number << 8,
        19: w.clock * 10**9 // launch.sm_hz,
        20: w.clock * 10**9 // launch.sm_hz >> 32,
        22: launch.shared_bytes,
        23: w.number,
        24: SHARED_WINDOW,
    }
    return values.get(number, 0)
