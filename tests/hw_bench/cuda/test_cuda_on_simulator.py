"""The suite on the simulated GPU: the files of a measured set, marked; right results; the benchmark told."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from measuring_error import measuring_errors
from smlab.cli.main import run as command
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.calibrate.dataset import read_set

compiler = pytest.mark.skipif(not has_compiler(), reason="the CUDA compiler of the extra cuda12 is missing")


def test_a_gpu_goes_with_the_simulator(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["bench", "run", "--on-simulator"]) == 2
    assert command(["bench", "run", "--gpu", "v100"]) == 2
    assert "goes with --gpu" in capsys.readouterr().err


@compiler
def test_the_suite_on_a_simulated_gpu(tmp_path: Path) -> None:
    from smlab.hw_bench.cuda.measuring.harness import measure
    from smlab.validation.calibrate.on_simulator import BenchmarkGpu

    small = load_gpu("v100").with_values({"gpu.sms": 4}, source="assumed: a small GPU", where="test")
    done = measure(tmp_path, profile="smoke", benchmarks=("shared-atomics",), stand_in=BenchmarkGpu(small))
    assert (done.wrong, done.broken, done.interrupted) == ([], [], False)
    about = json.loads((tmp_path / "shared-atomics.json").read_text())
    assert about["SIMULATED"].startswith("SIMULATED by smlab")
    assert about["complete"] is True
    assert about["driver"] is None
    found = read_set(tmp_path)
    assert found.simulated
    assert found.name().startswith("SIMULATED")
    errors = {row.form: row for row in measuring_errors(tmp_path, small)}
    # With the stores that clear the words still on their way, eight words on a bank cost 190 % more.
    assert errors["add-result batch"].p95 < 10
    # Two cycles of a warp alone; under `gto` none (docs/findings/scheduler-policy.md).
    assert errors["add closed"].median < 8
    assert errors["add closed as compare-and-swap"].median < 5
    assert errors["all"].n == sum(r.n for name, r in errors.items() if name.startswith("every "))


@compiler
def test_what_an_architecture_has_no_code_of_is_left_out_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from smlab.hw_bench.cuda.measuring import harness, plan
    from smlab.validation.calibrate.on_simulator import BenchmarkGpu

    little = replace(plan.PROFILES["smoke"], warps=(1, 2), lanes=(1,), bursts=(2,))
    monkeypatch.setitem(plan.PROFILES, "smoke", little)
    small = load_gpu("b200").with_values({"gpu.sms": 1}, source="assumed: a small GPU", where="test")
    said: list[str] = []
    done = harness.measure(
        tmp_path,
        profile="smoke",
        benchmarks=("shared-atomics",),
        stand_in=BenchmarkGpu(small),
        progress=said.append,
    )
    assert (done.wrong, done.broken, done.interrupted) == ([], [], False)
    about = json.loads((tmp_path / "shared-atomics.json").read_text())
    assert about["no_code_of"] == ["float-add/batch", "float-add/dependent"]
    assert about["complete"] is True
    assert "left out, sm_100 has no code of it: float-add/batch, float-add/dependent" in said[0]
    table = (tmp_path / "shared-atomics.csv").read_text()
    assert "popc-inc" in table
    assert "float-add" not in table


def test_a_measured_set_is_not_judged(tmp_path: Path) -> None:
    with pytest.raises(SmlabError):
        measuring_errors(tmp_path, load_gpu("v100"))
