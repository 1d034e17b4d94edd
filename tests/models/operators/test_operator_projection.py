"""Operators on another GPU: work from the shape, misses, power and equation 9 on worked numbers; and what
must always hold."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.datasets import OperatorTimes
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu
from smlab.models.operators import (
    OperatorProjection,
    OperatorSwitches,
    operator_work,
    project_operators,
)
from smlab.models.operators.memory import l1_cache_bytes, miss_share, reread_misses
from smlab.models.operators.rows import longer_than_dram, softmax_threads
from smlab.models.operators.tiles import Shapes, library_tiles, pipe_seconds, tile_named
from smlab.models.power import power_ceiling, reference_energy_j

V100, A100, T4, P100, A6000 = (load_gpu(name) for name in ("v100", "a100-40", "t4", "p100", "a6000"))
ALL_OFF = OperatorSwitches(**dict.fromkeys((field.name for field in fields(OperatorSwitches)), False))
CUDNN_SOFTMAX = "void at::native::cunn_SoftMaxForward<4, float>"
WARP_SOFTMAX = "void softmax_warp_forward<float, 10>"


def rows(*given: dict[str, Any]) -> OperatorTimes:
    """Rows of a set; what is not given is an element-wise operator with two operands, one block of 128
    threads a row."""

    def column(name: str, default: Any, dtype: Any) -> Any:
        values = np.empty(len(given), dtype=dtype)
        for i, row in enumerate(given):
            values[i] = row.get(name, default(row) if callable(default) else default)
        return values

    numbers = {name: column(name, 1, np.int64) for name in ("batch", "m", "n", "k")}
    return OperatorTimes(
        path=Path("here"),
        operator=column("operator", "elementwise", object),
        variant=column("variant", "relu", object),
        gpu=column("gpu", "v100", object),
        kernel=column("kernel", "", object),
        **numbers,
        tensors=column("tensors", 2, np.int64),
        element_bytes=column("element_bytes", 4, np.int64),
        blocks=column("blocks", lambda row: row.get("m", 1), np.int64),
        threads_per_block=column("threads_per_block", 128, np.int64),
        seconds=column("seconds", 1e-3, np.float64),
        skipped=(),
    )


def linear(m: int, n: int, k: int, seconds: float = 1e-3, **more: Any) -> dict[str, Any]:
    return {
        "operator": "linear",
        "m": m,
        "n": n,
        "k": k,
        "seconds": seconds,
        "tensors": 3,
        "blocks": 0,
        **more,
    }


def project(
    times: OperatorTimes,
    target: Gpu,
    switches: OperatorSwitches | None = None,
    source: Gpu = V100,
) -> OperatorProjection:
    return project_operators(operator_work(times), times.seconds, source, target, switches)


def test_work_from_the_shape() -> None:
    work = operator_work(
        rows(
            linear(3, 5, 7, batch=2),
            {"m": 8, "n": 16, "tensors": 3},
            {"operator": "layernorm", "m": 8, "n": 16},
            {"operator": "softmax", "m": 8, "n": 16, "kernel": CUDNN_SOFTMAX},
            {"operator": "softmax", "m": 8, "n": 16, "kernel": WARP_SOFTMAX, "blocks": 2},
        )
    )
    assert work.flops.tolist() == [2 * 2 * 3 * 5 * 7, 0, 0, 0, 0]
    assert work.once_bytes.tolist() == [2 * 4 * (21 + 35 + 15), 4 * 3 * 128, *[4 * 2 * 128] * 3]
    assert work.again_bytes.tolist() == [0, 0, 512, 2 * 512, 0]  # layer norm reads once more, softmax twice
    # in two passes that follow each other an equally fast block moves 2 x (reads + 1) / reads rows
    assert work.passes.tolist() == pytest.approx([4, 4, 3, 8 / 3, 4])
    assert work.row_bytes.tolist() == [0, 64, 64, 64, 4 * 64]  # four rows a block in the last


def test_an_operator_without_known_work_is_refused() -> None:
    with pytest.raises(SmlabError, match="operator whose work is not known"):
        operator_work(rows({"operator": "fft"}))


def test_misses_between_the_bounds() -> None:
    got = miss_share([10.0, 100.0 / 3, 100.0 / 3**0.5, 99.9, 100.0, 500.0], 100.0, 3.0)
    assert got.share.tolist() == pytest.approx([0, 0, 0.5, 0.99909, 1, 1], abs=1e-5)
    assert got.least.tolist() == [0, 0, 0, 0, 1, 1]
    assert got.most.tolist()[2:] == [1, 1, 1, 1]
    assert got.most.tolist()[0] == 0


@given(x=st.floats(1.0, 1e9), capacity=st.floats(1e3, 1e8), passes=st.floats(1.5, 8), more=st.floats(1, 10))
def test_a_larger_cache_never_misses_more(x: float, capacity: float, passes: float, more: float) -> None:
    here, larger = miss_share(x, capacity, passes), miss_share(x, capacity * more, passes)
    assert 0 <= here.least <= here.share <= here.most <= 1
    assert (larger.least, larger.share, larger.most) <= (here.least, here.share, here.most)


def test_rows_of_resident_blocks_decide_what_a_cache_holds() -> None:
    """Layer norm, 128 threads: 16 blocks an SM on an A100. Rows of 2,048 values: 128 KiB an SM, 13.5 MiB
    on 108 SMs."""
    work = operator_work(rows({"operator": "layernorm", "m": 10**6, "n": 2048}))
    assert l1_cache_bytes(A100) == 192 * 1024
    of_l1, of_l2 = 128 / 192, 13.5 / 40
    expected = min(np.log(3 * of_l1), np.log(3 * of_l2)) / np.log(3)
    assert reread_misses(work, A100).share == pytest.approx([expected])
    # a small grid holds only its own rows: 100 blocks of 8 KiB fit any L2
    few = operator_work(rows({"operator": "layernorm", "m": 100, "n": 2048}))
    assert reread_misses(few, A100).most.tolist() == [0]
    # Turing has 64 KiB of L1 at most, 8 blocks an SM: 2.5 of 4 MiB in L2
    on_t4 = min(1.0, np.log(3 * 2.5 / 4) / np.log(3))
    assert reread_misses(work, T4).share == pytest.approx([on_t4])


def test_a_row_of_unlike_steps_takes_longer_than_dram_allows() -> None:
    """Executed on an A100: 2,048 and 4,096 values are whole steps of a block; 3,072 are one step of four
    values a thread and two of one."""
    n = np.array([1024, 2048, 3072, 4096, 2.0**20])
    steps = np.ones(len(n), dtype=bool)
    got = longer_than_dram(steps, n, A100)
    assert got.share.tolist()[:2] == pytest.approx([1, 1], abs=0.01)
    assert 1.1 < got.share[2] < got.most[2] < 1.5
    assert got.share.tolist()[3:] == pytest.approx([1, 1], abs=0.01)
    assert got.least.tolist() == [1] * 5
    # rows that no block goes over in steps do not wait; the shorter of two of as many steps waits as long
    assert longer_than_dram(~steps, n, A100).most.tolist() == [1] * 5
    two = longer_than_dram(steps[:2], np.array([3060.0, 3072.0]), A100)
    assert two.most[0] == pytest.approx(two.most[1] * 3072 / 3060)


def test_blocks_of_softmax_are_those_of_measured_launches() -> None:
    assert [softmax_threads(n) for n in (1280, 2048, 2560, 16384)] == [256, 256, 512, 512]


def test_what_is_read_again_fills_the_gaps() -> None:
    """A row that waits and is missed takes the larger of both, not their product."""
    times = rows({"operator": "softmax", "kernel": CUDNN_SOFTMAX, "m": 2**16, "n": 3072, "seconds": 3e-3})
    both = project(times, A100, replace(ALL_OFF, waits=True))
    every_miss = project(times, A100, ALL_OFF).mid_s[0]
    assert both.mid_s[0] == pytest.approx(every_miss)  # without caches three readings are more than any wait


def test_power_holds_a_board_of_70_w_down() -> None:
    """The V100's 250 W over its 14 TFLOP/s are 17.86 pJ each; 70 W of them are 3.92 TFLOP/s, of 8.1."""
    got = power_ceiling(T4)
    assert reference_energy_j() == pytest.approx(250 / 14e12)
    assert got.costly == got.thrifty == pytest.approx(70 / (250 / 14e12))
    assert (got.least, got.most) == (pytest.approx(got.costly / 1.2), pytest.approx(got.costly / 0.7))
    assert got.base == pytest.approx(585 / 1590)
    # an A100 at 250 W: the V100's 14 TFLOP/s if its process gained nothing, else more than its peak
    got = power_ceiling(A100)
    assert (got.costly, got.thrifty) == (pytest.approx(14e12), pytest.approx(14e12 / 0.39))
    assert power_ceiling(P100).costly == pytest.approx(14e12 / 1.5)


