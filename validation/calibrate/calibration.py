"""Calibrating: read a data set, split it, fit, simulate, compare, and write a GPU description with what was
fitted.
"""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import replacing, write_atomic
from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu
from smlab.hw_bench.gpu.inherit import REQUIRED
from smlab.hw_bench.gpu.schema import KEYS_BY_NAME
from smlab.hw_bench.inputs import resolved
from smlab.validation.calibrate import judge
from smlab.validation.calibrate.cases import Cases, Floats, SkippedCase
from smlab.validation.calibrate.dataset import MeasuredSet, read_set
from smlab.validation.calibrate.fit import (
    Fit,
    Fitted,
    NotFitted,
    Parameter,
    atomic_parameters,
    fit,
    shared_parameters,
    split,
)
from smlab.validation.calibrate.judge import Errors, LackOfFit, Residual, lack_of_fit
from smlab.validation.calibrate.predict import MEASURING, UNIT_QUEUE, Predictor, followed


def write_description(
    path: Path, base: str, gpu: Gpu, *, title: str, source: str, same_card: bool, fitted: Sequence[Fitted]
) -> Gpu:
    """Write ``path`` as an extension of ``base`` (a name, or a description's path) and read it back.

    ``same_card`` keeps what the base says of its own card; otherwise that is only assumed of this one.

    Raises:
        SmlabError: a path that cannot be written, or values that a description cannot have.
    """
    known = [f for f in fitted if f.name in KEYS_BY_NAME]
    parent = base if base in list_gpus() or base in gpu.aliases else os.path.relpath(base, path.parent)
    lines = [
        f"title = {json.dumps(title)}",
        f"extends = {json.dumps(parent)}",
        *(["same_card = true"] if same_card else []),
        "",
        "[sources]",
        f"data-set = {json.dumps(source)}",
    ]
    groups: dict[str, list[str]] = {}
    if not same_card:  # what every board must say itself: as of the base, for want of anything better
        lines.append(
            f"as-base = {json.dumps(f'assumed: as on {gpu.name}, which the calibration began from')}"
        )
        for name in REQUIRED:
            group, _, short = name.rpartition(".")
            c = gpu[name]
            record = f'{{ value = {c.value!r}, unit = "{c.unit}", kind = "assumed", source = "as-base" }}'
            groups.setdefault(group, []).append(f"{short} = {record}")
    for f in known:
        group, _, name = f.name.rpartition(".")
        groups.setdefault(group, []).append(f"{name} = {_record(f)}")
    for group, records in groups.items():
        lines += ["", f"[{group}]", *records]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, "\n".join(lines) + "\n")
    except OSError as error:
        raise SmlabError(f"{path}: cannot be written: {error}") from error
    return load_gpu(path)


def _record(f: Fitted) -> str:
    key = KEYS_BY_NAME[f.name]
    digits = 0 if key.type is int else 4
    minimum = key.minimum if key.minimum is not None else float("-inf")
    value, low, high = (round(max(x, minimum), digits) for x in (f.value, f.low, f.high))
    if key.type is int:
        value, low, high = int(value), int(low), int(high)
    return (
        f'{{ value = {value}, unit = "{key.unit}", kind = "calibrated", source = "data-set", '
        f"low = {min(low, value)}, high = {max(high, value)} }}"
    )


SHARE = 0.05
"""Share of the cases to fit."""


@dataclass(frozen=True)
class Calibration:
    """What came of a calibration.

    ``fitted`` and ``not_fitted`` are the constants of atomic unit and shared-memory pipe. ``errors`` and
    ``residuals`` are of judged cases only. ``scatter_percent`` is the relative scatter of the fitted cases
    around the simulator. ``drift`` is by how much, relative, times had risen at the end of the run, 0 where
    they tell none; ``drifting`` is whether they do. ``lack`` is the test of all cases of the atomic unit
    against the noise of their repetitions; None where there are none. ``disturbed_rows`` of the data had a
    repetition far from the others.
    """

    data: str
    simulated_data: bool
    fitted: tuple[Fitted, ...]
    not_fitted: tuple[NotFitted, ...]
    skipped: tuple[SkippedCase, ...]
    disturbed_rows: int
    points_fitted: int
    points_judged: int
    seed: int
    scatter_percent: float
    drift: float
    drifting: bool
    errors: tuple[Errors, ...]
    residuals: tuple[Residual, ...]
    lack: LackOfFit | None
    description: Gpu | None

    def mape(self, group: str, predictor: str = "calibrated") -> float:
        """MAPE of one predictor on one group of judged cases; NaN where the data set has none of it."""
        for e in self.errors:
            if (e.group, e.predictor) == (group, predictor):
                return e.table.mape
        return math.nan

    @property
    def follows(self) -> bool:
        """Whether the mechanism follows the data: no lack of fit that their own noise does not explain; of
        data without repetitions, which tell none, both judged errors within what is asked."""
        if self.lack is not None:
            return not self.lack.found
        add, everything = self.mape("fetch-and-add, n <= 32"), self.mape("atomic unit, all")
        return add <= judge.FOLLOWS_ADD and everything <= judge.FOLLOWS_ALL


