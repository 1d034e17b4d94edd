"""Names on the points of a crowded picture: each beside its own point, none on another name or on a point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from smlab.validation.figure_style import INK, SOFT

Box = tuple[float, float, float, float]

HALO: Final = [withStroke(linewidth=2.0, foreground="white")]
"""Text stays legible on lines."""

RINGS: Final = (6.0, 12.0, 20.0, 30.0, 42.0, 56.0, 72.0, 92.0, 116.0)
"""Distances from the point at which a place is tried, in points."""
DIRECTIONS: Final = 24

FONT_POINTS = 6.5


def place_labels(
    ax: Axes,
    anchors: Sequence[tuple[float, float]],
    names: Sequence[str],
    obstacles: NDArray[np.float64],
) -> int:
    """Write ``names`` beside ``anchors`` (data coordinates), the nearest free place first; how many found
    none.

    ``obstacles`` (points, 2) in data coordinates and the texts that are there are kept clear. A name away
    from its point gets a thin line to it. Limits, scales and layout must be final but for the names.
    """
    figure = ax.figure.get_figure(root=True)
    assert figure is not None
    FigureCanvasAgg(figure).draw()
    pixel = figure.dpi / 72.0
    frame = ax.get_window_extent()
    points = ax.transData.transform(obstacles)
    radius = 3.0 * pixel
    taken: list[Box] = [
        (x - radius, y - radius, x + radius, y + radius) for x, y in points.tolist() if frame.contains(x, y)
    ]
    for text in ax.texts:
        extent = text.get_window_extent()
        taken.append((extent.x0, extent.y0, extent.x1, extent.y1))
    boxes = np.array(taken).reshape(-1, 4)
    height = 1.25 * FONT_POINTS * pixel
    left_out = 0
    for (x, y), name in zip(anchors, names, strict=True):
        px, py = ax.transData.transform((x, y))
        width = 0.63 * FONT_POINTS * pixel * len(name)
        place = _free(px, py, width, height, boxes, (frame.x0, frame.y0, frame.x1, frame.y1), pixel)
        if place is None:
            left_out += 1
            continue
        boxes = np.vstack([boxes, place])
        left = place[0] >= px
        at = (place[0] if left else place[2], (place[1] + place[3]) / 2)
        offset = ((at[0] - px) / pixel, (at[1] - py) / pixel)
        far = np.hypot(*offset) > 12
        ax.annotate(
            name,
            (x, y),
            offset,
            textcoords="offset points",
            ha="left" if left else "right",
            va="center",
            fontsize=FONT_POINTS,
            color=INK,
            zorder=5,
            annotation_clip=False,
            path_effects=HALO,
            arrowprops={"arrowstyle": "-", "color": SOFT, "lw": 0.4, "shrinkA": 0, "shrinkB": 2}
            if far
            else None,
        )
    return left_out


def _free(
    px: float, py: float, width: float, height: float, boxes: NDArray[np.float64], frame: Box, pixel: float
) -> Box | None:
    """The nearest box of this size beside the point that touches no other and lies within the frame."""
    for ring in RINGS:
        for step in range(DIRECTIONS):
            # right of the point first, then in turn above and below
            turn = (step + 1) // 2 * (1 if step % 2 else -1)
            angle = 2 * np.pi * turn / DIRECTIONS
            cx, cy = px + ring * pixel * np.cos(angle), py + ring * pixel * np.sin(angle)
            x0 = cx if np.cos(angle) >= 0 else cx - width
            box = (x0, cy - height / 2, x0 + width, cy + height / 2)
            if box[0] < frame[0] or box[1] < frame[1] or box[2] > frame[2] or box[3] > frame[3]:
                continue
            if len(boxes) and bool(
                (
                    (boxes[:, 0] < box[2])
                    & (boxes[:, 2] > box[0])
                    & (boxes[:, 1] < box[3])
                    & (boxes[:, 3] > box[1])
                ).any()
            ):
                continue
            return box
    return None