def test_no_ceiling_without_figures() -> None:
    assert not A6000.has("power.operation_energy")
    got = power_ceiling(A6000)
    assert np.isinf([got.least, got.costly, got.thrifty, got.most]).all()


def test_power_goes_below_the_base_clock_at_the_slow_end_alone() -> None:
    """60 W would leave an A100 3.36 TFLOP/s; at its base clock of 765 of 1,410 MHz it does 10.6 of 19.5."""
    small = A100.with_values({"power.limit_w": 60.0, "power.operation_energy": 1.0}, source="a test")
    times = rows(linear(4096, 4096, 4096))
    got = project(times, small, replace(ALL_OFF, power=True))
    work = 2 * 4096**3
    roof = work / 19.5e12 * 1410 / 765
    assert got.mid_s.tolist() == pytest.approx([1e-3 / (work / 14e12) * roof])
    assert got.most_s[0] >= got.mid_s[0] * 10.6 / 3.37


def test_a_kernels_name_tells_its_tile() -> None:
    names = ["volta_sgemm_128x64_tn", "ampere_sgemm_128x32_sliced1x4_nn", "maxwell_sgemm_64x64_nt"]
    assert [tile_named(n) for n in names] == ["128x64", "128x32_sliced1x4", "64x64"]
    assert tile_named("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3") == ""
    assert tile_named("vectorized_layer_norm_kernel") == ""


