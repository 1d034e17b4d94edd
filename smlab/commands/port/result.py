"""What ``smlab port`` gives: its result, its rows and its JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.commands.frames import TabularResult, dataframe
from smlab.commands.port.advice import PortAdvice, advice_rows
from smlab.commands.port.causes import Explained, stall_difference, terms_of
from smlab.commands.port.sampled import StalledKernel, stalled_rows
from smlab.hw_bench.datasets.timed_work import stalls_of
from smlab.hw_bench.datasets.tuning import TuningTimes
from smlab.models.portability.causes import Causes
from smlab.models.portability.matching import Matches
from smlab.models.portability.metric import PortabilityOfSet
from smlab.models.portability.pairing import Renamed
from smlab.models.portability.ratios import Ratios, verdicts_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

SAME: Final = 0.02
"""Two GPUs whose times differ by less, relative, are as fast as each other for whoever has to choose."""


@dataclass(frozen=True, repr=False)
class PortResult(TabularResult):
    """Kernels on several platforms. ``pairs`` holds, for each platform but the first, the ratios of its times
    to the first's. They are of the configurations with `MIN_LAUNCHES` launches or more (rows of ``matches``),
    None where there is none. ``steady_s`` is of shape ``(matched, platforms)``. ``explained`` holds the
    causes of the ratios, None where a GPU has no description or nothing tells of the kernels. ``portability``
    sums up each kernel's configurations as applications, by application efficiency. ``modelled``: the second
    platform was not measured but projected. ``advice`` is None where it was not asked for. ``stalled``
    compares samples by instruction, by the target's name. ``renamed`` are kernels that were paired under two
    names or launches. Kernels of one configuration have no application efficiency; those in ``of_roof`` have
    the share of their roof in its place, the others stand not among ``kernels``."""

    platforms: tuple[str, ...]
    times: tuple[TuningTimes, ...]
    matches: Matches
    steady_s: Floats
    pairs: Mapping[str, tuple[NDArray[np.int64], Ratios] | None]
    explained: Mapping[str, Explained]
    kernels: tuple[str, ...]
    portability: PortabilityOfSet
    notes: tuple[str, ...]
    modelled: bool = False
    advice: tuple[PortAdvice, ...] | None = None
    stalled: Mapping[str, tuple[StalledKernel, ...]] = field(default_factory=dict)
    renamed: Mapping[str, tuple[Renamed, ...]] = field(default_factory=dict)
    of_roof: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<{len(self.matches.labels):,} configurations on {', '.join(self.platforms)}>"

    def exact(self, name: str) -> bool:
        """Whether the times of a platform and the first's were simulated: their ratios have no noise."""
        return self.times[0].exact and self.times[self.platforms.index(name)].exact

    def plot(self) -> Figure:
        """The cascade of efficiencies; a Matplotlib figure."""
        from smlab.commands.port.plot import cascade_figure

        return cascade_figure(self.portability.efficiencies, self.kernels, self.platforms)

    def to_dataframe(self) -> pd.DataFrame:
        """One row a configuration and pair, with the keys of ``smlab port --json``."""
        return dataframe(rows_of(self))


def rows_of(result: PortResult) -> list[dict[str, Any]]:
    """The rows of ``kernels`` in the JSON document."""
    rows: list[dict[str, Any]] = []
    source = result.times[0]
    for column, name in enumerate(result.platforms[1:], start=1):
        pair, explained = result.pairs[name], result.explained[name]
        measured = (source, result.times[column]) if not result.modelled else ()
        stalls = [stalls_of(t) for t in measured]
        at = {int(row): i for i, row in enumerate(pair[0])} if pair else {}
        reasons = {int(row): i for i, row in enumerate(explained.rows)}
        for row, label in enumerate(result.matches.labels):
            kernel = str(source.kernel[result.matches.rows[row, 0]])
            expected = float(explained.expected[row])
            entry: dict[str, Any] = {
                "kernel": kernel,
                "config": label.removeprefix(kernel).strip() or label,
                "target": name,
                "evidence": "modelled"
                if result.modelled
                else "simulated"
                if result.exact(name)
                else "measured",
                "ratio": float(result.steady_s[row, column] / result.steady_s[row, 0]),
                "low": None,
                "high": None,
                "initial_ratio": None,
                "expected": None if np.isnan(expected) else expected,
                "verdict": "cannot tell",
                "drifting": None,
                "weight": _weight(source, int(result.matches.rows[row, 0])),
            }
            if not result.modelled:
                there = str(result.times[column].kernel[result.matches.rows[row, column]])
                entry |= {"target_kernel": there} if there != kernel else {}
                if entry["weight"] is not None:
                    sides = ((source, 0), (result.times[column], column))
                    totals = (sum(t.runs[int(result.matches.rows[row, c])]) for t, c in sides)
                    entry |= dict(zip(("source_total_s", "target_total_s"), totals, strict=True))
            if result.exact(name):
                entry |= {"low": entry["ratio"], "high": entry["ratio"], "drifting": False}
            elif pair and row in at:
                i, found = at[row], pair[1]
                entry |= {
                    "ratio": float(found.ratio[i]),
                    "low": float(found.low[i]),
                    "high": float(found.high[i]),
                    "initial_ratio": float(found.initial_ratio[i]),
                    "drifting": bool(found.drifting[i]),
                    "drift": drift_of(result, column, row, i),
                }
            if explained.causes is not None and row in reasons:
                entry |= terms_of(explained.causes, reasons[row])
                entry["fits"] = entry["dominant"]
                entry["dominant"] = borne_cause(explained.causes, reasons[row])
                if result.modelled:
                    left = entry["unexplained"]
                    low, high = (float(entry["ratio"] * np.exp(left[end])) for end in ("low", "high"))
                    entry |= {"low": low, "high": high}
            if entry["low"] is not None and not np.isnan(expected):
                ends = (np.array([entry["low"]]), np.array([entry["high"]]))
                entry["verdict"] = verdicts_of(*ends, expected, SAME)[0]
            both = [
                s.get(int(result.matches.rows[row, c])) for s, c in zip(stalls, (0, column), strict=False)
            ]
            if len(both) == 2 and both[0] and both[1]:
                entry["stalls"] = stall_difference(both[0], both[1])
            rows.append(entry)
    return rows


