"""Does a calibration find what is there? Trials on simulated data sets, whose constants are known."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from smlab.hw_bench.cuda.measuring import plan
from smlab.hw_bench.cuda.measuring.plan import BenchmarkProfile
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.validation.calibrate.calibration import calibrate_set
from smlab.validation.calibrate.dataset import read_set
from smlab.validation.calibrate.predict import MEASURING
from smlab.validation.calibrate.simulated import write_simulated

ALL: Final = "atomic unit, all"

SMALL: Final = replace(
    plan.PROFILES["quick"],
    warps=(1, 2, 8, 32),
    lanes=(1, 4, 16, 32),
    cas_steps=2,
    loop_lanes=(1, 8, 32),
    bursts=(16, 32, 64),
    pattern_warps=(1, 8),
    bank_warps=(1, 8, 32),
)
"""A data set that takes no time to make, of some 500 times."""


@dataclass(frozen=True)
class Recovery:
    """What came of the trials.

    ``together`` counts trials in which all true constants were in their intervals, ``by_constant`` those in
    which one was. ``mape`` and ``noise_mape`` are means over the trials of the judged MAPE of the calibrated
    and of the true constants.
    """

    trials: int
    together: int
    by_constant: dict[str, int]
    mape: float
    noise_mape: float

    @property
    def factor(self) -> float:
        """By how much the judged error exceeds what the noise alone makes."""
        return self.mape / self.noise_mape


def recover(
    truth: Gpu,
    start: str,
    trials: int,
    *,
    noise: float = 0.03,
    share: float = 0.05,
    profile: BenchmarkProfile = SMALL,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Recovery:
    """Calibrate the description ``start`` to simulated data of ``truth``, ``trials`` times with other
    noise and another split."""
    together, held = 0, dict[str, int]()
    mapes, noises = [], []
    for trial in range(trials):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            true = write_simulated(folder, truth, profile=profile, noise=noise, seed=seed + trial)
            found = calibrate_set(read_set(folder), start, share=share, seed=seed + trial, truth=true)
        inside = {f.name: f.low <= true[f.name] <= f.high for f in found.fitted if f.name not in MEASURING}
        together += all(inside.values())
        for constant, ok in inside.items():
            held[constant] = held.get(constant, 0) + ok
        mapes.append(found.mape(ALL))
        noises.append(found.mape(ALL, "truth"))
        progress(trial + 1, trials)
    return Recovery(trials, together, held, float(np.mean(mapes)), float(np.mean(noises)))
