"""Versions of CUDA C that ``smlab advise`` compiles and tries by itself."""

import dataclasses
import importlib.util
import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

import smlab
from smlab.cli.main import run
from smlab.commands.advise import api
from smlab.examples import KERNEL_LAUNCH, KERNEL_SOURCE
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.cubin import unloaded
from smlab.hw_bench.sass.nvrtc import compile_cuda
from smlab.sim import Record
from smlab.validation.sampled_run import executed

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
    assert all(v["results_equal"] and "at line 6 + __restrict__" in v["what"] for v in unrolled)
    best = max((v for v in kernel["trials"]["versions"] if v["kind"] == "batched-loads"), key=speedup)
    assert best["results_equal"] is True
    assert best["speedup"] > 5
    assert "loop-unrolling" not in [a["optimizer"] for a in kernel["advice"] if a["how"] != "tried"]


def test_a_version_that_alters_the_results_is_no_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fast sines of large angles are other numbers."""
    (tmp_path / "k.cu").write_text(f"#define MAP(v) sinf(1e6f * (v))\n{SUMS}")
    (tmp_path / "k.toml").write_text(LAUNCH.replace("65536", "8192"))
    command = ["advise", str(tmp_path / "k.cu"), "--launch", str(tmp_path / "k.toml"), "--top", "9"]
    assert run(command) == 0
    advice, altered = " ".join(capsys.readouterr().out.split()).split("altered the results: ")
    assert "-use_fast_math" in altered
    assert "fast-math" not in advice
    assert "-use_fast_math" not in advice


def test_what_there_is_no_time_for_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["advise", str(KERNEL_SOURCE), "--launch", str(KERNEL_LAUNCH), "--try-seconds", "0.001"]
    assert run(command) == 0
    assert "For these there was no time (--try-seconds gives more): " in capsys.readouterr().out


INLINED = """__device__ float weight(float x)
{
    float w = 1;
#pragma unroll 1
    for (int j = 0; j < 8; j++)
        w = w * x + 0.5f;
    return w;
}
extern "C" __global__ void weights(const float *x, float *y, int n)
{
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += weight(x[i]);
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""
PLACE = 0x7F800F264300


def loaded(cubin: bytes) -> bytes:
    """A cubin as a report of Nsight Compute holds it: symbols and the table of lines have the place of the
    code in the GPU's memory. With further bytes behind it."""
    file, content = ELFFile(io.BytesIO(cubin)), bytearray(cubin)
    table = file.get_section_by_name(".symtab")
    for n, symbol in enumerate(table.iter_symbols()):
        number = symbol["st_shndx"]
        if isinstance(number, int) and file.get_section(number).name.startswith(".text."):
            struct.pack_into("<Q", content, table["sh_offset"] + n * 24 + 8, PLACE + symbol["st_value"])
    lines = file.get_section_by_name(".debug_line")
    for entry in file.get_section_by_name(".rel.debug_line").iter_relocations():
        struct.pack_into("<Q", content, lines["sh_offset"] + entry["r_offset"], PLACE)
    return bytes(content) + b"the rest of the report"


def test_a_report_tells_the_line_within_an_inlined_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report itself gives one line an instruction, that of the inlined function."""
    source, report = tmp_path / "k.cu", tmp_path / "k.ncu-rep"
    source.write_text(INLINED)
    report.touch()
    cubin = compile_cuda(INLINED, "sm_70", [], str(source))
    assert unloaded(loaded(cubin)).startswith(cubin)
    x, y = np.linspace(1, 2, 65536, dtype=np.float32), np.zeros(512, dtype=np.float32)
    done = smlab.run(source, 4, 128, x, y, np.int32(len(x)), gpu="v100", keep=Record.ALL)
    samples = executed(done, load_gpu("v100")).samples()
    code = done.launch.image.function.instructions
    innermost = {i.address: i.source.line for i in code if i.source is not None}
    rows = tuple(
        dataclasses.replace(r, address=PLACE + r.address, line=innermost.get(r.address)) for r in samples.rows
    )
    text = dict(enumerate(INLINED.splitlines(), start=1))
    kept = dataclasses.replace(samples, kernel="weights", rows=rows, cubin=loaded(cubin), source=text)
    monkeypatch.setattr(api, "read_report_samples", lambda path: (kept,))
    assert run(["advise", str(report), "--gpu", "v100", "--html", str(tmp_path / "k.html"), "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    calls = [b for b in kernel["blame"] if b["cause_line"] == 13]
    assert sum(b["samples"] for b in calls) > kernel["samples"] / 2
    places = [spot for advice in kernel["advice"] for spot in advice["at"]]
    inside = [spot for spot in places if spot["function"].endswith("k.cu:5")]
    assert inside
    assert {(spot["line"], spot["loop_line"]) for spot in inside} == {(13, 5)}
    assert {spot["loop_line"] for spot in places if "k.cu" not in spot["function"]} <= {12, None}
    page = (tmp_path / "k.html").read_text()
    assert "line 13, inlined k.cu:" in page
    assert "return w;" in page
