"""Passes over the banks of shared memory, in machine code."""

from __future__ import annotations

from typing import Any

from smlab.sim.machine_code import codes as d
from smlab.sim.machine_code.access_vectors import one_place
from smlab.sim.machine_code.record import ADDRESSES, CONSECUTIVE, LANES, SCRATCH
from smlab.sim.machine_code.words import (
    FULL,
    I_CODE,
    I_I,
    I_WIDTH,
    at,
    get64,
    help,
    lowest,
    ones,
    put,
)


@help
def bank_passes(op: int, warp: int, launch: int) -> Any:
    """Passes over the banks that the last instruction's addresses need.

    The most distinct words on one bank, or, of an atomic, the most lanes; wide accesses go by halves and
    quarters of the warp, each of which asks for all its words.
    """
    out, lanes, width = warp + 8 * ADDRESSES, at(warp, LANES), at(op, I_WIDTH)
    if lanes == 0:
        return 1
    if width <= 4 and at(warp, CONSECUTIVE) != 0:
        return 1
    merges = at(op, I_CODE) != d.ATOMIC or at(op, I_I) == d.COUNT
    if width <= 4 and one_place(warp, lanes) != 0:
        return 1 if merges else ones(lanes)
    words = max(1, width // 4)
    share, total = 32 // words, 0
    counts = at(launch, SCRATCH)
    table = counts + 8 * 32
    for part in range(words):
        for bank in range(32):
            put(counts, bank, 0)
        most = 0
        rest = lanes & ((FULL >> (32 - share)) << (part * share))
        while rest != 0:
            lane = lowest(rest)
            rest &= rest - 1
            first = get64(out + 8 * lane) >> 2
            for word in range(first, first + words):
                bank = word & 31
                count, known = at(counts, bank), False
                if merges:
                    for k in range(count):
                        if at(table, bank * 32 + k) == word:
                            known = True
                if not known:
                    put(table, bank * 32 + (count & 31), word)
                    put(counts, bank, count + 1)
                    most = max(most, count + 1)
        total += most
    return max(1, total)
