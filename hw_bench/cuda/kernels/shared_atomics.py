"""Benchmark ``shared-atomics``: T(n, e, c) of the shared-memory atomic unit, all at once and in a steady
state.

A *point* is n warps on one SM, c of which do compare-and-swap and the others one other operation, on the
words of a *pattern*: which lanes are active and which word each touches. Words are known only at run time, so
that the compiler cannot merge lanes. One launch measures many points: each SM takes the next from a queue.
For more than 32 warps, two blocks share an SM and its points; that they do is read from ``%smid``, and a
block without a partner measures nothing.

Times are of the SM's clock: first start, last start and last finish over all warps of a block. In the
``batch`` form, each warp does one operation. In the ``dependent`` form, each operation needs the result of
the warp's last one (through one logical instruction); in the ``independent`` form, several of a warp are
under way. The ``burst`` form ends when its last operation is issued, which tells how many the unit's queue
takes. A batch without results is followed by one load of its word, so that the finish is the load's; a stream
without results by one operation with a result.
The operation ``none`` times the frame around the operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

from smlab.hw_bench.cuda.kernels.atomic_cores import (
    BODY,
    BURSTS,
    STREAM,
    add,
    add_one,
    batch_core,
    burst_core,
    compare_and_swap,
    dependent_core,
    exchange,
    independent_core,
    link_float,
    maximum,
    nothing,
)
from smlab.hw_bench.cuda.kernels.device import cuda, float32, int32, int64, settle, sm_id, uint32
from smlab.hw_bench.cuda.kernels.points import END, MAX_WARPS, meet, next_point, take_seat
from smlab.hw_bench.cuda.kernels.spec import Count, KernelSpec, Timed, exactly, up_to

BENCHMARK: Final = "shared-atomics"
WORDS: Final = 1024
"""Words of shared memory of a block that patterns may touch."""
WARPS, CAS_WARPS, PATTERN, WARP_STRIDE = range(4)
"""Columns of a point: n, c, row of the patterns, words between the patterns of one warp and the next."""
POINT_COLUMNS: Final = 4
FIRST_START, LAST_START, LAST_FINISH = range(3)
"""Columns of a sample, in cycles of the SM's clock."""
SAMPLE_COLUMNS: Final = 3
TOTAL, BY_WORD = range(2)
"""Columns of the sums of a block's words after the last repetition: of their values, and of each value times
the square of its word's number plus 1, by which a value in the wrong word is found."""
SUM_COLUMNS: Final = 2

COUNTS_FROM: Final = 80
"""The architecture from which on the assembler has the counting form. Before, adding the constant 1 is an
addition that first puts the 1 into a register, behind the clock; there the number is one that is read."""


