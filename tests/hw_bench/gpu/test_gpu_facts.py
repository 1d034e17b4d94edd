"""Are the shipped figures true? Held against NVIDIA's round numbers and against each other, by independent
ways."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from smlab.hw_bench.datasets.publications import PublishedSeries, load_published_atomics
from smlab.hw_bench.gpu.descriptions import FOLDER, Gpu, list_gpus, load_gpu
from smlab.hw_bench.gpu.schema import ATOMIC_OPS

ALL = list_gpus()

# SMs; warps, blocks, registers an SM; KiB of shared memory an SM and a block; KiB of L2; GiB; bus width in
# bits; transfers a memory clock. From NVIDIA's tables, typed in here apart from the descriptions.
FACTS = {
    "p100": (56, 64, 32, 65536, 64, 48, 4096, 16, 4096, 2),
    "v100": (80, 64, 32, 65536, 96, 96, 6144, 32, 4096, 2),
    "v100-sxm2": (80, 64, 32, 65536, 96, 96, 6144, 32, 4096, 2),
    "titan-v": (80, 64, 32, 65536, 96, 96, 4608, 12, 3072, 2),
    "t4": (40, 32, 16, 65536, 64, 64, 4096, 16, 256, 2),
    "a100-40": (108, 64, 32, 65536, 164, 163, 40960, 40, 5120, 2),
    "a100-80": (108, 64, 32, 65536, 164, 163, 40960, 80, 5120, 2),
    "a6000": (84, 48, 16, 65536, 100, 99, 6144, 48, 384, 8),
    "l4": (58, 48, 24, 65536, 100, 99, 49152, 24, 192, 2),
    "h100-pcie": (114, 64, 32, 65536, 228, 227, 51200, 80, 5120, 2),
    "h100-sxm": (132, 64, 32, 65536, 228, 227, 51200, 80, 5120, 2),
    "h200": (132, 64, 32, 65536, 228, 227, 51200, 141, 6144, 2),
    "gtx-1080-ti": (28, 64, 32, 65536, 96, 48, 2816, 11, 352, 8),
    "p4": (20, 64, 32, 65536, 96, 48, 2048, 8, 256, 4),
    "p40": (30, 64, 32, 65536, 96, 48, 3072, 24, 384, 4),
    "titan-rtx": (72, 32, 16, 65536, 64, 64, 6144, 24, 384, 8),
    "rtx-2080-ti": (68, 32, 16, 65536, 64, 64, 5632, 11, 352, 8),
    "rtx-2080": (46, 32, 16, 65536, 64, 64, 4096, 8, 256, 8),
    "rtx-2070": (36, 32, 16, 65536, 64, 64, 4096, 8, 256, 8),
    "rtx-2070-super": (40, 32, 16, 65536, 64, 64, 4096, 8, 256, 8),
    "rtx-2060-super": (34, 32, 16, 65536, 64, 64, 4096, 8, 256, 8),
    "rtx-2060": (30, 32, 16, 65536, 64, 64, 3072, 6, 192, 8),
    "rtx-3060": (28, 48, 16, 65536, 100, 99, 3072, 12, 192, 8),
    "rtx-3060-laptop": (30, 48, 16, 65536, 100, 99, 3072, 6, 192, 8),
    "rtx-3070": (46, 48, 16, 65536, 100, 99, 4096, 8, 256, 8),
    "rtx-3080": (68, 48, 16, 65536, 100, 99, 5120, 10, 320, 16),
    "rtx-3090": (82, 48, 16, 65536, 100, 99, 6144, 24, 384, 16),
    "a10": (72, 48, 16, 65536, 100, 99, 6144, 24, 384, 8),
    "a40": (84, 48, 16, 65536, 100, 99, 6144, 48, 384, 8),
    "rtx-a4000": (48, 48, 16, 65536, 100, 99, 4096, 16, 256, 8),
    "rtx-a5000": (64, 48, 16, 65536, 100, 99, 6144, 24, 384, 8),
    "rtx-4070": (46, 48, 24, 65536, 100, 99, 36864, 12, 192, 16),
    "rtx-4080": (76, 48, 24, 65536, 100, 99, 65536, 16, 256, 16),
    "rtx-4090": (128, 48, 24, 65536, 100, 99, 73728, 24, 384, 16),
    "l40s": (142, 48, 24, 65536, 100, 99, 98304, 48, 384, 8),
    "a30": (56, 64, 32, 65536, 164, 163, 24576, 24, 3072, 2),
    "a100-sxm4-40": (108, 64, 32, 65536, 164, 163, 40960, 40, 5120, 2),
    "a100-sxm4-80": (108, 64, 32, 65536, 164, 163, 40960, 80, 5120, 2),
    "rtx-5090": (170, 48, 24, 65536, 100, 99, 98304, 32, 512, 16),
    "b200": (148, 64, 32, 65536, 228, 227, 129024, 180, 8192, 2),
    "h800": (132, 64, 32, 65536, 228, 227, 51200, 80, 5120, 2),
    "b300": (148, 64, 32, 65536, 228, 227, 129024, 288, 8192, 2),
    "thor": (20, 48, 24, 65536, 228, 227, 32768, 128, 256, 2),
}
# Base and boost clock in MHz, power in W, rated GB/s; typed in apart from the descriptions. Held against
# public tables where one was found: lists of GPUs (gists by sagnitude and Fuwn, one of Lambda's), and pages
# of single cards (thefpsreview, askgeek, technical.city, itcreations, alldbin).
CLOCKS = {
    "gtx-1080-ti": (1480, 1582, 250, 484),
    "p4": (810, 1063, 75, 192),
    "p40": (1303, 1531, 250, 346),
    "p100": (1126, 1303, 250, 732),
    "titan-v": (1200, 1455, 250, 653),
    "v100": (1230, 1380, 250, 900),
    "v100-sxm2": (1290, 1530, 300, 900),
    "titan-rtx": (1350, 1770, 280, 672),
    "rtx-2060": (1365, 1680, 160, 336),
    "rtx-2060-super": (1470, 1650, 175, 448),
    "rtx-2070": (1410, 1620, 175, 448),
    "rtx-2070-super": (1605, 1770, 215, 448),
    "rtx-2080": (1515, 1710, 215, 448),
    "rtx-2080-ti": (1350, 1545, 250, 616),
    "t4": (585, 1590, 70, 320),
    "a100-40": (765, 1410, 250, 1555),
    "a100-80": (1065, 1410, 300, 1935),
    "a100-sxm4-40": (1095, 1410, 400, 1555),
    "a100-sxm4-80": (1275, 1410, 400, 2039),
    "a30": (930, 1440, 165, 933),
    "a10": (885, 1695, 150, 600),
    "a40": (1305, 1740, 300, 696),
    "a6000": (1410, 1800, 300, 768),
    "rtx-a4000": (735, 1560, 140, 448),
    "rtx-a5000": (1170, 1695, 230, 768),
    "rtx-3060": (1320, 1777, 170, 360),
    "rtx-3060-laptop": (900, 1425, 80, 336),
    "rtx-3070": (1500, 1725, 220, 448),
    "rtx-3080": (1440, 1710, 320, 760),
    "rtx-3090": (1395, 1695, 350, 936),
    "rtx-4070": (1920, 2475, 200, 504),
    "rtx-4080": (2205, 2505, 320, 717),
    "rtx-4090": (2235, 2520, 450, 1008),
    "rtx-5090": (2017, 2407, 575, 1792),
    "l4": (795, 2040, 72, 300),
    "l40s": (1110, 2520, 350, 864),
    "h100-pcie": (1125, 1755, 350, 2039),
}
# TFLOP/s of FP32 as the makers round them (TechPowerUp's where the maker gives none), typed in here apart.
TERAFLOPS = {
    **{
        "p100": 9.3,
        "v100": 14,
        "v100-sxm2": 15.7,
        "titan-v": 14.9,
        "t4": 8.1,
        "a100-40": 19.5,
        "a100-80": 19.5,
    },
    **{
        "a6000": 38.7,
        "l4": 30.3,
        "h100-pcie": 51.2,
        "h100-sxm": 67,
        "h200": 67,
        "gtx-1080-ti": 11.3,
        "p4": 5.5,
    },
    **{
        "p40": 11.8,
        "titan-rtx": 16.3,
        "rtx-2080-ti": 13.4,
        "rtx-2080": 10.1,
        "rtx-2070": 7.5,
        "rtx-2070-super": 9.1,
        "rtx-2060": 6.5,
    },
    **{"rtx-2060-super": 7.2, "rtx-3060": 12.7, "rtx-3060-laptop": 10.9, "rtx-3070": 20.3, "rtx-3080": 29.8},
    **{"rtx-3090": 35.6, "a10": 31.2, "a40": 37.4, "rtx-a4000": 19.2, "rtx-a5000": 27.8, "rtx-4070": 29.1},
    **{
        "rtx-4080": 48.7,
        "rtx-4090": 82.6,
        "rtx-5090": 104.8,
        "l40s": 91.6,
        "a30": 10.3,
        "a100-sxm4-40": 19.5,
        "a100-sxm4-80": 19.5,
    },
    "b200": 75,
    "h800": 67,
    "b300": 72.7,
    "thor": 8.1,
}
CAPABILITY = {
    "pascal": {"6.0", "6.1"},
    "volta": {"7.0"},
    "turing": {"7.5"},
    "ampere": {"8.0", "8.6"},
    "ada": {"8.9"},
    "hopper": {"9.0"},
    "blackwell": {"10.0", "10.3", "11.0", "12.0"},
}
BEFORE_AMPERE = ("pascal", "volta", "turing")
# Watts, from the makers' pages, typed in here apart from the descriptions.
POWER = {
    "p100": 250,
    "v100": 250,
    "v100-sxm2": 300,
    "titan-v": 250,
    "t4": 70,
    "a100-40": 250,
    "a100-80": 300,
    "a6000": 300,
    "l4": 72,
    "h100-pcie": 350,
    "h100-sxm": 700,
    "h200": 700,
    **{"gtx-1080-ti": 250, "p4": 75, "p40": 250, "titan-rtx": 280, "rtx-2080-ti": 250, "rtx-2080": 215},
    **{"rtx-2070-super": 215},
    **{"rtx-2070": 175, "rtx-2060-super": 175, "rtx-2060": 160, "rtx-3060": 170, "rtx-3060-laptop": 80},
    **{"rtx-3070": 220, "rtx-3080": 320, "rtx-3090": 350, "a10": 150, "a40": 300, "rtx-a4000": 140},
    **{
        "rtx-a5000": 230,
        "rtx-4070": 200,
        "rtx-4080": 320,
        "rtx-4090": 450,
        "rtx-5090": 575,
        "l40s": 350,
        "a30": 165,
    },
    **{"a100-sxm4-40": 400, "a100-sxm4-80": 400, "b200": 1000},
    "h800": 700,
    "b300": 1400,
    "thor": 130,
}


@pytest.fixture(params=ALL)
def gpu(request: pytest.FixtureRequest) -> Gpu:
    return load_gpu(request.param)


def test_every_gpu_has_its_facts() -> None:
    assert sorted(FACTS) == ALL


def test_spec_facts(gpu: Gpu) -> None:
    sms, warps, blocks, registers, shared, per_block, l2, memory, _, _ = FACTS[gpu.name]
    assert gpu.integer("gpu.sms") == sms
    assert gpu.integer("sm.max_warps") == warps
    assert gpu.integer("sm.max_threads") == 32 * warps
    assert gpu.integer("sm.max_blocks") == blocks
    assert gpu.integer("sm.registers") == registers
    assert gpu.integer("sm.shared_bytes") == shared * 1024
    assert gpu.integer("sm.shared_bytes_per_block") == per_block * 1024
    assert gpu.integer("l2.bytes") == l2 * 1024
    assert gpu.integer("dram.bytes") == memory * 1024**3
    assert gpu.integer("sm.schedulers") == (2 if gpu.name == "p100" else 4)
    assert gpu.integer("sm.warp_lanes") == 32
    assert gpu.number("power.limit_w") == POWER[gpu.name]
    assert (gpu.integer("banks.count"), gpu.integer("banks.width_bytes")) == (32, 4)
    assert gpu.compute_capability in CAPABILITY[gpu.architecture]


@pytest.mark.parametrize("name", sorted(CLOCKS))
def test_clocks_power_and_bandwidth(name: str) -> None:
    gpu = load_gpu(name)
    base, boost, power, bandwidth = CLOCKS[name]
    assert gpu.number("clock.base_hz") / 1e6 == pytest.approx(base, abs=1)
    assert gpu.number("clock.boost_hz") / 1e6 == pytest.approx(boost, abs=1)
    assert gpu.number("power.limit_w") == power
    assert gpu.number("dram.bandwidth_bytes_per_s") / 1e9 == pytest.approx(bandwidth, abs=1)


def test_shared_memory_rules_of_the_architecture(gpu: Gpu) -> None:
    early = gpu.architecture in BEFORE_AMPERE
    reserved = gpu.integer("sm.shared_reserved_bytes_per_block")
    assert reserved == (0 if early else 1024)
    assert gpu.integer("sm.shared_unit_bytes") == (256 if early else 128)
    if gpu.architecture == "pascal":  # a block has 48 KiB and no opt-in
        return
    # the largest block and what the system takes of it fill the SM exactly
    assert gpu.integer("sm.shared_bytes_per_block") + reserved == gpu.integer("sm.shared_bytes")


@pytest.mark.parametrize(
    ("pipe", "peak", "results"), [("fp32", "fp32", 32), ("fp64", "fp64", 32), ("fp16", "fp16", 64)]
)
def test_peaks_follow_from_intervals_and_clock(gpu: Gpu, pipe: str, peak: str, results: int) -> None:
    """NVIDIA's rated peak is 2 FLOP x results of an instruction x pipes / interval x SMs x boost clock.

    A half2 instruction gives 64 results. The ratings are rounded to two or three digits, hence 2 %.
    """
    pipes = gpu.integer("sm.schedulers") if gpu.text(f"pipe.{pipe}.shared_by") == "scheduler" else 1
    per_cycle = 2 * results * pipes / gpu.number(f"pipe.{pipe}.interval_cycles")
    derived = per_cycle * gpu.integer("gpu.sms") * gpu.number("clock.boost_hz")
    assert gpu.number(f"peak.{peak}_flops_per_s") == pytest.approx(derived, rel=0.02)


def test_rated_flops_are_lanes_times_the_boost_clock(gpu: Gpu) -> None:
    """SMs x lanes x 2 x boost clock, against the maker's figure, typed in apart; both are rounded."""
    lanes = {"6.0": 64, "7.0": 64, "7.5": 64, "8.0": 64}.get(gpu.compute_capability, 128)
    derived = gpu.integer("gpu.sms") * lanes * 2 * gpu.number("clock.boost_hz")
    assert derived == pytest.approx(1e12 * TERAFLOPS[gpu.name], rel=0.015)
    assert gpu.number("peak.fp32_flops_per_s") == pytest.approx(1e12 * TERAFLOPS[gpu.name], rel=0.01)


