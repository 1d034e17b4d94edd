"""Where the compiled engine keeps its state: tables of records of int64, made once and never grown while it
runs.

The records are what C would call structs, and one of them, the `STATE`, holds the addresses of all tables:
compiled functions hand each other this one pointer instead of dozens of arrays. Records are reached by
number: warp ``sm * max_warps + slot``, scheduler ``sm * schedulers + index``, group ``scheduler * resources +
resource``, server (a pipe of the atomic unit) ``sm * servers + number``, place in a sub-core's queue
``scheduler * mio_entries + number``.

A *resource* is what an instruction needs besides its operands: an arithmetic pipe, a place in a queue, or
nothing. The warps of a scheduler that need nothing but the same resource form a *group*. All of a group are
eligible in the same cycles, so nobody looks at its warps one by one: the group adds up the cycles in which
its resource was not free (``throttled``), and a warp that leaves it takes the difference since it came. When
a pipe is free again is known; when a full queue has room is not, so its groups are *closed* until it has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smlab.sim.instructions import Reason, Unit

State = Any
Record = Any
"""What annotations call the pointers to records that compiled functions pass around."""
Word = Any
"""And what they call an integer read from a record."""

NEVER = 1 << 62

# Items of code.
OPERATION, LOOP_BEGIN, LOOP_END, END = 0, 1, 2, 3

# What a resident warp is up to. READY covers a warp in a group and one with a timer running.
READY, UNKNOWN, AT_BARRIER, EXITING, FINISHED = 0, 1, 2, 3, 4

# What the issue of an instruction does besides: it closes a group of copies, L1 forgets what it holds, it is
# a bulk copy, an arrival behind copies, a fence that takes time, an arrival behind products in tensor memory,
# it needs constants whose addresses its issue tells, or asks for the phase of a barrier in memory; it
# is a product in its warp's group of products, the last one there, or one in tensor memory; or, from the last
# number on, its warp waits until so many groups of products are left.
NO_EFFECT, CLOSES_GROUP, EMPTIES_L1, COPIES_IN_BULK, FOLLOWS_COPIES, FENCES, FOLLOWS_PRODUCTS = range(7)
NEEDS_CONSTANTS, ASKS_PHASE, JOINS_PRODUCTS, CLOSES_PRODUCTS, MULTIPLIES_IN_MEMORY = range(7, 12)
AWAITS_PRODUCTS = 12

INDEXED = -1
"""In place of a line of constants."""

# An instruction's pipe: one for the SM; or its scheduler's, for no whole number of cycles.
PER_SM, IN_PARTS = 1, 2

TOTALS, ATOMICS, ALL = 0, 1, 2

# What a call of the engine ends with.
DONE, PAUSED, CROWDED, STUCK, LATE, FAULTED = 0, 1, 2, 3, 4, 5
# What a thread has done when it goes on: it has taken an SM.
TAKEN = 6

# Enums are not constants to Numba; these are.
PIPE, THINK, SHARED, ATOMIC, GLOBAL, BARRIER, EXCHANGE = (
    int(u)
    for u in (Unit.PIPE, Unit.THINK, Unit.SHARED, Unit.ATOMIC, Unit.GLOBAL, Unit.BARRIER, Unit.EXCHANGE)
)
SELECTED, NOT_SELECTED, WAIT, SHORT, LONG = (
    int(r)
    for r in (
        Reason.SELECTED,
        Reason.NOT_SELECTED,
        Reason.WAIT,
        Reason.SHORT_SCOREBOARD,
        Reason.LONG_SCOREBOARD,
    )
)
MIO_THROTTLE, LG_THROTTLE = int(Reason.MIO_THROTTLE), int(Reason.LG_THROTTLE)
AT_THE_BARRIER, DRAIN, LAUNCHING = int(Reason.BARRIER), int(Reason.DRAIN), int(Reason.DISPATCH_STALL)
NO_INSTRUCTION = int(Reason.NO_INSTRUCTION)
REASONS = len(Reason)
REASON_WORDS = -(-REASONS // 8) * 8
"""What a warp's waiting times take: whole cache lines."""

