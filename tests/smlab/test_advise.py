"""``smlab advise`` as users meet it."""

import json
from pathlib import Path

import numpy as np
import pytest

import smlab
from smlab.cli.main import run
from smlab.validation.report.page import CONTENT_POLICY

VIEWPORT = '<meta name="viewport" content="width=device-width">'
SAMPLES = """# architecture = sm_70
#,Address,Source,Line,Instructions Executed,Avg. Threads Executed,stall_selected,stall_long_sb,\
stall_long_sb (Not Issued)
0,0x0,"LDG.E R0, [R2]",7,10,32,5,0,0
1,0x10,"FADD R1, R0, R0",8,10,32,5,90,80
2,0x20,EXIT,9,10,32,5,0,0
"""


def test_json_conserves_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.csv"
    path.write_text(SAMPLES)
    assert run(["advise", str(path), "--json", "--html", str(tmp_path / "a.html")]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert sum(b["samples"] for b in kernel["blame"]) + kernel["unattributed"] == kernel["samples"] == 105
    assert {"optimizer", "speedup", "low", "high", "matched_samples", "at", "text"} <= set(
        kernel["advice"][0]
    )
    for advice in kernel["advice"]:
        assert advice["low"] <= advice["speedup"] <= advice["high"]
    stalled = next(b for b in kernel["blame"] if b["reason"] == "long_scoreboard")
    assert (stalled["stalled"], stalled["cause"], stalled["cause_line"]) == (16, 0, 7)
    page = (tmp_path / "a.html").read_text()
    assert "LDG.E R0, [R2]" in page
    assert page.count("<tr id=") == 3
    assert f'<head><meta charset="utf-8">{CONTENT_POLICY}' in page.replace(VIEWPORT, "").replace("\n", "")


@pytest.mark.parametrize(("device", "gpu"), [("NVIDIA GeForce RTX 4090", "rtx-4090"), ("NVIDIA L4", "l4")])
def test_the_gpu_is_the_one_that_the_profile_names(
    device: str, gpu: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.csv"
    path.write_text(f"# device = {device}\n{SAMPLES.replace('sm_70', 'sm_89')}")
    assert run(["advise", str(path), "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert kernel["gpu"] == gpu
    path.write_text(SAMPLES.replace("sm_70", "sm_89"))
    assert run(["advise", str(path)]) == 0
    assert "the profile says sm_89 and no name: taken as" in capsys.readouterr().err
    path.write_text(f"# device = NVIDIA RTX 9999\n{SAMPLES}")
    assert run(["advise", str(path)]) == 2
    assert "no description of this GPU (got 'NVIDIA RTX 9999'; expected --gpu" in capsys.readouterr().err
    assert run(["advise", str(path), "--gpu", "l4"]) == 0


def test_counts_that_make_no_path_are_advised_on_without_a_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One block of code, of which the last instruction has no count."""
    path = tmp_path / "s.csv"
    path.write_text(SAMPLES.replace("EXIT,9,10,", "EXIT,9,0,"))
    assert run(["advise", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"][0]["advice"]


def test_simulated_samples_go_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.csv"
    assert run(["run", "--example", "--samples", str(path)]) == 0
    from smlab.examples import KERNEL

    capsys.readouterr()
    assert run(["advise", str(path), "--code", str(KERNEL), "--gpu", "v100", "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert kernel["note"] == ""
    assert kernel["advice"][0]["at"][0]["line"] is not None
    assert sum(b["samples"] for b in kernel["blame"]) + kernel["unattributed"] == kernel["samples"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nothing.csv"],
        ["--example", "x.csv"],
        ["s.csv", "--mode", "best"],
        ["s.csv", "--gpu", "riva128"],
        ["s.csv", "--try", "UNROLL=4"],
        ["s.csv", "--name", "other", "--code", "s.csv"],
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.csv").write_text(SAMPLES)
    assert run(["advise", *arguments]) == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith("smlab: ")
    assert "\n" not in said


def test_a_profile_gives_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.csv"
    path.write_text(SAMPLES)
    result = smlab.advise(path)
    assert run(["advise", str(path), "--json"]) == 0
    (printed,) = json.loads(capsys.readouterr().out)["kernels"]
    frame = result.to_dataframe()
    assert frame["optimizer"].tolist() == [a["optimizer"] for a in printed["advice"]]
    assert frame["speedup"].tolist() == pytest.approx([a["speedup"] for a in printed["advice"]])
    assert result.to_dict()["kernels"][0]["samples"] == 105
    assert "1 kernels" in repr(result)


def test_a_run_is_advised_on() -> None:
    from smlab.examples import KERNEL

    random = np.random.default_rng(2)
    pixels, counts = random.integers(0, 256, 4096, dtype=np.uint8), np.zeros(256, dtype=np.int32)
    launch = {"gpu": "v100", "shared_bytes": 1024}
    done = smlab.run(KERNEL, 4, 128, pixels, counts, 4096, keep=smlab.Record.ALL, **launch)
    result = smlab.advise(done)
    (kernel,) = result.kernels
    assert kernel.gpu.name == "v100"
    assert kernel.context is not None
    assert kernel.advice[0].speedup > 1
    assert result.to_dataframe()["record_changes"].min() >= 1
    totals = smlab.run(KERNEL, 4, 128, pixels, counts, 4096, **launch)
    with pytest.raises(smlab.SmlabError, match="recorded too little"):
        smlab.advise(totals)


def test_another_version_is_simulated_beside(capsys: pytest.CaptureFixture[str]) -> None:
    from smlab.examples import KERNEL, KERNEL_LAUNCH

    command = ["advise", str(KERNEL), "--launch", str(KERNEL_LAUNCH), "--sms", "1"]
    assert run([*command, "--try", str(KERNEL), "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    (tried,) = kernel["tried"]
    assert tried["what"] == str(KERNEL)
    assert tried["speedup"] == 1
    assert run([*command, "--try", "no.cu"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "--try" in error
