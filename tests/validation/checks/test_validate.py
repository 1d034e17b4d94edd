"""The main job, as a user runs it."""

import contextlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from smlab.cli.main import run
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim.policies import POLICIES
from smlab.sim.simulate import DEFAULT_ENGINE
from smlab.validation.checks import Plan, Results, Task, queue_model, shares
from smlab.validation.checks import run as validating
from smlab.validation.checks.laws import check_runs
from smlab.validation.laws.closed_system import observe
from smlab.validation.report import Report
from smlab.validation.work.encoding import decode, encode


@pytest.fixture(scope="module")
def validated(tmp_path_factory: pytest.TempPathFactory, recorded: Any) -> tuple[Path, Any]:
    """The folder of a validation, and what was printed. Where the tests run in several processes, the second
    copies the folder of the first, and nothing is printed."""
    folder = tmp_path_factory.mktemp("validate") / "results"
    session = tmp_path_factory.getbasetemp()
    shared = (session.parent if "PYTEST_XDIST_WORKER" in os.environ else session) / "validated"
    with FileLock(f"{shared}.lock"):
        if shared.exists():
            shutil.copytree(shared, folder)
            return folder, None
        with recorded() as prints:
            assert run(["validate", "--quick", "--out", str(folder)]) == 0
        shutil.copytree(folder, shared)
    return folder, prints


@pytest.fixture(scope="module")
def output(validated: tuple[Path, Any]) -> Path:
    return validated[0]


def test_what_is_printed_fits_the_terminal_and_cuts_no_number(
    validated: tuple[Path, Any], recorded: Any
) -> None:
    folder, prints = validated
    if prints is None:
        with recorded() as prints:
            assert run(["validate", "--quick", "--out", str(folder), "--resume"]) == 0
    prints.check_every_width()


def test_it_writes_a_report_and_every_check_holds(output: Path) -> None:
    metrics = json.loads((output / "metrics.json").read_text())
    assert metrics["ok"] is True
    checks = {c["name"]: c for c in metrics["checks"]}
    assert {
        "hardware-v100-add",
        "hardware-a100-40-add",
        "hardware-a100-40-popc-inc",
        "calibration-reproduced",
        "fact-s-falls-with-n",
        "fact-s-rises-with-e",
        "fact-linear-in-c",
        "fact-tenfold-spread",
        "mva-closed-form",
        "mva-balanced",
        "simulation-against-mva",
        "interval-coverage",
        "laws",
    } <= set(checks)
    assert all(c["ok"] and c["verdict"] == "held" for c in checks.values())
    assert not {n for n in checks if not any(n.startswith(begin) for begin in validating.REASONS)}
    assert (output / "report.html").stat().st_size > 100_000
    for figure in ("hardware", "hardware-sensitivity", "service-time", "utilization-estimates", "mva"):
        assert (output / "figures" / f"{figure}.png").exists()
        assert (output / "figures" / f"{figure}.svg").exists()
        assert (output / "figures" / f"{figure}.csv").exists()


def test_findings_are_apart_from_checks_and_their_words_follow_from_the_paired_interval(output: Path) -> None:
    metrics = json.loads((output / "metrics.json").read_text())
    findings = metrics["findings"]
    assert {(f["question"], f["model"]) for f in findings} >= {
        ("Utilization, kernels of new families", "closed network"),
        ("Utilization, closed workloads", "Dong & Pai"),
        ("Time, v100 to a100-40", "smlab project"),
        ("Cycles of a shared atomic add", "simulator"),
    }
    for f in findings:
        assert f["error"] - f["baseline_error"] == pytest.approx(f["difference"], abs=1e-9)
        low, high = f["difference_low"], f["difference_high"]
        assert f["word"] == ("better" if high < 0 else "worse" if low > 0 else "no better")
        assert f["low"] <= f["error"] <= f["high"]
    assert {f["word"] for f in findings} == {"better", "no better", "worse"}
    campaign = {row["estimator"]: row["mean_points"] for row in metrics["tables"]["campaign-errors"]}
    closed = next(f for f in findings if (f["question"][-8:], f["model"]) == ("families", "closed network"))
    assert closed["error"] == pytest.approx(campaign["closed, looped table"])
    assert closed["baseline_error"] == pytest.approx(campaign["middle of floor and ceiling"])


def test_its_tables_have_the_agreed_error_columns(output: Path) -> None:
    tables = json.loads((output / "metrics.json").read_text())["tables"]
    agreed = {
        "n",
        "mape",
        "median_ape",
        "worst_ape",
        "bias",
        "spread",
        "kendall_tau",
        "within_5",
        "within_10",
        "within_25",
    }
    for row in (*tables["hardware-errors"], *tables["queue-length-errors"]):
        assert agreed | {"mape_low", "mape_high", "baseline_mape"} <= set(row)
    assert len(tables["constants"]) == len(load_gpu("v100").constants)


