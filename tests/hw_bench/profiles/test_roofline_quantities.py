"""From counters to a kernel's work: every spelling gives the same, what is missing is flagged, what is
absurd is refused."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from profiler_formats import write_ncu_long
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles import Profile, read_profile, write_ncu_wide
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterRow, CounterTable
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.hw_bench.profiles.work.roofline_quantities import NEEDED, RooflineQuantities, roofline_quantities

V100, A100 = load_gpu("v100"), load_gpu("a100-40")

Counters = dict[str, tuple[float, str]]

BASE: Counters = {
    "gpu__time_duration.sum": (2e-3, "second"),
    "sm__cycles_elapsed.avg": (2.4e6, "cycle"),
    "dram__bytes.sum": (3200.0, "byte"),
    "lts__t_bytes.sum": (6400.0, "byte"),
    "l1tex__t_bytes.sum": (12800.0, "byte"),
    "smsp__inst_executed.sum": (1000.0, "inst"),
    "smsp__thread_inst_executed.sum": (24000.0, "inst"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": (50.0, ""),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": (20.0, ""),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum": (10.0, ""),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": (30.0, ""),
    "launch__grid_size": (160.0, ""),
    "launch__block_size": (256.0, ""),
    "launch__registers_per_thread": (32.0, "register/thread"),
    "launch__shared_mem_per_block_static": (1024.0, "byte/block"),
    "launch__shared_mem_per_block_dynamic": (512.0, "byte/block"),
    **{
        f"smsp__sass_thread_inst_executed_op_{t}{o}_pred_on.sum": (100.0 * i + j, "inst")
        for i, t in enumerate("hfd", start=1)
        for j, o in enumerate(("add", "mul", "fma"))
    },
}


def table(*kernels: Counters) -> CounterTable:
    return CounterTable.from_rows(
        CounterRow(f"kernel{n}", n, WHOLE_GPU, name, value, unit)
        for n, counters in enumerate(kernels)
        for name, (value, unit) in counters.items()
    )


def quantities(*kernels: Counters, gpu=V100) -> RooflineQuantities:
    found = table(*kernels)
    return roofline_quantities(
        Profile("p.csv", "counter-table", "smlab", found, np.arange(len(found)) + 2), gpu
    )


def changed(remove: tuple[str, ...] = (), **add: tuple[float, str]) -> Counters:
    return {k: v for k, v in BASE.items() if not k.startswith(remove or "-")} | add


def test_the_names_of_nsight_compute() -> None:
    work = quantities(BASE).work
    assert work.kernel.tolist() == ["kernel0"]
    assert work.add.tolist() == [[100.0, 200.0, 300.0]]
    assert work.mul.tolist() == [[101.0, 201.0, 301.0]]
    assert work.fma.tolist() == [[102.0, 202.0, 302.0]]
    assert work.level_bytes.tolist() == [[12800.0, 6400.0, 3200.0]]
    assert (work.shared_wavefronts[0], work.shared_ideal_wavefronts[0]) == (80.0, 50.0)
    assert work.shared_bytes[0] == 50 * 128
    assert (work.instructions[0], work.thread_instructions[0]) == (1000.0, 24000.0)
    assert (work.blocks[0], work.threads_per_block[0], work.registers_per_thread[0]) == (160, 256, 32)
    assert work.shared_bytes_per_block[0] == 1536
    assert work.seconds[0] == 2e-3
    assert work.clock_hz[0] == pytest.approx(1.2e9)
    assert work.flags[0] == ()
    assert np.isnan(work.working_set_bytes[0])


FLOPS = tuple(f"smsp__sass_thread_inst_executed_op_{t}" for t in "hfd")
SAME: dict[str, Counters] = {
    "sm instead of smsp": changed(
        (*FLOPS, "smsp__inst"),
        **{k.replace("smsp__", "sm__"): v for k, v in BASE.items() if k.startswith((*FLOPS, "smsp__inst"))},
    ),
    "sectors": changed(
        ("lts", "l1tex__t"),
        **{"lts__t_sectors.sum": (200.0, "sector"), "l1tex__t_sectors.sum": (400.0, "sector")},
    ),
    "sectors of loads and stores": changed(
        ("l1tex__t",),
        **{
            f"l1tex__t_sectors_pipe_lsu_mem_{m}_op_{o}.sum": (100.0, "sector")
            for m in ("global", "local")
            for o in ("ld", "st")
        },
    ),
    "reads and writes": changed(
        ("dram",), **{"dram__bytes_read.sum": (3000.0, "byte"), "dram__bytes_write.sum": (200.0, "byte")}
    ),
    "rates": changed(
        ("dram", "lts", "l1tex__t"),
        **{
            "dram__bytes.sum.per_second": (1.6e6, "byte/second"),
            "lts__t_bytes.sum.per_second": (3.2e6, "byte/second"),
            "l1tex__t_bytes.sum.per_second": (6.4e6, "byte/second"),
        },
    ),
    "time from cycles": changed(
        ("gpu__time",), **{"sm__cycles_elapsed.avg.per_second": (1.2e9, "cycle/second")}
    ),
    "the details page": changed(
        ("gpu__time", "launch"),
        **{
            "Duration": (2e-3, "second"),
            "Grid Size": (160.0, ""),
            "Block Size": (256.0, ""),
            "Registers Per Thread": (32.0, "register/thread"),
            "Static Shared Memory Per Block": (1024.0, "byte/block"),
            "Dynamic Shared Memory Per Block": (512.0, "byte/block"),
        },
    ),
    "mean active threads": changed(
        ("smsp__thread",), **{"smsp__thread_inst_executed_per_inst_executed.ratio": (24.0, "")}
    ),
    "nvprof": changed(
        (*FLOPS, "dram", "lts", "l1tex__t", "smsp", "l1tex__data"),
        **{
            f"flop_count_{p}_{o}": BASE[f"smsp__sass_thread_inst_executed_op_{t}{o}_pred_on.sum"]
            for p, t in (("hp", "h"), ("sp", "f"), ("dp", "d"))
            for o in ("add", "mul", "fma")
        },
        **{
            "dram_read_transactions": (60.0, "transaction"),
            "dram_write_transactions": (40.0, "transaction"),
            "l2_read_transactions": (150.0, "transaction"),
            "l2_write_transactions": (50.0, "transaction"),
            "gld_transactions": (250.0, "transaction"),
            "gst_transactions": (150.0, "transaction"),
            "local_load_transactions": (0.0, "transaction"),
            "local_store_transactions": (0.0, "transaction"),
            "inst_executed": (1000.0, "inst"),
            "thread_inst_executed": (24000.0, "inst"),
            "shared_load_transactions": (60.0, "transaction"),
            "shared_store_transactions": (20.0, "transaction"),
        },
    ),
}


@pytest.mark.parametrize("spelling", SAME)
def test_other_names_give_the_same_work(spelling: str) -> None:
    found, expected = quantities(SAME[spelling]).work, quantities(BASE).work
    different = {"flags", "clock_hz", "stored_bytes"}
    if spelling == "nvprof":  # it has no counter of conflicts
        different |= {"shared_ideal_wavefronts", "shared_bytes"}
    for name in KernelWork.__dataclass_fields__:
        if name not in different:
            values, wanted = getattr(found, name), getattr(expected, name)
            if values.dtype.kind == "f":
                assert values == pytest.approx(wanted, nan_ok=True), name
            else:
                assert (values == wanted).all(), name


def test_a_stand_in_is_flagged() -> None:
    assert any("rate" in flag for flag in quantities(SAME["rates"]).work.flags[0])
    assert any("clock" in flag for flag in quantities(SAME["time from cycles"]).work.flags[0])
    half = changed(FLOPS[:1])
    assert set(quantities(half).work.flags[0]) == {"fp16 operations were not counted"}


def test_profiles_of_both_forms_survive(tmp_path: Path) -> None:
    kernels = changed(FLOPS), changed(("dram",)), BASE
    written, expected = table(*kernels), quantities(*kernels).work
    for write in (write_ncu_long, write_ncu_wide):
        path = tmp_path / f"{write.__name__}.csv"
        write(written, path, gpu=V100)
        found = roofline_quantities(read_profile(path, gpu=V100), V100).work
        for name in KernelWork.__dataclass_fields__:
            if name not in ("row", "kernel", "flags"):
                assert np.array_equal(getattr(found, name), getattr(expected, name), equal_nan=True), name
        assert found.flags.tolist() == expected.flags.tolist()


def test_a_missing_level_is_nan_and_flagged() -> None:
    work = quantities(changed(("lts",))).work
    assert np.isnan(work.l2_bytes[0])
    assert work.flags[0] == ("no bytes at L2: the level is left out",)


def test_shared_memory_by_kind_goes_before_the_sum_of_all() -> None:
    """The sum counts a pass for each warp of kernels that use none (a published report: 4,194,304 and 0,
    0, 0)."""
    all_ = {"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": (4194304.0, "")}
    kinds = {k: (0.0, "") for k in BASE if k.startswith("l1tex__data")}
    assert quantities(BASE | all_ | kinds).work.shared_wavefronts[0] == 0
    assert quantities(changed(("l1tex__data",)) | all_).work.shared_wavefronts[0] == 4194304


HMMA, PIPE = "sm__inst_executed_pipe_tensor_op_hmma.sum", "sm__inst_executed_pipe_tensor.sum"


def test_tensor_operations_by_architecture() -> None:
    some = BASE | {HMMA: (10.0, "inst")}
    assert quantities(some, gpu=V100).work.tensor_flops[0] == 5120
    assert quantities(some, gpu=A100).work.tensor_flops[0] == 40960
    assert any("half precision" in f for f in quantities(some, gpu=A100).work.flags[0])
    hopper = quantities(some, gpu=load_gpu("h100-pcie")).work
    assert np.isnan(hopper.tensor_flops[0])
    assert any("cannot be told" in f for f in hopper.flags[0])


def planted(hfma2: float, hmma: float, *, separate: bool, counted: bool = True) -> Counters:
    """A profile of so many half-precision and matrix instructions of full warps; ``separate``: with a counter
    of the matrix instructions alone; ``counted``: with the half-precision operations."""
    half = {f"smsp__sass_thread_inst_executed_op_h{o}_pred_on.sum": (0.0, "inst") for o in ("add", "mul")}
    half["smsp__sass_thread_inst_executed_op_hfma_pred_on.sum"] = (64 * hfma2, "inst")
    every: Counters = {
        "gpu__time_duration.sum": (1e-3, "second"),
        "dram__bytes.sum": (1e6, "byte"),
        "smsp__inst_executed.sum": (1000.0, "inst"),
        "smsp__thread_inst_executed.sum": (32000.0, "inst"),
        PIPE: (hfma2 + hmma, "inst"),
    }
    return every | (half if counted else {}) | ({HMMA: (hmma, "inst")} if separate else {})


@pytest.mark.parametrize(("hfma2", "hmma"), [(100, 0), (0, 100), (40, 60), (99, 1), (5, 95)])
def test_half_precision_instructions_are_no_tensor_operations(hfma2: float, hmma: float) -> None:
    """Both feed one counter. With matrix instructions counted apart, or half-precision ones, the rest is as
    planted; with neither it is flagged, never silently wrong."""
    exact = quantities(planted(hfma2, hmma, separate=True), gpu=A100).work
    assert exact.tensor_flops[0] == 4096 * hmma
    rest = quantities(planted(hfma2, hmma, separate=False), gpu=A100).work
    if 100 * hmma > 2 * (hfma2 + hmma) or not hmma:
        assert rest.tensor_flops[0] == 4096 * hmma
    assert any("leave of the counter" in f for f in rest.flags[0]) == (rest.tensor_flops[0] > 0 < hfma2)
    blind = quantities(planted(hfma2, hmma, separate=False, counted=False), gpu=A100).work
    assert any("tensor operations are at most these" in f for f in blind.flags[0])


def test_operations_of_the_tensor_cores_by_type_go_first() -> None:
    told = planted(10, 20, separate=True) | {"sm__ops_path_tensor_src_fp16_dst_fp32.sum": (12345.0, "")}
    assert quantities(told, gpu=load_gpu("h100-pcie")).work.tensor_flops[0] == 12345


def test_the_clock_that_a_kernel_had_from_what_it_issued() -> None:
    """Half of the schedulers' cycles issue: on 108 SMs with 4 of them, 432 x 1e-3 s x clock / 2
    instructions."""
    for hertz, known in ((1.3e9, True), (1.9e9, False), (0.5e9, False)):
        one: Counters = {
            "gpu__time_duration.sum": (1e-3, "second"),
            "dram__bytes.sum": (1e6, "byte"),
            "smsp__inst_executed.sum": (432 * 1e-3 * hertz / 2, "inst"),
            "smsp__issue_active.avg.pct_of_peak_sustained_active": (62.5, "%"),
            "smsp__cycles_active.avg.pct_of_peak_sustained_elapsed": (80.0, "%"),
        }
        clock = quantities(one, gpu=A100).work.clock_hz[0]
        assert clock == pytest.approx(hertz) if known else np.isnan(clock), hertz


def test_memory_instructions_and_resident_warps() -> None:
    threads: Counters = {
        "smsp__sass_thread_inst_executed_op_memory_pred_on.sum": (1600.0, "inst"),
        "sm__warps_active.avg.pct_of_peak_sustained_active": (25.0, "%"),
    }
    base = changed(("smsp__thread", "smsp__inst_executed")) | {
        "smsp__inst_executed.sum": (1000.0, "inst"),
        "smsp__thread_inst_executed.sum": (16000.0, "inst"),
    }
    work = quantities(base | threads, gpu=A100).work
    assert work.memory_requests[0] == 100
    assert any("mean of active lanes" in f for f in work.flags[0])
    assert work.resident_warps[0] == 16
    counted = quantities(base | threads | {"smsp__inst_executed_pipe_lsu.sum": (77.0, "inst")}, gpu=A100).work
    assert counted.memory_requests[0] == 77
    assert quantities(base, gpu=A100).work.memory_requests[0] != 100


def test_the_memory_that_the_profile_implies() -> None:
    """3200 bytes in 2 ms at 80 % of peak: 2 MB/s at 100 %."""
    at = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
    assert quantities(BASE | {at: (80.0, "%")}).work.dram_peak_bytes_per_s[0] == pytest.approx(2e6)
    assert np.isnan(quantities(BASE | {at: (3.0, "%")}).work.dram_peak_bytes_per_s[0])


def test_what_cannot_be_placed_is_skipped_with_the_reason() -> None:
    timeless = changed(("gpu__time", "sm__cycles"))
    nothing: Counters = {"gpu__time_duration.sum": (1e-3, "second"), "launch__grid_size": (1.0, "")}
    found = quantities(timeless, BASE, nothing)
    assert found.work.kernel.tolist() == ["kernel1"]
    assert [(s.kernel, s.reason.split(":")[0]) for s in found.skipped] == [
        ("kernel0", "no time"),
        ("kernel2", "neither traffic nor operations were counted"),
    ]
    with pytest.raises(SmlabError, match=r"p.csv: row 2: kernel 'kernel0': no time.*expected ncu --csv"):
        quantities(timeless)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("dram__bytes.sum", (-1.0, "byte"), r"'dram__bytes.sum' has an impossible value \(got -1.0"),
        ("lts__t_bytes.sum", (np.inf, "byte"), "impossible value"),
        ("gpu__time_duration.sum", (1.0, "byte"), r"in another unit than expected \(got 'byte'"),
        ("launch__grid_size", (0.0, ""), "blocks: an impossible number"),
    ],
)
def test_absurd_counters_are_refused(name: str, value: tuple[float, str], said: str) -> None:
    with pytest.raises(SmlabError, match=said):
        quantities(BASE | {name: value})


def test_what_is_to_be_collected_is_what_is_read() -> None:
    wanted = NEEDED.split(",")
    assert len(set(wanted)) == len(wanted)
    only = {k: v for k, v in BASE.items() if k in wanted}
    assert quantities(only).work.flags[0] == ()


def test_the_tables_of_others_agree_with_their_own_columns(shared_data: Path) -> None:
    """The A100 convolutions: the authors' FLOPs, and their intensity at each level, from the same
    counters."""
    path = shared_data / "ncu-a100" / "conv2d_actualpara-perf-distribution_pd_a100_tc.csv.gz"
    work = roofline_quantities(read_profile(path), A100).work
    with gzip.open(path, "rt") as file:
        theirs = list(csv.DictReader(file))
    assert len(work) == len(theirs) == 4349
    flops = (work.add + work.mul + 2 * work.fma).sum(axis=1)
    assert flops == pytest.approx([float(r["all FLOPs"]) for r in theirs])
    for level, column in enumerate(("AI L1", "AI L2", "AI HBM")):
        assert flops / work.level_bytes[:, level] == pytest.approx([float(r[column]) for r in theirs])
    assert flops / work.seconds / 1e9 == pytest.approx([float(r["GFLOP/s"]) for r in theirs])
    assert {f for flags in work.flags for f in flags} == {"time from the column Time, in seconds"}


def test_the_raw_page_of_a_report(shared_data: Path) -> None:
    """A vector addition of 2^27 doubles on an RTX 3060: its counts come from rates, its memory is 360 GB/s
    at most."""
    work = roofline_quantities(read_profile(shared_data / "ncu-source-page" / "vector_add.csv")).work
    assert work.fma[0, 2] == pytest.approx(2 * 2**27, rel=1e-6)
    assert work.mul[0, 2] == pytest.approx(2**27, rel=1e-6)
    assert work.dram_bytes[0] == 2156288000 + 1082323000
    assert work.shared_wavefronts[0] == 0
    assert (work.blocks[0], work.threads_per_block[0]) == (131072, 1024)
    assert work.thread_instructions[0] == 32 * work.instructions[0]


def test_shares_of_peaks_and_time_are_enough() -> None:
    """Nsight Compute's section "Speed of Light" and nothing else: shares of the described peaks."""
    shares = {
        "gpu__time_duration.sum": (1e-3, "second"),
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": (50.0, "%"),
        "lts__throughput.avg.pct_of_peak_sustained_elapsed": (20.0, "%"),
        "l1tex__throughput.avg.pct_of_peak_sustained_active": (10.0, "%"),
        "smsp__issue_active.avg.pct_of_peak_sustained_active": (25.0, "%"),
    }
    work = quantities(shares).work
    assert work.dram_bytes[0] == pytest.approx(0.5 * 900e9 * 1e-3)
    assert work.l2_bytes[0] == pytest.approx(0.2 * 2460e9 * 1e-3)
    assert work.l1_bytes[0] == pytest.approx(0.1 * 128 * 80 * 1380e6 * 1e-3)
    assert work.instructions[0] == pytest.approx(0.25 * 4 * 80 * 1380e6 * 1e-3)
    flags = " ".join(work.flags[0])
    for said in ("DRAM bytes from its share", "L2 bytes from its share", "at most these", "rated clock"):
        assert said in flags
    counted = quantities({**shares, "dram__bytes.sum": (1e6, "byte")}).work
    assert counted.dram_bytes[0] == 1e6