NO_CAUSE: Final = ("nothing", "unexplained")
NOT_TOLD: Final = "not told"


def borne_cause(causes: Causes, row: int) -> str:
    """The dominant cause of a kernel whose counters bear it; of others `NOT_TOLD`, whatever their launch
    fits."""
    name = causes.dominant(row)
    return name if causes.counted[row] or name in NO_CAUSE else NOT_TOLD


def _weight(times: TuningTimes, row: int) -> float | None:
    """The share of a row in all kernel time of a trace; None of other files, whose launches nobody used."""
    whole = times.application
    return None if whole is None else float(sum(times.runs[row]) / whole.kernels_s)


def drift_of(result: PortResult, column: int, row: int, at: int) -> list[dict[str, Any]]:
    """Of the GPUs that drift on a matched row: by how much, from which launch on, and when in a trace."""
    pair = result.pairs[result.platforms[column]]
    assert pair is not None
    found = []
    for side, series in ((0, pair[1].source), (column, pair[1].target)):
        if not series.drifting[at]:
            continue
        times, launch = result.times[side], int(series.step_at[at])
        starts = None if times.starts_s is None else times.starts_s[int(result.matches.rows[row, side])]
        found.append(
            {
                "platform": result.platforms[side],
                "change": float(series.step[at]),
                "launch": launch,
                "at_s": None if starts is None else float(starts[launch] - starts[0]),
            }
        )
    return found


def application_rows(result: PortResult) -> dict[str, Any] | None:
    """Each platform's whole trace, and the ratio to the first's; None where not all are traces."""
    wholes = [t.application for t in result.times]
    if result.modelled or any(whole is None for whole in wholes):
        return None
    first = wholes[0]
    rows = {}
    for column, (name, times, whole) in enumerate(zip(result.platforms, result.times, wholes, strict=True)):
        assert whole is not None
        assert first is not None
        matched = sum(sum(times.runs[row]) for row in result.matches.rows[:, column].tolist())
        rows[name] = {
            **asdict(whole),
            "matched_share": float(matched / whole.kernels_s),
            "matched_s": float(matched),
            "ratio": float(whole.span_s / first.span_s),
        }
    return rows


def document(result: PortResult) -> dict[str, Any]:
    """The JSON document of a comparison."""
    return {
        "platforms": [
            {"name": name, "device": t.device, "file": str(t.path), "failed": len(t.failed)}
            for name, t in zip(result.platforms, result.times, strict=True)
        ],
        "kernels": rows_of(result),
        "campaigns": {
            name: None
            if pair is None or pair[1].change is None
            else {
                "change": float(np.expm1(pair[1].change.log_change)),
                "level": pair[1].change.level,
                "configurations": pair[1].change.count,
            }
            for name, pair in result.pairs.items()
        },
        "portability": [
            {
                "kernel": kernel,
                "basis": "roof" if kernel in result.of_roof else "own best configuration",
                "metric": float(result.portability.metric[row]),
                "min": float(result.portability.least[row]),
                "mean": float(result.portability.mean[row]),
                "efficiencies": dict(
                    zip(result.platforms, result.portability.efficiencies[row].tolist(), strict=True)
                ),
            }
            for row, kernel in enumerate(result.kernels)
        ],
        **({} if result.advice is None else {"advice": advice_rows(result.advice)}),
        **({"stalled_code": stalled_rows(result.stalled)} if result.stalled else {}),
        "application": application_rows(result),
        "renamed": [
            {
                "target": name,
                "source_kernel": str(result.times[0].kernel[pair.source]),
                "target_kernel": str(result.times[result.platforms.index(name)].kernel[pair.target]),
                "by": pair.by,
            }
            for name, pairs in result.renamed.items()
            for pair in pairs
        ],
        "unmatched": {name: list(labels) for name, labels in result.matches.unmatched.items()},
        "notes": list(result.notes),
    }


def same_everywhere(configs: list[str]) -> set[str]:
    """Parameters that have one value in all configurations: told once, not in every row."""
    common = set(configs[0].split(", "))
    for config in configs:
        common &= set(config.split(", "))
    return common if len(set(configs)) > 1 else set()
