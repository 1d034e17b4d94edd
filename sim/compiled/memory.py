"""Global memory: L1 of each SM, then L2 and DRAM, which all SMs share.

L1 and L2 are hash tables of lines with a list by use for each set, since a set may have hundreds of ways.

What blocks that are not simulated bring to L2: a bit a sector.
"""

from __future__ import annotations

from smlab.sim.compiled.caches import (
    SECOND_HALF_BIT,
    SPREAD,
    bucket_of,
    drop_sector,
    find,
    make,
    scattered,
    set_of,
)
from smlab.sim.compiled.jit import (
    access_at,
    address_of,
    answer_at,
    arrival_at,
    asked_bucket_at,
    bits_set,
    bucket_at,
    cache_at,
    cache_set_at,
    common_at,
    executions_at,
    helper,
    inlined,
    line_at,
    lowest_bit,
    merged_at,
    op_at,
    prefetch,
    read_at,
    ready_at,
    request_at,
    result_at,
    returning_at,
    scheduler_at,
    sector_at,
    slice_at,
    sm_at,
    warp_at,
    write_at,
)
from smlab.sim.compiled.layout import (
    ASKED_BUCKETS,
    BULK,
    LOAD,
    MAX_LANES,
    NEVER,
    REDUCE,
    STORE,
    Record,
    State,
    Word,
)
from smlab.sim.compiled.warp_progress import resolve
from smlab.sim.instruction_source import (
    ADDRESSES,
    BULK_REQUEST,
    CONSECUTIVE,
    COPY_DONE,
    COPY_GROUPS,
    COPY_ISSUED,
    COPY_LEFT,
    COPY_NEXT,
    FIRST_RUN,
    GROUP_SLOT,
    LANES,
    OF_OTHERS,
    RUN_COUNT,
    TO_WRITE,
)

TICK_BITS = 20
SMS_APART = 4096
DRAM_WINDOW_CYCLES, DRAM_LEAST_IDLE = 4096, 12
# These as in `smlab.sim.machine`, which loads what is not compiled.
SLICE_SPREAD, WAIT_SPREAD = 0x9E3779B1, 0x85EBCA77
MERGED_LINES = 4096
SHARED_SECTORS = 1 << 27
"""Generic addresses in shared memory are short: sectors of those in global memory begin far behind."""


@inlined
def bring_places_near(st: State, i: int, index: int) -> None:
    """Ask the processor for the places where L1 of SM ``i`` will be searched for an access's first sector."""
    sector = sector_at(st, index * MAX_LANES).value
    prefetch(address_of(bucket_at(st, bucket_of(cache_at(st, i), line_of(st, sector)))))
    prefetch(address_of(asked_bucket_at(st, bucket_of_sector(i, sector))))


@helper
def ceil_cycles(ticks: int) -> int:
    return -(-ticks >> TICK_BITS)


@helper
def per(address: int, size: int, shift: int) -> int:
    """``address // size``, by a shift where the size is a power of two."""
    return address >> shift if shift >= 0 else address // size


@helper
def line_of(st: State, sector: int) -> int:
    """The line that a sector is in."""
    return per(sector, st.line_sectors, st.line_sectors_shift)


# The way of an access


@helper
def request(st: State, i: int, w: int) -> Word:
    """Take an access of warp ``w``: find the distinct sectors, in ascending order, and lines that its
    lanes touch."""
    warp = warp_at(st, w)
    op = op_at(st, warp.pc)
    sm = sm_at(st, i)
    index = sm.free_access - 1
    access = access_at(st, index)
    sm.free_access = access.next
    sm.free_accesses -= 1
    access.next, access.warp, access.op, access.sm, access.store = 0, w, warp.pc, i, op.store
    access.lanes = warp.lanes
    answer_at(st, index).due = 0
    access.latest = access.pending = access.followers = 0
    access.target = op.target if op.watched != 0 else -1
    if op.joins != 0:
        access.target = GROUP_SLOT + (warp.groups & (COPY_GROUPS - 1))
    first = index * MAX_LANES
    by_banks = st.tag_banks != 0 and op.lane_bytes != 0
    words = op.lane_bytes >> 2 if by_banks else 0
    if st.source != 0:
        if read_at(st.source_warps + w * st.source_bytes, CONSECUTIVE) != 0 and warp.lanes != 0:
            whole = read_at(st.source_warps + w * st.source_bytes, LANES)
            whole >>= lowest_bit(whole)
            if words <= 1 or whole & (whole + 1) == 0:
                access.lines, access.sectors, access.passes = _consecutive(st, w, first, words)
                return index
        if _one_place(st, w, first) != 0:
            access.lines = access.sectors = access.passes = 1
            return index
        _source_addresses(st, w, first)
    else:
        _addresses(st, w, first)
    passes = _most_on_a_bank(st, first, warp.lanes, words) if by_banks else 0
    lines = count = looks = looked = 0
    last_line = last_sector = last_word = same = 0
    for lane in range(warp.lanes):
        address = sector_at(st, first + lane).value
        word = address >> 2
        same = same + 1 if lane != 0 and word == last_word else 1
        last_word = word
        line = per(address, st.line_bytes, st.line_shift)
        sector = per(address, st.sector_bytes, st.sector_shift)
        if lane == 0 or line != last_line:
            lines += 1
            if by_banks:
                bit = 1 << _tag_bank(st, line)
                if looks == 0 or looked & bit != 0:
                    looks, looked = looks + 1, 0
                looked |= bit
        if lane == 0 or sector != last_sector:
            sector_at(st, first + count).value = sector
            sector_at(st, first + count).queue = 0
            count += 1
        sector_at(st, first + count - 1).queue = max(sector_at(st, first + count - 1).queue, same)
        last_line, last_sector = line, sector
    access.lines, access.sectors = lines, count
    access.passes = max(passes, looks) if by_banks else lines
    return index


@inlined
def _tag_bank(st: State, line: int) -> Word:
    """The part of L1's tags that a line is looked up in: its pairs of bits, one on the other."""
    folded = line ^ (line >> 32)
    folded ^= folded >> 16
    folded ^= folded >> 8
    folded ^= folded >> 4
    folded ^= folded >> 2
    return folded & (st.tag_banks - 1)


