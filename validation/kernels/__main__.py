"""Execute a drawn part of KTT's convolution and hold it against the measured search; results are kept and
resumed. Needs the CUDA compiler of the extra cuda12."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path

import pandas as pd

from smlab.hw_bench.errors import end_with
from smlab.hw_bench.files import write_atomic
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.experiments.run.running import PARQUET, STORE, run_whatif
from smlab.validation.kernels.judge import (
    best_of,
    counter_ratios,
    measured_columns,
    time_errors,
    told_clock_hz,
)
from smlab.validation.kernels.measured import SOURCE, drawn, make_study, read_card


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m smlab.validation.kernels", description=__doc__)
    parser.add_argument("folder", type=Path, help=f"KTT's files (.json.gz) and {SOURCE}")
    parser.add_argument("--card", required=True, help="the GPU's name, such as rtx-2080-ti")
    parser.add_argument("--configurations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sms", type=int, default=1, help="SMs that are simulated")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--dask", help="address of a Dask scheduler")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    gpu = load_gpu(asked.card)
    times = read_card(asked.folder, gpu)
    rows = drawn(times, asked.configurations, asked.seed)
    study = make_study(times, rows, gpu, asked.folder / SOURCE, asked.out, asked.sms)

    def told(done: int, total: int, ran: int) -> None:
        print(f"\r{done} of {total}", end="", file=sys.stderr, flush=True)

    jobs = None if asked.dask else asked.jobs
    resume = (asked.out / STORE).is_file()
    outcome = run_whatif(
        study, asked.out, jobs=jobs, dask=asked.dask, resume=resume, progress=told, effects=False
    )
    print(file=sys.stderr)
    points = pd.read_parquet(asked.out / PARQUET)
    points = points[points["case"] > 0].reset_index(drop=True)
    for failure in outcome.failures:
        print(f"case {failure.case} failed: {failure.error}", file=sys.stderr)
    frame = pd.concat([points, measured_columns(times, rows, gpu.number("clock.sm_hz"))], axis=1)
    frame = frame[frame["error"] == ""] if frame["error"].dtype == object else frame
    frame = frame.dropna(subset=["cycles"]).reset_index(drop=True)
    frame.to_csv(asked.out / "rows.csv", index=False, lineterminator="\n")
    ratios, errors = counter_ratios(frame), time_errors(frame, gpu)
    schedulers = gpu.integer("gpu.sms") * gpu.integer("sm.schedulers")
    summary = {
        "gpu": gpu.name,
        "rows": len(frame),
        "failed": outcome.failed,
        "seed": asked.seed,
        "sms": asked.sms,
        "clock_told_hz": told_clock_hz(frame, schedulers),
        "counters": [dataclasses.asdict(r) for r in ratios],
        "times": [e.as_json() for e in errors],
        "best_of_ten_slower_percent": best_of(frame),
    }
    write_atomic(asked.out / "summary.json", json.dumps(summary, indent=1) + "\n")
    for r in ratios:
        spread = f"{r.median:.4f} ({r.p5:.4f} to {r.p95:.4f})"
        print(f"{r.counter}: ours / measured {spread}, {r.equal} of {r.n} equal")
    for e in errors:
        t = e.errors
        line = f"MAPE {t.mape:.1f} %, bias {t.bias:.3f}, Spearman {e.spearman:.3f}"
        print(f"{e.rows} (n = {t.n}), clock of {e.clock} {e.clock_hz / 1e6:.0f} MHz: {line}")
        print("    " + ", ".join(f"{name} {table.mape:.1f} %" for name, table in e.baselines.items()))
    print(f"best of the ten predicted fastest: {best_of(frame):.1f} % above the best measured")
    return 0


if __name__ == "__main__":
    end_with(main)
