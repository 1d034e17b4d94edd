"""How good a calibration is: errors on the cases that were not fitted, trivial baselines beside, residuals
where they lie.

The baselines are the best of their kind, fitted to the same cases as the simulator and to each form apart: a
constant service time S, a line in e (which needs no simulator, and is all that there is to it where nothing
is mixed), and the rule of trace-driven simulators, which charge the *distinct words* on a bank and so see no
contention for one word.

Lack of fit: does the simulator miss these data by more than their own noise explains?

Cases alike in form, operation, warps, passes and share of compare-and-swap make a *cell*. Noise is
independent in the cases of a cell, so its mean residual is small; a mechanism that the simulator does not
have shifts the means of some cells together. The sum of the squared means, each over its variance, is held
against a chi-squared distribution. Noise comes from the repetitions, not from the residuals; and the
simulator is allowed to be off by `TOLERANCE` everywhere, as its closed forms are: the distribution is a
noncentral one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, nnls
from scipy.stats import ncx2

from smlab.validation.calibrate.cases import Cases, Floats
from smlab.validation.method.metrics import ErrorTable, error_table

FOLLOWS_ADD: Final = 5.0
FOLLOWS_ALL: Final = 10.0
"""MAPE, in per cent, up to which the mechanism counts as following: fetch-and-add all at once with n <=
32, and everything."""


@dataclass(frozen=True)
class Errors:
    """Errors of one predictor on the judged cases of one group."""

    group: str
    predictor: str
    table: ErrorTable


@dataclass(frozen=True)
class Residual:
    """Judged cases of the atomic unit alike in one axis: simulated over measured, as geometric mean and
    spread."""

    axis: str
    where: str
    n: int
    bias: float
    spread: float
    mape: float


def baselines(cases: Cases, fitted: NDArray[np.bool_]) -> dict[str, Floats]:
    """Each baseline's times of all ``cases``, its constants from the ``fitted`` ones: of each kind of
    operation and form its own.

    ``constant S``: n S. ``line in e``: L + n (a + b e). ``distinct words``: L + n (a + b w), w words on a
    bank.
    """
    jobs = _jobs(cases)
    words = np.where(np.isin(cases.operation, ("load", "store")), cases.passes, cases.same_bank)
    e = cases.same_word * cases.same_bank
    ones = np.ones(len(cases))
    designs = {
        "constant S": np.column_stack([jobs]),
        "line in e": np.column_stack([ones, jobs, jobs * e]),
        "distinct words": np.column_stack([ones, jobs, jobs * words]),
    }
    family = np.where(np.isin(cases.operation, ("max", "exchange")), "add-result", cases.operation)
    kinds = np.char.add(family, cases.form)
    found = {name: np.empty(len(cases)) for name in designs}
    for kind in np.unique(kinds):
        members = kinds == kind
        for name, design in designs.items():
            weights = _log_fit(design[members & fitted], cases.cycles[members & fitted])
            found[name][members] = design[members] @ weights
    return found


def _log_fit(design: Floats, times: Floats) -> Floats:
    """Weights of 0 or more that bring ``design @ weights`` nearest to ``times`` in squared log ratios."""
    begin, _ = nnls(design, times)
    begin = np.maximum(begin, 1e-3)

    def residuals(logs: Floats) -> Floats:
        ratios: Floats = np.log(design @ np.exp(logs)) - np.log(times)
        return ratios

    found: Floats = np.exp(least_squares(residuals, np.log(begin), bounds=(-12, 12), max_nfev=200).x)
    return found


def _jobs(cases: Cases) -> Floats:
    burst = np.where(cases.form == "burst", cases.iterations, 1)
    jobs: Floats = (cases.warps * burst).astype(np.float64)
    return jobs


def groups(cases: Cases) -> dict[str, NDArray[np.bool_]]:
    """The groups of cases that errors are told for."""
    memory = np.isin(cases.operation, ("load", "store"))
    add = (cases.operation == "add-result") & (cases.form == "batch") & (cases.warps <= 32)
    found = {
        "fetch-and-add, n <= 32": add & (cases.cas_warps == 0),
        "with compare-and-swap, n <= 32": add & (cases.cas_warps > 0),
    }
    for operation in dict.fromkeys(cases.operation.tolist()):
        for form in dict.fromkeys(cases.form[cases.operation == operation].tolist()):
            found[f"{operation}, {form}"] = (cases.operation == operation) & (cases.form == form)
    found["atomic unit, all"] = ~memory & (cases.form != "frame")
    found["shared-memory pipe, all"] = memory
    found.pop("none, frame", None)
    return {name: where for name, where in found.items() if where.any()}


def errors(
    cases: Cases, judged: NDArray[np.bool_], predictions: dict[str, Floats], only: str | None = None
) -> list[Errors]:
    """Error tables of each predictor on the judged cases of each group, the constant S being the baseline
    of each."""
    found = []
    for name, members in groups(cases).items():
        at = np.flatnonzero(members & judged)
        if not len(at) or only not in (None, name):
            continue
        for predictor, times in predictions.items():
            table = error_table(
                times[at],
                cases.cycles[at],
                baseline=predictions["constant S"][at],
                resamples=500 if len(at) < 5000 else 100,
            )
            found.append(Errors(name, predictor, table))
    return found


def residuals(cases: Cases, judged: NDArray[np.bool_], simulated: Floats) -> list[Residual]:
    """The simulator's judged errors of the atomic unit by n, by e and by the share of compare-and-swap."""
    at = np.flatnonzero(judged & ~np.isin(cases.operation, ("load", "store")) & (cases.form != "burst"))
    if not len(at):
        return []
    axes = {
        "n": (cases.warps, [(1, 1), (2, 4), (5, 8), (9, 16), (17, 32), (33, 64)]),
        "e": (cases.passes, [(1, 1), (2, 4), (5, 8), (9, 16), (17, 32)]),
        "c/n in %": (100 * cases.cas_warps // cases.warps, [(0, 0), (1, 49), (50, 99), (100, 100)]),
    }
    logs = np.log(simulated / cases.cycles)
    found = []
    for axis, (values, bins) in axes.items():
        for low, high in bins:
            here = at[(values[at] >= low) & (values[at] <= high)]
            if not len(here):
                continue
            spread = float(np.exp(np.std(logs[here], ddof=1))) if len(here) > 1 else float("nan")
            mape = float(100 * np.abs(np.expm1(logs[here])).mean())
            where = str(low) if low == high else f"{low} to {high}"
            found.append(Residual(axis, where, len(here), float(np.exp(logs[here].mean())), spread, mape))
    return found


TOLERANCE: Final = 0.008
"""Relative error of the simulator's own shortcuts, up to which nothing is found lacking: its root mean square
over the cells of 20 executed machines of four architectures (`trials`, seed 61, noise of 0.2 %), each fitted,
was 0.2 to 0.8 %."""
LEVEL: Final = 0.05
_CLIP: Final = 3.0
_CASES_THAT_AGREE: Final = 3
_BINS: Final = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class LackingCell:
    """Cases alike: simulated over measured, as a mean of ``n``, and in how many of its standard deviations it
    differs from 1."""

    where: str
    n: int
    ratio: float
    deviations: float


@dataclass(frozen=True)
class LackOfFit:
    """The test. ``noise`` is the relative noise of a case as its repetitions tell it; ``p_value`` is small
    where the simulator lacks something; ``cells`` are the worst."""

    statistic: float
    cells_compared: int
    noise: float
    p_value: float
    cells: tuple[LackingCell, ...]

    @property
    def found(self) -> bool:
        return self.p_value < LEVEL


def lack_of_fit(
    cases: Cases, simulated: Floats, *, constants: int = 0, launch_scatter: float = 0.0, worst: int = 5
) -> LackOfFit | None:
    """The test of `simulated` times against those of ``cases``; None where no repetitions tell the noise.

    ``constants`` were fitted; ``launch_scatter`` is what the cases of one launch share.
    """
    used = cases.form != "frame"
    told = cases.noise[used & (cases.noise > 0)]
    if not len(told):
        return None
    pooled = float(np.median(told))
    # Clocks count whole cycles.
    variance = pooled**2 + (0.29 / np.maximum(cases.cycles, 1)) ** 2
    residuals = np.log(simulated / cases.cycles) * cases.weight
    limit = _CLIP * np.sqrt(variance + launch_scatter**2) + TOLERANCE
    # One outlier in a cell tells nothing of the mechanism, a whole cell that is off does. In a cell of one or
    # two, an outlier cannot be told from the others.
    names = _cells(cases)
    statistic, allowed, count = 0.0, 0.0, 0
    found: list[LackingCell] = []
    for name in np.unique(names[used]):
        here = np.flatnonzero((names == name) & used)
        middle = float(np.median(residuals[here])) if len(here) >= _CASES_THAT_AGREE else 0.0
        mean = float(np.clip(residuals[here], middle - limit[here], middle + limit[here]).mean())
        of_mean = float(variance[here].mean()) / len(here) + launch_scatter**2
        statistic += mean**2 / of_mean
        allowed += TOLERANCE**2 / of_mean
        count += 1
        ratio = float(np.exp(mean / cases.weight[here].mean()))
        found.append(LackingCell(str(name), len(here), ratio, mean / float(np.sqrt(of_mean))))
    freedom = max(1, count - constants)
    found.sort(key=lambda cell: -abs(cell.deviations))
    return LackOfFit(
        statistic=statistic,
        cells_compared=count,
        noise=pooled,
        p_value=float(ncx2.sf(statistic, freedom, allowed)),
        cells=tuple(found[:worst]),
    )


def _cells(cases: Cases) -> np.ndarray:
    """The cell of each case, in words."""
    share = np.where(cases.cas_warps == 0, "no", np.where(cases.cas_warps == cases.warps, "all", "some"))
    warps = np.array([_bin(n) for n in cases.warps.tolist()])
    passes = np.array([_bin(n) for n in cases.passes.tolist()])
    family = np.where(np.isin(cases.operation, ("max", "exchange")), "add-result", cases.operation)
    return np.array(
        [
            f"{form} of {op}, {n} warps, {e} passes, {c} compare-and-swap"
            for form, op, n, e, c in zip(cases.form, family, warps, passes, share, strict=True)
        ]
    )


def _bin(number: int) -> str:
    low = max(b for b in _BINS if b <= number)
    return str(low) if number == low else f"over {low}"
