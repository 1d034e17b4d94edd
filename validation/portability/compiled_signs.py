"""Signs of changes foreseen from the code, compiled for both GPUs, and the old GPU's counters: what ``smlab
port tune --source`` advises, on searches whose source is public.

Compiling takes seconds a configuration, so stars are judged: configurations drawn at random, each with all
that differ from it in one parameter.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray

from smlab.models.portability.advice import changes_from
from smlab.validation.portability.search_pairs import ProjectedSearch, projected_searches
from smlab.validation.portability.signs import ForeseenSigns, foreseen_signs
from smlab.validation.projection.tuning.code import Progress, TuningSource
from smlab.validation.projection.tuning.guess import compiled_times

SOURCES: Final = {"ktt-convolution": "KernelTunerConvolution.cu"}
"""The source of a folder's searches, where it is what was measured."""

PARTS: Final = 2
STARS_SEED: Final = 11


def compiled_signs(
    data: Path, seed: int, stars: int, progress: Progress | None = None
) -> list[ForeseenSigns]:
    """Signs of the changes within ``stars`` stars of each search that has counters and source: a collection
    for each `PARTS`-th of the tiles, as for projected ones.

    Raises:
        SmlabError: no compiler (`smlab[cuda]`).
    """
    found = []
    for search in projected_searches(data):
        source = data / "tuning" / search.times.path.parent.name
        name = SOURCES.get(source.name)
        if name is None:
            continue
        rows = _stars(search, stars)
        seconds = compiled_times(
            search.times,
            [search.rows[row] for row in rows],
            search.steady_s,
            *search.gpus,
            TuningSource(source / name),
            progress,
        )
        guess = search.guess_s.copy()
        guess[rows] = seconds
        within = np.zeros(len(guess), dtype=bool)
        within[rows] = np.isfinite(seconds)
        part = np.unique(search.family, return_inverse=True)[1] % PARTS
        for number in range(PARTS):
            one = foreseen_signs(
                search.pair,
                f"{search.pair.name}, tiles {number + 1} of {PARTS}",
                seed,
                guess,
                first=part == number,
                within=within,
            )
            found += [] if one is None else [one]
    return found


def _stars(search: ProjectedSearch, stars: int) -> NDArray[np.int64]:
    """The rows of so many random configurations that ran on both GPUs, and of their neighbours that did."""
    ran = np.flatnonzero(np.isfinite(search.pair.new_s))
    starts = default_rng(STARS_SEED).permutation(ran)[:stars].tolist()
    rows = {row for start in starts for row, _ in changes_from(search.pair.config, start)} | {*starts}
    return np.array(sorted(rows & {*ran.tolist()}), dtype=np.int64)
