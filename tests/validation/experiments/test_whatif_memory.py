"""The memory that a study takes does not grow with its points."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import resource
import sys
from pathlib import Path
from smlab.validation.experiments.run.running import run_whatif
from smlab.validation.experiments.design.study import read_study

outcome = run_whatif(read_study(Path(sys.argv[1])), Path(sys.argv[2]), jobs=1, effects=False)
print(outcome.points, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""

STUDY = """
title = "many points"
responses = ["utilization", "n_mean", "response_time"]

[base]
model = "mm1"

[factors]
arrival_rate = { range = [0.1, 0.9] }
service_rate = { range = [1, 2], base = 1.5 }

[design]
kind = "random"
samples = SAMPLES
"""

FEW, MANY = 4_000, 14_000
"""Beyond a few thousand points, all buffers are full."""

SLACK_KB = 3_000
"""A point kept as a row of Python objects takes half a kilobyte or more: 10,000 of them would be seen."""


def peak_kb(folder: Path, samples: int) -> int:
    folder.mkdir()
    study = folder / "study.toml"
    study.write_text(STUDY.replace("SAMPLES", str(samples)))
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(study), str(folder / "out")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    points, peak = (int(text) for text in finished.stdout.split())
    assert points == samples + 1
    return peak


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has another unit elsewhere")
def test_memory_is_flat(tmp_path: Path) -> None:
    few, many = (peak_kb(tmp_path / str(samples), samples) for samples in (FEW, MANY))
    assert many - few < SLACK_KB
