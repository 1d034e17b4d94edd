"""Tuning spaces from a GPU's counters to another GPU: a planted space, and the real one where it is at
hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smlab.cli.main import run
from smlab.commands.port.tune import CompiledConfigurations
from smlab.hw_bench.datasets import read_tuning
from smlab.hw_bench.datasets.timed_work import work_of_times
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass import CodeComparison, Footprint
from smlab.hw_bench.sass.compare import FunctionRegions
from smlab.hw_bench.sass.image import CompiledResources
from smlab.models.projection.projection import ProjectionSwitches, project
from smlab.models.projection.uncertainty import FACTOR
from smlab.validation.campaigns.projection.coverage import tuning_coverage
from smlab.validation.method.widths import left_out, width_factor
from smlab.validation.projection.tuning import TuningOptions, judge_tuning
from smlab.validation.projection.tuning_code import TuningSource
from smlab.validation.projection.tuning_guess import compiled_times, guessed_times

HERE, THERE = load_gpu("rtx-2080-ti"), load_gpu("rtx-3090")


def computation(gpu: Any, tile: int, requests: float, counters: bool) -> dict[str, Any]:
    """A kernel that its memory instructions limit on both GPUs: 2 cycles each, no byte or wavefront
    beside."""
    sms, clock = gpu.integer("gpu.sms"), float(gpu.number("clock.sm_hz"))
    blocks = 20 * 68 * 82
    found: dict[str, Any] = {
        "KernelFunction": "k",
        "Duration": 1e6 * 2 * requests / sms / clock,
        "GlobalSize": {"X": blocks, "Y": 1, "Z": 1},
        "LocalSize": {"X": 256, "Y": 1, "Z": 1},
        "CompilationData": {"RegistersCount": 32, "LocalMemorySize": 0, "PrivateMemorySize": 0},
    }
    if counters:
        named = {
            "smsp__inst_executed.sum": 2 * requests,
            "smsp__thread_inst_executed_per_inst_executed.ratio": 32.0,
            "smsp__sass_thread_inst_executed_op_memory_pred_on.sum": 32 * requests,
            "sm__warps_active.avg.pct_of_peak_sustained_active": 100.0,
        }
        found["ProfilingData"] = {"Counters": [{"Name": n, "Value": v} for n, v in named.items()]}
    return found


def planted(folder: Path) -> Path:
    for gpu, name, counters in ((HERE, "2080 Ti", True), (THERE, "3090", False)):
        results = [
            {
                "Configuration": [{"Name": "TILE_SIZE_X", "Value": tile}],
                "ComputationResults": [computation(gpu, tile, 1e8 * tile, counters)],
                "Status": "Ok",
            }
            for tile in (1, 2, 3, 4)
        ]
        metadata = {
            "Device": f"NVIDIA GeForce RTX {name}",
            "TimeUnit": "Microseconds",
            "GlobalSizeType": "CUDA",
        }
        (folder / f"{name}.json").write_text(json.dumps({"Metadata": metadata, "Results": results}))
    return folder


def test_a_planted_space_is_projected_exactly(tmp_path: Path) -> None:
    bare = ProjectionSwitches(overhead_s=0.0)
    judged = judge_tuning(read_tuning(f"ktt:{planted(tmp_path)}"), HERE, THERE, TuningOptions(bare))
    assert judged.every is not None
    assert judged.every.projected.mape < 2
    assert judged.every.coverage == 100
    assert set(judged.family) == {f"k TILE_SIZE_X={n}" for n in (1, 2, 3, 4)}
    assert dict(judged.every.baselines)["FP32 ratio"].mape > 40
    assert {"as published", "without requests"} <= set(dict(judged.without))
    found = tuning_coverage(judged)
    assert found.pooled == 1.0
    assert len(found.families) == 4


def test_the_command_prints_and_gives_the_agreed_keys(tmp_path: Path, capsys) -> None:
    asked = ["project", "--dataset", f"ktt:{planted(tmp_path)}", "--from", "rtx-2080-ti", "--to", "rtx-3090"]
    assert run(asked) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "4 configurations from NVIDIA GeForce RTX 2080 Ti" in printed
    assert "90 % interval holds" in printed
    assert run([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"coverage", "median_width", "baseline_constant_mape", "spearman_ratio", "mape"} <= set(
        found["errors"]
    )
    assert {"low_s", "mid_s", "high_s", "actual_s", "limiter", "flags"} <= set(found["kernels"][0])
    assert "without requests" in found["errors"]["parts"]


def test_a_target_without_measurements_and_a_source_without_any(tmp_path: Path, capsys) -> None:
    folder = planted(tmp_path)
    judged = judge_tuning(read_tuning(f"ktt:{folder}"), HERE, load_gpu("a100-40"))
    assert judged.every is None
    assert any("nothing to compare with" in note for note in judged.notes)
    with pytest.raises(
        SmlabError, match=r"no measurement of the source .*'t4'.*one of NVIDIA GeForce RTX 2080 Ti"
    ):
        judge_tuning(read_tuning(f"ktt:{folder}"), load_gpu("t4"), THERE)
    assert run(["project", "--dataset", "nothing:x", "--from", "t4", "--to", "v100"]) == 2
    assert "ktt:DIR" in capsys.readouterr().err


def test_a_space_without_counters_is_projected_by_peaks_and_says_so(tmp_path: Path) -> None:
    cache = {
        "device_name": "NVIDIA A100-PCIE-40GB",
        "kernel_name": "k",
        "tune_params_keys": ["block_size_x"],
        "cache": {"32": {"block_size_x": 32, "time": 2.0, "times": [2.0]}},
    }
    (tmp_path / "a.json").write_text(json.dumps(cache))
    a100, a4000 = load_gpu("a100-40"), load_gpu("rtx-a4000")
    judged = judge_tuning(read_tuning(f"kernel-tuner:{tmp_path}"), a100, a4000)
    assert any("no counters" in note for note in judged.notes)
    p = judged.projection
    fp32 = a100.number("peak.fp32_flops_per_s") / a4000.number("peak.fp32_flops_per_s")
    issue = 108 * 1410 / 48 / 1560
    assert p.mid_s[0] == pytest.approx(2e-3 * np.sqrt(fp32 * issue), rel=0.02)
    assert p.high_s[0] / p.mid_s[0] == pytest.approx(p.mid_s[0] / p.low_s[0])
    assert p.high_s[0] / p.mid_s[0] > 1.5
    same = judge_tuning(read_tuning(f"kernel-tuner:{tmp_path}"), a100, a100).projection
    assert same.low_s[0] == same.high_s[0] == pytest.approx(2e-3)


def test_a_factor_holds_with_the_level_that_was_asked_for() -> None:
    rng = np.random.default_rng(3)
    family = np.repeat(np.arange(40), 50)
    width = rng.uniform(0.02, 0.3, len(family))
    error = rng.normal(size=len(family)) * width
    assert width_factor(error, width, family) == pytest.approx(1.645, rel=0.06)
    found = left_out(error, width, family)
    assert np.mean([f.coverage for f in found]) == pytest.approx(0.9, abs=0.03)
    assert {f.n for f in found} == {50}


def test_every_family_has_the_same_say_in_a_factor() -> None:
    """A family of a thousand cases and one of ten: the factor is that of ten families of a hundred each."""
    error, family = np.r_[np.full(1000, 1.0), np.full(10, 9.0)], np.r_[np.zeros(1000), np.ones(10)]
    assert width_factor(error, np.ones(len(error)), family) == 9.0
    with pytest.raises(SmlabError, match="two families or more"):
        left_out(error[:5], np.ones(5), family[:5])


def test_the_real_space_within_what_was_asked_for(shared_data: Path) -> None:
    """KTT's convolution, RTX 2080 Ti to RTX 3090: 12 %, 80 % of the rows within +-20 %, ranks of the ratio
    0.75."""
    judged = judge_tuning(
        read_tuning(f"ktt:{shared_data / 'tuning' / 'ktt-convolution'}"),
        HERE,
        THERE,
        TuningOptions(parts=False),
    )
    assert judged.every is not None
    assert judged.every.projected.n == 3080
    assert judged.every.projected.mape < 12
    assert judged.every.coverage > 80
    assert judged.every.median_width < 20
    assert judged.every.spearman_ratio is not None
    assert judged.every.spearman_ratio > 0.75
    found = tuning_coverage(judged)
    assert found.factor == pytest.approx(FACTOR, rel=0.02)
    assert 0.85 < found.pooled < 0.95


def test_pnpoly_whose_comparisons_are_no_multiply_adds(shared_data: Path) -> None:
    """KTT's point-in-polygon, RTX 2080 Ti to RTX 3090: 10 %, 80 to 97 % inside, ranks of the ratio above
    0.6. A clock that is told is used."""
    sets = read_tuning(f"ktt:{shared_data / 'tuning' / 'ktt-pnpoly'}")
    judged = judge_tuning(sets, HERE, THERE, TuningOptions(parts=False))
    assert judged.every is not None
    assert judged.every.projected.mape < 10
    assert 80 <= judged.every.coverage <= 97
    assert judged.every.spearman_ratio is not None
    assert judged.every.spearman_ratio > 0.6
    slow = ProjectionSwitches(target_clock_hz=1.4e9)
    told = judge_tuning(sets, HERE, THERE, TuningOptions(slow, parts=False))
    assert np.median(told.projection.mid_s / judged.projection.mid_s) > 1.1


class PlantedSource(TuningSource):
    """Code of which the target's takes four times the registers; nothing is compiled."""

    def compare(self, times, rows, source, target, progress=None):
        here = FunctionRegions("k", "sm_75", (), Footprint(32, 0, 0))
        return [CodeComparison(here, replace(here, footprint=Footprint(128, 0, 0))) for _ in rows]

    def distinct(self, times, rows):
        return list(rows)


