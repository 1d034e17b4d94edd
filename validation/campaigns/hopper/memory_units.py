"""What SMs share of L2, the memory of another block, loads of lines that are on their way, and caches of
constants and of instructions: launches for a card, and the simulator beside what our H100 answered.

``python -m smlab.validation.campaigns.hopper.memory_units --pack PACK.zip`` writes the launches. Without
``--pack`` it simulates those whose names match the patterns given (``'places|*'``, ``'rows|*'``), and prints
them beside the card.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.sass.nvrtc import compile_cuda
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.launch.tensor_map import TensorMap
from smlab.validation.campaigns.hopper.judge import GPU, MEASURED
from smlab.validation.campaigns.hopper.packing import HardwareLaunch, write_pack

SOURCE: Final = Path(__file__).with_name("memory_units.cu")
ARCHITECTURE: Final = "sm_90"
SMS: Final = 132
COPY_BYTES: Final = 16384
COPIES: Final = 64
REGION_BYTES: Final = 131072
TURNS: Final = 6
"""Of code in a row."""
CHAIN_TURNS: Final = 4
"""Through a table in constant memory."""
FITTED: Final = frozenset({"constants|chain|64|65536|1", "constants|operands|1024|64|1"})
"""Launches of constants that constants of generation 9.0 come from: of the chain both turns, of the operands
the later ones. The rows of 2 KB say what the caches hold."""
IDLE: Final = 0xFFFFFFFF
"""In place of a region: the SM reads nothing."""


@cache
def _cubin() -> bytes:
    return compile_cuda(SOURCE.read_text(), ARCHITECTURE, [], SOURCE.name)


def launch_of(
    kernel: str,
    shape: tuple[int, int],
    arguments: Sequence[Any],
    names: Sequence[str],
    more: Mapping[str, Any] | None = None,
    cubin: bytes | None = None,
) -> tuple[bytes, MachineLaunch]:
    """The code, and a launch of so many blocks of so many threads."""
    code = cubin or _cubin()
    image = from_cubin(code, kernel, kernel)
    grid, block = (shape[0], 1, 1), (shape[1], 1, 1)
    launch = MachineLaunch(
        image, grid, block, list(arguments), tuple(names), check_shared=False, **(more or {})
    )
    return code, launch


def regions_by_sm() -> dict[str, NDArray[np.uint32]]:
    """Which region each SM reads, by a name."""
    sms = np.arange(SMS, dtype=np.uint32)
    found = {}
    for group in (1, 2, 3, 4, 6, 11, 12, 16, 22, 33, 44, 66, 132):
        found[f"neighbours{group}"] = sms // group
        found[f"strided{group}"] = sms % -(-SMS // group)
    for bit in (2, 4, 8, 16, 32, 64):
        found[f"pairs{bit}"] = np.minimum(sms, np.where((sms ^ bit) < SMS, sms ^ bit, sms)).astype(np.uint32)
    found["pairs66"] = sms % 66
    return found


_NAMES: Final = (
    *("times", "data", "region_of", "wait_of", "counter"),
    *("by", "region_bytes", "bytes", "copies", "stages"),
)


def shared_reads(
    name: str,
    regions: NDArray[np.uint32],
    waits: NDArray[np.uint32],
    kernel: str = "shared_copies",
    stages: int = 4,
    cluster: int = 1,
    region_bytes: int = REGION_BYTES,
) -> HardwareLaunch:
    """All SMs read the regions that they are given; of a cluster's blocks, by the block's number."""
    blocks, loads = len(regions), kernel == "shared_loads"
    data = np.zeros(region_bytes * int(regions[regions != IDLE].max() + 1), np.uint8)
    arguments = [
        np.zeros(4 * blocks, np.uint64),
        *(data, regions.astype(np.uint32), waits.astype(np.uint32), np.zeros(1, np.uint32)),
        *(np.int32(x) for x in (cluster > 1, region_bytes, COPY_BYTES, COPIES, stages)),
    ]
    more: dict[str, Any] = {"dynamic_shared_bytes": 120_000}
    if cluster > 1:
        more["cluster_shape"] = (cluster, 1, 1)
    code, launch = launch_of(kernel, (blocks, 1024 if loads else 32), arguments, _NAMES, more)
    facts: dict[str, int | float | str] = {"stages": stages, "cluster": cluster}
    return HardwareLaunch(name, "shared reads", code, launch, 5, ("times",), facts=facts)


def shared_tiles(
    name: str, regions: NDArray[np.uint32], waits: NDArray[np.uint32], stages: int = 8
) -> HardwareLaunch:
    """All SMs copy tiles of rows of one matrix, as kernels do that multiply matrices."""
    matrix = np.zeros((4096, 4096), np.float16)
    arguments = [
        np.zeros(4 * SMS, np.uint64),
        TensorMap(matrix, (4096, 4096), (64, 64), swizzle="128"),
        *(regions.astype(np.uint32), waits.astype(np.uint32), np.zeros(1, np.uint32)),
        *(np.int32(x) for x in (64, 2 * COPIES, stages)),
    ]
    names = ("times", "map", "region_of", "wait_of", "counter", "columns", "copies", "stages")
    code, launch = launch_of("shared_tiles", (SMS, 32), arguments, names, {"dynamic_shared_bytes": 120_000})
    facts: dict[str, int | float | str] = {"stages": stages}
    return HardwareLaunch(name, "shared reads", code, launch, 5, ("times",), facts=facts)


def _few_sms() -> Iterator[tuple[str, NDArray[np.uint32]]]:
    """Some SMs with a region of their own, the others idle."""
    sms = np.arange(SMS, dtype=np.uint32)
    for count in (1, 2, 4, 8, 16, 33, 66, 99):
        yield f"first{count}", np.where(sms < count, sms, IDLE)
    yield "of two pairs", np.where(np.isin(sms, (0, 2)), sms, IDLE)
    yield "one of a pair", np.where(sms % 2 == 0, sms, IDLE)


def _all_shared_reads() -> Iterator[HardwareLaunch]:
    none, by_sm = np.zeros(SMS, np.uint32), regions_by_sm()
    sms = np.arange(SMS, dtype=np.uint32)
    for pattern, regions in _few_sms():
        yield shared_reads(f"copies|{pattern}|0", regions, none)
        yield shared_reads(f"loads|{pattern}|0", regions, none, "shared_loads", stages=0)
        yield shared_tiles(f"tiles|{pattern}|0", regions, none)
    for pattern, regions in by_sm.items():
        yield shared_tiles(f"tiles|{pattern}|0", regions, none)
    for pattern in ("neighbours1", "neighbours2", "strided2", "neighbours16", "strided16", "neighbours132"):
        yield shared_reads(f"copies|{pattern}|0", by_sm[pattern], none)
        yield shared_reads(f"loads|{pattern}|0", by_sm[pattern], none, "shared_loads", stages=0)
        rows = shared_reads(
            *(f"rows|{pattern}|0", by_sm[pattern], none, "shared_loads"), stages=8192, region_bytes=1 << 20
        )
        yield rows
        for stages in (1, 2, 4):
            yield shared_tiles(f"tiles{stages}|{pattern}|0", by_sm[pattern], none, stages)
    for wait in (25, 50, 100, 150, 200, 300, 400, 800):
        yield shared_tiles(f"tiles|neighbours2|{wait}", by_sm["neighbours2"], sms % 2 * wait)
        yield shared_reads(f"copies|neighbours2|{wait}", by_sm["neighbours2"], sms % 2 * wait)
    for wait in (5, 20, 80):
        yield shared_tiles(f"tiles|neighbours132|{wait} each", by_sm["neighbours132"], sms * wait)


def _clusters() -> Iterator[HardwareLaunch]:
    for size in (2, 4, 8, 16):
        blocks = (112 if size == 16 else 128) // size * size
        arguments = [np.zeros(blocks * size, np.uint32), np.zeros(blocks, np.uint32), np.int32(size)]
        more = {"cluster_shape": (size, 1, 1)}
        code, launch = launch_of("cluster_chain", (blocks, 32), arguments, ("times", "sms", "size"), more)
        yield HardwareLaunch(f"chain|{size}", "cluster", code, launch, 3, ("times", "sms"))


PENDING: Final = ("same lines", "own lines", "lines in L1", "a word of the same lines")


def _pending() -> Iterator[HardwareLaunch]:
    for kind in range(4):
        for lanes, width in (("words", 1), ("fours", 4)):
            for warps in (1, 2, 4, 8, 16, 32):
                data = np.zeros((8 * 32 * 16 * 32 + 32 * 16 * 32) * width, np.float32)
                arguments = [np.zeros(8 * warps, np.uint32), np.zeros(1024 * width, np.float32), data]
                names = ("times", "sink", "data", "kind")
                code, launch = launch_of(
                    f"pending_{lanes}", (1, 32 * warps), [*arguments, np.int32(kind)], names
                )
                facts: dict[str, int | float | str] = {"kind": kind, "width": width, "warps": warps}
                name = f"pending|{kind}|{lanes}|{warps}"
                yield HardwareLaunch(name, "pending loads", code, launch, 3, ("times",), facts=facts)


def constant_chain(stride: int, size: int, warps: int) -> HardwareLaunch:
    """A chain through a table in constant memory, whose steps lie ``stride`` bytes one behind the other."""
    steps = size // stride
    table = np.zeros(16384, np.uint32)
    places = np.arange(steps) * (stride // 4)
    table[places] = np.roll(places, -1)
    arguments = [np.zeros(CHAIN_TURNS * warps, np.uint32), np.zeros(1024, np.uint32), np.int32(steps)]
    more = {"constants": {"table": table}}
    names = ("times", "sink", "steps")
    code, launch = launch_of("constant_chain", (1, 32 * warps), arguments, names, more)
    facts: dict[str, int | float | str] = {"stride": stride, "bytes": size, "warps": warps}
    name = f"constants|chain|{stride}|{size}|{warps}"
    return HardwareLaunch(name, "constants", code, launch, 3, ("times",), facts=facts)


def _constants() -> Iterator[HardwareLaunch]:
    for stride in (4, 16, 64):
        for size in (256, 512, 1024, 1536, 2048, 2560, 3072, 4096, 8192, 16384, 24576, 32768, 49152, 65536):
            yield from (
                constant_chain(stride, size, warps) for warps in ((1, 4, 8) if stride == 64 else (1,))
            )


_HEAD: Final = r"""
typedef unsigned int u32;
__device__ __forceinline__ u32 now() {
  u32 t; asm volatile("mov.u32 %0, %%clock;" : "=r"(t) :: "memory"); return t; }
