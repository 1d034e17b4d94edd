"""Published measurements made again on the simulator: one function an experiment, of a GPU and its
parameters.

Each writes the loop out that the measurement had, as far as it is known, and gives what it gave, in its
unit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.address_patterns import Affine, Grouped, RandomWords, SharedPattern, Strided
from smlab.sim.reference import Record
from smlab.sim.result import SimResult
from smlab.sim.simulate import simulate
from smlab.sim.workloads.atomics_benchmark import atomics
from smlab.sim.workloads.histogram import share_of
from smlab.sim.workloads.workload import Duration, Instruction, Kernel, Loop, Program

ITERATIONS: Final = 200
_SHARED_BYTES: Final = 32 * 1024


def _run(gpu: Gpu, body: tuple[Instruction | Loop, ...], warps: int = 1, blocks: int = 1) -> SimResult:
    kernel = Kernel("evidence", (Program("p", body),), ((0,) * warps,), blocks, _SHARED_BYTES)
    return simulate(kernel, gpu, keep=Record.ALL)


def _issues(result: SimResult, warp: int = 0) -> NDArray[np.int64]:
    assert result.issues is not None
    found: NDArray[np.int64] = result.issues.cycle[result.issues.warp == warp]
    return found


def _cycles(gpu: Gpu, body: tuple[Instruction, ...], warps: int, count: int = ITERATIONS) -> float:
    """Cycles an iteration of a loop by all warps together, from the difference of two counts."""
    times = [_run(gpu, (Loop(k, body),), warps).cycles for k in (count, 2 * count)]
    return (times[1] - times[0]) / count


def issue_cycle(gpu: Gpu, busy: int, number: int, subcore: int) -> float:
    """The cycle in which the ``number``-th of independent shared loads issues, the first in cycle 2."""
    result = _run(gpu, (Instruction("shared-load"),) * number, warps=busy)
    first = min(int(_issues(result, w)[0]) for w in range(busy))
    return float(_issues(result, subcore)[-1] - first + 2)


def access_latency(gpu: Gpu, op: str, width: int = 32, uniform: bool = False, reads: bool = False) -> float:
    """Cycles from an access to the use of its result, or to the overwriting of its operand; L1 holds the
    line."""
    pause = Instruction("think", name="t", duration=Duration(3000))
    warm = (
        (Instruction("global-load", width=width), pause) if op in ("global-load", "async-copy") else (pause,)
    )
    access = Instruction(op, name="x", after=("t",), width=width, uniform=uniform)
    use = Instruction("fp32", after_read=("x",)) if reads else Instruction("fp32", after=("x",))
    issues = _issues(_run(gpu, (*warm, access, use)))
    return float(issues[-1] - issues[-2])


def barrier(gpu: Gpu, warps: int, blocks: int = 1) -> float:
    """Cycles a round of a loop of barriers."""
    result = _run(gpu, (Loop(60, (Instruction("barrier"),)),), warps, blocks)
    issues = _issues(result)
    return float(issues[-1] - issues[20]) / (len(issues) - 21)


def load_conflicts(gpu: Gpu, ways: int, over: int) -> float:
    """Time of ``ways``-way conflicted shared loads over that of ``over``-way ones, with 32 warps."""

    def time(way: int) -> float:
        load = Instruction("shared-load", shared=Strided(way))
        return _cycles(gpu, (load,) * 8, warps=32, count=20)

    return time(ways) / time(over)


def _pattern(words: str) -> SharedPattern:
    patterns: dict[str, SharedPattern] = {
        "own-bank": Strided(1),
        "one-bank": Strided(32),
        "one-word": Grouped(32),
        "two-words": Grouped(16, 2),
        "eight-words": Grouped(1, 8),
    }
    return patterns[words]


def atomic_rate(gpu: Gpu, op: str, warps: int, words: str, unrolled: int = 4) -> float:
    """Warp-instructions a cycle of returning atomics by many warps, ``unrolled`` of each under way at a time,
    whose results are added up. (How many were under way is not published; with one, 32 warps cannot hide the
    latency.)"""
    names = [f"x{i}" for i in range(unrolled)]
    atomics = tuple(Instruction(op, name=n, shared=_pattern(words)) for n in names)
    sums = tuple(Instruction("int32", after=(n,)) for n in names)
    result = _run(gpu, (Loop(ITERATIONS, (*atomics, *sums)),), warps)
    assert result.jobs is not None
    # While all warps are there: the policy lets some finish sooner than others.
    end = int(result.warps.finish.min())
    begin = end // 4
    return float(((result.jobs.end > begin) & (result.jobs.end <= end)).sum() / (end - begin))


def looped_adds(gpu: Gpu, lanes: int, warps: int = 8) -> float:
    """Cycles a shared add, with ``lanes`` on each word, by warps of one block in a loop, each of which waits
    for its add before the next one."""
    result = simulate(atomics(warps=warps, same_word=lanes, iterations=ITERATIONS, returns=True), gpu)
    return result.cycles / result.warp_instructions


def atomic_chain(gpu: Gpu, op: str, lanes: int = 1) -> float:
    """Cycles from one returning atomic to the next that needs its result."""
    return _cycles(gpu, (Instruction(op, name="x", after=("x",), lanes=lanes, shared=Strided(0)),), 1)


def atomic_interval(gpu: Gpu, op: str, unrolled: int = 16) -> float:
    """Cycles between atomics of one warp and lane whose results nobody wants, unrolled, loop control
    included."""
    atomic = Instruction(op, lanes=1, shared=Strided(32), returns=False)
    return _cycles(gpu, _loop(*(atomic,) * unrolled), 1) / unrolled


def atomic_loop(gpu: Gpu, op: str, words: str, returns: bool = False) -> float:
    """Cycles an iteration of one warp's loop that is not unrolled: an atomic, and the addition of its result
    if it has one."""
    atomic = Instruction(op, name="x", shared=_pattern(words), returns=returns)
    use = (Instruction("int32", name="sum", after=("x", "sum")),) if returns else ()
    return _cycles(gpu, _loop(atomic, *use), 1)


def _loop(*body: Instruction) -> tuple[Instruction, ...]:
    """A loop's body with its control, in the form that was disassembled on a Thor: counting and comparing on
    the uniform pipe, as early as they can be, and a branch, before whose end nothing goes on."""
    return (
        body[0],
        Instruction("uniform", name="count"),
        Instruction("uniform", name="compare", after=("count",)),
        *body[1:],
        Instruction("control", name="branch", after=("compare",)),
        Instruction("control", after=("branch",)),
    )


def hand_over(gpu: Gpu) -> float:
    """Cycles a compare-and-swap takes that two lanes of one warp hand each other, the loop included."""
    body = (
        Instruction("atomic-cas", name="x", after=("branch", "next"), lanes=2, shared=Strided(0)),
        Instruction("int32", name="compare", after=("x",)),
        Instruction("int32", name="next", after=("compare",)),
        Instruction("int32", name="end", after=("next",)),
        Instruction("control", name="branch", after=("end",)),
    )
    return _cycles(gpu, body, 1)


def counting_loop(gpu: Gpu, warps: int) -> float:
    """Cycles an operation of ``warps`` warps that count in their own words, a loop that is not unrolled."""
    body = _loop(Instruction("atomic-popc-inc", shared=Strided(1), returns=False))
    return _cycles(gpu, body, warps) / warps


def random_counting(gpu: Gpu, warps: int, blocks: int = 1) -> float:
    """Cycles an operation of warps on one SM that count in random words of 32 KiB, unrolled, and do nothing
    else."""
    atomic = Instruction("atomic-popc-inc", shared=RandomWords(32 * 256), returns=False)
    times = [_run(gpu, (Loop(k, (atomic,) * 8),), warps, blocks).cycles for k in (10, 20)]
    return (times[1] - times[0]) / (80 * warps * blocks)


def load_latency(gpu: Gpu, level: str) -> float:
    """Cycles from one load of a lane to the next that needs its result: the same line of L1 (``l1``), new
    lines that L2 holds (``l2``) or does not (``dram``)."""
    line = gpu.integer("l1.line_bytes")
    memory = Affine(4, 0, 0 if level == "l1" else line, 0)
    load = Instruction("global-load", name="x", after=("x",), lanes=1, memory=memory)

    def cycles(count: int) -> int:
        held = (0, count * line) if level == "l2" else (0, 0)
        program = Program("p", (Loop(count, (load,)),))
        return simulate(Kernel("latency", (program,), ((0,),), 1, in_l2=held), gpu).cycles

    return (cycles(128) - cycles(64)) / 64


def load_rate(gpu: Gpu, level: str, sms: int = 4) -> float:
    """Bytes a cycle that an SM loads from L1 (``l1``), or GB/s that all load from L2 (``l2``), of which a
    share is simulated: 32 warps on each SM, 16 bytes a lane."""
    part, warps = share_of(gpu, sms), 32 * sms
    size, count = 512 * warps, 32
    stride = 0 if level == "l1" else size
    load = Instruction("global-load", memory=Affine(16, 512, stride, 0), width=128)

    def cycles(rounds: int) -> int:
        held = (0, size * rounds) if level == "l2" else (0, 0)
        program = Program("p", (Loop(rounds, (load,)),))
        kernel = Kernel("loads", (program,), ((0,) * 32,), sms, sms=sms, in_l2=held)
        return simulate(kernel, part, keep=Record.TOTALS).cycles

    per_cycle = size * count / (cycles(2 * count) - cycles(count))
    if level == "l1":
        return per_cycle / sms
    return per_cycle * gpu.number("clock.sm_hz") * gpu.integer("gpu.sms") / sms / 1e9


def triad(gpu: Gpu, sms: int = 4, mebibytes: int = 16) -> float:
    """GB/s of a[i] = b[i] + s c[i] on a share of the GPU: as many SMs and as much of L2 and DRAM as they are
    of all. 32 warps a block, two blocks an SM, each thread one 16-byte element an iteration.

    From the difference of two lengths, the longer of ``mebibytes`` an array. A benchmark repeats its kernel,
    and what L2 holds unwritten at the end of one launch is written in the next; one launch alone from a clean
    L2 would be let off these lines.
    """
    whole = gpu.integer("gpu.sms")
    way = gpu.integer("l2.ways") * gpu.integer("l1.line_bytes")
    lines = max(1, round(gpu.integer("l2.bytes") * sms / whole / way))
    part = share_of(gpu, sms).with_values({"l2.bytes": lines * way}, source="assumed: a share of the GPU")
    warps = 32 * 2 * sms
    half = mebibytes * 2**19 // (warps * 512)
    room = 2 * half * warps * 512 + 2**20

    def access(op: str, name: str, array: int, *after: str) -> Instruction:
        memory = Affine(16, 512, warps * 512, array * room)
        return Instruction(op, name=name, after=after, memory=memory, width=128)

    body = (
        access("global-load", "b", 1),
        access("global-load", "c", 2),
        Instruction("fp32", name="a", after=("b", "c")),
        access("global-store", "", 0, "a"),
    )

    def cycles(rounds: int) -> int:
        program = Program("triad", (Loop(rounds, body),))
        kernel = Kernel("triad", (program,), ((0,) * 32,), 2 * sms, sms=sms)
        return simulate(kernel, part, keep=Record.TOTALS).cycles

    seconds = (cycles(2 * half) - cycles(half)) / gpu.number("clock.sm_hz")
    return 3 * half * warps * 512 / seconds * whole / sms / 1e9


EXPERIMENTS: Final[dict[str, Callable[..., float]]] = {
    f.__name__: f
    for f in (
        issue_cycle,
        access_latency,
        barrier,
        load_conflicts,
        atomic_rate,
        looped_adds,
        atomic_chain,
        atomic_interval,
        atomic_loop,
        hand_over,
        counting_loop,
        random_counting,
        load_latency,
        load_rate,
        triad,
    )
}
"""By the name that a row of evidence gives."""