def test_memory_bandwidth_follows_from_clock_and_bus(gpu: Gpu) -> None:
    bits, transfers = FACTS[gpu.name][-2:]
    derived = gpu.number("clock.memory_hz") * transfers * bits / 8
    assert gpu.number("dram.bandwidth_bytes_per_s") == pytest.approx(derived, rel=0.01)


def test_tensor_cores_beat_the_fp16_pipe(gpu: Gpu) -> None:
    if gpu.architecture == "pascal":
        assert not gpu.has("peak.tensor_fp16_flops_per_s")
        return
    ratio = gpu.number("peak.tensor_fp16_flops_per_s") / gpu.number("peak.fp16_flops_per_s")
    assert 3.5 < ratio < (17 if gpu.architecture == "blackwell" else 8)


def test_memory_bandwidth_grows_with_the_years() -> None:
    order = [
        "l4",
        "t4",
        "titan-v",
        "p100",
        "a6000",
        "v100",
        "a100-40",
        "a100-80",
        "h100-pcie",
        "h100-sxm",
        "h200",
    ]
    rated = [load_gpu(name).number("dram.bandwidth_bytes_per_s") for name in order]
    assert rated == sorted(rated)


def test_each_level_is_wider_than_the_next(gpu: Gpu) -> None:
    l1 = gpu.number("l1.bandwidth_bytes_per_cycle") * gpu.integer("gpu.sms") * gpu.number("clock.sm_hz")
    assert l1 > gpu.number("l2.bandwidth_bytes_per_s") > gpu.number("dram.bandwidth_bytes_per_s")
    share = gpu.number("dram.sustained_bandwidth_bytes_per_s") / gpu.number("dram.bandwidth_bytes_per_s")
    assert 0.7 < share <= 1
    assert gpu.number("l2.sm_port_bytes_per_cycle") <= gpu.number("l1.bandwidth_bytes_per_cycle")


