"""Where a number comes from. Nothing assumed is ever shown as measured."""

from __future__ import annotations

import re

from smlab.hw_bench.errors import SmlabError

KINDS: dict[str, str] = {
    "simulated": "counted in a run of the simulator, where the truth is known exactly",
    "modelled": "computed by a closed-form model",
    "published": "printed in a paper, a manual or slides by others; the source is named",
    "measured": "measured on hardware, with this project's benchmarks",
    "spec": "from the vendor's specification",
    "calibrated": "fitted to measurements or to published numbers",
    "assumed": "neither known nor fitted; a choice, with its effect shown where it matters",
}
"""Every kind of number that a report may show, with its meaning for the legend."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")


def check_kind(kind: str | None, where: str) -> str | None:
    """``kind`` itself where it is one of `KINDS` or None; `SmlabError` otherwise."""
    if kind is not None and kind not in KINDS:
        raise SmlabError.at(where, "unknown kind of number", kind, ", ".join(KINDS))
    return kind


def check_name(name: str, what: str) -> str:
    """``name`` itself where it can serve as anchor, JSON key and file name; `SmlabError` otherwise."""
    if not _NAME.fullmatch(name):
        expected = (
            "lower-case letters, digits, dots, dashes and underscores, a letter or digit first, at most 80"
        )
        raise SmlabError.at(what, "unusable name", name, expected)
    return name
