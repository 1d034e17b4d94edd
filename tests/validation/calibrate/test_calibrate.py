"""Calibration: known constants are found again, what cannot be known is told, and the description can be
used."""

import csv
import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibration_trials import ALL, SMALL, recover
from smlab.hw_bench.cuda.measuring.dataset import read_table
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.validation.calibrate import calibrate
from smlab.validation.calibrate.calibration import calibrate_set
from smlab.validation.calibrate.dataset import read_set
from smlab.validation.calibrate.fit import atomic_parameters, split
from smlab.validation.calibrate.judge import baselines
from smlab.validation.calibrate.predict import QUEUE, Predictor
from smlab.validation.calibrate.simulated import is_measured, write_simulated

TRUTH = {
    "atomic.add.base_interval_cycles": 5.3,
    "atomic.add.pass_interval_cycles": 1.31,
    "atomic.add.latency_cycles": 41,
    "atomic.cas.base_interval_cycles": 6.1,
    "atomic.cas.pass_interval_cycles": 2.7,
    "atomic.cas.latency_cycles": 52,
    "atomic.popc_inc.base_interval_cycles": 3.2,
    "atomic.popc_inc.pass_interval_cycles": 1.6,
    "mio.queue_entries": 7,
    "shared.load_latency_cycles": 27,
}


@pytest.fixture(scope="module")
def known() -> Gpu:
    return load_gpu("a100-40").with_values(TRUTH, source="assumed: test")


