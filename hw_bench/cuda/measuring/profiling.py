"""Benchmarks under Nsight Compute: the counters that the utilization model needs, kept as the profiler's
own CSV."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from smlab.hw_bench.cuda.measuring import plan
from smlab.hw_bench.cuda.measuring.dataset import read_table
from smlab.hw_bench.cuda.toolkit import require_gpu
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.atomics.required_counters import how_for

PROFILE: Final = "profiled"
"""The profile that is run: one launch a series, so that launches and rows of the data set follow each
other alike."""
_FORBIDDEN: Final = "ERR_NVGPUCTRPERM"


@dataclass(frozen=True)
class Profiled:
    """A profile on disk. The rows of the data sets in ``data_set`` are its launches, in order; ``command``
    made it."""

    profile: str
    data_set: str
    launches: int
    command: str


def profile(out: Path, benchmarks: Sequence[str]) -> Profiled:
    """Run ``benchmarks`` under ncu and write its CSV to ``out``, the data set beside it.

    Raises:
        SmlabError: without ncu or a GPU, where counters are not permitted, or when the run fails.
    """
    for name in benchmarks:
        if name not in plan.BENCHMARKS:
            raise SmlabError.at("benchmark", "unknown", name, "one of " + ", ".join(plan.BENCHMARKS))
    ncu = shutil.which("ncu")
    if ncu is None:
        raise SmlabError(
            "ncu (Nsight Compute) is not on PATH: it comes with the CUDA toolkit, or from "
            "developer.nvidia.com; "
            "profiling needs it and an NVIDIA GPU"
        )
    require_gpu()
    from smlab.hw_bench.cuda.measuring.harness import this_gpu

    folder = out.parent / f"{out.stem}-data"
    folder.mkdir(parents=True, exist_ok=True)
    command = command_line(ncu, this_gpu().compute_capability, out, folder, benchmarks)
    # It has no time limit: how long the benchmarks take is the GPU's, and Ctrl-C reaches ncu as well.
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)
    output = done.stdout + done.stderr + (out.read_text(errors="replace") if out.is_file() else "")
    if _FORBIDDEN in output:
        raise SmlabError(
            "ncu may not read counters here (ERR_NVGPUCTRPERM): run as root, or ask for "
            "NVreg_RestrictProfilingToAdminUsers=0"
        )
    if done.returncode != 0 or not out.is_file():
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise SmlabError(
            f"ncu failed with status {done.returncode}: {lines[-1] if lines else 'it output nothing'}"
        )
    rows = sum(len(read_table(folder / f"{name}.csv")[plan.COLUMNS[name][0]]) for name in benchmarks)
    return Profiled(str(out), str(folder), rows, shlex.join(command))


def command_line(ncu: str, capability: str, out: Path, folder: Path, benchmarks: Sequence[str]) -> list[str]:
    """The command that `smlab utilization --how` names for this compute capability, with the benchmarks as
    application. The GPU keeps the clock that it has: ncu would lock it to the base clock, by default."""
    words = shlex.split(how_for(capability).command)
    words[:1] = [ncu, "--clock-control", "none"]
    words[words.index("--log-file") + 1] = str(out)
    application = [
        sys.executable,
        "-P",
        "-m",
        "smlab.hw_bench.cuda.run_on_device",
        "--profile",
        PROFILE,
        "--out",
        str(folder),
    ]
    return [*words[:-1], *application, "--benchmarks", *benchmarks]
