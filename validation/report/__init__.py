"""Reports: one self-contained HTML file, a metrics.json with the same numbers, figures and tables as
files."""

from smlab.validation.report.content import Section
from smlab.validation.report.document import Report
from smlab.validation.report.tables import KINDS, Cell, Column

__all__ = ["KINDS", "Cell", "Column", "Report", "Section"]
