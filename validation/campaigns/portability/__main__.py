"""Make the studies of portability anew: ``python -m smlab.validation.campaigns.portability causes [--pairs
200]`` or ``advice``; ``thesis --runs OLD NEW``, with the folders of ``smlab bench run portability
--on-simulator --gpu v100`` and ``a100-80``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.datasets.bench_folder import read_bench_folder
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import write_atomic
from smlab.hw_bench.gpu.devices import gpu_called
from smlab.hw_bench.sources import commit
from smlab.validation.campaigns.portability.advice import JudgedChange, judge_advice, summary_of_advice
from smlab.validation.campaigns.portability.causes import SEED, CausedRatio, judge_pair, summary
from smlab.validation.work.runner import Task, run_tasks

FOLDER = Path(__file__).parent
MADE_BY = "python -m smlab.validation.campaigns.portability"
KERNELS: Final[Mapping[str, str]] = {
    "butterfly": "butterfly",
    "neighbour": "neighbour-shuffle",
    **{f"bank-{ways}": f"bank-conflicts/{ways}" for ways in (4, 8, 16, 32)},
    "scan-conflicts": "prefix-sum",
    "scan-padded": "prefix-sum-padded",
}
"""The benchmark's kernel of each of the thesis's tables."""

_LIST = re.compile(r"\[[^][{}]*\]")
"""A list of numbers, which takes one line."""


def main() -> int:
    parser = argparse.ArgumentParser(prog=MADE_BY, description=__doc__)
    parser.add_argument("study", choices=("advice", "causes", "thesis"))
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--runs", type=Path, nargs=2, metavar=("OLD", "NEW"), help="for thesis")
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args()
    if asked.study == "thesis":
        if asked.runs is None:
            parser.error("thesis: --runs OLD NEW is missing")
        found = recorded(*asked.runs)
    else:
        found = {"made_by": f"{MADE_BY} {asked.study}", "seed": asked.seed}
        found |= {"advice": _advice, "causes": _causes}[asked.study](asked)
    out = asked.out or FOLDER / f"{asked.study}.json"
    lines = _LIST.sub(lambda list_: " ".join(list_.group().split()), json.dumps(found, indent=1))
    write_atomic(out, lines + "\n")
    print(f"wrote {out}")
    return 0


def recorded(old: Path, new: Path) -> dict[str, Any]:
    """The record of two folders of ``smlab bench run portability --on-simulator``.

    Raises:
        SmlabError: a folder without that benchmark, or one that was measured and not simulated.
    """
    sides = [read_bench_folder(folder) for folder in (old, new)]
    gpus = []
    for side in sides:
        gpu = gpu_called(side.device.removeprefix("simulated "))
        if not side.exact or gpu is None:
            raise SmlabError.at(str(side.path), "not a run on a described, simulated GPU", side.device)
        gpus.append(gpu)
    seconds = [
        {(str(k), int(c[1])): s for k, c, s in zip(side.kernel, side.config, side.seconds, strict=True)}
        for side in sides
    ]
    tables = {}
    for table, kernel in KERNELS.items():
        blocks = sorted(b for k, b in seconds[0] if k == kernel and (k, b) in seconds[1])
        tables[table] = {
            "kernel": kernel,
            "blocks": blocks,
            "microseconds": [[round(1e6 * s[kernel, b], 4) for b in blocks] for s in seconds],
        }
    return {
        "made_by": "smlab bench run portability --on-simulator on each GPU, then "
        "python -m smlab.validation.campaigns.portability thesis --runs OLD NEW",
        "commit": commit(),
        "gpus": [gpu.name for gpu in gpus],
        "clocks_hz": [float(gpu.number("clock.sm_hz")) for gpu in gpus],
        "tables": tables,
    }


def _causes(asked: argparse.Namespace) -> dict[str, Any]:
    judged: dict[int, CausedRatio] = {}
    tasks = [Task(number, judge_pair, (number, asked.seed)) for number in range(asked.pairs)]
    run_tasks(tasks, judged.__setitem__, jobs=asked.jobs, progress=_told)
    return summary([judged[number] for number in sorted(judged)])


def _advice(asked: argparse.Namespace) -> dict[str, Any]:
    judged: dict[int, list[JudgedChange]] = {}
    tasks = [Task(number, judge_advice, (number, asked.seed)) for number in range(asked.pairs)]
    run_tasks(tasks, judged.__setitem__, jobs=asked.jobs, progress=_told)
    found = [one for number in sorted(judged) for one in judged[number]]
    return {"kernels": asked.pairs, "changes": summary_of_advice(found)}


def _told(done: int, total: int) -> None:
    if done % 20 == 0 or done == total:
        print(f"{done} of {total}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