def point_kernel(core: Any, number: Any, cas_core: Any = None) -> Callable[..., None]:
    """The kernel around a timed core; ``cas_core``, if given, is what the first c warps do instead."""
    may_swap = cas_core is not None
    swap_core = cas_core if may_swap else core

    def kernel(
        points: Any,
        patterns: Any,
        numbers: Any,
        queue: Any,
        desks: Any,
        samples: Any,
        places: Any,
        sums: Any,
        repetitions: Any,
        blocks: Any,
        iterations: Any,
    ) -> None:
        words = cuda.shared.array(WORDS, number)
        note = cuda.shared.array(4, int32)
        starts = cuda.shared.array(MAX_WARPS, int64)
        finishes = cuda.shared.array(MAX_WARPS, int64)
        thread = uint32(cuda.threadIdx.x)
        threads = uint32(cuda.blockDim.x)
        lane = thread & uint32(31)
        warp = thread >> uint32(5)
        zero, one = numbers[0], numbers[1]
        settle(zero)
        settle(one)

        if thread == 0:
            note[0] = sm_id()
            note[1] = take_seat(desks, queue, note[0], blocks)
        cuda.syncthreads()
        sm, seat = uint32(note[0]), note[1]
        if seat < 0:
            return
        turn = int32(0)
        meeting = int32(0)
        while True:
            if thread == 0:
                note[2] = next_point(desks, queue, sm, seat, blocks, turn, points.shape[0])
                note[3] = 1
            cuda.syncthreads()
            if note[2] == END:
                return
            point = uint32(note[2])
            all_warps = uint32(points[point, WARPS])
            first_half = (all_warps + uint32(1)) >> uint32(1)
            warps = all_warps
            place = warp
            if blocks == 2:
                warps = first_half if seat == 0 else uint32(all_warps - first_half)
                place = warp if seat == 0 else uint32(warp + first_half)
            listed = patterns[uint32(points[point, PATTERN]), lane]
            active = warp < warps and listed >= 0
            word = uint32(
                (uint32(max(listed, int32(0))) + place * uint32(points[point, WARP_STRIDE]))
                & uint32(WORDS - 1)
            )
            swaps = place < uint32(points[point, CAS_WARPS])
            repetition = uint32(0)
            while repetition < uint32(repetitions):
                index = thread
                while index < uint32(WORDS):
                    words[index] = 0
                    index = uint32(index + threads)
                cuda.syncthreads()
                if blocks == 2 and thread == 0:
                    meeting += int32(1)
                    note[3] = 1 if meet(desks, sm, meeting) else 0
                # Every warp waits for a load that comes behind its stores: what is still on its way to the
                # banks when the clock starts would be measured, too. (A load of what the same thread has just
                # stored would not do: the compiler knows its value, if no barrier is between.)
                settle(words[thread])
                cuda.syncthreads()
                if active:
                    if may_swap and swaps:
                        start, finish = swap_core(words, word, one, zero, iterations)
                    else:
                        start, finish = core(words, word, one, zero, iterations)
                    if lane == 0:
                        starts[warp] = start
                        finishes[warp] = finish
                cuda.syncthreads()
                if note[3] == 0:
                    return
                if thread == 0:
                    first = last = starts[0]
                    end = finishes[0]
                    other = uint32(1)
                    while other < warps:
                        first = min(first, starts[other])
                        last = max(last, starts[other])
                        end = max(end, finishes[other])
                        other = uint32(other + uint32(1))
                    row = uint32(seat)
                    samples[point, repetition, row, FIRST_START] = first
                    samples[point, repetition, row, LAST_START] = last
                    samples[point, repetition, row, LAST_FINISH] = end
                repetition = uint32(repetition + uint32(1))
            if thread == 0:
                places[point, uint32(seat)] = int32(sm)
            index = thread
            while index < uint32(WORDS):
                if words[index] != 0:
                    counted = int64(words[index])
                    cuda.atomic.add(sums, (point, uint32(seat), TOTAL), counted)
                    cuda.atomic.add(
                        sums, (point, uint32(seat), BY_WORD), counted * int64(index * index + uint32(1))
                    )
                index = uint32(index + threads)
            cuda.syncthreads()
            turn += int32(1)

    return kernel


def point_signature(number: str) -> str:
    return (
        f"void(int32[:,::1], int32[:,::1], {number}[::1], int32[::1], int32[:,::1], int64[:,:,:,::1], "
        "int32[:,::1], int64[:,:,::1], int32, int32, int32)"
    )


def loop_extras(architecture: int) -> dict[str, Count]:
    """Before Ampere, the assembler ends each turn of a loop in divergent code with votes, so that all
    lanes progress."""
    return {"VOTE": up_to(2), "VOTEU": up_to(1)} if architecture < 80 else {}


def _timed(name: str, instruction: str, form: str, used: bool) -> Callable[[int], Timed]:
    """What one operation's timed region must be: the instruction, its closing load, and little else."""

    def expect(architecture: int) -> Timed:
        if form == "batch":
            counts = {instruction: exactly(1)} if instruction else {}
            closing = {} if used else {"LDS": exactly(1)}
            others = 2  # compare and leave
            waits_for = instruction if used else "LDS"
            return Timed(
                name, "between", counts | closing, others, waits_for or None, anywhere=instruction or None
            )
        stream = form == "independent" and used
        body = STREAM if stream else BODY
        counts = {instruction: exactly(body)} if instruction else {}
        # Counter, comparison, branch and a constant; a logical instruction for each link of a chain, and in a
        # chain of compare-and-swaps the old value beside the new one.
        others = 4 + (5 if architecture < 80 else 0)
        if form == "dependent":
            others += 2 * BODY if name == "compare-and-swap" else BODY
        if stream:  # results are added up as they come, and some are moved at a turn's end
            others += STREAM + (4 if architecture >= 100 else 0)
        return Timed(
            name,
            "loop",
            counts | loop_extras(architecture),
            others,
            waits_for=(instruction or None) if used else "ATOMS.ADD",
            independent=(instruction or None) if stream else None,
            chained=(instruction or None) if form == "dependent" else None,
            anywhere=instruction or None,
            step=body,
        )

    return expect


