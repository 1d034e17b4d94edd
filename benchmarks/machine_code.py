"""How fast machine code goes, on one core and on two: ``python -m benchmarks.machine_code``.

Warp-instructions a second, in processor time, executed alone and executed and timed: a loop of arithmetic
with shared loads (as regular as a convolution), a histogram in shared memory, an atomic that all lanes direct
at one word, and a stream through global memory; then two large grids, sampled; then two threads beside one,
in turn, by the clock, and what two processes at the same time do. The listings are written here, so no
compiler is needed. With a ``.cu`` file and a launch as arguments that kernel goes first. Ratios within one
run are what counts; Accel-Sim's trace mode replays about 100 thousand a second (measured elsewhere).
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smlab.examples import KERNEL
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass import parse_listing
from smlab.hw_bench.sass.image import KernelImage, listed_image
from smlab.sim import Record
from smlab.sim.execution import functional
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.registry import load_kernel
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.launch.launch_file import read_launch

GPU = load_gpu("v100")
REPEATS = 3
REGULAR = [
    "S2R R0, SR_TID.X",
    "IMAD.SHL.U32 R1, R0, 0x4, RZ",
    "STS [R1], R0",
    "BAR.SYNC 0x0",
    "MOV R2, 0x190",
    ".L_x_1:",
    *(f"LDS.U R{8 + n}, [R1+{4 * (n % 3):#x}]" for n in range(4)),
    *(f"FFMA R{16 + n % 12}, R{8 + n % 4}, R{9 + n % 3}, R{16 + n % 12}" for n in range(40)),
    "IADD3 R2, R2, -0x1, RZ",
    "ISETP.GT.AND P0, PT, R2, RZ, PT",
    "@P0 BRA `(.L_x_1)",
    "EXIT",
]
ONE_WORD = [
    "MOV R2, 0x7d0",
    "MOV R3, 0x1",
    "STS [RZ], R3",
    ".L_x_1:",
    "ATOMS.ADD RZ, [RZ], R3",
    "IADD3 R2, R2, -0x1, RZ",
    "ISETP.GT.AND P0, PT, R2, RZ, PT",
    "@P0 BRA `(.L_x_1)",
    "EXIT",
]
STREAM = [
    "S2R R0, SR_TID.X",
    "S2R R1, SR_CTAID.X",
    "MOV R24, c[0x0][0x160]",
    "MOV R25, c[0x0][0x164]",
    "MOV R26, c[0x0][0x168]",
    "MOV R27, c[0x0][0x16c]",
    "IMAD R2, R1, 0x100, R0",
    "IMAD.WIDE.U32 R22, R2, 0x4, R24",
    "LDG.E.SYS R4, [R22]",
    "LDG.E.SYS R5, [R22+0x80]",
    "IMAD.WIDE.U32 R28, R2, 0x4, R26",
    "IADD3 R4, R4, R5, RZ",
    "STG.E.SYS [R28], R4",
    "EXIT",
]


@dataclass(frozen=True)
class CodeSpeed:
    """Warp-instructions a second of processor time."""

    warp_instructions: int
    executed: float
    timed: float


def listed(lines: list[str]) -> KernelImage:
    """Lines as a kernel. Loads set the first scoreboard, which everything waits for that reads them."""
    text = [
        '\t.headerflags\t@"EF_CUDA_SM70 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM70)"',
        '\t.section\t.text.kernel,"ax"',
        "kernel:",
    ]
    address = 0
    for line in lines:
        if line.endswith(":"):
            text.append(line)
            continue
        loads, waits = (
            line.startswith(("LDS", "LDG", "S2R")),
            line.startswith(("FFMA", "IMAD", "IADD3 R4", "STS")),
        )
        code = 2 | (0 if loads else 7) << 5 | 7 << 8 | int(waits) << 11
        text.append(f"        /*{address:04x}*/  {line} ;  /* 0x0000000000000000 */")
        text.append(f"                                /* {code << 41:#018x} */")
        address += 16
    return listed_image(parse_listing("\n".join(text))[0])


def regular_grid(blocks: int) -> MachineLaunch:
    image = listed(REGULAR)
    return MachineLaunch(
        image, (blocks, 1, 1), (256, 1, 1), [], dynamic_shared_bytes=4096, check_shared=False
    )


def regular() -> MachineLaunch:
    return regular_grid(80)


def one_word() -> MachineLaunch:
    return MachineLaunch(listed(ONE_WORD), (80, 1, 1), (256, 1, 1), [], dynamic_shared_bytes=4096)


def histogram() -> MachineLaunch:
    pixels = np.random.default_rng(1).integers(0, 256, 1 << 21).astype(np.uint8)
    bins = np.zeros(256, dtype=np.int32)
    arguments: list[Any] = [pixels, bins, np.int32(len(pixels))]
    return MachineLaunch(
        load_kernel(KERNEL, "sm_70"), (160, 1, 1), (256, 1, 1), arguments, dynamic_shared_bytes=1024
    )


def stream(blocks: int = 10_000) -> MachineLaunch:
    words = np.zeros(256 * blocks + 32, dtype=np.int32)
    return MachineLaunch(listed(STREAM), (blocks, 1, 1), (256, 1, 1), [words, np.zeros_like(words)])


def given(source: Path, launch: Path) -> Callable[[], MachineLaunch]:
    read = read_launch(launch)
    image = load_kernel(source, GPU.sm_architecture)

    def make() -> MachineLaunch:
        return MachineLaunch(
            image,
            read.grid,
            read.block,
            read.arguments,
            read.names,
            dynamic_shared_bytes=read.shared_bytes,
            check_shared=read.check_shared,
        )

    return make


def speed(make: Callable[[], MachineLaunch]) -> CodeSpeed:
    """The best of some runs of each kind."""
    count, alone, timed = 0, [], []
    for _ in range(REPEATS):
        launch = make()
        began = time.process_time()
        count = functional.run(launch).warp_instructions
        alone.append(time.process_time() - began)
        launch = make()
        began = time.process_time()
        run_machine_code(launch, GPU, keep=Record.TOTALS, threads=1)
        timed.append(time.process_time() - began)
    return CodeSpeed(count, count / min(alone), count / min(timed))


def large_grid(make: Callable[[int], MachineLaunch], blocks: int = 10_000) -> tuple[float, float]:
    """Seconds of processor time of a sampled grid, and what the process took at most, in MiB."""
    launch = make(blocks)
    began = time.process_time()
    run_machine_code(launch, GPU, sms=1, keep=Record.TOTALS, threads=1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1 << (20 if sys.platform == "darwin" else 10)
    )
    return time.process_time() - began, peak


def large_histogram() -> MachineLaunch:
    pixels = np.random.default_rng(1).integers(0, 256, 1 << 23).astype(np.uint8)
    arguments: list[Any] = [pixels, np.zeros(256, dtype=np.int32), np.int32(len(pixels))]
    image = load_kernel(KERNEL, "sm_70")
    return MachineLaunch(image, (640, 1, 1), (256, 1, 1), arguments, dynamic_shared_bytes=1024)


LARGE: dict[str, Callable[[], MachineLaunch]] = {
    "a stream through memory": stream,
    "histogram, 8 M pixels": large_histogram,
    "arithmetic and shared loads": lambda: regular_grid(160),
}
"""Kernels on all 80 SMs, long enough for two threads."""


def seconds_on(make: Callable[[], MachineLaunch], threads: int) -> float:
    """The time of a run by the clock."""
    launch = make()
    began = time.perf_counter()
    run_machine_code(launch, GPU, keep=Record.TOTALS, threads=threads)
    return time.perf_counter() - began


def _seconds_beside(name: str, ready: Any, seconds: Any) -> None:
    """One run of a child, which waits until the other child is ready."""
    seconds_on(LARGE[name], 1)
    ready.wait()
    seconds.put(seconds_on(LARGE[name], 1))


def seconds_of_two(name: str) -> float:
    """The time of a run while another process makes the same one."""
    context = multiprocessing.get_context("spawn")
    ready, seconds = context.Barrier(2), context.Queue()
    both = [context.Process(target=_seconds_beside, args=(name, ready, seconds)) for _ in range(2)]
    for process in both:
        process.start()
    slower = max(float(seconds.get()) for _ in both)
    for process in both:
        process.join()
    return slower


def on_two_threads() -> None:
    """Two threads beside one, and beside what the machine's cores give to two processes."""
    print(f"\n{'80 SMs, by the clock':32}{'1 thread':>12}{'2 threads':>12}{'ratio':>8}{'2 processes':>14}")
    for name, make in LARGE.items():
        one, two = [], []
        for _ in range(REPEATS):
            one.append(seconds_on(make, 1))
            two.append(seconds_on(make, 2))
        at_best = 2 * min(one) / seconds_of_two(name)
        ratio = min(one) / min(two)
        print(f"{name:32}{min(one):10.2f} s{min(two):10.2f} s{ratio:8.2f}{at_best:14.2f}", flush=True)


def main() -> None:
    works: dict[str, Callable[[], MachineLaunch]] = {}
    if len(sys.argv) == 3:
        works[Path(sys.argv[1]).name] = given(Path(sys.argv[1]), Path(sys.argv[2]))
    works |= {
        "arithmetic and shared loads": regular,
        "histogram": histogram,
        "32 lanes on one word": one_word,
        "a stream through memory": stream,
    }
    speed(one_word)  # compiled, or loaded from the cache
    large_grid(stream, 1000)
    print(f"{'a second of processor time':32}{'executed':>12}{'and timed':>12}{'ratio':>8}")
    for name, make in works.items():
        found = speed(make)
        ratio = found.executed / found.timed
        print(f"{name:32}{found.executed / 1e6:10.1f} M{found.timed / 1e6:10.1f} M{ratio:8.1f}", flush=True)
    for name, make_grid in (("arithmetic", regular_grid), ("a stream", stream)):
        seconds, peak = large_grid(make_grid)
        print(f"{f'{name}, 10,000 blocks, sampled':44}{seconds:6.2f} s{peak:8.0f} MiB at most", flush=True)
    on_two_threads()


if __name__ == "__main__":
    main()