def test_published_rates_are_below_what_the_hardware_can(gpu: Gpu) -> None:
    if gpu.has("peak.sustained_flops_per_s"):
        sustained, peak = gpu.number("peak.sustained_flops_per_s"), gpu.number("peak.fp64_flops_per_s")
        assert 0.9 < sustained / peak < 1
    if gpu.has("l1.sustained_bandwidth_bytes_per_s"):
        widest = (
            gpu.number("l1.bandwidth_bytes_per_cycle") * gpu.integer("gpu.sms") * gpu.number("clock.boost_hz")
        )
        assert 0.9 < gpu.number("l1.sustained_bandwidth_bytes_per_s") / widest < 1.0001


def test_an_operation_costs_less_energy_in_each_newer_process() -> None:
    order = ["p100", "v100", "a100-40", "h100-pcie"]
    energy = [load_gpu(name).number("power.operation_energy") for name in order]
    assert energy == sorted(energy, reverse=True)
    assert load_gpu("t4").number("power.operation_energy") == load_gpu("v100").number(
        "power.operation_energy"
    )


def test_the_l1_cache_is_what_shared_memory_leaves(gpu: Gpu) -> None:
    """Turing always keeps 32 KiB for shared memory; Pascal's cache is a memory of its own."""
    left = {"7.5": 32 * 1024, "6.0": 64 * 1024, "6.1": 96 * 1024}
    if gpu.has("l1.cache_bytes"):
        assert gpu.integer("l1.cache_bytes") == gpu.integer("l1.bytes") - left[gpu.compute_capability]
    else:
        assert gpu.compute_capability not in left


