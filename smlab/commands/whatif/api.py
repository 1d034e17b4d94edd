"""``smlab.whatif``: a study over parameters of hardware and workload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from smlab.commands.arguments import a_path, a_whole
from smlab.commands.frames import TabularResult
from smlab.hw_bench.errors import SmlabError
from smlab.validation.experiments.design.study import Study, read_study
from smlab.validation.experiments.run.outcome import StudyOutcome
from smlab.validation.experiments.run.running import PARQUET, run_whatif

if TYPE_CHECKING:
    import pandas as pd

RESULTS = Path("results/whatif")


ALTERNATIVES = "alternatives"
"""The folder, in a study's, with a folder for each further alternative of its GPU."""


@dataclass(frozen=True)
class StudyAlternative:
    """A study under one alternative of its GPU's description, which has this ``weight``; ``outcome`` is None
    where it cannot be asked under it, for this ``reason``."""

    name: str
    weight: float
    outcome: StudyOutcome | None
    reason: str = ""


@dataclass(frozen=True, repr=False)
class WhatifResult(TabularResult):
    """A finished study: what was asked, and what came out (points, failures, effects, files).

    The description of the study's GPU may leave a choice that the answers depend on. Then ``outcome`` is that
    of the first alternative, the description as it stands, and ``alternatives`` has all. Else
    ``alternatives`` is empty.
    """

    study: Study
    outcome: StudyOutcome
    alternatives: tuple[StudyAlternative, ...] = ()

    def __repr__(self) -> str:
        done, points = self.outcome.done, self.outcome.points
        return f"<study {self.study.name}: {done:,} of {points:,} points in {self.outcome.folder}>"

    def to_dataframe(self) -> pd.DataFrame:
        """One row a point: its case, its settings and its responses, as in ``points.parquet``."""
        import pandas as pd

        return pd.read_parquet(self.outcome.folder / PARQUET)


def whatif(
    study: str | Path | Study,
    *,
    out: str | Path | None = None,
    jobs: int | None = None,
    dask: str | None = None,
    resume: bool = False,
    progress: Callable[[int, int, int], None] | None = None,
) -> WhatifResult:
    """Run a study: what would happen if? Where the evidence leaves a choice of the GPU's atomic unit, and the
    kernel uses it, under each alternative.

    Args:
        study: the study's file (TOML), the folder of a ``study.toml``, or a study.
        out: folder for the results, ``results/whatif/NAME`` by default.
        jobs: worker processes; None for one a core.
        dask: address of a Dask scheduler, to run on its workers instead.
        resume: keep the points in the folder and run the others.
        progress: told points done, points in all and points that were run now.

    Raises:
        SmlabError: an unusable study, folder or cluster, in one line.
    """
    if jobs is not None and dask is not None:
        expected = "no --jobs: the cluster says how many"
        raise SmlabError.at("--jobs", "has no meaning with --dask", jobs, expected)
    if jobs is not None:
        a_whole("jobs", jobs, 1)
    asked = study if isinstance(study, Study) else read_study(a_path("study", study))
    folder = RESULTS / asked.name if out is None else a_path("out", out)
    outcome = run_whatif(asked, folder, jobs=jobs, dask=dask, resume=resume, progress=progress)
    found: list[StudyAlternative] = []
    for alternative in asked.system.alternatives() if asked.alternative is None else ():
        own = outcome
        if found:
            place = folder / ALTERNATIVES / alternative.name
            try:
                under = asked.under(alternative.name)
            except SmlabError as error:  # a level that is none of this mechanism's
                found.append(StudyAlternative(alternative.name, alternative.weight, None, str(error)))
                continue
            own = run_whatif(under, place, jobs=jobs, dask=dask, resume=resume, progress=progress)
        found.append(StudyAlternative(alternative.name, alternative.weight, own))
    return WhatifResult(asked, outcome, tuple(found))