def test_the_targets_code_gives_its_registers(tmp_path: Path) -> None:
    sets = read_tuning(f"ktt:{planted(tmp_path)}")
    judged = judge_tuning(sets, HERE, THERE, TuningOptions(code=PlantedSource(tmp_path / "k.cu"), draw=3))
    assert len(judged.projection) == 3
    assert "without the target's code" in dict(judged.without)
    assert all("128 registers (32 on the source)" in " ".join(f) for f in judged.projection.flags)
    again = judge_tuning(sets, HERE, THERE, TuningOptions(code=PlantedSource(tmp_path / "k.cu"), draw=3))
    assert again.labels == judged.labels  # drawn with a seed
    assert len(judge_tuning(sets, HERE, THERE, TuningOptions(draw=2)).projection) == 2


def test_times_by_compiled_code_lie_between_both_readings(tmp_path: Path) -> None:
    """What ``port tune --source`` advises by."""
    (here,) = (s for s in read_tuning(f"ktt:{planted(tmp_path)}") if s.counters is not None)
    rows = [0, 1, 2]
    found = compiled_times(here, rows, here.seconds, HERE, THERE, PlantedSource(tmp_path / "k.cu"))
    by_counters = guessed_times(here, here.seconds, HERE, THERE).seconds[rows]
    work = work_of_times(here, np.array(rows), here.seconds[rows], HERE)
    more = work.with_values(registers_per_thread=np.full(3, 128.0))
    by_code = project(work, HERE, THERE, target_work=more).mid_s
    assert found == pytest.approx(np.sqrt(by_counters * by_code), rel=1e-6)