@helper
def _most_on_a_bank(st: State, first: int, lanes: int, words: int) -> Word:
    """The most distinct words on one of 32 banks, where each lane asks for so many from its address on; the
    addresses ascend. How many there are is counted for all banks at once, in binary digits that lie in six
    words."""
    run, last = (1 << words) - 1, -1
    one = two = four = eight = sixteen = more = 0
    for lane in range(lanes):
        word = sector_at(st, first + lane).value >> 2
        if word == last:
            continue
        last = word
        by = word & 31
        carry = ((run << by) | (run >> (32 - by))) & 0xFFFFFFFF
        one, carry = one ^ carry, one & carry
        two, carry = two ^ carry, two & carry
        four, carry = four ^ carry, four & carry
        eight, carry = eight ^ carry, eight & carry
        sixteen, carry = sixteen ^ carry, sixteen & carry
        more |= carry
    most, banks = 0, 0xFFFFFFFF
    for digit in (more, sixteen, eight, four, two, one):
        most <<= 1
        if banks & digit != 0:
            banks &= digit
            most += 1
    return most


@helper
def _consecutive(st: State, w: int, first: int, lane_words: int) -> tuple[int, int, int]:
    """The sectors of lanes that ask for consecutive places, some of which may take no part; lines, sectors
    and passes."""
    words = st.source_warps + w * st.source_bytes
    mask, lines, count, last_line, last_sector = read_at(words, LANES), 0, 0, -1, -1
    whole = mask >> lowest_bit(mask)
    if whole & (whole + 1) == 0:  # without a gap: from the first lane's to the last one's
        low = per(read_at(words, ADDRESSES + lowest_bit(mask)), st.sector_bytes, st.sector_shift)
        high = read_at(words, ADDRESSES + lowest_bit(mask) + bits_set(whole) - 1)
        asked = (high >> 2) + lane_words - (read_at(words, ADDRESSES + lowest_bit(mask)) >> 2)
        high = per(high, st.sector_bytes, st.sector_shift)
        for sector in range(low, high + 1):
            sector_at(st, first + sector - low).value = sector
            sector_at(st, first + sector - low).queue = 1
        lines = line_of(st, high) - line_of(st, low) + 1
        if lane_words == 0:
            return lines, high - low + 1, lines
        passes, looked = (asked + 31) >> 5, 0
        if lines > 1:
            looks = 0
            for line in range(line_of(st, low), line_of(st, high) + 1):
                bit = 1 << _tag_bank(st, line)
                if looks == 0 or looked & bit != 0:
                    looks, looked = looks + 1, 0
                looked |= bit
            passes = max(passes, looks)
        return lines, high - low + 1, passes
    looks = looked = 0
    while mask != 0:
        address = read_at(words, ADDRESSES + lowest_bit(mask))
        mask &= mask - 1
        line = per(address, st.line_bytes, st.line_shift)
        sector = per(address, st.sector_bytes, st.sector_shift)
        if line != last_line:
            lines += 1
            if lane_words != 0:
                bit = 1 << _tag_bank(st, line)
                if looks == 0 or looked & bit != 0:
                    looks, looked = looks + 1, 0
                looked |= bit
        if sector != last_sector:
            sector_at(st, first + count).value = sector
            sector_at(st, first + count).queue = 1
            count += 1
        last_line, last_sector = line, sector
    return lines, count, looks if lane_words != 0 else lines


@helper
def _one_place(st: State, w: int, first: int) -> Word:
    """1 where all lanes ask for one place, whose sector is then noted, else 0."""
    words = st.source_warps + w * st.source_bytes
    mask = read_at(words, LANES)
    if mask == 0:
        return 0
    address, others = read_at(words, ADDRESSES + lowest_bit(mask)), 0
    for lane in range(MAX_LANES):
        others |= (read_at(words, ADDRESSES + lane) ^ address) & -((mask >> lane) & 1)
    if others != 0:
        return 0
    sector_at(st, first).value = per(address, st.sector_bytes, st.sector_shift)
    sector_at(st, first).queue = bits_set(mask)
    return 1


@helper
def _source_addresses(st: State, w: int, first: int) -> None:
    """The byte addresses that a source gave, in ascending order."""
    words = st.source_warps + w * st.source_bytes
    mask, end = read_at(words, LANES), first
    while mask != 0:
        address = read_at(words, ADDRESSES + lowest_bit(mask))
        mask &= mask - 1
        at = end
        while at > first and sector_at(st, at - 1).value > address:
            sector_at(st, at).value = sector_at(st, at - 1).value
            at -= 1
        sector_at(st, at).value = address
        end += 1


@helper
def _addresses(st: State, w: int, first: int) -> None:
    """The byte addresses of the lanes, in ascending order."""
    warp = warp_at(st, w)
    op = op_at(st, warp.pc)
    execution = executions_at(st, w * st.slots + op.slot).value
    if op.addresses_at == 0:
        address = op.base + warp.row * op.warp_stride + execution * op.iteration_stride
        stride = op.lane_stride
        if stride < 0:
            address += (op.lanes - 1) * stride
            stride = -stride
        for lane in range(op.lanes):
            sector_at(st, first + lane).value = address
            address += stride
        return
    table = (warp.row * op.times + execution) * op.lanes
    for lane in range(op.lanes):
        address = read_at(op.addresses_at, table + lane)
        at = first + lane
        while at > first and sector_at(st, at - 1).value > address:
            sector_at(st, at).value = sector_at(st, at - 1).value
            at -= 1
        sector_at(st, at).value = address


@helper
def release(st: State, index: int) -> None:
    access = access_at(st, index)
    sm = sm_at(st, access.sm)
    access.next = sm.free_access
    sm.free_access = index + 1
    sm.free_accesses += 1


@helper
def leave_port(st: State, i: int, index: int) -> None:
    """An access is on its way to L2 from when the port of SM ``i`` has taken it."""
    sm, access = sm_at(st, i), access_at(st, index)
    access.when = ceil_cycles(sm.port_free)
    await_l2(st, i, index)
    if sm.flying == 0:
        sm.horizon = min(sm.horizon, access.when + st.window)
    sm.flying += 1


