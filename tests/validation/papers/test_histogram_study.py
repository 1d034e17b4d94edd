"""Running the case study: truth and estimates of a point, results kept and used again, what is judged."""

import dataclasses
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from smlab.commands.utilization.rows import AlternativeTables, TablePair, estimate_rows
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.profiles import atomic_quantities, read_profile
from smlab.sim import Record, simulate
from smlab.sim.counters import counter_table
from smlab.sim.workloads.histogram import CountingOptions, histogram_of_image
from smlab.validation.checks import Plan, case
from smlab.validation.papers.histogram import study
from smlab.validation.papers.histogram.facts import MUST_HOLD, Judge, facts, on_random_bytes, shape
from smlab.validation.papers.histogram.files import document, figures, write_case
from smlab.validation.papers.histogram.images import PAPERS, image
from smlab.validation.papers.histogram.study import (
    POINTS,
    SIZES,
    THREADS,
    CasePoint,
    Spec,
    errors,
    grid,
    observe,
    parts,
    run_point,
    run_study,
    with_speedups,
)
from smlab.validation.report import Report
from smlab.validation.service_tables import fetch_add_tables
from smlab.validation.work.store import Store


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    return load_gpu("a6000").with_values({"gpu.sms": 2}, source="test")


def specs(pixels: tuple[int, ...] = (64, 900)) -> list[Spec]:
    return [
        Spec(op, name, size, threads, variant)
        for op in ("add", "popc-inc")
        for name in ("solid", "uniform")
        for size in pixels
        for threads in (32, 256)
        for variant in ("original", "reordered")
    ]


@pytest.fixture(scope="module")
def points(gpu: Gpu) -> list[CasePoint]:
    return run_study(gpu, specs())


def test_the_papers_grid_is_whole() -> None:
    assert SIZES[0] == 32
    assert SIZES[-1] == 4 * 2**20
    for name, ops in (("titan-v", 1), ("a6000", 2)):
        papers = [s for s in grid(load_gpu(name)) if s.image in PAPERS]
        assert len(papers) == len(set(papers)) == len(SIZES) * len(THREADS) * 2 * 2 * ops


def test_a_point_tells_the_truth_and_estimates_as_the_utilization_command_does(
    gpu: Gpu, tmp_path: Path
) -> None:
    spec = Spec("add", "uniform", 900, 64, "original")
    kernel = histogram_of_image(gpu, image("uniform", 900), CountingOptions(threads=64))
    result = simulate(kernel, gpu, keep=Record.ATOMICS)
    point = observe(gpu, spec, result, fetch_add_tables(gpu))
    busy = [s.atomic_busy_cycles for s in result.sms]
    assert point.utilization == sum(busy) / (2 * result.cycles)
    assert point.e_mean == result.jobs.passes.mean()
    assert point.lanes_mean == result.jobs.lanes.mean()
    counter_table(result).write_csv(tmp_path / "c.csv")
    quantities = atomic_quantities(read_profile(tmp_path / "c.csv", gpu=gpu), gpu)
    pair = TablePair(fetch_add_tables(gpu).looped, fetch_add_tables(gpu).batch)
    rows = estimate_rows(quantities, (AlternativeTables("as described", 1.0, pair),), gpu)
    time_of_all = 2 * result.cycles
    closed = sum(r.utilization * r.elapsed_cycles for r in rows) / time_of_all
    published = sum(r.utilization_occupancy * r.elapsed_cycles for r in rows) / time_of_all
    assert point.utilization_closed == pytest.approx(closed, rel=1e-12)
    assert point.utilization_occupancy == pytest.approx(published, rel=1e-12)


def test_tables_without_compare_and_swap_are_a_slice_of_the_full_ones(gpu: Gpu) -> None:
    from smlab.sim.service_table import service_table

    few = service_table(gpu, form="looped", jobs=[1, 7], lanes=[1, 32])
    own = fetch_add_tables(gpu).looped
    assert np.array_equal(few.sel(c=0).values, own.data.sel(n=[1, 7], e=[1, 32], c=0).values)


