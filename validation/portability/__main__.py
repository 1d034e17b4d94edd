"""Make the studies of portability anew: ``python -m smlab.validation.portability causes [--pairs 200]``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from smlab.hw_bench.files import write_atomic
from smlab.validation.portability.causes import SEED, CausedRatio, judge_pair, summary
from smlab.validation.work.runner import Task, run_tasks

FOLDER = Path(__file__).parent
MADE_BY = "python -m smlab.validation.portability"


def main() -> int:
    parser = argparse.ArgumentParser(prog=MADE_BY, description=__doc__)
    parser.add_argument("study", choices=("causes",))
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--out", type=Path, default=FOLDER / "causes.json")
    asked = parser.parse_args()
    judged: dict[int, CausedRatio] = {}
    tasks = [Task(number, judge_pair, (number, asked.seed)) for number in range(asked.pairs)]
    run_tasks(tasks, judged.__setitem__, jobs=asked.jobs, progress=_told)
    found = {"made_by": f"{MADE_BY} causes", "seed": asked.seed}
    found |= summary([judged[number] for number in sorted(judged)])
    write_atomic(asked.out, json.dumps(found, indent=1) + "\n")
    print(f"wrote {asked.out}")
    return 0


def _told(done: int, total: int) -> None:
    if done % 20 == 0 or done == total:
        print(f"{done} of {total} pairs", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
