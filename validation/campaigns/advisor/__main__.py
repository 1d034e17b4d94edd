"""Judge the advisor in simulation: ``python -m smlab.validation.campaigns.advisor [--part P] [--out FILE]``.

Needs the CUDA compiler of the extra cuda12. Parts: ``blame``, ``samples``, ``producer-gains``,
``speedups``; of kernels held out, ``held-out`` (speedups), ``held-out-blame``,
``held-out-producer-gains``; of kernels made by chance, ``generated`` (blame); of kernels by others,
``pairs`` (the command's advice) and ``second-hand`` (two engineers' gains by one change); of GPA's own
benchmark ``published``, and of a draw of our kernels ``tried`` (the same). What is found goes to a JSON file,
and with ``--record`` the track record that ``smlab advise`` tells, from all changes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from smlab.hw_bench.files import write_atomic
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sources import digest_of, package_folder
from smlab.validation.campaigns.advisor import (
    blame,
    measured,
    pair_inputs,
    pairs,
    producer_gains,
    second_hand,
    simulate,
    speedups,
    stall_truth,
    tried_changes,
)
from smlab.validation.campaigns.advisor.generated_kernels import JUDGED, SHAPED, generated
from smlab.validation.campaigns.advisor.gpa import changes, inputs
from smlab.validation.campaigns.advisor.kernels import (
    KERNELS,
    LATER_ROUNDS,
    ROUNDS,
    StudyKernel,
    study_gpu,
)
from smlab.validation.campaigns.advisor.section import rounded, stored_results
from smlab.validation.work.encoding import decode, encode
from smlab.validation.work.store import Entry, Store


class Named(Protocol):
    """What is judged: `StudyKernel`, `pairs.ChangedKernel`."""

    @property
    def name(self) -> str: ...

    @property
    def source(self) -> str: ...


K = TypeVar("K", bound=Named)
R = TypeVar("R")
PACKAGES: Final = ("smlab.sim", "smlab.models", "smlab.hw_bench", "smlab.commands")
_MODULES: Final = (
    *(blame, measured, pair_inputs, pairs, producer_gains, changes, inputs),
    *(second_hand, simulate, speedups, stall_truth, tried_changes),
)
JUDGES: Final = tuple(Path(str(module.__file__)) for module in _MODULES)
"""All code that results depend on."""
PATHS: Final = (
    "blame",
    "samples",
    "producer-gains",
    "speedups",
    "held-out",
    "held-out-blame",
    "held-out-producer-gains",
    "generated",
    "pairs",
    "second-hand",
    "published",
    "tried",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m smlab.validation.campaigns.advisor", description=__doc__)
    parser.add_argument("--part", choices=PATHS, action="append", help="only this part; repeatable")
    parser.add_argument("--gpu", default="v100", help="whose SMs, with their share of the rest")
    parser.add_argument("--kernel", action="append", help="only this kernel; repeatable")
    parser.add_argument("--out", type=Path, default=Path("results/advisor.json"), help="the results (JSON)")
    parser.add_argument(
        "--store", type=Path, default=Path("results/advisor.sqlite"), help="what is done, to go on from"
    )
    parser.add_argument("--record", type=Path, help="write the track record of the estimates (JSON)")
    given = parser.parse_args()
    found = json.loads(given.out.read_text()) if given.out.is_file() else {}
    with Store(given.store) as store:
        study = KeptStudy(given.gpu, store, given.kernel)
        for part in given.part or PATHS:
            found["made_on"], found["gpu"] = time.strftime("%Y-%m-%d"), f"{given.gpu}, {simulate.SMS} SMs"
            found[part] = rounded(run(part, study))
            given.out.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(given.out, json.dumps(found, indent=1) + "\n")
            if given.record is not None:
                write_atomic(given.record, json.dumps({"records": _records(found)}, indent=1) + "\n")
            print(json.dumps(found[part].get("summary", found[part]), indent=1))


class KeptStudy:
    """A GPU's study whose results are kept kernel by kernel, so that one that is stopped goes on."""

    def __init__(self, gpu: str, store: Store, names: Sequence[str] | None = None) -> None:
        self.gpu, self.store, self.names = study_gpu(gpu), store, names
        self._code = digest_of(*map(package_folder, PACKAGES), *JUDGES)

    def each(self, what: str, kernels: Iterable[K], judge_one: Callable[[K, Gpu], R]) -> list[R]:
        """What ``judge_one`` finds of each kernel; taken from the store where the same code has found it."""
        found: list[R] = []
        for kernel in kernels:
            if self.names is not None and kernel.name not in self.names:
                continue
            constants = sorted((k, str(c.value)) for k, c in self.gpu.constants.items())
            parts = (what, kernel, kernel.source, constants, self._code)
            key = hashlib.sha256(repr(parts).encode()).digest()
            known = self.store.get([key])
            if key not in known:
                asked = {"what": what, "kernel": kernel.name}
                known = {key: Entry(key, asked, {"found": encode(judge_one(kernel, self.gpu))})}
                self.store.add(known.values())
                print(f"{what}: {kernel.name}", file=sys.stderr)
            found.append(decode(known[key].result["found"]))
        return found


