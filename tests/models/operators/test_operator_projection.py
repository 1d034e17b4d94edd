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
    OperatorCalibration,
    OperatorProjection,
    OperatorSwitches,
    calibrate,
    operator_work,
    project_operators,
)
from smlab.models.operators.memory import l1_cache_bytes, miss_share, reread_misses
from smlab.models.operators.power import power_ceiling

V100, A100, T4, P100, A6000 = (load_gpu(name) for name in ("v100", "a100-40", "t4", "p100", "a6000"))
NOTHING_MEASURED = OperatorCalibration(0.0, None, None, 0, 0)
ALL_OFF = OperatorSwitches(
    launch=False, sustained=False, cache=False, power=False, parallelism=False, repeats=False
)
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
    calibration: OperatorCalibration = NOTHING_MEASURED,
    source: Gpu = V100,
) -> OperatorProjection:
    return project_operators(operator_work(times), times.seconds, source, target, calibration, switches)


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
    assert work.passes.tolist() == [2, 2, 3, 4, 2]
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


def test_power_holds_a_board_of_70_w_down() -> None:
    """14 TFLOP/s at 250 W are 17.86 pJ each; 70 W of them are 3.92 TFLOP/s, far below the peak of 8.1."""
    got = power_ceiling(V100, T4, 14e12, 8.1e12)
    assert got.low_flops_per_s == got.high_flops_per_s == pytest.approx(70 / (250 / 14e12))
    assert got.limited
    assert got.min_flops_per_s < got.low_flops_per_s < got.max_flops_per_s < 8.1e12
    # an A100 at 250 W: the V100's 14 TFLOP/s if its process gained nothing, else its peak
    got = power_ceiling(V100, A100, 14e12, 19.5e12)
    assert (got.low_flops_per_s, got.high_flops_per_s) == (pytest.approx(14e12), 19.5e12)


def test_power_goes_below_the_base_clock_at_the_slow_end_alone() -> None:
    """A V100 seen at a tenth of its peak would leave a T4 0.39 TFLOP/s; its maker states a base clock of 585
    / 1,590 of 8.1, which cards under load go below."""
    got = power_ceiling(V100, T4, 1.4e12, 8.1e12)
    assert got.low_flops_per_s == got.high_flops_per_s == pytest.approx(8.1e12 * 585 / 1590)
    assert got.max_flops_per_s == got.high_flops_per_s
    assert got.min_flops_per_s < 70 / (250 / 1.4e12)


def test_no_ceiling_without_figures() -> None:
    assert not A6000.has("power.operation_energy")
    got = power_ceiling(V100, A6000, 14e12, 38.7e12)
    assert got.min_flops_per_s == got.max_flops_per_s == 38.7e12
    assert not got.limited


def test_power_follows_the_energy_that_is_stated_for_pascal() -> None:
    """From a P100 at 9.3 TFLOP/s and 250 W: a Volta-class operation takes two thirds of its energy, or as
    much."""
    got = power_ceiling(P100, T4, 9.3e12, 8.1e12)
    assert got.low_flops_per_s == pytest.approx(max(70 / (250 / 9.3e12), 8.1e12 * 585 / 1590))
    assert got.high_flops_per_s == pytest.approx(70 / (250 / 9.3e12 / 1.5))


def streams(launch_s: float, rate: float, count: int = 12) -> OperatorTimes:
    given = [{"m": 2**13 * (i + 1), "n": 4096, "variant": f"v{i}"} for i in range(count)]
    size = np.array([8.0 * row["m"] * row["n"] for row in given])
    return rows(*({**row, "seconds": s} for row, s in zip(given, launch_s + size / rate, strict=True)))


def test_calibration_finds_the_launch_and_the_bandwidth() -> None:
    times = streams(20e-6, 800e9)
    got = calibrate(operator_work(times), times.seconds, V100)
    assert got.launch_s == pytest.approx(20e-6, rel=1e-6)
    assert got.best_bytes_per_s == pytest.approx(800e9, rel=1e-6)
    assert got.best_flops_per_s is None
    assert (got.streams, got.products) == (12, 0)


def test_calibration_keeps_kinds_of_streams_apart() -> None:
    """With three operands 810 GB/s and with two 790 are no launch; one slope for both would make up one."""
    two, three = streams(0.0, 790e9), streams(0.0, 810e9)
    three.tensors[:] = 3
    three.seconds[:] *= 1.5
    both = rows(*(dict(zip(names, r, strict=True)) for t in (two, three) for names, r in _records(t)))
    assert calibrate(operator_work(both), both.seconds, V100).launch_s == pytest.approx(0, abs=1e-9)


def _records(times: OperatorTimes) -> list[tuple[list[str], list[Any]]]:
    names = [f.name for f in fields(OperatorTimes) if f.name not in ("path", "skipped")]
    return [(names, [getattr(times, name)[i] for name in names]) for i in range(len(times))]


