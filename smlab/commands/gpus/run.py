"""``smlab gpus``: descriptions, printed."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from smlab.cli.tables import Listing
from smlab.cli.terminal import out, print_json, shown
from smlab.hw_bench.datasets.evidence import judged_rows
from smlab.hw_bench.datasets.publications import load_published_atomics
from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu


def show_gpus(name: str | None, *, details: bool, as_json: bool) -> None:
    """``smlab gpus [NAME]``."""
    chosen = [load_gpu(n) for n in ([name] if name else list_gpus())]
    if as_json:
        print_json({"gpus": [_gpu_document(g) for g in chosen]})
    elif name is None:
        _print_list(chosen, details)
    else:
        _print_gpu(chosen[0], details)


def _print_list(gpus: Sequence[Gpu], details: bool) -> None:
    """One line a GPU; with ``details`` the alternatives and the other names too."""
    table = Listing()
    table.add_column("name")
    table.add_column("title", fold=True)
    table.add_column("CC")
    table.add_column("SMs", justify="right")
    table.add_column("judged by", justify="right")
    if details:
        table.add_column("alternatives", fold=True)
        table.add_column("aliases", fold=True)
    for g in gpus:
        title = g.title if details else g.title.removeprefix("NVIDIA ").removeprefix("GeForce ")
        more = [", ".join(a.name for a in g.alternatives) if len(g.alternatives) > 1 else ""]
        more.append(", ".join(g.aliases))
        judged = _judged(g)
        table.add_row(
            g.name,
            title,
            g.compute_capability,
            str(g.integer("gpu.sms")),
            f"{judged} point{'' if judged == 1 else 's'}" if judged else "-",
            *(more if details else ()),
        )
    out.print(table)


def _print_gpu(gpu: Gpu, details: bool) -> None:
    """What is known of one GPU: how much of each kind, its constants, what the evidence leaves open; with
    ``details`` each constant's interval and source."""
    kinds = Counter(c.kind for c in gpu.constants.values())
    out.print(
        f"[bold]{shown(gpu.name)}[/bold]: {shown(gpu.title)}, {shown(gpu.architecture)}, compute capability "
        f"{gpu.compute_capability}; {len(gpu.constants)} constants: "
        + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    )
    judged = _judged(gpu)
    out.print(
        f"{judged} published measurements judge this description: `smlab validate`, section against-hardware."
        if judged
        else "No published measurement judges this description."
    )
    for alternative in gpu.alternatives if len(gpu.alternatives) > 1 else ():
        changed = ", ".join(f"{k} = {_number(v)}" for k, v in alternative.values.items()) or "as below"
        source = f"{shown(alternative.source)}; " if details else ""
        out.print(
            f"alternative [bold]{shown(alternative.name)}[/bold] (weight {alternative.weight:g}): "
            f"{source}{shown(changed)}"
        )
    table = Listing()
    table.add_column("key", fold=True, min_width=34)
    table.add_column("value", justify="right")
    if details:
        table.add_column("low to high", drop=2)
    table.add_column("unit", fold=True)
    table.add_column("kind")
    if details:
        table.add_column("source", fold=True, min_width=20, drop=1)
    for c in gpu.constants.values():
        interval = "" if c.low is None or c.high is None else f"{_number(c.low)} to {_number(c.high)}"
        cells = [c.key, shown(_number(c.value)), *([interval] if details else []), shown(c.unit), c.kind]
        table.add_row(*cells, *([shown(c.source)] if details else []))
    out.print(table)
    if not details:
        out.print("[dim]--details: intervals and sources[/dim]")


def _judged(gpu: Gpu) -> int:
    """Published measurements that judge a description: single ones, and points of series not fitted."""
    series = sum(len(s.same_word) - 2 for s in load_published_atomics() if s.gpu == gpu.name)
    return len(judged_rows(gpu.name)) + series


def _gpu_document(gpu: Gpu) -> dict[str, Any]:
    return {
        "name": gpu.name,
        "title": gpu.title,
        "architecture": gpu.architecture,
        "compute_capability": gpu.compute_capability,
        "aliases": list(gpu.aliases),
        "sms": gpu.integer("gpu.sms"),
        "judged_measurements": _judged(gpu),
        "alternatives": [
            {"name": a.name, "weight": a.weight, "source": a.source, "values": dict(a.values)}
            for a in gpu.alternatives
        ],
        "constants": [dataclasses.asdict(c) for c in gpu.constants.values()],
    }


def _number(value: float | int | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) and value < 10**7 else f"{value:.6g}"
