"""Kernels of traces and profiles that have another name or launch on another GPU, for ``smlab port``."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from smlab.hw_bench.datasets.kernel_pairs import read_kernel_pairs
from smlab.hw_bench.datasets.tuning import TuningTimes
from smlab.hw_bench.errors import SmlabError
from smlab.models.portability.pairing import LaunchedKernel, Renamed, pair_named, pair_renamed

AS_LAUNCHED: Final = ({"grid", "block", "shared_bytes"}, {"blocks", "threads"})
"""The parameters of files whose rows are launches as they happened; the rows of others are configurations
that somebody chose, and are never paired but by name."""


def labels_with_renamed(
    labels: Mapping[str, list[str]], times: Mapping[str, TuningTimes], pairs: Path | None
) -> tuple[dict[str, list[str]], dict[str, tuple[Renamed, ...]]]:
    """The labels by which rows match, those of paired kernels as on the first platform; and the pairs of
    each other platform.

    Raises: SmlabError: a name in the file ``pairs`` that no kernel has.
    """
    source, *others = times
    named = () if pairs is None else read_kernel_pairs(pairs)
    found = {name: list(own) for name, own in labels.items()}
    renamed: dict[str, tuple[Renamed, ...]] = {}
    for name in others:
        if pairs is not None:
            _check_named(pairs, named, times[source], times[name])
        told = pair_named(named, *_alone(found, times, source, name))
        _relabel(found, source, name, told)
        if all(set(times[side].parameters) in AS_LAUNCHED for side in (source, name)):
            more = pair_renamed(*_of_one_side(*_alone(found, times, source, name)))
            _relabel(found, source, name, more)
            told = (*told, *more)
        renamed[name] = told
    return found, renamed


def _alone(
    labels: Mapping[str, list[str]], times: Mapping[str, TuningTimes], source: str, target: str
) -> tuple[list[LaunchedKernel], list[LaunchedKernel]]:
    """The rows of both that have no partner."""
    sides = []
    for own, other in ((source, target), (target, source)):
        t, known = times[own], set(labels[other])
        sides.append([_launched(t, row) for row in range(len(t)) if labels[own][row] not in known])
    return sides[0], sides[1]


def _launched(times: TuningTimes, row: int) -> LaunchedKernel:
    order = float(row) if times.starts_s is None else times.starts_s[row][0]
    shape = " ".join(str(value) for value in times.config[row][:2])
    blocks = math.prod(int(number) for number in re.findall(r"\d+", str(times.config[row][0])))
    return LaunchedKernel(row, str(times.kernel[row]), shape, blocks, order, len(times.runs[row]))


def _of_one_side(
    here: list[LaunchedKernel], there: list[LaunchedKernel]
) -> tuple[list[LaunchedKernel], list[LaunchedKernel]]:
    """Without the launch shapes of kernels that both have, where one has more of these: which is which,
    nothing tells."""
    counts = [Counter(kernel.name for kernel in side) for side in (here, there)]
    unclear = {name for name in counts[0] if name in counts[1] and counts[0][name] != counts[1][name]}
    return [k for k in here if k.name not in unclear], [k for k in there if k.name not in unclear]


def _relabel(labels: dict[str, list[str]], source: str, target: str, pairs: tuple[Renamed, ...]) -> None:
    for pair in pairs:
        labels[target][pair.target] = labels[source][pair.source]


def _check_named(
    path: Path, pairs: tuple[tuple[str, str], ...], source: TuningTimes, target: TuningTimes
) -> None:
    for side, (word, times) in enumerate((("source", source), ("target", target))):
        for pair in pairs:
            if not any(str(kernel).startswith(pair[side]) for kernel in times.kernel):
                known = ", ".join(sorted({str(kernel) for kernel in times.kernel})[:3])
                raise SmlabError.at(
                    f"{path}: {word}", f"no kernel of {times.path} has this name", pair[side], known
                )
