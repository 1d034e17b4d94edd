"""Make the studies of portability anew: ``python -m smlab.validation.portability causes [--pairs 200]`` or
``advice``; ``searches`` or ``signs [--data DIR [--stars 11]]``, with the folder of others' measurements, and
``--stars`` with the CUDA compiler; ``thesis --runs OLD NEW``, with the folders of ``smlab bench run
portability --on-simulator --gpu v100`` and ``a100-80``."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from smlab.hw_bench.files import write_atomic
from smlab.validation.portability.advice_study import JudgedChange, judge_advice, summary_of_advice
from smlab.validation.portability.causes import SEED, CausedRatio, judge_pair, summary
from smlab.validation.portability.compiled_signs import compiled_signs
from smlab.validation.portability.searches import all_pairs, judge_searches, summary_of_searches
from smlab.validation.portability.signs import copied_signs, projected_signs, summary_of_signs
from smlab.validation.portability.thesis import recorded
from smlab.validation.work.runner import Task, run_tasks

FOLDER = Path(__file__).parent
MADE_BY = "python -m smlab.validation.portability"
_LIST = re.compile(r"\[[^][{}]*\]")
"""A list of numbers, which takes one line."""


def main() -> int:
    parser = argparse.ArgumentParser(prog=MADE_BY, description=__doc__)
    parser.add_argument("study", choices=("advice", "causes", "searches", "signs", "thesis"))
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--data", type=Path, default=None, help="others' measurements, for searches")
    parser.add_argument("--stars", type=int, default=0, help="for signs: how many to compile")
    parser.add_argument("--runs", type=Path, nargs=2, metavar=("OLD", "NEW"), help="for thesis")
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args()
    if asked.study == "thesis":
        if asked.runs is None:
            parser.error("thesis: --runs OLD NEW is missing")
        found = recorded(*asked.runs)
    else:
        found = {"made_by": f"{MADE_BY} {asked.study}", "seed": asked.seed}
        found |= {"advice": _advice, "causes": _causes, "searches": _searches, "signs": _signs}[asked.study](
            asked
        )
    out = asked.out or FOLDER / f"{asked.study}.json"
    lines = _LIST.sub(lambda list_: " ".join(list_.group().split()), json.dumps(found, indent=1))
    write_atomic(out, lines + "\n")
    print(f"wrote {out}")
    return 0


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


def _searches(asked: argparse.Namespace) -> dict[str, Any]:
    outcomes = judge_searches(all_pairs(asked.data, asked.seed), progress=_told)
    return {"measured_searches": asked.data is not None, "budgets": summary_of_searches(outcomes)}


def _signs(asked: argparse.Namespace) -> dict[str, Any]:
    found = {"copied": summary_of_signs(copied_signs(asked.data, asked.seed))}
    projected = [] if asked.data is None else projected_signs(asked.data, asked.seed)
    found |= {"projected": summary_of_signs(projected)} if projected else {}
    if asked.data is None or not asked.stars:
        return found
    compiled = compiled_signs(asked.data, asked.seed, asked.stars, _told)
    return found | ({"stars": asked.stars, "compiled": summary_of_signs(compiled)} if compiled else {})


def _told(done: int, total: int) -> None:
    if done % 20 == 0 or done == total:
        print(f"{done} of {total}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
