"""The record of measured kernels: its sets, how they are judged, and what a new kernel's interval holds."""

import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from smlab.hw_bench.datasets import measured_kernels
from smlab.hw_bench.datasets.measured_kernels import (
    MeasuredKernel,
    MeasuredKernelSet,
    list_sets,
    read_measured,
)
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.inputs import load_toml
from smlab.sim.isa.launch.launch_file import launch_of
from smlab.validation.projection.machine_code import RunTime
from smlab.validation.record import run as running
from smlab.validation.record.judge import (
    LEAST_SETS,
    SetLogs,
    error_model,
    judge,
    model_of,
    sampling_sd,
    stored_errors,
)
from smlab.validation.record.run import ClockRange, SimulatedRow, described


@pytest.mark.parametrize("name", list_sets())
def test_a_set_says_who_measured_what_on_which_card(name: str, repository: Path) -> None:
    raw = load_toml(repository / "hw_bench" / "datasets" / "record" / f"{name}.toml")
    assert raw["name"] == name
    assert {"title", "gpu", "kind", "source", "compiler", "folder", "argument"} <= set(raw)
    load_gpu(raw["gpu"])
    assert ("row" in raw) != ("tuning" in raw)
    assert "clock_hz" not in raw or raw["clock_source"]


@pytest.mark.parametrize("name", list_sets())
def test_rows_are_drawn_by_seed_and_can_be_launched(name: str, shared_data: Path) -> None:
    one, again = (read_measured(name, shared_data, 3, seed=5) for _ in range(2))
    assert [k.name for k in one.kernels] == [k.name for k in again.kernels]
    assert len(one.kernels) == 3
    for kernel in one.kernels:
        assert 1e-6 < kernel.seconds < 10
        tables = {k: v for k, v in one.launch.items() if k == "launch"}
        if kernel.grid is not None:
            tables["launch"] = {"grid": list(kernel.grid), "block": list(kernel.block or ())}
        launch = launch_of(name, tables, shared_data, kernel.parameters)
        assert 1 <= np.prod(launch.block) <= 1024


def test_a_folder_without_the_data_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SmlabError, match="sgemm-a6000: its files are not there"):
        read_measured("sgemm-a6000", tmp_path, 2)
    with pytest.raises(SmlabError, match="no such set of the record"):
        read_measured("nothing", tmp_path, 2)


def _search_of(name: str, rows: list[dict[str, object]], folder: Path) -> None:
    """Put a search with these rows where a set looks for its own, and an empty kernel beside it."""
    raw = load_toml(Path(__file__).parents[3] / f"hw_bench/datasets/record/{name}.toml")
    keys = [key for key in rows[0] if not key.startswith("time")]
    search = {
        **{"device_name": "a card", "kernel_name": "k", "problem_size": [4096, 4096]},
        **{"tune_params_keys": keys, "tune_params": {key: [row[key] for row in rows] for key in keys}},
        **{"objective": "time", "cache": {str(n): row for n, row in enumerate(rows)}},
    }
    file = folder / raw["folder"] / raw["tuning"]["file"]
    file.parent.mkdir(parents=True)
    file.write_bytes(gzip.compress(json.dumps(search).encode()))
    source = folder / raw["folder"] / raw["code"]["file"]
    source.parent.mkdir(parents=True)
    source.write_text("__global__ void Convolution() {}")


def _configuration(x: int, shared: int, runs_ms: list[float]) -> dict[str, object]:
    return {
        **{"block_size_x": x, "block_size_y": 4, "tile_size_x": 1, "tile_size_y": 2, "read_only": 0},
        **{"use_padding": 0, "use_shmem": shared, "time": float(np.mean(runs_ms)), "times": runs_ms},
    }


