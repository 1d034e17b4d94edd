"""The benchmark judged: what `shared-atomics` measures of a GPU whose T(n, e, c) is known exactly.

``smlab bench run shared-atomics --on-simulator --gpu G`` runs its machine code on a simulated GPU.
Its times are held against the exact ones of the same description, which come from operations without any code
around them. What is left is the benchmark's own measuring error: reading the clock, the loop, the path before
the unit. ``python -m smlab.validation.kernels.benchmark FOLDER --gpu G`` prints it by form.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.validation.calibrate.cases import Cases
from smlab.validation.calibrate.dataset import read_set
from smlab.validation.calibrate.fit import atomic_parameters
from smlab.validation.calibrate.predict import CLOSING, FRAME, LINK, MEASURING, Predictor

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FormErrors:
    """Errors of one form's times, in percent of the exact ones: ``bias`` is signed and a median, the others
    are of the absolute error. ``worst`` says where."""

    form: str
    n: int
    bias: float
    median: float
    p95: float
    worst: str


def measured_frame(cases: Cases) -> dict[str, float]:
    """What the benchmark itself says of its clock and of a link of its chain: its kernels without an
    operation.

    Raises:
        SmlabError: a data set without them.
    """
    frames = cases.select(cases.form == "frame")
    clock, chain = frames.select(frames.iterations == 0), frames.select(frames.iterations > 0)
    if not len(clock) or len(np.unique(chain.iterations)) < 2:
        raise SmlabError("the set has no kernel without an operation: none/batch, and none/dependent twice")
    slope = np.polyfit(chain.iterations.astype(np.float64), chain.cycles, 1)[0]
    return {FRAME: float(np.median(clock.cycles)), LINK: float(slope)}


def measuring_errors(folder: Path, gpu: Gpu) -> list[FormErrors]:
    """Of every form in a data set that was made on the simulated ``gpu``; ``all`` is the last.

    Raises:
        SmlabError: a set of something else.
    """
    found = read_set(folder)
    if "SIMULATED" not in found.about:
        raise SmlabError.at(str(folder), "was not made by bench run --on-simulator", found.name())
    values = {p.name: float(gpu.number(p.name)) for p in atomic_parameters(gpu) if p.name not in MEASURING}
    values |= {CLOSING: float(gpu.number("shared.load_latency_cycles")), **measured_frame(found.atomics)}
    cases = found.atomics.select(found.atomics.form != "frame")
    exact = Predictor(gpu, cases).cycles(values)
    error = 100 * (cases.cycles / exact - 1)
    names = np.char.add(np.char.add(cases.operation.astype("U24"), " "), cases.form)
    rows = [_errors(name, cases, error, names == name) for name in sorted(set(names.tolist()))]
    forms = sorted(set(cases.form.tolist()))
    rows += [_errors(f"every {form}", cases, error, cases.form == form) for form in forms]
    return [*rows, _errors("all", cases, error, np.ones(len(cases), dtype=bool))]


def _errors(form: str, cases: Cases, error: Floats, at: NDArray[np.bool_]) -> FormErrors:
    own = error[at]
    place = int(np.flatnonzero(at)[np.argmax(np.abs(own))])
    where = ", ".join(
        f"{name}={int(getattr(cases, name)[place])}"
        for name in ("warps", "cas_warps", "lanes", "same_word", "same_bank", "iterations")
    )
    return FormErrors(
        form,
        len(own),
        float(np.median(own)),
        float(np.median(np.abs(own))),
        float(np.percentile(np.abs(own), 95)),
        f"{own[np.argmax(np.abs(own))]:+.1f} % at {where}",
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m smlab.validation.kernels.benchmark", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gpu", required=True)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = measuring_errors(asked.folder, load_gpu(asked.gpu))
    if asked.json:
        print(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
        return 0
    for r in rows:
        told = f"bias {r.bias:+.2f} %, median {r.median:.2f} %, 95th percentile {r.p95:.2f} %"
        print(f"{r.form}: n = {r.n}, {told}; worst {r.worst}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SmlabError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
