"""Running the suite, without a GPU: in the simulator, and the parts that need none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.cuda import toolkit
from smlab.hw_bench.cuda.measuring import plan, steadiness
from smlab.hw_bench.cuda.measuring.batch import Settling, Watch, padded
from smlab.hw_bench.cuda.measuring.dataset import DataSet, read_table
from smlab.hw_bench.cuda.measuring.steadiness import Stopping, noise, steady_from
from smlab.hw_bench.errors import SmlabError


def run(*arguments: str, simulated: bool) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "NUMBA_ENABLE_CUDASIM": "1" if simulated else "0",
        "CUDA_VISIBLE_DEVICES": "",
    }
    return subprocess.run(
        [sys.executable, "-m", "smlab.hw_bench.cuda.run_on_device", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


def test_the_suite_runs_end_to_end_in_the_simulator_and_resumes(tmp_path: Path) -> None:
    pytest.importorskip("numba.cuda", reason="the suite was not simulated: this Numba has no CUDA target")
    out = ("--out", str(tmp_path), "--profile", "smoke", "--benchmarks", "latency", "ceilings")
    done = run(*out, simulated=True)
    assert done.returncode == 0, done.stderr
    table = read_table(tmp_path / "latency.csv")
    note = json.loads((tmp_path / "latency.json").read_text())
    assert note["complete"]
    assert note["wrong_results"] == []
    assert note["packages"]["numba"]
    assert len(table["kernel"]) == sum(batch["rows"] for batch in note["batches"].values())
    assert (table["cycles_per_link_median"] > 0).all()
    with np.load(tmp_path / "latency.samples.npz") as samples:
        assert samples["shared/cycles"].shape == (2, 2)

    # Lose the last batch's record, as a crash would: resuming measures it again, and nothing else.
    lost = list(note["batches"])[-1]
    del note["batches"][lost]
    (tmp_path / "latency.json").write_text(json.dumps(note))
    done = run(*out, "--resume", simulated=True)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "latency" in line]
    assert len(lines) == 1
    assert lost in lines[0]
    again = read_table(tmp_path / "latency.csv")
    assert list(again["kernel"]) == list(table["kernel"])


def test_every_other_benchmark_gives_its_columns(tmp_path: Path) -> None:
    pytest.importorskip("numba.cuda", reason="the suite was not simulated: this Numba has no CUDA target")
    names = ("shared-banks", "histogram", "portability")
    done = run("--out", str(tmp_path), "--profile", "smoke", "--benchmarks", *names, simulated=True)
    assert done.returncode == 0, done.stderr
    for name in names:
        table = read_table(tmp_path / f"{name}.csv")
        note = json.loads((tmp_path / f"{name}.json").read_text())
        assert tuple(table) == plan.COLUMNS[name]
        assert note["wrong_results"] == []
        assert len(table[plan.COLUMNS[name][0]]) == sum(batch["rows"] for batch in note["batches"].values())
        with np.load(tmp_path / f"{name}.samples.npz") as samples:
            assert {key.rsplit("/", 1)[0] for key in samples.files} == set(note["batches"])
    kernels = set(read_table(tmp_path / "portability.csv")["kernel"])
    assert "column-permutation" in kernels
    assert "butterfly" not in kernels  # warp-wide: not simulated


def test_the_plan_is_what_the_papers_did() -> None:
    full = plan.profile("full")
    grids = plan.portability_sizes("butterfly", full)
    assert [g[1] for g in grids] == [8, 16, 32, 64, 96, 128, 160, 192, 224, 256, 288, 512, 1024]
    assert {g[2] for g in grids} == {1024}
    assert {g[2] for g in plan.portability_sizes("bank-conflicts/8", full)} == {256}
    assert {g[1:] for g in plan.portability_sizes("column-permutation", full)} == {(2, 256)}
    levels = {g[0] for g in plan.portability_sizes("global-atomic-cas", full)}
    assert levels == {2**k for k in range(15)}
    gpu = plan.DeviceLimits("g", "8.0", 108, 64, 2**20)
    images = list(plan.images(full, gpu))
    assert {i.pixels for i in images} == {2**k for k in range(5, 23)}
    assert {i.threads for i in images} == {32, 64, 128, 256, 512, 1024}
    assert all(i.blocks <= 108 * min(32, 2048 // i.threads) for i in images)
    assert all(i.blocks * i.threads >= min(i.pixels, 108 * 1024) for i in images)
    points = plan.atomic_points("add-result/batch", full, 48)
    assert max(p.warps for p in points) == 48
    assert len(points) == len(set(points))
    with pytest.raises(SmlabError, match="profile: unknown .got 'huge'"):
        plan.profile("huge")


def test_series_of_different_lengths_are_kept_side_by_side() -> None:
    rows = padded([(1.0, 2.0), (3.0,)])
    assert rows.shape == (2, 2)
    assert np.isnan(rows[1, 1])
    assert rows[0].tolist() == [1.0, 2.0]


def test_a_watch_keeps_throttled_launches_and_the_beginning_apart() -> None:
    slow = iter([False] * 5 + [True] + [False] * 30)
    watch = Watch(60.0, lambda: next(slow), least=20)
    seconds: list[float] = []
    for at in range(36):
        seconds.append(9.0 if at == 5 else 2.0 if at < 4 else 1.0 + 1e-6 * at)
        if watch.enough(seconds):
            break
    start, initial, steady = watch.parts(tuple(seconds))
    assert watch.verdict == "quiet"
    assert sum(watch.slow) == 1
    assert (start, initial) == (4, [2.0] * 4)
    assert max(steady) < 1.1


def test_without_a_gpu_it_says_what_is_missing(tmp_path: Path) -> None:
    done = run("--out", str(tmp_path / "data"), simulated=False)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert "no CUDA GPU can be used here" in line if toolkit.has_compiler() else "smlab[cuda12]" in line
    assert not (tmp_path / "data").exists()


def _set(folder: Path, resume: bool = False, gpu: str = "one") -> DataSet:
    return DataSet(folder, "set", ("n", "cycles"), {"gpu": gpu, "compute_capability": "9.0"}, resume)


def test_a_data_set_reads_back_equal(tmp_path: Path) -> None:
    data = _set(tmp_path)
    data.add(
        "a", [{"n": 1, "cycles": 2.5}, {"n": 2, "cycles": 4.0}], {"raw": np.arange(4).reshape(2, 2)}, {"x": 1}
    )
    data.close(complete=True)
    table = read_table(data.table)
    assert table["n"].tolist() == [1, 2]
    assert table["cycles"].tolist() == [2.5, 4.0]
    note = json.loads(data.note.read_text())
    assert note["batches"] == {"a": {"rows": 2, "x": 1}}
    assert note["complete"]
    with np.load(data.archive) as samples:
        assert samples["a/raw"].tolist() == [[0, 1], [2, 3]]


def test_rows_without_a_record_are_dropped_when_resuming(tmp_path: Path) -> None:
    data = _set(tmp_path)
    data.add("a", [{"n": 1, "cycles": 2}], {}, {})
    data.close()
    with data.table.open("a") as file:
        file.write("7,8\n")
    again = _set(tmp_path, resume=True)
    assert again.done == {"a"}
    again.add("b", [{"n": 3, "cycles": 4}], {}, {})
    again.close()
    assert read_table(again.table)["n"].tolist() == [1, 3]


def test_a_run_of_another_gpu_is_not_resumed(tmp_path: Path) -> None:
    _set(tmp_path).close()
    with pytest.raises(SmlabError, match=r"gpu: is of another run \(got 'one'; expected 'two'\)"):
        _set(tmp_path, resume=True, gpu="two")


def test_a_table_with_a_short_row_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(SmlabError, match="row 3: wrong number of values"):
        read_table(tmp_path / "t.csv")


def test_the_beginning_is_told_from_the_steady_part() -> None:
    rng = np.random.default_rng(5)
    level = 100 + rng.normal(0, 0.1, (3, 20))
    level[1, :4] += 30
    level[2, :1] *= 3
    assert steady_from(level).tolist() == [0, 4, 1]
    assert steady_from([5.0, 5.0]).tolist() == [0]
    assert steady_from(np.full(9, 7)).tolist() == [0]


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=30))
def test_at_least_half_is_always_kept(series: list[float]) -> None:
    (start,) = steady_from(series)
    assert 0 <= start <= len(series) // 2


def test_noise_is_the_relative_standard_deviation() -> None:
    sample = np.random.default_rng(1).normal(200, 4, 20_000)
    assert noise(sample) == pytest.approx(0.02, rel=0.05)
    assert noise([3.0, 3.0]) == 0


def test_stopping_knows_quiet_stable_and_noisy(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)

    def verdict(samples: list[float], **options: float) -> str:
        stopping = Stopping(**options)  # type: ignore[arg-type]
        for count in range(1, len(samples) + 1):
            found = stopping.verdict(samples[:count])
            if found is not None:
                return found
        return "none"

    assert verdict([100.0] * 20) == "quiet"
    assert verdict(list(rng.normal(100, 10, 400)), most=400, limit_s=60) == "stable"
    # A spread that grows and grows.
    assert verdict([100.0 + (-1) ** k * 3 * k for k in range(30)], most=30) == "noisy"
    monkeypatch.setattr(steadiness.time, "monotonic", iter(range(1000)).__next__)
    assert verdict([1.0, 2.0, 3.0, 4.0], limit_s=3.0, patience_s=3.0) == "noisy"


def test_a_simulated_series_ends_when_a_launch_takes_as_long_as_the_one_before() -> None:
    watch, series = Settling(), [5.0, 3.0, 2.9, 2.9, 2.8]
    asked = [watch.enough(series[: n + 1]) for n in range(4)]
    assert asked == [False, False, False, True]
    assert watch.parts(tuple(series[:4])) == (3, [5.0], [2.9])
    assert (watch.verdict, len(watch.slow)) == ("quiet", 4)
    restless = Settling()
    ended = [restless.enough([1.0 + n % 2 for n in range(count)]) for count in range(1, 7)]
    assert ended == [False] * 5 + [True]
    assert restless.verdict == "noisy"


def test_a_simulator_launches_once_and_lets_few_blocks_contend() -> None:
    full = plan.for_simulator(plan.profile("full"))
    assert (full.stopping_s, full.series_s) == (0, 0)
    assert full.grids == plan.profile("full").grids
    levels = {size[:2] for size in plan.portability_sizes("global-atomic-cas", full)}
    assert {1, 4096} <= {level for level, _ in levels}
    assert {blocks for _, blocks in levels} == {plan.SIMULATED_GRID}
