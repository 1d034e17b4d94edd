"""Reports: one self-contained HTML file, a metrics.json with the same numbers, figures and tables as files."""

from validation.report.document import Report, Section
from validation.report.kinds import KINDS
from validation.report.tables import Cell, Column

__all__ = ["KINDS", "Cell", "Column", "Report", "Section"]
