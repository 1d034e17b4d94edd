"""``smlab bench``: planning, running without a GPU, profiling with a stand-in for ncu, and the loop of
calibration."""

import importlib.util
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from answers import document, refusal
from smlab.cli.main import run
from smlab.hw_bench.cuda.measuring import plan, profiling
from smlab.hw_bench.cuda.measuring.profiling import command_line
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles.atomics.required_counters import how_for
from smlab.validation.calibrate import calibration

FAKE_NCU = """#!{python}
import csv, sys
words = sys.argv[1:]
log, out = words[words.index("--log-file") + 1], words[words.index("--out") + 1]
if {forbidden}:
    open(log, "w").write("==ERROR== ERR_NVGPUCTRPERM - no permission\\n")
    sys.exit(1)
open(log, "w").write('"ID","Kernel Name"\\n"0","k"\\n')
with open(out + "/histogram.csv", "w") as file:
    csv.writer(file).writerows([{columns!r}] + [["original/add"] + ["1"] * {rest}] * 3)
"""


def test_a_run_is_planned_within_its_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("numba.cuda", reason="not planned: this Numba has no CUDA target")
    full = document(capsys, "bench", "plan")["benchmarks"]
    quick = document(capsys, "bench", "plan", "--quick")["benchmarks"]
    assert isinstance(full, list)
    assert isinstance(quick, list)
    assert [b["benchmark"] for b in full] == list(plan.BENCHMARKS)
    assert sum(b["seconds"] for b in full) < 480
    assert sum(b["seconds"] for b in quick) < 120
    # T(n, e, c) of fetch-and-add is there in full: 32 e, n from 1 to 64, c from 0 to n.
    assert full[0]["rows"] > 32 * sum(n + 1 for n in range(1, 65))
    assert run(["bench", "plan", "--quick"]) == 0
    assert "portability" in capsys.readouterr().out


def test_without_a_gpu_a_run_is_refused_in_a_second(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for command in (["run", "--quick", "--json"], ["calibrate", str(tmp_path), "--gpu", "h200", "--measure"]):
        began = time.perf_counter()
        out = ["--out", str(tmp_path / "x.toml")]
        message = refusal(capsys, "bench", *command, *out)
        if importlib.util.find_spec("numba_cuda") is None:
            assert "pip install 'smlab[cuda12]'" in message
            assert time.perf_counter() - began < 20  # a second, on a machine that does nothing else
        else:
            assert "no CUDA GPU can be used here" in message
    assert "one of shared-atomics" in refusal(capsys, "bench", "run", "bogus")


def test_profiling_without_ncu_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    message = refusal(capsys, "bench", "profile", "--out", str(tmp_path / "p.csv"))
    assert "ncu (Nsight Compute) is not on PATH" in message
    assert not (tmp_path / "p.csv").exists()


def _fake_ncu(folder: Path, monkeypatch: pytest.MonkeyPatch, forbidden: bool = False) -> None:
    pytest.importorskip("numba.cuda", reason="not profiled: this Numba has no CUDA target")
    from smlab.hw_bench.cuda.measuring import harness

    script = folder / "ncu"
    columns = list(plan.IMAGE_COLUMNS)
    text = FAKE_NCU.format(python=sys.executable, forbidden=forbidden, columns=columns, rest=len(columns) - 1)
    script.write_text(text)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(profiling, "require_gpu", lambda: None)
    monkeypatch.setattr(harness, "this_gpu", lambda: plan.DeviceLimits("stand-in", "9.0", 132, 64, 2**20))


def test_profiling_runs_ncu_with_the_counters_that_are_needed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _fake_ncu(tmp_path, monkeypatch)
    out = tmp_path / "deep" / "p.csv"
    found = document(capsys, "bench", "profile", "--out", str(out))
    assert found["launches"] == 3
    assert out.is_file()
    for counter in how_for("9.0").counters:
        assert counter.counter in str(found["command"])
    assert "--profile profiled" in str(found["command"])


def test_profiling_that_is_not_permitted_says_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _fake_ncu(tmp_path, monkeypatch, forbidden=True)
    message = refusal(capsys, "bench", "profile", "--out", str(tmp_path / "p.csv"))
    assert "ERR_NVGPUCTRPERM" in message
    assert "RestrictProfiling" in message


def test_the_profiled_command_ends_with_the_application(tmp_path: Path) -> None:
    words = command_line("/opt/ncu", "8.0", tmp_path / "a.csv", tmp_path, ["histogram", "shared-atomics"])
    assert words[:3] == ["/opt/ncu", "--clock-control", "none"], "the card's clock is left as it is"
    assert words[words.index("--log-file") + 1] == str(tmp_path / "a.csv")
    assert "APPLICATION" not in words
    assert words[-3:] == ["--benchmarks", "histogram", "shared-atomics"]
    with pytest.raises(SmlabError, match="benchmark: unknown .got 'bogus'"):
        profiling.profile(tmp_path / "a.csv", ["bogus"])


def test_the_loop_runs_in_one_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recorded
) -> None:
    """simulate, calibrate, compare, and use the result; then the same data set again, as text, with the first
    fit."""
    fitted: list[Any] = []
    fit = calibration._parts

    def fit_once(*given: Any) -> Any:
        if not fitted:
            fitted.append(fit(*given))
        return fitted[0]

    monkeypatch.setattr(calibration, "_parts", fit_once)
    folder, out = tmp_path / "data", tmp_path / "found.toml"
    arguments = ["bench", "calibrate", str(folder), "--gpu", "v100", "--out", str(out), "--quick"]
    found = document(capsys, *arguments, "--simulate", "--cases", str(tmp_path / "cases.csv"))
    assert found["simulated_data"] is True
    assert found["follows"] is True
    assert {"fitted", "not_fitted", "skipped", "errors", "residuals", "points_judged", "mape"} <= set(found)
    assert isinstance(found["errors"], dict)
    rows = found["errors"]["atomic unit, all"]
    assert [row["predictor"] for row in rows] == [
        "calibrated", "before", "constant S", "line in e", "distinct words",
    ]  # fmt: skip
    assert {"n", "mape", "bias", "kendall_tau", "within_10", "baseline_mape"} <= set(rows[0])
    assert (tmp_path / "cases.csv").is_file()
    assert load_gpu(out)["atomic.add.latency_cycles"].kind == "calibrated"
    assert run(["simulate", "atomics", "--gpu", str(out), "--json"]) == 0
    capsys.readouterr()
    with recorded() as prints:
        assert run(arguments) == 0
    assert "SIMULATED" in capsys.readouterr().out
    prints.check_every_width()