"""


def constant_operands(count: int, stride: int, warps: int) -> HardwareLaunch:
    """So many multiply-adds in a row. Their operands in constant memory lie ``stride`` bytes one behind the
    other. The compiler loads them to uniform registers, the first ones ahead of the loop."""
    kernel = f"operands_{count}_{stride}"
    links = "".join(
        f"x{k % 4} = __fmaf_rn(x{k % 4}, table[{k * stride // 4}], x{k % 4});" for k in range(count)
    )
    source = f"""{_HEAD}
__constant__ float table[16384];
extern "C" __global__ void {kernel}(u32 *times, float *sink, float a) {{
  float x0 = a, x1 = a + 1, x2 = a + 2, x3 = a + 3;
  #pragma unroll 1
  for (int r = 0; r < {TURNS}; r++) {{
    __syncthreads();
    u32 first = now();
    {links}
    asm volatile("" :: "f"(x0), "f"(x1), "f"(x2), "f"(x3));
    u32 last = now();
    if (threadIdx.x % 32 == 0) times[r * (blockDim.x / 32) + threadIdx.x / 32] = last - first;
  }}
  sink[threadIdx.x] = x0 + x1 + x2 + x3;
}}
"""
    cubin = compile_cuda(source, ARCHITECTURE, [], kernel)
    arguments = [np.zeros(TURNS * warps, np.uint32), np.zeros(1024, np.float32), np.float32(1)]
    names = ("times", "sink", "a")
    code, launch = launch_of(kernel, (1, 32 * warps), arguments, names, cubin=cubin)
    facts: dict[str, int | float | str] = {"count": count, "stride": stride, "warps": warps}
    name = f"constants|operands|{count}|{stride}|{warps}"
    return HardwareLaunch(name, "constants", code, launch, 3, ("times",), facts=facts)


def code_places(places: int, count: int, warp_stride: int) -> HardwareLaunch:
    """Warps at places of their own in the code, of ``count`` multiply-adds each. Warps 0, ``warp_stride``,
    twice ``warp_stride`` and so on take part: with 4 they are of one scheduler."""
    kernel, warps = f"places_{places}_{count}", places * warp_stride
    parts = []
    for place in range(places):
        links = "".join(
            f'asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x{k % 4}) : "f"(a));\n' for k in range(count)
        )
        parts.append(
            f"""if (place == {place}) {{
    #pragma unroll 1
    for (int r = 0; r < {TURNS}; r++) {{
      u32 first = now();
      {links}
      u32 last = now();
      if (threadIdx.x % 32 == 0) times[r * {places} + {place}] = last - first;
    }}
  }}"""
        )
    source = f"""{_HEAD}