SPARE_SPANS = 8192
"""Rows that must be free before a step is taken: more than one step of one SM can write."""
MAX_LANES = 32
CACHE_LINE_WORDS = 8
CACHE_LINE_BYTES = 8 * CACHE_LINE_WORDS


def _record(fields: str) -> np.dtype[Any]:
    return np.dtype([(name, np.int64) for name in fields.split()])


def _lines(fields: str) -> np.dtype[Any]:
    """The same, filled up to whole cache lines, of which the first hold what each issue needs."""
    names = fields.split()
    return _record(" ".join([*names, *(f"spare_{n}" for n in range(-len(names) % CACHE_LINE_WORDS))]))


def _separate(*groups: str) -> np.dtype[Any]:
    """Fields in groups, each of which begins a pair of cache lines, which processors fetch together: what one
    thread writes often is in none of which another one reads."""
    return _record(
        " ".join(
            f"{fields} "
            + " ".join(f"spare_{g}_{n}" for n in range(-len(fields.split()) % (2 * CACHE_LINE_WORDS)))
            for g, fields in enumerate(groups)
        )
    )


def _narrow(*groups: tuple[str, str]) -> np.dtype[Any]:
    """The same for fields of several widths, whole words in sum."""
    fields = [(name, kind) for names, kind in groups for name in names.split()]
    spare = -np.dtype(fields).itemsize % CACHE_LINE_BYTES // 8
    return np.dtype([*fields, *((f"spare_{n}", "i8") for n in range(spare))])


CELL = _record("value")
LINK = np.dtype([("value", "i4")])

_CONSTANTS = (
    "sms schedulers policy max_warps launch_cycles block_dispatch_ticks warp_dispatch_ticks"
    " block_refill_ticks warp_refill_ticks turnover_cycles warp_launch_ticks turns block_turn"
    " barrier_cycles blocks places role_rows blocks_per_sm "
    "resources width positions slots barriers"
    " held_base held_bytes left_lines lines_left unsampled_bits unsampled_first unsampled_sectors"
    " unsampled_arriving unsampled_atomics counted_sectors writes_back"
    " depth keep limit mio_entries mio_resource lg_resource front"
    " wakes_waiting_warps request_interval stage_jobs stage_entries constant_interval taken_branch"
    " atomic_entries servers round_gap barrier_interval"
    " uses_memory tag_banks pending_cycles local_from local_end"
    " line_bytes line_shift sector_bytes sector_shift line_sectors line_sectors_shift l1_tail"
    " shared_saving"
    " port_ticks l2_ticks l2_line_ticks l2_atomic_sector_ticks atomics_in_flight l2_return"
    " dram_ticks dram_extra dram_drain dram_read_drain"
    " dram_write_ticks shares_dram merge_ticks merged_reads reply_ticks"
    " store_ticks partial_line_ticks l2_store_ticks l2_partial_ticks slice_waits slice_spread"
    " slice_sms slice_all_sms"
    " slices across_ticks l2_halves slice_pairs slice_part_bits slice_region_bits slice_both slice_ticks"
    " slice_occupied"
    " slice_line_ticks"
    " atomic_ports atomic_port_factor"
    " spare_accesses bulk_line_ticks bank_row_bytes cluster_blocks groups sm_pairs"
    " network network_sector_ticks"
    " window source context source_warps"
    " source_bytes instructions"
    " fetch_lines l0_lines l0s l0_sub_cores first_l0 first_l1i prefetch_lines l0_miss"
    " fetch_interval fetch_l2 fetch_warm"
    " l1_miss preloaded_lines"
    " first_operands first_loads constant_line_bytes constant_lines second_lines second_room"
    " load_miss operand_miss second_miss"
)
_PROGRESS = "thread retired_blocks cycles steps_left jobs_kept issues_kept spans_kept"
_ROOM = "job_rows issue_rows span_rows accesses arena arena_bytes"