def test_cache_geometry_divides(gpu: Gpu) -> None:
    for level in ("l1", "l2"):
        lines, rest = divmod(gpu.integer(f"{level}.bytes"), gpu.integer("l1.line_bytes"))
        assert rest == 0
        assert lines % gpu.integer(f"{level}.ways") == 0


def test_a_line_and_a_pass_agree_with_the_bandwidth(gpu: Gpu) -> None:
    per_cycle = gpu.number("l1.line_bytes") / gpu.number("l1.interval_cycles_per_line")
    assert per_cycle == gpu.number("l1.bandwidth_bytes_per_cycle")
    assert gpu.integer("banks.count") * gpu.integer("banks.width_bytes") == 128


def test_popc_inc_exists_from_ampere_on(gpu: Gpu) -> None:
    has = gpu.has("atomic.popc_inc.base_interval_cycles")
    assert has == (float(gpu.compute_capability) >= 8.0)


def test_latencies_of_atomics_are_measured_where_somebody_measured(gpu: Gpu) -> None:
    """Returning adds were timed on a Thor, and with compare-and-swap on an H100."""
    told = {"thor": ("published", 34.35), "h100-sxm": ("measured", 26)}
    add, cas = (gpu[f"atomic.{op}.latency_cycles"] for op in ("add", "cas"))
    assert (add.kind, add.value) == told.get(gpu.name, ("assumed", add.value))
    assert cas.kind == ("measured" if gpu.name == "h100-sxm" else "assumed")
    assert gpu.number("shared.load_latency_cycles") < float(add.value) <= float(cas.value)


