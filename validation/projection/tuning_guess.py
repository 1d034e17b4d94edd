"""Times of a tuning space on a GPU where it was not measured: projected by counters, or the source's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.datasets.timed_work import work_of_times
from smlab.hw_bench.datasets.tuning import TuningTimes
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.projection.machine_code import work_by_code
from smlab.models.projection.projection import project
from smlab.models.roofline.compiler_alternatives import mixed
from smlab.validation.projection.tuning_code import Progress, TuningSource

LEAST_COUNTED: Final = 0.9
"""The share of a space that must have counters for its times to be projected; else they are taken over."""


@dataclass(frozen=True, eq=False)
class GuessedTimes:
    """``seconds`` (rows,) up to a factor that all share, and what they rest on."""

    seconds: NDArray[np.float64]
    evidence: Literal["compiled", "projected", "copied"]


def guessed_times(
    times: TuningTimes, steady_s: NDArray[np.float64], source: Gpu, target: Gpu
) -> GuessedTimes:
    """Times on ``target`` as far as a search of ``source`` tells them; ``steady_s`` (rows,) were measured."""
    work = work_of_times(times, np.arange(len(times)), steady_s, source)
    if (np.nan_to_num(work.instructions) > 0).mean() < LEAST_COUNTED:
        return GuessedTimes(steady_s, "copied")
    found = project(work, source, target)
    seconds = steady_s * float(np.median(found.mid_s / found.source_s))
    seconds[found.index] = found.mid_s
    return GuessedTimes(seconds, "projected")


def compiled_times(
    times: TuningTimes,
    rows: Sequence[int],
    steady_s: NDArray[np.float64],
    source: Gpu,
    target: Gpu,
    code: TuningSource,
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """Times of some rows on ``target``, by their counters and their code compiled for both GPUs, (rows,):
    between the two readings of that code (`smlab.models.roofline.compiler_alternatives`); NaN where there are
    no counters.
    """
    work = work_of_times(times, np.asarray(rows), steady_s[np.asarray(rows)], source)
    changed = work_by_code(work, code.compare(times, rows, source, target, progress), target)
    found = mixed(project(work, source, target, target_work=changed), project(work, source, target))
    seconds = np.full(len(rows), np.nan)
    seconds[found.index] = found.mid_s
    return seconds
