"""``smlab tune`` and ``smlab.tune``: the example, the keys, the files, what is refused."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import smlab
from smlab.cli.main import run
from smlab.examples import KERNEL, TUNING_SPACE
from smlab.hw_bench.errors import SmlabError
from smlab.validation.tuning.space_file import read_space

KEYS = {
    *("schema", "space", "gpu", "clock_hz", "configurations", "restricted", "codes", "screened", "failed"),
    *("ended", "open", "best", "first", "gain", "losses", "ranking", "truth", "cpu_s", "wall_s", "out"),
    "notes",
}
ROW = {
    *("rank", "settings", "seconds", "low", "high", "sms", "samples", "registers", "spilled_bytes"),
    *("shared_bytes", "same_code"),
}
SMALL = """
title = "small"
[kernel]
file = "histogram.sm_70.sass"
[parameters]
BLOCKS = [1, 8]
THREADS = [64, 256, 2048]
UNREAD = [0, 1]
"""


def small(folder: Path) -> Path:
    """A space with a parameter that nothing reads, and blocks that are too large."""
    (folder / KERNEL.name).write_bytes(KERNEL.read_bytes())
    launch = TUNING_SPACE.read_text().partition("[launch]")[2].replace("65536", "4096")
    path = folder / "space.toml"
    path.write_text(f"{SMALL}\n[launch]{launch}")
    return path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict[str, Any], str]:
    assert run(["tune", *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    found: dict[str, Any] = json.loads(out)
    return found, err


def test_the_example_is_ranked_within_twelve_lines(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["tune", "--example", "--jobs", "1"]) == 0
    out, err = capsys.readouterr()
    lines = out.rstrip("\n").split("\n")
    assert lines[0] == "histogram on v100: best of 22 configurations"
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 80
    assert "the order is settled" in out
    assert "wrote" not in err


def test_the_agreed_keys_and_files(tmp_path: Path, capsys) -> None:
    out = tmp_path / "out"
    found, _ = told(capsys, str(small(tmp_path)), "--jobs", "1", "--out", str(out))
    assert set(found) == KEYS
    assert all(set(row) == ROW for row in found["ranking"])
    assert [row["rank"] for row in found["ranking"]] == [1, 2, 3, 4]
    times = [row["seconds"] for row in found["ranking"]]
    assert times == sorted(times)
    assert found["best"]["settings"] == found["ranking"][0]["settings"]
    assert found["best"]["real_low"] < found["best"]["seconds"] < found["best"]["real_high"]
    assert (found["configurations"], found["codes"], found["screened"]) == (12, 6, 6)
    assert [row["same_code"][0]["UNREAD"] for row in found["ranking"]] == [1, 1, 1, 1]
    (failed,) = found["failed"]
    assert (failed["reason"], failed["configurations"]) == ("cannot be launched", 4)
    assert "THREADS=2048" in failed["example"]
    with (out / "ranking.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert [row["reason"] for row in rows if not row["rank"]] == ["cannot be launched"] * 4
    progress = json.loads((out / "progress.json").read_text())
    assert progress["done"] == progress["total"]


def test_a_configuration_takes_as_long_as_its_run(tmp_path: Path, capsys) -> None:
    """A small grid runs whole: the time is that of ``smlab run`` on the same launch."""
    found, _ = told(capsys, str(small(tmp_path)), "--jobs", "1", "--out", str(tmp_path / "out"))
    row = next(r for r in found["ranking"] if r["settings"] == {"BLOCKS": 8, "THREADS": 256, "UNREAD": 0})
    launch = small(tmp_path).read_text().partition("[launch]")[2]
    launch = launch.replace('"BLOCKS"', "8").replace('"THREADS"', "256")
    (tmp_path / "launch.toml").write_text(f"[launch]{launch}")
    assert run(["run", str(KERNEL), "--launch", str(tmp_path / "launch.toml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["seconds"] == row["seconds"] == row["low"] == row["high"]


def test_processes_and_one_process_rank_alike(tmp_path: Path) -> None:
    space = read_space(small(tmp_path))
    one, two = (smlab.tune(space, gpu="v100", out=tmp_path / f"{n}", jobs=n).to_dataframe() for n in (1, 2))
    assert one.equals(two)
    assert "small on v100" in repr(smlab.tune(space, out=tmp_path / "1", jobs=1, resume=True))


def test_a_budget_and_another_gpu_are_told(tmp_path: Path, capsys) -> None:
    path, out = str(TUNING_SPACE), str(tmp_path / "out")
    found, _ = told(capsys, path, "--budget-cpu-s", "1e-9", "--jobs", "1", "--out", out)
    assert found["ended"] == "budget"
    assert found["screened"] < found["codes"]
    with (tmp_path / "out" / "ranking.csv").open() as file:
        assert "not reached" in {row["reason"] for row in csv.DictReader(file)}
    assert run(["tune", path, "--out", out]) == 2
    assert "continue it with --resume" in capsys.readouterr().err
    assert run(["tune", path, "--out", out, "--resume", "--gpu", "a100-40"]) == 2
    assert "made with another space, GPU or version of smlab" in capsys.readouterr().err


def test_measured_times_judge_the_order(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {
        f"{b},{t}": {"BLOCKS": b, "THREADS": t, "time": 1.0 + b / 8 + 1 / t}
        for b in (1, 8)
        for t in (64, 256)
    }
    cache = {
        "device_name": "Tesla V100",
        "kernel_name": "histogram",
        "tune_params_keys": ["BLOCKS", "THREADS"],
        "cache": rows,
    }
    (tmp_path / "cache.json").write_text(json.dumps(cache))
    options = ("--truth", str(tmp_path / "cache.json"), "--jobs", "1", "--out", str(tmp_path / "out"))
    found, _ = told(capsys, str(small(tmp_path)), *options)
    assert found["truth"]["n"] == 8
    assert -1 <= found["truth"]["spearman"] <= 1
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["tune", str(small(tmp_path)), *options, "--resume", "--details"]) == 0
    assert "of 8 measured: rank correlation" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "SPACE: no tuning space given"),
        (("--example", "x.toml"), "--example: takes no space"),
        (("none.toml",), "none.toml: there is no such file"),
        (("x.txt",), "no tuning space"),
        (("x.json",), "x.json"),
        (("k.py:add",), "needs a launch"),
        (("space.toml", "--launch", "space.toml"), "--launch: a space file says it itself"),
        (("space.toml", "--gpu", "none"), "none"),
        (("space.toml", "--jobs", "1", "--dask", "tcp://x:1"), "--jobs: has no meaning with --dask"),
        (("space.toml", "--budget-cpu-s", "-1"), "--budget-cpu-s: no time"),
    ],
)
def test_bad_input_is_one_line(
    arguments: tuple[str, ...], says: str, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, text in (("x.txt", "x"), ("x.json", "[]"), ("k.py", "add = 3\n")):
        (tmp_path / name).write_text(text)
    assert run(["tune", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert says in err


def test_a_wrong_argument_of_the_function_is_one_line(tmp_path: Path) -> None:
    for call, says in (
        (lambda: smlab.tune(4), "space: a int is not a path"),  # type: ignore[arg-type]
        (lambda: smlab.tune(small(tmp_path), top=0), "top"),
        (lambda: smlab.tune(small(tmp_path), gpu=3), "a int is not a GPU"),  # type: ignore[arg-type]
    ):
        with pytest.raises(SmlabError, match=says):
            call()
    with pytest.raises(TypeError, match="unexpected keyword argument 'budget'"):
        smlab.tune(small(tmp_path), budget=3)  # type: ignore[call-arg]
