"""The last results of the study, shipped as `results.json`; made anew by ``python -m smlab.validation.advisor
--out validation/advisor/results.json --record models/advisor/track_record.json``."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.errors import SmlabError

RESULTS: Final = Path(__file__).with_name("results.json")
MADE_BY: Final = "python -m smlab.validation.advisor"
DIGITS: Final = 5


@functools.cache
def stored_results() -> dict[str, Any]:
    """All parts by name, with ``made_on`` and ``gpu``.

    Raises:
        SmlabError: the file is missing or is no JSON.
    """
    try:
        found: dict[str, Any] = json.loads(RESULTS.read_text())
    except (OSError, ValueError) as error:
        raise SmlabError(f"{RESULTS}: no results of the advisor's study: {error}") from error
    return found


@functools.cache
def first_runs() -> dict[str, Any]:
    """What each round of unseen kernels found when it was new, by name."""
    found: dict[str, Any] = json.loads(RESULTS.with_name("first_runs.json").read_text())
    return found


def rounded(value: Any) -> Any:
    """Numbers to `DIGITS` digits, so that the file is short and its changes can be read."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: rounded(x) for key, x in value.items()}
    return [rounded(x) for x in value] if isinstance(value, list | tuple) else value
