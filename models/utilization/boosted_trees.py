"""A function of many features as a sum of small decision trees, few enough numbers to ship in a JSON file.

The trees are *oblivious*: all nodes of a level ask the same question. So a tree of depth d is d questions and
2**d answers, and is evaluated for many kernels at once (L. Prokhorenkova et al., "CatBoost: unbiased boosting
with categorical features", NeurIPS 2018, Section 4). Fitting is in
`smlab.validation.campaigns.utilization_maps`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEAF: Final = 1e-5
"""What leaves are multiples of in a file."""


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """``start`` plus, of each tree, the leaf that a row falls into.

    ``features`` and ``thresholds`` (trees, depth): question k adds 2**k to the leaf's number where the
    feature exceeds the threshold; ``leaves`` (trees, 2**depth).
    """

    start: float
    features: NDArray[np.int64]
    thresholds: Floats
    leaves: Floats

    def predict(self, features_of_rows: Floats) -> Floats:
        """The function's values (rows,) for features (rows, features)."""
        values = np.full(len(features_of_rows), self.start)
        powers = 2 ** np.arange(self.features.shape[1])
        for features, thresholds, leaves in zip(self.features, self.thresholds, self.leaves, strict=True):
            values += leaves[(features_of_rows[:, features] > thresholds) @ powers]
        return values

    def as_json(self) -> dict[str, Any]:
        """Plain numbers, as `from_json` takes them: leaves in hundred-thousandths, thresholds to seven digits
        and never below what they are, so that a feature equal to one stays on its side."""
        return {
            "start": self.start,
            "features": self.features.tolist(),
            "thresholds": [[_not_below(x) for x in row] for row in self.thresholds.tolist()],
            "leaves": np.rint(self.leaves / LEAF).astype(np.int64).tolist(),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> BoostedTrees:
        """Raises `ValueError`, `KeyError` or `TypeError` for what is no such document."""
        features = np.array(document["features"], dtype=np.int64)
        thresholds = np.array(document["thresholds"], dtype=np.float64)
        leaves = LEAF * np.array(document["leaves"], dtype=np.float64)
        if features.shape != thresholds.shape or leaves.shape != (len(features), 2 ** features.shape[1]):
            raise ValueError("trees whose questions and answers do not fit each other")
        return cls(float(document["start"]), features, thresholds, leaves)


def _not_below(value: float) -> float:
    return float(f"{value + 5e-7 * abs(value):.7g}")