@dataclass(frozen=True, eq=False)
class _Part:
    """One unit's cases, which of them were fitted, the fit, and all predictors' times; ``lack`` is tested
    only for the atomic unit."""

    cases: Cases
    chosen: NDArray[np.bool_]
    fit: Fit
    predictions: dict[str, Floats]
    lack: LackOfFit | None


def calibrate(
    folder: Path,
    base: str,
    *,
    out: Path | None = None,
    cases_out: Path | None = None,
    share: float = SHARE,
    seed: int = 0,
) -> Calibration:
    """Calibrate the description ``base`` to the data set in ``folder``; write the result to ``out`` and all
    cases to ``cases_out``.

    Raises:
        SmlabError: a data set that cannot be read, or one of a GPU of another compute capability than the
        description's.
    """
    if out is not None and (out.suffix != ".toml" or resolved(out) == resolved(Path(base))):
        raise SmlabError.at(
            str(out), "cannot be the calibrated description", expected="a .toml file of its own"
        )
    data, gpu = read_set(folder), load_gpu(base)
    parts, skipped = _parts(data, gpu, share, seed, None)
    found, predictions = _judged(data, parts, skipped, seed)
    if cases_out is not None:
        _write_cases(cases_out, parts, predictions)
    if out is None:
        return found
    same_card = not data.simulated and data.about.get("sms") == gpu.integer("gpu.sms")
    title = f"{gpu.title}, calibrated" + (" to SIMULATED data (a dry run)" if data.simulated else "")
    description = write_description(
        out, base, gpu, title=title, source=_source(found, data), same_card=same_card, fitted=found.fitted
    )
    return replace(found, description=description)


def calibrate_set(
    data: MeasuredSet,
    base: str,
    *,
    share: float = SHARE,
    seed: int = 0,
    truth: dict[str, float] | None = None,
) -> Calibration:
    """As `calibrate`, of a data set that has been read; writes nothing. ``truth``, if known, is judged
    beside the calibration."""
    parts, skipped = _parts(data, load_gpu(base), share, seed, truth)
    return _judged(data, parts, skipped, seed)[0]


def _parts(
    data: MeasuredSet, gpu: Gpu, share: float, seed: int, truth: dict[str, float] | None
) -> tuple[list[_Part], list[SkippedCase]]:
    """Both units calibrated; the shared-memory pipe where the data set has it."""
    capability = data.about.get("compute_capability")
    if capability != gpu.compute_capability:
        raise SmlabError.at(
            f"{data.folder}: compute_capability",
            f"is not that of {gpu.name}",
            capability,
            gpu.compute_capability,
        )
    parts = [_calibrated(gpu, data.atomics, atomic_parameters(gpu), share, seed, truth)]
    skipped = list(data.skipped)
    if len(data.shared) > len(shared_parameters(gpu)):
        parts.append(_calibrated(gpu, data.shared, shared_parameters(gpu), share, seed, truth))
    elif len(data.shared):
        skipped.append(SkippedCase("shared-memory pipe", len(data.shared), "too few rows to fit"))
    return parts, skipped


