"""How long products of matrices take on the simulated GPU, beside published measurements.

``python -m smlab.validation.campaigns.tensor_cores.timing`` makes ``timing.json`` anew and prints the table:
some minutes. ``--ptxas PATH --out OTHER.json`` takes another assembler, for products up to sm_90. Up to CUDA
12.3 ptxas writes other control codes (``timing-ptxas-12.1.json``).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.sass.tools import Tool, assemble, find_ptxas
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.validation.campaigns.published_figures import table_rows
from smlab.validation.campaigns.tensor_cores import asynchronous_units, cluster_loads
from smlab.validation.campaigns.tensor_cores.access_kernels import MIX, AccessKernel, access_kernel
from smlab.validation.campaigns.tensor_cores.forms import ProductForm
from smlab.validation.service_tables import rules_version

PUBLISHED: Final = Path(__file__).with_name("published.csv")
RESULTS: Final = Path(__file__).with_name("timing.json")
POLICIES: Final = ("glr", "lrr")
ITERATIONS: Final = {"syncwarp": 1024, "unrolled": 2048, "rolled": 2048}
"""As many as the authors had: what comes once, such as the first fetch of the instructions, is in their
figures."""
UNROLL: Final = 32
"""Turns that NVRTC 12.9 makes one of, in such a loop of three chains."""
LATENCY_BOUNDS: Final = 2.0, 0.10
"""In cycles, and as a part; the larger one holds."""
RATE_BOUND: Final = 0.08
BASELINE_LATENCY: Final = 24.7
"""What a product takes on an A100 (16 x 8 x 16, halves, sums in singles), as if it did everywhere."""
SCHEDULERS: Final = 4
PTX: Final = "8.7"
OLD_PTX: Final = "8.0"
"""Which CUDA 12.0 and later read."""
OLD_PTX_NEWEST_SM: Final = 90
RUNS_CODE_OF: Final = {"sm_103": "sm_100"}
"""The disassembler of the pinned tools does not know all: a GPU also runs code of its family's first one."""
_NAME: Final = re.compile(r"mma\.(?:(kind::\w+)\.)?m(\d+)n(\d+)k(\d+)\.(\w+)\.(\w+)((?:\.\w+)*)")
_RATES: Final = {
    "f64": "fp64",
    "tf32": "tf32",
    "bf16": "bf16",
    "s8": "int8",
    "s4": "int4",
    "b1": "int1",
}
_PEAKS: Final[dict[str, dict[str, float]]] = {
    "sm_90": {"fp16": 512, "fp16_fp32": 512, "bf16": 512, "tf32": 256, "int8": 1024},
    "sm_100": {"fp16": 1024, "fp16_fp32": 1024, "bf16": 1024},
    "sm_103": {"fp16": 1024, "fp16_fp32": 1024, "bf16": 1024},
}
"""Vendors' peak rates of a scheduler where the description has measured ones: dense, by asynchronous
products."""


@dataclass(frozen=True)
class Published:
    """One published figure: of a form (PTX's name), by so many warps of one SM and chains of each warp.

    ``quantity`` is ``latency`` (cycles of an iteration: one product of each chain), ``added`` (those beyond
    a chain of loads), ``interval`` (cycles of a product of a warp, or of a turn) or ``throughput``
    (multiply-adds a cycle and SM). ``rests`` is ``fitted`` if a
    constant of the description rests on it, or on a vendor's peak that it repeats.
    """

    card: str
    gpu: str
    form: str
    warps: int
    ilp: int
    loop: str
    quantity: str
    value: float
    rests: str
    source: str


@dataclass(frozen=True)
class JudgedTime:
    """A published figure, the simulated one and that of the trivial baseline."""

    published: Published
    simulated: float
    baseline: float | None

    @property
    def ratio(self) -> float:
        """Simulated over published."""
        return self.simulated / self.published.value

    @property
    def is_within(self) -> bool:
        """Whether it is within the bounds."""
        return within(self.published, self.simulated)


