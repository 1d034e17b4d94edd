"""A data set of a machine that is known: simulated times in the suite's format, with noise. For tests and
dry runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.cuda.kernels.points import MAX_WARPS, AtomicPoint
from smlab.hw_bench.cuda.measuring import plan
from smlab.hw_bench.cuda.measuring.dataset import DataSet
from smlab.hw_bench.cuda.measuring.plan import BenchmarkProfile
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.inputs import load_json
from smlab.validation.calibrate.cases import Cases, Floats
from smlab.validation.calibrate.fit import atomic_parameters, shared_parameters
from smlab.validation.calibrate.noise import noise_of_median
from smlab.validation.calibrate.predict import (
    BASE,
    CAS_LINK,
    FRAME,
    ISSUE_FRAME,
    LINK,
    MEASURING,
    Predictor,
    key,
)

FRAME_CYCLES: Final = 12.0
"""Assumed: what reading the clock around an operation takes; a fit must not depend on it."""
ATOMIC_KERNELS: Final = (
    "none/batch",
    "none/dependent",
    "add-result/batch",
    "add-result/dependent",
    "max/batch",
    "exchange/dependent",
    "add/independent",
    "popc-inc/independent",
    "add/burst",
)
REPETITIONS: Final = 5
BANK_KERNELS: Final = ("load/batch", "load/dependent", "store/independent")
_FORMS: Final = {"batch": "batch", "dependent": "looped", "independent": "stream", "burst": "burst"}


def write_simulated(
    folder: Path, gpu: Gpu, *, profile: BenchmarkProfile | None = None, noise: float = 0.03, seed: int = 0
) -> dict[str, float]:
    """Write what the suite would measure on the simulated ``gpu`` into ``folder``; gives the true constants.

    Every time is multiplied by log-normal noise of relative width ``noise`` and rounded to whole cycles. Rows
    that the simulator has no time for (float addition, four operations of a warp under way) are not written.
    """
    profile = profile or plan.profile("quick")
    parameters = (*atomic_parameters(gpu), *shared_parameters(gpu))
    truth = {p.name: float(gpu.number(p.name)) for p in parameters if p.name not in MEASURING}
    truth |= {
        FRAME: FRAME_CYCLES,
        ISSUE_FRAME: FRAME_CYCLES / 2,
        LINK: float(gpu.number("pipe.int32.latency_cycles")),
        CAS_LINK: float(gpu.number("pipe.int32.latency_cycles")),
    }
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    about = {
        "profile": profile.name,
        "gpu": f"simulated {gpu.name}",
        "compute_capability": gpu.compute_capability,
        "sms": gpu.integer("gpu.sms"),
        "simulated_truth": truth,
        "noise": noise,
        "seed": seed,
    }
    suite = _SimulatedSuite(folder, gpu, profile, noise, rng)
    _write(suite, "shared-atomics", about, ATOMIC_KERNELS, truth)
    _write(suite, "shared-banks", about, BANK_KERNELS, truth)
    latency = DataSet(folder, "latency", plan.LATENCY_COLUMNS, about, resume=False)
    links = float(gpu.number("shared.load_latency_cycles")) * _noisy(rng, noise, 4)
    rows = [("shared", 4096, 128, profile.links, 1, 0, c, c, c, 0.0) for c in np.round(links, 4).tolist()]
    latency.add("shared", [dict(zip(plan.LATENCY_COLUMNS, row, strict=True)) for row in rows], {}, {})
    latency.close(complete=True)
    return truth


def _noisy(rng: np.random.Generator, noise: float, count: int) -> Floats:
    return np.exp(noise * rng.standard_normal(count))


@dataclass(frozen=True)
class _SimulatedSuite:
    """What all data sets of one simulated suite share: where they go, the machine, and its noise."""

    folder: Path
    gpu: Gpu
    profile: BenchmarkProfile
    noise: float
    rng: np.random.Generator


def _write(
    suite: _SimulatedSuite, name: str, about: dict[str, Any], kernels: Sequence[str], truth: dict[str, float]
) -> None:
    gpu, noise = suite.gpu, suite.noise
    data = DataSet(suite.folder, name, plan.ATOMIC_COLUMNS, about, resume=False)
    for launch in plan.point_launches(name, kernels, suite.profile, gpu.integer("sm.max_warps")):
        operation, form = launch.kernel.split("/")
        points, iterations = launch.points, launch.iterations
        if operation == "none":
            each = np.full(len(points), truth[LINK] if form == "dependent" else truth[FRAME])
        else:
            # Before Ampere the assembler makes an addition of it.
            counted = operation == "popc-inc" and not gpu.has(key("popc_inc", BASE))
            cases = _cases("add" if counted else operation, form, points, iterations)
            each = Predictor(gpu, cases).cycles(truth)
        if form in {"dependent", "independent"}:
            each = FRAME_CYCLES + iterations * each
        times = np.maximum(1, np.rint(each * _noisy(suite.rng, noise, len(points))))
        rows = _rows(operation, form, points, iterations, times, noise)
        data.add(launch.name, rows, {}, {})
    data.close(complete=True)


def _cases(operation: str, form: str, points: Sequence[AtomicPoint], iterations: int) -> Cases:
    columns = np.array(
        [
            (p.warps, p.cas_warps, p.pattern.lanes, p.pattern.same_word, p.pattern.same_bank, iterations)
            for p in points
        ]
    ).T
    return Cases.build([operation] * len(points), _FORMS[form], columns, np.ones(len(points)), 1.0)


def _rows(
    operation: str, form: str, points: Sequence[AtomicPoint], iterations: int, times: Floats, noise: float
) -> Iterable[dict[str, Any]]:
    # As if each were the median of so many repetitions.
    told = noise / float(noise_of_median(REPETITIONS))
    for point, time in zip(points, times.tolist(), strict=True):
        pattern = point.pattern
        values = (
            operation, form, point.warps, point.cas_warps, pattern.lanes, pattern.same_word,
            pattern.same_bank, iterations,
            2 if point.warps > MAX_WARPS else 1, 0, REPETITIONS, 0, int(time), float(time), int(time),
            round(told, 6), 0.0,
        )  # fmt: skip
        yield dict(zip(plan.ATOMIC_COLUMNS, values, strict=True))


def is_measured(folder: Path) -> bool:
    """Whether a folder holds a data set that did not come from here."""
    note = folder / "shared-atomics.json"
    if not note.is_file():
        return False
    try:
        return "simulated_truth" not in load_json(note)
    except (SmlabError, TypeError):
        return True