OP = _narrow(
    ("line stall interval latency", "i8"),
    ("target read_target groups_left after_begin after_end", "i4"),
    ("resource", "i2"),
    ("unit kind reason wide waits watched read_watched effect joins store", "i1"),
    # The first cache line ends here.
    ("slot", "i4"),
    ("cas cls multicast", "i2"),
    ("passes base_work pass_work tail hidden_wavefronts read_offset address_ticks", "i8"),
    ("stage_ticks later_ticks", "i8"),
    ("lanes work passes_at work_at times count start base", "i8"),
    ("warp_stride iteration_stride lane_stride addresses_at", "i8"),
    ("extra lane_ticks packet_ticks word_ticks backlog spare crowded fraction", "i8"),
    ("address_pass_ticks lane_bytes past_l1 passes_inactive sector_ticks operand_ticks past_ticks", "i8"),
    ("constant", "i8"),
)
"""An item of code. An issue to a pipe reads its first cache line, one to a queue the second as well; what
counts cycles, bytes or passes has 64 bits, numbers of things fewer.

``watched`` and ``read_watched`` say that a later instruction needs the result, or that the operands have
been read; ``extra`` is what a wide load or a copy takes longer on its way back, or what a fence takes at
least; of a bulk copy ``stage_ticks`` is what a sector takes of the port, and ``tail`` how long after that its
bytes have been read (0: nobody asks); ``..._at`` is the address
of a random table with ``times`` entries a warp, or 0; ``count`` and ``start`` belong to loops; ``line`` is
the line of code that it is in, or -1 less that where a warp that comes to it needs a line of constants, too;
``constant`` is the number + 1 of the line of constants that it reads, `INDEXED` where its source tells the
addresses, or 0; ``joins`` and ``groups_left`` are what it does to its
warp's groups of copies;
``effect`` is what else its issue does. ``target`` and ``read_target`` are the places of the scoreboard for
the result and the reading; machine code also says the cycles that its warp then waits (``stall``), the
scoreboards that it waits for itself (``waits``, a mask), and its work as a base and a part for each pass.
Its address unit takes ``address_ticks`` and at least ``address_pass_ticks`` a pass, the data stage
``stage_ticks`` a pass; its result comes ``later_ticks`` later for each pass beyond ``hidden_wavefronts``. A
lane of a load or store moves ``lane_bytes``; a load ``past_l1`` asks L2 whatever L1 has. An atomic on global
memory takes ``lane_ticks`` and ``packet_ticks`` of the port, and ``word_ticks`` of L2 for each lane on a
word; ``sector_ticks`` of its slice for a sector, at least ``operand_ticks`` for each lane, and ``past_ticks``
of the slice across. A product keeps the tensor core ``fraction`` ticks longer where ``wide`` says so
(`IN_PARTS`). One by a group of warps is accepted while the tensor core has ``backlog`` cycles of others in
front of it, and for ``spare`` cycles the banks give it nothing; for ``crowded`` cycles another instruction
keeps its scheduler while that works. Of one in tensor memory the source tells the shape: ``fraction`` is what
a sum takes, ``spare`` the least rows, ``extra`` what reading the second matrix takes at least, ``backlog``
the products before it."""
NEED = _record("slot reason")
"""A place of the scoreboard that an instruction needs, and what a warp waits with for it."""

COMMON = _separate(
    "lock changes next_block dispatcher_free next_access served",
    "stopping window_end served_end fault fault_cycle",
    "threads yields l2_free dram_free dram_deepest dram_sectors dram_since dram_reads dram_writes"
    " slice_deepest replies_free merged_sectors",
)
"""What there is once for all threads; who changes it holds ``lock``. ``changes`` counts what a thread may
wait for, accesses from ``next_access`` on belong to no SM yet. ``stopping`` sends all threads back to Python.
L2 has served the requests that reached it before ``served_end``, or so many (``served``) of this window's.
``yields`` is the address of the function that gives up the processor, or 0."""

THREAD = _separate("sm clock next_sm end_sm")
"""``sm`` is the SM that the thread runs, plus 1, or 0; it has run that as far as ``clock``. Those from
``next_sm`` up to ``end_sm`` have their turn in this window still before them."""