def test_one_wave_of_a_tile_on_worked_numbers() -> None:
    """160 blocks of 128 x 128 are two for each of the V100's 80 SMs, which do 64 multiply-adds a cycle;
    named, no other tile is tried."""
    tile = next(t for t in library_tiles() if t.name == "128x128")
    shapes = Shapes(*(np.array([x], dtype=np.float64) for x in (1, 10 * 128, 16 * 128, 255)))
    named = np.array(["128x128"], dtype=object)
    lanes = 14e12 / 2 / 80 / V100.number("clock.boost_hz")
    cycles = 2 * (128 * 128 * 256 / (lanes * tile.share["7.0"]) + tile.block_cycles["7.0"])
    got = pipe_seconds(shapes, V100, named)
    assert got.tolist() == pytest.approx([cycles / V100.number("clock.boost_hz")])
    assert pipe_seconds(shapes, V100)[0] <= got[0]


def test_a_long_sum_is_split_where_the_library_splits() -> None:
    """One block of each of 16 tiles would leave most SMs idle; the A100's kernels have no split to fill
    them."""
    shapes = Shapes(*(np.array([x], dtype=np.float64) for x in (1, 512, 512, 65536)))
    work = 2 * 512 * 512 * 65536
    assert work / pipe_seconds(shapes, V100)[0] > 0.9 * 14e12
    assert work / pipe_seconds(shapes, A100)[0] < 0.7 * 19.5e12


def test_half_of_a_shortfall_goes_along_and_all_to_the_same_kernels() -> None:
    """A stream at a quarter of the V100's 846 GB/s."""
    moved = 8.0 * 2**16 * 4096
    times = rows({"m": 2**16, "n": 4096, "seconds": 4 * moved / 846e9})
    on = replace(ALL_OFF, sustained=True, half=True)
    assert project(times, A100, on).mid_s.tolist() == pytest.approx([2 * moved / 1375e9])
    other = V100.with_values({"dram.sustained_bandwidth_bytes_per_s": 423e9}, source="a test")
    assert project(times, other, on).mid_s.tolist() == pytest.approx([4 * moved / 423e9])


