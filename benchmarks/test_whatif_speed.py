"""Speed of what-if studies: points a second, and what a point costs beside its simulation (``make
bench``)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from smlab.validation.experiments.design.study import read_study
from smlab.validation.experiments.run.outcome import StudyOutcome
from smlab.validation.experiments.run.running import run_whatif

STUDY = """
title = "ten thousand small kernels"
responses = ["cycles", "utilization", "speedup"]

[base]
gpu = "v100"
workload = "atomics"
set.iterations = 10
set.returns = true
set.same_word = 32

[factors]
warps = { range = [1, 16] }
same_word = [1, 2, 4, 8, 16, 32]
gpu.atomic.add.latency_cycles = { range = [10, 100] }
gpu.atomic.add.base_interval_cycles = { range = [1, 4] }
gpu.atomic.queue_entries = { range = [2, 16] }

[design]
kind = "random"
samples = 10_000
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_ten_thousand_points(benchmark: Callable[..., object], tmp_path: Path, jobs: int) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    study = read_study(path)
    out = tmp_path / "out"

    def run() -> StudyOutcome:
        return run_whatif(study, out, jobs=jobs, effects=False)

    benchmark.group = "study of 10,000 points"  # type: ignore[attr-defined]
    outcome = benchmark.pedantic(run, setup=lambda: shutil.rmtree(out, ignore_errors=True), rounds=3)  # type: ignore[attr-defined]
    assert (outcome.ran, outcome.failed) == (10_001, 0)
    times = outcome.times
    benchmark.extra_info["points_per_s"] = outcome.ran / times.wall_s  # type: ignore[attr-defined]
    benchmark.extra_info["overhead_ms_per_point"] = 1e3 * times.overhead_s_per_point(outcome.ran)  # type: ignore[attr-defined]
