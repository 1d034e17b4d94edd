"""One SM, and many beside each other: code that caches do not hold, warps that wait and what they cost
others, compare-and-swaps, gathers from L1, data read twice, conversions of bytes.

``python -m smlab.validation.campaigns.hopper.sm_units --pack PACK.zip`` writes the launches. ``--out
OUT.jsonl`` reads what `replay` wrote of them: it prints the card's figures and, where ``--simulate`` matches
a name, the simulator's beside them. ``--csv FOLDER`` writes a table a group. Without ``--out`` there is no
card.
"""

from __future__ import annotations

import argparse
import base64
import csv
import fnmatch
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.sass.nvrtc import compile_cuda
from smlab.sim.execution.run import run_machine_code
from smlab.validation.campaigns.hopper.judge import GPU, MEASURED
from smlab.validation.campaigns.hopper.memory_units import IDLE, SMS, clock_launch, launch_of
from smlab.validation.campaigns.hopper.packing import HardwareLaunch, write_pack

SOURCE: Final = Path(__file__).with_name("sm_units.cu")
ARCHITECTURE: Final = "sm_90"
ALONE: Final = 120_000
"""Bytes of shared memory of a block that has its SM for itself."""
LINKS: Final = 64
"""Multiply-adds of code are written out in so many at a time."""
DELAYS: Final = (100, 300, 1000, 3000, 10000, 50000)
REPEATS: Final = 4
ROUNDS: Final = 256
STEPS: Final = 32
TABLES_KB: Final = (8, 16, 32, 64, 96, 128, 160, 192, 224, 256, 320)
CHASED_KB: Final = (64, 128, 144, 160, 192, 224, 240, 256, 320)
TABLE_TURNS: Final = 5
ACTIVE: Final = (1, 4, 8, 16, 32)
"""Warps that convert."""
CONVERT_TURNS: Final = 3
CONVERT_ROUNDS: Final = 64
WARM: Final = ("wait", "words", "twice")
"""Groups whose launches are simulated twice."""
Figures = dict[str, float]
Words = NDArray[np.uint32]
Arrays = Mapping[str, Words]


@cache
def _cubin() -> bytes:
    return compile_cuda(SOURCE.read_text(), ARCHITECTURE, [], SOURCE.name)


def _zeros(count: int) -> Words:
    return np.zeros(count, np.uint32)