ASSIGNED = _record("block begin left")
"""A block that an SM gets when it goes on, and when its dispatch begins, in ticks. ``left`` is of the SM's
room of that number: when its last block exited, or 0."""

SLICE = _record("free busy")
MERGED = _record("tag asked ready until")
"""What a group of SMs has asked of a line (its number + 1): how often, eight bits a sector, when the last of
them is ready and until when reads of them merge, in ticks."""
"""A slice of L2: when it is free, and what it has had to do so far, in ticks."""

ARRIVAL = _record("first last")
"""The requests that reach L2 in one cycle of a window: the ends of a list of accesses."""

RELEASED = -1
"""In ``stopped``: the SM has been given its blocks and may go on."""

SM = _lines(
    "next_look next_serve next_retire first_scheduler resident_blocks launched_warps retiring jobs "
    "instructions"
    " resident_area active_cycles active_since atomic_jobs cas_jobs atomic_area cas_area atomic_busy "
    "atomic_until"
    " lanes passes atomic_occupied stage_occupied port_free network_free fill_head fill_tail"
    " load_passes store_passes store_sectors stage_free stage_later stage_place stage_begun"
    " request_free constant_free arbiter_free"
    " stage_carry turn"
    " atomics_not_taken busy_since barrier_free atomic_port_free"
    " rooms fetch_free flying horizon return_place bulk_free taken products_end next_scheduler"
    " free_access free_accesses request_head request_tail assigned faulted"
)
"""``next_serve`` is when the arbiter can take a request, ``turn`` the sub-core that it asks first. It takes
one from ``arbiter_free`` on, a constant load from ``constant_free``, any other from ``request_free`` and
``stage_free``, when the data stage has room; where that works on two jobs, ``stage_later`` is when the other
place is free. Where it has a queue, ``stage_place`` is the next place in the table ``passed``, and
``stage_begun`` is when the stage begins with the last job that was let in.
``atomics_not_taken`` counts the atomics that it has not taken yet, ``busy_since`` and ``atomic_until`` bound
the time with n > 0 that is not counted yet. ``flying`` counts its accesses that L2 has still to see,
``horizon`` is the first cycle that an answer to one of them may reach it in (`gpu`). ``fill_head`` and
``fill_tail`` are the ends of the list of the loads whose answers are known, in the order in which they will
be there. ``return_place`` is where its next atomic on global memory goes, of the table ``returning``.
``atomic_port_free`` is when the port of that number, which some SMs share for atomics, is free.
``request_head`` and ``request_tail`` are the ends of the list of its requests to L2, by the cycle in which
they reach it, ``free_access`` begins that of its unused accesses. ``assigned`` counts the blocks that it gets
when it goes on; ``faulted`` is the warp + 1 that had a fault; ``products_end`` is the last one of its
schedulers'."""

SCHEDULER = _lines(
    "next_look next_wake blocked last_position last_age shuffled ready first_for"
    " queue_head queued free_at passing_until address_carry coming residents products_end held owed"
    " awaited product_carry stalls_until"
)
"""``queue_head``, ``queued`` and ``free_at`` are its sub-core's queue and address unit, ``ready`` is when the
first of the queue has passed that (NEVER, where there is none), ``first_for`` whether that is an atomic
(`ON_SHARED`, `ON_GLOBAL`) or a constant load (`ON_CONSTANTS`); until ``passing_until`` its job before is in
the data stage;
``blocked`` has a bit for each warp with a timer, ``coming`` for those of them that then want a place in the
queue, which nobody looks at while that is full; ``next_wake`` is the first of the other timers, ``last_age``
is 0 before the first issue and the age plus 1 of the warp issued last afterwards; ``shuffled`` says that ages
may not rise with the slots; ``products_end`` is when its tensor core has done all products by groups of
warps that it has accepted, ``owed`` the cycles in which the banks gave something else meanwhile, less those
to spare, ``awaited`` those for which bulk copies wait; it issues nothing before ``held``. ``stalls_until``
is when the stall cycles of what it issued last are over."""

