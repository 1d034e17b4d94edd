"""Hand-written products and attention in the steps of published worklogs, beside the rates that their authors
measured.

``python -m smlab.validation.campaigns.tensor_cores.worklogs`` makes ``worklogs.json`` anew and prints the
table: some ten minutes. Whole grids take longer: ``--series spatters gau-nernst yencal --sms all --out
worklogs-whole.json``, some forty. nvcc or NVRTC must be there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.sim import Record
from smlab.sim.execution.run import MachineRun, run_machine_code
from smlab.sim.frontends.cuda_c import load_cuda
from smlab.sim.frontends.protocol import KernelSource
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.validation.campaigns.published_figures import table_rows
from smlab.validation.campaigns.tensor_cores.published_products import bfloat16
from smlab.validation.power_limit import held_by_power
from smlab.validation.record.judge import model_of, sampling_sd, stored_errors
from smlab.validation.record.run import SEEN, ClockRange
from smlab.validation.service_tables import rules_version

PUBLISHED: Final = Path(__file__).with_name("worklogs.csv")
RESULTS: Final = Path(__file__).with_name("worklogs.json")
SMS: Final = 4
LOG2_E: Final = 1.4426950408889634
BASES: Final = {
    "product": "BM=128 BN=128 BK=64 WM=64 WN=64 STAGES=1 COPY=1 PAD=0 SWIZZLE=0 LOADS=1 B_PARTS=2 ORDER=0"
    " RELOAD=0 LATE=0 B_ROWS=0 WIDE=0 BFLOAT=0 HALF_SUMS=0",
    "wmma": "BM=128 BN=128 BK=32 WM=32 WN=32 STAGES=1 COPY=1 PAD=0 A_TURNED=0 B_ROWS=0 AHEAD=0 WAIT_LAST=0"
    " ZIGZAG=0 GROUP=0 ADD=0 VIA_SHARED=0 HALF_SUMS=1",
    "turing": "BM=256 BN=128 BK=64 WM=64 WN=64 STAGES=1 COPY=0 SWIZZLE=0 PLACES=0",
    "attention": "BQ=64 BKV=64 D=128 WARPS=4 SWIZZLE=1 K_PARTS=2 V_PARTS=2 Q_SHARED=0 OVERLAP=0 BATCHED=0"
    " BASE_2=0 BFLOAT=0",
}
"""What a step's macros are where its row does not say."""


@dataclass(frozen=True)
class Step:
    """A step of a published worklog, and its author's rate. ``clock_mhz`` is None where nobody locked it.
    ``tiles`` are the macros of each tile that the author tried, of which the best counts."""

    series: str
    kernel: str
    card: str
    gpu: str
    clock_mhz: float | None
    step: str
    what: str
    sizes: tuple[int, int, int]
    tiles: tuple[Mapping[str, int], ...]
    tflops: float
    rests: str
    source: str

    @property
    def macros(self) -> Mapping[str, int]:
        """Those of the first tile."""
        return self.tiles[0]

    @property
    def description(self) -> Gpu:
        """The GPU, at the clock that the author locked."""
        gpu = load_gpu(self.gpu)
        if self.clock_mhz is None:
            return gpu
        return gpu.with_values({"clock.sm_hz": self.clock_mhz * 1e6}, "as the author locked it")


def published(path: Path = PUBLISHED) -> list[Step]:
    """All steps."""
    texts = ("series", "kernel", "card", "gpu", "step", "what", "rests", "source")
    steps = []
    for row in table_rows(path):
        m, n, k = map(int, row["sizes"].split())
        common, *tried = row["macros"].split("|")
        tiles = [f"{BASES[row['kernel']]} {common} {tile}".split() for tile in tried or [""]]
        steps.append(
            Step(
                clock_mhz=float(row["clock_mhz"]) if row["clock_mhz"] else None,
                sizes=(m, n, k),
                tiles=tuple({n: int(v) for n, v in (pair.split("=") for pair in tile)} for tile in tiles),
                tflops=float(row["tflops"]),
                **{name: row[name] for name in texts},
            )
        )
    return steps


