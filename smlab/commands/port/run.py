"""``smlab port``: compare, print, draw."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, shown
from smlab.commands.plots import check_plot
from smlab.commands.port.api import SAME, PortResult, port, rows_of
from smlab.hw_bench.errors import SmlabError


@dataclass(frozen=True)
class PortOptions:
    """What ``smlab port`` was asked for; ``files`` are ``NAME=FILE``."""

    files: tuple[str, ...]
    top: int
    plot: Path | None
    as_json: bool


def run_port(options: PortOptions) -> None:
    """Read, compare and print; nothing of a file is left out silently."""
    files = _files(options.files)
    if options.plot is not None:
        check_plot(options.plot, tuple(files.values()))
    result = port(files)
    for note in result.notes:
        err.print(shown(note))
    if options.plot is not None:
        from smlab.commands.port.plot import draw_cascade

        for path in draw_cascade(result, options.plot):
            err.print(f"wrote {shown(path)}")
    if options.as_json:
        print_json(document(result))
    else:
        _print(result, options.top)


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
                "metric": float(result.portability.metric[row]),
                "min": float(result.portability.least[row]),
                "mean": float(result.portability.mean[row]),
                "efficiencies": dict(
                    zip(result.platforms, result.portability.efficiencies[row].tolist(), strict=True)
                ),
            }
            for row, kernel in enumerate(result.kernels)
        ],
        "unmatched": {name: list(labels) for name, labels in result.matches.unmatched.items()},
        "notes": list(result.notes),
    }


def _files(given: tuple[str, ...]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise SmlabError.at("port", "not a named file", text, "NAME=FILE, such as v100=times.csv")
        if name in files:
            raise SmlabError.at("port", "a name stands twice", name, "another name for each GPU")
        files[name] = Path(path)
    return files


def _print(result: PortResult, top: int) -> None:
    source = result.platforms[0]
    for name, pair in result.pairs.items():
        column = result.platforms.index(name)
        log_ratio = np.log(result.steady_s[:, column] / result.steady_s[:, 0])
        low, middle, high = np.exp(np.quantile(log_ratio, [0.05, 0.5, 0.95]))
        out.print(
            f"[bold]{shown(name)} over {shown(source)}[/bold]: {len(log_ratio):,} configurations, ratio "
            f"{middle:.3g} in the median, {low:.3g} to {high:.3g} for nine of ten"
        )
        if pair is None:
            out.print("  too few launches of each for an interval: no verdict can be given")
            continue
        found = pair[1]
        words = Counter(found.verdicts(1.0, SAME))
        told = ", ".join(f"{count:,} {word}" for word, count in words.most_common())
        out.print(f"  {told}; {np.mean(found.drifting):.0%} drift within their launches")
        if found.change is None:
            out.print(
                "  too few configurations to tell what the clocks do between measurements: the intervals "
                "know the noise of these launches alone"
            )
        else:
            out.print(
                f"  of {found.change.count:,} that looked steady at half-time {found.level:.0%} later stayed "
                f"within {np.expm1(found.change.log_change):.1%}; the intervals know that"
            )
    rows = sorted(rows_of(result), key=lambda row: -abs(np.log(row["ratio"])))
    same = _same_everywhere([row["config"] for row in rows])
    table = Listing()
    table.add_column("kernel and configuration", fold=True)
    for heading, drop in (("GPU", 0), ("ratio", 0), ("low to high", 1), ("first launch", 3)):
        table.add_column(heading, justify="right", drop=drop)
    table.add_column("verdict", drop=2)
    for row in rows[:top]:
        interval = "" if row["low"] is None else f"{row['low']:.3f} to {row['high']:.3f}"
        initial = "" if row["initial_ratio"] is None else f"{row['initial_ratio']:.3f}"
        word = row["verdict"] + (", drifting" if row["drifting"] else "")
        config = ", ".join(part for part in row["config"].split(", ") if part not in same)
        name = shown(f"{row['kernel']} {config}".strip())
        table.add_row(name, shown(row["target"]), f"{row['ratio']:.3f}", interval, initial, word)
    out.print(table)
    if len(rows) > top:
        out.print(f"the {top} furthest from 1 of {len(rows):,} (--top; all with --json)")
    if same:
        out.print(f"all with {shown(', '.join(sorted(same)))}")
    _print_portability(result)


def _same_everywhere(configs: list[str]) -> set[str]:
    """Parameters that have one value in all configurations: told once, not in every row."""
    common = set(configs[0].split(", "))
    for config in configs:
        common &= set(config.split(", "))
    return common if len(set(configs)) > 1 else set()


def _print_portability(result: PortResult) -> None:
    found = result.portability
    table = Listing()
    table.add_column("kernel, one configuration for all", fold=True)
    for heading in ("PP", "least", "mean"):
        table.add_column(heading, justify="right")
    for name in result.platforms:
        table.add_column(shown(name), justify="right", drop=1)
    for row, kernel in enumerate(result.kernels):
        numbers = (found.metric[row], found.least[row], found.mean[row], *found.efficiencies[row])
        table.add_row(shown(kernel), *(f"{number:.3f}" for number in numbers))
    out.print(table)
    out.print("PP: Pennycook's metric, the harmonic mean of application efficiencies")
