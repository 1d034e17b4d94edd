"""``smlab gpus``: descriptions, printed."""

from __future__ import annotations

import dataclasses
from typing import Any

from smlab.cli.tables import Listing
from smlab.cli.terminal import out, print_json, shown
from smlab.hw_bench.datasets.evidence import judged_rows
from smlab.hw_bench.datasets.publications import load_published_atomics
from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu


def show_gpus(name: str | None, *, as_json: bool) -> None:
    """``smlab gpus [NAME]``."""
    chosen = [load_gpu(n) for n in ([name] if name else list_gpus())]
    if as_json:
        print_json({"gpus": [_gpu_document(g) for g in chosen]})
        return
    if name is None:
        table = Listing("name", "title", "compute capability", "SMs", "judged by", "alternatives", "aliases")
        for g in chosen:
            table.add_row(
                g.name,
                g.title,
                g.compute_capability,
                str(g.integer("gpu.sms")),
                f"{_judged(g)} points" if _judged(g) else "nothing",
                ", ".join(a.name for a in g.alternatives) if len(g.alternatives) > 1 else "",
                ", ".join(g.aliases),
            )
        out.print(table)
        return
    gpu = chosen[0]
    out.print(
        f"[bold]{shown(gpu.name)}[/bold]: {shown(gpu.title)}, {shown(gpu.architecture)}, compute capability "
        f"{gpu.compute_capability}"
    )
    table = Listing()
    table.add_column("key")
    table.add_column("value", justify="right")
    for heading, drop in (("low to high", 2), ("unit", 0), ("kind", 0)):
        table.add_column(heading, drop=drop)
    table.add_column("source", fold=True, drop=1)
    for c in gpu.constants.values():
        interval = "" if c.low is None or c.high is None else f"{_number(c.low)} to {_number(c.high)}"
        table.add_row(c.key, shown(_number(c.value)), interval, shown(c.unit), c.kind, shown(c.source))
    out.print(table)
    judged = _judged(gpu)
    out.print(
        f"{judged} published measurements judge this description: `smlab validate`, section against-hardware."
        if judged
        else "No published measurement judges this description."
    )
    for alternative in gpu.alternatives if len(gpu.alternatives) > 1 else ():
        changed = ", ".join(f"{k} = {_number(v)}" for k, v in alternative.values.items()) or "as above"
        out.print(
            f"alternative [bold]{shown(alternative.name)}[/bold] (weight {alternative.weight:g}): "
            f"{shown(alternative.source)}; {shown(changed)}"
        )


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