extern "C" __global__ void {kernel}(u32 *times, float *sink, float a, int warp_stride) {{
  float x0 = a, x1 = a, x2 = a, x3 = a;
  int warp = threadIdx.x / 32, place = warp % warp_stride == 0 ? warp / warp_stride : -1;
  __syncthreads();
  {" else ".join(parts)}
  sink[threadIdx.x] = x0 + x1 + x2 + x3;
}}
"""
    cubin = compile_cuda(source, ARCHITECTURE, [], kernel)
    arguments = [
        np.zeros(TURNS * places, np.uint32),
        np.zeros(1024, np.float32),
        np.float32(1),
        np.int32(warp_stride),
    ]
    names = ("times", "sink", "a", "warp_stride")
    code, launch = launch_of(kernel, (1, 32 * warps), arguments, names, cubin=cubin)
    facts: dict[str, int | float | str] = {"places": places, "count": count, "warp_stride": warp_stride}
    name = f"places|{places}|{count}|{warp_stride}"
    return HardwareLaunch(name, "code places", code, launch, 3, ("times",), facts=facts)


def _code() -> Iterator[HardwareLaunch]:
    for stride, counts in ((4, (64, 256, 512, 1024, 2048, 4096)), (64, (16, 32, 64, 128, 256, 512, 1024))):
        for count in counts:
            yield from (constant_operands(count, stride, warps) for warps in (1, 4, 16))
    for places in (1, 2, 4, 8):
        for count in (128, 512, 1024, 2048, 4096):
            if places * count <= 16384:
                yield from (code_places(places, count, warp_stride) for warp_stride in (1, 4))


def clock_launch() -> HardwareLaunch:
    """`replay.CLOCK`, which runs behind each series."""
    source = r"""
