"""Judgements that a campaign made and that the report shows as they were stored.

They take hours, or judge stored tables and not the testbed. The report says when and with what each was
made. ``python -m smlab.validation.campaigns.sections NAME`` makes the advisor's and that of measured pairs
anew in a checkout; the code of the others is at the commit that `validation/campaigns/README.md` names.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from smlab.validation.checks import Plan, Results, Task
from smlab.validation.report import Report
from smlab.validation.report.stored import add_stored, read_provenance

JUDGEMENTS: Final = Path(__file__).with_name("judgements")


@dataclass(frozen=True)
class StoredCheck:
    """A check without work of its own: the part of the report that lies in ``judgements/NAME/``."""

    name: str

    @property
    def folder(self) -> Path:
        return JUDGEMENTS / self.name

    def tasks(self, plan: Plan) -> list[Task[str]]:
        return []

    def report(self, page: Report, plan: Plan, results: Results) -> None:
        made = read_provenance(self.folder)
        note = f"Not made in this run: {made}."
        if plan.gpu.name != made.gpu:
            note += f" It is of `{made.gpu}` alone and says nothing of `{plan.gpu.name}`."
        add_stored(page, self.folder, note)


UTILIZATION_MAPS: Final = StoredCheck("utilization-maps")
SIMULATED_PAIRS: Final = StoredCheck("simulated-pairs")
MEASURED_PAIRS: Final = StoredCheck("measured-pairs")
ADVISOR: Final = StoredCheck("advisor")
STUDIES: Final = StoredCheck("studies")
STORED: Final = (UTILIZATION_MAPS, SIMULATED_PAIRS, MEASURED_PAIRS, ADVISOR, STUDIES)