def within(row: Published, value: float) -> bool:
    """Whether a figure for this row is within the bounds of what is published."""
    off = abs(value - row.value)
    if row.quantity in ("latency", "added"):
        return off <= max(LATENCY_BOUNDS[0], LATENCY_BOUNDS[1] * row.value)
    return off <= RATE_BOUND * row.value


def published(path: Path = PUBLISHED) -> list[Published]:
    """All figures."""
    texts = ("card", "gpu", "form", "loop", "quantity", "rests", "source")
    return [
        Published(
            warps=int(row["warps"]),
            ilp=int(row["ilp"]),
            value=float(row["value"]),
            **{name: row[name] for name in texts},
        )
        for row in table_rows(path)
    ]


def form_of(name: str) -> ProductForm | None:
    """The form of PTX's short name; None for a load of matrices."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    kind, m, n, k, total, a, extra = match.groups()
    return ProductForm(int(m), int(n), int(k), total, a, a, (), extra, kind or "")


def products_source(form: ProductForm, architecture: str, ilp: int, loop: str) -> str:
    """The kernel ``timed``: a loop of ``ilp`` chains, D = A * B + D, between two readings of the clock."""
    wide = form.total == "f64"
    kind = {"f64": "f64", "f32": "f32"}.get(form.total, "b32")
    kinds = {"a": "f64" if wide else "b32", "b": "f64" if wide else "b32", "c": kind}
    counts = {name: form.registers(name) for name in "abc"}
    size = 8 if wide else 4
    lines = [
        *(f".reg .{kinds[x]} %{x}<{ilp * counts[x]}>;" for x in "abc"),
        "ld.param.u64 %at0, [zeros];",
    ]
    place = 0
    for name in "abc":
        for n in range(ilp * counts[name]):
            lines.append(f"ld.volatile.global.{kinds[name]} %{name}{n}, [%at0+{place}];")
            place += size
    one = []
    for chain in range(ilp):
        lists = []
        for name in "cabc":
            count = counts[name]
            lists.append("{" + ", ".join(f"%{name}{chain * count + n}" for n in range(count)) + "}")
        one.append(f"{form.ptx} {', '.join(lists)};")
    store = [f"st.volatile.global.{kind} [%at0+{size * n}], %c{n};" for n in range(ilp * counts["c"])]
    return _loop(architecture, lines, one, store, loop)


def loads_source(name: str, architecture: str, stride: int) -> str:
    """The kernel ``timed``, of loads of matrices: rows ``stride`` bytes apart, or (0) each load's address
    from the load before it."""
    count = int(name[-1])
    results = ", ".join(f"%m{n}" for n in range(count))
    lines = [
        ".shared .align 128 .b8 rows[16384];",
        ".reg .b32 %m<4>; .reg .b32 %sum<4>; .reg .b32 %row;",
        "mov.u32 %row, rows;",
        *(f"mov.u32 %sum{n}, 0;" for n in range(4)),
    ]
    load = f"ldmatrix.sync.aligned.m8n8.x{count}.shared.b16 {{{results}}}, [%row];"
    if stride:
        lines.append(f"and.b32 %m0, %r0, 31; mad.lo.u32 %row, %m0, {stride}, %row;")
        after = [f"xor.b32 %sum{n}, %sum{n}, %m{n};" for n in range(count)]
        one = [load, *after, "bar.warp.sync 0xffffffff;"]  # keeps equal loads apart
    else:  # all words hold the address of the first row
        lines.append("shl.b32 %m0, %r0, 2; add.u32 %m0, %m0, %row; st.shared.u32 [%m0], %row;")
        one = [load, "mov.b32 %row, %m0;"]
    lines.append("ld.param.u64 %at0, [zeros];")
    store = [f"xor.b32 %m{n}, %m{n}, %sum{n};" for n in range(count)]
    store += [f"st.volatile.global.u32 [%at0+{4 * n}], %m{n};" for n in range(count)]
    return _loop(architecture, lines, one, store, "unrolled")


def _loop(
    architecture: str, before: Sequence[str], one: Sequence[str], after: Sequence[str], loop: str
) -> str:
    chains = sum(line.startswith("mma.") for line in one) or 1
    iterations = ITERATIONS[loop]
    unroll = {"syncwarp": UNROLL, "rolled": 1}.get(loop, max(1, UNROLL // chains))
    body = [*one, "bar.warp.sync 0xffffffff;" * (loop == "syncwarp")] * unroll
    lines = [
        f".version {PTX}\n.target {architecture}\n.address_size 64",
        ".visible .entry timed(.param .u64 zeros, .param .u64 begins, .param .u64 ends) {",
        ".reg .b32 %r<3>; .reg .b64 %at<4>; .reg .b64 %clock<2>; .reg .pred %again;",
        "mov.u32 %r0, %tid.x;",
        *before,
        "mov.u32 %r1, 0;",
        "bar.sync 0;",
        "mov.u64 %clock0, %clock64;",
        "NEXT:",
        '.pragma "nounroll";',
        *body,
        f"add.u32 %r1, %r1, 1; setp.lt.u32 %again, %r1, {iterations // unroll}; @%again bra NEXT;",
        "mov.u64 %clock1, %clock64;",
        *after,
        "ld.param.u64 %at1, [begins]; ld.param.u64 %at2, [ends]; mul.wide.u32 %at3, %r0, 8;",
        "add.u64 %at1, %at1, %at3; add.u64 %at2, %at2, %at3;",
        "st.global.u64 [%at1], %clock0; st.global.u64 [%at2], %clock1;",
        "ret; }",
    ]
    return "\n".join(lines)


def cycles_an_iteration(row: Published, gpu: Gpu, tool: Tool | None = None) -> float:
    """Cycles of a iteration: from the first warp's start to the last one's end, over the iterations. Of loads
    from another block's shared memory what is published: cycles, or bytes a cycle."""
    own = gpu.sm_architecture
    architecture = RUNS_CODE_OF.get(own, own)
    if cluster_loads.is_cluster_load(row.form):
        return cluster_loads.simulated(row.form, row.warps, row.loop, gpu, architecture)
    if asynchronous_units.is_asynchronous_unit(row.form):
        return asynchronous_units.simulated(row.form, row.warps, row.ilp, row.loop, gpu)
    form = form_of(row.form)
    architecture += "a" * bool(form and form.kind)
    kernel = access_kernel(row.form, row.loop, architecture, row.warps)
    if kernel is not None:
        cycles = _cycles_a_turn(kernel, row, gpu, architecture)
        if row.quantity == "added":
            cycles -= cycles_an_iteration(replace(row, form="ld.global", quantity="latency"), gpu)
        return cycles
    if form is None:
        source = loads_source(row.form, architecture, int(row.loop.removeprefix("stride")))
    else:
        source = products_source(form, architecture, row.ilp, row.loop)
    kernel = AccessKernel(source, ITERATIONS.get(row.loop, ITERATIONS["unrolled"]))
    return _cycles_a_turn(kernel, row, gpu, architecture, tool)


