"""Judge projections of a kernel's time to another GPU anew: ``python -m
smlab.validation.campaigns.projection``

- ``held``: how often projected intervals hold on simulated kernels (`held.json` of the product);
- ``measured FOLDER``: the data of others, `records.json` here;
- ``width DATASET --from G --to G``: the width of projected intervals, fitted anew, and how often they hold
  for families of configurations left out;
- ``tiles``: the tiles of a library's products, executed (`tiles.json` of the product);
- ``rows``: softmax of long rows, executed (the same file).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from smlab.hw_bench.datasets import read_tuning
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.models.projection.uncertainty import FACTOR
from smlab.validation.campaigns.projection.coverage import tuning_coverage
from smlab.validation.campaigns.projection.held_intervals import count_covered
from smlab.validation.campaigns.projection.measured import judge_measured
from smlab.validation.campaigns.projection.records import RECORDS, write_records
from smlab.validation.campaigns.projection.rows import write_rows
from smlab.validation.campaigns.projection.tiles import write_tiles
from smlab.validation.projection.coverage_records import HELD, write_coverage
from smlab.validation.projection.tuning import TuningOptions, judge_tuning


def measured(folder: Path) -> None:
    found = judge_measured(folder)
    write_records(found)
    for p in found.pairs:
        c = p.comparison
        print(
            f"{p.kind}, {p.source} to {p.target}: {c.error:.1f} % ({c.baseline} {c.baseline_error:.1f}, "
            f"constant {p.constant:.1f}): {c.word}; held {p.held:.0f} %, +{p.width:.0f} %"
        )
    for b in found.mechanism_gain:
        print(f"{b.cases}: without {b.mechanism} {b.without:.1f} %, with it {b.with_it:.1f} %")
    print(f"wrote {RECORDS}")


def width(dataset: str, source: str, target: str) -> None:
    judged = judge_tuning(
        read_tuning(dataset), load_gpu(source), load_gpu(target), TuningOptions(parts=False)
    )
    found = tuning_coverage(judged)
    print(f"factor {found.factor:.3f} (in use: {FACTOR})")
    for f in found.families:
        told = f"+{100 * f.median_width:.0f} % at the median"
        print(f"{f.family}: {f.n} rows, {100 * f.coverage:.0f} % held, {told}")
    print(f"all: {100 * found.pooled:.1f} % held, each family's width fitted without it")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    parts.add_parser("held")
    parts.add_parser("tiles")
    parts.add_parser("rows")
    parts.add_parser("measured").add_argument(
        "folder", type=Path, help="holds neusight, tuning/ktt-convolution, tuning/kernel-tuner"
    )
    fitted = parts.add_parser("width")
    fitted.add_argument("dataset")
    fitted.add_argument("--from", dest="source", required=True)
    fitted.add_argument("--to", dest="target", required=True)
    asked = parser.parse_args()
    if asked.part == "held":
        write_coverage(count_covered())
        print(f"wrote {HELD}")
    elif asked.part == "tiles":
        write_tiles()
    elif asked.part == "rows":
        write_rows()
    elif asked.part == "measured":
        measured(asked.folder)
    else:
        width(asked.dataset, asked.source, asked.target)


if __name__ == "__main__":
    main()