@pytest.fixture(scope="module")
def quiet(known: Gpu, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set without noise but that of whole cycles."""
    folder = tmp_path_factory.mktemp("quiet")
    write_simulated(folder, known, profile=SMALL, noise=0.0)
    return folder


@pytest.fixture(scope="module")
def noisy(known: Gpu, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("noisy")
    write_simulated(folder, known, profile=SMALL, noise=0.03, seed=4)
    return folder


def test_without_noise_the_constants_come_back(quiet: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "found.toml"
    found = calibrate(quiet, "a100-40", out=out, cases_out=tmp_path / "cases.csv")
    assert found.follows
    assert not found.not_fitted
    description = load_gpu(out)
    for key, value in TRUTH.items():
        assert float(description.number(key)) == pytest.approx(value, rel=0.02), key
        assert description[key].kind == "calibrated"
        assert "SIMULATED" in description[key].source
        assert quiet.name in description[key].source
    assert description["clock.boost_hz"].kind == "assumed"  # a board's own, which no fit tells
    assert found.mape(ALL) < 1.5
    with (tmp_path / "cases.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == found.points_fitted + found.points_judged
    assert {row["use"] for row in rows} == {"fit", "judge"}


def test_judged_errors_are_the_noise_and_baselines_are_worse(noisy: Path) -> None:
    found = calibrate_set(read_set(noisy), "a100-40", seed=1)
    assert found.scatter_percent == pytest.approx(3, rel=0.35)
    for name in ("constant S", "line in e", "distinct words", "before"):
        assert found.mape(ALL, name) > 2 * found.mape(ALL)
    # Every judged case is in one residual of each axis but the bursts.
    axes = {r.axis for r in found.residuals}
    assert axes == {"n", "e", "c/n in %"}
    totals = {axis: sum(r.n for r in found.residuals if r.axis == axis) for axis in axes}
    assert len(set(totals.values())) == 1
    assert all(0.9 < r.bias < 1.1 for r in found.residuals if r.n >= 20)


@pytest.mark.parametrize("trials", [4, pytest.param(50, marks=pytest.mark.thorough)])
def test_known_constants_are_recovered_from_noise(known: Gpu, trials: int) -> None:
    """With 3 % noise, all true constants at once in their intervals in 90 % of the trials; judged errors
    are the noise."""
    result = recover(known, "a100-40", trials=trials, seed=100)
    # Of 4 trials one may miss: at 95 % that is likely, at 60 % (single intervals taken for simultaneous ones)
    # two would.
    assert result.all_covered >= (0.9 * trials if trials >= 20 else trials - 1)
    assert min(result.by_constant.values()) >= trials - max(1, trials // 10)
    assert result.factor <= 1.2
    assert set(TRUTH) <= set(result.by_constant)


def test_a_mechanism_that_cannot_follow_is_shown(quiet: Path, tmp_path: Path) -> None:
    """Data in which 16 and more lanes on a word cost double: no constants of this mechanism make that."""
    for file in quiet.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    path = tmp_path / "shared-atomics.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))[::2]
    for row in rows:
        if int(row["same_word"]) >= 16:
            row["cycles_median"] = str(2 * float(row["cycles_median"]))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    found = calibrate_set(read_set(tmp_path), "a100-40")
    assert not found.follows
    by_e = {r.where: r.bias for r in found.residuals if r.axis == "e"}
    assert max(by_e.values()) / min(by_e.values()) > 1.2


def test_what_the_data_do_not_tell_stays(quiet: Path, tmp_path: Path) -> None:
    """Without bursts there is no queue, without several words on a bank no pass of the counting form."""
    note = json.loads((quiet / "shared-atomics.json").read_text())
    (tmp_path / "shared-atomics.json").write_text(json.dumps(note))
    lines = (quiet / "shared-atomics.csv").read_text().splitlines()
    kept = [
        line
        for line in lines
        if ",burst," not in line and not (line.startswith("popc-inc") and line.split(",")[6] != "1")
    ]
    (tmp_path / "shared-atomics.csv").write_text("\n".join(kept) + "\n")
    found = calibrate(tmp_path, "a100-40", out=tmp_path / "out.toml")
    untold = {n.name: n.reason for n in found.not_fitted}
    assert "burst" in untold[QUEUE]
    popc = {"atomic.popc_inc.base_interval_cycles", "atomic.popc_inc.pass_interval_cycles"}
    # Only the sum of base and pass is in the data: one of them stays, and what is said of the other holds
    # given it.
    assert len(popc & set(untold)) == 1
    description = load_gpu(tmp_path / "out.toml")
    assert description[QUEUE].kind == "assumed"
    assert description.number(QUEUE) == load_gpu("a100-40").number(QUEUE)


def test_the_split_is_by_seed_and_of_every_kind(noisy: Path, known: Gpu) -> None:
    gpu = known
    cases = read_set(noisy).atomics
    first, again, other = split(gpu, cases, 0.05, 0), split(gpu, cases, 0.05, 0), split(gpu, cases, 0.05, 1)
    assert (first == again).all()
    assert (first != other).any()
    frame = cases.form == "frame"
    assert first[frame].all()
    for form in set(cases.form.tolist()) - {"frame"}:
        assert 0 < np.count_nonzero(first & (cases.form == form)) < np.count_nonzero(cases.form == form)
    with pytest.raises(SmlabError, match="share of cases to fit: out of range"):
        split(gpu, cases, 1.0, 0)


def test_what_few_rows_tell_and_what_no_closed_form_follows(noisy: Path, known: Gpu) -> None:
    cases = read_set(noisy).atomics
    several = (cases.operation == "popc-inc") & (cases.passes > 1)
    for seed in range(20):
        # They alone tell what a pass of a counting costs: half of a handful may be none.
        assert (split(known, cases, 0.05, seed) & several).sum() == min(8, several.sum() // 2)
    uneven = (cases.form == "burst") & (cases.warps == 3)
    assert uneven.any()
    two_pipes = load_gpu("b300")
    assert two_pipes.integer("atomic.pipes") == 2
    assert not (split(two_pipes, cases, 0.5, 0) & uneven).any()
    assert (split(known, cases, 0.5, 0) & uneven).any()


def test_a_search_may_look_below_a_cycle(noisy: Path) -> None:
    # Steps towards the data may try a unit faster than a pass a cycle, which the simulator refuses.
    gpu = load_gpu("a100-40").with_values(
        {"atomic.cas.base_interval_cycles": 0.0, "atomic.cas.pass_interval_cycles": 1.0},
        source="assumed: test",
    )
    cases = read_set(noisy).atomics
    swaps = cases.select(cases.cas_warps > 0)
    constants = {p.name: p.start for p in atomic_parameters(gpu)}
    low = constants | {"atomic.cas.base_interval_cycles": 0.1, "atomic.cas.pass_interval_cycles": 0.7}
    assert np.isfinite(Predictor(gpu, swaps).cycles(low, smooth=True)).all()


def test_a_line_in_e_is_found_where_there_is_one(noisy: Path) -> None:
    cases = read_set(noisy).atomics
    cases = cases.select((cases.operation == "add") & (cases.form == "stream") & (cases.cas_warps == 0))
    exact = replace(cases, cycles=cases.warps * (3.0 + 2.0 * cases.passes))
    times = baselines(exact, np.arange(len(exact)) % 2 == 0)
    assert times["line in e"] == pytest.approx(exact.cycles, rel=0.02)
    words = cases.same_bank == 1
    assert np.ptp(times["distinct words"][words] / exact.warps[words]) < np.ptp(exact.passes)


def test_a_data_set_reads_back_equal(known: Gpu, quiet: Path) -> None:
    data = read_set(quiet)
    table = read_table(quiet / "shared-atomics.csv")
    batch = (table["operation"] == "add-result") & (table["form"] == "batch")
    # Of few warps with two kinds of operation, it matters which comes first: those rows are left out.
    mixed = (table["cas_warps"] > 0) & (table["cas_warps"] < table["warps"])
    batch &= ~mixed | (table["warps"] >= 16)
    here = (data.atomics.operation == "add-result") & (data.atomics.form == "batch")
    assert data.atomics.cycles[here].tolist() == table["cycles_median"][batch].tolist()
    assert data.simulated
    assert not is_measured(quiet)
    assert data.about["simulated_truth"]["atomic.add.latency_cycles"] == known.number(
        "atomic.add.latency_cycles"
    )


def test_a_packed_table_is_the_same_data_set(quiet: Path, tmp_path: Path) -> None:
    for file in quiet.iterdir():
        packed = file.suffix == ".csv"
        content = file.read_bytes()
        (tmp_path / (file.name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)
    first, again = read_set(quiet), read_set(tmp_path)
    assert first.digest == again.digest
    assert first.atomics.cycles.tolist() == again.atomics.cycles.tolist()
    assert len(again.shared) == len(first.shared) > 0
    whole = (tmp_path / "latency.csv.gz").read_bytes()
    for content, said in ((b"no archive", "lacks a column"), (whole[:-9], "truncated or damaged gzip")):
        (tmp_path / "latency.csv.gz").write_bytes(content)
        with pytest.raises(SmlabError, match=f"latency.csv.gz: {said}"):
            read_set(tmp_path)


def _broken(folder: Path, quiet: Path, old: str, new: str) -> Path:
    for file in quiet.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    path = folder / "shared-atomics.csv"
    path.write_text(path.read_text().replace(old, new, 1))
    return folder


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cas_warps,", "cas,", "lacks a column .got 'cas_warps'"),
        ("none,batch,1,0", "none,batch,one,0", "row 2, warps: is not a number of 0 or more .got 'one'"),
        ("add-result,batch,1,0,1,1,1,1,1,0,5,0,", "add-result,batch,1,0,1,1,1,1,1,0,5,0,0,0,0,0,0\n#", "row"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, quiet: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(SmlabError, match=message):
        read_set(_broken(tmp_path, quiet, old, new))


def test_another_gpu_or_no_data_set_is_refused(quiet: Path, tmp_path: Path) -> None:
    with pytest.raises(SmlabError, match="compute_capability: is not that of v100 .got '8.0'; expected 7.0"):
        calibrate(quiet, "v100")
    with pytest.raises(
        SmlabError, match=r"shared-atomics.json: there is no such file .*; a data set is a folder"
    ):
        calibrate(tmp_path, "v100")