def _judged(
    data: MeasuredSet, parts: list[_Part], skipped: list[SkippedCase], seed: int
) -> tuple[Calibration, dict[str, Floats]]:
    cases = Cases.join([p.cases for p in parts])
    chosen = np.concatenate([p.chosen for p in parts])
    predictions = {
        name: np.concatenate([p.predictions[name] for p in parts]) for name in parts[0].predictions
    }
    # Each unit has its own frame, from the same rows: the first one's is told.
    told = [(p, p is parts[0]) for p in parts]
    found = Calibration(
        data=data.name(),
        simulated_data=data.simulated,
        fitted=tuple(f for p, first in told for f in p.fit.fitted if first or f.name not in MEASURING),
        not_fitted=tuple(
            n for p, first in told for n in p.fit.not_fitted if first or n.name not in MEASURING
        ),
        skipped=tuple(skipped),
        disturbed_rows=data.disturbed_rows,
        points_fitted=int(chosen.sum()),
        points_judged=int((~chosen).sum()),
        seed=seed,
        scatter_percent=100 * parts[0].fit.scatter,
        drift=parts[0].fit.drift,
        drifting=parts[0].fit.shared.drifting,
        errors=tuple(judge.errors(cases, ~chosen, predictions)),
        residuals=tuple(judge.residuals(cases, ~chosen, predictions["calibrated"])),
        lack=parts[0].lack,
        description=None,
    )
    return found, predictions


def mechanism_lack(gpu: Gpu, cases: Cases, near: Fit, parameters: list[Parameter]) -> LackOfFit | None:
    """The test with constants fitted to all of the cases, beginning ``near`` those of a part: a mechanism
    lacks something where no constants bring it to the data, not where a share of the rows tells the constants
    but roughly."""
    cases = cases.select(followed(gpu, cases))
    found = fit(gpu, cases, [replace(p, start=near.values.get(p.name, p.start)) for p in parameters])
    return lack_of_fit(
        cases,
        Predictor(gpu, cases).cycles(found.values) * found.drift_of(cases),
        constants=len(found.fitted),
        launch_scatter=found.launch_scatter,
    )


def _calibrated(
    gpu: Gpu,
    cases: Cases,
    parameters: list[Parameter],
    share: float,
    seed: int,
    truth: dict[str, float] | None,
) -> _Part:
    chosen = split(gpu, cases, share, seed)
    found = fit(gpu, cases.select(chosen), parameters)
    predictor = Predictor(gpu, cases)
    # The description says nothing of the measurement itself: that part is the fit's.
    before = {
        p.name: found.values[p.name] if p.name in MEASURING else float(gpu.number(p.name)) for p in parameters
    }
    predictions = {
        "calibrated": predictor.cycles(found.values),
        "before": predictor.cycles(before),
        **judge.baselines(cases, chosen),
        **({"truth": predictor.cycles(truth)} if truth else {}),
    }
    tested = UNIT_QUEUE in {p.name for p in parameters}
    lack = mechanism_lack(gpu, cases, found, parameters) if tested else None
    return _Part(cases, chosen, found, predictions, lack)


def _source(found: Calibration, data: MeasuredSet) -> str:
    about = data.about
    versions = ", ".join(
        f"{label} {about[name]}"
        for name, label in (("driver", "driver"), ("cuda_runtime", "CUDA"))
        if about.get(name)
    )
    judged = next(
        (e for e in found.errors if e.predictor == "calibrated" and e.group == "atomic unit, all"), None
    )
    error = f"MAPE {judged.table.mape:.2f} %" if judged else "no judged cases"
    return (
        f"smlab bench calibrate: data set {data.folder.name} "
        f"({data.name()}{'; ' + versions if versions else ''}; sha256 {data.digest[:16]}); fitted to "
        f"{found.points_fitted} of its times (seed {found.seed}), judged on the other {found.points_judged}: "
        f"{error}; intervals hold all fitted values together at 95 %"
    )


def _write_cases(path: Path, parts: list[_Part], predictions: dict[str, Floats]) -> None:
    cases, chosen = Cases.join([p.cases for p in parts]), np.concatenate([p.chosen for p in parts])
    columns = {
        "operation": cases.operation, "form": cases.form, "warps": cases.warps, "cas_warps": cases.cas_warps,
        "lanes": cases.lanes, "same_word": cases.same_word, "same_bank": cases.same_bank,
        "iterations": cases.iterations, "use": np.where(chosen, "fit", "judge"),
        "measured_cycles": cases.cycles,
        **{f"{name.replace(' ', '_')}_cycles": np.round(times, 4) for name, times in predictions.items()},
    }  # fmt: skip
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial, partial.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    except OSError as error:
        raise SmlabError(f"{path}: cannot be written: {error}") from error
