"""``smlab.port``: the same kernels on several GPUs, compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.commands.arguments import a_path
from smlab.commands.frames import dataframe
from smlab.hw_bench.datasets.timed_kernels import read_timed_kernels
from smlab.hw_bench.datasets.tuning import TuningTimes, label_of
from smlab.hw_bench.errors import SmlabError
from smlab.models.portability.launch_series import INITIAL_LAUNCHES, MIN_LAUNCHES
from smlab.models.portability.matching import Matches, check_units, match
from smlab.models.portability.metric import PortabilityOfSet, application_efficiency, portability
from smlab.models.portability.ratios import Ratios, ratios

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

SAME: Final = 0.02
"""Two GPUs whose times differ by less, relative, are as fast as each other for whoever has to choose."""


@dataclass(frozen=True, repr=False)
class PortResult:
    """Kernels on several platforms. ``pairs`` holds, for each platform but the first, the ratios of its times
    to the first's: of configurations with `MIN_LAUNCHES` launches or more in ``compared`` (rows of
    ``matches``), None where there is none. ``steady_s`` is of shape ``(matched, platforms)``. ``portability``
    sums up each kernel's configurations as applications, by application efficiency.
    """

    platforms: tuple[str, ...]
    times: tuple[TuningTimes, ...]
    matches: Matches
    steady_s: Floats
    pairs: Mapping[str, tuple[NDArray[np.int64], Ratios] | None]
    kernels: tuple[str, ...]
    portability: PortabilityOfSet
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<{len(self.matches.labels):,} configurations on {', '.join(self.platforms)}>"

    def to_dataframe(self) -> pd.DataFrame:
        """One row a configuration and pair, with the keys of ``smlab port --json``."""
        return dataframe(rows_of(self))


def port(files: Mapping[str, str | Path]) -> PortResult:
    """Compare the kernels that all files hold; ``files`` maps a name for each GPU to its times.

    A file is whatever `read_timed_kernels` reads. The first is the source, the others are held against it.

    Raises:
        SmlabError: an unreadable file, nothing in common, times in different units, one GPU given twice.
    """
    if not isinstance(files, Mapping):
        raise SmlabError.at("files", f"a {type(files).__name__} is not a mapping", files, "{name: path}")
    paths = {name: a_path(name, path) for name, path in files.items()}
    seen: dict[Path, str] = {}
    for name, path in paths.items():
        if path.resolve() in seen:
            raise SmlabError.at(
                name, "the same file as " + seen[path.resolve()], str(path), "another GPU's file"
            )
        seen[path.resolve()] = name
    times = {name: read_timed_kernels(path) for name, path in paths.items()}
    found = match(_labels(times))
    steady = np.column_stack([_steady(t, found.rows[:, column]) for column, t in enumerate(times.values())])
    names = tuple(times)
    pairs: dict[str, tuple[NDArray[np.int64], Ratios] | None] = {}
    notes = _notes(times, found)
    for column, name in enumerate(names[1:], start=1):
        check_units((names[0], name), (steady[:, 0], steady[:, column]))
        pairs[name] = _pair(times[names[0]], times[name], found.rows[:, [0, column]])
    kernels, best = _best_of_kernels(times[names[0]], found, steady)
    return PortResult(
        platforms=names,
        times=tuple(times.values()),
        matches=found,
        steady_s=steady,
        pairs=pairs,
        kernels=kernels,
        portability=portability(best),
        notes=tuple(notes),
    )


def rows_of(result: PortResult) -> list[dict[str, Any]]:
    """The rows of ``kernels`` in the JSON document."""
    rows: list[dict[str, Any]] = []
    source = result.times[0]
    for column, name in enumerate(result.platforms[1:], start=1):
        pair = result.pairs[name]
        at = {int(row): i for i, row in enumerate(pair[0])} if pair else {}
        words = pair[1].verdicts(1.0, SAME) if pair else []
        for row, label in enumerate(result.matches.labels):
            kernel = str(source.kernel[result.matches.rows[row, 0]])
            entry: dict[str, Any] = {
                "kernel": kernel,
                "config": label.removeprefix(kernel).strip() or label,
                "target": name,
                "ratio": float(result.steady_s[row, column] / result.steady_s[row, 0]),
                "low": None,
                "high": None,
                "initial_ratio": None,
                "verdict": "cannot tell",
                "drifting": None,
            }
            if pair and row in at:
                i, found = at[row], pair[1]
                entry |= {
                    "ratio": float(found.ratio[i]),
                    "low": float(found.low[i]),
                    "high": float(found.high[i]),
                    "initial_ratio": float(found.initial_ratio[i]),
                    "verdict": words[i],
                    "drifting": bool(found.drifting[i]),
                }
            rows.append(entry)
    return rows


def _labels(times: Mapping[str, TuningTimes]) -> dict[str, list[str]]:
    """What rows are matched by: kernel and configuration, or the configuration alone where each file is of
    one kernel (tuners name it or not)."""
    if all(len(set(t.kernel.tolist())) == 1 for t in times.values()):
        return {name: [label_of(t.parameters, c) for c in t.config] for name, t in times.items()}
    return {name: t.labels() for name, t in times.items()}


def _steady(times: TuningTimes, rows: NDArray[np.int64]) -> Floats:
    """The median of each row's launches but the first, where there are more."""
    runs = [times.runs[row] for row in rows]
    return np.array([np.median(r[INITIAL_LAUNCHES:] if len(r) > INITIAL_LAUNCHES else r) for r in runs])


