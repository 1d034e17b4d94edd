"""Running a study: the same table whatever runs it, nothing run twice, nothing dropped."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.validation.experiments.design.study import Study
from smlab.validation.experiments.run import points as evaluate
from smlab.validation.experiments.run import running as run
from smlab.validation.experiments.run.export import columns, read_points
from smlab.validation.experiments.run.outcome import Interrupted, StudyOutcome
from smlab.validation.experiments.run.points import Point, PointResult
from smlab.validation.experiments.run.running import run_whatif
from smlab.validation.experiments.run.stopping import Counts, Replications
from smlab.validation.experiments.systems.formulas import FORMULAS, closed_queue, mm1_run
from smlab.validation.method.statistics import binomial_interval, mean_interval

Make = Callable[..., Study]
ANY_POINT = Point(0, 0, (), {}, 0, b"")


def done(study: Study, folder: Path, **options: Any) -> StudyOutcome:
    return run_whatif(study, folder, **{"jobs": 1, "effects": False, **options})


def runs_of(folder: Path) -> list[int]:
    """How often each stored point was run."""
    with sqlite3.connect(folder / "points.sqlite") as plain:
        found = [row[0] for row in plain.execute("SELECT runs FROM results")]
    plain.close()
    return found


def test_the_table_has_every_case_and_replication_in_order(queue: Make, tmp_path: Path) -> None:
    study = queue()
    outcome = done(study, tmp_path / "out")
    assert (outcome.points, outcome.done, outcome.failed, outcome.ran, outcome.cases) == (28, 28, 0, 28, 7)
    frame = read_points(tmp_path / "out")
    assert tuple(frame.columns) == columns(study)
    assert frame["case"].tolist() == [case for case in range(7) for _ in range(4)]
    assert frame["replication"].tolist() == [0, 1, 2, 3] * 7
    for row in frame.to_dict("records"):
        known = mm1_run(
            arrival_rate=row["arrival_rate"],
            service_rate=row["service_rate"],
            customers=200,
            seed=row["seed"],
        )
        assert (row["wait"], row["response_time"]) == (known["wait"], known["response_time"])
    assert frame["error"].tolist() == [""] * 28


def test_csv_and_parquet_hold_the_same(atomics: Make, tmp_path: Path) -> None:
    study = atomics(
        ("gpu.atomic.queue_entries = [2, 8]", 'gpu.sm.scheduler_policy = ["gto", "lrr"]\nreturns = [true]')
    )
    done(study, tmp_path / "out")
    csv, parquet = (read_points(tmp_path / "out" / f"points.{kind}") for kind in ("csv", "parquet"))
    pd.testing.assert_frame_equal(csv, parquet, check_dtype=False, check_exact=True)
    assert parquet["returns"].tolist()[1:] == [True] * 6


@pytest.mark.parametrize("system", ["queue", "atomics"])
def test_workers_make_no_difference(system: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    study = request.getfixturevalue(system)()
    tables = []
    for jobs in (1, 2):
        done(study, tmp_path / str(jobs), jobs=jobs)
        tables.append((tmp_path / str(jobs) / "points.csv").read_bytes())
    assert tables[0] == tables[1]


def test_speedup_is_against_the_base_of_the_same_replication(atomics: Make, tmp_path: Path) -> None:
    study = atomics(('"utilization", "speedup"', '"seconds", "speedup"'))
    done(study, tmp_path / "out")
    frame = read_points(tmp_path / "out")
    base = frame["seconds"][frame["case"] == 0].item()
    np.testing.assert_array_equal(frame["speedup"], base / frame["seconds"])
    assert frame["speedup"][0] == 1


def test_what_is_stored_is_not_run_again(queue: Make, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done(queue(), out)
    table = (out / "points.csv").read_bytes()
    with pytest.raises(SmlabError, match="holds an earlier run: continue it with --resume"):
        done(queue(), out)
    again = done(queue(), out, resume=True)
    assert (again.ran, again.points, again.notes) == (0, 28, ())
    assert (out / "points.csv").read_bytes() == table
    # More levels and replications add to what is there.
    more = done(
        queue(("[0.3, 0.6, 0.8]", "[0.2, 0.3, 0.6, 0.8]"), ("replications = 4", "replications = 6")),
        out,
        resume=True,
    )
    assert (more.points, more.ran) == (54, 54 - 28)
    assert set(runs_of(out)) == {1}


def test_cases_that_are_the_same_are_one_point(queue: Make, tmp_path: Path) -> None:
    outcome = done(queue(("[0.3, 0.6, 0.8]", "[0.3, 0.5]"), ("[1, 1.25]", "[1, 1.1]")), tmp_path / "out")
    assert (outcome.points, outcome.ran) == (20, 16)  # the base is in the grid
    assert len(read_points(tmp_path / "out")) == 20


def test_other_code_means_other_points(queue: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    done(queue(), out)
    monkeypatch.setattr("smlab.validation.experiments.systems.formulas.digest_of", lambda *_: "changed")
    evaluate._KEPT.clear()
    again = done(queue(), out, resume=True)
    assert again.ran == 28
    assert "28 of 28 points" in again.notes[0]
    assert "another version of the code" in again.notes[0]
    evaluate._KEPT.clear()


def test_a_worker_with_other_code_is_refused(
    queue: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smlab.validation.experiments.systems.formulas.digest_of", lambda *_: "changed")
    with pytest.raises(SmlabError, match="another version of smlab"):
        done(queue(), tmp_path / "out", jobs=2)


def test_failed_points_are_listed_with_the_reason(queue: Make, tmp_path: Path) -> None:
    study = queue(
        ("[0.3, 0.6, 0.8]", "[0.3, 1.1]")
    )  # 1.1 is too much for a server of rate 1, but not of 1.25
    outcome = done(study, tmp_path / "out")
    assert (outcome.failed, outcome.done) == (4, 20)
    assert [(f.case, f.replication) for f in outcome.failures] == [(3, r) for r in range(4)]
    assert outcome.failures[0].settings == {"arrival_rate": 1.1, "service_rate": 1.0}
    frame = read_points(tmp_path / "out")
    failed = frame["case"] == 3
    assert all("no steady state" in text for text in frame["error"][failed])
    assert frame["wait"][failed].isna().all()
    assert frame["wait"][~failed].notna().all()
    assert done(study, tmp_path / "out", resume=True).ran == 0


def test_a_point_that_runs_too_long_fails(atomics: Make, tmp_path: Path) -> None:
    slow = atomics(("set.iterations = 3", "max_cycles = 300\nset.warps = 1"), ("[1, 2, 8]", "[1, 32]"))
    outcome = done(slow, tmp_path / "out")
    assert outcome.failed == 2
    assert "not finished after the allowed cycles" in outcome.failures[0].error


def test_nothing_is_run_without_its_base(queue: Make, atomics: Make, tmp_path: Path) -> None:
    study = atomics(("set.iterations = 3", "max_cycles = 10"))
    for resume in (False, True):
        with pytest.raises(SmlabError, match="base: cannot be evaluated: .*allowed cycles"):
            done(study, tmp_path / "out", resume=resume)


def nothing(*, x: float = 1.0) -> dict[str, float]:
    return {"y": float("nan") if x > 1 else x}


def test_what_is_not_a_number_is_a_failure(
    queue: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: Mapping[str, Callable[..., dict[str, float]]] = {**FORMULAS, "nothing": nothing}
    for module in ("formulas", "base"):
        monkeypatch.setattr(f"smlab.validation.experiments.systems.{module}.FORMULAS", changed)
    study = queue(
        ('model = "mm1-run"\nset.customers = 200', 'model = "nothing"'),
        ('"wait", "response_time"', '"y"'),
        ("arrival_rate = [0.3, 0.6, 0.8]", "x = [1, 2]"),
        ("service_rate = { values = [1, 1.25], base = 1.1 }", ""),
    )
    outcome = done(study, tmp_path / "out")
    assert [f.error for f in outcome.failures] == ["y is not a finite number: nan"]


def test_an_interrupt_keeps_what_was_done(queue: Make, tmp_path: Path) -> None:
    def stop(done_: int, total: int, ran: int) -> None:
        if ran >= 5:
            raise KeyboardInterrupt

    out = tmp_path / "out"
    with pytest.raises(Interrupted) as stopped:
        done(queue(), out, progress=stop)
    assert stopped.value.points == 28
    kept = len(runs_of(out))
    assert kept == stopped.value.done >= 5
    rest = done(queue(), out, resume=True)
    assert rest.ran == 28 - kept
    done(queue(), tmp_path / "whole")
    assert (out / "points.csv").read_bytes() == (tmp_path / "whole" / "points.csv").read_bytes()


def test_progress_ends_with_all_points(queue: Make, tmp_path: Path) -> None:
    told: list[tuple[int, int, int]] = []
    done(queue(), tmp_path / "out", progress=lambda *numbers: told.append(numbers))
    assert told[-1] == (28, 28, 28)
    assert told == sorted(told)


def test_files_that_cannot_be_written_are_told(queue: Make, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "points.csv").mkdir(parents=True)
    with pytest.raises(SmlabError, match=r"points.csv: cannot be written: Is a directory"):
        done(queue(), out)
    (out / "points.csv").rmdir()
    assert done(queue(), out, resume=True).ran == 0


STOP = '\n[stop]\nresponse = "wait"\nof = "OF"\nWIDTH\nmost_replications = 400\n'


def stopping(of: str, width: str) -> tuple[str, str]:
    return "seed = 7", "seed = 7" + STOP.replace("OF", of).replace("WIDTH", width)


def test_replications_go_on_until_the_interval_is_tight(queue: Make, tmp_path: Path) -> None:
    study = queue(stopping("mean", "relative_half_width = 0.1"), ("replications = 4", "replications = 10"))
    outcome = done(study, tmp_path / "out")
    assert outcome.rounds > 1
    assert outcome.loose == 0
    frame = read_points(tmp_path / "out")
    counts = frame.groupby("case").size()
    for case in range(1, 7):
        interval = mean_interval(frame["wait"][frame["case"] == case], study.level)
        assert interval.half_width <= 0.1 * interval.estimate
    assert counts.nunique() > 1  # heavier loads need more
    assert counts[0] == counts.max()  # the base is there for every pair
    assert frame["replication"].tolist() == [r for count in counts for r in range(count)]


def test_pairs_need_fewer_replications(queue: Make, tmp_path: Path) -> None:
    points = {}
    for name, common in (("paired", "true"), ("apart", "false")):
        design = f"seed = 7\ncommon_random_numbers = {common}"
        study = queue(
            stopping("difference", "half_width = 0.1"),
            ("seed = 7", design),
            ("[0.3, 0.6, 0.8]", "[0.45, 0.55]"),
            ("replications = 4", "replications = 10"),
        )
        points[name] = done(study, tmp_path / name).points
    assert points["paired"] < points["apart"]


def test_what_cannot_get_tight_is_told(queue: Make, tmp_path: Path) -> None:
    study = queue(
        stopping("ratio", "half_width = 1e-6"), ("most_replications = 400", "most_replications = 8")
    )
    outcome = done(study, tmp_path / "out")
    assert (outcome.loose, outcome.points) == (6, 56)


def test_few_replications_to_begin_with_are_told(queue: Make) -> None:
    assert "cover less than they say" in queue(stopping("mean", "half_width = 1")).notes[0]
    assert queue(stopping("mean", "half_width = 1"), ("replications = 4", "replications = 10")).notes == ()


def test_intervals_cover_when_stopping(queue: Make) -> None:
    # Normal responses with mean 0: how many of the intervals at the moment of stopping hold it.
    study = queue(stopping("mean", "half_width = 0.4"), ("replications = 4", "replications = 10"))
    covered = []
    for trial in range(80):
        responses = np.random.default_rng(trial).normal(size=(study.design.size + 1, 400))

        def fetch(counts: Counts, drawn: np.ndarray = responses) -> Iterator[tuple[Point, PointResult]]:
            for case, first, end in counts:
                for replication in range(first, end):
                    yield ANY_POINT, PointResult((drawn[case, replication], 0.0), "")

        plan = Replications(study)
        while plan.next_round(fetch):
            pass
        assert plan.loose == 0
        for case in range(1, len(plan.counts)):
            interval = mean_interval(responses[case, : plan.counts[case]], study.level)
            assert interval.half_width <= 0.4
            covered.append(interval.contains(0.0))
    share = binomial_interval(sum(covered), len(covered), 0.999)
    assert share.high > 0.92  # it is 93 to 95 %: see `smlab.validation.experiments.run.stopping`
    assert share.low < 0.96


def test_stopping_decides_the_same_after_an_interrupt(queue: Make, tmp_path: Path) -> None:
    study = queue(stopping("mean", "relative_half_width = 0.15"), ("replications = 4", "replications = 8"))
    whole = done(study, tmp_path / "whole")

    def stop(done_: int, total: int, ran: int) -> None:
        if ran >= whole.points // 2:
            raise KeyboardInterrupt

    out = tmp_path / "out"
    with pytest.raises(Interrupted):
        done(study, out, progress=stop)
    done(study, out, resume=True, jobs=2)
    assert (out / "points.csv").read_bytes() == (tmp_path / "whole" / "points.csv").read_bytes()
    assert set(runs_of(out)) == {1}


def test_chunks_are_small_when_points_are_long(
    queue: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    whole = evaluate.evaluate_chunk

    def watched(system: bytes, work: evaluate.Work) -> evaluate.Chunk:
        sizes.append(len(work))
        return whole(system, work)

    monkeypatch.setattr("smlab.validation.experiments.run.running.evaluate_chunk", watched)
    monkeypatch.setattr(run, "CHUNK_S", 0.0)
    done(queue(), tmp_path / "out")
    assert sizes == [1] * 28


def test_the_closed_queue_is_the_machine_repairman() -> None:
    # p(j) ~ N! / (N - j)! (S / Z)^j, Kleinrock I, Section 3.8.
    customers, think, service = 5, 20.0, 4.0
    weights = np.array(
        [
            np.prod(np.arange(customers, customers - j, -1)) * (service / think) ** j
            for j in range(customers + 1)
        ]
    )
    p = weights / weights.sum()
    found = closed_queue(warps=customers, think_cycles=think, service_cycles=service)
    assert found["utilization"] == pytest.approx(1 - p[0])
    assert found["n_mean"] == pytest.approx(float(p @ np.arange(customers + 1)))


def test_the_simulated_queue_waits_as_long_as_theory_says() -> None:
    load = 0.5
    runs = [mm1_run(arrival_rate=load, customers=20_000, seed=s)["wait"] for s in range(40)]
    # Started empty, the mean wait of 20,000 customers is below the stationary one by far less than the
    # interval.
    assert mean_interval(runs, 0.9999).contains(load / (1 - load))
