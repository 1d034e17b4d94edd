"""Studies of machine code: macros and launch shapes as factors, a list of cases, resumed, and what is
refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from smlab.examples import KERNEL
from smlab.hw_bench.errors import SmlabError
from smlab.sim.isa.launch.launch_file import read_launch, whole_number
from smlab.validation.experiments.design.study import Study, parse_study
from smlab.validation.experiments.run.running import CSV, PARQUET, run_whatif

LAUNCH = """\
[launch]
grid = "ceil(PIXELS // 256 / THREADS) + 1"
block = "THREADS"
shared_bytes = 1024

[[argument]]
name = "image"
dtype = "uint8"
shape = [4096]
make = "uniform"
low = 0
high = 256

[[argument]]
name = "counts"
dtype = "int32"
shape = [256]
make = "zeros"

[[argument]]
name = "n"
dtype = "int32"
value = 4096
"""


def raw(**base: Any) -> dict[str, Any]:
    return {
        "title": "t",
        "responses": ["cycles", "speedup", "count.memory", "registers"],
        "base": {"gpu": "v100", "kernel": str(KERNEL), "launch": "launch.toml", **base},
        "factors": {
            "define.THREADS": {"values": [64, 128, 256], "base": 64},
            "define.PIXELS": {"values": [4096], "base": 4096},
            "gpu.atomic.add.pass_interval_cycles": {"values": [1.0, 2.0], "base": 1.0},
        },
        "design": {"kind": "listed", "cases": "cases.csv"},
    }


CASES = """\
define.THREADS,define.PIXELS,gpu.atomic.add.pass_interval_cycles
128,4096,1.0
256,4096,2.0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "launch.toml").write_text(LAUNCH)
    (tmp_path / "cases.csv").write_text(CASES)
    return tmp_path


def study(folder: Path, **base: Any) -> Study:
    return parse_study(raw(**base), "study", folder, "kernel")


def test_a_listed_space_runs_and_resumes(folder: Path) -> None:
    asked = study(folder)
    first = run_whatif(asked, folder / "out", jobs=1, effects=False)
    assert (first.points, first.failed, first.ran) == (3, 0, 3)
    points = pd.read_parquet(folder / "out" / PARQUET)
    assert points["define.THREADS"].tolist() == [64, 128, 256]
    assert points["speedup"].iloc[0] == 1.0
    assert points["cycles"].nunique() == 3
    assert points["count.memory"].nunique() == 1  # the same work, however it is cut
    before = (folder / "out" / CSV).read_bytes()
    again = run_whatif(study(folder), folder / "out", jobs=1, resume=True, effects=False)
    assert again.ran == 0
    assert (folder / "out" / CSV).read_bytes() == before


def test_a_list_ends_with_a_ranking(queue: Callable[..., Study], tmp_path: Path) -> None:
    (tmp_path / "cases.csv").write_text("arrival_rate,service_rate\n0.8,1.0\n0.3,1.25\n0.6,1.25\n")
    asked = queue(('kind = "grid"', 'kind = "listed"\ncases = "cases.csv"'))
    outcome = run_whatif(asked, tmp_path / "out", jobs=1)
    ranking = outcome.effects.as_json()["responses"]["wait"]["ranking"]
    assert [place["case"] for place in ranking] == [2, 3, 1]
    assert ranking[0]["settings"] == {"arrival_rate": 0.3, "service_rate": 1.25}
    assert ranking[0]["mean"]["low"] < ranking[0]["mean"]["estimate"] < ranking[1]["mean"]["estimate"]
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert any(name.endswith("ranking") for name in metrics["tables"])
    assert "mean of a case" in (tmp_path / "out" / "effects.csv").read_text()


def test_a_design_that_cannot_be_analysed_is_refused_before_the_work(
    queue: Callable[..., Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smlab.validation.experiments.effects.points.DESIGNS", ("sobol",))
    with pytest.raises(SmlabError, match="design"):
        run_whatif(queue(), tmp_path / "out", jobs=1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"workload": "atomics"}, "base.workload: has no meaning with a kernel"),
        ({"kernel": "nobody.sass"}, "nobody.sass"),
        ({"launch": None}, "base.launch: missing"),
        ({"set": {"launch": {"block": {"w": 3}}}}, "a kernel has no such key"),
        ({"set": {"define": {"THREADS": 32}, "gpu": {"atomic": {"cue": 3}}}}, "unknown key of a GPU"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(folder: Path, change: dict[str, Any], says: str) -> None:
    with pytest.raises(SmlabError, match=says) as told:
        study(folder, **change)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("cases", "says"),
    [
        ("define.THREADS\n64\n", "has other columns than factors"),
        (CASES.replace("256,", "255,"), "line 3: define.THREADS: not a value of the factor"),
        (CASES.splitlines()[0] + "\n", "has no case"),
    ],
)
def test_a_list_that_is_wrong_is_refused(folder: Path, cases: str, says: str) -> None:
    (folder / "cases.csv").write_text(cases)
    with pytest.raises(SmlabError, match=says):
        study(folder)


def test_shapes_are_written_with_macros(folder: Path) -> None:
    read = read_launch(folder / "launch.toml", {"THREADS": "96", "PIXELS": 4096})
    assert (read.grid, read.block) == ((2, 1, 1), (96, 1, 1))
    assert whole_number("x", "ceil(ceil(4096 / A) / 3) * 2 - 7 % 4", {"A": 100}) == 25
    for text, says in (
        ("A / 2", "not a whole number"),
        ("B", "names a macro that is not given"),
        ("__import__('os')", "cannot be evaluated"),
        ("4 // 0", "divides by zero"),
        ("(", "cannot be read"),
    ):
        with pytest.raises(SmlabError, match=says):
            whole_number("x", text, {"A": 1})