def test_calibration_makes_nothing_up_from_few_rows() -> None:
    times = streams(20e-6, 800e9, count=5)
    assert calibrate(operator_work(times), times.seconds, V100).launch_s == 0
    product = rows(linear(1024, 1024, 1024, seconds=2 * 1024**3 / 13e12))
    got = calibrate(operator_work(product), product.seconds, V100)
    assert (got.launch_s, got.best_bytes_per_s) == (0, None)
    assert got.best_flops_per_s == pytest.approx(13e12)


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
    # the bounds: 814 to 846 GB/s on the V100, 1,360 to 1,375 on the A100
    assert only_sustained.least_s.tolist() == pytest.approx([3e-3 * 814 / 1375])
    assert only_sustained.most_s.tolist() == pytest.approx([3e-3 * 846 / 1360])
    seen = replace(NOTHING_MEASURED, best_bytes_per_s=830e9, launch_s=20e-6)
    both = project(stream, A100, replace(ALL_OFF, sustained=True, launch=True), seen)
    assert both.mid_s.tolist() == pytest.approx([20e-6 + 2.98e-3 * 830 / 1375])
    product = rows(linear(4096, 4096, 4096, seconds=2 * 4096**3 / 13e12))
    fast = replace(NOTHING_MEASURED, best_flops_per_s=14e12)
    held = project(product, T4, replace(ALL_OFF, power=True), fast)
    assert held.mid_s.tolist() == pytest.approx([2 * 4096**3 / (70 / (250 / 14e12))])
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


def test_waves_follow_the_sms() -> None:
    """240 blocks are three on each of the V100's 80 SMs; on the A100's 108 SMs three on some: 324 places for
    240 blocks. Fewer than two for each of 108 are taken to be another number there."""
    times = rows(*(linear(4096, 4096, 4096, blocks=b, threads_per_block=256) for b in (240, 160)))
    plain = project(times, A100, ALL_OFF).mid_s
    waves = project(times, A100, replace(ALL_OFF, parallelism=True)).mid_s
    assert (waves / plain).tolist() == pytest.approx([324 / 240, 1])


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
MEASURED = st.builds(
    OperatorCalibration,
    st.floats(0, 5e-5),
    st.none() | st.floats(1e11, 2e12),
    st.none() | st.floats(1e12, 2e13),
    st.just(0),
    st.just(0),
)
SWITCHES = st.builds(OperatorSwitches, *[st.booleans()] * len(fields(OperatorSwitches)))


@given(shape=SHAPES, source=st.sampled_from(GPUS), calibration=MEASURED, switches=SWITCHES)
def test_onto_the_same_gpu_is_the_identity(
    shape: dict[str, Any], source: Gpu, calibration: OperatorCalibration, switches: OperatorSwitches
) -> None:
    got = project(rows(shape), source, switches, calibration, source)
    if shape["operator"] in ("linear", "elementwise"):
        assert got.least_s.tolist() == pytest.approx([shape["seconds"]])
        assert got.most_s.tolist() == pytest.approx([shape["seconds"]])
    # what is read again on the source has been read on the target: the time is one of the choices
    assert got.least_s[0] <= shape["seconds"] * (1 + 1e-9)
    assert got.most_s[0] >= shape["seconds"] * (1 - 1e-9)


@given(
    shape=SHAPES,
    source=st.sampled_from(GPUS),
    target=st.sampled_from(GPUS),
    calibration=MEASURED,
    switches=SWITCHES,
)
def test_the_prediction_lies_in_its_interval_and_is_finite(
    shape: dict[str, Any],
    source: Gpu,
    target: Gpu,
    calibration: OperatorCalibration,
    switches: OperatorSwitches,
) -> None:
    got = project(rows(shape), target, switches, calibration, source)
    assert np.isfinite([got.least_s, got.mid_s, got.most_s]).all()
    assert 0 < got.low_s[0] <= got.mid_s[0] * (1 + 1e-12)
    assert got.mid_s[0] <= got.high_s[0] * (1 + 1e-12)


@given(
    shape=SHAPES,
    target=st.sampled_from(GPUS),
    more=st.floats(1.0, 3.0),
    calibration=MEASURED,
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
    calibration: OperatorCalibration,
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
    here = project(rows(shape), base, switches, calibration, source)
    there = project(rows(shape), better, switches, calibration, source)
    assert there.mid_s[0] <= here.mid_s[0] * (1 + 1e-9)
    assert there.most_s[0] <= here.most_s[0] * (1 + 1e-9)


@given(shape=SHAPES, source=st.sampled_from(GPUS), target=st.sampled_from(GPUS))
def test_there_and_back_is_the_identity_where_nothing_but_the_roof_counts(
    shape: dict[str, Any], source: Gpu, target: Gpu
) -> None:
    there = project(rows(shape), target, ALL_OFF, NOTHING_MEASURED, source)
    back = project(rows({**shape, "seconds": there.mid_s[0]}), source, ALL_OFF, NOTHING_MEASURED, target)
    assert back.mid_s.tolist() == pytest.approx([shape["seconds"]])


@pytest.mark.parametrize("seconds", [0.0, -1e-3, np.nan, 15e-6])
def test_times_that_cannot_be_are_refused(seconds: float) -> None:
    launch = replace(NOTHING_MEASURED, launch_s=20e-6)
    with pytest.raises(SmlabError, match=r"row 1: unusable time in s"):
        project(rows({}, {"seconds": seconds}), A100, None, launch)
