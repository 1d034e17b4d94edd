"""Writing a picture with its data beside it, and refusing where that cannot be."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from smlab.hw_bench.csv_cells import guarded
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import replacing
from smlab.hw_bench.inputs import resolved

SUFFIXES: Final = (".png", ".svg", ".pdf")


def check_plot(path: Path, inputs: Sequence[Path] = ()) -> None:
    """`SmlabError` if a picture cannot be written there, or if it or its data would overwrite one of
    ``inputs``."""
    if path.suffix not in SUFFIXES:
        raise SmlabError.at("--plot", "not a picture's name", str(path), ".png, .svg or .pdf")
    if not path.parent.is_dir():
        raise SmlabError.at(str(path), "the folder to write into does not exist", str(path.parent))
    written = {resolved(path.with_suffix(s)) for s in (".csv", *SUFFIXES)}
    for given in inputs:
        if resolved(given) in written:
            raise SmlabError.at("--plot", "would overwrite an input", str(given), "another name")


def write_figure(
    figure: Figure, path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]
) -> list[Path]:
    """The picture, as PNG and SVG unless it is to be a PDF, and its data as CSV beside it; what was
    written."""
    pictures = [path] if path.suffix == ".pdf" else [path.with_suffix(".png"), path.with_suffix(".svg")]
    data = path.with_suffix(".csv")
    try:
        for picture in pictures:
            with replacing(picture) as partial:
                figure.savefig(partial, dpi=200)
        with replacing(data) as partial, partial.open("w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow(header)
            out.writerows([guarded(cell) for cell in row] for row in rows)
    except OSError as error:
        raise SmlabError(f"{path}: the figure cannot be written: {error.strerror or error}") from error
    return [*pictures, data]