def test_compare_and_swap_costs_more_than_add(gpu: Gpu) -> None:
    for passes in (1, 2, 32):
        cost = {
            op: gpu.number(f"atomic.{op}.base_interval_cycles")
            + passes * gpu.number(f"atomic.{op}.pass_interval_cycles")
            for op in ("add", "cas")
        }
        assert cost["cas"] > cost["add"]
    kinds = {"b300": "calibrated", "h100-sxm": "measured"}
    assert gpu["atomic.cas.pass_interval_cycles"].kind == kinds.get(gpu.name, "assumed")


def test_only_the_gpus_with_published_points_are_calibrated(gpu: Gpu) -> None:
    calibrated = {
        key
        for key, constant in gpu.constants.items()
        if constant.kind == "calibrated" and not constant.source.startswith("measured by us")
    }
    line = {"atomic.add.base_interval_cycles", "atomic.add.pass_interval_cycles"}
    every = {f"atomic.{op}.{part}_interval_cycles" for op in ATOMIC_OPS for part in ("base", "pass")}
    expected = {
        "v100": line,
        "p4": {"atomic.add.base_interval_cycles"},
        "a100-40": line | {"atomic.popc_inc.base_interval_cycles"},
        "b200": {"copy_engine.extra_cycles"} | {f"tensor.memory_{x}_cycles" for x in ("tail", "store")},
        "b300": every | {"tensor.memory_second_cycles"},
    }
    assert calibrated == expected.get(gpu.name, set())


