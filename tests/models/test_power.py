"""The clock that a board's power limit leaves to a kernel."""

from __future__ import annotations

import csv
import gzip
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.gpu.descriptions import SM_CLOCK, Gpu, list_gpus, load_gpu
from smlab.models.power import INSTRUCTION, LIMIT, TENSOR_OPERATION, PowerUse, held_clock

T4, A100 = load_gpu("t4"), load_gpu("a100-40")
PARTS = st.floats(0, 1)


def needing(watts: float, gpu: Gpu = T4, memory_share: float = 0.0) -> PowerUse:
    """A second of instructions that take so much at the described clock."""
    return PowerUse(1.0, watts / float(gpu.number(INSTRUCTION)), memory_share=memory_share)


def clock_of(gpu: Gpu) -> tuple[float, float, float]:
    return gpu[SM_CLOCK].interval


@given(st.floats(71, 400), PARTS)
def test_at_the_held_clock_a_kernel_takes_what_the_limit_allows(watts: float, memory_share: float) -> None:
    use = needing(watts, memory_share=memory_share)
    held = held_clock(T4, use)
    part = clock_of(held.gpu)[1] / clock_of(T4)[1]
    if part > float(T4.number("clock.base_hz")) / clock_of(T4)[1]:
        assert watts * part / held.slowdown == pytest.approx(70)
    assert held.slowdown == pytest.approx((1 - memory_share) / part + memory_share)


@given(st.floats(1, 1000), PARTS)
def test_the_interval_holds_the_clock_and_no_kernel_is_faster_than_rated(watts: float, share: float) -> None:
    held = held_clock(T4, needing(watts, memory_share=share))
    low, clock, high = clock_of(held.gpu)
    assert low <= clock <= high <= clock_of(T4)[1]
    assert held.slowdown >= 1


@given(st.floats(1, 1000), st.floats(1, 2), PARTS)
def test_more_power_is_never_a_faster_clock(watts: float, times: float, share: float) -> None:
    less, more = (held_clock(T4, needing(w, memory_share=share)) for w in (watts, times * watts))
    assert more.slowdown >= less.slowdown


def test_a_kernel_that_computes_slows_with_the_root_of_its_power() -> None:
    """The energy of an operation falls with the clock, and so does their number a second."""
    assert held_clock(T4, needing(140)).slowdown == pytest.approx(2**0.5)
    assert held_clock(T4, needing(140, memory_share=1)).slowdown == 1


def test_the_base_clock_is_kept() -> None:
    held = held_clock(T4, needing(7000))
    low, clock, _ = clock_of(held.gpu)
    assert clock == T4.number("clock.base_hz") > low


def test_a_clock_that_somebody_saw_stays() -> None:
    seen = T4.with_values({SM_CLOCK: 1e9}, "seen", "measured")
    assert held_clock(seen, needing(200)).gpu is seen


def test_products_need_an_energy_of_their_own() -> None:
    use = replace(needing(200, load_gpu("a10")), tensor_operations=1.0)
    assert held_clock(load_gpu("a10"), use).slowdown == 1
    assert held_clock(A100, replace(needing(300, A100), tensor_operations=1.0)).slowdown > 1


@pytest.mark.parametrize("name", [name for name in list_gpus() if not load_gpu(name).has(INSTRUCTION)])
def test_a_board_that_tells_no_energy_keeps_its_clock(name: str) -> None:
    gpu = load_gpu(name)
    assert held_clock(gpu, PowerUse(1.0, 1e15)).gpu is gpu


@pytest.mark.parametrize("name", [name for name in list_gpus() if load_gpu(name).has(INSTRUCTION)])
def test_every_energy_has_an_interval_and_a_limit(name: str) -> None:
    gpu = load_gpu(name)
    assert gpu.has(LIMIT)
    for key in (INSTRUCTION, TENSOR_OPERATION):
        if gpu.has(key):
            low, value, high = gpu[key].interval
            assert low < value < high


def test_cublas_on_the_larger_a100_is_as_published() -> None:
    """The energies are of cards of 250 W. One of 400 W has 272 TFLOP/s at 4,096 (yencal/cuda-hgemm-mma): of
    96 % of the peak that the tensor cores are kept busy there at most, 0.92 are left."""
    gpu = load_gpu("a100-sxm4-40")
    operations = 0.96 * 312e12
    use = PowerUse(1.0, operations / 4096 * 1.6, operations)  # 4,096 operations a HMMA, and what feeds it
    assert operations / held_clock(gpu, use).slowdown == pytest.approx(272e12, rel=0.03)


@pytest.mark.parametrize(
    ("device", "kernel", "least_ms", "per_multiply_add", "gpu"),
    [
        ("Tesla T4", "volta_sgemm_128x128_tn", 20, 1.27, T4),
        ("NVIDIA A100-PCIE-40GB", "ampere_sgemm_128x64_tn", 8, 1.3, A100),
    ],
)
def test_energies_are_what_measured_products_leave(
    shared_data, device: str, kernel: str, least_ms: float, per_multiply_add: float, gpu: Gpu
) -> None:
    """As the descriptions derive them from NeuSight's linear layers: the power limit over what ran in the
    median, at the clock that the same kernel's best rate tells."""

    def rates(name: str, longest: float) -> list[float]:
        with gzip.open(shared_data / "neusight" / "linear.csv.gz", "rt") as file:
            return [
                2 * float(r["B"]) * float(r["M"]) * float(r["N"]) * float(r["K"]) / float(r["Latency"]) * 1e3
                for r in csv.DictReader(file)
                if r["Device"] == name and r["Kernel Name"] == kernel and float(r["Latency"]) > longest
            ]

    seen = rates(device, least_ms)
    rate = statistics.median(seen)
    if gpu is T4:  # a V100 runs this kernel at its rated clock
        v100 = load_gpu("v100")
        peaks = [float(one.number("peak.fp32_flops_per_s")) for one in (v100, gpu)]
        part = rate / peaks[1] / (statistics.median(rates("Tesla V100-PCIE-32GB", 8)) / peaks[0])
    else:
        part = rate / max(seen)
    joules = float(gpu.number(LIMIT)) / (rate / 64 * per_multiply_add) / part
    assert joules == pytest.approx(float(gpu.number(INSTRUCTION)), rel=0.03)
