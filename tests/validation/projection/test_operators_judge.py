"""Judging projected operators: tables, baselines and halves on a made-up set; the bounds asked for on
NeuSight's."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from smlab.hw_bench.datasets import OperatorTimes, read_neusight
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.models.operators import OperatorSwitches
from smlab.models.operators.interval import MARGINS
from smlab.validation.campaigns.projection.coverage import fitted_margins, operator_cases, operator_coverage
from smlab.validation.method.interval_errors import BEST_CONSTANT, best_constant
from smlab.validation.projection.operators import (
    PAPER,
    Judgement,
    baseline_times,
    judge_projection,
    looked_at,
    variants,
)

HEADER = "OPName,Latency,Device,Kernel Name,B,H\n"
V100, A100, T4 = (load_gpu(name) for name in ("v100", "a100-40", "t4"))


@pytest.fixture
def made_up(tmp_path: Path) -> OperatorTimes:
    """Streams at 810 GB/s on a V100 and at 1,300 GB/s on an A100, 20 us a launch on both; one shape is too
    short."""
    lines = []
    for rows in (512, *range(8192, 8192 * 21, 8192)):
        for device, rate in (("Tesla V100-PCIE-32GB", 810e9), ("NVIDIA A100-PCIE-40GB", 1300e9)):
            milliseconds = 1e3 * (20e-6 + 8 * rows * 4096 / rate)
            lines.append(f"relu,{milliseconds},{device},kernel,{rows},4096\n")
    (tmp_path / "elem.csv").write_text(HEADER + "".join(lines))
    return read_neusight(tmp_path)


def test_tables_on_a_set_whose_errors_are_known(made_up: OperatorTimes) -> None:
    judged = judge_projection(made_up, V100, A100)
    assert judged.source_rows.launch_s == {"elementwise": pytest.approx(20e-6)}
    (errors,) = judged.operators
    assert errors.operator == "elementwise"
    assert errors.errors.projected.n == 20
    assert judged.skipped[-1][1] == "1 shapes below 50 us, not judged"
    # 1,375 GB/s published for the 1,300 that the made-up A100 has; half of the V100's 810 of 846 goes along
    table = errors.errors.projected
    assert table.bias == pytest.approx(1300 / 1375 * (846 / 810) ** 0.5, abs=0.002)
    assert table.baseline_mape == pytest.approx(dict(errors.errors.baselines)["peak ratio"].mape)
    parts = dict(errors.parts)
    assert parts["without cache"] == parts["without power"] == table
    assert parts["without launch"].bias < table.bias
    assert sum(table.n for _, table in errors.halves) == 20
    assert {name for name, _ in errors.halves} == {"looked at", "not looked at"}


def test_a_gpu_that_the_set_does_not_have_is_projected_but_not_judged(made_up: OperatorTimes) -> None:
    judged = judge_projection(made_up, V100, T4)
    assert judged.actual_s is None
    assert judged.operators == ()
    assert len(judged.projection.mid_s) == 21
    assert "no measurement of t4" in judged.notes[0]
    with pytest.raises(
        SmlabError, match=r"no measurement of the source \(got 't4'; expected a100-40, v100\)"
    ):
        judge_projection(made_up, T4, V100)


WITHHELD = {
    "p4": "Tesla P4",
    "p100": "Tesla P100-PCIE-16GB",
    "l4": "NVIDIA L4",
    "a100-80": "NVIDIA A100 80GB PCIe",
    "h100-sxm": "NVIDIA H100 80GB HBM3",
}
"""Cards of NeuSight's that are not at hand."""


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(WITHHELD, 2)))
def test_cards_that_are_not_at_hand_are_projected(tmp_path: Path, source: str, target: str) -> None:
    """Made-up rows: 256 products at a time, streams, long rows and short ones, each at 2 ms."""
    files = {
        "bmm": ["bmm,2,{},maxwell_sgemm_128x64_nn,256,512,64,512", "bmm,2,{},,16,2048,2048,2048"],
        "elem": ["add,2,{},kernel,65536,1024"],
        "ln": ["ln,2,{},vectorized_layer_norm_kernel,32768,1600", "ln,2,{},vectorized,32768,16384"],
        "softmax": ["softmax,2,{},cunn_SoftMaxForward,32768,3072", "softmax,2,{},softmax_warp,65536,768"],
    }
    for name, lines in files.items():
        shape = "B,M,N,K" if name == "bmm" else "B,H"
        text = "".join(f"{line.format(device)}\n" for device in WITHHELD.values() for line in lines)
        (tmp_path / f"{name}.csv").write_text(f"OPName,Latency,Device,Kernel Name,{shape}\n{text}")
    judged = judge_projection(read_neusight(tmp_path), load_gpu(source), load_gpu(target), parts=False)
    got = judged.projection
    assert [errors.operator for errors in judged.operators] == ["bmm", "elementwise", "layernorm", "softmax"]
    assert np.isfinite([got.low_s, got.mid_s, got.high_s]).all()
    assert (got.low_s <= got.mid_s).all()
    assert (got.mid_s <= got.high_s).all()
    wide = np.log(got.high_s / got.low_s)
    assert (wide > np.log(1.04)).all(), "at least what published bandwidths lie apart"


