"""``smlab whatif`` as people and scripts meet it."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from smlab.cli.main import run

STUDY = """
title = "Which waits are long?"
responses = ["wait"]

[base]
model = "mm1-run"
set.customers = 50

[factors]
arrival_rate = [0.3, 0.8]

[design]
kind = "one-at-a-time"
replications = 5
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "waits.toml"
    path.write_text(STUDY)
    return path


@pytest.fixture
def no_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing figures takes longer than these studies."""
    monkeypatch.setattr("smlab.validation.experiments.run.running._effects", lambda *_: None)


def document(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    assert run(["whatif", *arguments, "--jobs", "1", "--json"]) == status
    parsed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return parsed


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on standard error of a command that must exit with 2 and print nothing else."""
    assert run(["whatif", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


def test_the_agreed_keys(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    found = document(capsys, str(study), "--out", str(out))
    assert (found["points"], found["done"], found["failed"], found["ran"]) == (15, 15, 0, 15)
    assert set(found["effects"]["responses"]) == {"wait"}
    assert {path.name for path in out.iterdir()} >= {
        "points.csv",
        "points.parquet",
        "points.sqlite",
        "report.html",
    }
    again = document(capsys, str(study), "--out", str(out), "--resume")
    assert (again["points"], again["ran"], again["effects"]) == (15, 0, found["effects"])


def test_the_effects_are_shown(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["whatif", str(study), "--out", str(tmp_path / "out"), "--jobs", "1"]) == 0
    printed = capsys.readouterr()
    assert "Which waits are long?" in printed.out
    assert "0.8 for 0.5" in printed.out
    assert "15 points (3 cases, the base among them), 15 run now" in printed.out
    assert "report.html" in printed.err


@pytest.mark.usefixtures("no_analysis")
def test_failed_points_make_the_status_1(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {
        "arrival_rate = [0.3, 0.8]": "arrival_rate = { range = [0.3, 1.5] }\nservice_rate = [1, 2]",
        '"one-at-a-time"': '"random"',
        "replications = 5": "samples = 12",
    }
    text = STUDY
    for old, new in changes.items():
        text = text.replace(old, new)
    study.write_text(text.replace("service_rate = [1, 2]", ""))
    assert "factors.arrival_rate: impossible at 1.5" in refusal(capsys, str(study))
    study.write_text(text)  # but a server of rate 2 can do it
    found = document(capsys, str(study), "--out", str(tmp_path / "out"), status=1)
    assert 0 < found["failed"] < found["points"] == 13
    assert found["done"] == 13
    failure = found["failures"][0]
    assert "no steady state" in failure["error"]
    assert failure["settings"]["arrival_rate"] > failure["settings"]["service_rate"] == 1
    assert run(["whatif", str(study), "--out", str(tmp_path / "out"), "--resume", "--jobs", "1"]) == 1
    assert f"{found['failed']} points failed" in capsys.readouterr().err


@pytest.mark.usefixtures("no_analysis")
def test_an_earlier_run_is_never_overwritten(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    document(capsys, str(study), "--out", str(out))
    before = (out / "points.sqlite").read_bytes()
    assert "holds an earlier run: continue it with --resume" in refusal(capsys, str(study), "--out", str(out))
    assert (out / "points.sqlite").read_bytes() == before


@pytest.mark.usefixtures("no_analysis")
def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "example.toml"
    assert run(["whatif", str(path), "--example"]) == 0
    assert f"smlab whatif {path}" in capsys.readouterr().err
    assert run(["whatif", "--example"]) == 0
    assert capsys.readouterr().out == path.read_text()
    assert "is there already" in refusal(capsys, str(path), "--example")
    found = document(capsys, str(path), "--out", str(tmp_path / "out"))
    assert (found["failed"], found["points"]) == (0, 9)


def test_the_example_answers_its_own_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half the latency, half the interval, twice the queue: told first, and in one voice."""
    path, out = tmp_path / "example.toml", tmp_path / "out"
    run(["whatif", str(path), "--example"])
    capsys.readouterr()
    found = document(capsys, str(path), "--out", str(out))["effects"]["responses"]
    ratios = {
        response: {
            (e["factor"], e["level"]): e["ratio"]["estimate"] for e in found[response]["levels"] if e["ratio"]
        }
        for response in ("cycles", "speedup")
    }
    asked = {("latency", 0.5), ("interval", 0.5), ("queue", 2)}
    assert ratios["cycles"].keys() == ratios["speedup"].keys() == asked
    for change, cycles in ratios["cycles"].items():
        assert cycles * ratios["speedup"][change] == pytest.approx(1, rel=1e-12)
    assert ratios["speedup"]["interval", 0.5] > 1.1
    assert ratios["speedup"]["queue", 2] >= 0.99
    assert run(["whatif", str(path), "--out", str(out), "--resume"]) == 0
    told = capsys.readouterr().out.splitlines()
    first = next(i for i, line in enumerate(told) if line.startswith("speedup, "))
    assert first <= 2
    assert told[first].startswith("speedup, interval 0.5 for 1: × 1.")
    assert {line.split()[1] for line in told[first : first + 3]} == {"latency", "interval", "queue"}
    report = (out / "report.html").read_text()
    headline, section, cycles = (
        report.index(x) for x in ("speedup, interval 0.5", 'id="answer"', 'id="cycles"')
    )
    assert headline < section < cycles


def test_refusals_are_one_line(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "STUDY" in refusal(capsys)
    assert "there is no such file" in refusal(capsys, str(tmp_path / "none.toml"))
    study.write_text("title = ")
    assert "not valid TOML" in refusal(capsys, str(study))
    study.write_text(STUDY.replace("arrival_rate", "arrival"))
    assert "factors.arrival: mm1-run has no such key" in refusal(capsys, str(study))
    study.write_text(STUDY)
    assert "--jobs: has no meaning with --dask" in refusal(
        capsys, str(study), "--jobs", "2", "--dask", "tcp://127.0.0.1:1"
    )
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refusal(capsys, str(study), "--out", str(tmp_path / "file"))


ATOMICS = """
title = "What does a warp more bring?"
responses = ["cycles", "utilization"]

[base]
gpu = "v100"
workload = "atomics"
set.warps = 2

[factors]
warps = [2, 8]

[design]
kind = "one-at-a-time"
"""


@pytest.mark.usefixtures("no_analysis")
def test_what_the_evidence_leaves_open_is_asked_both_ways(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "atomics.toml", tmp_path / "out"
    path.write_text(ATOMICS)
    found = document(capsys, str(path), "--out", str(out))["alternatives"]
    assert [a["name"] for a in found] == ["occupancy", "rounds", "two-pipes"]
    assert [a["weight"] for a in found] == pytest.approx([1 / 3] * 3)
    points = [Path(a["out"], "points.csv").read_text() for a in found]
    assert points[0] == (out / "points.csv").read_text()
    assert points[0] != points[1]  # eight warps fill a round
    again = document(capsys, str(path), "--out", str(out), "--resume")["alternatives"]
    assert [a["ran"] for a in again] == [0, 0, 0]


@pytest.mark.usefixtures("no_analysis")
def test_the_gpu_s_clock_and_constants_may_be_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "atomics.toml", tmp_path / "out"
    path.write_text(
        ATOMICS.replace('"utilization"', '"seconds"').replace(
            "set.warps", "set.gpu.sm.schedulers = 4\nset.warps"
        )
    )

    def points(folder: Path, *options: str) -> list[tuple[float, float]]:
        found = document(capsys, str(path), "--out", str(folder), *options)
        rows = list(csv.DictReader(Path(found["out"], "points.csv").read_text().splitlines()))
        return [(float(row["cycles"]), float(row["seconds"])) for row in rows]

    rated = points(out)
    slow = points(tmp_path / "slow", "--clock", "690")
    assert [cycles for cycles, _ in slow] == [cycles for cycles, _ in rated]
    assert [seconds for _, seconds in slow] == pytest.approx([2 * seconds for _, seconds in rated])
    late = points(tmp_path / "late", "--set", "gpu.atomic.add.latency_cycles=1000")
    assert all(a[0] > b[0] for a, b in zip(late, rated, strict=True))
    options = (str(path), "--out", str(tmp_path / "both"), "--clock", "690", "--set", "gpu.sm.schedulers=2")
    assert document(capsys, *options)["set"] == {"gpu.sm.schedulers": 2, "gpu.clock.sm_hz": 6.9e8}
    # What was run at another clock is not taken for this one's.
    assert points(tmp_path / "slow", "--resume") == rated
    assert "--clock: no clock of a GPU" in refusal(capsys, str(path), "--clock", "0")
    assert "gpu.nothing" in refusal(capsys, str(path), "--set", "gpu.nothing=1")
    assert "only the GPU has keys to set" in refusal(capsys, str(path), "--set", "warps=8")


@pytest.mark.usefixtures("no_analysis")
def test_a_study_that_the_choice_does_not_touch_is_asked_once(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert document(capsys, str(study), "--out", str(tmp_path / "out"))["alternatives"] == []


def test_a_list_of_cases_is_printed_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cases.csv").write_text("arrival_rate\n0.8\n0.3\n")
    path = tmp_path / "listed.toml"
    path.write_text(STUDY.replace('kind = "one-at-a-time"', 'kind = "listed"\ncases = "cases.csv"'))
    assert run(["whatif", str(path), "--jobs", "1", "--out", str(tmp_path / "out")]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = [line for line in lines if line.startswith("wait, place")]
    assert [line.split(":")[1].strip() for line in told] == ["arrival_rate = 0.3", "arrival_rate = 0.8"]
    assert any("case 2" in line and "arrival_rate = 0.3" in line for line in lines)