def test_what_power_holds_tells_nothing_of_the_pipes() -> None:
    """On a T4 at two thirds of what its power allows, and at all of it: one time on a V100."""
    work = 2 * 4096**3
    slow, fast = (rows(linear(4096, 4096, 4096, seconds=s * work / 3.92e12)) for s in (1.5, 1.0))
    assert project(slow, V100, source=T4).mid_s[0] == project(fast, V100, source=T4).mid_s[0]


def test_equation_9_with_rated_peaks() -> None:
    times = rows({"m": 2**16, "n": 4096, "seconds": 3e-3}, linear(4096, 4096, 4096, seconds=12e-3))
    got = project(times, A100, ALL_OFF)
    assert got.mid_s.tolist() == pytest.approx([3e-3 * 900 / 1555, 12e-3 * 14 / 19.5])
    assert got.least_s.tolist() == pytest.approx(got.mid_s.tolist())
    assert got.most_s.tolist() == pytest.approx(got.mid_s.tolist())
    assert got.limiter.tolist() == ["dram", "arithmetic"]


def test_each_mechanism_on_worked_numbers() -> None:
    stream = rows({"m": 2**16, "n": 4096, "seconds": 3e-3})
    only_sustained = project(stream, A100, replace(ALL_OFF, sustained=True))
    assert only_sustained.mid_s.tolist() == pytest.approx([3e-3 * 846 / 1375])
    # the bounds: 1,360 to 1,375 GB/s on the A100, and 4 % from benchmark to benchmark
    assert only_sustained.least_s.tolist() == pytest.approx([3e-3 * 846 / 1375 / 1.04])
    assert only_sustained.most_s.tolist() == pytest.approx([3e-3 * 846 / 1375 * 1.04])
    with_launch = replace(operator_work(stream), launch_s=np.array([20e-6]))
    on = replace(ALL_OFF, sustained=True, launch=True)
    both = project_operators(with_launch, stream.seconds, V100, A100, on)
    assert both.mid_s.tolist() == pytest.approx([20e-6 + 2.98e-3 * 846 / 1375])
    product = rows(linear(4096, 4096, 4096, seconds=2 * 4096**3 / 13e12))
    held = project(product, T4, replace(ALL_OFF, power=True))
    assert held.mid_s.tolist() == pytest.approx([2 * 4096**3 / (70 / (250 / 14e12)) * 14 / 13])
    assert held.limiter.tolist() == ["power"]


def test_rows_that_a_larger_cache_holds_gain_more_than_bandwidth() -> None:
    """Layer norm at the V100's full bandwidth with each row read twice; an A100 reads it once: 3 passes
    become 2."""
    m, n = 2**16, 1024 * 2
    moved = 3 * 4.0 * m * n
    times = rows({"operator": "layernorm", "m": m, "n": n, "seconds": moved / 846e9})
    got = project(times, A100, replace(ALL_OFF, sustained=True, cache=True))
    nearly = np.log(3 * 13.5 / 40) / np.log(3)  # 1 % of the rows are still missed
    assert got.mid_s.tolist() == pytest.approx([(2 + nearly) * 4.0 * m * n / 1375e9], rel=1e-3)
    assert got.least_s[0] <= got.mid_s[0] <= got.most_s[0]


GPUS = [load_gpu(name) for name in list_gpus()]
SHAPES = st.fixed_dictionaries(
    {
        "operator": st.sampled_from(["linear", "elementwise", "layernorm", "softmax"]),
        "m": st.integers(64, 10**5),
        "n": st.integers(64, 10**4),
        "k": st.integers(1, 4096),
        "blocks": st.integers(0, 10**5),
        "threads_per_block": st.sampled_from([64, 128, 256, 512]),
        "kernel": st.sampled_from([CUDNN_SOFTMAX, WARP_SOFTMAX]),
        "seconds": st.floats(1e-4, 10),
    }
)
SWITCHES = st.builds(OperatorSwitches, *[st.booleans()] * len(fields(OperatorSwitches)))


@given(shape=SHAPES, source=st.sampled_from(GPUS), switches=SWITCHES)
def test_onto_the_same_gpu_is_the_identity(
    shape: dict[str, Any], source: Gpu, switches: OperatorSwitches
) -> None:
    got = project(rows(shape), source, switches, source)
    assert [x[0] for x in (got.low_s, got.least_s, got.mid_s, got.most_s, got.high_s)] == [
        shape["seconds"]
    ] * 5