def test_only_the_rows_that_a_set_asks_for_are_read(tmp_path: Path) -> None:
    rows = [_configuration(x, shared, [1.5, 1.5]) for x in (16, 32) for shared in (0, 1)]
    _search_of("kernel-tuner-convolution-a4000", rows, tmp_path)
    kernels = read_measured("kernel-tuner-convolution-a4000", tmp_path, 10).kernels
    assert [k.parameters["block_size_x"] for k in kernels] == [16, 32]
    assert {k.macros["BLOCK_SIZE_Y"] for k in kernels} == {"4"}
    assert kernels[0].seconds == pytest.approx(1.5e-3)


def test_rows_that_a_card_ran_after_much_work_are_not_read(tmp_path: Path) -> None:
    # The A100's set asks for less than 60 ms in a row and in each of the two before it.
    runs = [[20.0, 20.0], [20.0, 50.0], [10.0], [10.0], [59.0], [59.0], [61.0], [1.0]]
    rows = [_configuration(16 * n, 1, ms) for n, ms in enumerate(runs, start=1)]
    _search_of("kernel-tuner-convolution-a100", rows, tmp_path)
    one = read_measured("kernel-tuner-convolution-a100", tmp_path, 10)
    assert [k.parameters["block_size_x"] for k in one.kernels] == [16, 80, 96]
    assert one.clock_hz == 765e6


def test_the_clock_of_the_measurement_is_used_where_it_is_known(shared_data: Path) -> None:
    one = read_measured("ktt-pnpoly-2080ti", shared_data, 1)
    assert described(one).number("clock.sm_hz") == one.clock_hz == 1.795e9
    other = read_measured("sgemm-a6000", shared_data, 1)
    assert described(other).number("clock.sm_hz") == load_gpu("a6000").number("clock.sm_hz")


def _rows(name: str, ratios: list[float]) -> list[SimulatedRow]:
    return [
        SimulatedRow(
            name, str(n), 1.0 + n, ratio * (1 + n), ratio * (1 + n), ratio * (1 + n), 0, ClockRange()
        )
        for n, ratio in enumerate(ratios)
    ]


def _evenly(mean: float, clock: ClockRange = ClockRange()) -> SetLogs:
    """Ten kernels whose logarithms lie evenly around a mean."""
    return SetLogs(mean + np.linspace(-0.08, 0.08, 10), clock)


def test_a_set_s_error_is_its_factor_and_its_spread() -> None:
    described_sets = [("a", "A", "v100", "x"), ("b", "B", "v100", "x"), ("c", "C", "t4", "x")]
    rows = [*_rows("a", [1.2] * 5), *_rows("b", [0.8, 0.8, 0.8]), *_rows("c", [1.0, 1.1, 0.9, 1.0])]
    (a, b, c), model = judge(described_sets, rows)
    assert (a.bias, a.mape, a.after_factor_mape) == pytest.approx((1.2, 20.0, 0.0))
    assert (b.bias, b.spearman) == pytest.approx((0.8, 1.0))
    assert c.mape == pytest.approx(5.0)
    # With the set left out there are two others, too few for an interval.
    assert LEAST_SETS == 3
    assert np.isnan(a.coverage)
    assert model is not None
    low, high = model.interval(1.0)
    assert low < 1 / 1.2 < 1 / 0.8 < high


def test_a_set_that_rules_were_changed_after_teaches_no_interval() -> None:
    names = "abcd"
    described_sets = [(name, name, "v100", "x") for name in names]
    ratios = {"a": [1.2, 1.1, 1.3], "b": [0.8, 0.9, 0.7], "c": [1.0, 1.3, 0.7], "d": [1.0, 1.0, 1.0]}
    rows = [row for name in names for row in _rows(name, ratios[name])]
    errors, model = judge(described_sets, rows, {"d"})
    assert [e.developed for e in errors] == [False, False, False, True]
    without, same = judge(described_sets[:3], rows)
    assert model == same == model_of(errors)
    # Its own intervals come from the others: all three of them.
    assert errors[3].coverage == 100
    assert all(np.isnan(e.coverage) for e in without)
    assert read_measured("streams-h100", Path("."), 1).developed
    assert not read_measured("basic-titan-v", Path("."), 1).developed


