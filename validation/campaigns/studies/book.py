"""The five studies, in order: their files, what a reduced run leaves out, and who answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from smlab.validation.campaigns.studies.answer import Answer, StudyEstimate
from smlab.validation.campaigns.studies.newer_sm import answer as newer_sm
from smlab.validation.campaigns.studies.occupancy_error import answer as occupancy_error
from smlab.validation.campaigns.studies.points import Points, Reduction, points_of
from smlab.validation.campaigns.studies.policies import answer as policies
from smlab.validation.campaigns.studies.second_pipe import answer as second_pipe
from smlab.validation.campaigns.studies.service_time import answer as service_time
from smlab.validation.method.statistics import Interval
from smlab.validation.report import Section

__all__ = ["CHAPTERS", "Answer", "Chapter", "Interval", "Points", "StudyEstimate", "points_of"]


@dataclass(frozen=True)
class Chapter:
    """One study: its folder, its files, and how it is answered.

    ``answer`` makes the findings from the points by file; ``draw`` adds the figures to a section. ``report``
    and ``quick`` say how the files are reduced for ``smlab validate``.
    """

    folder: str
    question: str
    files: tuple[str, ...]
    answer: Callable[[Mapping[str, Points]], Answer]
    draw: Callable[[Section, Mapping[str, Points]], None]
    report: Reduction = field(default_factory=Reduction)
    quick: Reduction = field(default_factory=Reduction)


CHAPTERS: tuple[Chapter, ...] = (
    Chapter(
        "service-time",
        "Where does S(n, e, c) come from: latency or interval?",
        ("study.toml",),
        service_time.answer,
        service_time.draw,
        Reduction(samples=256),
        Reduction(samples=64),
    ),
    Chapter(
        "second-pipe",
        "What does a second atomic pipe buy a solid histogram?",
        second_pipe.FILES,
        second_pipe.answer,
        second_pipe.draw,
        Reduction(samples=64),
        Reduction(samples=32, base={"pixels": 65536}, left_out=("image", "variant")),
    ),
    Chapter(
        "policies",
        "Which scheduler policy serves atomics best, and when?",
        ("study.toml",),
        policies.answer,
        policies.draw,
        Reduction(replications=5, levels={"blocks": (4, 32), "work": (8, 32)}),
        Reduction(replications=3, levels={"blocks": (4, 8), "work": (32,), "each_round": ("control",)}),
    ),
    Chapter(
        "occupancy-error",
        "How wrong is the occupancy estimator across Ampere-like SMs?",
        ("study.toml",),
        occupancy_error.answer,
        occupancy_error.draw,
        Reduction(samples=64),
        Reduction(samples=16),
    ),
    Chapter(
        "newer-sm",
        "What does V100 code gain from the A100's and the H100's SM, one constant at a time?",
        newer_sm.FILES,
        newer_sm.answer,
        newer_sm.draw,
        Reduction(replications=5),
        Reduction(replications=2),
    ),
)