def test_e_is_counted_as_passes_and_as_lanes(points: list[CasePoint]) -> None:
    of = {p.spec: p for p in points}
    assert of[Spec("add", "solid", 64, 32, "original")].e_mean == 32
    assert of[Spec("popc-inc", "solid", 64, 32, "original")].e_mean == 1
    assert of[Spec("popc-inc", "solid", 64, 32, "reordered")].e_mean == 4  # four words on one bank
    assert of[Spec("add", "solid", 64, 32, "original")].lanes_mean == 32
    uneven = of[Spec("add", "uniform", 900, 32, "original")]
    assert 900 / 32 < uneven.jobs / 4 < 900 / 32 + 1
    assert uneven.lanes_mean == 4 * 900 / uneven.jobs


def test_speedups_compare_with_the_original_of_the_same_launch(points: list[CasePoint]) -> None:
    of = {p.spec: p for p in points}
    for p in points:
        original = of[dataclasses.replace(p.spec, variant="original")]
        assert p.speedup == original.cycles / p.cycles
    alone = [dataclasses.replace(p, speedup=float("nan")) for p in points if p.variant == "reordered"]
    assert all(np.isnan(p.speedup) for p in with_speedups(alone))


def test_an_interrupted_run_goes_on_to_the_same_results(
    gpu: Gpu, points: list[CasePoint], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run_study(gpu, specs(), folder=tmp_path)
    assert whole == points
    with sqlite3.connect(tmp_path / POINTS) as plain:
        plain.execute("DELETE FROM results WHERE key NOT IN (SELECT key FROM results LIMIT 5)")
    plain.close()
    asked: list[Spec] = []

    def counted(gpu: Gpu, spec: Spec, seed: int) -> CasePoint:
        asked.append(spec)
        return run_point(gpu, spec, seed)

    monkeypatch.setattr(study, "run_point", counted)
    assert run_study(gpu, specs(), folder=tmp_path, resume=True) == points
    assert len(asked) == len(points) - 5  # five were left
    assert run_study(gpu, specs(), folder=tmp_path, resume=True) == points
    assert len(asked) == len(points) - 5


def test_results_of_something_else_are_not_resumed(gpu: Gpu, tmp_path: Path) -> None:
    few = specs((64,))[:2]
    run_study(gpu, few, folder=tmp_path)
    other = gpu.with_values({"atomic.add.latency_cycles": 25}, source="test")
    with pytest.raises(SmlabError, match="another GPU description"):
        run_study(other, few, folder=tmp_path, resume=True)
    with pytest.raises(SmlabError, match="seed"):
        run_study(gpu, few, folder=tmp_path, resume=True, seed=1)
    with sqlite3.connect(tmp_path / POINTS) as plain:
        keys = [key for (key,) in plain.execute("SELECT key FROM results")]
    plain.close()
    with Store(tmp_path / POINTS) as store:
        for entry in store.get(keys).values():
            store.add([dataclasses.replace(entry, result={**entry.result, "unknown": 1})])
    with pytest.raises(SmlabError, match="not points of this study"):
        run_study(gpu, few, folder=tmp_path, resume=True)


RUNNER = """
import sys
from pathlib import Path
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.papers.histogram.study import Spec
from smlab.validation.papers.histogram.study import run_study
gpu = load_gpu("titan-v").with_values({"gpu.sms": 2}, source="test")
specs = [Spec("add", "uniform", 32 * (k + 1), 32, "original") for k in range(80)]
run_study(gpu, specs, folder=Path(sys.argv[1]), resume="--resume" in sys.argv)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)])
def test_a_killed_run_loses_nothing_that_was_done(
    how: signal.Signals, tmp_path: Path, repository: Path
) -> None:
    command = [sys.executable, "-c", RUNNER, str(tmp_path / "killed")]
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    process = subprocess.Popen(command, cwd=repository, env=environment, stderr=subprocess.DEVNULL)
    file = tmp_path / "killed" / POINTS
    deadline = time.monotonic() + 120
    while len(stored(file)) < 5:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(how)
    process.wait()
    before = stored(file)
    assert 5 <= len(before) < 80
    subprocess.run([*command, "--resume"], cwd=repository, env=environment, check=True)
    after = stored(file)
    assert len(after) == 80
    assert before.items() <= after.items()
    assert {runs for _, runs in after.values()} == {1}


def stored(file: Path) -> dict[bytes, tuple[str, int]]:
    """Result and number of runs of each stored point; none before there is a store."""
    if not file.is_file():
        return {}
    plain = sqlite3.connect(file, timeout=30)
    try:
        rows = plain.execute("SELECT key, result, runs FROM results")
        return {key: (result, runs) for key, result, runs in rows}
    except sqlite3.OperationalError:  # not a table yet
        return {}
    finally:
        plain.close()


def test_facts_of_points(points: list[CasePoint]) -> None:
    found = facts({"a6000": points})
    assert found["a6000.exact-within-100"].verdict == "holds"
    assert found["a6000.same-jobs"].verdict == "holds"
    assert found["e-solid"].verdict == "holds"
    assert found["e-random-lanes"].verdict == "does not hold"
    assert "a6000.reorder-gain-solid-coloured" not in found  # no such points
    everything = {name.split(".", 1)[-1] for name in facts({"a6000": points})}
    assert set(MUST_HOLD) <= everything
    assert facts({}).keys() == {name for name in found if "." not in name}


def test_facts_turn_with_the_points(points: list[CasePoint]) -> None:
    full = [dataclasses.replace(p, utilization=0.99 if p.image == "solid" else 0.5) for p in points]
    assert facts({"g": full})["g.solid-saturates"].verdict == "holds"
    assert facts({"g": full})["g.random-does-not-saturate"].verdict == "holds"
    assert shape(facts({"g": full}))["g.solid-saturates"]
    half = [dataclasses.replace(p, utilization=0.5) if p.variant == "reordered" else p for p in full]
    assert facts({"g": half})["g.solid-saturates"].verdict == "holds in part"
    assert facts({"g": half})["g.solid-saturates"].share == 0.5
    assert not shape(facts({"g": half}))["g.solid-saturates"]
    assert not shape(facts({"titan-v": half}))["titan-v.solid-saturates"]
    assert shape(facts({"a6000": half}))["a6000.solid-saturates"]  # of which the paper says less
    none = [dataclasses.replace(p, utilization=0.5) for p in points]
    assert not shape(facts({"a6000": none}))["a6000.solid-saturates"]
    over = [dataclasses.replace(p, utilization_occupancy=1.2) for p in full]
    assert facts({"g": over})["g.occupancy-over-100"].verdict == "holds"
    assert shape(facts({"titan-v": over}))["titan-v.occupancy-over-100"]
    assert "a6000.occupancy-over-100" not in shape(facts({"a6000": over}))
    under = [dataclasses.replace(p, utilization_occupancy=0.9) for p in full]
    assert facts({"g": under})["g.occupancy-over-100"].verdict == "does not hold"
    slower = [dataclasses.replace(p, speedup=0.9) for p in full]
    assert facts({"g": slower})["g.reorder-slows-random"].verdict == "holds"
    assert facts({"g": slower})["g.reorder-slows-popc"].verdict == "holds"


def test_judging_is_by_the_share_of_points_in_the_range() -> None:
    judge = Judge("x.")
    for values, verdict in (([0.9, 1.1], "holds"), ([1, 9], "holds in part"), ([8, 9], "does not hold")):
        judge.say("same-n", values)  # 0.9 to 1.1
        assert judge.found["x.same-n"].verdict == verdict
    judge.say("popc-near-50", [])
    assert "x.popc-near-50" not in judge.found
    judge.say("solid-saturates", [float("nan")])  # at least 95
    assert judge.found["x.solid-saturates"].verdict == "does not hold"


def test_the_readings_of_e_are_what_bytes_in_banks_give() -> None:
    found = on_random_bytes()
    assert found["lanes"] == 32
    assert found["passes"] == pytest.approx(3.53, abs=0.03)
    assert found["conflicts"] == found["passes"] - 1
    assert 1 < found["one-word"] < found["words"] <= found["greater"] < found["passes"]


def test_files_hold_what_was_run(gpu: Gpu, points: list[CasePoint], tmp_path: Path) -> None:
    found = facts({gpu.name: points})
    whole = document(gpu.name, points, found, {"seed": 0})
    drawn = figures(points)
    assert {d.name for d in drawn} == {"utilization-a6000-add", "utilization-a6000-popc-inc", "speedup-a6000"}
    for folder in (tmp_path / "a", tmp_path / "b"):
        write_case(folder, whole, points, [d for d in figures(points) if "add" not in d.name])
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert [(tmp_path / "a" / n).read_bytes() for n in names] == [
        (tmp_path / "b" / n).read_bytes() for n in names
    ]
    lines = (tmp_path / "a" / "points.csv").read_text().splitlines()
    assert len(lines) == 1 + len(points)
    read = json.loads((tmp_path / "a" / "case.json").read_text())
    keys = (
        "pixels threads image variant op cycles utilization utilization_occupancy utilization_closed "
        "e_mean speedup"
    )
    assert set(keys.split()) <= read["points"][0].keys()
    assert {"utilization-a6000-popc-inc.png", "speedup-a6000.svg", "speedup-a6000.csv"} <= set(names)


def test_errors_are_those_of_the_points(points: list[CasePoint]) -> None:
    exact = [dataclasses.replace(p, utilization_closed=p.utilization) for p in points]
    assert errors(exact)["closed network"].mean_points == 0
    assert sum(len(own) for name, own in parts(points).items() if name.startswith("exact")) == len(points)


def test_waits_for_memory_take_over(points: list[CasePoint]) -> None:
    """Beyond 2^20 pixels, by the shares of the warps' time alone."""
    p = next(p for p in points if (p.image, p.variant, p.op) == ("solid", "original", "add"))
    large = dataclasses.replace(p, pixels=2**22, threads=1024, memory_wait=0.5, atomic_wait=0.3)
    assert facts({"g": [large]})["g.shift-to-memory"].value == pytest.approx(20)
    assert facts({"g": [large]})["g.shift-to-memory"].verdict == "holds"
    less = dataclasses.replace(large, atomic_wait=0.6)
    assert facts({"g": [less]})["g.shift-to-memory"].verdict == "does not hold"
    assert "g.shift-to-memory" not in facts({"g": [dataclasses.replace(large, pixels=2**20)]})


def test_the_section_of_the_report(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        case, "specs_of", lambda quick: {"titan-v": specs((900,))[:8], "a6000": specs((900,))}
    )
    monkeypatch.setattr(
        case, "load_gpu", lambda name: load_gpu(name).with_values({"gpu.sms": 2}, source="test")
    )
    quick = Plan(gpu=gpu, quick=True, seed=0, processes=1)
    plan = Plan(gpu=gpu, quick=False, seed=0, processes=1)
    assert not any("rounds" in task.key for task in case.tasks(quick))
    results = {task.key: task.function(*task.arguments) for task in case.tasks(plan)}
    page = Report("t")
    case.report(page, plan, results)
    assert page.ok  # what a reading of the atomic unit does not show is a finding and sets no status
    assert not page.checks
    seen = {f.model: f for f in page.findings if "outside their range" in f.question}
    assert {"simulator, as described", "simulator, if rounds"} <= seen.keys()
    assert seen["simulator, as described"].comparison.error > 0  # nothing saturates with 900 pixels
    assert {"case-errors", "case-facts"} <= page.tables().keys()
    assert "case-speedup-titan-v" in page.drawings()
    # What hangs on the atomic unit differs between its readings, what hangs on the image does not.
    table = page.tables()["case-facts"]
    keys = [column.key for column in table.columns]
    rows = {str(row[0]): dict(zip(keys, row, strict=True)) for row in table.rows}
    assert rows["e-solid"]["seen"] == rows["e-solid"]["seen_if_rounds"]
    peak = rows["titan-v.random-peak"]
    assert peak["seen"] != peak["seen_if_rounds"]
    under = {p.spec: p for p in case.points_of(plan, results)["rounds"]["titan-v"]}
    asked = load_gpu("titan-v").variants()[1][1].with_values({"gpu.sms": 2}, source="test")
    spec = specs((900,))[0]
    assert under[spec].utilization == run_point(asked, spec).utilization