def _group_sms() -> dict[int, list[int]]:
    """The SMs of each group, of our H100."""
    groups: dict[int, list[int]] = {}
    with (MEASURED / "sm-groups.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            groups.setdefault(int(row["group"]), []).append(int(row["sm"]))
    return groups


# Code.

_CODE_HEAD: Final = r"""
typedef unsigned int u32; typedef unsigned long long u64;
__device__ __forceinline__ u32 now() {
  u64 t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t) :: "memory"); return (u32)t; }
"""


@cache
def _code_cubin(places: int, kilobytes: int) -> bytes:
    """Loops of multiply-adds, one at each place."""
    links = "".join(f"fma.rn.f32 %{k % 4}, %{k % 4}, %4, %4;\\n" for k in range(LINKS))
    block = f'asm volatile("{links}" : "+f"(x0), "+f"(x1), "+f"(x2), "+f"(x3) : "f"(a));\n'
    parts = [
        f"""if (place == {place}) {{
    #pragma unroll 1
    for (int r = 0; r < rounds; r++) {{
      u32 first = now();
      {block * (kilobytes * 1024 // 16 // LINKS)}
      u32 last = now();
      if (threadIdx.x % 32 == 0) times[(blockIdx.x * rounds + r) * {places} + {place}] = last - first;
    }}
  }}"""
        for place in range(places)
    ]
    source = f"""{_CODE_HEAD}
extern "C" __global__ void code(u32 *times, u32 *sms, float *sink, const u32 *wait_of, float a, int rounds) {{
  float x0 = a, x1 = a, x2 = a, x3 = a;
  int place = threadIdx.x / 32;
  u32 sm, begin = now();
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  u32 wait = wait_of[sm];
  if (threadIdx.x == 0) sms[blockIdx.x] = sm;
  if (wait == {IDLE}u) {{  // It keeps its place until all blocks have theirs, so that each SM has one.
    while (now() - begin < 10000) __nanosleep(1000);
    return;
  }}
  while (now() - begin < wait) {{ }}
  __syncthreads();
  {" else ".join(parts)}
  sink[threadIdx.x] = x0 + x1 + x2 + x3;
}}
"""
    return compile_cuda(source, ARCHITECTURE, [], f"code_{places}_{kilobytes}")


CODES: Final = (
    *((1, size) for size in (16, 32, 64, 96, 128, 192, 256, 512)),
    *((8, size) for size in (8, 16, 32)),
)
"""Warps at places of their own, and the kilobytes of each."""
_STAGGERED: Final = ((1, 64), (1, 128), (1, 256), (8, 16), (8, 32))


def _waits_of() -> dict[str, tuple[Words, int]]:
    """How long each SM waits before it begins (`IDLE`: it does not), and the size of the one cluster."""
    sms, none = np.arange(SMS), _zeros(SMS)
    groups = _group_sms()
    first_of_each = [members[0] for members in groups.values()]
    staggered = (sms * 0x9E3779B1 & 0xFFFF).astype(np.uint32)

    def only(chosen: Any) -> Words:
        return np.where(np.isin(sms, chosen), 0, IDLE).astype(np.uint32)

    return {
        "one": (only([0]), 0),
        "pair": (only([0, 1]), 0),
        "one of each group": (only(first_of_each), 0),
        "cluster8": (none, 8),
        "cluster16": (none, 16),
        "group": (only(groups[0]), 0),
        "33": (only(sms[:33]), 0),
        "all": (none, 0),
        "staggered": (staggered, 0),
    }


def code(places: int, kilobytes: int, who: str, waits: Words, cluster: int) -> HardwareLaunch:
    """Loops of so many kilobytes, on the SMs that do not wait for ever. A cluster's SMs are of one group."""
    rounds, blocks = 4 if kilobytes * places > 128 else 6, cluster or SMS
    arguments = [
        *(_zeros(blocks * rounds * places), _zeros(blocks), np.zeros(1024, np.float32), waits.copy()),
        *(np.float32(1), np.int32(rounds)),
    ]
    names = ("times", "sms", "sink", "wait_of", "a", "rounds")
    more: dict[str, Any] = {"dynamic_shared_bytes": ALONE}
    if cluster:
        more["cluster_shape"] = (cluster, 1, 1)
    cubin, launch = launch_of(
        "code", (blocks, 32 * places), arguments, names, more, _code_cubin(places, kilobytes)
    )
    facts: dict[str, int | float | str] = {"places": places, "kilobytes": kilobytes, "rounds": rounds}
    name = f"code|{places}|{kilobytes}|{who}"
    return HardwareLaunch(name, "code", cubin, launch, 3, ("times", "sms"), facts=facts)


def _codes() -> Iterator[HardwareLaunch]:
    waits = _waits_of()
    for places, kilobytes in CODES:
        for who, (wait, cluster) in waits.items():
            if who != "staggered" or (places, kilobytes) in _STAGGERED:
                yield code(places, kilobytes, who, wait, cluster)


def _groups() -> Iterator[HardwareLaunch]:
    """Which SMs are of one group: those of a cluster are."""
    for size in (2, 4, 8, 16):
        for blocks in (112, 96) if size == 16 else (128,):
            more = {"cluster_shape": (size, 1, 1), "dynamic_shared_bytes": ALONE}
            cubin, launch = launch_of(
                "group_members", (blocks, 32), [_zeros(blocks)], ("sms",), more, _cubin()
            )
            facts: dict[str, int | float | str] = {"cluster": size}
            name = f"groups|{size}|{blocks}"
            yield HardwareLaunch(name, "groups", cubin, launch, 3, ("sms",), facts=facts)


def code_figures(one: HardwareLaunch, arrays: Arrays) -> Figures:
    """Cycles an instruction, of the first turn and of later ones, by SM: the median, the least, the most."""
    places, rounds = int(one.facts["places"]), int(one.facts["rounds"])
    cycles = arrays["times"].reshape(-1, rounds, places)
    times = cycles[cycles[:, 0, 0] > 0] / (int(one.facts["kilobytes"]) * 64)
    later = times[:, 1:].mean(axis=(1, 2))
    found = {"SMs": len(times), "first": np.median(times[:, 0].mean(axis=1)), "median": np.median(later)}
    return {**found, "least": later.min(), "most": later.max()}


# Warps that wait.

WAITS: Final[Mapping[str, tuple[str, int]]] = {
    "try": ("wait_try", 0),
    "test": ("wait_test", 0),
    "named": ("wait_named", 0),
    "hint100": ("wait_hint", 100),
    "hint1000000": ("wait_hint", 1_000_000),
    "copy16": ("wait_copy_try", 16),
    "copy1024": ("wait_copy_try", 1024),
    "copy16384": ("wait_copy_try", 16384),
    "copy16 test": ("wait_copy_test", 16),
    "copy1024 test": ("wait_copy_test", 1024),
    "copy16384 test": ("wait_copy_test", 16384),
}
"""Kernels, and the bytes of a copy or the nanoseconds of a hint."""


def _waits() -> Iterator[HardwareLaunch]:
    for kind, (kernel, more) in WAITS.items():
        for waiting in (1,) if kind.endswith(" test") else (1, 4, 8, 15):
            warps = waiting + 1
            arguments = [
                *(_zeros(len(DELAYS) * REPEATS * warps * 2), np.array(DELAYS, np.uint32), _zeros(4096)),
                *(np.int32(len(DELAYS)), np.int32(REPEATS), np.uint32(more)),
            ]
            names = ("times", "delays", "data", "count", "repeats", "more")
            cubin, launch = launch_of(kernel, (1, 32 * warps), arguments, names, cubin=_cubin())
            facts: dict[str, int | float | str] = {"warps": warps}
            yield HardwareLaunch(f"wait|{kind}|{waiting}", "wait", cubin, launch, 3, ("times",), facts=facts)


def wait_figures(one: HardwareLaunch, arrays: Arrays) -> Figures:
    """Cycles from the clock before the arrival to the clock behind the wait, of the first warp and of the
    last one, by the delay: the median of repeats."""
    times = arrays["times"].reshape(len(DELAYS), REPEATS, int(one.facts["warps"]), 2)
    woken = (times[:, :, 1:, 1] - times[:, :, :1, 0]).astype(np.int32)[:, 1:]
    found: Figures = {}
    for number, delay in enumerate(DELAYS):
        found[f"{delay} first"] = float(np.median(woken[number].min(axis=1)))
        found[f"{delay} last"] = float(np.median(woken[number].max(axis=1)))
    return found


# What those that wait cost others.

WORKS: Final = ("FFMA", "CHAIN", "LDS", "IADD")
IDLENESS: Final = ("TRY", "TEST", "NAMED", "SLEEP")


def _slots() -> Iterator[HardwareLaunch]:
    for work in WORKS:
        for idle in IDLENESS:
            for waiting in range(0 if idle == "TRY" else 1, 4):
                warps = 4 * (1 + waiting)
                arguments = [_zeros(REPEATS * warps), _zeros(2048), np.int32(ROUNDS), np.int32(REPEATS)]
                names = ("times", "sink", "rounds", "repeats")
                kernel = f"slots_{work}_{idle}"
                cubin, launch = launch_of(kernel, (1, 32 * warps), arguments, names, cubin=_cubin())
                facts: dict[str, int | float | str] = {"warps": warps}
                name = f"slots|{work}|{idle if waiting else 'none'}|{waiting}"
                yield HardwareLaunch(name, "slots", cubin, launch, 3, ("times",), facts=facts)


def slots_figures(one: HardwareLaunch, arrays: Arrays) -> Figures:
    """Cycles an instruction of a scheduler's worker: of the fastest and of the slowest of the four."""
    times = arrays["times"].reshape(REPEATS, int(one.facts["warps"]))[1:, :4] / (64 * ROUNDS)
    return {"least": float(np.median(times.min(axis=1))), "most": float(np.median(times.max(axis=1)))}


# Words of global memory that a hash names.

CHANGES: Final = ("cas", "cas_no", "cas_chain", "add", "add_no", "exch", "exch_no")


def _words(kernel: str, kilobytes: int, blocks: int, threads: int, steps: int) -> HardwareLaunch:
    arguments = [
        *(_zeros(blocks * threads // 32 * 4), _zeros(4), _zeros(kilobytes * 256)),
        *(np.uint32(kilobytes * 256 - 1), np.int32(steps)),
    ]
    names = ("times", "sink", "data", "mask", "steps")
    cubin, launch = launch_of(f"words_{kernel}", (blocks, threads), arguments, names, cubin=_cubin())
    facts: dict[str, int | float | str] = {"steps": steps}
    name = f"words|{kernel}|{kilobytes}|{blocks}|{threads}|{steps}"
    return HardwareLaunch(name, "words", cubin, launch, 5, ("times",), facts=facts)


def _all_words() -> Iterator[HardwareLaunch]:
    for kernel in CHANGES:
        for kilobytes in (4, 64, 1024, 4096, 16384):
            yield _words(kernel, kilobytes, SMS, 256, STEPS)
    for kernel in ("cas", "add", "exch"):
        yield _words(kernel, 1024, 1, 32, 1)
        yield _words(kernel, 1024, 1, 256, 1)
        yield _words(kernel, 1024, SMS, 256, 1)


def words_figures(one: HardwareLaunch, arrays: Arrays) -> Figures:
    """Cycles of a warp until its results are there, and until a fence behind them; those of an SM's warps,
    from the first one's begin to the last one's end."""
    times = arrays["times"].reshape(-1, 4)
    cycles = (times[:, 2:] - times[:, 1:2]).astype(np.float64)
    whole = []
    for sm in np.unique(times[:, 0]):
        mine = times[times[:, 0] == sm]
        whole.append(int((mine[:, 3] - mine[:, 1].min()).max()))
    median = np.median(cycles, axis=0)
    return {"results": median[0], "fence": median[1], "SM": float(np.median(whole)), "slowest": max(whole)}


# Tables in L1.


def _tables() -> Iterator[HardwareLaunch]:
    for shared in (0, 96 << 10):
        for warps in (1, 8):
            times = _zeros(len(TABLES_KB) * TABLE_TURNS * warps)
            yield _table("gather", f"gather|{warps}|{shared}", times, TABLES_KB, shared)
        for order in ("random", "lines"):
            times = _zeros(2 * len(CHASED_KB) * TABLE_TURNS)
            yield _table("chase", f"chase|{order}|{shared}", times, CHASED_KB, shared)


def _table(kernel: str, name: str, times: Words, sizes: Sequence[int], shared: int) -> HardwareLaunch:
    arguments: list[Any] = [times, _zeros(4), _zeros(256 * max(sizes)), 256 * np.array(sizes, np.uint32)]
    arguments += [np.int32(len(sizes)), np.int32(TABLE_TURNS)]
    names, threads = ["times", "sink", "data", "words_of", "sizes", "rounds"], 1
    if kernel == "gather":
        threads = 32 * int(name.split("|")[1])
    else:
        arguments.append(np.int32("lines" in name))
        names.append("order")
    more = {"dynamic_shared_bytes": shared}
    cubin, launch = launch_of(kernel, (1, threads), arguments, names, more, _cubin())
    return HardwareLaunch(name, kernel, cubin, launch, 3, ("times",), facts={"threads": threads})


def gather_figures(one: HardwareLaunch, arrays: Arrays) -> Figures:
    """Cycles a load of 32 random words, by the kilobytes of the table, in the last three rounds."""
    times = arrays["times"].reshape(len(TABLES_KB), TABLE_TURNS, int(one.facts["threads"]) // 32) / 256
    return {f"{size} KB": float(t) for size, t in zip(TABLES_KB, times[:, 2:].mean(axis=(1, 2)), strict=True)}


def chase_figures(one: HardwareLaunch, arrays: Arrays) -> Figures:
    """Mean cycles of a load, and which part of the loads missed L1, in the last three rounds."""
    times = arrays["times"].reshape(len(CHASED_KB), TABLE_TURNS, 2)[:, 2:].mean(axis=1) / 2048
    found: Figures = {}
    for size, (cycles, slow) in zip(CHASED_KB, times, strict=True):
        found |= {f"{size} KB": float(cycles), f"{size} KB missed": float(slow)}
    return found


# Data that a block reads twice.

TWICE: Final = ((1, (4, 16, 64, 256)), (2, (4, 16, 64)), (4, (4, 16, 64)), (8, (4, 16)))
"""Blocks an SM, and the kilobytes of each."""


def _read_twice() -> Iterator[HardwareLaunch]:
    for kind, width in (("words", 4), ("fours", 16)):
        for threads in (256, 1024):
            for blocks, sizes in TWICE:
                for kilobytes in sizes:
                    yield _twice(kind, width, threads, blocks, kilobytes)


def _twice(kind: str, width: int, threads: int, blocks: int, kilobytes: int) -> HardwareLaunch:
    size = SMS * blocks * kilobytes * 256
    arguments = [
        *(_zeros(SMS * blocks * 4), np.zeros(size, np.float32), np.zeros(size, np.float32)),
        np.int32(kilobytes * 1024 // width),
    ]
    names = ("times", "out", "data", "count")
    cubin, launch = launch_of(f"twice_{kind}", (SMS * blocks, threads), arguments, names, cubin=_cubin())
    name = f"twice|{kind}|{threads}|{blocks}|{kilobytes}"
    return HardwareLaunch(name, "twice", cubin, launch, 5, ("times",))


def twice_figures(one: HardwareLaunch, arrays: Arrays) -> Figures:
    """Cycles of a block's sum, and of reading again and writing: median and slowest."""
    times = arrays["times"].reshape(-1, 4)
    first, second = (times[:, k] - times[:, k - 1] for k in (2, 3))
    found = {"sum": np.median(first), "slowest sum": first.max()}
    return {**found, "again": np.median(second), "slowest again": second.max()}


# Bytes.

MIXES: Final[Mapping[str, int]] = {
    "loads": 1,
    "to float": 2,
    "to int": 8,
    "stores": 16,
    "to float, to int": 10,
    "loads, stores": 17,
    "loads, to float": 3,
    "loads, to float, 2 ffma": 7,
    "loads, to float, to int": 11,
    "loads, to float, 2 ffma, to int": 15,
    "to int, stores": 24,
    "loads, to float, to int, stores": 27,
    "loads, to float, 2 ffma, to int, stores": 31,
}


def _conversions() -> Iterator[HardwareLaunch]:
    for mix, bits in MIXES.items():
        arguments = [
            *(_zeros(len(ACTIVE) * CONVERT_TURNS * 32), _zeros(4), np.zeros(8192, np.uint8)),
            *(np.zeros(4096, np.uint8), np.int32(CONVERT_ROUNDS)),
        ]
        names = ("times", "sink", "out", "data", "rounds")
        cubin, launch = launch_of(f"convert_{bits}", (1, 1024), arguments, names, cubin=_cubin())
        yield HardwareLaunch(f"convert|{mix}", "convert", cubin, launch, 3, ("times",))


def convert_figures(one: HardwareLaunch, arrays: Arrays) -> Figures:
    """Cycles of one of each, by the warps that work."""
    times = arrays["times"].reshape(len(ACTIVE), CONVERT_TURNS, 32)[:, -1] / (8 * CONVERT_ROUNDS)
    return {f"{n} warps": float(t[:n].max()) for n, t in zip(ACTIVE, times, strict=True)}


FIGURES: Final[Mapping[str, Callable[[HardwareLaunch, Arrays], Figures]]] = {
    "code": code_figures,
    "wait": wait_figures,
    "slots": slots_figures,
    "words": words_figures,
    "gather": gather_figures,
    "chase": chase_figures,
    "twice": twice_figures,
    "convert": convert_figures,
}


def launches() -> Iterator[HardwareLaunch]:
    """All of them."""
    yield clock_launch()
    yield from _groups()
    yield from _codes()
    yield from _waits()
    yield from _slots()
    yield from _all_words()
    yield from _tables()
    yield from _conversions()
    yield from _read_twice()


def simulated(one: HardwareLaunch, gpu: Gpu) -> Figures:
    """The same figures, simulated."""
    arrays = {
        name: np.asarray(value) for name, value in zip(one.launch.names, one.launch.arguments, strict=True)
    }
    if "wait_of" in arrays:  # Simulated SMs are numbered group by group.
        waits = arrays["wait_of"]
        waits[:] = waits[[sm for members in _group_sms().values() for sm in members]]
    for _ in range(2):  # The second launch finds the arrays in L2, as the card's later ones do.
        run_machine_code(one.launch, gpu, sms="all" if one.launch.blocks > 1 else 1)
        if one.group not in WARM:
            break
    return FIGURES[one.group](one, arrays)


def _contents(packed: Mapping[str, str]) -> dict[str, Words]:
    return {n: np.frombuffer(zlib.decompress(base64.b64decode(v)), np.uint32) for n, v in packed.items()}


def measured(path: Path, ours: Mapping[str, HardwareLaunch]) -> dict[str, tuple[Figures, Figures]]:
    """What the card said, by the name of the launch: in the first launch, and in a later one."""
    found = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        one = ours.get(row["name"])
        if one is not None and one.group in FIGURES and "kept" in row:
            figures = FIGURES[one.group]
            first, later = (figures(one, _contents(row[kept])) for kept in ("kept_first", "kept"))
            later["launch, us"] = 1e6 * float(np.median(row["warm_s"]))
            found[one.name] = (first, later)
    return found


def members(path: Path) -> list[list[int]]:
    """The groups of SMs, as far as clusters have joined them."""
    group_of = {sm: sm for sm in range(SMS)}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if row.get("group") != "groups" or "kept" not in row:
            continue
        size = int(row["name"].split("|")[1])
        for kept in ("kept_first", "kept"):
            for cluster in _contents(row[kept])["sms"].reshape(-1, size).tolist():
                old = {group_of[sm] for sm in cluster}
                group_of = {sm: min(old) if group in old else group for sm, group in group_of.items()}
    return [[sm for sm in group_of if group_of[sm] == group] for group in sorted(set(group_of.values()))]


def code_by_sm(path: Path, ours: Mapping[str, HardwareLaunch]) -> Iterator[list[Any]]:
    """Cycles an instruction on each SM in each turn, of a later launch: the mean of its warps."""
    for line in path.read_text().splitlines():
        row = json.loads(line)
        one = ours.get(row["name"])
        if one is None or one.group != "code" or "kept" not in row:
            continue
        arrays, rounds = _contents(row["kept"]), int(one.facts["rounds"])
        cycles = arrays["times"].reshape(-1, rounds, int(one.facts["places"])).mean(axis=2)
        for sm, each in sorted(zip(arrays["sms"].tolist(), cycles.tolist(), strict=True)):
            if each[0] > 0:
                yield [one.name, sm, *(round(t / (int(one.facts["kilobytes"]) * 64), 3) for t in each)]


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def _write_tables(folder: Path, rows: Iterable[Sequence[str]]) -> None:
    """A table a group, named by the first part of a launch's name."""
    tables: dict[str, list[Sequence[str]]] = {}
    for row in rows:
        tables.setdefault(row[0].split("|")[0], []).append(row)
    folder.mkdir(parents=True, exist_ok=True)
    for group, lines in tables.items():
        with (folder / f"sm-units-{group}.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([("launch", "figure", "first_launch", "later_launch", "simulated"), *lines])


def _rows_of(name: str, card: tuple[Figures, Figures], ours: Figures) -> Iterator[tuple[str, ...]]:
    for figure in {**card[1], **ours}:
        values = (card[0].get(figure), card[1].get(figure), ours.get(figure))
        yield (name, figure, *(_text(value) for value in values))


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*", default=["*"], help="of the launches to show")
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--out", type=Path, help="what the replay wrote")
    parser.add_argument("--csv", type=Path, help="a folder for the tables")
    parser.add_argument("--simulate", nargs="*", default=[], help="patterns of the launches to simulate")
    asked = parser.parse_args(given)

    def chosen(one: HardwareLaunch, patterns: Sequence[str]) -> bool:
        return any(fnmatch.fnmatchcase(one.name, pattern) for pattern in patterns)

    if asked.pack:
        all_of_them = (one for one in launches() if one.group == "clock" or chosen(one, asked.patterns))
        print(write_pack(asked.pack, all_of_them), "launches")
        return 0
    ours = {one.name: one for one in launches() if one.group in FIGURES and chosen(one, asked.patterns)}
    card = measured(asked.out, ours) if asked.out else {}
    if asked.out:
        print(*(f"group: {' '.join(map(str, group))}" for group in members(asked.out)), sep="\n")
    gpu, rows = load_gpu(GPU), []
    print("| launch | figure | first launch | later launch | simulated |\n|---|---|---|---|---|")
    for name, one in ours.items():
        figures = simulated(one, gpu) if chosen(one, asked.simulate) else {}
        for row in _rows_of(name, card.get(name, ({}, {})), figures):
            rows.append(row)
            print(f"| {' | '.join(row)} |", flush=True)
    if asked.csv:
        _write_tables(asked.csv, rows)
    if asked.csv and asked.out:
        with (asked.csv / "sm-units-code-by-sm.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("launch", "sm", *(f"turn_{turn}" for turn in range(6))))
            writer.writerows(code_by_sm(asked.out, ours))
    return 0


if __name__ == "__main__":
    sys.exit(main())