def execute(
    step: Step, sizes: tuple[int, int, int], sms: int | str, tile: int = 0
) -> tuple[MachineRun, NDArray[Any], NDArray[Any]]:
    """The step's kernel with one of its tiles on matrices of ``sizes``: the run, what it computed, and what
    NumPy has of it."""
    of_tile = step.tiles[tile]
    small, arrays = (_attention if step.kernel == "attention" else _product)(of_tile, sizes)
    result, expected, how = small
    source = Path(__file__).with_name(f"worklog_{step.kernel}.cu")
    gpu, macros = step.description, {name: str(value) for name, value in of_tile.items()}
    launch = MachineLaunch(
        load_cuda(KernelSource(source, gpu.sm_architecture, defines=macros)).image,
        (how["blocks"], 1, 1),
        (how["threads"], 1, 1),
        [np.int32(each) if isinstance(each, int) else each for each in arrays],
        dynamic_shared_bytes=how["shared_bytes"],
        check_shared=False,
    )
    done = run_machine_code(launch, gpu, sms=sms, keep=Record.TOTALS)
    return done, _numbers(result, of_tile), expected


def rate(step: Step, sizes: tuple[int, int, int], seconds: float) -> float:
    """TFLOP/s of the products in it, as the authors count."""
    m, n, k = sizes
    per_head = 4 * step.macros["D"] if step.kernel == "attention" else 2
    return per_head * m * n * k / seconds / 1e12


def _product(d: Mapping[str, int], sizes: tuple[int, int, int]) -> tuple[Any, list[Any]]:
    m, n, k = sizes
    (a, a_bits), (b, b_bits) = (_random(d, seed, (rows, k)) for seed, rows in enumerate((m, n)))
    c = np.zeros((m, n), np.float32 if d.get("WIDE", not d.get("HALF_SUMS", 1)) else np.uint16)
    by_rows, pad = d.get("B_ROWS", 1), d.get("PAD", 0)
    right = np.ascontiguousarray(b_bits.T) if by_rows else b_bits
    b_tile = d["BK"] * (d["BN"] + pad) if by_rows else d["BN"] * (d["BK"] + pad)
    a_tile = d["BK"] * (d["BM"] + pad) if d.get("A_TURNED") else d["BM"] * (d["BK"] + pad)
    how = {
        "blocks": m // d["BM"] * (n // d["BN"]),
        "threads": d["BM"] // d["WM"] * (d["BN"] // d["WN"]) * 32,
        "shared_bytes": 2
        * max(d["STAGES"] * (a_tile + b_tile), d.get("VIA_SHARED", 0) * d["BM"] * (d["BN"] + 8)),
    }
    expected = a @ b.T if m * n * k <= 1 << 30 else np.zeros(0)
    return (c, expected, how), [a_bits, right, c, n, k]


def _attention(d: Mapping[str, int], sizes: tuple[int, int, int]) -> tuple[Any, list[Any]]:
    heads, rows, keys = sizes
    drawn = [_random(d, seed, (heads, count, d["D"])) for seed, count in enumerate((rows, keys, keys))]
    (q, q_bits), (k, k_bits), (v, v_bits) = drawn
    o = np.zeros((heads, rows, d["D"]), np.uint16)
    q_bytes, tile = d["BQ"] * d["D"] * 2, d["BKV"] * d["D"] * 2
    tiles = {2: 4, 3: 3}.get(d["OVERLAP"], 2) * tile
    how = {
        "blocks": heads * rows // d["BQ"],
        "threads": d["WARPS"] * 32,
        "shared_bytes": q_bytes + tiles if d["Q_SHARED"] else max(q_bytes, tiles),
    }
    scale = np.float32(d["D"] ** -0.5 * (LOG2_E if d["BASE_2"] else 1))
    expected = np.zeros(0)
    if heads * rows * keys <= 1 << 22:
        scores = q @ k.transpose(0, 2, 1) * d["D"] ** -0.5
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        expected = weights / weights.sum(-1, keepdims=True) @ v
    return (o, expected, how), [q_bits, k_bits, v_bits, o, rows, keys, scale]


def _random(
    d: Mapping[str, int], seed: int, shape: tuple[int, ...]
) -> tuple[NDArray[Any], NDArray[np.uint16]]:
    """Normal numbers that the format has, and their bits."""
    drawn = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    bits = bfloat16(drawn) if d.get("BFLOAT") else drawn.astype(np.float16).view(np.uint16)
    return _numbers(bits, d).astype(np.float32), bits


