"""How fast the engines are, side by side in one run: ``python -m benchmarks.engines``.

Each figure is the best of three runs (of the SimPy engine, one) on one thread, both engines on the same
kernel but for the 80-SM mix, of which SimPy runs two of 500 rounds. The last section is the compiled engine's
profile: what a warp-instruction costs with each recording, and in kernels that add one mechanism at a time (a
sampling profiler sees one inlined function), beside the bare traffic of an instruction's records.
"""

from __future__ import annotations

import dataclasses
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numba import njit

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Instruction, Kernel, Loop, Program, Record, atomics, compiled, reference
from smlab.sim.address_patterns import Affine
from smlab.sim.compiled.service_tables import batch_cycles, looped_cycles
from smlab.sim.lowering import LoweredKernel, lower
from smlab.sim.machine import machine_from

REPEATS = 3
MACHINE = machine_from(load_gpu("v100"))


@dataclass(frozen=True)
class Speed:
    """Warp-instructions a second, in millions."""

    compiled: float
    simpy: float

    @property
    def ratio(self) -> float:
        return self.compiled / self.simpy


def best(run: Callable[[], object], repeats: int = REPEATS) -> float:
    """Seconds of the fastest of some runs."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return min(times)


def atomics_kernel(iterations: int, same_word: int) -> LoweredKernel:
    return lower(atomics(warps=32, iterations=iterations, same_word=same_word), MACHINE)


def mix(iterations: int, sms: int = 1) -> LoweredKernel:
    """32 warps on each SM: an atomic, a shared load, and an addition that needs it."""
    body = (
        Instruction("atomic-add", returns=False),
        Instruction("shared-load", name="x"),
        Instruction("int32", after=("x",)),
    )
    program = Program("mix", (Loop(iterations, body),))
    return lower(Kernel("mix", (program,), ((0,) * 32,), sms, 4096, sms=sms), MACHINE)


def image(warp_iterations: int = 131_072, sms: int = 80) -> LoweredKernel:
    """A 4-megapixel image's worth of work: each warp-iteration has 4 loads, 20 arithmetic instructions, 4
    atomics."""
    each = 16
    loads = tuple(
        Instruction("global-load", name=f"x{n}", memory=Affine(4, 128 * each * 4, 512, 128 * n))
        for n in range(4)
    )
    work = tuple(Instruction("int32", name=f"y{n}", after=(f"x{n % 4}",)) for n in range(20))
    bins = tuple(Instruction("atomic-add", after=(f"y{n}",), returns=False) for n in range(4))
    program = Program("image", (Loop(each, (*loads, *work, *bins)),))
    blocks = warp_iterations // each // 8
    return lower(Kernel("image", (program,), ((0,) * 8,), blocks, 4096, sms=sms), MACHINE)


def compare(make: Callable[[int], LoweredKernel], long: int, short: int) -> Speed:
    """Both engines on the same kind of kernel, the totals alone."""
    of_compiled, of_simpy = make(long), make(short)
    return Speed(
        of_compiled.kernel.warp_instructions
        / best(lambda: compiled.run(of_compiled, Record.TOTALS, threads=1))
        / 1e6,
        of_simpy.kernel.warp_instructions
        / best(lambda: reference.run(of_simpy, Record.TOTALS), repeats=1)
        / 1e6,
    )


def one_thing_at_a_time(count: int = 64_000) -> dict[str, LoweredKernel]:
    """Kernels of ``count`` warp-instructions, each of which asks one mechanism more of the engine than one
    before it."""

    def kernel(instruction: Instruction, warps: int = 32) -> LoweredKernel:
        program = Program("p", (Loop(count // warps, (instruction,)),))
        return lower(Kernel("k", (program,), ((0,) * warps,), 1, 4096), roomy)

    # A pipe and queues that are never in the way, so that waiting for them comes in only where it is meant
    # to.
    pipes = {name: dataclasses.replace(pipe, interval_cycles=1) for name, pipe in MACHINE.pipes.items()}
    roomy = dataclasses.replace(MACHINE, pipes=pipes)
    add = Instruction("int32", name="x")
    after = Instruction("int32", name="x", after=("x",))
    load = Instruction("global-load", name="x", after=("x",), memory=Affine(iteration_stride_bytes=0))
    return {
        "issue: one warp a scheduler": kernel(add, 4),
        "choose: eight warps a scheduler": kernel(add),
        "wait for a fixed latency": kernel(after, 4),
        "queue and throttle: shared loads": kernel(Instruction("shared-load")),
        "meters of the atomic unit as well": kernel(Instruction("atomic-add", returns=False)),
        "scoreboard: each atomic waits for its result": kernel(
            Instruction("atomic-add", name="x", after=("x",))
        ),
        "barrier": kernel(Instruction("barrier")),
        "L1: each load waits for its hit": kernel(load),
    }


@njit(nogil=True)
def _moves(steps: int, state: np.ndarray) -> int:
    """One record of 128 bytes read and written a step, and a ring of 16: the traffic that an issue cannot
    do without."""
    total = 0
    for n in range(steps):
        row = state[(n * 7) & 31]
        for k in range(8):
            row[2 * k] += row[2 * k + 1] + n
        state[32 + (n & 15), 0] = row[0]
        total += state[32 + ((n + 1) & 15), 0]
    return total


def main() -> None:
    compiled.run(lower(atomics(), MACHINE), Record.TOTALS)  # compiled, or loaded from the cache
    processors = len(os.sched_getaffinity(0))
    print(f"{'warp-instructions a second':34}{'compiled':>12}{'SimPy':>12}{'ratio':>8}")
    for name, make, long, short in (
        ("atomics 32 x 2,000, no conflicts", lambda n: atomics_kernel(n, 1), 2000, 2000),
        ("atomics 32 x 2,000, 32-way", lambda n: atomics_kernel(n, 32), 2000, 2000),
        ("mix, one SM", mix, 2000, 2000),
        ("mix 500 x, 80 SMs", lambda n: mix(n, 80), 500, 2),
    ):
        speed = compare(make, long, short)
        print(f"{name:34}{speed.compiled:10.2f} M{speed.simpy * 1e3:10.1f} k{speed.ratio:8.0f}")
    print()
    for name, lowered in (("mix 500 x, 80 SMs", mix(500, 80)), ("image, 80 SMs", image())):
        for threads in (1, processors):
            run_s = best(partial(compiled.run, lowered, Record.TOTALS, threads=threads))
            speed_m = lowered.kernel.warp_instructions / run_s / 1e6
            print(f"{name + f', {threads} threads':34}{speed_m:10.2f} M{run_s:10.3f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1 << (20 if sys.platform == "darwin" else 10)
    )
    print(f"{'peak memory so far':34}{peak:10.0f} MiB")
    print()
    points = np.array([(n, e, c) for n in range(1, 65) for e in range(1, 33) for c in range(n + 1)]).T
    batch_cycles(MACHINE, "add", 1, 1, 0)
    for name, table in (("batch", batch_cycles), ("looped", looped_cycles)):
        for threads in (1, processors):
            seconds = best(partial(table, MACHINE, "add", *points, threads=threads))
            print(f"{f'table, {name}, {points.shape[1]} points, {threads} threads':44}{seconds:6.2f} s")
    tiny = lower(atomics(warps=1), MACHINE)
    print(f"{'one kernel of one instruction':44}{best(lambda: compiled.run(tiny)) * 1e6:6.0f} us")
    print()
    lowered = atomics_kernel(2000, 32)
    count = lowered.kernel.warp_instructions
    for keep in Record:
        nanoseconds = best(partial(compiled.run, lowered, keep)) / count * 1e9
        print(f"{f'atomics 32-way, {keep.name}':44}{nanoseconds:6.1f} ns an instruction")
    for name, alone in one_thing_at_a_time().items():
        nanoseconds = best(partial(compiled.run, alone, Record.TOTALS)) / alone.kernel.warp_instructions * 1e9
        print(f"{name:44}{nanoseconds:6.1f} ns an instruction")
    state = np.zeros((48, 16), dtype=np.int64)
    _moves(1, state)
    nanoseconds = best(lambda: _moves(10 * count, state)) / count / 10 * 1e9
    print(f"{'array traffic alone':44}{nanoseconds:6.1f} ns an instruction")


if __name__ == "__main__":
    main()
