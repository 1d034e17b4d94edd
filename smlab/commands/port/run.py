"""``smlab port``: compare, print, draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar, shown
from smlab.commands.arguments import macros_of
from smlab.commands.plots import check_plot
from smlab.commands.port.api import port, port_modelled
from smlab.commands.port.causes import TITLES
from smlab.commands.port.code import PortCode
from smlab.commands.port.command import PortOptions
from smlab.commands.port.result import (
    NOT_TOLD,
    PortResult,
    application_rows,
    document,
    rows_of,
    same_everywhere,
)
from smlab.commands.port.sampled import StalledKernel
from smlab.examples import PORT_FILES
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass.linking import readable_name
from smlab.models.portability.causes import CAUSES

EXAMPLE_SAYS = (
    "differences of run time from Coyne 2025, Tables 5.1 and 5.3 to 5.5; the V100's times are set to 1 ms, "
    "the first launch is the thesis's initial state"
)


def run_port(options: PortOptions) -> None:
    """Read, compare and print; nothing of a file is left out silently."""
    result = _compared(options)
    for note in result.notes:
        err.print(shown(note))
    if options.plot is not None:
        from smlab.commands.port.plot import draw_cascade

        if not result.kernels:
            raise SmlabError.at(
                "--plot", NO_PORTABILITY, expected="two configurations of a kernel, or counters"
            )
        for path in draw_cascade(
            result.portability.efficiencies, result.kernels, result.platforms, options.plot
        ):
            err.print(f"wrote {shown(path)}")
    if options.as_json:
        print_json(document(result))
    else:
        _print(result, options.top, options.details)


def _compared(options: PortOptions) -> PortResult:
    code = PortCode(
        options.code,
        tuple(macros_of(options.defines or ()).items()),
        _cubins(options),
        tuple(options.folders or ()),
    )
    modelled = options.source is not None or options.target is not None
    if modelled:
        _check_modelled(options)
    else:
        paths = {name: Path(path) for name, path in _files(options).items()}
        for name in code.cubins:
            if name not in paths:
                raise SmlabError.at("--cubin", "no file of that name", name, ", ".join(paths))
        if options.plot is not None:
            check_plot(options.plot, tuple(paths.values()))
        clocks = _named(options.clocks, "GHZ", "v100=1.38")
    slow = options.advise or bool(code)
    with progress_bar("kernels looked at") if slow else nullcontext() as advance:
        more: dict[str, Any] = {"code": code, "advise": options.advise, "progress": advance}
        if modelled:
            return port_modelled(_only_file(options), options.source or "", options.target or "", **more)
        return port(
            paths,
            gpus=_named(options.gpus, "GPU", "old=v100"),
            clocks_hz={name: _ghz(name, text) * 1e9 for name, text in clocks.items()},
            expect=options.expect,
            samples=_named(options.samples, "FILE", "v100=k.samples.csv"),
            pairs=options.pairs,
            **more,
        )


def _cubins(options: PortOptions) -> dict[str, Path]:
    return {name: Path(path) for name, path in _named(options.cubins, "CUBIN", "v100=k.cubin").items()}


def _files(options: PortOptions) -> dict[str, str]:
    if not options.example:
        return _named(options.files, "FILE", "v100=times.csv")
    if options.files:
        raise SmlabError.at("--example", "takes no file", options.files[0], "one or the other")
    err.print(f"example: {EXAMPLE_SAYS}")
    return {name: str(path) for name, path in PORT_FILES.items()}


def _only_file(options: PortOptions) -> str:
    files = options.files or []
    if options.source is None or options.target is None or len(files) != 1:
        raise SmlabError.at("port", "--from and --to need each other and one FILE", len(files), "1")
    return files[0]


def _check_modelled(options: PortOptions) -> None:
    if options.samples:
        raise SmlabError.at("--samples", "needs two measured GPUs", options.samples[0], "NAME=FILE NAME=FILE")
    file = _only_file(options)
    if options.plot is not None:
        check_plot(options.plot, (Path(file),))


def _ghz(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 10:
        raise SmlabError.at(f"--clock {name}", "not an SM clock", text, "GHz, such as 1.38")
    return value


def _named(given: Sequence[str] | None, what: str, such_as: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise SmlabError.at(
                "port", "not a named " + what.lower(), text, f"NAME={what}, such as {such_as}"
            )
        if name in found:
            raise SmlabError.at("port", "a name stands twice", name, "another name for each GPU")
        found[name] = value
    return found


def _print(result: PortResult, top: int | None, details: bool) -> None:
    _print_application(result)
    for name in result.pairs:
        _print_pair(result, name, details)
    _print_renamed(result, details)
    _print_rows(result, top or (MANY if details else FEW), details)
    _print_portability(result, details)
    for name, kernels in result.stalled.items():
        for kernel in kernels:
            _print_stalled(result.platforms[0], name, kernel)
    _print_advice(result)


FEW, MANY = 5, 20
"""Configurations that are listed."""


def _print_application(result: PortResult) -> None:
    """The whole of each trace, and what of it the matched kernels are."""
    rows = application_rows(result)
    if rows is None:
        return
    out.print("the whole application:")
    table = Listing()
    for heading in ("GPU", "from first to last", "ratio", "kernels", "copies", "gaps", "matched kernels"):
        table.add_column(heading, justify="right")
    for name, row in rows.items():
        copies = row["copies_s"] + row["memsets_s"]
        cells = [f"{1e3 * row['span_s']:.3f} ms", f"{row['ratio']:.3f}"]
        cells += [f"{1e3 * x:.3f} ms" for x in (row["kernels_s"], copies, row["gaps_s"])]
        table.add_row(shown(name), *cells, f"{row['matched_share']:.0%}")
    out.print(table)


def _print_renamed(result: PortResult, details: bool) -> None:
    for name, pairs in result.renamed.items():
        if not pairs:
            continue
        column = result.platforms.index(name)
        plural = "" if len(pairs) == 1 else "s"
        out.print(f"{shown(name)}: {len(pairs):,} kernel{plural} paired under two names or launches")
        for pair in pairs if details else pairs[:FEW]:
            here, there = result.times[0].kernel[pair.source], result.times[column].kernel[pair.target]
            out.print(shown(f"  {readable_name(str(here))} = {readable_name(str(there))} (by {pair.by})"))
        if not details and len(pairs) > FEW:
            out.print(f"  and {len(pairs) - FEW:,} more (--details)")


def _print_pair(result: PortResult, name: str, details: bool) -> None:
    """One GPU against the source: how often it is faster, by how much, and why."""
    pair, column = result.pairs[name], result.platforms.index(name)
    log_ratio = np.log(result.steady_s[:, column] / result.steady_s[:, 0])
    low, middle, high = np.exp(np.quantile(log_ratio, [0.05, 0.5, 0.95]))
    plural = "" if len(log_ratio) == 1 else "s"
    out.print(
        f"[bold]{shown(name)} over {shown(result.platforms[0])}[/bold]: time ratio {middle:.3g} in the "
        f"median of {len(log_ratio):,} configuration{plural}, {low:.3g} to {high:.3g} for nine of ten"
    )
    if pair is None:
        if result.exact(name):
            _print_verdicts(result, name)
        elif not result.modelled:
            out.print("  too few launches of each for an interval: no verdict can be given")
    else:
        _print_verdicts(result, name, f"; {np.mean(pair[1].drifting):.0%} drift within their launches")
    _print_causes(result, name, details)
    if pair is None or not details:
        return
    found = pair[1]
    if found.change is None:
        out.print(
            "  too few configurations to tell what the clocks do between measurements: the intervals know "
            "the noise of these launches alone"
        )
    else:
        out.print(
            f"  of {found.change.count:,} that looked steady at half-time {found.level:.0%} later stayed "
            f"within {np.expm1(found.change.log_change):.1%}; the intervals know that"
        )


def _print_rows(result: PortResult, top: int, details: bool) -> None:
    rows = sorted(rows_of(result), key=lambda row: -abs(np.log(row["ratio"])) * (row["weight"] or 1.0))
    weighted = all(row["weight"] is not None for row in rows)
    same = same_everywhere([row["config"] for row in rows])
    several = len(result.pairs) > 1
    table = Listing()
    table.add_column("kernel and configuration", fold=True, min_width=20)
    if several:
        table.add_column("GPU", justify="right")
    if weighted:
        table.add_column("share", justify="right", drop=3)
    table.add_column("ratio", justify="right")
    table.add_column("low to high", justify="right", drop=2)
    if details:
        table.add_column("first launch", justify="right", drop=3)
    table.add_column("verdict", fold=True)
    table.add_column("largest cause", fold=True)
    for row in rows[:top]:
        interval = "" if row["low"] is None else f"{row['low']:.3f} to {row['high']:.3f}"
        initial = "" if row["initial_ratio"] is None else f"{row['initial_ratio']:.3f}"
        word = row["verdict"] + (", drifting" if row["drifting"] else "") + _drift(row)
        config = ", ".join(part for part in row["config"].split(", ") if part not in same)
        cells = [shown(f"{readable_name(row['kernel'])} {config}".strip())]
        cells += [shown(row["target"])] if several else []
        cells += [f"{row['weight']:.1%}"] if weighted else []
        cells += [f"{row['ratio']:.3f}", interval, *([initial] if details else [])]
        table.add_row(*cells, word, _cause(row))
    out.print(table)
    if len(rows) > top:
        first = "with the most effect on the application" if weighted else "furthest from 1"
        out.print(f"the {top} {first} of {len(rows):,} (--top N; --json has all)")
    if same:
        out.print(f"all with {shown(', '.join(sorted(same)))}")


def _print_verdicts(result: PortResult, name: str, more: str = "") -> None:
    words = Counter(row["verdict"] for row in rows_of(result) if row["target"] == name and row["low"])
    out.print("  " + ", ".join(f"{count:,} {word}" for word, count in words.most_common()) + more)


def _drift(row: dict[str, Any]) -> str:
    """Which GPU drifts, by how much and from when on."""
    told = []
    for one in row.get("drift") or []:
        when = "" if one["at_s"] is None else f", {1e3 * one['at_s']:.1f} ms after the first"
        told.append(f" ({one['platform']} {one['change']:+.1%} from launch {one['launch'] + 1}{when})")
    return "".join(told)


def _cause(row: dict[str, Any]) -> str:
    """The dominant term of a row, as the factor that it is; where no counter bears it, as what would fit."""
    if "terms" not in row:
        return ""
    name = row["fits"]
    if name == "nothing":
        return ""
    fits = "fits " if row["dominant"] == NOT_TOLD else ""
    values = {n: t["log"] for n, t in row["terms"].items()} | {"unexplained": row["unexplained"]["log"]}
    values["sms and tail"] = values["sms"] + values["tail"]
    return f"{fits}{TITLES[name]} {np.exp(values[name]):.2f}x"


def _print_causes(result: PortResult, name: str, details: bool) -> None:
    """Which causes dominate how many kernels, and what each brings in the median."""
    found = result.explained[name].causes
    if found is None:
        return
    rows = range(len(found.log_ratio))
    for counted, says in (
        (True, "largest cause"),
        (False, "no counters, so no cause; the launch alone would fit"),
    ):
        words = [found.dominant(row) for row in rows if bool(found.counted[row]) == counted]
        told = ", ".join(f"{TITLES[word]} {count:,}" for word, count in Counter(words).most_common(5))
        if told:
            out.print(f"  {says}: {told}")
    if not details:
        return
    middle = sorted(
        ((n, float(np.median(found.terms[:, c]))) for c, n in enumerate(CAUSES)), key=lambda x: -abs(x[1])
    )
    factors = ", ".join(f"{TITLES[n]} {np.exp(v):.2f}x" for n, v in middle if abs(v) > 0.005)
    left = float(np.median(found.unexplained))
    more = "" if result.modelled else f", unexplained {np.exp(left):.2f}x"
    out.print(f"  in the median: {factors or 'no cause changes anything'}{more}")


def _print_portability(result: PortResult, details: bool) -> None:
    """Pennycook's metric of each kernel; without ``details`` in one line."""
    found = result.portability
    if not result.kernels:
        out.print(f"portability: not told: {NO_PORTABILITY}")
        return
    alone = len({str(result.times[0].kernel[row]) for row in result.matches.rows[:, 0]}) - len(result.kernels)
    if not details:
        worst = sorted(zip(found.metric.tolist(), result.kernels, strict=True))
        below = [f"{shown(readable_name(k))} {value:.3f}" for value, k in worst if value < 0.9995]
        told = ", ".join(below[:FEW]) + (f" and {len(below) - FEW:,} more" if len(below) > FEW else "")
        rest = f"{len(worst) - len(below):,} of {len(worst):,} kernels 1.000"
        out.print(
            "portability of one configuration for all GPUs (Pennycook's metric; 1 is best): "
            + "; ".join(filter(None, [told, rest if len(worst) > len(below) else ""]))
        )
        if alone:
            out.print(f"  {alone:,} of one configuration and without counters: not told")
        return
    table = Listing()
    table.add_column("kernel, one configuration for all", fold=True)
    for heading in ("PP", "least", "mean"):
        table.add_column(heading, justify="right")
    for name in result.platforms:
        table.add_column(shown(name), justify="right", drop=1)
    for row, kernel in enumerate(result.kernels):
        numbers = (found.metric[row], found.least[row], found.mean[row], *found.efficiencies[row])
        table.add_row(shown(readable_name(kernel)), *(f"{number:.3f}" for number in numbers))
    out.print(table)
    out.print("PP: Pennycook's metric, the harmonic mean of application efficiencies")


