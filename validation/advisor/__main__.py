"""Judge the advisor in simulation: ``python -m smlab.validation.advisor [--part P] [--out FILE]``.

Needs the CUDA compiler of the extra cuda12. Parts: ``blame``, ``samples``, ``worth``, ``speedups``; and of
kernels held out, ``unseen`` (speedups), ``unseen-blame``, ``unseen-worth``. What is found goes to a JSON
file, and with ``--record`` the track record that ``smlab advise`` tells, from all changes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.files import write_atomic
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.validation.advisor import blaming, speedups, worth
from smlab.validation.advisor.kernels import KERNELS, StudyKernel, study_gpu
from smlab.validation.advisor.simulate import SMS
from smlab.validation.advisor.stored import rounded
from smlab.validation.advisor.unseen import LATER_ROUNDS, ROUNDS

PARTS: Final = ("blame", "samples", "worth", "speedups", "unseen", "unseen-blame", "unseen-worth")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m smlab.validation.advisor", description=__doc__)
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part; repeatable")
    parser.add_argument("--gpu", default="v100", help="whose SMs, with their share of the rest")
    parser.add_argument("--kernel", action="append", help="only this kernel; repeatable")
    parser.add_argument("--out", type=Path, default=Path("results/advisor.json"), help="the results (JSON)")
    parser.add_argument("--record", type=Path, help="write the track record of the estimates (JSON)")
    given = parser.parse_args()
    kernels = [k for k in KERNELS if given.kernel is None or k.name in given.kernel]
    found = json.loads(given.out.read_text()) if given.out.is_file() else {}
    for part in given.part or PARTS:
        found["made_on"], found["gpu"] = time.strftime("%Y-%m-%d"), f"{given.gpu}, {SMS} SMs"
        found[part] = rounded(run(part, kernels, given.gpu))
        given.out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(given.out, json.dumps(found, indent=1) + "\n")
        if given.record is not None:
            write_atomic(given.record, json.dumps({"records": _records(found)}, indent=1) + "\n")
        print(json.dumps(found[part].get("summary", found[part]), indent=1))


def run(part: str, kernels: list[StudyKernel], name: str) -> dict[str, Any]:
    """One part of the study."""
    gpu = study_gpu(name)
    if part.startswith("unseen-"):
        kernels, part = list(LATER_ROUNDS), part.removeprefix("unseen-")
    if part == "blame":
        rows = blaming.judge(kernels, gpu, lambda done: print(done, file=sys.stderr))
        return {"summary": blaming.summary(rows), "worst_runs": blaming.worst_runs(rows)}
    if part == "samples":
        return {"by_samples": blaming.by_samples(kernels, gpu)}
    if part == "worth":
        producers = worth.judge(kernels, gpu)
        return {"summary": worth.summary(producers), "rows": producers}
    if part == "unseen":
        return {name: _estimates(round_of, gpu) for name, round_of in ROUNDS.items()}
    return _estimates(kernels, gpu)


def _records(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The track record from every change that was simulated."""
    parts = [found.get("speedups", {}), *found.get("unseen", {}).values()]
    rows = [speedups.ChangeRow(**row) for part in parts for row in part.get("rows", ())]
    return speedups.track_record(rows) if rows else []


def _estimates(kernels: Iterable[StudyKernel], gpu: Gpu) -> dict[str, Any]:
    changes, firsts = speedups.judge(kernels, gpu)
    return {
        "summary": speedups.summary(changes, firsts),
        "rows": [asdict(r) for r in changes],
        "first_advice": [asdict(f) for f in firsts],
    }


if __name__ == "__main__":
    main()
