"""``smlab advise`` as users meet it."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smlab
from smlab.cli.main import run
from smlab.commands.advise import api
from smlab.commands.advise.kernel_advice import COMBINED, KernelAdvice, SimulatedVersion, Trials
from smlab.commands.advise.printing import answer_text
from smlab.commands.advise.ranking import BY_HAND, ranked
from smlab.commands.advise.trying import Trial, TrialBudget, cpu_s
from smlab.commands.run.results import UNCHANGED, same_results
from smlab.examples import KERNEL, KERNEL_LAUNCH
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles.pc_samples.sample_files import read_samples
from smlab.hw_bench.profiles.pc_samples.samples import KernelSamples
from smlab.hw_bench.sass import nvrtc
from smlab.models.advisor.track_record import on_a_card
from smlab.sim.isa.launch.launch_file import read_launch
from smlab.validation.report.page import CONTENT_POLICY

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
    assert kernel["advice"] == []  # one change matches, and would gain nothing
    stalled = next(b for b in kernel["blame"] if b["reason"] == "long_scoreboard")
    assert (stalled["stalled"], stalled["cause"], stalled["cause_line"]) == (16, 0, 7)
    page = (tmp_path / "a.html").read_text()
    assert "LDG.E R0, [R2]" in page
    assert page.count('<li id="i') == 3
    assert CONTENT_POLICY in page


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
    assert run(["advise", str(path), "--gpu", "v100"]) == 0
    capsys.readouterr()
    assert run(["advise", str(path), "--gpu", "l4"]) == 2
    assert "the profile is of sm_70 (got 'l4'; expected --gpu with a GPU of sm_7x)" in capsys.readouterr().err
    path.write_text(SAMPLES.replace("sm_70", "sm_37"))
    assert run(["advise", str(path)]) == 2
    assert "no description of a GPU of this architecture (got 'sm_37'" in capsys.readouterr().err


def test_a_kernel_whose_code_does_not_match_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report holds several kernels; the code of one of them is not there."""
    path = tmp_path / "two.ncu-rep"
    path.touch()
    (tmp_path / "s.csv").write_text(SAMPLES)
    good = read_samples(tmp_path / "s.csv")
    other = dataclasses.replace(good, kernel="other", architecture="sm_37")
    monkeypatch.setattr(api, "read_report_samples", lambda path: (good, other))
    found, refused = smlab.advise(path).kernels
    assert found.blamed is not None
    assert refused.blamed is None
    assert refused.note.startswith("no advice on other: ")
    monkeypatch.setattr(api, "read_report_samples", lambda path: (other, other))
    with pytest.raises(smlab.SmlabError, match="no description of a GPU"):
        smlab.advise(path)


