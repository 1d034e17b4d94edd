"""Five studies, each a question with its answer: a folder with the study files and a README, and here what
answers it.

``smlab whatif validation/campaigns/studies/NAME/study.toml`` runs one by itself.
`smlab.validation.campaigns.studies.section` runs all of them, reduced, for the report of ``smlab validate``.
"""

from smlab.validation.campaigns.studies.book import (
    CHAPTERS,
    Answer,
    Chapter,
    Points,
    StudyEstimate,
    points_of,
)

__all__ = ["CHAPTERS", "Answer", "Chapter", "Points", "StudyEstimate", "points_of"]
