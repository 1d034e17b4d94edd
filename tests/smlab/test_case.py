"""``smlab case histogram`` and ``smlab simulate histogram`` from the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

import smlab.commands.case.run
from smlab.cli.main import run
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.work.store import Store


@pytest.fixture(autouse=True)
def few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smlab.commands.case.run, "REDUCED_SIZES", (64, 512))


def test_the_case_prints_its_points_and_writes_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], recorded
) -> None:
    np.save(tmp_path / "mine.npy", np.random.default_rng(0).integers(0, 256, (30, 4), dtype=np.uint8))
    own = str(tmp_path / "mine.npy")
    command = [
        "case",
        "histogram",
        "--quick",
        "--image",
        own,
        "--out",
        str(tmp_path / "o"),
        "--jobs",
        "1",
        "--json",
    ]
    assert run(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["points"]) == 2 * 5 * 2
    assert {p["image"] for p in document["points"]} == {own}
    for key in ("utilization", "utilization_occupancy", "utilization_closed", "e_mean", "speedup", "cycles"):
        assert all(isinstance(p[key], int | float) for p in document["points"])
    carried = [(a.name, a.weight) for a in load_gpu("titan-v").alternatives]
    assert [(a["name"], a["weight"]) for a in document["alternatives"]] == carried
    assert len(carried) > 1
    assert document["alternatives"][0]["points"] == document["points"]
    there = document["alternatives"][1]
    assert there["points"] != document["points"]
    assert [f["name"] for f in there["facts"]] == [f["name"] for f in document["facts"]]
    kept = tmp_path / "o" / "alternatives" / "rounds"
    assert json.loads((kept / "case.json").read_text())["points"] == there["points"]
    before = (tmp_path / "o" / "points.csv").read_bytes()
    assert run([*command, "--resume"]) == 0
    assert (tmp_path / "o" / "points.csv").read_bytes() == before
    with recorded() as prints:
        assert run([*command[:-1], "--resume"]) == 0
    told = capsys.readouterr().out
    assert "20 points" in told
    assert "rounds (weight " in told
    prints.check_every_width()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--gpu", "nothing"], "nothing"),
        (["--image", "nowhere.png"], "nowhere.png"),
        (["--cache", "hot"], "--cache"),
        (["--channels", "five"], "--channels"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["case", "histogram", "--quick", "--out", str(tmp_path), *options]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_ctrl_c_keeps_what_was_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from smlab.validation.papers.histogram import study

    real, left = study.run_point, [3]

    def interrupted(*arguments: object) -> object:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(study, "run_point", interrupted)
    command = ["case", "histogram", "--quick", "--out", str(tmp_path), "--jobs", "1"]
    assert run(command) == 130
    assert "--resume" in capsys.readouterr().err
    with Store(tmp_path / study.POINTS) as store:
        assert store.count == 3


def test_the_built_in_workload(capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--set", "pixels=4096", "--set", "threads=64", "--set", "image=uniform", "--set", "sms=2"]
    assert run(["simulate", "histogram", "--gpu", "titan-v", *settings, "--json"]) == 0
    atomic = json.loads(capsys.readouterr().out)["atomic"]
    assert (
        atomic["jobs"] == 4 * 2 * 2
    )  # 64 blocks of two warps, one group of 32 pixels each; two of them here
    assert atomic["lanes_mean"] == 32
    assert run(["simulate", "histogram", "--gpu", "titan-v", "--set", "sms=99"]) == 2
    assert run(["simulate", "histogram", "--gpu", "titan-v", "--set", "gpu=v100"]) == 2
    assert run(["simulate", "histogram", "--gpu", "titan-v", "--set", "pixels=many"]) == 2


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["code=assembled"], "--set code: unknown (got 'assembled'"),
        (["code=compiled", "sms=2"], "--set sms: histogram has no such key"),
        (["code=compiled", "op=popc-inc"], "no ATOMS.POPC.INC for sm_70"),
        (["code=compiled", "pixels=0"], "histogram: pixels: out of range"),
        (["colour=red"], "code"),
    ],
)
def test_what_compiled_code_cannot_be_asked(
    settings: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [word for text in settings for word in ("--set", text)]
    assert run(["simulate", "histogram", "--gpu", "titan-v", *asked]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
