"""The words of global memory that an access touches, marked with its SM, compiled."""

from __future__ import annotations

from typing import Final

from smlab.sim.compiled.jit import bits_set, helper, lowest_bit
from smlab.sim.instruction_source import ADDRESSES, CONSECUTIVE
from smlab.sim.isa import memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.memory.access_vectors import mark_words
from smlab.sim.isa.operation_codes import FIRST_ADDRESS
from smlab.sim.isa.vectors.word_access import I_SPACE, I_WIDTH_BYTES, at, get8, get64, put8

READ, WRITTEN, REDUCED = KINDS = (0, 1, 2)
"""The kinds of marks: a thread's table holds the address of a byte a word for each."""
SEVERAL: Final = 255


@helper
def mark(marks: int, first: int, last: int, sm: int) -> None:
    """An SM, by its mark, touches the words from ``first`` to ``last``; below 0 is no global memory."""
    while 0 <= first <= last:
        count = min(last - first + 1, 32)
        mark_words(marks + first, (1 << count) - 1, sm)
        first += count


@helper
def mark_access(op: int, warp: int, context: int, code: int, lanes: int) -> None:
    """Write down which words of global memory the lanes of an access, which has just been executed,
    touched."""
    kind, width = READ, at(op, I_WIDTH_BYTES)
    if code != d.LOAD and code != d.STORE and code != d.ATOMIC and code != d.COPY:
        return
    if at(op, I_SPACE) != d.GLOBAL and at(op, I_SPACE) != d.GENERIC:
        return
    if code == d.STORE:
        kind = WRITTEN
    elif code == d.ATOMIC:
        kind = REDUCED
    marks, sm, rest = at(at(context, memory_layout.MARKS), kind), at(warp, memory_layout.SM_ID) + 1, lanes
    lane = lowest_bit(rest)
    whole = rest >> lane
    if at(warp, CONSECUTIVE) != 0 and whole & (whole + 1) == 0:
        inside = get64(warp + 8 * (ADDRESSES + lane)) - FIRST_ADDRESS
        mark(marks, inside >> 2, (inside + width * bits_set(whole) - 1) >> 2, sm)
        return
    while rest != 0:
        lane = lowest_bit(rest)
        rest &= rest - 1
        inside = get64(warp + 8 * (ADDRESSES + lane)) - FIRST_ADDRESS
        if inside >= 0:
            for place in range(marks + (inside >> 2), marks + ((inside + width - 1) >> 2) + 1):
                old = get8(place)
                if old != sm:
                    put8(place, sm if old == 0 else SEVERAL)