def test_counts_that_make_no_path_are_advised_on_without_a_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One block of code, of which the last instruction has no count."""
    path = tmp_path / "s.csv"
    path.write_text(SAMPLES.replace("EXIT,9,10,", "EXIT,9,0,"))
    assert run(["advise", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"][0]["blame"]


def test_simulated_samples_go_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.csv"
    assert run(["run", "--example", "--samples", str(path)]) == 0
    capsys.readouterr()
    assert run(["advise", str(path), "--code", str(KERNEL), "--gpu", "v100", "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert kernel["note"] == ""
    assert {"optimizer", "speedup", "low", "high", "matched_samples", "at", "text", "how"} <= set(
        kernel["advice"][0]
    )
    for advice in kernel["advice"]:
        assert advice["low"] <= advice["speedup"] <= advice["high"]
        assert advice["speedup"] >= 1.005
        assert advice["how"] in ("replayed", "bound")
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
    assert run(["run", "--example", "--samples", str(path)]) == 0
    capsys.readouterr()
    result = smlab.advise(path, code=KERNEL)
    assert run(["advise", str(path), "--code", str(KERNEL), "--json"]) == 0
    (printed,) = json.loads(capsys.readouterr().out)["kernels"]
    frame = result.to_dataframe()
    assert len(frame)
    assert frame["optimizer"].tolist() == [a["optimizer"] for a in printed["advice"]]
    numbers = [np.nan if a["speedup"] is None else a["speedup"] for a in printed["advice"]]
    assert frame["speedup"].astype(float).tolist() == pytest.approx(numbers, nan_ok=True)
    assert frame["how"].tolist() == [a["how"] for a in printed["advice"]]
    assert result.to_dict()["kernels"][0]["samples"] == printed["samples"]
    assert "1 kernels" in repr(result)


def test_a_run_is_advised_on() -> None:
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
    command = ["advise", str(KERNEL), "--launch", str(KERNEL_LAUNCH), "--sms", "1"]
    assert run([*command, "--try", str(KERNEL), "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    (tried,) = kernel["tried"]
    assert tried["what"] == str(KERNEL)
    assert tried["speedup"] == 1
    assert tried["results_equal"] is None  # only a part of the grid ran
    assert run([*command, "--try", "no.cu"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "--try" in error


def test_the_first_advice_on_the_example_is_its_grid(capsys: pytest.CaptureFixture[str]) -> None:
    """8 blocks leave 72 SMs idle; 80 take a quarter of the time, and compute the same."""
    assert run(["advise", "--example", "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    first, *others = kernel["advice"]
    assert (first["optimizer"], first["how"], first["results_equal"]) == ("grid", "tried", True)
    eighty = next(v for v in first["tried"] if v["what"] == "grid=80")
    assert eighty["speedup"] == pytest.approx(4.17, abs=0.01)
    assert first["speedup"] == max(v["speedup"] for v in first["tried"])
    assert first["low"] < first["speedup"] < first["high"]
    assert all(other["how"] in ("tried", "replayed", "bound") for other in others)
    assert not {"block-size", "block-increase"} & {other["optimizer"] for other in others}
    assert kernel["trials"]["cpu_s"] < 30
    smlab_run = {"gpu": "v100", "shared_bytes": 1024}
    launch = read_launch(KERNEL_LAUNCH)
    again = smlab.run(KERNEL, 80, 256, *launch.arguments, **smlab_run)
    assert again.cycles == eighty["cycles"]


def test_the_answer_says_how_its_numbers_came(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["advise", "--example"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"\(by another hand on a card [\d.]+ to [\d.]+; results the same bit for bit\)", said)
    assert "80 blocks of 256: 4.17x" in said
    assert re.search(r"1[0-9] launch shapes( and \d+ versions of the source)? tried in", said)
    assert run(["advise", "--example", "--try-seconds", "0", "--details"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"\((replayed; |bound: )", said)
    assert "tried" not in said


def version(what: str, kind: str, speedup: float) -> SimulatedVersion:
    return SimulatedVersion(what, 100.0, speedup, kind, (8, 1, 1), (256, 1, 1), True, "", 0.1)


def test_the_first_line_names_what_gains_more_together() -> None:
    """And a number that was simulated has the interval that changes by other hands lay in."""
    samples = KernelSamples("k", (), "k.json")
    trials = Trials((version("grid=80", "grid", 2.0), version("-use_fast_math", "fast-math", 1.5)))
    kernel = KernelAdvice(samples, load_gpu("v100"), None, None, (), trials=trials)
    what = "launch 8 blocks of 256 in place of those of the launch"
    (first, *_) = ranked(kernel)
    low, high = on_a_card().interval(2.0)
    assert (first.low, first.high) == (low, high)
    assert low < 2 < high
    how = f"by another hand on a card {low:.2f} to {high:.2f}; results the same bit for bit"
    assert answer_text(kernel, ranked(kernel)) == f"most promising: grid, 2.00x ({how}): {what}"
    both = version("grid=80 + -use_fast_math", COMBINED, 2.8)
    more = dataclasses.replace(kernel, trials=Trials((*trials.versions, both)))
    low, high = on_a_card().interval(2.8)
    assert answer_text(more, ranked(more)) == (
        f"most promising: several changes together, 2.80x (by another hand on a card {low:.2f} to {high:.2f};"
        " results the same bit for bit): grid=80 + -use_fast_math; alone grid, 2.00x"
    )
    rounded = dataclasses.replace(both, note="results differ by up to 2e-07 of the largest")
    more = dataclasses.replace(kernel, trials=Trials((*trials.versions, rounded)))
    assert f"to {high:.2f}; results differ by up to 2e-07 of the largest): grid=80" in answer_text(
        more, ranked(more)
    )
    assert answer_text(kernel, ()) == "no change that smlab knows gains anything"


def test_a_change_that_alters_the_results_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kernel that ends at once is fast, and counts nothing."""
    text = KERNEL.read_text()
    first = re.search(r"IMAD.MOV.U32 R1, RZ, RZ, c.0x0..0x28. ;( *)/\* \w+ \*/\s+/\* \w+ \*/", text)
    assert first is not None
    empty = text.replace(first[0], "EXIT ; /* 0x000000000000794d */\n /* 0x000fea0003800000 */", 1)
    path = tmp_path / "empty.sass"
    path.write_text(empty)
    assert run(["advise", "--example", "--try", str(path), "--try-seconds", "0", "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    (tried,) = kernel["tried"]
    assert tried["results_equal"] is False
    assert tried["note"].startswith("counts: 256 of 256 elements differ")
    assert run(["advise", "--example", "--try", str(path), "--try-seconds", "0"]) == 0
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("tried "))
    assert "wrong results" in line
    assert "x," not in line


def test_a_launch_can_be_tried(capsys: pytest.CaptureFixture[str]) -> None:
    tries = ["--try", "grid=4", "--try", "block=128,grid=16"]
    assert run(["advise", "--example", "--try-seconds", "0", *tries, "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    fewer, smaller = kernel["tried"]
    assert (fewer["grid"], fewer["block"], fewer["results_equal"]) == ([4, 1, 1], [256, 1, 1], True)
    assert fewer["speedup"] < 0.6
    assert (smaller["grid"], smaller["block"], smaller["results_equal"]) == ([16, 1, 1], [128, 1, 1], True)
    assert run(["advise", "--example", "--try", "grid=none"]) == 2
    assert "--try grid: not a shape (got 'none'; expected grid=80 or grid=8x4x1)" in capsys.readouterr().err


def test_results_that_tell_nothing_are_no_proof() -> None:
    """Arrays that the kernel leaves as they were are equal whatever the kernel does."""
    same = np.zeros(4)
    assert same_results({"x": same}, {"x": same}, {"x": same}) == (None, UNCHANGED)
    assert same_results({"x": same}, {"x": same + 1}, {"x": same + 1}) == (True, "")
    equal, said = same_results({"x": same}, {"x": same + 1}, {"x": same})
    assert equal is False
    assert "4 of 4 elements differ" in said
    assert same_results({}, {}, {})[0] is None


def test_a_part_of_a_grid_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its time is that of the blocks that ran, not of the grid's."""
    text = KERNEL_LAUNCH.read_text().replace("grid = 8", "grid = 640").replace("65536", str(640 * 256 * 8))
    (tmp_path / "k.toml").write_text(text)
    asked = ["advise", str(KERNEL), "--launch", str(tmp_path / "k.toml"), "--gpu", "v100", "--sms", "2"]
    assert run([*asked, "--try-seconds", "0", "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert BY_HAND in {advice["doubt"] for advice in kernel["advice"]}  # nothing else speaks against a number
    assert not any("no counts" in advice.get("doubt", "") for advice in kernel["advice"])


def test_trials_are_begun_while_the_command_has_time() -> None:
    """What went before them counts, and the first is expected to take as long as the kernel's own run."""

    def never() -> None:
        raise AssertionError("there is no time for it")

    def candidates() -> Any:
        yield Trial("grid=80", "grid", never)

    for spent_s, longest_s in ((31.0, 0.0), (20.0, 12.0)):
        budget = TrialBudget(30.0, cpu_s() - spent_s, longest_s)
        budget.try_in_turn([candidates()])
        assert budget.trials().late == ("grid=80",)
    budget = TrialBudget(30.0, cpu_s() - 20.0, 8.0)
    with pytest.raises(AssertionError):
        budget.try_in_turn([candidates()])


def test_a_trial_compiles_no_longer_than_the_time_that_is_left() -> None:
    """A loop of many rounds, unrolled, took the compiler three minutes."""
    seen: list[int] = []

    def simulate() -> None:
        seen.append(nvrtc._cpu_limit_s.get())

    def candidates() -> Any:
        yield Trial("unroll 64", "unroll", simulate)

    TrialBudget(30.0, cpu_s() - 20.0, 0.0).try_in_turn([candidates()])
    assert seen == [10]
    assert nvrtc._cpu_limit_s.get() == nvrtc.CPU_S
