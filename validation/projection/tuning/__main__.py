"""Fit the width of projected intervals anew and tell how often they hold for families left out:
``python -m smlab.validation.projection.tuning ktt:DIR --from G --to G``."""

from __future__ import annotations

import argparse

from smlab.hw_bench.datasets import read_tuning
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.models.roofline.uncertainty import FACTOR
from smlab.validation.projection.tuning.coverage import tuning_coverage
from smlab.validation.projection.tuning.judge import judge_tuning

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--from", dest="source", required=True)
    parser.add_argument("--to", dest="target", required=True)
    asked = parser.parse_args()
    judged = judge_tuning(
        read_tuning(asked.dataset), load_gpu(asked.source), load_gpu(asked.target), parts=False
    )
    found = tuning_coverage(judged)
    print(f"factor {found.factor:.3f} (in use: {FACTOR})")
    for f in found.families:
        width = f"+{100 * f.median_width:.0f} % at the median"
        print(f"{f.family}: {f.n} rows, {100 * f.coverage:.0f} % held, {width}")
    print(f"all: {100 * found.pooled:.1f} % held, each family's width fitted without it")
