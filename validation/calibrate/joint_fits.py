"""The atomic unit fitted to all published measurements at once: the stored result, ``joint.json``.

The campaign ``smlab.validation.campaigns.calibration.joint`` makes it; here it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import load_json

STORED: Final = Path(__file__).parent / "joint.json"
LEVEL: Final = 0.9


@dataclass(frozen=True)
class JointFit:
    """What one mechanism makes of all sources.

    ``constants`` holds value, low and high by name, in cycles; the interval is the jackknife's over sources
    (each left out in turn; Student's t with as many degrees of freedom as sources but one), since a source's
    rows share their error; where only one source determines a constant, it is the constant's limits.
    ``fitted`` and ``left_out`` are mean absolute relative errors by source: with all sources in the fit, and
    with that one left out of it (None where the others leave open what it hangs on); ``worst`` names each
    source's worst row when left out. ``broken`` are the upper bounds of time that are violated by more than
    5 %.
    """

    mechanism: str
    cards: str
    pipes: int
    constants: Mapping[str, tuple[float, float, float]]
    fitted: Mapping[str, float]
    left_out: Mapping[str, float | None]
    worst: Mapping[str, str]
    broken: tuple[str, ...]

    @property
    def mean_left_out(self) -> float:
        """Over the sources that can be predicted, each weighing the same; NaN where none can."""
        found = [error for error in self.left_out.values() if error is not None]
        return float(np.mean(found)) if found else float("nan")


def load_joint_fits(path: Path = STORED) -> list[JointFit]:
    """The stored table; `SmlabError` where it cannot be read."""
    try:
        return [JointFit(**entry) for entry in load_json(path)]
    except (SmlabError, TypeError) as error:
        raise SmlabError(
            f"{path}: not a stored joint fit ({error}); make it again with "
            "python -m smlab.validation.campaigns.calibration.joint"
        ) from error
