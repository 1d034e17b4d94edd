"""Finding the constants: least squares of log ratios on a small part of the cases, with simultaneous
intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import least_squares
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.validation.calibrate import predict
from smlab.validation.calibrate.cases import Cases, Floats
from smlab.validation.calibrate.predict import (
    BASE,
    CLOSING,
    FRAME,
    LATENCY,
    LINK,
    MEASURING,
    PASS,
    QUEUE,
    Predictor,
)

LEVEL: Final = 0.95
"""All true values are in their intervals together with this probability (Bonferroni)."""
MAX_FITTED: Final = 2000
MIN_OF_A_KIND: Final = 5
"""Cases fitted of each kind (operation, form, no, some or all compare-and-swap), where there are as many."""
_WHOLE: Final = (QUEUE, predict.SHARED_PASS)
"""Constants that are whole numbers: the entries of a queue; and, where the data allow it, the cycles of a
pass over the banks."""
_NEAR: Final = 0.03
_UNKNOWN: Final = 0.5
"""A constant whose standard error is above this share of it (or of 2 cycles, if that is more) is not known
from the data."""


@dataclass(frozen=True)
class Parameter:
    """A constant to be found: where to begin, its bounds, and the step of derivatives."""

    name: str
    start: float
    low: float
    high: float
    step: float


@dataclass(frozen=True)
class Fitted:
    """A constant that was found, with its simultaneous interval; ``before`` is the description's value."""

    name: str
    value: float
    low: float
    high: float
    standard_error: float
    before: float | None


@dataclass(frozen=True)
class NotFitted:
    """A constant that the data do not tell; it stays what the description says."""

    name: str
    reason: str


@dataclass(frozen=True)
class Fit:
    """What least squares found. ``scatter`` is the standard deviation of the weighted log residuals of the
    fitted cases."""

    fitted: tuple[Fitted, ...]
    not_fitted: tuple[NotFitted, ...]
    values: dict[str, float]
    points: int
    scatter: float