def run(part: str, study: KeptStudy) -> dict[str, Any]:
    """One part of the study."""
    kernels: Sequence[StudyKernel] = KERNELS
    if part == "held-out-blame":
        return _held_out_blame(study)
    if part == "generated":
        return _generated(study)
    if part == "held-out":
        return {name: _estimates(study, round_of) for name, round_of in ROUNDS.items()}
    if part == "pairs":
        return _pairs(study)
    if part == "second-hand":
        return _second_hand(study)
    if part == "published":
        published = changes.published_changes()
        answers = study.each(part, published, changes.judge_one)
        return changes.judged(answers, [changes.gain_of(pair) for pair in published])
    if part == "tried":
        return _tried(study)
    if part.startswith("held-out-"):
        kernels, part = LATER_ROUNDS, part.removeprefix("held-out-")
    if part == "blame":
        runs = [row for rows in study.each(part, kernels, blame.judge_one) for row in rows]
        return {"summary": blame.summary(runs), "worst_runs": blame.worst_runs(runs)}
    if part == "samples":
        return {"by_samples": blame.by_samples(study.each(part, kernels, blame.by_samples_one))}
    if part == "producer-gains":
        producers = study.each(part, kernels, producer_gains.judge_one)
        return {"summary": producer_gains.summary(producers), "rows": producers}
    return _estimates(study, kernels)


def _held_out_blame(study: KeptStudy) -> dict[str, Any]:
    """Blame on the later rounds together, and on each: the last alone was written when its rules were
    finished."""
    later = {kernel.name for kernel in LATER_ROUNDS}
    rounds = {name: kernels for name, kernels in ROUNDS.items() if kernels[0].name in later}
    found = {
        name: [row for rows in study.each("blame", kernels, blame.judge_one) for row in rows]
        for name, kernels in rounds.items()
    }
    every = [row for rows in found.values() for row in rows]
    by_round = {name: blame.summary(rows) for name, rows in found.items() if rows}
    return {
        "summary": blame.summary(every),
        "rounds": by_round,
        "worst_runs": blame.worst_runs(every),
    }


def _generated(study: KeptStudy) -> dict[str, Any]:
    """Blame on kernels made by chance: those that rules were chosen on, and those that judge."""
    found = {}
    for name, seeds in (("shaped", SHAPED), ("judged", JUDGED)):
        kernels = [generated(seed) for seed in seeds]
        rows = [row for of in study.each("blame", kernels, blame.judge_one) for row in of]
        found[name] = {"summary": blame.summary(rows), "worst_runs": blame.worst_runs(rows)}
    return {"summary": {name: part["summary"] for name, part in found.items()}} | found


def _pairs(study: KeptStudy) -> dict[str, Any]:
    """The command's advice on kernels by others."""
    return pairs.all_judged(
        {name: study.each("pairs", kernels, pairs.judge_one) for name, kernels in pairs.PAIRS.items()}
    )


def _second_hand(study: KeptStudy) -> dict[str, Any]:
    """Two engineers' gains by the same changes, beside what was told of them when they were new."""
    made = [one for name in second_hand.ROUNDS for one in pairs.PAIRS[name]]
    rows = study.each("second-hand", made, second_hand.judge_one)
    stored = stored_results()["pairs"]
    answers = [answer for name in second_hand.ROUNDS for answer in pairs.answers_of(stored[name])]
    return second_hand.judged(rows, [answer.row for answer in answers])


def _tried(study: KeptStudy) -> dict[str, Any]:
    """The command's advice on a draw of our kernels; intervals with kinds of changes left out in turn."""
    rows = study.each("tried", tried_changes.drawn(), tried_changes.judge_one)
    answers = [one for of in rows for one in of]
    intervals = pairs.intervals([one.row for one in answers])
    return pairs.judged(pairs.with_intervals(answers, intervals)) | {"intervals": intervals}


def _estimates(study: KeptStudy, kernels: Iterable[StudyKernel]) -> dict[str, Any]:
    found = study.each("speedups", kernels, speedups.judge_one)
    every = (*KERNELS, *(kernel for round_of in ROUNDS.values() for kernel in round_of))
    known = [row for rows, _ in study.each("speedups", every, speedups.judge_one) for row in rows]
    changes = speedups.with_intervals([row for rows, _ in found for row in rows], known)
    firsts = [first for _, firsts in found for first in firsts]
    return {
        "summary": speedups.summary(changes, firsts),
        "rows": [asdict(r) for r in changes],
        "first_advice": [asdict(f) for f in firsts],
    }


def _records(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The track record from every change that was simulated; of kernels by others from those alone that were
    opened when the method was frozen."""
    parts = [found.get("speedups", {}), *found.get("held-out", {}).values()]
    rows = [speedups.ChangeRow(**row) for part in parts for row in part.get("rows", ())]
    new = [name for name in pairs.PAIRS if name not in pairs.DEVELOPED and "pairs" in found]
    answers = [answer for name in new for answer in pairs.answers_of(found["pairs"][name])]
    by_others = [answer.row for answer in answers]
    ends = found["pairs"]["intervals"] if new else {"low": 1.0, "high": 1.0}
    ends_of = ends["low"], ends["high"]
    return [*speedups.track_record(rows, by_others, ends_of), measured.record(ends_of)] if rows else []


if __name__ == "__main__":
    main()
