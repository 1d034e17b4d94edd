"""The divergent paths of a warp in plain Python; in machine code: `smlab.sim.isa.vectors.divergent_paths`."""

from __future__ import annotations

from smlab.sim.instruction_source import ARRIVES, BLOCK_BARRIERS, EXITS, GOES_ON, NOTIFIES
from smlab.sim.isa import memory_layout
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.meanings.operands import WarpOperands
from smlab.sim.isa.meanings.warp_state import (
    AT_BARRIER,
    READY,
    DivergentPath,
    Fault,
    WarpState,
    members,
)
from smlab.sim.isa.operation_codes import TURNS
from smlab.sim.isa.vector_operation import signed


def _at_block_barrier(part: DivergentPath) -> bool:
    return AT_BARRIER <= part.wait < memory_layout.AT_WARP_SYNC


class DivergentPaths(WarpOperands):
    """Branches, convergence, barriers."""

    def resume(self, w: WarpState) -> int:
        for part in w.parts:
            if part.wait == READY:
                w.parts.remove(part)
                w.pc, w.active, w.patience = part.pc, part.mask, TURNS
                return GOES_ON
        w.active = 0
        if not w.parts:
            return EXITS
        waiting, places = 0, {part.wait for part in w.parts}
        for part in w.parts:
            waiting |= part.mask if _at_block_barrier(part) else 0
        if waiting == w.live and len(places) == 1:
            w.barrier = places.pop() - AT_BARRIER
            return ARRIVES
        stuck = members(w.live & ~waiting or w.parts[0].mask)[0]
        raise Fault(memory_layout.DIVERGED_BARRIER if waiting else memory_layout.DEADLOCK, stuck)

    def branch(self, w: WarpState, taken: int, target: int) -> int:
        here = w.pc - 1
        if taken == w.active:
            w.pc = target
        elif taken:
            w.parts.append(DivergentPath(target, taken, READY))
            w.active &= ~taken
        if taken and target <= here and w.parts:
            w.patience -= 1
            if w.patience <= 0 and any(p.wait == READY for p in w.parts):
                return self.rotate(w)
        return GOES_ON

    def rotate(self, w: WarpState) -> int:
        if not any(p.wait == READY for p in w.parts):
            return GOES_ON
        w.parts.append(DivergentPath(w.pc, w.active, READY))
        return self.resume(w)

    def leave(self, w: WarpState, lanes: int) -> int:
        w.live &= ~lanes
        w.active &= ~lanes
        self.settle(w)
        return GOES_ON if w.active else self.resume(w)

    def gather(self, w: WarpState, wait: int, wanted: int, here: int) -> bool:
        mine = [p for p in w.parts if p.wait == wait and p.mask & ~wanted == 0]
        arrived = here
        for part in mine:
            arrived |= part.mask
        if wanted & w.live & ~arrived:
            return False
        w.parts = [p for p in w.parts if p not in mine]
        return True

    def settle(self, w: WarpState) -> None:
        again = True
        while again:
            again = False
            for part in w.parts:
                if 0 <= part.wait < memory_layout.BARRIERS:
                    wanted = w.barriers.get((part.wait, members(part.mask)[0]), 0) & w.live
                elif part.wait >= memory_layout.AT_WARP_SYNC:
                    wanted = part.wait - memory_layout.AT_WARP_SYNC
                else:
                    continue
                if self.gather(w, part.wait, wanted, 0):
                    w.parts.append(DivergentPath(part.pc, wanted & w.live, READY))
                    again = True
                    break

    def _converge(self, w: WarpState, barrier: int, here: int) -> int:
        if here != w.active:
            w.parts.append(DivergentPath(w.pc, w.active & ~here, READY))
            w.active = here
        wanted = w.barriers.get((barrier, members(here)[0]), 0) & w.live | here
        if self.gather(w, barrier, wanted, here):
            w.active = wanted
            return GOES_ON
        w.parts.append(DivergentPath(w.pc, here, barrier))
        return self.resume(w)

    def _synchronise(self, w: WarpState, masks: list[int], exclusive: int, lanes: int) -> int:
        """Lanes come to a WARPSYNC with their masks; see `execute.synchronise`."""
        if not exclusive and not any(masks[lane] & w.live & ~lanes for lane in members(lanes)):
            return GOES_ON
        mask = masks[members(lanes)[0]]
        mine = sum(1 << lane for lane in members(lanes) if masks[lane] == mask)
        if w.active & ~lanes:
            w.parts.append(DivergentPath(w.pc, w.active & ~lanes, memory_layout.NOT_WAITING))
        if mine != lanes:
            w.parts.append(DivergentPath(w.pc - 1, lanes & ~mine, memory_layout.NOT_WAITING))
        wanted = mask | mine
        if self.gather(w, memory_layout.AT_WARP_SYNC + wanted, wanted, mine):
            w.active = wanted & w.live
            return GOES_ON
        w.parts.append(DivergentPath(w.pc, mine, memory_layout.AT_WARP_SYNC + wanted))
        return self.resume(w)

    def _arrive(self, w: WarpState, micro: MicroOperation, lanes: int) -> int:
        first = members(lanes)[0]
        number = self.word(w, micro, "a", first) % BLOCK_BARRIERS
        if micro.fields.get("reduces"):
            p = self.predicate(w, micro, "predicate_a")
            gathered = w.block.reduced.get(number, 0) + (p & lanes).bit_count()
            gathered |= (1 << 16 if p & lanes else 0) | (1 << 17 if lanes & ~p else 0)
            w.block.reduced[number] = gathered & ~(3 << 20) | micro.fields["reduction"] << 20
        barrier = number + BLOCK_BARRIERS * min(-(-self.word(w, micro, "b", first) // 32), 32)
        if micro.fields["arrives_only"]:
            w.barrier = barrier
            return NOTIFIES
        if lanes != w.active:
            w.parts.append(DivergentPath(w.pc, w.active & ~lanes, READY))
        w.parts.append(DivergentPath(w.pc, lanes, AT_BARRIER + barrier))
        return self.resume(w)

    def open_barrier(self, w: WarpState) -> None:
        number = w.barrier % BLOCK_BARRIERS
        if number in w.block.reduced:
            w.block.result[number] = w.block.reduced.pop(number)
        opened: dict[int, DivergentPath] = {}
        parts = []
        for part in w.parts:
            if _at_block_barrier(part):
                if part.pc in opened:
                    opened[part.pc].mask |= part.mask
                    continue
                opened[part.pc] = part
                part.wait = READY
            parts.append(part)
        w.parts = parts
        self.resume(w)

    def _jump(self, w: WarpState, micro: MicroOperation, lanes: int) -> None:
        if lanes != w.active:
            w.parts.append(DivergentPath(w.pc, w.active & ~lanes, READY))
        groups: dict[int, int] = {}
        for lane in members(lanes):
            address = signed(self.row(w, micro, "a")[lane]) + micro.fields.get("offset_bytes", 0)
            target = (address >> 4) + micro.fields.get("base_instruction", 0)
            if address & 15 or not 0 <= target < len(self.code):
                raise Fault(memory_layout.BAD_TARGET, lane, address)
            groups[target] = groups.get(target, 0) | 1 << lane
        (w.pc, w.active), *others = groups.items()
        w.parts.extend(DivergentPath(pc, mask, READY) for pc, mask in others)
