"""The files of a report. Each is written beside its place and renamed, so that nobody reads half of one."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import write_atomic
from smlab.validation.figure_style import STYLE

PNG_DPI = 160
LARGEST_SVG = 600_000
"""Above this many bytes the page shows the PNG; figures/ has the SVG all the same."""
LARGEST_DATA = 200_000
"""Above this many bytes the page links to the CSV beside it instead of holding the data itself."""
CSS_PIXELS_PER_INCH = 96


@dataclass(frozen=True)
class Drawing:
    """A figure that has been drawn: its SVG, its PNG and the data behind it as CSV, and its size on the page.

    A stored figure has no PNG.
    """

    name: str
    svg: bytes
    png: bytes | None
    csv: str
    width_px: int
    height_px: int

    @property
    def image_uri(self) -> str:
        """The image within the page. An SVG is held as an image, so its ids cannot collide with another's."""
        if len(self.svg) > LARGEST_SVG and self.png is not None:
            return "data:image/png;base64," + base64.b64encode(self.png).decode()
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg).decode()

    @property
    def data_uri(self) -> str:
        """The data within the page, or the file beside it where they are many."""
        text = self.csv.encode()
        if len(text) > LARGEST_DATA:
            return f"figures/{self.name}.csv"
        return "data:text/csv;charset=utf-8;base64," + base64.b64encode(text).decode()


def draw(name: str, fig: Figure, csv: str) -> Drawing:
    """Draw ``fig`` as SVG and PNG, without dates or random ids: the same figure gives the same bytes."""
    svg, png = io.BytesIO(), io.BytesIO()
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        fig.savefig(svg, format="svg", metadata={"Date": None, "Creator": None}, facecolor="white")
        fig.savefig(png, format="png", dpi=PNG_DPI, metadata={"Software": None}, facecolor="white")
    width, height = (round(side * CSS_PIXELS_PER_INCH) for side in fig.get_size_inches())
    return Drawing(name, _without_metadata(svg.getvalue()), png.getvalue(), csv, width, height)


def write_report(
    out_dir: Path,
    html: str,
    metrics: Mapping[str, Any],
    drawings: Mapping[str, Drawing],
    tables: Mapping[str, str],
) -> Path:
    """Write all files of a report, report.html last, and return its path."""
    try:
        for folder in ("figures", "tables"):
            (out_dir / folder).mkdir(parents=True, exist_ok=True)
        for name, drawing in drawings.items():
            write_atomic(out_dir / "figures" / f"{name}.svg", drawing.svg)
            if drawing.png is not None:
                write_atomic(out_dir / "figures" / f"{name}.png", drawing.png)
            write_atomic(out_dir / "figures" / f"{name}.csv", drawing.csv.encode())
        for name, text in tables.items():
            write_atomic(out_dir / "tables" / f"{name}.csv", text.encode())
        document = json.dumps(metrics, indent=2, ensure_ascii=False, allow_nan=False)
        write_atomic(out_dir / "metrics.json", (document + "\n").encode())
        write_atomic(out_dir / "report.html", html.encode())
    except OSError as error:
        raise SmlabError(f"{out_dir}: the report cannot be written: {error}") from error
    return out_dir / "report.html"


def _without_metadata(svg: bytes) -> bytes:
    """The SVG without its metadata block, which names outside addresses and says nothing."""
    return re.sub(rb"\s*<metadata>.*?</metadata>", b"", svg, flags=re.DOTALL)