def _pair(
    source: TuningTimes, target: TuningTimes, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Ratios] | None:
    """The configurations with launches enough on both, cut to the numbers of launches that most of them
    have."""
    counts = np.array([[len(source.runs[a]), len(target.runs[b])] for a, b in rows])
    enough = (counts >= MIN_LAUNCHES).all(axis=1)
    if not enough.any():
        return None
    lengths = [int(np.median(counts[enough, side])) for side in (0, 1)]
    chosen = np.flatnonzero(enough & (counts >= lengths).all(axis=1))
    if not len(chosen):
        return None
    first = np.array([source.runs[a][: lengths[0]] for a in rows[chosen, 0]])
    second = np.array([target.runs[b][: lengths[1]] for b in rows[chosen, 1]])
    return chosen, ratios(first, second)


def _best_of_kernels(source: TuningTimes, found: Matches, steady: Floats) -> tuple[tuple[str, ...], Floats]:
    """Each kernel's efficiency on each platform with one configuration for all: the one whose worst
    efficiency is the best (application efficiency, against the kernel's own fastest configuration there)."""
    kernel = np.array([str(source.kernel[row]) for row in found.rows[:, 0]], dtype=object)
    names = tuple(dict.fromkeys(kernel.tolist()))
    best = np.empty((len(names), steady.shape[1]))
    for at, name in enumerate(names):
        efficiencies = application_efficiency(steady[kernel == name])
        best[at] = efficiencies[np.argmax(portability(efficiencies).metric)]
    return names, best


def _notes(times: Mapping[str, TuningTimes], found: Matches) -> list[str]:
    notes = []
    for name, t in times.items():
        missing, failed = len(found.unmatched[name]), len(t.failed)
        if missing:
            notes.append(
                f"{name}: {missing:,} configurations are in no other file, or not in all, such as "
                f"{found.unmatched[name][0]}"
            )
        if failed:
            notes.append(f"{name}: {failed:,} configurations did not run, such as {': '.join(t.failed[0])}")
    counts = {
        name: {len(t.runs[row]) for row in found.rows[:, c]} for c, (name, t) in enumerate(times.items())
    }
    if len({frozenset(c) for c in counts.values()}) > 1:
        shown = ", ".join(f"{name} {min(c)} to {max(c)}" for name, c in counts.items())
        notes.append(f"the numbers of launches differ: {shown}")
    return notes
