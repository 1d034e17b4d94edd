"""Judge projections on the data of others anew: ``python -m smlab.validation.projection.measured FOLDER``."""

from __future__ import annotations

import argparse
from pathlib import Path

from smlab.validation.projection.measured.judging import judge_measured
from smlab.validation.projection.measured.records import RECORDS, write_records

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", type=Path, help="holds neusight, tuning/ktt-convolution, tuning/kernel-tuner"
    )
    found = judge_measured(parser.parse_args().folder)
    write_records(found)
    for p in found.pairs:
        c = p.comparison
        print(
            f"{p.kind}, {p.source} to {p.target}: {c.error:.1f} % ({c.baseline} {c.baseline_error:.1f}, "
            f"constant {p.constant:.1f}): {c.word}; held {p.held:.0f} %, +{p.width:.0f} %"
        )
    for b in found.bought:
        print(f"{b.cases}: without {b.mechanism} {b.without:.1f} %, with it {b.with_it:.1f} %")
    print(f"wrote {RECORDS}")
