"""What the makers' documents say, from the GPU descriptions, beside what the papers say of the same cards."""

from __future__ import annotations

from smlab.hw_bench.datasets.publications import PublishedSeries, load_published_atomics
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.papers.claims.registry import Observed, quantity
from smlab.validation.papers.judging import Scale

KIB, GIB = 2**10, 2**30
A100_80_SXM_BANDWIDTH_GB_PER_S = 2039
"""NVIDIA, 2021, A100 Tensor Core GPU datasheet, column A100 80GB SXM."""


@quantity("specification.value", unit="", evidence="published")
def constant_value(gpu: str, key: str) -> Observed:
    """One constant of a description."""
    description = load_gpu(gpu)
    constant = description[key]
    return Observed.exactly(description.number(key), f"{constant.unit}, {constant.kind}")


@quantity("specification.memory", unit="GiB", evidence="published")
def memory(gpu: str) -> Observed:
    """The device memory of a card."""
    return Observed.exactly(load_gpu(gpu).number("dram.bytes") / GIB)


@quantity("specification.shared_memory", unit="KiB", evidence="published")
def shared_memory(gpu: str) -> Observed:
    """The largest shared memory of an SM."""
    description = load_gpu(gpu)
    with_l1 = description.number("l1.bytes") / KIB
    return Observed.exactly(
        description.number("sm.shared_bytes") / KIB, f"with the L1 cache together {with_l1:g} KiB"
    )


@quantity("specification.rated_bandwidth", unit="GB/s", evidence="published")
def rated_bandwidth(gpu: str) -> Observed:
    """The rated bandwidth of the device memory."""
    return Observed.exactly(load_gpu(gpu).number("dram.bandwidth_bytes_per_s") / 1e9)


@quantity("specification.a100_80_sxm_bandwidth", unit="GB/s", evidence="published")
def a100_80_sxm_bandwidth() -> Observed:
    """The rated bandwidth of the A100 with 80 GB as an SXM module."""
    low = load_gpu("a100-40").number("dram.bandwidth_bytes_per_s") / 1e9
    return Observed.exactly(A100_80_SXM_BANDWIDTH_GB_PER_S, f"the 40 GB card has {low:.0f}")


@quantity("specification.ratio", unit="times", evidence="published", scale=Scale.RATIO)
def ratio(key: str, over: str, under: str) -> Observed:
    """One GPU's constant over another's."""
    return Observed.exactly(load_gpu(over).number(key) / load_gpu(under).number(key))


@quantity("specification.latency_ratio", unit="times", evidence="published", scale=Scale.RATIO)
def latency_ratio(gpu: str) -> Observed:
    """Latency of the device memory over that of shared memory."""
    description = load_gpu(gpu)
    far, near = (description.number(k) for k in ("dram.latency_cycles", "shared.load_latency_cycles"))
    return Observed.exactly(far / near, f"{far:g} and {near:g} cycles")


@quantity("specification.shared_bandwidth_ratio", unit="times", evidence="published", scale=Scale.RATIO)
def shared_bandwidth_ratio(gpu: str) -> Observed:
    """Bandwidth of all SMs' shared memories over the rated one of the device memory."""
    g = load_gpu(gpu)
    per_cycle = g.number("banks.count") * g.number("banks.width_bytes")
    shared = per_cycle * g.number("gpu.sms") * g.number("clock.boost_hz")
    return Observed.exactly(
        shared / g.number("dram.bandwidth_bytes_per_s"), f"{shared / 1e12:.1f} TB/s of shared memory"
    )


@quantity("specification.bytes_per_pass", unit="bytes", evidence="published")
def bytes_per_pass(gpu: str) -> Observed:
    """What the banks of an SM's shared memory deliver in one pass."""
    g = load_gpu(gpu)
    return Observed.exactly(g.number("banks.count") * g.number("banks.width_bytes"))


@quantity("specification.resident_blocks", unit="blocks", evidence="published")
def resident_blocks(gpu: str, threads: int) -> Observed:
    """How many blocks of so many threads all SMs hold at a time, by threads alone."""
    g = load_gpu(gpu)
    return Observed.exactly(g.integer("gpu.sms") * (g.integer("sm.max_threads") // threads))


@quantity("specification.threads_for_shared_bytes", unit="threads", evidence="published")
def threads_for_shared_bytes(gpu: str, bytes_per_thread: int) -> Observed:
    """How many threads one SM's shared memory serves, each with so many bytes."""
    g = load_gpu(gpu)
    threads = g.integer("sm.shared_bytes") // bytes_per_thread
    return Observed.exactly(threads, f"{threads // 32 * 32} in whole warps")


def _series(gpu: str, op: str) -> PublishedSeries:
    for series in load_published_atomics():
        if (series.gpu, series.op) == (gpu, op):
            return series
    raise SmlabError.at("published atomics", "no such series", (gpu, op))


def _ratio(over: PublishedSeries, i: int, under: PublishedSeries, j: int) -> Observed:
    return Observed(
        over.cycles_per_instruction[i] / under.cycles_per_instruction[j],
        over.low[i] / under.high[j],
        over.high[i] / under.low[j],
        f"{over.cycles_per_instruction[i]} and {under.cycles_per_instruction[j]} cycles",
    )


@quantity("published_atomics.lanes_ratio", unit="times", evidence="published", scale=Scale.RATIO)
def lanes_ratio(gpu: str, op: str, lanes: int, over: int) -> Observed:
    """Published time of an atomic with ``over`` lanes on each word over that with ``lanes`` (Jia & Van
    Sandt 2021)."""
    series = _series(gpu, op)
    return _ratio(series, series.same_word.index(over), series, series.same_word.index(lanes))


@quantity("published_atomics.popc_inc_ratio", unit="times", evidence="published", scale=Scale.RATIO)
def popc_inc_ratio(lanes: int) -> Observed:
    """Published time of ATOMS.POPC.INC over that of ATOMS.ADD on an A100, with so many lanes on each word."""
    inc, add = _series("a100-40", "popc-inc"), _series("a100-40", "add")
    return _ratio(inc, inc.same_word.index(lanes), add, add.same_word.index(lanes))