@given(
    shapes=st.lists(SHAPES, min_size=2, max_size=8),
    source=st.sampled_from(GPUS),
    target=st.sampled_from(GPUS),
    switches=SWITCHES,
    data=st.data(),
)
def test_a_rows_answer_does_not_depend_on_its_neighbours(
    shapes: list[dict[str, Any]], source: Gpu, target: Gpu, switches: OperatorSwitches, data: st.DataObject
) -> None:
    """Any subset in any order gives what the whole gave."""
    every = project(rows(*shapes), target, switches, source)
    some = data.draw(st.lists(st.sampled_from(range(len(shapes))), min_size=1, unique=True))
    few = project(rows(*(shapes[i] for i in some)), target, switches, source)
    for name in ("low_s", "mid_s", "high_s", "least_s", "most_s", "limiter"):
        assert getattr(few, name).tolist() == getattr(every, name)[some].tolist(), name


@given(
    shape=SHAPES,
    source=st.sampled_from(GPUS),
    target=st.sampled_from(GPUS),
    switches=SWITCHES,
)
def test_the_prediction_lies_in_its_interval_and_is_finite(
    shape: dict[str, Any],
    source: Gpu,
    target: Gpu,
    switches: OperatorSwitches,
) -> None:
    """And the interval is never narrower than the tool's own bounds."""
    got = project(rows(shape), target, switches, source)
    assert np.isfinite([got.least_s, got.mid_s, got.most_s]).all()
    assert 0 < got.least_s[0] <= got.mid_s[0] * (1 + 1e-12)
    assert got.mid_s[0] <= got.most_s[0] * (1 + 1e-12)
    assert got.low_s[0] <= got.least_s[0]
    assert got.high_s[0] >= got.most_s[0]


@given(
    shape=SHAPES,
    target=st.sampled_from(GPUS),
    more=st.floats(1.0, 3.0),
    switches=SWITCHES,
    key=st.sampled_from(
        [
            "dram.sustained_bandwidth_bytes_per_s",
            "dram.bandwidth_bytes_per_s",
            "l2.bandwidth_bytes_per_s",
            "power.limit_w",
        ]
    ),
)
def test_more_of_anything_never_makes_a_target_slower(
    shape: dict[str, Any],
    target: Gpu,
    more: float,
    switches: OperatorSwitches,
    key: str,
) -> None:
    """Bandwidths and watts; the target without intervals, so that only the values decide."""
    wide = {
        "dram.bandwidth_bytes_per_s": 10 * target.number("dram.bandwidth_bytes_per_s"),
        "l2.bandwidth_bytes_per_s": 100 * target.number("l2.bandwidth_bytes_per_s"),
        "dram.sustained_bandwidth_bytes_per_s": target.number("dram.sustained_bandwidth_bytes_per_s"),
    }
    base = target.with_values(wide, source="a test")
    better = base.with_values({key: base.number(key) * more}, source="a test")
    source = P100 if target is V100 else V100
    here = project(rows(shape), base, switches, source)
    there = project(rows(shape), better, switches, source)
    assert there.mid_s[0] <= here.mid_s[0] * (1 + 1e-9)
    assert there.most_s[0] <= here.most_s[0] * (1 + 1e-9)


@given(shape=SHAPES, source=st.sampled_from(GPUS), target=st.sampled_from(GPUS))
def test_there_and_back_is_the_identity_where_nothing_but_the_roof_counts(
    shape: dict[str, Any], source: Gpu, target: Gpu
) -> None:
    there = project(rows(shape), target, ALL_OFF, source)
    back = project(rows({**shape, "seconds": there.mid_s[0]}), source, ALL_OFF, target)
    assert back.mid_s.tolist() == pytest.approx([shape["seconds"]])


@pytest.mark.parametrize("seconds", [0.0, -1e-3, np.nan])
def test_times_that_cannot_be_are_refused(seconds: float) -> None:
    with pytest.raises(SmlabError, match=r"row 1: unusable time in s"):
        project(rows({}, {"seconds": seconds}), A100)
