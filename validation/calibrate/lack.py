"""Lack of fit: does the simulator miss these data by more than their own noise explains?

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
from scipy.stats import ncx2

from smlab.validation.calibrate.cases import Cases, Floats

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
