"""``smlab.tune``: the configurations of a tuning space, simulated and ranked."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

from smlab.commands.arguments import a_gpu, a_path, a_whole, check_keywords
from smlab.commands.frames import TabularResult, dataframe
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.validation.record.judge import model_of, sampling_sd, stored_errors
from smlab.validation.record.run import ClockRange
from smlab.validation.tuning.ranking import (
    FIRST,
    Agreement,
    ExpectedLoss,
    Failed,
    RankedTime,
    agreement,
    expected_loss,
    failures,
    ranked,
)
from smlab.validation.tuning.search import LADDER, SearchOptions, SearchProgress, SearchResult, search
from smlab.validation.tuning.space import TuningSpace
from smlab.validation.tuning.space_file import SpaceAsked, read_space, read_times

if TYPE_CHECKING:
    import pandas as pd

RESULTS: Final = Path("results/tune")


@dataclass(frozen=True, repr=False)
class TuningResult(TabularResult):
    """A ranked space. ``ranking`` has all configurations that have a time, best first, those of equal code
    and launch together; ``failed`` the others, by reason. ``real`` is the 90 % prediction interval of the
    best one's time on a real card, in seconds, by the errors of measured kernels. ``losses`` says what is
    lost if only the first, or the first ``top``, are measured on a card. ``gain`` says how much faster the
    best one is than the configuration that others are compared with, with its interval (95 %). ``truth`` says
    how the order fits measured times, where there are some."""

    space: TuningSpace
    gpu: Gpu
    folder: Path
    search: SearchResult
    ranking: tuple[RankedTime, ...]
    failed: tuple[Failed, ...]
    real: tuple[float, float] | None
    gain: tuple[float, float, float] | None
    truth: Agreement | None
    losses: tuple[ExpectedLoss, ...]
    wall_s: float

    def __repr__(self) -> str:
        return (
            f"<tuning space {self.space.title} on {self.gpu.name}: {len(self.ranking):,} codes of "
            f"{self.search.drawn:,} configurations ranked>"
        )

    def to_dataframe(self) -> pd.DataFrame:
        """One row a code and launch, with the keys of ``ranking`` in ``smlab tune --json``."""
        return dataframe(ranking_rows(self))


class TuneSpaceKeywords(TypedDict, total=False):
    """Further keywords of `tune`."""

    source: str | Path | None
    launch: str | Path | None
    name: str | None
    truth: str | Path | None
    top: int
    budget_cpu_s: float | None
    draw: int | None
    seed: int
    jobs: int | None
    dask: str | None
    resume: bool
    progress: Callable[[SearchProgress], None] | None


def tune(
    space: str | Path | TuningSpace,
    *,
    gpu: str | Path | Gpu = "v100",
    out: str | Path | None = None,
    **more: Unpack[TuneSpaceKeywords],
) -> TuningResult:
    """Rank the configurations of a kernel on a simulated GPU.

    All are screened by a cheap sample of their grid. Then the best ones are simulated on more and more SMs.
    That ends when the first ones differ clearly, the longest sample is reached, or the budget is used.

    Args:
        space: a space file (TOML), a problem or results of Kernel Tuner or KTT (JSON), or
        ``file.py:kernel`` under ``triton.autotune``.
        gpu: a name, a description's path or a description.
        out: folder for the results, ``results/tune/NAME`` by default.
        source: CUDA C of a space that names none.
        launch: a launch file for a space that has none.
        name: which kernel of a file with several.
        truth: measured times of the same configurations, to judge the order by.
        top: how many first ones to put in order.
        budget_cpu_s: processor time to use at most, in seconds, over all workers.
        draw: how many configurations to draw from the space by ``seed``; None for all.
        jobs: worker processes; None for one a core.
        dask: address of a Dask scheduler, to run on its workers instead.
        resume: keep the times in the folder and simulate the others.
        progress: told where the search is.

    Raises:
        SmlabError: an unusable space, folder, GPU or cluster, in one line.
    """
    check_keywords("tune", more, TuneSpaceKeywords)
    began = time.perf_counter()
    description = a_gpu("gpu", gpu)
    asked = space if isinstance(space, TuningSpace) else _read(space, description, more)
    options: dict[str, Any] = {key: more[key] for key in _OPTIONS if key in more}
    for key, least in (("top", 1), ("seed", 0), ("draw", 1), ("jobs", 1)):
        if options.get(key) is not None:
            a_whole(key, options[key], least)
    folder = RESULTS / asked.title.replace("/", "-") if out is None else a_path("out", out)
    truth = more.get("truth")
    times = asked.times if truth is None else read_times(a_path("truth", truth))
    found = search(asked, description, folder, SearchOptions(**options), more.get("progress"))
    rows = tuple(ranked(found, LADDER))
    return TuningResult(
        space=asked,
        gpu=description,
        folder=folder,
        search=found,
        ranking=rows,
        failed=tuple(failures(found, asked)),
        real=_real(rows, description),
        gain=_gain(rows, asked),
        truth=agreement(asked, rows, times) if times is not None and truth is not None else None,
        losses=tuple(expected_loss(rows, n) for n in (1, options.get("top", FIRST)) if rows),
        wall_s=time.perf_counter() - began,
    )


_OPTIONS: Final = ("top", "budget_cpu_s", "draw", "seed", "jobs", "dask", "resume")


def _read(space: str | Path, gpu: Gpu, more: Any) -> TuningSpace:
    paths = {key: None if more.get(key) is None else a_path(key, more[key]) for key in ("source", "launch")}
    return read_space(
        a_path("space", space) if not isinstance(space, str) else space,
        SpaceAsked(paths["source"], paths["launch"], more.get("name"), gpu.sm_architecture),
    )


def _real(rows: tuple[RankedTime, ...], gpu: Gpu) -> tuple[float, float] | None:
    model = model_of(stored_errors(), gpu.architecture)
    if model is None or not rows:
        return None
    best = rows[0]
    return model.interval(best.seconds, sampling_sd(best.low, best.high), ClockRange.of(gpu))


def _gain(rows: tuple[RankedTime, ...], space: TuningSpace) -> tuple[float, float, float] | None:
    """The time of the configuration that others are compared with over the best one's, with its interval."""
    own = next((row for row in rows if space.first in row.numbers), None)
    if own is None:
        return None
    ratio = own.seconds / rows[0].seconds
    if own is rows[0]:
        return 1.0, 1.0, 1.0
    widths = [row.high / row.seconds for row in (own, rows[0])]
    # Of the two widths, which are of independent scatter, the root of the sum of squares, in logarithms.
    width = math.exp(math.hypot(*map(math.log, widths)))
    return ratio, ratio / width, ratio * width


def ranking_rows(result: TuningResult) -> list[dict[str, Any]]:
    """The rows of ``ranking`` in the JSON document."""
    return [
        {
            "rank": rank,
            "settings": result.space.settings(row.numbers[0]),
            "seconds": row.seconds,
            "low": row.low,
            "high": row.high,
            "sms": row.sample.sms,
            "samples": row.sample.samples,
            "registers": row.time.registers,
            "spilled_bytes": row.time.local_bytes,
            "shared_bytes": row.time.shared_bytes,
            "same_code": [result.space.settings(n) for n in row.numbers[1:]],
        }
        for rank, row in enumerate(result.ranking, start=1)
    ]
