"""What ``smlab project`` was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from smlab.models.projection.projection import ProjectionSwitches


@dataclass(frozen=True)
class ProjectOptions:
    """What ``smlab project`` was asked for; ``source`` and ``target`` are ``--from`` and ``--to``, whose
    constants ``settings`` change."""

    profiles: tuple[Path, ...]
    source: str | None
    target: str | None
    settings: tuple[str, ...]
    switches: ProjectionSwitches
    truth: Path | None
    dataset: str | None
    cubin_from: Path | None
    cubin_to: Path | None
    code_source: Path | None
    defines: tuple[str, ...]
    folders: tuple[Path, ...]
    cubins: tuple[Path, ...]
    draw: int | None
    simulate: bool
    launch: Path | None
    working_sets: tuple[str, ...]
    example: bool
    plot: Path | None
    as_json: bool
    details: bool = False