def test_baselines_know_only_rated_figures() -> None:
    one = np.ones(1)
    product = baseline_times("linear", one, one, V100, A100)
    assert product["peak ratio"] == product["FP32 ratio"] == pytest.approx(14 / 19.5)
    assert product["bandwidth ratio"] == pytest.approx(900 / 1555)
    stream = baseline_times("softmax", one, one, V100, T4)
    assert stream["peak ratio"] == stream["bandwidth ratio"] == pytest.approx(900 / 320)


def test_the_best_constant_has_the_least_mape_of_all() -> None:
    rng = np.random.default_rng(5)
    before, truth = rng.uniform(1, 9, 31), rng.uniform(1, 9, 31)

    def mape(c: float) -> float:
        return float(np.mean(np.abs(c * before - truth) / truth))

    best = best_constant(before, truth)
    assert mape(best) <= min(mape(c) for c in np.geomspace(0.05, 20, 2000)) + 1e-12


def test_every_mechanism_has_a_variant() -> None:
    names = [name for name, _ in variants(OperatorSwitches())]
    assert names[0] == "as published"
    assert len(names) == 1 + len(OperatorSwitches.__dataclass_fields__)
    assert all(changed != OperatorSwitches() for _, changed in variants(OperatorSwitches()))
    assert "as published" not in [name for name, _ in variants(PAPER)]


@pytest.fixture(scope="module")
def measured(shared_data: Path) -> OperatorTimes:
    return read_neusight(shared_data / "neusight")


@pytest.fixture(scope="module")
def to_a100(measured: OperatorTimes) -> Judgement:
    return judge_projection(measured, V100, A100)


@pytest.fixture(scope="module")
def to_t4(measured: OperatorTimes) -> Judgement:
    return judge_projection(measured, V100, T4)


def test_the_split_is_about_even_and_the_same_on_every_gpu(measured: OperatorTimes) -> None:
    half = looked_at(measured)
    assert 0.4 < half.mean() < 0.6
    of = dict(zip(measured.labels(), half, strict=True))
    assert all(of[label] == h for label, h in zip(measured.labels(), half, strict=True))


@pytest.mark.parametrize(
    ("operator", "bound", "peak"),
    [("linear", 7, 16.6), ("elementwise", 2.5, 4.0), ("layernorm", 4, 15.2), ("softmax", 12, 19.7)],
)
def test_v100_to_a100_within_the_bounds_asked_for(
    to_a100: Judgement, operator: str, bound: float, peak: float
) -> None:
    (errors,) = [e for e in to_a100.operators if e.operator == operator]
    assert errors.errors.projected.mape <= bound
    assert errors.errors.projected.baseline_mape == pytest.approx(peak, abs=0.06)
    for name, table in errors.halves:
        assert table.mape <= bound, name


@pytest.mark.parametrize(
    ("operator", "peak"), [("linear", 48.2), ("elementwise", 16.7), ("layernorm", 11.5), ("softmax", 10.2)]
)
def test_v100_to_t4_beats_the_peak_ratio(to_t4: Judgement, operator: str, peak: float) -> None:
    (errors,) = [e for e in to_t4.operators if e.operator == operator]
    table = errors.errors.projected
    assert table.baseline_mape == pytest.approx(peak, abs=0.06)
    assert table.mape < table.baseline_mape


def test_most_actual_times_lie_in_the_interval(to_a100: Judgement, to_t4: Judgement) -> None:
    """A guard against regressions: the interval's bounds were chosen with these rows in view."""
    for judged in (to_a100, to_t4):
        for errors in judged.operators:
            assert errors.errors.coverage > 80, (judged.target.name, errors.operator)