def test_a_code_is_compiled_once_for_all_rows_that_share_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "k.cu").write_text("__global__ void k(float* a) { a[0] = TILE_SIZE_X / 2; }")
    (here,) = (s for s in read_tuning(f"ktt:{planted(tmp_path)}") if s.counters is not None)
    pairs = replace(here, parameters=("TILE_SIZE_X", "UNREAD"), config=((1, 0), (1, 1), (2, 0), (2, 1)))
    compiled: list[int] = []
    monkeypatch.setattr(TuningSource, "cubin", lambda self, times, row, gpu: compiled.append(row) or b"")
    few = CompiledResources(32, 0, 0)
    monkeypatch.setattr("smlab.commands.port.tune.resources_of", lambda *_: few)
    configurations = CompiledConfigurations(TuningSource(tmp_path / "k.cu"), THERE, None)
    assert all(configurations.fits(pairs, row) for row in range(4))
    assert compiled == [0, 2]


def test_rows_whose_source_reads_the_same_macros_share_their_code(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__global__ void k(float* a) { a[0] = TILE_SIZE_X / 2; }")
    (here,) = (s for s in read_tuning(f"ktt:{planted(tmp_path)}") if s.counters is not None)
    pairs = replace(here, parameters=("TILE_SIZE_X", "UNREAD"), config=((1, 0), (1, 1), (2, 0), (2, 1)))
    assert TuningSource(tmp_path / "k.cu").distinct(pairs, [0, 1, 2, 3]) == [0, 2]


def test_macros_that_headers_read_make_other_code(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "k.cu").write_text('#include "beside.cuh"\n#include <far.cuh>\n__global__ void k(float* a);')
    (tmp_path / "beside.cuh").write_text("#define WIDTH TILE_SIZE_X\n")
    (tmp_path / "lib" / "far.cuh").write_text("#define DEPTH READ_THERE\n")
    (here,) = (s for s in read_tuning(f"ktt:{planted(tmp_path)}") if s.counters is not None)
    pairs = replace(here, parameters=("TILE_SIZE_X", "READ_THERE"), config=((1, 0), (1, 1), (2, 0), (2, 1)))
    assert TuningSource(tmp_path / "k.cu").distinct(pairs, [0, 1, 2, 3]) == [0, 2]
    whole = TuningSource(tmp_path / "k.cu", folders=(tmp_path / "lib",))
    assert whole.distinct(pairs, [0, 1, 2, 3]) == [0, 1, 2, 3]


def test_code_that_does_not_go_with_a_set_is_refused(tmp_path: Path, capsys) -> None:
    asked = ["project", "--dataset", f"ktt:{planted(tmp_path)}", "--from", "rtx-2080-ti", "--to", "rtx-3090"]
    (tmp_path / "k.cubin").write_bytes(b"x")
    assert run([*asked, "--cubin", str(tmp_path / "k.cubin")]) == 2
    assert "--source, compiled for each configuration" in capsys.readouterr().err
    assert run([*asked, "--source", str(tmp_path / "no.cu")]) == 2
    assert "no.cu" in capsys.readouterr().err
