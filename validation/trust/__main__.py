"""``python -m smlab.validation.trust --out models/trust_map.json``: make the trust map anew; ``--judge
220`` judges it as well."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.models.trust import MAKE, TrustMap
from smlab.validation.service_tables import engine_version, tables_of
from smlab.validation.trust.families import FIT, HELD_OUT
from smlab.validation.trust.fit import estimate_campaign, fit, joined_estimates, truth
from smlab.validation.trust.judge import as_text, judge
from smlab.validation.trust.simulate import run_campaign

GPUS = ("v100", "a100-40")
FIT_SEED, JUDGE_SEED = 2026, 7102
"""Streams that share nothing: the fitting and the judging families differ, and so do their seeds."""


def variants(gpus: Sequence[str]) -> list[tuple[str, Gpu]]:
    """The machines of a campaign: each GPU under each alternative that its description carries."""
    return [(f"{name}, {a.name}", gpu) for name in gpus for a, gpu in load_gpu(name).variants()]


def make_map(gpus: Sequence[str], count: int, seed: int, processes: int) -> TrustMap:
    """Simulate ``count`` kernels of each fitting family on each GPU under each of its alternatives, and
    fit."""
    tables, estimates = [], []
    machines = variants(gpus)
    for number, (name, gpu) in enumerate(machines):
        print(f"{name}: {number + 1} of {len(machines)}", file=sys.stderr)
        service = tables_of(gpu)
        table = run_campaign(gpu, list(FIT), count, seed + number, processes=processes)
        table = table.take(table.whole & (table.jobs > 0))
        tables.append(table)
        estimates.append(estimate_campaign(table, service))
    families = np.concatenate([t.family for t in tables])
    about = {
        "what": "quantiles of (exact - estimated) / (ceiling - floor) of the atomic unit's utilization; see "
        "models/trust.py",
        "made_by": MAKE,
        "gpus": [name for name, _ in machines],
        "families": list(FIT),
        "families_that_judge": list(HELD_OUT),
        "kernels": len(families),
        "seed": seed,
        "simulator": engine_version(),
    }
    return fit(families, joined_estimates(estimates), np.concatenate([truth(t) for t in tables]), about)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m smlab.validation.trust", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where to write the map (JSON)")
    parser.add_argument("--count", type=int, default=250, help="of each family and machine")
    parser.add_argument("--seed", type=int, default=FIT_SEED)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--judge", type=int, default=0, help="kernels of each held-out family to judge it by")
    options = parser.parse_args(arguments)
    began = time.perf_counter()
    trust = make_map(GPUS, options.count, options.seed, options.jobs)
    trust.write(options.out)
    print(
        f"{options.out}: {trust.about['kernels']} kernels in {time.perf_counter() - began:.0f} s",
        file=sys.stderr,
    )
    for name, gpu in variants(GPUS) if options.judge else ():
        began = time.perf_counter()
        table = run_campaign(gpu, list(HELD_OUT), options.judge, JUDGE_SEED, processes=options.jobs)
        took = time.perf_counter() - began
        judged = judge(table, tables_of(gpu), TrustMap.read(options.out))
        print(f"\n{name}: {int(table.whole.sum())} held-out kernels, {took:.0f} s\n{as_text(judged)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