def _expect(instruction: Callable[[int], str], form: str, used: bool) -> Callable[[int], tuple[Timed, ...]]:
    def expect(architecture: int) -> tuple[Timed, ...]:
        main = _timed("operation", instruction(architecture), form, used)(architecture)
        return main, _timed("compare-and-swap", "ATOMS.CAS", form, used)(architecture)

    return expect


def _expect_burst(architecture: int) -> tuple[Timed, ...]:
    """Nothing but the operations, for each length; Blackwell puts moves of address and clock between."""
    others = 2 if architecture >= 100 else 0
    return tuple(
        Timed(
            f"burst of {length}",
            "between",
            {"ATOMS.ADD": exactly(length)},
            others=others,
            unhindered="ATOMS.ADD",
            anywhere="ATOMS.ADD",
        )
        for length in BURSTS
    )


def _expect_float(form: str) -> Callable[[int], tuple[Timed, ...]]:
    """A float addition is a loop of a load and a compare-and-swap, one for each lane in turn."""

    def expect(architecture: int) -> tuple[Timed, ...]:
        times = 1 if form == "batch" else BODY
        counts = {"LDS": exactly(times), "ATOMS.CAST.SPIN": exactly(times)}
        part: Literal["between", "loop"] = "between" if form == "batch" else "loop"
        timed = Timed("operation", part, counts | loop_extras(architecture), others=8 * times + 12)
        return (timed,)

    return expect


def _always(name: str) -> Callable[[int], str]:
    return lambda architecture: name


def _popc_inc(architecture: int) -> str:
    return "ATOMS.POPC.INC" if architecture >= COUNTS_FROM else "ATOMS.ADD"


_NO_FLOAT_ADD_FROM: Final = 100
"""Numba adds floats to shared memory by an intrinsic that NVVM no longer takes for Blackwell."""


def _spec(
    operation: str,
    form: str,
    core: Any,
    cas_core: Any,
    expect: Any,
    number: str = "int32",
    older_core: Any = None,
) -> KernelSpec:
    """``older_core`` is timed in the place of ``core`` where the assembler has no counting form."""
    words = {"int32": int32, "float32": float32}[number]
    return KernelSpec(
        benchmark=BENCHMARK,
        name=f"{operation}/{form}",
        function=point_kernel(core, words, cas_core),
        signature=point_signature(number),
        expect=expect,
        launch_bounds=(32 * MAX_WARPS, 2),
        none_from=_NO_FLOAT_ADD_FROM if number == "float32" else None,
        older=None if older_core is None else (COUNTS_FROM, point_kernel(older_core, words, cas_core)),
    )


def _specs() -> tuple[KernelSpec, ...]:
    specs = []
    for operation, operate, instruction in (
        ("none", nothing, _always("")),
        ("add-result", add, _always("ATOMS.ADD")),
        ("max", maximum, _always("ATOMS.MAX")),
        ("exchange", exchange, _always("ATOMS.EXCH")),
    ):
        batch = batch_core(operate, True), batch_core(compare_and_swap, True)
        specs.append(_spec(operation, "batch", *batch, _expect(instruction, "batch", True)))
        chain = dependent_core(operate), dependent_core(compare_and_swap)
        specs.append(_spec(operation, "dependent", *chain, _expect(instruction, "dependent", True)))
    stream = independent_core(add, True), independent_core(compare_and_swap, True)
    specs.append(
        _spec("add-result", "independent", *stream, _expect(_always("ATOMS.ADD"), "independent", True))
    )
    for operation, operate, older, instruction in (
        ("add", add, None, _always("ATOMS.ADD")),
        ("popc-inc", add_one, add, _popc_inc),
    ):
        for form, core in (("batch", batch_core), ("independent", independent_core)):
            cores = core(operate, False), core(compare_and_swap, False)
            before = older and core(older, False)
            expect = _expect(instruction, form, False)
            specs.append(_spec(operation, form, *cores, expect, older_core=before))
    specs.append(_spec("add", "burst", burst_core(add), None, _expect_burst))
    core = batch_core(add, True)
    specs.append(_spec("float-add", "batch", core, None, _expect_float("batch"), "float32"))
    core = dependent_core(add, link_float)
    specs.append(_spec("float-add", "dependent", core, None, _expect_float("dependent"), "float32"))
    return tuple(specs)


KERNELS: Final = _specs()