@pytest.mark.parametrize(
    ("sets", "between", "spreads"),
    [
        (6, 0.05, (0.08, 0.08)),
        (6, 0.3, (0.08, 0.08)),
        (12, 0.03, (0.02, 0.2)),
    ],
)
def test_intervals_of_sets_that_nobody_measured_hold_nine_of_ten(
    sets: int, between: float, spreads: tuple[float, float]
) -> None:
    """Also where some sets scatter ten times as much as others."""
    rng = np.random.default_rng(7)
    held = []
    for _ in range(400):
        means = rng.normal(0.1, between, sets + 1)
        logs = [rng.normal(mean, rng.uniform(*spreads), 8) for mean in means]
        model = error_model([SetLogs(x) for x in logs[:-1]])
        assert model is not None
        low, high = model.interval(1.0)
        held += [low <= float(np.exp(-x)) <= high for x in logs[-1]]
    assert 0.85 < np.mean(held) < 0.95


def test_what_else_is_uncertain_widens_the_interval() -> None:
    model = error_model([_evenly(mean) for mean in (0.1, -0.1, 0.05, 0.0)])
    assert model is not None
    narrow, wide = model.interval(2.0), model.interval(2.0, own_sd=0.5)
    assert wide[0] < narrow[0] < 2.0 < narrow[1] < wide[1]
    assert sampling_sd(1.0, 1.0) == 0.0
    assert sampling_sd(np.exp(-0.196), np.exp(0.196)) == pytest.approx(0.1)


def test_one_wild_set_in_ten_does_not_widen_all_intervals() -> None:
    calm = [SetLogs(np.linspace(-0.05, 0.05, 8)) for _ in range(9)]
    model = error_model([*calm, SetLogs(np.linspace(-1, 1, 8))])
    assert model is not None
    assert model.deviation < 0.06
    # A set of many kernels counts no more than one of few.
    half = error_model([SetLogs(np.linspace(-1, 1, 200)), *(SetLogs((-0.05, 0.05)) for _ in range(3))])
    assert half is not None
    assert half.deviation == pytest.approx(0.6, abs=0.02)


def test_a_kernel_deviates_as_those_on_cards_of_its_architecture_do() -> None:
    calm = [SetLogs(np.linspace(-0.05, 0.05, 8), architecture="ampere") for _ in range(3)]
    wild = [SetLogs(np.linspace(-0.5, 0.5, 8), architecture="ada") for _ in range(3)]
    models = {name: error_model([*calm, *wild], name) for name in ("ampere", "ada", "volta", None)}
    found = {name: 0.0 if model is None else model.deviation for name, model in models.items()}
    assert found["ampere"] < 0.06
    assert found["ada"] == found["volta"] == found[None] > 0.5
    # Two sets of an architecture are too few to speak for it.
    few = error_model([*calm[:2], *wild], "ampere")
    assert few is not None
    assert few.deviation > 0.5


def test_the_record_that_ships_is_of_the_sets_that_are_there() -> None:
    errors = stored_errors()
    assert [e.name for e in errors] == list(list_sets())
    assert model_of(errors) is not None
    for error in errors:
        assert error.n >= 4
        assert error.bias == pytest.approx(np.exp(np.mean(error.logs)))


def test_a_spoilt_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text('{"sets": [{"name": "a"}]}')
    with pytest.raises(SmlabError, match="not a judged record"):
        stored_errors(tmp_path / "record.json")


def test_a_bias_that_the_clock_may_explain_is_no_bias_of_ours() -> None:
    slow = _evenly(-0.5, ClockRange(slower=0.6))
    assert slow.unexplained == pytest.approx(0.0)
    assert _evenly(-0.7, ClockRange(slower=0.6)).unexplained == pytest.approx(-0.1)
    assert _evenly(0.2, ClockRange(slower=0.6)).unexplained == pytest.approx(0.2)
    model = error_model([slow, _evenly(0.05), _evenly(-0.02)])
    assert model is not None
    known, unknown = model.interval(1.0), model.interval(1.0, clock=ClockRange(slower=0.6))
    # A clock that may only be slower lengthens the upper end alone.
    assert known[0] == unknown[0]
    assert known[1] < 1.2 < 1.7 < unknown[1]


