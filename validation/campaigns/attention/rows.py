"""The measured rows of FlashAttention on an H100, beside the simulated kernels as published.

``python -m smlab.validation.campaigns.attention.rows TABLE --flash-attn DIR --xformers DIR --cutlass DIR``
builds the kernels (`smlab.validation.campaigns.attention.kernels`), runs the rows and prints the table. Rows
of the set ``large`` are drawn by a seed, and run on a part of the card.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.sim.execution.run import run_machine_code
from smlab.validation.campaigns.attention.kernels import (
    Attention,
    Sources,
    attention_launch,
    build,
    worst_difference,
)

CLOCK_HZ: Final = 1500e6
AS_MEASURED: Final = {"clock.sm_hz": CLOCK_HZ, "icache.earlier_launches": 0}
SMS: Final = 132
OVERHEAD: Final = "launch.profiled_overhead_s"
"""What is in the measured durations, which are a profiler's, and not in the SMs' time."""
SEED: Final = 33
DRAWN: Final = 8
AGAIN_US: Final = {
    Attention(2, 32, 256, 32, 64, False): 140113.9 / 1500,
    Attention(2, 32, 256, 16, 128, False): 120424.2 / 1500,
    Attention(2, 32, 256, 32, 64, True): 123712.4 / 1500,
    Attention(2, 32, 256, 16, 128, True): 112769.7 / 1500,
    Attention(3, 16, 512, 32, 64, True): 88.160,
    Attention(3, 16, 512, 32, 64, False): 119.392,
    Attention(3, 16, 512, 16, 128, True): 65.312,
    Attention(3, 16, 512, 16, 128, False): 71.712,
}
"""What the same authors publish of the same cases at 1,500 MHz: elapsed cycles of version 2
(docs/reproduce_fa2_fa3_cases.md at 28a3d8e), and a later measurement of version 3
(tests/baselines/fa3-sass-ccd2-20260914/results.csv at 580352d). The table's durations of version 2 are those
cycles at 1,403 to 1,451 MHz, and those of version 3 are 2.6 to 5.8 % longer than the later ones."""
_MOST_DIFFERENCE: Final = 2e-3
"""Results of some units are halves: 2^-11 of them, and weights that were rounded to halves before."""
_TILE_ROWS: Final = {64: 192, 128: 128}
"""Of version 3 by elements of a head."""


def part_of(gpu: Gpu, sms: int) -> Gpu:
    """So many SMs of a card with their share of the bandwidth of L2 and DRAM. L2 keeps its size: what lies in
    it belongs to heads on which SMs work together."""
    keys = (
        *("l2.bandwidth_bytes_per_s", "dram.bandwidth_bytes_per_s", "dram.sustained_bandwidth_bytes_per_s"),
    )
    share = sms / gpu.integer("gpu.sms")
    values = {key: gpu.number(key) * share for key in keys}
    return gpu.with_values({**values, "gpu.sms": sms}, f"{sms} SMs of {gpu.name}")


def part_case(case: Attention, sms: int) -> tuple[Attention, float]:
    """As much of a case for so many SMs as each SM has of the whole, and what its time is to be multiplied
    with: the whole has other remainders."""
    heads = case.batch * case.heads
    some = max(1, round(heads * sms / SMS))
    part = replace(case, batch=1, heads=some)
    if case.causal or case.version == 2:
        return part, heads / SMS / (some / sms)
    tiles = math.ceil(case.sequence / _TILE_ROWS[case.head_dim])
    return part, math.ceil(heads * tiles / SMS) / math.ceil(some * tiles / sms)


def part_sms(case: Attention) -> int:
    """SMs that simulate a case in a minute or some: fewer for longer sequences."""
    if case.sequence <= 512:
        return 66 if case.head_dim == 128 and not case.causal else 33
    return 12 if case.sequence <= 2048 else 4


def simulated_s(case: Attention, program: Path, sms: int, gpu: Gpu) -> float:
    """The time of a case; on fewer SMs than all, from a part of it."""
    if sms == SMS:
        return run_machine_code(attention_launch(case, program), gpu, sms="all").seconds
    part, factor = part_case(case, sms)
    launch = attention_launch(part, program, sms)
    return factor * run_machine_code(launch, part_of(gpu, sms), sms="all").seconds


def check(sources: Mapping[int, Sources], programs: Path) -> int:
    """Print how far each kernel's results are from NumPy's; 1 if one is farther than halves allow."""
    worst = 0.0
    for version, size, causal in product((2, 3), _TILE_ROWS, (False, True)):
        case = Attention(version, 2, 512, 2, size, causal)
        found = worst_difference(case, build(case, sources[version], programs))
        print(f"version {version}, heads of {size}{', causal' if causal else ''}: {found:.1e}", flush=True)
        worst = max(worst, found)
    return int(worst > _MOST_DIFFERENCE)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path, help="the table of measured rows")
    parser.add_argument(
        "--flash-attn", type=Path, required=True, help="flash-attn's unpacked source distribution"
    )
    parser.add_argument("--xformers", type=Path, required=True, help="xformers' unpacked source distribution")
    parser.add_argument("--cutlass", type=Path, required=True, help="CUTLASS's headers for version 2")
    parser.add_argument(
        "--programs", type=Path, default=Path("results/attention"), help="where programs are kept"
    )
    parser.add_argument("--sets", nargs="*", default=["small", "medium", "large"])
    parser.add_argument("--check", action="store_true", help="compare results with NumPy's, and run no rows")
    asked = parser.parse_args(given)
    sources = {
        2: Sources(asked.flash_attn, asked.cutlass),
        3: Sources(asked.xformers, asked.xformers / "third_party/cutlass/include"),
    }
    if asked.check:
        return check(sources, asked.programs)
    with asked.measured.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["set"] in asked.sets]
    large = [row for row in rows if row["set"] == "large"]
    if large:
        drawn = np.random.default_rng(SEED).choice(len(large), DRAWN, replace=False)
        rows = [row for row in rows if row["set"] != "large"] + [large[n] for n in sorted(drawn)]
    gpu = load_gpu("h100-sxm").with_values(AS_MEASURED, "as measured: clock, and caches emptied before")
    print(
        "| version, batch x sequence, heads x size | measured, us | SMs | profiled | error of SMs | error "
        "| peer | SMs | error at 1,500 MHz | s |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    errors: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        version = int(row["kernel"].split("-")[2])
        batch, sequence, heads, size = (int(row[k]) for k in ("batch", "sequence", "heads", "head_dim"))
        case = Attention(version, batch, sequence, heads, size, row["causal"] == "1")
        program = build(case, sources[version], asked.programs)
        sms, begun = part_sms(case) if row["set"] == "large" else SMS, time.perf_counter()
        ours = 1e6 * simulated_s(case, program, sms, gpu)
        measured, profiled = float(row["h100_us"]), ours + 1e6 * gpu.number(OVERHEAD)
        off = [x / measured - 1 for x in (ours, profiled, float(row["peer_simulated_us"]))]
        errors.setdefault(row["set"], []).append((off[0], off[1], off[2]))
        what = f"{version}, {batch} x {sequence}, {heads} x {size}{', causal' if case.causal else ''}"
        told = " | ".join(f"{100 * x:+.1f} %" for x in off)
        then = f"{100 * (profiled / AGAIN_US[case] - 1):+.1f} %" if case in AGAIN_US else ""
        print(
            f"| {what} | {measured:.1f} | {ours:.1f} | {profiled:.1f} | {told} | {sms} "
            f"| {then} | {time.perf_counter() - begun:.0f} |",
            flush=True,
        )
    for name, found in errors.items():
        for n, which in enumerate(("the SMs' time", "profiled duration", "peer")):
            sizes = [100 * abs(e[n]) for e in found]
            print(f"{name}, {which}: {statistics.mean(sizes):.1f} % in the mean, {max(sizes):.1f} at most")
    return 0


if __name__ == "__main__":
    sys.exit(main())
