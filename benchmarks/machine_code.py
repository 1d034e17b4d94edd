"""How fast machine code goes, on one core and on two: ``python -m benchmarks.machine_code``.

Warp-instructions a second of whole grids, each beside what was asked: executed alone and executed and timed,
in processor time of one core; two threads beside one, in turn, by the clock. Then two large grids, sampled,
and what two processes at the same time do. With ``--write`` the figures go into ``speeds.json``, the README
and the page on speed. Listings are written here; kernels by others need the CUDA compiler and the folder of
measurements by others, and a line says so where one is missing. With a ``.cu`` file and a launch as arguments
only that kernel is run. Accel-Sim's trace mode replays about 100 thousand a second (measured elsewhere).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import re
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kernels_by_others import CONVOLUTION_GPU, DATA, SGEMM_GPU, convolution, sgemm
from smlab.examples import KERNEL
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
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
    """Millions of warp-instructions a second of processor time, ``executed`` alone and ``timed`` on one core;
    ``two_threads`` is the time of one thread over that of two, by the clock."""

    warp_instructions: int
    executed: float
    timed: float
    two_threads: float


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


def one_word() -> MachineLaunch:
    return MachineLaunch(listed(ONE_WORD), (80, 1, 1), (256, 1, 1), [], dynamic_shared_bytes=4096)


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


def speed(make: Callable[[], MachineLaunch], gpu: Gpu = GPU) -> CodeSpeed:
    """The best of some runs of each kind, in turn."""
    count, alone, timed, walls = 0, [], [], {1: [], 2: []}  # type: ignore[var-annotated]
    for _ in range(REPEATS):
        launch = make()
        began = time.process_time()
        count = functional.run(launch).warp_instructions
        alone.append(time.process_time() - began)
        for threads, seconds in walls.items():
            launch = make()
            began, cpu = time.perf_counter(), time.process_time()
            run_machine_code(launch, gpu, keep=Record.TOTALS, threads=threads)
            seconds.append(time.perf_counter() - began)
            if threads == 1:
                timed.append(time.process_time() - cpu)
    millions = count / 1e6
    return CodeSpeed(count, millions / min(alone), millions / min(timed), min(walls[1]) / min(walls[2]))


def large_grid(make: Callable[[int], MachineLaunch], blocks: int = 10_000) -> tuple[float, float]:
    """Seconds of processor time of a sampled grid, and what the process took at most, in MiB."""
    launch = make(blocks)
    began = time.process_time()
    run_machine_code(launch, GPU, sms=1, keep=Record.TOTALS, threads=1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1 << (20 if sys.platform == "darwin" else 10)
    )
    return time.process_time() - began, peak


def histogram(blocks: int = 160, pixels: int = 1 << 21) -> MachineLaunch:
    values = np.random.default_rng(1).integers(0, 256, pixels).astype(np.uint8)
    arguments: list[Any] = [values, np.zeros(256, dtype=np.int32), np.int32(pixels)]
    image = load_kernel(KERNEL, "sm_70")
    return MachineLaunch(image, (blocks, 1, 1), (256, 1, 1), arguments, dynamic_shared_bytes=1024)


def large_histogram() -> MachineLaunch:
    return histogram(640, 1 << 23)


LARGE: dict[str, Callable[[], MachineLaunch]] = {
    "stream": stream,
    "histogram": large_histogram,
    "arithmetic": lambda: regular_grid(160),
}
"""Kernels on all 80 SMs, long enough for two processes."""


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


@dataclass(frozen=True)
class AskedSpeed:
    """A kernel, its GPU, and the millions of timed warp-instructions a second that were asked of it."""

    make: Callable[[], MachineLaunch]
    gpu: str
    millions: float | None


KERNELS: dict[str, AskedSpeed] = {
    "stream": AskedSpeed(stream, "v100", 6),
    "histogram, 2 M pixels": AskedSpeed(histogram, "v100", 10),
    "histogram, 8 M pixels": AskedSpeed(large_histogram, "v100", 10),
    "one word": AskedSpeed(one_word, "v100", 15),
    "arithmetic": AskedSpeed(lambda: regular_grid(160), "v100", None),
}
COMPILED: dict[str, AskedSpeed] = {
    **{f"SGEMM {step}": AskedSpeed(sgemm(step), SGEMM_GPU, 8) for step in (2, 6, 10)},
    "convolution": AskedSpeed(convolution, CONVOLUTION_GPU, 12),
}
TWO_THREADS_ASKED = 1.7
SPEEDS = Path(__file__).with_name("speeds.json")


def machine_name() -> str:
    """The processor, as the system names it, and how many of its cores there are."""
    names = [platform.processor() or platform.machine()]
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        said = dict(line.replace("\t", "").split(": ", 1) for line in lines if ": " in line)
        family = said.get("cpu family", "?")
        name = re.sub(r"\(R\)|\(TM\)| Processor| CPU", "", said.get("model name", names[0]))
        names = [f"{name} (family {family}, model {said.get('model', '?')})"]
    return f"{names[0]}, {len(os.sched_getaffinity(0))} cores"


def all_speeds() -> dict[str, Any]:
    """The figures of all kernels, printed as they come."""
    kernels = dict(KERNELS)
    if DATA.is_dir() and has_compiler():
        kernels |= COMPILED
    else:
        print(f"SGEMM and convolution: not measured; they need {DATA} and the CUDA compiler")
    speed(one_word)  # compiled, or loaded from the cache
    print(f"{'M warp-instructions a second':32}{'executed':>10}{'timed':>10}{'asked':>8}{'2 threads':>12}")
    rows = {}
    for name, one in kernels.items():
        found = speed(one.make, load_gpu(one.gpu))
        asked = "" if one.millions is None else f"{one.millions:.0f}"
        shown = f"{found.executed:10.1f}{found.timed:10.1f}{asked:>8}{found.two_threads:12.2f}"
        print(f"{name:32}{shown}", flush=True)
        rows[name] = {
            "gpu": one.gpu,
            "executed": round(found.executed, 1),
            "timed": round(found.timed, 1),
            "asked": one.millions,
            "two_threads": round(found.two_threads, 2),
        }
    return {"machine": machine_name(), "python": platform.python_version(), "kernels": rows}


def table_lines(speeds: dict[str, Any]) -> list[str]:
    """The table of the page on speed, in Markdown."""
    lines = ["| kernel | executed alone | timed | asked | two threads |", "|---|---|---|---|---|"]
    for name, row in speeds["kernels"].items():
        short = row["asked"] is not None and row["timed"] < row["asked"]
        timed = f"**{row['timed']:.1f}**" if short else f"{row['timed']:.1f}"
        slow = row["two_threads"] < TWO_THREADS_ASKED
        two = f"**{row['two_threads']:.2f}**" if slow else f"{row['two_threads']:.2f}"
        asked = "" if row["asked"] is None else f"{row['asked']:.0f}"
        lines.append(f"| {name} | {row['executed']:.0f} | {timed} | {asked} | {two} |")
    return lines


def readme_line(speeds: dict[str, Any]) -> str:
    """What the README says of it."""
    timed = [row["timed"] for row in speeds["kernels"].values()]
    low, high, machine = min(timed), max(timed), speeds["machine"].rpartition(",")[0]
    return f"Speed: {low:.1f} to {high:.1f} million warp-instructions a second on a core, {machine}."


def write(speeds: dict[str, Any]) -> None:
    """Keep the figures, and put them into the page on speed and the README in place of those before."""
    before, root = json.loads(SPEEDS.read_text()), SPEEDS.parents[1]
    for path, told in (
        (root / "docs" / "explanation" / "speed.md", lambda of: "\n".join(table_lines(of))),
        (root / "docs" / "explanation" / "speed.md", lambda of: of["machine"]),
        (root / "README.md", readme_line),
    ):
        path.write_text(path.read_text().replace(told(before), told(speeds)))
    SPEEDS.write_text(json.dumps(speeds, indent=1) + "\n")


def main() -> None:
    if len(sys.argv) == 3:
        print(speed(given(Path(sys.argv[1]), Path(sys.argv[2]))))
        return
    speeds = all_speeds()
    if sys.argv[1:] == ["--write"]:
        write(speeds)
    for name, make_grid in (("arithmetic", regular_grid), ("a stream", stream)):
        seconds, peak = large_grid(make_grid)
        print(f"{f'{name}, 10,000 blocks, sampled':44}{seconds:6.2f} s{peak:8.0f} MiB at most", flush=True)
    for name, make in LARGE.items():
        alone = min(seconds_on(make, 1) for _ in range(REPEATS))
        print(f"{f'{name}, two processes beside one':44}{2 * alone / seconds_of_two(name):6.2f}", flush=True)


if __name__ == "__main__":
    main()