def test_a_clock_that_was_seen_has_no_range() -> None:
    gpu = load_gpu("a100-40")
    assert ClockRange.of(gpu).slower == pytest.approx(np.log(1410 / 765))
    assert ClockRange.of(gpu.with_values({"clock.sm_hz": 1e9}, "test", "measured")) == ClockRange()


@pytest.mark.parametrize(
    ("compiler", "here", "by"),
    [
        ("nvcc 12, sm_86", True, "nvcc"),
        ("nvcc 12, sm_86", False, "NVRTC"),
        ("NVRTC, release unknown", True, "NVRTC"),
    ],
)
def test_a_kernel_is_compiled_by_the_compiler_that_it_was_measured_with(
    compiler: str, here: bool, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "find_nvcc", lambda: Path("nvcc") if here else None)
    monkeypatch.setattr(running, "compile_cuda", lambda source, *_: f"NVRTC {source}".encode())
    monkeypatch.setattr(
        running,
        "compile_by_nvcc",
        lambda path, *_, lines: f"nvcc {path.read_text(encoding='utf-8')}".encode(),
    )
    kernel = MeasuredKernel("one", "k", Path("k.cuh"), "text", {"A": "1"}, {}, None, None, 1.0)
    one = MeasuredKernelSet("set", "a set", "a6000", "product", "us", compiler, None, {}, (kernel,))
    assert running.compiled(one, kernel, "sm_86") == f"{by} text".encode()


@pytest.mark.parametrize(
    ("timer", "beyond_us"), [("", 0.0), ("events", 3.2), ("launches in a row", 2.1), ("profiler", 2.2)]
)
def test_a_simulated_time_has_what_its_timer_has(
    timer: str, beyond_us: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an H100's description, beside a launch of 10 us."""
    launch = SimpleNamespace(arguments=(), names=(), constants={}, shared_bytes=0)
    monkeypatch.setattr(running, "compiled", lambda *_: b"")
    monkeypatch.setattr(running, "_full_name", lambda *_: "k")
    monkeypatch.setattr(running, "_launch", lambda *_: ((1, 1, 1), (32, 1, 1), launch))
    monkeypatch.setattr(running, "resources_of", lambda *_: SimpleNamespace(local_bytes=0))
    monkeypatch.setattr(running, "run_codes", lambda *_: [RunTime(10_000, 9_000, 11_000, 1e9, 1e9, 1e9)])
    kernel = MeasuredKernel("one", "k", Path("k.cu"), "text", {}, {}, None, None, 1e-5)
    one = MeasuredKernelSet("s", "a set", "h100-sxm", "x", "us", "nvcc", None, {}, (kernel,), timer=timer)
    row = running.simulate_set(one, load_gpu("h100-sxm"))[0]
    assert [row.low_s, row.simulated_s, row.high_s] == pytest.approx(
        [(us + beyond_us) * 1e-6 for us in (9, 10, 11)]
    )


def test_a_timer_that_nobody_knows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (measured_kernels.RECORD / "streams-h100.toml").read_text(encoding="utf-8")
    (tmp_path / "odd.toml").write_text(text.replace('timer = "events"', 'timer = "a watch"'), "utf-8")
    (tmp_path / "streams").mkdir()
    for path in (measured_kernels.RECORD / "streams").iterdir():
        (tmp_path / "streams" / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(measured_kernels, "RECORD", tmp_path)
    with pytest.raises(SmlabError, match=r"timer: is none that we know .*'a watch'; expected one of events"):
        read_measured("odd", tmp_path, 1)