def _cycles_a_turn(
    kernel: AccessKernel, row: Published, gpu: Gpu, architecture: str, tool: Tool | None = None
) -> float:
    text = kernel.text if tool is None else kernel.text.replace(f".version {PTX}", f".version {OLD_PTX}")
    image = from_cubin(assemble(text, architecture, tool)[0], "timed", row.form)
    threads = kernel.threads or 32 * row.warps
    sampled = kernel.whole or kernel.blocks > 1
    blocks = kernel.blocks * (gpu.integer("gpu.sms") if sampled else 1)
    words = np.zeros(kernel.words * (blocks // kernel.blocks if kernel.whole else 1), np.uint64)
    begins, ends = np.zeros(threads * blocks, np.uint64), np.zeros(threads * blocks, np.uint64)
    launch = MachineLaunch(image, (blocks, 1, 1), (threads, 1, 1), (words, begins, ends))
    run_machine_code(launch, gpu, sms=4 if kernel.whole else 1)
    if kernel.whole:  # each SM has its own clock
        return float(np.median((ends - begins)[ends > 0])) / kernel.iterations
    ran = ends > 0
    begins, ends = begins[ran], ends[ran]
    return float(ends.max() - begins.min()) / kernel.iterations


def judge(rows: Iterable[Published], policy: str, tool: Tool | None = None) -> list[JudgedTime]:
    """All rows, each beside the simulated figure, under a policy of the schedulers."""
    found, known = [], {}
    for row in rows:
        values: dict[str, int | float | str] = {"sm.scheduler_policy": policy}
        gpu = load_gpu(row.gpu).with_values(values, source="one of both policies")
        key = (row.gpu, row.form, row.warps, row.ilp, row.loop)
        if key not in known:
            known[key] = cycles_an_iteration(row, gpu, tool)
        found.append(JudgedTime(row, _as_published(row, known[key]), _baseline(row, gpu)))
        print(
            f"{row.card} {row.form} {row.warps} {row.ilp}: {found[-1].simulated:.2f} for {row.value:g}",
            file=sys.stderr,
        )
    return found


def _is_for_old_tools(row: Published) -> bool:
    form = form_of(row.form)
    sm = int(load_gpu(row.gpu).sm_architecture.removeprefix("sm_"))
    return form is not None and not form.kind and sm <= OLD_PTX_NEWEST_SM and not MIX.fullmatch(row.loop)


def _as_published(row: Published, cycles: float) -> float:
    form = form_of(row.form)
    if row.quantity in ("latency", "added") or cluster_loads.is_cluster_load(row.form):
        return cycles
    if row.quantity == "interval":
        return cycles / row.ilp
    assert form is not None, row.form
    if shape := MIX.fullmatch(row.loop):
        return 32 * int(shape[3]) * row.warps * form.m * form.n * form.k / cycles
    return form.products * form.m * form.n * form.k * row.ilp * row.warps / cycles


def _baseline(row: Published, gpu: Gpu) -> float | None:
    """The vendor's peak for a rate, one constant for a latency."""
    form = form_of(row.form)
    if form is None:
        return None
    if row.quantity == "latency" and row.ilp == 1 and row.warps == 1:
        return BASELINE_LATENCY
    rate = _peak(form, gpu)
    if rate is None:
        return None
    interval = form.products * form.m * form.n * form.k / rate
    if row.quantity == "throughput":
        return rate * SCHEDULERS
    return interval * (row.ilp if row.quantity == "latency" else 1)


def _peak(form: ProductForm, gpu: Gpu) -> float | None:
    """Multiply-adds a cycle of a scheduler: the vendor's peak, which is the description's where it has no
    measured rate."""
    kind = _RATES.get(form.a)
    if kind is None:
        kind = "fp16" if form.a == "f16" else "fp8"
        kind += "_fp32" * (form.total == "f32")
    if gpu.sm_architecture in _PEAKS:
        return _PEAKS[gpu.sm_architecture].get(kind)
    key = f"tensor.{kind}_fma_per_cycle"
    return float(gpu.number(key)) if gpu.has(key) else None


def summary(judged: Sequence[JudgedTime]) -> dict[str, Any]:
    """How many rows, their median error, what is within the bounds, and the same of the baseline."""
    found: dict[str, Any] = {}
    groups = {
        "judged latency": [j for j in judged if _group(j) == ("judged", True)],
        "judged rate": [j for j in judged if _group(j) == ("judged", False)],
        "fitted": [j for j in judged if _group(j)[0] == "fitted"],
        "fitted loads and copies": [j for j in judged if _group(j) == ("load", False) and _fitted(j)],
        "judged loads and copies": [j for j in judged if _group(j) == ("load", False) and not _fitted(j)],
        "loads from another block": [j for j in judged if _group(j)[0] == "cluster load"],
        "fitted asynchronous units": [j for j in judged if _group(j) == ("asynchronous", True)],
        "judged asynchronous units": [j for j in judged if _group(j) == ("asynchronous", False)],
    }
    for name, rows in groups.items():
        based = [(j.published, j.baseline) for j in rows if j.baseline is not None]
        found[name] = {
            "rows": len(rows),
            "median_percent": _percent([j.ratio for j in rows]),
            "within": sum(j.is_within for j in rows),
            "baseline_rows": len(based),
            "baseline_median_percent": _percent([value / row.value for row, value in based]),
            "baseline_within": sum(within(row, value) for row, value in based),
            "simulated_within_of_them": sum(j.is_within for j in rows if j.baseline is not None),
        }
    found["worst"] = [
        " ".join(map(str, (j.published.card, j.published.form, j.published.warps, j.published.ilp)))
        + f": {j.ratio:.3f}"
        for j in sorted(judged, key=lambda j: -abs(np.log(j.ratio)))
        if not j.is_within
    ]
    return found


def _group(one: JudgedTime) -> tuple[str, bool]:
    row = one.published
    if cluster_loads.is_cluster_load(row.form):
        return "cluster load", row.quantity == "latency"
    if asynchronous_units.is_asynchronous_unit(row.form):
        return "asynchronous", _fitted(one)
    if form_of(row.form) is None or MIX.fullmatch(row.loop):
        return "load", False
    return row.rests, row.quantity == "latency"


def _fitted(one: JudgedTime) -> bool:
    return one.published.rests == "fitted"


def _percent(ratios: Sequence[float]) -> float | None:
    return round(100 * float(np.median([abs(x - 1) for x in ratios])), 2) if ratios else None


def _row(one: JudgedTime, other: JudgedTime) -> dict[str, Any]:
    row = one.published
    return {
        "card": row.card,
        "gpu": row.gpu,
        "form": row.form,
        "warps": row.warps,
        "ilp": row.ilp,
        "loop": row.loop,
        "quantity": row.quantity,
        "published": row.value,
        "simulated": round(one.simulated, 3),
        "ratio": round(one.ratio, 4),
        "within": one.is_within,
        "ratio_lrr": round(other.ratio, 4),
        "within_lrr": other.is_within,
        "baseline": None if one.baseline is None else round(one.baseline, 3),
        "rests": row.rests,
        "source": row.source,
    }


def main() -> None:
    """Judge all rows, store them, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--ptxas", type=Path, help="another assembler, for products up to sm_90")
    chosen = parser.parse_args()
    tool = find_ptxas(chosen.ptxas) if chosen.ptxas else None
    wanted = [row for row in published() if tool is None or _is_for_old_tools(row)]
    judged, other = (judge(wanted, policy, tool) for policy in POLICIES)
    told = {policy: summary(rows) for policy, rows in zip(POLICIES, (judged, other), strict=True)}
    rows = [_row(*pair) for pair in zip(judged, other, strict=True)]
    stored = {"rules": rules_version(), "summary": told, "rows": rows}
    chosen.out.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    print("| card | form | warps x chains | quantity | published | simulated | ratio | lrr | rests | |")
    for one in rows:
        cells = [one["card"], one["form"], f"{one['warps']} x {one['ilp']}", one["quantity"]]
        cells += [f"{one['published']:g}", f"{one['simulated']:.2f}"]
        cells += [f"{one['ratio']:.3f}", f"{one['ratio_lrr']:.3f}", one["rests"]]
        print("|", " | ".join([*cells, "" if one["within"] else "beyond"]), "|")
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