def test_the_report_says_of_each_number_where_it_comes_from(output: Path) -> None:
    page = (output / "report.html").read_text()
    for kind in ("simulated", "modelled", "published", "calibrated", "assumed", "spec"):
        assert kind in page


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two checks of 1 and 50 tasks in place of the real ones; the tasks that were run."""
    tasks_run: list[str] = []

    def count(key: str) -> tuple[str, float]:
        tasks_run.append(key)
        return key, len(key) / 3

    def counting(name: str, tasks: int) -> SimpleNamespace:
        def report(page: Report, plan: Plan, results: Results) -> None:
            whole = [results[f"{name}-{i}"] for i in range(tasks)]
            page.check(f"{name}-done", True, f"{whole}")

        made = [Task(f"{name}-{i}", count, (f"{name}-{i}",)) for i in range(tasks)]
        return SimpleNamespace(__name__=name, tasks=lambda plan: made, report=report)

    monkeypatch.setattr(validating, "CHECKS", (counting("short", 1), counting("long", 50)))
    return tasks_run


def stop_after(count: int) -> Callable[[int, int], None]:
    def stop(done: int, total: int) -> None:
        assert total == 51
        if done >= count:
            raise KeyboardInterrupt

    return stop


def test_an_interrupt_keeps_what_was_done(tmp_path: Path, ran: list[str]) -> None:
    found = validating.validate(load_gpu("v100"), quick=True, processes=1, progress=stop_after(1))
    assert found.interrupted
    checks = {c["name"]: c for c in found.report.as_json()["checks"]}
    assert checks["short-done"]["ok"] is True
    assert checks["long"]["ok"] is None
    assert "interrupted" in checks["long"]["summary"]
    found.report.write(tmp_path)
    assert (tmp_path / "report.html").exists()


def test_a_run_is_resumed_where_it_stopped_and_ends_the_same(tmp_path: Path, ran: list[str]) -> None:
    gpu = load_gpu("v100")
    for stop, resume in ((20, False), (35, True)):
        found = validating.validate(
            gpu, processes=1, folder=tmp_path, resume=resume, progress=stop_after(stop)
        )
        assert found.interrupted
    resumed = validating.validate(gpu, processes=1, folder=tmp_path, resume=True)
    assert len(ran) == len(set(ran)) == 51
    assert not resumed.interrupted
    assert resumed.report.as_json() == validating.validate(gpu, processes=1).report.as_json()
    ran.clear()
    validating.validate(gpu, processes=1, folder=tmp_path)
    assert len(ran) == 51, "without resume, all is computed anew"


def test_results_that_depend_on_something_else_are_not_resumed(
    tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = load_gpu("v100")
    validating.validate(gpu, processes=1, folder=tmp_path)
    constants = dict(gpu.constants)
    key = "atomic.add.latency_cycles"
    constants[key] = replace(constants[key], value=constants[key].value + 1)
    ran.clear()
    other: dict[str, dict[str, Any]] = {
        "gpu": {"gpu": replace(gpu, constants=constants)},
        "quick": {"quick": True},
        "seed": {"seed": 1},
    }
    for changed in other.values():
        with pytest.raises(SmlabError, match="made with another GPU description, profile, seed or version"):
            validating.validate(**{"gpu": gpu, "processes": 1, "folder": tmp_path, "resume": True} | changed)
    monkeypatch.setattr(validating, "digest_of", lambda *places, data: "another text")
    with pytest.raises(SmlabError, match="a run without --resume, or another --out"):
        validating.validate(gpu, processes=1, folder=tmp_path, resume=True)
    assert not ran


def test_every_result_of_the_real_checks_is_stored_and_comes_back_as_it_was(output: Path) -> None:
    with contextlib.closing(sqlite3.connect(output / validating.RESULTS)) as store:
        rows = store.execute("SELECT asked, result FROM results").fetchall()
    plan = Plan(load_gpu("v100"), True, 0, 2)
    tasks = {task.key for check in validating.CHECKS for task in check.tasks(plan)}
    assert {json.loads(asked)["task"] for asked, _ in rows} == tasks
    for asked, result in rows:
        assert json.dumps({"value": encode(decode(json.loads(result)["value"]))}) == result, asked


def test_parts_of_the_work_do_not_depend_on_the_processes() -> None:
    gpu = load_gpu("v100")
    first, second = (observe(gpu, 5, 9, DEFAULT_ENGINE) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert a.workload == b.workload
        assert (a.utilization, a.n_mean) == (b.utilization, b.n_mean)
        np.testing.assert_array_equal(a.counters.value, b.counters.value)
    assert sum(shares(2000, 8)) == 2000
    assert max(shares(10, 4)) - min(shares(10, 4)) <= 1


def test_the_plan_asks_for_enough() -> None:
    for quick in (True, False):
        plan = Plan(load_gpu("v100"), quick, 0, 2)
        drawn = [task for task in queue_model.tasks(plan) if task.function is queue_model.observe]
        workloads = sum(task.arguments[1] for task in drawn if task.key != "queue-baseline")
        assert workloads >= 200


def test_the_law_campaign_draws_what_it_is_asked_for_over_all_policies() -> None:
    campaign = check_runs(40, 3, DEFAULT_ENGINE)
    assert campaign.runs == 40
    assert not campaign.broken
    assert set(campaign.by_policy) == set(POLICIES)
    assert campaign.atomic_jobs > 0


def test_a_law_that_breaks_is_counted_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from smlab.sim.reference.warp import Warp

    sound = Warp.charge
    monkeypatch.setattr(
        Warp, "charge", lambda self, now, reason: sound(self, now + (self.index == 0), reason)
    )
    campaign = check_runs(10, 3, "simpy")
    assert campaign.broken["stall reasons add up to resident cycles"] > 0
    assert campaign.told
