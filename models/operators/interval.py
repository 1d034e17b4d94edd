"""How far an operator's projected time may be off: named parts, and an interval that holds with a stated
level.

Each part is a half width in logarithms:

- ``efficiency``: how far the row is from its roof on the source. What keeps it from there (tiles that do not
  fill the SMs, a kernel that the library chose for that GPU) need not be the same on the target;
- ``level``: half of the half span that the bounds of caches, of energy and of published bandwidths allow;
- ``unexplained``: what is left in rows that reach their roof.

They add up as independent things do. `FACTOR` is fitted, the 90 % quantile of error over width with the same
say for each operator and pair of GPUs, on NeuSight's V100, A100 40 GB and T4. How often the interval holds
for an operator and for a target card that were left out of that fit,
`smlab.validation.campaigns.projection.coverage` tells.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from smlab.models.operators.work import Floats

NAMES: Final = ("efficiency", "level", "unexplained")
LEVEL: Final = 0.9
UNEXPLAINED: Final = 0.04
FACTOR: Final = 0.97


def operator_parts(spent_s: Floats, roof_s: Floats, least_s: Floats, most_s: Floats) -> Floats:
    """Half widths by part, in logarithms, (rows, parts), of rows that took ``spent_s`` on the source where
    the roof allows ``roof_s``, with bounds ``least_s`` and ``most_s`` on the target."""
    with np.errstate(divide="ignore", invalid="ignore"):
        efficiency = np.where(roof_s > 0, np.abs(np.log(spent_s / roof_s)), 0.0)
        level = np.abs(np.log(most_s / least_s)) / 4
    return np.stack([efficiency, level, np.full(len(spent_s), UNEXPLAINED)], axis=1)


def width_of(parts: Floats) -> Floats:
    """All parts together, before `FACTOR`, (rows,)."""
    return np.asarray(np.sqrt((parts**2).sum(axis=1)))
