"""Versions of CUDA C that ``smlab advise`` compiles and tries by itself."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from smlab.cli.main import run
from smlab.examples import KERNEL_LAUNCH, KERNEL_SOURCE
from smlab.hw_bench.cuda.toolkit import has_compiler

if not has_compiler() or importlib.util.find_spec("nvidia.cuda_runtime") is None:
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

LAUNCH = """[launch]
grid = 4
block = 128
[[argument]]
name = "x"
dtype = "float32"
shape = [65536]
make = "uniform"
low = 1
high = 2
seed = 1
[[argument]]
name = "y"
dtype = "float32"
shape = [512]
make = "zeros"
returned = true
[[argument]]
name = "n"
dtype = "int32"
value = 65536
"""
SUMS = """extern "C" __global__ void sums(const float *x, float *y, int n)
{
    float sum = 0;
#pragma unroll 1
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += MAP(x[i]);
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


def speedup(version: dict[str, Any]) -> float:
    return float(version["speedup"])


def advised(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert run(["advise", *map(str, arguments), "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    return dict(kernel)


def test_loads_before_their_uses_gain(capsys: pytest.CaptureFixture[str]) -> None:
    """The loop of the shipped example, whose atomic keeps the compiler from it."""
    kernel = advised(capsys, KERNEL_SOURCE, "--launch", KERNEL_LAUNCH, "--top", 9)
    versions = {v["what"]: v for v in kernel["trials"]["versions"]}
    four = versions["pixels[i] of 4 rounds loaded before their uses at line 9"]
    assert four["speedup"] == pytest.approx(2.64, abs=0.05)
    assert four["results_equal"] is True
    by_name = {advice["optimizer"]: advice for advice in kernel["advice"]}
    assert by_name["batched-loads"]["how"] == "tried"
    assert by_name["batched-loads"]["speedup"] > 4
    assert kernel["advice"][0]["optimizer"] == "grid"
    assert kernel["trials"]["cpu_s"] < 30


def test_a_pragma_that_stands_there_is_tried_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.cu").write_text(f"#define MAP(v) (v)\n{SUMS}")
    (tmp_path / "k.toml").write_text(LAUNCH)
    kernel = advised(capsys, tmp_path / "k.cu", "--launch", tmp_path / "k.toml", "--top", 9)
    unrolled = [v for v in kernel["trials"]["versions"] if v["kind"] == "unroll"]
    assert unrolled
    assert all(v["results_equal"] and "at line 6, -restrict" in v["what"] for v in unrolled)
    best = max((v for v in kernel["trials"]["versions"] if v["kind"] == "batched-loads"), key=speedup)
    assert best["results_equal"] is True
    assert best["speedup"] > 5
    assert "loop-unrolling" not in [a["optimizer"] for a in kernel["advice"] if a["how"] != "tried"]


def test_a_version_that_alters_the_results_is_no_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fast sines of large angles are other numbers."""
    (tmp_path / "k.cu").write_text(f"#define MAP(v) sinf(1000 * (v))\n{SUMS}")
    (tmp_path / "k.toml").write_text(LAUNCH)
    kernel = advised(capsys, tmp_path / "k.cu", "--launch", tmp_path / "k.toml", "--top", 9)
    fast = [v for v in kernel["trials"]["versions"] if "-use_fast_math" in v["what"]]
    assert fast
    assert all(v["results_equal"] is False for v in fast)
    assert "fast-math" not in [a["optimizer"] for a in kernel["advice"]]
    command = ["advise", str(tmp_path / "k.cu"), "--launch", str(tmp_path / "k.toml")]
    assert run(command) == 0
    assert "altered the results: -use_fast_math" in capsys.readouterr().out


def test_what_there_is_no_time_for_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["advise", str(KERNEL_SOURCE), "--launch", str(KERNEL_LAUNCH), "--try-seconds", "0.001"]
    assert run(command) == 0
    assert "not tried for lack of time, --try-seconds gives more: " in capsys.readouterr().out