@helper
def serve_l1(st: State, i: int, index: int, now: int, hit: int) -> None:
    """Look the sectors of an access of SM ``i`` up; if all are there, it completes at ``hit``. Send the
    missed ones on."""
    sm, cache = sm_at(st, i), cache_at(st, i)
    fill_l1(st, i, now)
    access = access_at(st, index)
    access.next = 0
    first_sector = sector_at(st, index * MAX_LANES).value if access.sectors != 0 else SHARED_SECTORS
    if st.cluster_blocks > 1 and first_sector < SHARED_SECTORS:
        reach_shared(st, i, index, hit)
        return
    if access.store == LOAD and op_at(st, access.op).past_l1 != 0:
        cache.misses += access.sectors
        if access.sectors == 0:
            load_completes(st, index, hit)
            release(st, index)
            return
    elif access.store == LOAD:
        first, missed, last, at = index * MAX_LANES, 0, -1, 0
        for n in range(first, first + access.sectors):
            sector = sector_at(st, n).value
            tag = line_of(st, sector)
            if tag != last:
                last, at = tag, find(st, i, tag)
            if at != 0 and (line_at(st, at - 1).valid >> (sector - tag * st.line_sectors)) & 1 != 0:
                cache.hits += 1
            else:
                cache.misses += 1
                sector_at(st, first + missed).value = sector
                missed += 1
        if missed == 0:
            load_completes(st, index, hit)
            release(st, index)
            return
        ask(st, i, index, missed)
        if access.pending != 0:
            sm.request_free += st.pending_cycles
        if access.sectors == 0:
            await_returns(st, index)
            return
    else:
        sm.store_sectors += access.sectors
        if access.store == STORE and st.local_from <= first_sector < st.local_end:
            keep_in_l1(st, i, index)
    sm.port_free = max(access.end << TICK_BITS, sm.port_free) + port_ticks(st, index)
    leave_port(st, i, index)


@helper
def keep_in_l1(st: State, i: int, index: int) -> None:
    """L1 has an access's sectors: those that are back, and those that a store to local memory writes."""
    last, at = -1, 0
    for n in range(index * MAX_LANES, index * MAX_LANES + access_at(st, index).sectors):
        sector = sector_at(st, n).value
        tag = line_of(st, sector)
        if tag != last:
            last, at = tag, find(st, i, tag)
            if at == 0:
                at, _ = make(st, i, tag)
        line_at(st, at - 1).valid |= 1 << (sector - tag * st.line_sectors)


@helper
def reach_shared(st: State, i: int, index: int, hit: int) -> None:
    """A generic access to shared memory: to another block's, by way of the network between SMs."""
    access = access_at(st, index)
    hit = max(access.end + 1, hit - st.shared_saving)
    rank = sector_at(st, index * MAX_LANES).value * st.sector_bytes >> 24
    if rank != (warp_at(st, access.warp).block - 1) % st.cluster_blocks:
        # A sector that finds the port free takes the latency alone.
        sm, each = sm_at(st, i), st.network_sector_ticks
        sm.network_free = max(access.end << TICK_BITS, sm.network_free) + access.sectors * each
        hit += st.network + ceil_cycles(sm.network_free - each) - access.end
    if access.store == REDUCE:
        returning_at(st, access.place).value = hit
    resolve(st, i, access.warp, access.target, access.row, hit)
    release(st, index)


@inlined
def link(st: State, index: int, at: int, head: int) -> Word:
    """Put an access into the list that begins with ``head``: behind access ``at`` - 1, or first where that is
    0. What follows it, or 0; the caller keeps the list's ends."""
    access = access_at(st, index)
    access.earlier = at
    if at != 0:
        access.next = access_at(st, at - 1).next
        access_at(st, at - 1).next = index + 1
    else:
        access.next = head
    if access.next != 0:
        access_at(st, access.next - 1).earlier = index + 1
    return access.next


@inlined
def unlink_first(st: State, head: int) -> Word:
    """Take the first access off the list that begins with ``head``; what is first then, or 0."""
    following = access_at(st, head - 1).next
    if following != 0:
        access_at(st, following - 1).earlier = 0
    return following


@inlined
def issued_before(st: State, a: int, b: int) -> Word:
    """Whether access ``a`` of an SM was issued before its access ``b``."""
    return answer_at(st, a).sequence < answer_at(st, b).sequence


@inlined
def await_l2(st: State, i: int, index: int) -> None:
    """Put an access among the requests of SM ``i`` to L2: in the order of arrival, those of one cycle in that
    of their issue."""
    sm, access = sm_at(st, i), access_at(st, index)
    at = sm.request_tail
    while at != 0:
        before = access_at(st, at - 1)
        if before.when < access.when or (before.when == access.when and issued_before(st, at - 1, index)):
            break
        at = before.earlier
    following = link(st, index, at, sm.request_head)
    if at == 0:
        sm.request_head = index + 1
    if following == 0:
        sm.request_tail = index + 1


@helper
def port_ticks(st: State, index: int) -> Word:
    """What an access takes of its SM's port: its sectors; of an atomic the bytes of its operands, or its
    packets, of which lanes on one word have one each."""
    access = access_at(st, index)
    if access.store == LOAD:
        return access.sectors * st.port_ticks
    if access.store != REDUCE:
        return access.sectors * st.store_ticks + _partial(st, index) * access.lines * st.partial_line_ticks
    packets = 0
    for n in range(index * MAX_LANES, index * MAX_LANES + access.sectors):
        packets += sector_at(st, n).queue
    op = op_at(st, access.op)
    return max(access.lanes * op.lane_ticks, packets * op.packet_ticks)


@inlined
def _partial(st: State, index: int) -> Word:
    """1 for a store by lanes that does not write all bytes of its sectors, else 0."""
    access = access_at(st, index)
    lanes_bytes = access.lanes * op_at(st, access.op).lane_bytes
    return int(access.store == STORE and lanes_bytes < access.sectors * st.sector_bytes)


@helper
def ask(st: State, i: int, index: int, missed: int) -> None:
    """Keep of the sectors that a load missed those that nobody has asked L2 for, which it now does. For each
    other one note the access that has, and its sequence."""
    access, first = access_at(st, index), index * MAX_LANES
    wanted = pending = 0
    for n in range(first, first + missed):
        sector = sector_at(st, n).value
        leader = asked_by(st, i, sector)
        if leader != 0:
            pending += 1
            sector_at(st, first + MAX_LANES - pending).queue = leader  # no other use in a load
            continue
        bucket = asked_bucket_at(st, bucket_of_sector(i, sector))
        sector_at(st, first + wanted).value = sector
        sector_at(st, first + wanted).next = bucket.value
        bucket.value = first + wanted + 1
        wanted += 1
    for n in range(first + MAX_LANES - pending, first + MAX_LANES):
        sector_at(st, n).value = answer_at(st, sector_at(st, n).queue - 1).sequence
    access.sectors, access.pending = wanted, pending


