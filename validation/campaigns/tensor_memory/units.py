"""A B200's tensor memory and copy engine as public benchmarks time them, beside the simulated times.

``python -m smlab.validation.campaigns.tensor_memory.units`` makes ``units.json`` anew from
``units.csv`` and prints the table: less than a minute.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.launching import machine_launch
from smlab.sim.frontends.protocol import LoadedKernel
from smlab.sim.frontends.registry import load_kernel
from smlab.sim.isa.launch.tensor_map import TensorMap
from smlab.sim.machine import machine_from
from smlab.validation.campaigns.published_figures import table_rows
from smlab.validation.service_tables import rules_version

PUBLISHED: Final = Path(__file__).with_name("units.csv")
RESULTS: Final = Path(__file__).with_name("units.json")
KERNELS: Final = Path(__file__).with_name("units.cu")
GPU: Final = "b200"
_PRODUCT: Final = re.compile(r"tcgen05\.mma\.m(\d+)n(\d+)k16\.(ss|ts)")
_ACCESS: Final = re.compile(r"tcgen05\.(ld|st)\.32x32b\.x(\d+)")
_COPY: Final = re.compile(r"cp\.async\.bulk\.tensor\.(\d+)")
_DEPTH: Final = 16
_ROUNDS: Final = 256
_BATCHES: Final = 16, 32
_LEAST_COPIES, _MOST_COPIES, _COPIED_BYTES = 8, 48, 1 << 19


@dataclass(frozen=True)
class UnitTime:
    """A published figure in cycles: ``latency`` of a product and the wait for it, or the ``interval`` of one
    of many (``many`` accesses a round, or copies on their way). A constant rests on those that are
    ``fitted``."""

    form: str
    many: int
    quantity: str
    value: float
    rests: str
    source: str


def published(path: Path = PUBLISHED) -> list[UnitTime]:
    """All figures."""
    return [
        UnitTime(**(row | {"many": int(row["many"]), "value": float(row["value"])}))  # type: ignore[arg-type]
        for row in table_rows(path)
    ]


def _run(
    name: str, blocks: int, threads: int, shared: int, arguments: tuple[Any, ...], defines: dict[str, int]
) -> None:
    """Run a kernel of `KERNELS`; its macros are ``defines``."""
    gpu = load_gpu(GPU)
    told = {key: str(value) for key, value in defines.items()}
    kernel = LoadedKernel(load_kernel(KERNELS, gpu.sm_architecture, name=name, defines=told))
    more = {"shared_bytes": shared, "check_shared": False}
    run_machine_code(machine_launch(kernel, blocks, threads, arguments, more), gpu)


def _cycles(name: str, threads: int, shared: int, rounds: int, **defines: int) -> np.ndarray[Any, Any]:
    out = np.zeros(max(rounds, 2), np.uint64)
    _run(name, 1, threads, shared, (out, np.int32(rounds)), defines)
    return out


def _product(rows: int, columns: int, in_memory: bool, many: int) -> float:
    """Cycles of so many products and the wait for them, when a few rounds have gone by."""
    shape = {"M": rows, "N": columns, "MANY": many, "FIRST_IN_MEMORY": int(in_memory)}
    return float(np.median(_cycles("products", 128, 32 * (128 + columns), 8, **shape)[2:]))


def _copies(size: int, many: int) -> float:
    """Cycles of a copy, of all SMs at once from DRAM; the median SM."""
    sms = load_gpu(GPU).integer("gpu.sms")
    rounds = max(_LEAST_COPIES, min(_MOST_COPIES, _COPIED_BYTES // size))
    data, out = np.zeros((sms * rounds * size // 512, 128), np.float32), np.zeros(sms, np.uint64)
    described = TensorMap(data, (128, len(data)), (128, size // 512), swizzle="none")
    arguments = described, out, np.int32(rounds)
    _run("copies", sms, 32, size * many + 1024, arguments, {"N": size, "MANY": many})
    return float(np.median(out)) / rounds


def simulated(row: UnitTime) -> float:
    """The cycles of a figure on the simulated GPU."""
    if product := _PRODUCT.fullmatch(row.form):
        shape = int(product[1]), int(product[2]), product[3] == "ts"
        if row.quantity == "latency":
            return _product(*shape, 1)
        few, more = (_product(*shape, many) for many in _BATCHES)
        return (more - few) / (_BATCHES[1] - _BATCHES[0])
    if access := _ACCESS.fullmatch(row.form):
        name, columns = {"ld": "loads", "st": "stores"}[access[1]], int(access[2])
        return float(_cycles(name, 32, 0, _ROUNDS, N=columns, MANY=row.many)[0]) / _ROUNDS / row.many
    copy = _COPY.fullmatch(row.form)
    assert copy is not None, row.form
    return _copies(int(copy[1]), row.many)


def baseline(row: UnitTime, rows: Sequence[UnitTime]) -> float:
    """What one would say without a simulator: the median latency of all products, the vendor's peak rate
    (multiply-adds, columns, or bytes from DRAM), and for short copies the latency of the shortest."""
    gpu = load_gpu(GPU)
    machine = machine_from(gpu)
    if row.quantity == "latency":
        return float(np.median([other.value for other in rows if other.quantity == "latency"]))
    if product := _PRODUCT.fullmatch(row.form):
        return (
            int(product[1])
            * int(product[2])
            * _DEPTH
            / (
                gpu.number("peak.tensor_fp16_flops_per_s")
                / 2
                / gpu.number("gpu.sms")
                / gpu.number("clock.boost_hz")
            )
        )
    if access := _ACCESS.fullmatch(row.form):
        return max(1.0, int(access[2]) / machine.tensor_columns_per_cycle)
    sizes = {other: int(found[1]) for other in rows if (found := _COPY.fullmatch(other.form))}
    shortest = min(other.value for other in sizes if other.many == 1)
    a_cycle = gpu.number("dram.bandwidth_bytes_per_s") / gpu.number("gpu.sms") / gpu.number("clock.boost_hz")
    return max(shortest / row.many, sizes[row] / a_cycle)


def main() -> None:
    """Judge all rows, store them, and print the table."""
    rows, figures = [], published()
    print("| form | at once | quantity | published | simulated | ratio | baseline | rests |")
    for row in figures:
        found, simple = simulated(row), baseline(row, figures)
        ratios = {"ratio": round(found / row.value, 4), "baseline_ratio": round(simple / row.value, 4)}
        rows.append({**row.__dict__, "simulated": round(found, 2), **ratios})
        told = f"{row.value:g}", f"{found:.1f}", f"{found / row.value:.3f}", f"{simple / row.value:.3f}"
        print("|", " | ".join((row.form, str(row.many), row.quantity, *told, row.rests)), "|", flush=True)
    stored = json.dumps({"rules": rules_version(), "rows": rows}, indent=1)
    RESULTS.write_text(stored + "\n", encoding="utf-8")
    for kind in ("mma", "ld", "st", "tensor"):
        judged = [r for r in rows if f".{kind}." in r["form"] and r["rests"] == "judged"]
        off = {key: [abs(r[key] - 1) for r in judged] for key in ("ratio", "baseline_ratio")}
        print(
            f"{kind}: {len(judged)} judged, {np.mean(off['ratio']):.1%} off in the mean, "
            f"{max(off['ratio']):.1%} at most; the baseline {np.mean(off['baseline_ratio']):.1%}"
        )


if __name__ == "__main__":
    main()
