"""Files of a finished study: the HTML page with its figures and tables, and all effects in one CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import write_atomic
from smlab.validation.experiments.effects.page import effects_page
from smlab.validation.experiments.effects.results import Effects
from smlab.validation.method.statistics import Interval
from smlab.validation.report.tables import csv_text

EFFECT_COLUMNS = ("response", "measure", "factors", "level", "reference", "estimate", "low", "high", "count")


def effects_csv(effects: Effects) -> str:
    """Every estimate with its interval, a row each: what it is a measure of, of which factors, at which
    level."""
    rows: list[list[Any]] = []

    def add(
        response: str, measure: str, factors: str, level: Any, reference: Any, found: Interval | None
    ) -> None:
        if found is not None:
            plain = [None if x != x else x for x in (found.estimate, found.low, found.high)]
            rows.append([response, measure, factors, level, reference, *plain, found.count])

    for found in effects.responses:
        name = found.response
        add(name, "mean", "", None, None, found.mean)
        for e in found.levels:
            add(name, "mean", e.factor, e.level, e.reference, e.mean)
            if e.against is not None:
                add(name, "difference", e.factor, e.level, e.reference, e.against.difference)
                add(name, "ratio", e.factor, e.level, e.reference, e.against.ratio)
                add(name, "variance reduction", e.factor, e.level, e.reference, e.against.variance_reduction)
        for s in found.shares:
            add(name, "share of variance", " x ".join(s.factors) or "higher", None, None, s.share)
        for i in found.sobol:
            add(name, "sobol index", " x ".join(i.factors), None, None, i.index)
            add(name, "sobol total", " x ".join(i.factors), None, None, i.total)
        for r in found.ranks:
            add(name, "rank coefficient", r.factor, None, None, r.coefficient)
    return csv_text(EFFECT_COLUMNS, rows)


def write_page(
    effects: Effects, frame: pd.DataFrame, out_dir: Path, question: str, provenance: dict[str, object]
) -> Path:
    """Write ``report.html`` with ``figures/`` (SVG, PNG, CSV) and ``tables/``, and ``effects.csv``; the
    page's path."""
    out_dir = Path(out_dir)
    page = effects_page(question, effects, frame, provenance)
    path = page.write(out_dir)
    try:
        write_atomic(out_dir / "effects.csv", effects_csv(effects).encode())
    except OSError as error:
        raise SmlabError(f"{out_dir}: the effects cannot be written: {error}") from error
    return path