def test_each_mechanism_earns_its_place(to_a100: Judgement, to_t4: Judgement) -> None:
    """Without it, some operator on some target is worse by more than the interval of its own error."""

    def worse(name: str, judged: Judgement, operator: str) -> bool:
        (errors,) = [e for e in judged.operators if e.operator == operator]
        return dict(errors.parts)[name].mape > errors.errors.projected.mape_high

    assert worse("without power", to_t4, "linear")
    assert worse("without power", to_a100, "linear")
    assert worse("without cache", to_a100, "layernorm")
    assert worse("without cache", to_t4, "softmax")
    assert worse("without sustained maxima", to_t4, "elementwise")
    assert worse("without half going along", to_t4, "layernorm")
    assert worse("without waiting rows", to_a100, "softmax")
    assert worse("with named tiles", to_a100, "linear")


PAIRS = list(itertools.permutations(("v100", "a100-40", "t4"), 2))


@pytest.fixture(scope="module")
def every_pair(measured: OperatorTimes) -> list[Judgement]:
    return [judge_projection(measured, load_gpu(a), load_gpu(b), parts=False) for a, b in PAIRS]


@pytest.mark.parametrize(
    ("operator", "bound"), [("linear", 7), ("elementwise", 2.5), ("layernorm", 4), ("softmax", 9)]
)
def test_all_pairs_within_the_bounds_asked_for(
    every_pair: list[Judgement], operator: str, bound: float
) -> None:
    """Means over six pairs."""
    tables = [e.errors for judged in every_pair for e in judged.operators if e.operator == operator]
    error, constant = (
        np.mean([e.projected.mape for e in tables]),
        np.mean([dict(e.baselines)[BEST_CONSTANT].mape for e in tables]),
    )
    assert error <= bound
    assert error < constant


def test_products_beat_the_best_constant_on_every_pair(every_pair: list[Judgement]) -> None:
    for judged in every_pair:
        (linear,) = [e.errors for e in judged.operators if e.operator == "linear"]
        assert linear.projected.mape < dict(linear.baselines)[BEST_CONSTANT].mape, judged.target.name


def test_few_rows_alone_have_the_answer_that_they_have_in_the_folder(measured: OperatorTimes) -> None:
    """The 20 smallest products, alone and backwards."""
    own = measured.take(np.flatnonzero((measured.gpu == "v100") & (measured.operator == "linear")))
    smallest = np.argsort(own.seconds, kind="stable")[:20][::-1]
    every = judge_projection(own, V100, T4).projection
    few = judge_projection(own.take(smallest), V100, T4).projection
    assert few.mid_s.tolist() == every.mid_s[smallest].tolist()
    assert few.high_s.tolist() == every.high_s[smallest].tolist()


def test_left_out_targets_are_covered(measured: OperatorTimes) -> None:
    """The margins in use are those of all pairs; without a target's pairs they still hold its times."""
    cases = operator_cases(measured)
    for kind, margin in fitted_margins(cases).items():
        assert margin.below == pytest.approx(MARGINS[kind].below, abs=0.002)
        assert margin.above == pytest.approx(MARGINS[kind].above, abs=0.002)
    found = operator_coverage(cases)
    for target, most in (("v100", 0.95), ("a100-40", 0.95), ("t4", 0.975)):  # T4: its bandwidth is assumed
        of = [c for c in found if c.target == target]
        assert 0.85 < np.average([c.coverage for c in of], weights=[c.n for c in of]) <= most, target
    for operator in ("linear", "elementwise", "layernorm", "softmax"):
        assert 0.85 < np.mean([c.coverage for c in found if c.operator == operator]) <= 0.95, operator


def test_folders_in_another_order_give_the_same(tmp_path: Path) -> None:
    """The same lines in files of other names, from the last to the first, of one GPU more."""
    lines = [ADD.format(gpu, ms, rows) for gpu, ms in DEVICES for rows in range(16384, 16384 * 9, 16384)]
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, text in ((one, lines), (other, lines[::-1])):
        folder.mkdir()
        for part, name in ((text[:9], "a.csv"), (text[9:], "b.csv")):
            (folder / (name if folder == one else f"z{name}")).write_text(HEADER + "".join(part))
    here, there = (judge_projection(read_neusight(folder), V100, A100) for folder in (one, other))
    assert here.source_rows.labels() == there.source_rows.labels()
    assert here.projection.mid_s.tolist() == there.projection.mid_s.tolist()
    assert here.projection.low_s.tolist() == there.projection.low_s.tolist()


DEVICES = (("Tesla V100-PCIE-32GB", 0.1), ("NVIDIA A100-PCIE-40GB", 0.06), ("Tesla T4", 0.3))
ADD = "add,{1},{0},kernel,{2},1024\n"
