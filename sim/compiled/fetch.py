"""Where a warp's next instruction comes from: an L0 cache in each sub-core, which prefetches lines, an L1
in each SM, behind it a cache of the group of SMs, with what the launch preloads, and L2, which has all of it.

Lines are asked for in the order in which warps issue, so when each is there is known at once. So are lines of
constants, which have caches of their own.
"""

from __future__ import annotations

from smlab.sim.compiled.caches import find, make
from smlab.sim.compiled.jit import (
    fetched_at,
    helper,
    inlined,
    line_at,
    lowest_bit,
    op_at,
    read_at,
    second_at,
    sm_at,
    warp_at,
)
from smlab.sim.compiled.layout import CONSTANT, INDEXED, State, Word
from smlab.sim.instruction_source import ADDRESSES, LANES


@helper
def go_to(st: State, i: int, w: int, pc: int, now: int) -> None:
    """Warp ``w`` goes on to the instruction at ``pc``, which is in another line of code than its last one, or
    has an operand in constant memory: when it will have all that."""
    warp, op = warp_at(st, w), op_at(st, pc)
    line = op.line if op.line >= 0 else -1 - op.line
    if line != warp.line:
        _fetch(st, i, w, line, now)
    if op.line < 0:
        there = _constant(st, i, st.first_operands + warp.scheduler, op.constant - 1, now)
        warp.fetched = max(warp.fetched, there)


@helper
def _fetch(st: State, i: int, w: int, line: int, now: int) -> None:
    """A line of code for warp ``w``: when that will be there. A line's ``valid`` is the cycle in which it is
    there, ``dirty`` says that no warp has used it."""
    warp = warp_at(st, w)
    warp.line = line
    if st.l0_lines != 0:
        _fetch_kept(st, i, w, line, now)
        return
    cache = st.first_l0 + _l0_of(st, i, warp.scheduler)
    at = find(st, cache, line)
    if at != 0:
        found = line_at(st, at - 1)
        warp.fetched = found.valid
        if found.dirty != 0:
            found.dirty = 0
            _prefetch(st, i, cache, line + st.prefetch_lines, now)
        return
    warp.fetched = _ask(st, i, line, now)
    at, _ = make(st, cache, line)
    line_at(st, at - 1).valid = warp.fetched
    for other in range(line + 1, line + st.prefetch_lines + 1):
        _prefetch(st, i, cache, other, now)


@inlined
def _l0_of(st: State, i: int, scheduler: int) -> Word:
    """Which of all L0s has the code of a scheduler of SM ``i``."""
    return i * st.l0s + (scheduler - i * st.schedulers) // st.l0_sub_cores


@inlined
def _fetch_kept(st: State, i: int, w: int, line: int, now: int) -> None:
    """The same where L0 holds all of the code, so that no line ever leaves it and none is searched for. Each
    line has a word: the cycle, plus 1, in which it is there, doubled, and 1 if no warp has used it."""
    warp = warp_at(st, w)
    first = _l0_of(st, i, warp.scheduler) * st.l0_lines
    found = fetched_at(st, first + line)
    if found.value & 1 != 0:
        found.value -= 1
        _fill_prefetch(st, i, first, line + st.prefetch_lines, now)
    elif found.value == 0:
        found.value = (_ask(st, i, line, now) + 1) << 1
        for other in range(line + 1, line + st.prefetch_lines + 1):
            _fill_prefetch(st, i, first, other, now)
    warp.fetched = (found.value >> 1) - 1


@helper
def _fill_prefetch(st: State, i: int, first: int, line: int, now: int) -> None:
    if line < st.fetch_lines and fetched_at(st, first + line).value == 0:
        fetched_at(st, first + line).value = (_ask(st, i, line, now) + 1) << 1 | 1


@helper
def _prefetch(st: State, i: int, cache: int, line: int, now: int) -> None:
    """A sub-core asks for a line before a warp needs it, if there is one and its cache does not have it."""
    if line >= st.fetch_lines or find(st, cache, line) != 0:
        return
    there = _ask(st, i, line, now)
    at, _ = make(st, cache, line)
    line_at(st, at - 1).valid, line_at(st, at - 1).dirty = there, 1


@helper
def _ask(st: State, i: int, line: int, now: int) -> Word:
    """A sub-core of SM ``i`` asks L1 for a line; when it has that."""
    sm = sm_at(st, i)
    asked = max(now, sm.fetch_free)
    sm.fetch_free = asked + st.fetch_interval
    there = asked + st.l0_miss
    at = find(st, st.first_l1i + i, line)
    if at != 0:
        return max(there, line_at(st, at - 1).valid)
    there += st.l1_miss
    if line >= st.preloaded_lines:
        there += st.fetch_l2
    at, _ = make(st, st.first_l1i + i, line)
    line_at(st, at - 1).valid = there
    return there


@helper
def warm(st: State) -> None:
    """The SMs' L1s hold the code that the launch brings there, or all of it after an earlier launch, and the
    sub-cores' L0s what that has left: as if looked up in ascending order."""
    lines = st.fetch_lines if st.fetch_warm > 0 else min(st.fetch_lines, st.preloaded_lines)
    for i in range(st.sms):
        for line in range(lines):
            make(st, st.first_l1i + i, line)
    if st.fetch_warm > 1:
        for core in range(st.sms * st.l0s):
            for line in range(st.fetch_lines):
                if st.l0_lines != 0:
                    fetched_at(st, core * st.l0_lines + line).value = 1 << 1
                else:
                    make(st, st.first_l0 + core, line)


@helper
def constants_there(st: State, i: int, w: int, now: int) -> Word:
    """Warp ``w`` has issued a load of constants: when all their lines are there, which are looked up in
    ascending order."""
    warp = warp_at(st, w)
    op = op_at(st, warp.pc)
    loads = op.store == CONSTANT
    cache = st.first_loads + i if loads else st.first_operands + warp.scheduler
    when = now + st.front if loads else now
    if op.constant != INDEXED:
        return _constant(st, i, cache, op.constant - 1, when)
    words = st.source_warps + w * st.source_bytes
    lanes, before, there = read_at(words, LANES), -1, 0
    while True:
        line, rest = st.second_room * st.second_lines, lanes
        while rest != 0:
            own = read_at(words, ADDRESSES + lowest_bit(rest)) // st.constant_line_bytes
            rest &= rest - 1
            if own > before:
                line = min(line, own)
        if line == st.second_room * st.second_lines:
            return there
        there = max(there, _constant(st, i, cache, line, when))
        before = line


@helper
def _constant(st: State, i: int, cache: int, line: int, now: int) -> Word:
    """When a line is there that one of the first caches of constants is asked for."""
    at = find(st, cache, line)
    if at != 0:
        return line_at(st, at - 1).valid
    behind = second_at(st, i * st.second_room + line // st.second_lines)
    if behind.value == 0:
        behind.value = now + st.second_miss + 1
    miss = st.load_miss if cache >= st.first_loads else st.operand_miss
    there = max(now, behind.value - 1) + miss
    at, _ = make(st, cache, line)
    line_at(st, at - 1).valid = there
    return there


@helper
def warm_constants(st: State) -> None:
    """The caches of constants hold what the launch brings."""
    for line in range(st.constant_lines):
        for i in range(st.sms):
            second_at(st, i * st.second_room + line // st.second_lines).value = 1
        for cache in range(st.first_operands, st.first_loads + st.sms):
            if find(st, cache, line) == 0:
                make(st, cache, line)