@inlined
def bucket_of_sector(i: int, sector: int) -> Word:
    """Neighbours, which are asked for together, have neighbouring buckets."""
    group = (((sector >> 3) * SPREAD) >> 32) << 3
    return i * ASKED_BUCKETS + ((group | (sector & 7)) & (ASKED_BUCKETS - 1))


@helper
def asked_by(st: State, i: int, sector: int) -> Word:
    """The number + 1 of the access that has asked L2 for a sector which is on its way to SM ``i``; or 0."""
    at = asked_bucket_at(st, bucket_of_sector(i, sector)).value
    while at != 0 and sector_at(st, at - 1).value != sector:
        at = sector_at(st, at - 1).next
    return 0 if at == 0 else (at - 1) // MAX_LANES + 1


@helper
def forget(st: State, i: int, at: int) -> None:
    """The sector at place ``at`` has come to SM ``i``."""
    bucket = asked_bucket_at(st, bucket_of_sector(i, sector_at(st, at).value))
    link = bucket.value
    if link == at + 1:
        bucket.value = sector_at(st, at).next
        return
    while sector_at(st, link - 1).next != at + 1:
        link = sector_at(st, link - 1).next
    sector_at(st, link - 1).next = sector_at(st, at).next


@helper
def load_completes(st: State, index: int, completion: int) -> None:
    """It is known when a load completes; or a copy by lanes, for which arrivals of its warp may wait."""
    access = access_at(st, index)
    if op_at(st, access.op).joins != 0:
        warp = warp_at(st, access.warp)
        warp.copies -= 1
        warp.copied = max(warp.copied, completion)
        before, row = 0, warp.arrivals
        while row != 0:
            following = read_at(row, COPY_NEXT)
            left = read_at(row, COPY_LEFT)
            if answer_at(st, index).sequence < read_at(row, COPY_ISSUED):
                left -= 1
                write_at(row, COPY_LEFT, left)
                write_at(row, COPY_DONE, max(read_at(row, COPY_DONE), completion))
            if left != 0:
                before = row
            elif before != 0:
                write_at(before, COPY_NEXT, following)
            else:
                warp.arrivals = following
            row = following
    resolve(st, access.sm, access.warp, access.target, access.row, completion)


@helper
def arrive_after_copies(st: State, i: int, w: int, now: int) -> None:
    """Arrivals that warp ``w`` has just issued come when its copies by lanes are back."""
    warp, row = warp_at(st, w), read_at(read_at(st.context, BULK_REQUEST), TO_WRITE)
    while row != 0:
        following = read_at(row, COPY_NEXT)
        write_at(row, COPY_LEFT, warp.copies)
        write_at(row, COPY_DONE, max(warp.copied, now + 1))
        write_at(row, COPY_ISSUED, sm_at(st, i).jobs)
        if warp.copies != 0:
            write_at(row, COPY_NEXT, warp.arrivals)
            warp.arrivals = row
        row = following


@helper
def await_returns(st: State, index: int) -> None:
    """Let a load wait for the sectors that are on their way for others; if L2 has served all of those, it is
    known when it completes.

    A record with another sequence has been given back: those sectors came before the load's last one, which
    L2 had still to serve.
    """
    access = access_at(st, index)
    end = (index + 1) * MAX_LANES
    for n in range(end - access.pending, end):
        leader = sector_at(st, n).queue - 1
        before = answer_at(st, leader)
        if before.sequence != sector_at(st, n).value:
            continue
        if before.due == 0:
            access.follows = access_at(st, leader).followers
            access_at(st, leader).followers = index + 1
            return
        access.latest = max(access.latest, before.due)
    load_completes(st, index, max(access.end + 1, access.latest))
    if access.sectors == 0:
        release(st, index)


@helper
def fill_l1(st: State, i: int, now: int) -> None:
    """What came back to SM ``i`` up to now becomes valid in its L1; nobody looks between, so it is done
    when one does."""
    sm = sm_at(st, i)
    while sm.fill_head != 0 and access_at(st, sm.fill_head - 1).when <= now:
        index = sm.fill_head - 1
        access = access_at(st, index)
        sm.fill_head = unlink_first(st, index + 1)
        if sm.fill_head == 0:
            sm.fill_tail = 0
        for n in range(index * MAX_LANES, index * MAX_LANES + access.sectors):
            forget(st, i, n)
        keep_in_l1(st, i, index)
        release(st, index)