NO_PORTABILITY: Final = "no kernel has two configurations, or counters of both GPUs"


def _print_stalled(source: str, target: str, found: StalledKernel) -> None:
    table = Listing()
    table.add_column("line", justify="right")
    table.add_column("code", fold=True)
    for heading in (source, target, "change"):
        table.add_column(shown(heading), justify="right")
    table.add_column("most by", drop=1)
    for place in found.places[:MOST_PLACES]:
        shares = ("none" if x is None else f"{100 * x:.1f} %" for x in (place.source, place.target))
        reason = next(iter(place.reasons), "")
        line = "" if place.line is None else str(place.line)
        table.add_row(line, shown(place.text), *shares, f"{100 * place.change:+.1f}", reason)
    out.print(
        f"where {shown(found.kernel)} stalls, of {found.samples[0]:,} and {found.samples[1]:,} samples, the "
        "largest changes:"
    )
    out.print(table)


MOST_PLACES = 8


def _print_advice(result: PortResult) -> None:
    if result.advice is None:
        return
    if not result.advice:
        out.print("no change that was tried makes a kernel faster")
        return
    table = Listing()
    table.add_column("kernel", fold=True)
    table.add_column("advice", fold=True)
    for heading in (" or ".join(result.platforms[1:]), result.platforms[0]):
        table.add_column(shown(heading), justify="right")
    table.add_column("evidence", drop=1)
    for one in result.advice[:MOST_ADVICE]:
        changes = ("" if c is None else f"{100 * c:+.1f} %" for c in (one.target_change, one.source_change))
        table.add_row(shown(one.kernel), shown(one.text), *changes, one.evidence)
    out.print(table)
    if len(result.advice) > MOST_ADVICE:
        out.print(f"the first {MOST_ADVICE} of {len(result.advice):,} (--json has all)")
    off = [one.fidelity for one in result.advice if one.fidelity is not None]
    if off:
        out.print(
            f"simulated proxies take {min(off):.2f} to {max(off):.2f} of the measured times on "
            f"{shown(result.platforms[0])}: trust a change's direction before its size"
        )


MOST_ADVICE = 12