def split(cases: Cases, share: float, seed: int) -> NDArray[np.bool_]:
    """Which cases to fit: of each kind, a random ``share``, at least `MIN_OF_A_KIND`; all others judge.

    Raises:
        SmlabError: for a share that leaves nothing to fit or to judge.
    """
    if not 0 < share < 1:
        raise SmlabError.at("share of cases to fit", "out of range", share, "above 0 and below 1")
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    share = min(share, MAX_FITTED / max(len(cases), 1))
    mixed = np.where(cases.cas_warps == 0, 0, np.where(cases.cas_warps == cases.warps, 2, 1))
    kinds = np.char.add(np.char.add(cases.operation, cases.form), mixed.astype("U1"))
    chosen = np.zeros(len(cases), dtype=bool)
    chosen[cases.form == "frame"] = True
    for kind in np.unique(kinds[~chosen]):
        at = np.flatnonzero(kinds == kind)
        count = min(len(at) // 2, max(MIN_OF_A_KIND, round(share * len(at))))
        chosen[rng.choice(at, size=count, replace=False)] = True
    # Single cases of a kind tell something that no other tells, and cannot be judged without it.
    if not chosen.any() and len(cases):
        chosen[:] = True
    return chosen


def atomic_parameters(gpu: Gpu) -> list[Parameter]:
    """The atomic unit's constants, beginning with the description's values."""
    found = []
    for op in ("add", "cas", "popc_inc"):
        if not gpu.has(predict.key(op, LATENCY)):
            continue
        for part, low, step in ((BASE, 1.0, 0.1), (PASS, 0.01, 0.1), (LATENCY, 2.0, 1.0)):
            if op == "popc_inc" and part == LATENCY:
                continue  # nobody waits for a result: only its closing load is seen
            start = max(float(gpu.number(predict.key(op, part))), low + step)
            found.append(Parameter(predict.key(op, part), start, low, 1000.0, step))
    start = float(gpu.number("shared.load_latency_cycles"))
    found.append(Parameter(CLOSING, start, 2.0, 1000.0, 1.0))
    found.append(Parameter(QUEUE, float(gpu.number(QUEUE)), 0.0, 1000.0, 0.5))
    return found + _frame_parameters(gpu)


def _frame_parameters(gpu: Gpu) -> list[Parameter]:
    link = float(gpu.number("pipe.int32.latency_cycles"))
    return [Parameter(FRAME, 4.0, -0.1, 1000.0, 0.1), Parameter(LINK, link, -0.1, 1000.0, 0.1)]


def shared_parameters(gpu: Gpu) -> list[Parameter]:
    """The shared-memory pipe's constants."""
    start = {name: float(gpu.number(name)) for name in (predict.SHARED_PASS, predict.SHARED_LATENCY)}
    return [
        Parameter(predict.SHARED_PASS, start[predict.SHARED_PASS] + 0.1, 1.0, 100.0, 0.05),
        Parameter(predict.SHARED_LATENCY, start[predict.SHARED_LATENCY], 3.0, 1000.0, 1.0),
        *_frame_parameters(gpu),
    ]


def fit(gpu: Gpu, cases: Cases, parameters: Sequence[Parameter]) -> Fit:
    """Fit ``parameters`` to all of ``cases``.

    Raises:
        SmlabError: when there are fewer cases than constants.
    """
    start = {p.name: p.start for p in parameters}
    chosen = cases.select(_saturated_bursts(cases, start))
    present = frozenset[str]().union(*(g.depends for g in Predictor(gpu, chosen).groups))
    if not (chosen.form == "frame").any():
        present -= {FRAME, LINK}
        start |= {FRAME: 0.0, LINK: 0.0}
    absent = [NotFitted(p.name, _why_absent(p.name)) for p in parameters if p.name not in present]
    free = [p for p in parameters if p.name in present]
    values = start
    if (cases.form == "burst").any():
        # Once intervals are known, so is which bursts have filled the queue.
        values, _, _ = _solve(gpu, chosen, free, start, tolerance=0.02)
        chosen = cases.select(_saturated_bursts(cases, values))
    while True:
        values, errors, scatter = _solve(gpu, chosen, free, {**start, **values})
        unknown = [
            p for p, e in zip(free, errors, strict=True) if not e < _UNKNOWN * max(values[p.name], 2.0)
        ]
        if not unknown:
            break
        worst = max(unknown, key=lambda p: errors[free.index(p)] / max(values[p.name], 2.0))
        absent.append(NotFitted(worst.name, "the measured times do not tell it apart from the others"))
        free.remove(worst)
        values[worst.name] = start[worst.name]
    freedom = max(1, len(chosen) - len(free))
    wide = float(special.stdtrit(freedom, 1 - (1 - LEVEL) / (2 * max(1, len(free)))))
    found = {p: _fitted(gpu, p, values[p.name], float(e), wide) for p, e in zip(free, errors, strict=True)}
    for p in free:
        value = found[p].value
        if value != values[p.name]:
            # A whole number: the others are fitted again to it.
            values[p.name] = value
            others = [q for q in free if q is not p]
            values, errors, scatter = _solve(gpu, chosen, others, values)
            again = zip(others, errors, strict=True)
            found |= {
                q: _fitted(gpu, q, values[q.name], float(e), wide) for q, e in again if q.name not in _WHOLE
            }
    return Fit(tuple(found.values()), tuple(absent), values, len(chosen), scatter)


def _fitted(gpu: Gpu, p: Parameter, value: float, error: float, wide: float) -> Fitted:
    """A constant with its interval of ``wide`` standard errors to either side, whole where it must be or
    may well be."""
    low, high = max(p.low, value - wide * error), min(p.high, value + wide * error)
    whole = float(max(1, round(value)))
    if p.name == QUEUE:
        value, low, high = whole, min(whole, float(np.floor(low))), max(whole, float(np.ceil(high)))
    elif p.name in _WHOLE and low <= whole <= high:
        value = whole
    before = None if p.name in MEASURING else float(gpu.number(p.name))
    return Fitted(p.name, value, low, high, error, before)


def _solve(
    gpu: Gpu, cases: Cases, free: Sequence[Parameter], start: dict[str, float], tolerance: float = 1e-4
) -> tuple[dict[str, float], Floats, float]:
    """Values, standard errors in the order of ``free``, and the scatter of the weighted residuals."""
    if len(cases) <= len(free):
        raise SmlabError.at("calibration", "too few cases to fit", len(cases), f"more than {len(free)}")
    predictor = Predictor(gpu, cases)
    measured = np.log(cases.cycles)
    steps = {p.name: p.step for p in free}
    least = {p.name: p.low for p in free}
    scale = np.array([max(start[p.name], 1.0) for p in free])

    def values(x: Floats) -> dict[str, float]:
        return {**start, **dict(zip(steps, (x * scale).tolist(), strict=True))}

    def residuals(x: Floats) -> Floats:
        logs: Floats = np.log(predictor.cycles(values(x), smooth=True)) - measured
        return logs * cases.weight

    last: list[Floats] = []

    def jacobian(x: Floats) -> Floats:
        # Times are nearly linear in the constants: derivatives taken near by will do, and are what costs
        # time.
        if not last or np.abs(x - last[0]).max() > _NEAR * np.maximum(1, np.abs(x)).max():
            derivatives = predictor.derivatives(values(x), steps, least)
            last[:] = [x.copy(), derivatives * cases.weight[:, None] * scale]
        return last[1]

    bounds = np.array([(p.low, p.high) for p in free]).T / scale
    begin = np.clip([start[p.name] for p in free] / scale, bounds[0] + 1e-6, bounds[1] - 1e-6)
    found = least_squares(
        residuals,
        begin,
        jac=jacobian,
        bounds=bounds,
        xtol=tolerance,
        ftol=tolerance / 10,
        gtol=1e-8,
        max_nfev=25,
    )
    scatter = float(np.sqrt(2 * found.cost / (len(cases) - len(free))))
    last.clear()
    jac = jacobian(found.x) / scale
    # What only a sum of constants tells (a base and a pass of always one pass) shows as a singular value of
    # 0: no error is finite.
    _, singular, axes = np.linalg.svd(jac, full_matrices=False)
    singular = np.maximum(singular, 1e-9 * singular.max())
    errors = scatter * np.sqrt(((axes / singular[:, None]) ** 2).sum(axis=0))
    return values(found.x), errors, scatter


def _saturated_bursts(cases: Cases, values: dict[str, float]) -> NDArray[np.bool_]:
    """All cases but the bursts that do not fill the queue, whose time is that of issuing."""
    burst = cases.form == "burst"
    if not burst.any():
        return np.ones(len(cases), dtype=bool)
    op = np.where(cases.operation == "popc-inc", "popc_inc", "add")
    interval = np.zeros(len(cases))
    for name in np.unique(op[burst]):
        here = op == name
        interval[here] = (
            values[predict.key(name, BASE)] + cases.passes[here] * values[predict.key(name, PASS)]
        )
    jobs = cases.warps * cases.iterations
    alone = burst & (cases.cas_warps == 0)
    waited: NDArray[np.bool_] = ~burst | (alone & (cases.cycles > 0.4 * jobs * interval))
    return waited


def _why_absent(name: str) -> str:
    if name == QUEUE:
        return "only the burst form of the benchmark tells it, and the data have none that fills the queue"
    if name in MEASURING:
        return (
            "was not measured; taken as 0 (" + name + ")"
            if name != CLOSING
            else "no measured time depends on it"
        )
    return "no measured time depends on it"