@pytest.mark.parametrize("trouble", ["", "wrong", "interrupted"])
def test_the_loop_measures_first_where_it_can(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trouble: str
) -> None:
    """With a stand-in for the GPU: what it measures is calibrated, unless its results were wrong."""
    pytest.importorskip("numba.cuda", reason="not measured: this Numba has no CUDA target")
    from calibration_trials import SMALL
    from smlab.hw_bench.cuda import toolkit
    from smlab.hw_bench.cuda.measuring import harness
    from smlab.validation.calibrate.simulated import write_simulated

    def measure(out: Path, **options: object) -> harness.SuiteOutcome:
        assert options["benchmarks"] == ("shared-atomics", "latency", "shared-banks")
        assert options["resume"] is True
        write_simulated(out, load_gpu("v100"), profile=SMALL)
        return harness.SuiteOutcome(
            {}, ["a sum was 3"] if trouble == "wrong" else [], [], trouble == "interrupted"
        )

    monkeypatch.setattr(toolkit, "require_gpu", lambda: None)
    monkeypatch.setattr(harness, "measure", measure)
    out = tmp_path / "found.toml"
    arguments = ["bench", "calibrate", str(tmp_path / "d"), "--gpu", "v100", "--out", str(out), "--measure"]
    if trouble == "wrong":
        assert "nothing was calibrated: a sum was 3" in refusal(capsys, *arguments)
    elif trouble == "interrupted":
        assert run(arguments) == 130
    else:
        assert run(arguments) == 0
    assert out.exists() is (trouble == "")


def test_calibration_refuses_what_it_cannot_use(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "x.toml")]
    assert "shared-atomics.json: there is no such file" in refusal(
        capsys, "bench", "calibrate", str(tmp_path), "--gpu", "v100", *out
    )
    both = ["--measure", "--simulate"]
    assert "exclude each other" in refusal(
        capsys, "bench", "calibrate", str(tmp_path), "--gpu", "v100", *out, *both
    )
    (tmp_path / "shared-atomics.json").write_text('{"benchmark": "shared-atomics"}')
    assert "holds a measured data set" in refusal(
        capsys, "bench", "calibrate", str(tmp_path), "--gpu", "v100", *out, "--simulate"
    )
    assert not (tmp_path / "x.toml").exists()


def test_loops_are_shown_in_the_table_of_machine_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in brackets must not be taken for markup."""
    from smlab.hw_bench.cuda.contract import check as contract

    found = "2 other [loop: 8 ATOMS.ADD]"
    result = contract.ContractResult("b", "k", "sm_80", True, found, "", "", 8, "", "")
    monkeypatch.setattr(contract, "check_all", lambda *given, **named: [result])
    assert run(["bench", "sass"]) == 0
    assert found in capsys.readouterr().out