extern "C" __global__ void spin(unsigned long long *out) {
  unsigned c0, c1; unsigned long long t0, t1;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(c0) :: "memory");
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t0) :: "memory");
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t1) :: "memory"); while (t1 < t0 + 20000);
  asm volatile("mov.u32 %0, %%clock;" : "=r"(c1) :: "memory");
  out[0] = c0; out[1] = c1; out[2] = t0; out[3] = t1;
}
"""
    cubin = compile_cuda(source, ARCHITECTURE, [], "spin")
    code, launch = launch_of("spin", (1, 1), [np.zeros(4, np.uint64)], ("out",), cubin=cubin)
    return HardwareLaunch("the clock of the SMs", "clock", code, launch, 3, ("out",))


def launches() -> Iterator[HardwareLaunch]:
    """All of them."""
    yield clock_launch()
    yield from _all_shared_reads()
    yield from _clusters()
    yield from _pending()
    yield from _constants()
    yield from _code()


def measured() -> dict[str, float]:
    """What the card answered, by the name of the launch: cycles of the median SM, of the last warp, or of an
    instruction in a turn of a loop that is not the first."""
    found = {}
    for row in _rows("shared-reads.csv"):
        found[f"{row['how']}|{row['pattern']}|{row['wait']}"] = float(row["median_cycles"])
    for row in _rows("pending-loads.csv"):
        found[f"pending|{PENDING.index(row['loads'])}|{row['width']}|{row['warps']}"] = float(row["cycles"])
    for name, (_, later) in measured_constants().items():
        found[name] = later
    for row in _rows("code-places.csv"):
        name = f"places|{row['places']}|{row['instructions']}|{row['warp_stride']}"
        found[name] = float(row["later_cycles_an_instruction"])
    return found


def measured_constants() -> dict[str, tuple[float, float]]:
    """Cycles of a step on the card in the first turn and in later ones."""
    found = {}
    for row in _rows("constants.csv"):
        first = row["steps"] if row["how"] == "operands" else row["stride_bytes"]
        second = row["stride_bytes"] if row["how"] == "operands" else row["table_bytes"]
        name = f"constants|{row['how']}|{first}|{second}|{row['warps']}"
        found[name] = float(row["first_turn_cycles_a_step"]), float(row["later_cycles_a_step"])
    return found


def simulated_constants(one: HardwareLaunch, gpu: Gpu) -> tuple[float, float]:
    """The same as simulated."""
    chain = "count" not in one.facts
    steps = int(one.facts["bytes"]) // int(one.facts["stride"]) if chain else int(one.facts["count"])
    run_machine_code(one.launch, gpu, sms=1)
    times = np.asarray(one.launch.arguments[0]).astype(np.float64)
    steps_took = times.reshape(CHAIN_TURNS if chain else TURNS, -1).mean(axis=1) / steps
    return float(steps_took[0]), float(steps_took[1:].mean())


def _rows(name: str) -> list[dict[str, str]]:
    with (MEASURED / name).open(newline="") as file:
        return list(csv.DictReader(file))


def counted() -> dict[str, tuple[float, float]]:
    """Which part of the sectors merged before L2 on the card, and the megabytes read from DRAM from an empty
    L2 on, by the name of the launch."""
    return {
        f"{row['how']}|{row['pattern']}|{row['wait']}": (
            int(row["sectors_merged"]) / int(row["sectors_read"]),
            int(row["dram_bytes_read"]) / 1e6,
        )
        for row in _rows("shared-reads.csv")
        if row["sectors_read"]
    }


def simulated(one: HardwareLaunch, gpu: Gpu) -> tuple[float, float, float]:
    """The same three figures of a launch as simulated."""
    if one.group == "constants":
        return simulated_constants(one, gpu)[1], 0.0, 0.0
    shared = one.group == "shared reads"
    if shared:  # Simulated SMs are numbered group by group.
        numbers = [int(row["sm"]) for row in _rows("sm-groups.csv")]
        for name in ("region_of", "wait_of"):
            given = np.asarray(one.launch.arguments[one.launch.names.index(name)])
            given[:] = given[numbers]
    run = run_machine_code(one.launch, gpu, sms="all" if shared else 1)
    memory = run.result.memory
    part = memory.l2_sectors_merged / max(1, memory.l2_sector_hits + memory.l2_sector_misses)
    moved = memory.dram_sectors * gpu.number("l1.sector_bytes") / 1e6
    times = np.asarray(one.launch.arguments[0]).astype(np.float64)
    if shared:
        cycles = times.reshape(-1, 4)[:, 1]
        return float(np.median(cycles[cycles > 0])), part, moved
    if one.group == "pending loads":
        return float(np.median(times.reshape(8, -1)[2:].max(axis=1))), part, moved
    return float(times.reshape(TURNS, -1)[1:].mean()) / int(one.facts["count"]), part, moved


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*", default=["rows|*", "places|*", "pending|*", "constants|*"])
    parser.add_argument("--pack", type=Path)
    asked = parser.parse_args(given)
    if asked.pack:
        print(write_pack(asked.pack, launches()), "launches")
        return 0
    gpu, card, counters = load_gpu(GPU), measured(), counted()
    print("| launch | cycles | simulated | ratio | merged, % | simulated | MB of DRAM | simulated |")
    print("|---|---|---|---|---|---|---|---|")
    for one in launches():
        if one.name in card and any(fnmatch.fnmatchcase(one.name, pattern) for pattern in asked.patterns):
            cycles, part, moved = simulated(one, gpu)
            row = [one.name, f"{card[one.name]:.2f}", f"{cycles:.2f}", f"{cycles / card[one.name]:.2f}"]
            if one.name in counters:
                of_card, megabytes = counters[one.name]
                row += [f"{100 * of_card:.1f}", f"{100 * part:.1f}", f"{megabytes:.1f}", f"{moved:.1f}"]
            print(f"| {' | '.join(row + [''] * (8 - len(row)))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