@helper
def copy_in_bulk(st: State, i: int, w: int, now: int) -> None:
    """The copy engine of SM ``i`` asks for what the bulk copy that warp ``w`` has just issued takes: line by
    line, in parts of `MAX_LANES` sectors, which take the SM's port and then ask L2."""
    sm, request = sm_at(st, i), read_at(st.context, BULK_REQUEST)
    told, index, parts, sectors = read_at(request, TO_WRITE), -1, 0, 0
    sm.bulk_free = max(now << TICK_BITS, sm.bulk_free)
    last_line = last_sector = -1
    lanes_per_word = int(op_at(st, warp_at(st, w).pc).store == BULK + REDUCE)
    for n in range(FIRST_RUN, FIRST_RUN + 2 * read_at(request, RUN_COUNT), 2):
        first = per(read_at(request, n), st.sector_bytes, st.sector_shift)
        end = per(read_at(request, n + 1) - 1, st.sector_bytes, st.sector_shift) + 1
        for sector in range(first + int(first == last_sector), end):
            if index >= 0 and access_at(st, index).sectors == MAX_LANES:
                send_part(st, i, index)
                index = -1
            if line_of(st, sector) != last_line:
                last_line = line_of(st, sector)
                sm.bulk_free += st.bulk_line_ticks
            if index < 0:
                index = begin_part(st, i, w, told)
                parts += 1
            access = access_at(st, index)
            sector_at(st, index * MAX_LANES + access.sectors).value = sector
            sector_at(st, index * MAX_LANES + access.sectors).queue = lanes_per_word
            access.sectors += 1
            sectors += 1
            last_sector = sector
    if index >= 0:
        send_part(st, i, index)
    blocks = int(op_at(st, warp_at(st, w).pc).store != BULK + LOAD)
    while told != 0:
        blocks += 1
        write_at(told, COPY_LEFT, parts)
        if parts == 0:
            write_at(told, COPY_DONE, now + max(1, op_at(st, warp_at(st, w).pc).extra))
        told = read_at(told, COPY_NEXT)
    for k in range(i * st.schedulers, (i + 1) * st.schedulers):
        scheduler_at(st, k).awaited += blocks * -(-sectors * st.sector_bytes // st.bank_row_bytes)


@helper
def take_banks(st: State, i: int, cycles: int, now: int) -> None:
    """An access takes the banks of SM ``i``'s shared memory, for which products by groups of warps then
    wait."""
    for k in range(i * st.schedulers, (i + 1) * st.schedulers):
        if scheduler_at(st, k).products_end > now:
            scheduler_at(st, k).owed += cycles


@helper
def begin_part(st: State, i: int, w: int, told: int) -> Word:
    """A new access of SM ``i`` for a part of a bulk copy of warp ``w``."""
    warp, sm = warp_at(st, w), sm_at(st, i)
    op, index = op_at(st, warp.pc), sm.free_access - 1
    access = access_at(st, index)
    sm.free_access = access.next
    sm.free_accesses -= 1
    access.next, access.warp, access.op, access.sm, access.store = 0, w, warp.pc, i, op.store
    access.row, access.place, access.sectors, access.target = -1, told, 0, -1
    if op.joins != 0 and op.tail == 0:
        access.target = GROUP_SLOT + (warp.groups & (COPY_GROUPS - 1))
        result_at(st, w * st.slots + access.target).pending += 1
    answer_at(st, index).sequence = sm.jobs
    sm.jobs += 1
    warp.unresolved += 1
    return index


@helper
def send_part(st: State, i: int, index: int) -> None:
    """A part of a bulk copy takes the port once the copy engine has asked for all of it."""
    sm, access = sm_at(st, i), access_at(st, index)
    op = op_at(st, access.op)
    sm.port_free = max(sm.bulk_free, sm.port_free) + access.sectors * op.stage_ticks
    if op.joins != 0 and op.tail != 0:
        warp = warp_at(st, access.warp)
        place = access.warp * st.slots + GROUP_SLOT + (warp.groups & (COPY_GROUPS - 1))
        read = result_at(st, place)
        read.until = max(read.until, ceil_cycles(sm.port_free) + op.tail)
    leave_port(st, i, index)


@helper
def part_is_back(st: State, index: int) -> None:
    """It is known when a part of a bulk copy is back."""
    access = access_at(st, index)
    resolve(st, access.sm, access.warp, access.target, -1, access.served)
    arrived_from_memory(st, access.sm)
    release(st, index)


@helper
def empty_l1(st: State, i: int, now: int) -> None:
    """L1 of SM ``i`` has no valid sector any more; those on their way will be."""
    if st.uses_memory == 0:
        return
    fill_l1(st, i, now)
    cache = cache_at(st, i)
    for n in range(cache.first_line, cache.first_line + cache.sets * cache.ways):
        line_at(st, n).valid = 0


@helper
def serve_window(st: State, low: int, high: int) -> Word:
    """Serve the requests of the SMs from ``low`` up to ``high`` that reached L2 in this window; the first
    cycle in which one of them is back, or one that was not served arrives, or NEVER."""
    common, nearest = common_at(st, 0), NEVER
    first, end = common.window_end - st.window, common.window_end
    for n in range(st.window):
        arrival_at(st, n).first = 0
    for i in range(low, high):
        index = sm_at(st, i).request_head
        while index != 0:
            access = access_at(st, index - 1)
            if access.when >= end:
                nearest = min(nearest, access.when)
                break
            arrival = arrival_at(st, access.when - first)
            access.chain = 0
            if arrival.first == 0:
                arrival.first = index
            else:
                access_at(st, arrival.last - 1).chain = index
            arrival.last = index
            index = access.next
    count = 0
    for n in range(st.window):
        index = arrival_at(st, n).first
        while index != 0:
            request_at(st, count).value = index - 1
            count += 1
            index = access_at(st, index - 1).chain
    for n in range(count):
        bring_request_near(st, n, count)
        nearest = min(nearest, serve_l2(st, request_at(st, n).value))
    common.served_end = end
    return nearest


@inlined
def _asked_line(st: State, index: int) -> Word:
    """The first line that an access asks for, in the half of L2 that it asks."""
    tag, access = line_of(st, sector_at(st, index * MAX_LANES).value), access_at(st, index)
    half = half_of_slice(st, number_of_slice(st, tag))
    if st.l2_halves > 1 and access.store & ~BULK == LOAD:
        half = half_of_sm(st, access.sm)
    return in_half(half, tag)


@inlined
def half_of_sm(st: State, sm: int) -> Word:
    """The half of two, 0 or 1, that keeps what an SM reads."""
    return int(2 * sm >= st.sms)


@inlined
def half_of_slice(st: State, number: int) -> Word:
    """The half of L2, 0 or 1, that a slice is in; 0 where L2 is one."""
    return int(2 * number >= st.slices) if st.l2_halves > 1 else 0


@inlined
def in_half(half: int, tag: int) -> Word:
    """The number of a line in a half of L2."""
    return half << SECOND_HALF_BIT | tag


@inlined
def group_of(st: State, sm: int) -> Word:
    """The group that an SM is in: `smlab.sim.machine.groups_of_sms`, the other way round."""
    return ((sm // 2 + 1) * st.groups - 1) // st.sm_pairs


@inlined
def bring_request_near(st: State, n: int, count: int) -> None:
    """Ask the processor for what the requests after the ``n``-th will need: sectors, then the bucket and the
    set of the first of these, then its line."""
    if n + 9 < count:
        index = request_at(st, n + 9).value
        prefetch(address_of(sector_at(st, index * MAX_LANES)))
    cache = cache_at(st, st.sms)
    if n + 6 < count:
        tag = _asked_line(st, request_at(st, n + 6).value)
        prefetch(address_of(bucket_at(st, bucket_of(cache, tag))))
        prefetch(address_of(cache_set_at(st, set_of(cache, tag))))
    if n + 3 < count:
        tag = _asked_line(st, request_at(st, n + 3).value)
        at = bucket_at(st, bucket_of(cache, tag)).value
        if at == 0:  # most likely a new line, and the one that goes for it
            number = set_of(cache, tag)
            lines = cache_set_at(st, number)
            if lines.newest != 0:
                prefetch(address_of(line_at(st, lines.newest - 1)))
            at = lines.oldest
            if lines.used != cache.ways:
                at = cache.first_line + (number - cache.first_set) * cache.ways + lines.used + 1
        prefetch(address_of(line_at(st, at - 1)))
        prefetch(address_of(ready_at(st, (at - 1 - cache.first_line) * st.line_sectors)))


@helper
def _in_slice(st: State, index: int) -> Word:
    """What a sector of an atomic takes of its slice, in the mean of the request's."""
    access = access_at(st, index)
    op, packets = op_at(st, access.op), 0
    if op.operand_ticks == 0 or st.slices == 0:
        return op.sector_ticks
    for n in range(index * MAX_LANES, index * MAX_LANES + access.sectors):
        packets += sector_at(st, n).queue
    return max(op.sector_ticks, access.lanes * op.operand_ticks // max(packets, 1))


@helper
def serve_l2(st: State, index: int) -> Word:
    """Serve a request that reached L2; its completion, which its SM will find."""
    common, access = common_at(st, 0), access_at(st, index)
    ready, last, at, word_ticks = 0, -1, 0, op_at(st, access.op).word_ticks
    slice_line, begun, served, in_advance = -1, -1, 0, 0
    key, half, home = 0, 0, 0
    number, past = 0, op_at(st, access.op).past_ticks
    own, way, partial, in_slice = slice_at(st, 0), 0, _partial(st, index), _in_slice(st, index)
    merges = st.merge_ticks != 0 and access.store & ~BULK == LOAD and op_at(st, access.op).multicast == 0
    group, entry = group_of(st, access.sm), merged_at(st, 0)
    for n in range(index * MAX_LANES, index * MAX_LANES + access.sectors):
        sector, lanes_per_word = sector_at(st, n).value, sector_at(st, n).queue
        tag = line_of(st, sector)
        store = access.store & ~BULK
        if tag != last:
            last = tag
            if st.slices != 0:
                number = number_of_slice(st, tag)
            half = home = half_of_slice(st, number)
            if st.l2_halves > 1 and store == LOAD:
                half = half_of_sm(st, access.sm)
            key = in_half(half, tag)
            at, way = find(st, st.sms, key), way_ticks(st, number, group)
        if merges:
            arrival = access.when << TICK_BITS
            entry = merged_at(st, group * MERGED_LINES + scattered(tag, MERGED_LINES >> 3))
            place = sector - tag * st.line_sectors
            common.replies_free = max(common.replies_free, arrival) + st.reply_ticks
            there = at != 0 and (line_at(st, at - 1).valid >> place) & 1 != 0
            asked = (entry.asked >> (8 * place)) & 255 if entry.tag == tag + 1 else 0
            if there and asked > 0 and asked < st.merged_reads and arrival <= entry.until:
                entry.asked += 1 << (8 * place)
                cache_at(st, st.sms).hits += 1
                common.merged_sectors += 1
                ready = max(ready, max(entry.ready, common.replies_free) + way)
                continue
        shared_ticks = st.l2_ticks
        if store == REDUCE:
            shared_ticks = st.l2_atomic_sector_ticks
        elif store == STORE:
            shared_ticks = st.l2_store_ticks
        elif tag != begun:  # a line's least time comes with its first sector
            in_advance = max(0, st.l2_line_ticks - shared_ticks)
            shared_ticks += in_advance
        else:
            done = min(in_advance, shared_ticks)
            in_advance -= done
            shared_ticks -= done
        common.l2_free = max(access.when << TICK_BITS, common.l2_free) + shared_ticks
        common.l2_free += partial * int(tag != begun) * st.l2_partial_ticks
        begun = tag
        served = common.l2_free
        if st.slices != 0:
            ticks, occupied = st.slice_ticks, st.slice_occupied
            if store == REDUCE:
                ticks = in_slice + int(tag != slice_line) * st.slice_line_ticks
                ticks += st.slice_waits * (lanes_per_word - 1) * max(word_ticks, in_slice)
                occupied = of_all_sms(st, ticks)
            if tag != slice_line:
                slice_line = tag
                own = slice_at(st, number if half == home else st.slices - 1 - number)
            arrival = access.when << TICK_BITS
            earliest = _earliest(st, own, arrival)
            served = max(served, max(arrival, _occupy(own, earliest, occupied)) + ticks)
            if store == REDUCE and past != 0:
                _occupy(slice_at(st, st.slices - 1 - number), earliest, of_all_sms(st, past))
        if at == 0:
            at = _new_l2_line(st, key)
        # A slice that waits for the lanes has those of all SMs already.
        queue = 0 if st.slice_waits != 0 and st.slices != 0 else lanes_per_word * word_ticks
        moment = 0
        if half != home:
            moment = _from_across(st, at, sector, access.when << TICK_BITS, served)
        elif store != LOAD and st.l2_halves > 1:
            drop_sector(st, st.sms, in_half(1 - home, tag), sector - tag * st.line_sectors)
        if moment == 0:
            moment = _serve_sector(st, at, sector, store, queue, served)
        if merges:
            moment = max(moment, common.replies_free)
            _asked_by_group(st, entry, sector, access.when << TICK_BITS, moment)
        ready = max(ready, moment + way)
    ready += _shared_port(st, index)
    access.served = ceil_cycles(ready) + st.l2_return + op_at(st, access.op).extra
    told = access.place if access.store >= BULK else 0
    while told != 0:
        write_at(told, COPY_DONE, max(read_at(told, COPY_DONE), access.served))
        write_at(told, COPY_LEFT, read_at(told, COPY_LEFT) - 1)
        told = read_at(told, COPY_NEXT)
    return access.served


@inlined
def _shared_port(st: State, index: int) -> Word:
    """How much later an atomic comes as its SM shares the port with others. Alone an SM never waits."""
    access = access_at(st, index)
    if access.store != REDUCE:
        return 0
    port, ticks, arrival = (
        sm_at(st, access.sm % st.atomic_ports),
        port_ticks(st, index),
        access.when << TICK_BITS,
    )
    begin = max(arrival - ticks - (1 << TICK_BITS) + 1, port.atomic_port_free)
    port.atomic_port_free = begin + ticks * st.atomic_port_factor
    return max(0, begin + ticks - arrival)


@helper
def load_is_back(st: State, index: int) -> None:
    """It is known when a load's sectors will be there, for it and for those that wait for them."""
    access = access_at(st, index)
    answer_at(st, index).due = access.latest = access.when = access.served
    await_returns(st, index)
    follower = access.followers
    while follower != 0:
        following = access_at(st, follower - 1).follows
        await_returns(st, follower - 1)
        follower = following
    arrived_from_memory(st, access.sm)
    if op_at(st, access.op).past_l1 != 0:
        release(st, index)
    else:
        await_fill(st, index)


@helper
def await_fill(st: State, index: int) -> None:
    """Put a load whose completion is known among those that will fill its SM's L1: in the order of
    completion, those of one cycle in that of their requests."""
    access = access_at(st, index)
    sm, at = sm_at(st, access.sm), sm_at(st, access.sm).fill_tail
    while at != 0 and before_fill(st, index, at - 1):
        at = access_at(st, at - 1).earlier
    following = link(st, index, at, sm.fill_head)
    if at == 0:
        sm.fill_head = index + 1
    if following == 0:
        sm.fill_tail = index + 1


@inlined
def before_fill(st: State, a: int, b: int) -> Word:
    x, y = access_at(st, a), access_at(st, b)
    return x.when < y.when or (x.when == y.when and issued_before(st, a, b))


@inlined
def alone(st: State) -> Word:
    """How far an SM may run with nothing on its way; not at all ahead of the others where they read each
    other's writes, which makes windows of one cycle."""
    return NEVER if st.window > 1 else 0


@helper
def arrived_from_memory(st: State, i: int) -> None:
    """L2 has seen an access of SM ``i``, so when it completes is known. What it has still to see reaches it
    in a later window."""
    sm = sm_at(st, i)
    sm.flying -= 1
    sm.horizon = alone(st)
    if sm.flying != 0:
        sm.horizon = min(sm.horizon, common_at(st, 0).served_end + st.window)


@inlined
def number_of_slice(st: State, line: int) -> Word:
    """The number of the slice of L2 that a line lies in, of one or several."""
    scattered = (line >> st.slice_region_bits) * SLICE_SPREAD & 0xFFFFFFFF
    part = line >> st.slice_part_bits ^ scattered >> 15
    return 2 * (scattered * st.slice_pairs >> 32) + (part & st.slice_both)


@inlined
def _earliest(st: State, own: Record, arrival: int) -> Word:
    """When a slice can begin at the earliest: in a sample of SMs what the others ask of it comes behind."""
    common = common_at(st, 0)
    if st.shares_dram == 0:
        return arrival
    common.slice_deepest = max(common.slice_deepest, own.free - arrival)
    return arrival - common.slice_deepest


@inlined
def _occupy(own: Record, earliest: int, ticks: int) -> Word:
    """When a slice begins with work of so many ticks."""
    begin = max(earliest, own.free)
    own.free = begin + ticks
    own.busy += ticks
    return begin


@inlined
def of_all_sms(st: State, ticks: int) -> Word:
    """What a slice has to do for all SMs when a simulated one asks for ``ticks`` of it."""
    return -(-ticks * st.slice_all_sms // st.slice_sms)


@inlined
def way_ticks(st: State, number: int, group: int) -> Word:
    """How much longer the way from a slice to a group of SMs is than the shortest one."""
    if st.slice_spread == 0 or st.slices == 0:
        return 0
    place = (number * SMS_APART + group + 1) * SLICE_SPREAD & 0xFFFFFFFF
    return st.slice_spread * place >> 32


@helper
def _new_l2_line(st: State, tag: int) -> Word:
    """The number + 1 of a line of L2 that was not there. What must go for it is written to DRAM. Stores to it
    wait for that, and reads do not wait for what others wrote before the launch."""
    at, dirty = make(st, st.sms, tag)
    taken = 0
    if dirty != 0 and st.writes_back == 0:
        taken = _dram(st, bits_set(dirty), dirty >> OF_OTHERS == 0)
    first = (at - 1 - cache_at(st, st.sms).first_line) * st.line_sectors
    for place in range(st.line_sectors):
        ready_at(st, first + place).value = taken
    return at


@helper
def _from_across(st: State, at: int, sector: int, arrival: int, served: int) -> Word:
    """When a sector is ready in the line ``at`` - 1 of one half of L2 that has to come from its slice in the
    other half; 0: the first half has it, or the other one has not."""
    cache, line = cache_at(st, st.sms), line_at(st, at - 1)
    tag = line_of(st, sector)
    place = sector - tag * st.line_sectors
    if (line.valid >> place) & 1 != 0 or fetched_by_unsampled_blocks(st, sector) != 0:
        return 0
    number = number_of_slice(st, tag)
    there = find(st, st.sms, in_half(half_of_slice(st, number), tag))
    if there == 0 or (line_at(st, there - 1).valid >> place) & 1 == 0:
        return 0
    cache.hits += 1
    moment = 0
    if st.slices != 0:
        own = slice_at(st, number)
        begin = _occupy(own, _earliest(st, own, arrival), st.slice_occupied)
        moment = max(arrival, begin) + st.slice_ticks
    moment = max(moment, ready_at(st, (there - 1 - cache.first_line) * st.line_sectors + place).value)
    moment = max(served, moment + st.across_ticks)
    line.valid |= 1 << place
    ready_at(st, (at - 1 - cache.first_line) * st.line_sectors + place).value = moment
    return moment


@helper
def _keep_at_home(st: State, asked: int, sector: int, ready: int) -> None:
    """A sector that DRAM sends to the other half of L2 stays in the half of its slice as well."""
    tag = line_of(st, sector)
    key = in_half(half_of_slice(st, number_of_slice(st, tag)), tag)
    if key == asked:
        return
    at = find(st, st.sms, key)
    if at == 0:
        at = _new_l2_line(st, key)
    place = sector - tag * st.line_sectors
    line_at(st, at - 1).valid |= 1 << place
    ready_at(st, (at - 1 - cache_at(st, st.sms).first_line) * st.line_sectors + place).value = ready


@helper
def _asked_by_group(st: State, entry: Record, sector: int, arrival: int, ready: int) -> None:
    """L2 reads a sector for a group of SMs, ready at that time; other reads of the group merge with it for a
    while."""
    tag = line_of(st, sector)
    if entry.tag != tag + 1 or arrival > entry.until:
        entry.tag, entry.asked, entry.ready, entry.until = tag + 1, 0, 0, 0
    place = 8 * (sector - tag * st.line_sectors)
    entry.asked = entry.asked & ~(255 << place) | 1 << place
    entry.ready = max(entry.ready, ready)
    entry.until = max(entry.until, max(ready, arrival + st.merge_ticks))


@helper
def _serve_sector(st: State, at: int, sector: int, store: int, queue_ticks: int, served: int) -> Word:
    """When a sector of the line ``at`` - 1 that its server has ``served`` is ready in L2, in ticks; the lanes
    of an atomic take ``queue_ticks`` one after the other."""
    cache, line = cache_at(st, st.sms), line_at(st, at - 1)
    tag = line_of(st, sector)
    place = sector - tag * st.line_sectors
    ready = ready_at(st, (at - 1 - cache.first_line) * st.line_sectors + place)
    if (line.valid >> place) & 1 != 0:
        cache.hits += 1
        moment = max(served, ready.value)
    else:
        cache.misses += 1
        if store == STORE:
            moment = max(served, ready.value)
        elif fetched_by_unsampled_blocks(st, sector) != 0:
            moment = served
            if arrives_for_unsampled_blocks(st, sector) != 0:
                moment = max(served, common_at(st, 0).dram_free) + (st.dram_extra << TICK_BITS)
        else:
            moment = max(served, _dram(st, 1, 0)) + (st.dram_extra << TICK_BITS)
            moment += _drain_wait(st, tag)
            if st.l2_halves > 1:
                _keep_at_home(st, line.tag, sector, moment)
        line.valid |= 1 << place
        ready.value = moment
    if store == REDUCE:
        moment += queue_ticks
        ready.value = moment + queue_ticks * atomics_of_unsampled_blocks(st, sector)
    if store != LOAD:
        if st.writes_back != 0 and (line.dirty >> place) & 1 == 0:
            taken = _dram(st, 1, 1)
            if store == STORE:
                moment = max(moment, taken)
                ready.value = moment
        line.dirty |= 1 << place
    return moment


@helper
def _drain_wait(st: State, line: int) -> Word:
    """How long a read of a line waits for what DRAM is at, in ticks: in the mean as in a queue in which reads
    go before writes (Cobham 1954), by the parts of the last time that reads and writes took."""
    common = common_at(st, 0)
    elapsed = common.l2_free + (DRAM_WINDOW_CYCLES // 2 << TICK_BITS) - common.dram_since
    while elapsed > DRAM_WINDOW_CYCLES << TICK_BITS:
        common.dram_since += elapsed - (elapsed >> 1)
        elapsed >>= 1
        common.dram_reads >>= 1
        common.dram_writes >>= 1
    left = max(elapsed - common.dram_reads, elapsed // DRAM_LEAST_IDLE)
    mean = st.dram_drain * ((common.dram_writes << 10) // left)
    mean += st.dram_read_drain * ((common.dram_reads << 10) // left)
    return mean * wait_parts(st, line) << (TICK_BITS - 20)


@inlined
def wait_parts(st: State, line: int) -> Word:
    """How often the mean a read of a line waits in the queue of its slice's memory channel, in parts of
    1,024."""
    place = 2 * (line >> st.slice_region_bits) + (number_of_slice(st, line) & st.slice_both)
    mixed = place * SLICE_SPREAD & 0xFFFFFFFF
    mixed = (mixed >> 15 ^ mixed) * WAIT_SPREAD & 0xFFFFFFFF
    mixed = mixed >> 13 ^ mixed | 1 << 21
    return (2 * ((lowest_bit(mixed) << 10) + (mixed >> 22))) // 3


@helper
def _dram(st: State, sectors: int, writes: int) -> Word:
    sector_ticks = st.dram_write_ticks if writes != 0 else st.dram_ticks
    common = common_at(st, 0)
    arrival = common.l2_free
    if st.shares_dram != 0:
        common.dram_deepest = max(common.dram_deepest, common.dram_free - arrival)
    common.dram_free = max(arrival - common.dram_deepest, common.dram_free) + sectors * sector_ticks
    common.dram_sectors += sectors
    if writes != 0:
        common.dram_writes += sectors * sector_ticks
    else:
        common.dram_reads += sectors * sector_ticks
    return max(arrival, common.dram_free)


@helper
def hold(st: State) -> None:
    """Put into L2 the lines that an earlier launch left, and then the range that it holds at launch, line by
    line in ascending order."""
    for n in range(st.lines_left):
        row = st.left_lines + n * 24
        at, _ = make(st, st.sms, read_at(row, 0))
        line_at(st, at - 1).valid, line_at(st, at - 1).dirty = read_at(row, 1), read_at(row, 2)
    if st.held_bytes == 0:
        return
    tag, last = st.held_base // st.line_bytes, (st.held_base + st.held_bytes - 1) // st.line_bytes
    while tag <= last:
        key = in_half(half_of_slice(st, number_of_slice(st, tag)), tag)
        at = find(st, st.sms, key)
        if at == 0:
            at, _ = make(st, st.sms, key)
        line_at(st, at - 1).valid = (1 << st.line_sectors) - 1
        tag += 1


@helper
def atomics_of_unsampled_blocks(st: State, sector: int) -> Word:
    """How many atomics of blocks that are not simulated come to the sector for one of those that are."""
    n = sector - st.unsampled_first
    if n < 0 or n >= st.counted_sectors:
        return 0
    return (read_at(st.unsampled_atomics, n >> 3) >> ((n & 7) << 3)) & 255


@helper
def fetched_by_unsampled_blocks(st: State, sector: int) -> Word:
    """1 where a block that is not simulated has brought the sector, else 0."""
    return _bit_of_sector(st, st.unsampled_bits, sector)


@helper
def arrives_for_unsampled_blocks(st: State, sector: int) -> Word:
    """1 where DRAM still sends the sector to such a block when the sample asks for it, else 0."""
    return _bit_of_sector(st, st.unsampled_arriving, sector)


@inlined
def _bit_of_sector(st: State, bits: int, sector: int) -> Word:
    n = sector - st.unsampled_first
    if n < 0 or n >= st.unsampled_sectors:
        return 0
    return (read_at(bits, n >> 6) >> (n & 63)) & 1
