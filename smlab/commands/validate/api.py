"""``smlab.validate``: every cross-check, as a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smlab.commands.arguments import a_gpu, a_path, a_whole
from smlab.commands.frames import TabularResult, dataframe
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.validation.checks.run import validate as run_checks
from smlab.validation.report.content import Check, Finding

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class ValidationResult(TabularResult):
    """What the cross-checks say of the testbed (``checks``) and of the models (``findings``).

    ``document`` is that of ``smlab validate --json``; ``ok`` is true unless a check fell short; ``report`` is
    the page where one was written; ``interrupted`` if some checks were not done.
    """

    ok: bool
    document: Mapping[str, Any]
    report: Path | None
    wall_s: float
    interrupted: bool
    checks: tuple[Check, ...]
    findings: tuple[Finding, ...]

    def __repr__(self) -> str:
        word = "interrupted" if self.interrupted else "held" if self.ok else "fell short"
        better = sum(f.word == "better" for f in self.findings)
        return (
            f"<validation: {len(self.checks)} checks, {word}; {better} of {len(self.findings)} models better "
            f"than their baseline>"
        )

    def to_dataframe(self) -> pd.DataFrame:
        """One row a finding, with the keys of the document's ``findings``."""
        return dataframe(self.document["findings"])


def validate(
    gpu: str | Path | Gpu = "v100",
    *,
    quick: bool = False,
    seed: int = 0,
    jobs: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ValidationResult:
    """Run every cross-check for a GPU.

    Args:
        gpu: a name, a description's path or a description.
        quick: fewer random cases.
        seed: root of all random numbers.
        jobs: processes; None for one a core.
        out: folder for the report and, as they come, for results; None writes none.
        resume: keep the results in ``out`` and compute the others.
        progress: told ``(done, total)`` tasks.

    Raises:
        SmlabError: an argument that cannot be used, in one line.
    """
    description = a_gpu("gpu", gpu)
    a_whole("seed", seed)
    if jobs is not None:
        a_whole("jobs", jobs, 1)
    folder = None if out is None else a_path("out", out)
    outcome = run_checks(
        description, quick=quick, seed=seed, processes=jobs, folder=folder, resume=resume, progress=progress
    )
    page = None if folder is None else outcome.report.write(folder)
    document = outcome.report.as_json()
    return ValidationResult(
        ok=outcome.report.ok,
        document=document,
        report=page,
        wall_s=outcome.wall_s,
        interrupted=outcome.interrupted,
        checks=tuple(outcome.report.checks),
        findings=tuple(outcome.report.findings),
    )