def series_of(name: str, op: str) -> PublishedSeries:
    (found,) = [s for s in load_published_atomics() if (s.gpu, s.op) == (name, op)]
    return found


@pytest.mark.parametrize("name", ["v100", "a100-40"])
def test_calibrated_add_is_the_line_through_two_published_points(name: str) -> None:
    gpu, series = load_gpu(name), series_of(name, "add")
    first, last = series.same_word.index(1), series.same_word.index(32)
    c, low, high = series.cycles_per_instruction, series.low, series.high
    slope = (c[last] - c[first]) / 31
    base, one_pass = gpu["atomic.add.base_interval_cycles"], gpu["atomic.add.pass_interval_cycles"]
    assert one_pass.value == pytest.approx(slope, abs=6e-5)
    assert base.value == pytest.approx(c[first] - slope, abs=6e-5)
    assert one_pass.low == pytest.approx((low[last] - high[first]) / 31, abs=6e-5)
    assert one_pass.high == pytest.approx((high[last] - low[first]) / 31, abs=6e-5)
    assert base.low == pytest.approx((32 * low[first] - high[last]) / 31, abs=6e-5)
    assert base.high == pytest.approx((32 * high[first] - low[last]) / 31, abs=6e-5)


@pytest.mark.parametrize("name", ["v100", "a100-40"])
def test_the_line_meets_the_points_it_was_not_fitted_on(name: str) -> None:
    """Four points between the two ends tell whether time grows linearly with the lanes on a word."""
    gpu, series = load_gpu(name), series_of(name, "add")
    base = gpu.number("atomic.add.base_interval_cycles")
    one_pass = gpu.number("atomic.add.pass_interval_cycles")
    for n, cycles in zip(series.same_word, series.cycles_per_instruction, strict=True):
        assert base + n * one_pass == pytest.approx(cycles, rel=0.02)


def test_calibrated_popc_inc_is_the_mean_of_its_ends_and_meets_every_point() -> None:
    gpu, series = load_gpu("a100-40"), series_of("a100-40", "popc-inc")
    one = gpu.number("atomic.popc_inc.base_interval_cycles") + gpu.number(
        "atomic.popc_inc.pass_interval_cycles"
    )
    assert one == pytest.approx((4.97 + 4.98) / 2, abs=6e-5)
    assert gpu["atomic.popc_inc.pass_interval_cycles"].value == gpu["atomic.add.pass_interval_cycles"].value
    for cycles in series.cycles_per_instruction:
        assert one == pytest.approx(cycles, rel=0.02)


@pytest.mark.parametrize("name", ALL)
def test_every_source_of_a_file_is_used(name: str) -> None:
    """A citation that no constant points at is a leftover, or a constant points at the wrong one."""
    with (FOLDER / f"{name}.toml").open("rb") as file:
        data = tomllib.load(file)
    used: set[str] = set()

    def visit(table: dict[str, Any]) -> None:
        for entry in table.values():
            if isinstance(entry, dict):
                if "value" in entry:
                    used.add(entry["source"])
                else:
                    visit(entry)

    visit({key: entry for key, entry in data.items() if key != "sources"})
    assert set(data["sources"]) <= used
