"""The colours of the reasons for which warps wait, in light and in dark."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

COLOURS: Final = {
    "selected": ("#2e7d44", "#6fce9b"),
    "not_selected": ("#8fbf92", "#3f7a52"),
    "long_scoreboard": ("#b3261e", "#ff8a80"),
    "short_scoreboard": ("#c2660a", "#ffb060"),
    "wait": ("#a8921c", "#e0cc6a"),
    "barrier": ("#6d4fa1", "#b9a0ec"),
    "math_pipe_throttle": ("#2f6fb0", "#7db7f5"),
    "mio_throttle": ("#0f7c7e", "#5fcfd0"),
    "lg_throttle": ("#7a3e1d", "#d89a74"),
    "drain": ("#5c6470", "#aab3be"),
    "no_instruction": ("#a03b78", "#f09cce"),
    "load": ("#0b5cad", "#7db7f5"),
    "other": ("#767d87", "#8d959f"),
}
"""Of fills alone: no text is written on them."""


def colour_of(reason: str) -> str:
    """The name of a reason's colour: its own, or ``other``."""
    return reason if reason in COLOURS else "other"


def colour_rules() -> Markup:
    """The style rules for all of them: fills of drawings, and backgrounds of bars."""
    light = "".join(f"--r-{name}:{pair[0]};" for name, pair in COLOURS.items())
    dark = "".join(f"--r-{name}:{pair[1]};" for name, pair in COLOURS.items())
    used = "".join(f".r-{name}{{fill:var(--r-{name});background-color:var(--r-{name})}}" for name in COLOURS)
    return Markup(f":root{{{light}}}@media (prefers-color-scheme: dark){{:root{{{dark}}}}}{used}\n")
