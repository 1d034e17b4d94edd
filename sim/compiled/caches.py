"""Caches: hash tables of lines with a list by use for each set, which may have hundreds of ways."""

from __future__ import annotations

from smlab.sim.compiled.jit import (
    bucket_at,
    cache_at,
    cache_set_at,
    helper,
    inlined,
    line_at,
)
from smlab.sim.compiled.layout import Record, State, Word

# These as in `smlab.sim.machine`.
LINE_HASH = 0x9E3779B1
SECOND_HALF_BIT = 44
SPREAD = 0x61C8864680B583EB  # an odd number with its bits well mixed, to hash line addresses


@inlined
def bucket_of(cache: Record, tag: int) -> Word:
    """Neighbours among the lines, which are asked for together, have buckets in one cache line of the
    processor."""
    group = (((tag >> 3) * SPREAD) >> 32) << 3
    return cache.first_bucket + ((group | (tag & 7)) & (cache.buckets - 1))


@inlined
def scattered(tag: int, groups: int) -> Word:
    """Lines in a row, evenly over ``groups`` of eight places (`smlab.sim.machine.CacheShape`)."""
    return ((tag >> 3) * LINE_HASH & 0xFFFFFFFF) * groups >> 32 << 3 | (tag & 7)


@inlined
def set_of(cache: Record, tag: int) -> Word:
    sets, first = cache.sets, cache.first_set
    if cache.halves > 1:
        sets >>= 1
        first += (tag >> SECOND_HALF_BIT) * sets
        tag &= (1 << SECOND_HALF_BIT) - 1
    if cache.hashed != 0 and sets >= 8:
        return first + scattered(tag, sets >> 3)
    if sets & (sets - 1) == 0:  # a division takes as long as the rest of a search
        return first + (tag & (sets - 1))
    return first + tag % sets


@inlined
def find(st: State, c: int, tag: int) -> Word:
    """The number + 1 of a line of cache ``c``, which becomes its set's most recently used one; 0 if it is
    not there."""
    cache = cache_at(st, c)
    at = bucket_at(st, bucket_of(cache, tag)).value
    while at != 0 and line_at(st, at - 1).tag != tag:
        at = line_at(st, at - 1).chain
    if at != 0 and line_at(st, at - 1).newer != 0:  # not yet its set's newest
        use(st, cache_set_at(st, set_of(cache, tag)), at)
    return at


@helper
def use(st: State, lines: Record, at: int) -> None:
    """Move a line to the newest end of its set."""
    if lines.newest == at:
        return
    line = line_at(st, at - 1)
    line_at(st, line.newer - 1).older = line.older
    if line.older != 0:
        line_at(st, line.older - 1).newer = line.newer
    else:
        lines.oldest = line.newer
    append(st, lines, at)


@helper
def append(st: State, lines: Record, at: int) -> None:
    """Put a line, which is in no list, at the newest end of its set."""
    line = line_at(st, at - 1)
    line.older, line.newer = lines.newest, 0
    if lines.newest != 0:
        line_at(st, lines.newest - 1).newer = at
    else:
        lines.oldest = at
    lines.newest = at


@helper
def unchain(st: State, bucket: int, at: int) -> None:
    """Take a line out of its bucket."""
    chain = line_at(st, at - 1).chain
    link = bucket_at(st, bucket).value
    if link == at:
        bucket_at(st, bucket).value = chain
        return
    while line_at(st, link - 1).chain != at:
        link = line_at(st, link - 1).chain
    line_at(st, link - 1).chain = chain


@helper
def make(st: State, c: int, tag: int) -> tuple[int, int]:
    """The number + 1 of a new, empty line of cache ``c``, and the dirty sectors of the line that had to go
    for it."""
    cache = cache_at(st, c)
    number = set_of(cache, tag)
    lines = cache_set_at(st, number)
    dirty = 0
    if lines.used == cache.ways:
        at = lines.oldest
        dirty = line_at(st, at - 1).dirty
        unchain(st, bucket_of(cache, line_at(st, at - 1).tag), at)
        use(st, lines, at)
    else:
        at = cache.first_line + (number - cache.first_set) * cache.ways + lines.used + 1
        lines.used += 1
        append(st, lines, at)
    line, bucket = line_at(st, at - 1), bucket_at(st, bucket_of(cache, tag))
    line.tag, line.valid, line.dirty = tag, 0, 0
    line.chain = bucket.value
    bucket.value = at
    return at, dirty


@helper
def drop_sector(st: State, c: int, tag: int, place: int) -> None:
    """A sector of a line, if that is in cache ``c``, is not there any more; its set keeps its order."""
    cache = cache_at(st, c)
    at = bucket_at(st, bucket_of(cache, tag)).value
    while at != 0 and line_at(st, at - 1).tag != tag:
        at = line_at(st, at - 1).chain
    if at != 0:
        line_at(st, at - 1).valid &= ~(1 << place)