def _numbers(bits: NDArray[Any], d: Mapping[str, int]) -> NDArray[Any]:
    if bits.dtype == np.float32:
        return bits
    return (bits.astype(np.uint32) << 16).view(np.float32) if d.get("BFLOAT") else bits.view(np.float16)


def judge(steps: Iterable[Step], sms: int | str = SMS) -> list[dict[str, Any]]:
    """Each step beside its author's rate, and the interval of the sample."""
    found = []
    for step in steps:
        gpu = step.description
        runs = [execute(step, step.sizes, sms, tile)[0] for tile in range(len(step.tiles))]
        held = [held_by_power(run, gpu) for run in runs]
        times = [run.seconds * at.slowdown for run, at in zip(runs, held, strict=True)]
        best = int(np.argmin(times))
        done, clock = runs[best], ClockRange.of(held[best].gpu)
        simulated = rate(step, step.sizes, times[best])
        low, high = (simulated * done.cycles / c for c in (done.cycles_high, done.cycles_low))
        row: dict[str, Any] = {
            "series": step.series,
            "card": step.card,
            "kernel": step.kernel,
            "step": step.step,
        }
        row |= {"published": step.tflops, "simulated": round(simulated, 1), "rests": step.rests}
        row |= {"low": round(low, 1), "high": round(high, 1), "tile": best}
        row |= {"clock_slower": round(clock.slower, 3), "clock_faster": round(clock.faster, 3)}
        found.append(row | {"ratio": round(simulated / step.tflops, 3)})
        print(f"{step.series} {step.step}: {simulated:.1f} for {step.tflops:g}", file=sys.stderr, flush=True)
    return found


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """By series: the mean of how far the rates are off, the worst, and in how many neighbouring steps the
    rate moves the way it was measured to."""
    told: dict[str, Any] = {}
    for name in dict.fromkeys((row["series"], row["kernel"]) for row in rows):
        mine = [row for row in rows if (row["series"], row["kernel"]) == name]
        off = [abs(row["ratio"] - 1) for row in mine]
        moves = [
            (after["published"] > before["published"]) == (after["simulated"] > before["simulated"])
            for before, after in pairwise(mine)
        ]
        told[" ".join(name)] = {
            "steps": len(mine),
            "mean_percent": round(100 * statistics.mean(off), 1),
            "worst_percent": round(100 * max(off), 1),
            "moves": f"{sum(moves)} of {len(moves)}",
        }
    return told


def held_rates(rows: Sequence[Mapping[str, Any]]) -> list[bool]:
    """For each rate, whether the 90 % interval that the record gives to its simulated time holds it."""
    model, steps = model_of(stored_errors()), {(s.series, s.kernel, s.step): s for s in published()}
    assert model is not None
    found = []
    for row in rows:
        step = steps[row["series"], row["kernel"], row["step"]]
        clock = SEEN if step.clock_mhz else ClockRange(row["clock_slower"], row["clock_faster"])
        ends = [rate(step, step.sizes, 1.0) / row.get(key, row["simulated"]) for key in ("high", "low")]
        measured, time = (rate(step, step.sizes, 1.0) / row[key] for key in ("published", "simulated"))
        low, high = model.interval(time, sampling_sd(*ends), clock)
        found.append(low <= measured <= high)
    return found


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", nargs="*", help="of these authors only; writes nothing without --out")
    parser.add_argument("--out", type=Path, help="the file to write (worklogs.json)")
    parser.add_argument("--sms", default=SMS, type=lambda text: text if text == "all" else int(text))
    asked = parser.parse_args(given)
    steps = [s for s in published() if not asked.series or s.series in asked.series]
    rows = judge(steps, asked.sms)
    print("| card | step | what is new | published | simulated | ratio |\n|---|---|---|---|---|---|")
    for step, row in zip(steps, rows, strict=True):
        figures = f"{step.tflops:g} | {row['simulated']:.1f} | {row['ratio']:.2f}"
        print(f"| {step.card} | {step.step} | {step.what} | {figures} |")
    told = {"rules": rules_version(), "sms": asked.sms, "summary": summary(rows), "rows": rows}
    print(json.dumps(told["summary"], indent=2))
    print(f"intervals hold {sum(held_rates(rows))} of {len(rows)}")
    out = asked.out or (None if asked.series else RESULTS)
    if out is not None:
        out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
