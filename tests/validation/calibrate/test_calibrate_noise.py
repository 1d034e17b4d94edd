"""Noise and lack of fit: what repetitions tell, what launches share, what noise does not explain; and rows
that must not be fitted."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from calibration_trials import SMALL
from smlab.hw_bench.cuda.measuring import steadiness
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.calibrate.cases import Cases, Measured
from smlab.validation.calibrate.dataset import read_set, undisturbed
from smlab.validation.calibrate.fit import atomic_parameters, fit, split
from smlab.validation.calibrate.judge import lack_of_fit
from smlab.validation.calibrate.noise import (
    Launches,
    SharedNoise,
    median_noise,
    noise_of_median,
    noise_of_repetitions,
    outlier_shift,
    shared_noise,
    whitened,
)
from smlab.validation.calibrate.predict import MEASURING, BurstPath, last_issue
from smlab.validation.calibrate.simulated import write_simulated


def test_repetitions_tell_the_noise_of_their_median() -> None:
    draws = 1000 * np.exp(0.05 * np.random.default_rng(3).standard_normal((2000, 5)))
    told = np.median([steadiness.noise(row) for row in draws])
    assert told * noise_of_median(5) == pytest.approx(np.log(np.median(draws, axis=1)).std(), rel=0.06)
    assert noise_of_median([1, 5])[0] == 0
    assert median_noise(5) == pytest.approx(0.5356, rel=0.02)  # of order statistics: variance 0.2868


def _rows_of(times: np.ndarray) -> dict[str, np.ndarray]:
    """The columns of rows with these repetitions, shape ``(rows, repetitions)``."""
    return {
        "samples": np.full(len(times), times.shape[1]),
        "steady_from": np.zeros(len(times), dtype=int),
        "relative_noise": np.array([steadiness.noise(row) for row in times]),
        "cycles_min": times.min(axis=1),
        "cycles_median": np.median(times, axis=1),
        "cycles_max": times.max(axis=1),
    }


def test_outliers_leave_no_bias_in_the_median() -> None:
    rng = np.random.default_rng(7)
    clean = 1000 * np.exp(0.05 * rng.standard_normal((20_000, 5)))
    told = [steadiness.noise(row) for row in clean[:2000]]
    assert np.median(noise_of_repetitions(told, np.full(2000, 5))) == pytest.approx(0.05, rel=0.05)
    late = rng.random(clean.shape) < 0.05
    table, corrected = undisturbed(_rows_of(np.where(late, 3 * clean, clean)))
    assert corrected == pytest.approx((late.sum(axis=1) > 0).sum(), rel=0.02)
    # Rows with two outliers keep what one does not explain; those with three are lost.
    kept = late.sum(axis=1) < 3
    raw = np.median(np.where(late, 3 * clean, clean), axis=1)[kept].mean() / 1000 - 1
    left = table["cycles_median"][kept].mean() / 1000 - 1
    assert raw > 0.004
    assert abs(left) < raw / 3
    # Outliers below are told alike, and where there are none nothing changes.
    fast, _ = undisturbed(_rows_of(np.where(late, clean / 3, clean)))
    assert abs(fast["cycles_median"][kept].mean() / 1000 - 1) < raw / 3
    same, none = undisturbed(_rows_of(clean))
    assert none < 20
    assert np.mean(same["cycles_median"] == np.median(clean, axis=1)) > 0.999


def test_the_shift_of_a_median_by_an_outlier() -> None:
    # The third of four normal numbers (Teichroew 1956), and of two the mean of the larger.
    assert outlier_shift(5) == pytest.approx(0.2970, abs=0.01)
    assert outlier_shift(3) == pytest.approx(1 / np.sqrt(np.pi), abs=0.01)
    assert np.isinf(outlier_shift(2))
    # A time that does not vary is not changed by one that does.
    steady = np.full((4, 5), 100.0)
    steady[0, 4] = 400
    table, corrected = undisturbed(_rows_of(steady))
    assert corrected == 0
    assert (table["cycles_median"] == 100).all()


def test_what_launches_share_is_found_and_taken_out() -> None:
    rng = np.random.default_rng(5)
    names = np.repeat(np.arange(30), 20)
    launches = Launches.of(names, names / 29)
    slopes = rng.standard_normal((600, 4))
    plain = 0.03 * rng.standard_normal(600)
    each = plain + (0.06 * rng.standard_normal(30))[names]
    walk = plain + np.cumsum(0.03 * rng.standard_normal(30))[names]
    assert shared_noise(plain, slopes, launches, 0.03) == SharedNoise()
    found = shared_noise(each, slopes, launches, 0.03)
    assert 1 <= found.launch <= 16
    assert not found.drifting
    means = [np.bincount(names, rows).std() for rows in (each, whitened(each, launches, found))]
    assert means[1] < 0.4 * means[0]
    assert shared_noise(walk, slopes, launches, 0.03).walk > 0
    for rise in (0.05, -0.05):
        drift = plain + rise * launches.at[names]
        found = shared_noise(drift, slopes, launches, 0.03)
        assert found.line > 0
        assert found.launch == found.walk == 0
        assert launches.errors(drift, found)[-1] == pytest.approx(rise, abs=0.01)


def test_whitening_is_by_the_covariance() -> None:
    rng = np.random.default_rng(6)
    names = rng.integers(0, 4, 12)
    launches = Launches.of(names, rng.random(4)[names])
    shared = SharedNoise(launch=0.3, line=2.0, walk=0.5)
    indicator = np.eye(len(launches.at))[launches.of_row]
    covariance = np.eye(12) + indicator @ launches.covariance(shared) @ indicator.T
    whitening = whitened(np.eye(12), launches, shared)
    np.testing.assert_allclose(whitening @ covariance @ whitening.T, np.eye(12), atol=1e-12)
    rows = rng.standard_normal(12)
    drifts = launches.covariance(SharedNoise(line=2.0, walk=0.5)) @ indicator.T
    np.testing.assert_allclose(
        launches.errors(rows, shared), drifts @ np.linalg.solve(covariance, rows), atol=1e-12
    )


def test_what_is_measured_again_is_a_launch_of_its_own_at_the_end(tmp_path: Path) -> None:
    write_simulated(tmp_path, load_gpu("a100-40"), profile=SMALL)
    cases = read_set(tmp_path).atomics
    of_first = (cases.operation == "add-result") & (cases.form == "batch")
    launches = dict(zip(cases.launch[of_first].tolist(), cases.moment[of_first].tolist(), strict=True))
    assert sorted(moment < 0.5 for moment in launches.values()) == [False, True]
    assert max(launches.values()) == 1


def test_launches_are_in_the_order_of_the_rows_and_a_difference_multiplies_their_drift(
    tmp_path: Path,
) -> None:
    write_simulated(tmp_path, load_gpu("a100-40"), profile=SMALL)
    cases = read_set(tmp_path).atomics
    batch, stream = (cases.form == "batch"), (cases.form == "stream")
    assert cases.moment[batch].min() < cases.moment[cases.form == "burst"].min()
    assert 0.9 < cases.moment[cases.form == "burst"].max() < 1
    of_add = np.unique(cases.moment[stream & (cases.operation == "add")])
    assert len(of_add) == 1
    # The longer loop's launch is one place later, and 192 / 128 and 64 / 128 are the shares of the two.
    table = pd.read_csv(tmp_path / "shared-atomics.csv", keep_default_na=False)
    order = list(dict.fromkeys(zip(table.operation, table.form, table.iterations, strict=True)))
    # The last launch is one that was measured before.
    places = [order.index(("add", "independent", n)) / len(order) for n in (64, 192)]
    assert of_add[0] == pytest.approx(1.5 * places[1] - 0.5 * places[0])


def test_a_drift_is_noticed_and_survived(tmp_path: Path) -> None:
    gpu = load_gpu("a100-40")
    truth = write_simulated(tmp_path, gpu, profile=SMALL, seed=4)
    path = tmp_path / "shared-atomics.csv"
    table = pd.read_csv(path, keep_default_na=False)
    launches = table[["operation", "form", "iterations"]]
    place = launches.ne(launches.shift()).any(axis=1).cumsum() - 1
    for column in ("cycles_min", "cycles_median", "cycles_max"):
        table[column] = table[column] * (1 + 0.05 * place / place.max())
    table.to_csv(path, index=False)
    cases = read_set(tmp_path).atomics
    found = fit(gpu, cases.select(split(gpu, cases, 0.5, 0)), atomic_parameters(gpu))
    assert found.shared.drifting
    assert found.drift == pytest.approx(0.05, abs=0.02)
    factors = found.drift_of(cases)
    assert factors[cases.form == "frame"] == pytest.approx(1)
    assert factors[cases.form == "burst"].min() > factors[cases.operation == "max"].max() > 1.005
    assert all(f.low <= truth[f.name] <= f.high for f in found.fitted if f.name not in MEASURING)


def _cases(rng: np.random.Generator, noise: float) -> Cases:
    warps = np.repeat([1, 2, 4, 8, 16, 32], 60)
    cas = np.where(np.arange(360) % 3 == 0, warps // 2, 0)
    words = np.tile([1, 4, 32], 120)
    ones = np.ones(360, dtype=np.int64)
    cycles = warps * (4 + words) * np.exp(noise * rng.standard_normal(360)) * 100
    where = np.stack([warps, cas, words, words, ones, ones])
    return Cases.build(["add-result"] * 360, "looped", where, cycles, 1.0, Measured(noise=noise))


def test_lack_of_fit_is_found_where_there_is_some_and_only_there() -> None:
    found = {"nothing": 0, "tolerated": 0, "switching": 0, "lanes": 0}
    for seed in range(40):
        cases = _cases(np.random.default_rng(seed), 0.03)
        right = 100.0 * cases.warps * (4 + cases.passes)
        mixed = cases.cas_warps > 0
        for name, times in (
            ("nothing", right),
            ("tolerated", right * 1.005),
            ("switching", np.where(mixed, 0.93 * right, right)),
            ("lanes", right * (1 - 0.08 * (cases.passes / 32) ** 2)),
        ):
            test = lack_of_fit(cases, times)
            assert test is not None
            found[name] += test.found
    assert found["nothing"] <= 4
    assert found["tolerated"] <= 4
    assert found["switching"] >= 38
    assert found["lanes"] >= 38
    assert lack_of_fit(_cases(np.random.default_rng(0), 0.0), right) is None


def test_one_disturbed_row_that_is_like_no_other_is_no_lack_of_fit() -> None:
    cases = _cases(np.random.default_rng(3), 0.03)
    times = 100.0 * cases.warps * (4 + cases.passes)
    warps, counts = np.unique(cases.warps, return_counts=True)
    lone = int(np.flatnonzero(cases.warps == warps[counts.argmin()])[0])
    operation = cases.operation.copy()
    operation[lone] = "cas"  # a cell of its own
    measured = cases.cycles.copy()
    measured[lone] *= 3
    test = lack_of_fit(replace(cases, operation=operation, cycles=measured), times)
    assert test is not None
    assert not test.found


def test_a_burst_waits_for_room() -> None:
    path = BurstPath(
        4,
        pipes=1,
        front=0.0,
        address=0.0,
        request=1.0,
        stage_pass=1.0,
        stage_jobs=1,
        stage_entries=0,
        issue=4.0,
    )
    one = np.array([1])

    def last(operations: int, interval: float, sub_core: float, unit: float) -> float:
        times = last_issue(path, one, np.array([operations]), one, np.array([interval]), sub_core, unit)
        return float(times[0])

    assert last(10, 1.0, 5, 16) == 36  # nothing waits: nine times the distance of two issues
    slow = last(60, 50.0, 5, 16)
    assert slow == pytest.approx(50.0 * (60 - 5 - 16), abs=8)
    assert last(60, 50.0, 5, 17) == pytest.approx(slow - 50)
    assert last(60, 50.0, 6, 16) == pytest.approx(slow - 50)
    assert last(60, 50.0, 5, 16.5) == pytest.approx(slow - 25)


def test_rows_that_cannot_be_trusted_are_left_out_and_told(tmp_path: Path) -> None:
    write_simulated(tmp_path, load_gpu("a100-40"), profile=SMALL)
    path = tmp_path / "shared-atomics.json"
    note = json.loads(path.read_text())
    before = len(read_set(tmp_path).atomics)
    note["machine_code"] = {"max/batch": {"keeps_contract": False, "fault": "2 ATOMS.MAX where 1 expected"}}
    note["batches"]["add/burst/32/1"]["wrong_results"] = 3
    path.write_text(json.dumps(note))
    data = read_set(tmp_path)
    assert "max" not in data.atomics.operation
    assert 32 not in data.atomics.iterations[data.atomics.form == "burst"]
    told = {s.what: s.reason for s in data.skipped}
    assert told["max/batch"] == "its machine code: 2 ATOMS.MAX where 1 expected"
    assert told["add/burst/32/1"] == "3 wrong results"
    assert len(data.atomics) < before
    # A loop of few iterations that was disturbed in most of its repetitions gives no difference.
    rows = pd.read_csv(tmp_path / "shared-atomics.csv", keep_default_na=False)
    disturbed = rows.index[(rows.form == "dependent") & (rows.operation == "add-result")][0]
    rows.loc[disturbed, "cycles_median"] *= 1000
    rows.to_csv(tmp_path / "shared-atomics.csv", index=False)
    again = read_set(tmp_path)
    assert len(again.atomics) == len(data.atomics) - 1
    assert [s.rows for s in again.skipped if "took no longer" in s.reason] == [1]
    path.write_text(json.dumps(note | {"complete": False, "failure": "CudaAPIError: [700] launch failed"}))
    with pytest.raises(SmlabError, match=r"the run did not end \(CudaAPIError: \[700\] launch failed\)"):
        read_set(tmp_path)
