"""Van Lanker et al.'s method on simulated kernels, whose times on both GPUs are known: as a campaign found
it.

The numbers are stored in ``simulated_pairs.json``. The code that made them is at commit 098b7c2
(``validation/campaigns/projection/claims.py``).
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.errors import SmlabError
from smlab.validation.papers.claims.registry import Observed, quantity
from smlab.validation.papers.judging import Scale

STORED: Final = Path(__file__).parents[1] / "simulated_pairs.json"
MADE_AT: Final = "validation/campaigns/projection/claims.py at commit 098b7c2"


@functools.cache
def _stored() -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads(STORED.read_text(encoding="utf-8"))["observed"]
    except (OSError, ValueError, KeyError) as error:
        said = f"cannot be read ({error!r})"
        raise SmlabError.at(str(STORED), said, expected=f"what {MADE_AT} writes") from error
    return found


def _observed(name: str, **arguments: object) -> Observed:
    for row in _stored():
        if (row["quantity"], row["with"]) == (name, arguments):
            return Observed(row["value"], row["low"], row["high"], row["detail"])
    raise SmlabError.at(name, "no stored number for", arguments, f"one that {MADE_AT} made")


@quantity("projection.simulated_error", unit="%", evidence="simulated", scale=Scale.ERROR, quick=False)
def simulated_error(regimes: list[str], method: str) -> Observed:
    """Mean absolute percentage error of the projected times, V100 to A100, with its bootstrap interval; no
    regimes: all."""
    return _observed("projection.simulated_error", regimes=regimes, method=method)


@quantity(
    "projection.simulated_error_ratio", unit="times", evidence="simulated", scale=Scale.RATIO, quick=False
)
def simulated_error_ratio(regimes: list[str], others: list[str], method: str) -> Observed:
    """The mean error over some regimes, over that over others."""
    return _observed("projection.simulated_error_ratio", regimes=regimes, others=others, method=method)


@quantity("projection.simulated_inside", unit="%", evidence="simulated", scale=Scale.SHARE, quick=False)
def simulated_inside(regimes: list[str], method: str) -> Observed:
    """The share of kernels whose time lies in the projected interval, with 1 % to either side."""
    return _observed("projection.simulated_inside", regimes=regimes, method=method)


@quantity("projection.simulated_beyond_ceilings", unit="kernels", evidence="simulated", quick=False)
def simulated_beyond_ceilings(regimes: list[str]) -> Observed:
    """How many kernels are faster than the published ceilings (Equations 3 and 6 to 8) allow, on the V100."""
    return _observed("projection.simulated_beyond_ceilings", regimes=regimes)


@quantity(
    "projection.simulated_narrow",
    unit="% of the kernels",
    evidence="simulated",
    scale=Scale.SHARE,
    quick=False,
)
def simulated_narrow(regimes: list[str], method: str, ratio: float) -> Observed:
    """The share of kernels whose highest projected time is at most ``ratio`` times the lowest."""
    return _observed("projection.simulated_narrow", regimes=regimes, method=method, ratio=ratio)
