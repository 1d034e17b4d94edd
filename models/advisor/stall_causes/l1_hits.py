"""Which loads find their words in L1, as far as the code tells.

What all threads load, or what moves on by less than a sector from round to round, is there in most rounds: a
round or a warp before has brought it. So is what moves on by less than the bytes that the threads of a block
load side by side, for then another warp had it the round before, and what comes to a few places over and
over, by a masked index. The first load of a sector (its *leader*) misses with a chance that follows from the
step of its address and from the rounds in which the address does not move; those that follow it in the same
sector come with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from smlab.hw_bench.sass.opcodes import is_load
from smlab.models.advisor.code import AdvisedCode, LoopOf
from smlab.models.advisor.stall_causes.addresses import Sum, Term, address_of, places_of, step_of, thread_step
from smlab.models.advisor.stall_causes.slicing import same_for_all

SECTOR_BYTES: Final = 32
WARP_THREADS: Final = 32.0
OUTSIDE: Final = 0.5
"""The chance that what all threads load outside of any loop is not there yet, where nothing is known of the
launch."""


def leader(code: AdvisedCode, number: int) -> int:
    """The first load of a block that asks for the sector that a load asks for; itself where it is the
    first."""
    return code.once((number, "leader", None), lambda: _leader(code, number))


def _leader(code: AdvisedCode, number: int) -> int:
    address = address_of(code, number)
    if address is None:
        return number
    alike = same_for_all(code, number)
    for n, offset in _loads_of_block(code, code.block_of[number]).get(address.terms, ()):
        if n >= number:
            break
        if _share_lines(address.offset, offset, alike):
            return n
    return number


Loads = Mapping[frozenset[tuple[Term, int]], Sequence[tuple[int, int]]]
"""Loads from global memory by the terms of their addresses, in order, each with its offset."""


def _loads_of_block(code: AdvisedCode, block: int) -> Loads:
    numbers = (code.number[i.address] for i in code.flow.blocks[block].instructions)
    return code.once((block, "loads of block", None), lambda: _by_terms(code, numbers))


def _loads_of_loop(code: AdvisedCode, loop: LoopOf) -> Loads:
    return code.once((loop.header, "loads of loop", None), lambda: _by_terms(code, sorted(loop.members)))


def _by_terms(code: AdvisedCode, numbers: Iterable[int]) -> Loads:
    loads: dict[frozenset[tuple[Term, int]], list[tuple[int, int]]] = {}
    for n in numbers:
        if code.kinds[n] == "global" and is_load(code.instructions[n]):
            address = address_of(code, n)
            if address is not None:
                loads.setdefault(address.terms, []).append((n, address.offset))
    return loads


def _share_lines(mine: int, other: int, alike: bool) -> bool:
    """Whether two offsets from one address lie in a sector; of each thread's own, mostly."""
    if alike:
        return mine // SECTOR_BYTES == other // SECTOR_BYTES
    return abs(mine - other) < SECTOR_BYTES


def miss_chance(
    code: AdvisedCode,
    number: int,
    executed: Mapping[int, float],
    threads: float = WARP_THREADS,
    begun: float = OUTSIDE,
    first_round: bool = False,
) -> float | None:
    """How often a load from global memory is expected to ask for a sector that L1 does not have; None where
    nothing says that it has any. Blocks have so many ``threads``, and of all warps a share ``begun`` begins
    before any can have brought something. ``first_round``: in the first round of its innermost loop alone."""
    address = address_of(code, number)
    if address is None or not address.is_known:
        return None
    shared, chance, moved = same_for_all(code, number), 1.0, False
    distance = 0 if shared else abs(thread_step(code, address) or 0)
    row = distance * threads if distance <= SECTOR_BYTES else 0.0  # of the block, without gaps
    loop = innermost = code.innermost_loop(number)
    while loop is not None:
        step, rounds = step_of(code, address, loop), _rounds(code, loop, executed)
        places = places_of(code, address, loop) if step is None and not moved else None
        if step and _brought_before(code, number, address, step, loop):
            return 0.0
        if places is None and (step is None or abs(step) >= max(SECTOR_BYTES, row)):
            break
        if first_round and loop is innermost:
            pass  # nothing was there before
        elif places is not None:
            chance *= min(_sectors(*places) / rounds, 1.0)
        elif step == 0:
            chance /= rounds
        elif not moved:
            assert step is not None
            chance, moved = chance * _new_part(abs(step), row, threads / WARP_THREADS, rounds), True
        loop = next((outer for outer in code.loops if outer.header == loop.parent), None)
    if shared and first_round:
        return chance * begun
    if shared:
        return chance if code.innermost_loop(number) is not None else begun
    return chance if chance < 1 else None


def _sectors(places: int, distance: int) -> int:
    """Sectors in which so many places lie that are so many bytes apart."""
    return math.ceil(places * min(distance / SECTOR_BYTES, 1.0))


def _new_part(step: int, row: float, warps: float, rounds: float) -> float:
    """How often a load asks for something new that moves on by ``step`` bytes in each round of a loop. Where
    the ``warps`` of a block load a ``row`` side by side, all of it is new in the first round, later what it
    has moved on by; in steps of less than a sector, that is the last warp's."""
    if not row:
        return step / SECTOR_BYTES
    new = step / row if step >= SECTOR_BYTES else step / SECTOR_BYTES / max(warps, 1.0)
    return (1 + (rounds - 1) * new) / rounds


def _brought_before(code: AdvisedCode, number: int, address: Sum, step: int, loop: LoopOf) -> bool:
    """Whether another load asked for the same place some rounds before."""
    differences = (
        offset - address.offset
        for n, offset in _loads_of_loop(code, loop).get(address.terms, ())
        if n != number
    )
    return any(difference * step > 0 and difference % step == 0 for difference in differences)


def _rounds(code: AdvisedCode, loop: LoopOf, executed: Mapping[int, float]) -> float:
    """Rounds of a loop each time that it is come to."""
    before = code.flow.blocks[code.block_of[loop.header]].predecessors
    entries = sum(executed.get(n, 0.0) for p in before if (n := code.last_of(p)) not in loop.members)
    return max(executed.get(loop.header, 0.0) / max(entries, 1.0), 1.0)
