"""Measure the suite on the GPU at hand, in one call: ``python -m smlab.hw_bench.cuda.run_on_device --out
DIR``.

Exit status: 0 when all was measured and all results were right, 1 when something was wrong or the machine
code broke its contract, 2 when it cannot run, 130 when interrupted (what was measured is kept, and
``--resume`` resumes).
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from smlab.hw_bench.cuda.measuring import plan
from smlab.hw_bench.cuda.measuring.harness import measure
from smlab.hw_bench.errors import SmlabError


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="run_on_device", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the data sets")
    parser.add_argument("--profile", choices=sorted(plan.PROFILES), default="full")
    parser.add_argument("--benchmarks", nargs="+", default=list(plan.BENCHMARKS), metavar="NAME")
    parser.add_argument("--resume", action="store_true", help="resume from the data sets in the folder")
    parser.add_argument(
        "--keep-held-back", action="store_true", help="keep what was measured while the GPU was held back"
    )
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    began = time.monotonic()

    def progress(line: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {line}", file=sys.stderr, flush=True)

    try:
        outcome = measure(
            options.out,
            profile=options.profile,
            benchmarks=options.benchmarks,
            resume=options.resume,
            keep_held_back=options.keep_held_back,
            progress=progress,
        )
    except SmlabError as error:
        print(error, file=sys.stderr)
        return 2
    for name, count in outcome.rows.items():
        print(f"{name}: {count} rows in {options.out / name}.csv")
    for line in (outcome.wrong + outcome.broken)[:20]:
        print(f"WRONG {line}")
    for line in outcome.held_back[:20]:
        print(
            f"NOT KEPT {line}: the GPU was held back; --resume measures it again, --keep-held-back keeps it"
        )
    if outcome.interrupted:
        print("interrupted; --resume continues", file=sys.stderr)
        return 130
    return 1 if outcome.wrong or outcome.broken or outcome.held_back else 0


def _interrupt(number: int, _: object) -> None:
    """SIGTERM is treated like Ctrl-C."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