GROUP = _record("throttled closed")
"""``closed`` is the cycle + 1 from which on it waits for room in the queue, or 0."""
QUEUED = _record("warp op issue passes work row access sequence")
SERVER = _record("end carry place round_began served")
"""``round_began`` is a cycle + 1."""
WARP = _narrow(
    ("pc row entered mark bit fetched stalled", "i8"),
    ("resource state", "i4"),
    # The first cache line ends here.
    ("line groups", "i8"),
    ("scheduler lanes unresolved executed_early", "i4"),
    ("last_completion waiting_since block", "i8"),
    ("barrier depth launch span since products copies copied arrivals", "i8"),
)
"""``block`` is its block's number + 1, or 0 in a free slot; ``entered`` and ``mark`` are when it joined its
group and how long that had been throttled then; ``since`` and ``span`` where its recorded spans end and the
number + 1 of the last one; ``unresolved`` its jobs in flight whose completion is not known yet;
``waiting_since`` when the state that it is in began, unless that is READY; ``lanes`` are those of the
instruction issued last; ``scheduler`` is its scheduler's number, ``bit`` its place among that one's warps, as
a mask; ``line`` is the line of code that was fetched for it last, ``fetched`` the cycle in which its next
instruction
is there, ``stalled`` the one in which its control code lets it issue that; ``groups`` and ``products`` count
the groups of copies and of products that it has closed; ``copies`` counts its copies by lanes of which it is
not known when they are back, ``copied`` is when the last of the others is, ``arrivals`` the address of the
first of the arrivals that wait for them, or 0; ``executed_early`` is how many of its next
instructions have been executed already."""

RESULT = _record("until pending")
"""When a result is there, or operands are read; how often that will be at a time not known yet."""

BLOCK = _record("sm launch retire executing unfinished waiting last_exit room left")
"""``waiting`` has a bit for each of its barriers that some warp has come to; ``left`` is when its last warp
so far exited."""
BLOCK_BARRIER = _record("arrived expected served")
"""Warps that came, warps that it is for (0: all that have not exited), and when the SM's barrier unit has
taken the last of them."""
LOAD, STORE, REDUCE, CONSTANT, BULK = 0, 1, 2, 3, 4
ON_SHARED, ON_GLOBAL, ON_CONSTANTS = 1, 2, 3
ASKED_BUCKETS = 512
"""Of an SM; a power of two."""
ACCESS_CHUNK = 32
"""So many an SM gets at once."""
ACCESS = _narrow(
    ("when end latest served", "i8"),
    ("next earlier chain warp op sm", "i4"),
    ("sectors pending lines", "i2"),
    ("store lanes", "i1"),
    # The first cache line ends here.
    ("row place", "i8"),
    ("followers follows target", "i4"),
    ("passes", "i4"),
)
"""A global access in flight; ``store`` is LOAD, STORE or REDUCE, of a part of a bulk copy BULK more. ``when``
is the cycle in which it reaches L2, then its completion, which L2 leaves in ``served``; ``chain`` is the next
request of one cycle; ``next`` and ``earlier`` are its neighbours among its SM's requests, then its fills. It
makes ``passes`` of the data stage, and asks L2 for ``sectors`` sectors; ``pending`` ones more are on their
way for other loads, which are noted at the end of its places in ``sector`` with their sequences. ``latest``
is the latest return that it knows of. ``lanes`` are the access's own; of an atomic, ``place`` is its own
among those of its SM on their way. ``followers`` begins the list, by ``follows``, of those that wait for
it, as numbers + 1."""
ANSWER = _record("sequence due")
"""What others that wait for an access read of it: its number among its SM's jobs, and when the sectors that
it asked for return, once L2 has served it, or 0."""
SECTOR = np.dtype([("value", "i8"), ("queue", "i4"), ("next", "i4")])
"""A sector that an access asks for, the most lanes on one word of it, and the next one in its bucket of those
on their way, as number + 1."""

CACHE = _record("first_line first_set first_bucket sets ways hashed halves buckets hits misses")
CACHE_SET = _record("oldest newest used")
LINE = np.dtype(
    [("tag", "i8"), ("valid", "i8"), *((name, "i4") for name in ["dirty", "chain", "older", "newer"])]
)
"""Caches 0, 1, ... are the SMs' L1s, the last is L2. Lines and heads of lists are given as number + 1 in
the whole table."""

