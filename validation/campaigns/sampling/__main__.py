"""Kernels by others on one, two and four SMs, beside all SMs.

``python -m smlab.validation.campaigns.sampling`` writes `results.json` anew: some 25 minutes of one core.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.sim import Record
from smlab.sim.execution.run import MachineRun, run_machine_code
from smlab.sim.frontends.launching import machine_launch
from smlab.sim.frontends.protocol import LoadedKernel
from smlab.sim.frontends.registry import load_kernel
from smlab.sim.isa.launch.launch_file import read_launch
from smlab.validation.campaigns.advisor.pairs import read_round, with_inputs
from smlab.validation.service_tables import rules_version

SAMPLES: Final = 1, 2, 4
ROUNDS: Final = tuple(f"round_{n}" for n in range(10, 18))
SETS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "a100-40": ("fit", ROUNDS),
    "h100-sxm": ("judge", ROUNDS),
    "v100": ("judge", ("gpa",)),
}
"""By GPU: whether the rules of samples were made in view of it, and the kernels."""


def rows_of(gpu_name: str, rounds: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The kernels of rounds with more blocks than the GPU has SMs: cycles of the whole grid, and of each
    sample with its interval."""
    gpu = load_gpu(gpu_name)
    for pair in (pair for name in rounds for pair in read_round(name, gpu_name)):
        with tempfile.TemporaryDirectory() as temporary:
            files = with_inputs(pair, Path(temporary))
            try:
                whole = _run(files, gpu, "all")
                if whole.blocks <= gpu.integer("gpu.sms"):
                    continue
                row: dict[str, Any] = {"kernel": pair.name, "whole": whole.cycles}
                for sms in SAMPLES:
                    part = _run(files, gpu, sms)
                    row[str(sms)] = [round(x) for x in (part.cycles, part.cycles_low, part.cycles_high)]
            except SmlabError as error:
                print(f"{gpu_name} {pair.name}: {error}", file=sys.stderr)
                continue
        print(gpu_name, row, file=sys.stderr, flush=True)
        yield row


def _run(files: Path, gpu: Gpu, sms: int | str) -> MachineRun:
    kernel = LoadedKernel(load_kernel(files / "before.cu", gpu.sm_architecture))
    file = read_launch(files / "launch.toml")
    more = {"shared_bytes": file.shared_bytes, "constants": file.constants}
    launch = machine_launch(kernel, file.grid, file.block, file.arguments, more)
    return run_machine_code(launch, gpu, sms=sms, keep=Record.TOTALS, threads=1)


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """By the number of SMs: kernels, errors in percent of the whole grid's cycles (mean, median, nine tenths
    below), how many intervals hold it, and their half-widths in percent."""
    found = {}
    for sms in map(str, SAMPLES):
        whole = np.array([row["whole"] for row in rows])
        cycles, low, high = np.array([row[sms] for row in rows]).T
        errors = 100 * np.abs(cycles / whole - 1)
        found[sms] = {
            "kernels": len(rows),
            "mean_percent": round(float(errors.mean()), 1),
            "median_percent": round(float(np.median(errors)), 1),
            "nine_tenths_percent": round(float(np.quantile(errors, 0.9)), 1),
            "held": int(((low <= whole) & (whole <= high)).sum()),
            "half_width_percent": round(float(np.median(50 * (high - low) / cycles)), 1),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", choices=[*SETS], action="append", help="only on this one")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.json"))
    asked = parser.parse_args()
    stored = json.loads(asked.out.read_text(encoding="utf-8")) if asked.out.is_file() else {}
    for gpu, (use, rounds) in SETS.items():
        if asked.gpu and gpu not in asked.gpu:
            continue
        rows = [*rows_of(gpu, rounds)]
        stored[gpu] = {"rules": rules_version(), "use": use, "summary": summary(rows), "rows": rows}
        print(gpu, use, json.dumps(stored[gpu]["summary"]))
        asked.out.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