POINT = _record("jobs code cas blocks places blocks_per_sm begin end")
"""A point of a service table: what is run, and between which two cycles it is timed."""

WARP_ROW = _record("sm slot block launch finish")
JOB_ROW = _record("sm sequence warp slot unit op lanes passes issue start end completion taken")
ISSUE_ROW = _record("cycle sm scheduler warp slot")
SPAN_ROW = _record("sm warp reason begin end")

TABLES: dict[str, np.dtype[Any]] = {
    "op": OP,
    "need": NEED,
    "entry": CELL,  # where each program's code begins
    "role": CELL,
    "common": COMMON,
    "thread": THREAD,
    "stopped": CELL,  # by SM: the cycle + 1 in which it waits for blocks to be handed out, `RELEASED`, or 0
    "assigned": ASSIGNED,  # by SM, a few
    "sm": SM,
    "scheduler": SCHEDULER,
    "group": GROUP,
    "mask": CELL,  # by scheduler and resource, in whole cache lines: the warps of the group
    "free": CELL,  # likewise: when the resource is free
    "queued": QUEUED,  # what waits in the sub-cores, by scheduler and place
    "server": SERVER,
    "ring": CELL,  # the latest ends of service in each pipe, one an entry, in order from its place on
    "passed": CELL,  # by SM and place: when the job in the data stage's queue that had it last has passed
    "returning": CELL,  # by SM and place: when the atomic on global memory that had it last was back
    "warp": WARP,
    "wake": CELL,  # by scheduler and place, in whole cache lines, of a warp with a timer: when that runs out
    "age": CELL,  # likewise of a warp, counted in its SM
    "block": BLOCK,
    "barrier": BLOCK_BARRIER,  # by room of a block and number
    "member": LINK,  # by room of a block and place in it: the warp + 1, or 0
    "retiring": CELL,  # blocks that are finished or know when they will be, a few for each SM
    "counter": CELL,  # loop counters, by warp and depth
    "result": RESULT,  # of a slot, and its operands' reading, by warp and twice the slot
    "executions": CELL,  # by warp and slot, of instructions whose executions differ
    "warp_row": WARP_ROW,
    "stall_of": CELL,  # with a source, by instruction and reason, as the next one
    "stall": CELL,  # by warp and reason, so far
    "stall_row": CELL,  # by warp of the grid and reason
    "job_row": JOB_ROW,
    "issue_row": ISSUE_ROW,
    "span_row": SPAN_ROW,
    "access": ACCESS,
    "answer": ANSWER,  # by access
    "sector": SECTOR,  # by access and lane
    "asked_bucket": LINK,  # by SM and `ASKED_BUCKETS`: the sectors that are on their way to its L1
    "arrival": ARRIVAL,  # by cycle of a window
    "request": CELL,  # accesses in the order in which L2 serves them in this window
    "cache": CACHE,
    "cache_set": CACHE_SET,
    "line": LINE,
    "bucket": LINK,
    "fetched": CELL,  # by L0 and line, where L0s hold all of the code: when a line is there (`fetch`)
    "second": CELL,  # by SM and line of the second cache of constants: when it is there, plus 1, or 0
    "slice": SLICE,
    "merged": MERGED,  # by group of SMs and place, where reads merge
    "ready": CELL,  # when each sector of each line of L2 is there, in ticks
    "point": POINT,
}
"""The kinds of records, by the name of their table."""

STATE = _record(f"{_CONSTANTS} {_PROGRESS} {_ROOM} " + " ".join(f"{name}_table" for name in TABLES))
"""The root of a run's state: constants of machine and kernel, what there is once, and the address of each
table. ``limit`` is the last cycle that may be simulated; ``steps_left`` counts down to the next return to
Python; each ``thread`` has a state of its own; the fields named
after kinds of rows say how many there is room for, ``..._kept`` how many there are; ``arena`` is the address
of the tables that begin as zeros."""
