"""``smlab gpus``: descriptions, printed."""

from __future__ import annotations

import dataclasses
from typing import Any

from smlab.cli.tables import Listing
from smlab.cli.terminal import out, print_json, shown
from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu


def show_gpus(name: str | None, *, as_json: bool) -> None:
    """``smlab gpus [NAME]``."""
    chosen = [load_gpu(n) for n in ([name] if name else list_gpus())]
    if as_json:
        print_json({"gpus": [_gpu_document(g) for g in chosen]})
        return
    if name is None:
        table = Listing("name", "title", "compute capability", "SMs", "aliases")
        for g in chosen:
            table.add_row(
                g.name, g.title, g.compute_capability, str(g.integer("gpu.sms")), ", ".join(g.aliases)
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


def _gpu_document(gpu: Gpu) -> dict[str, Any]:
    return {
        "name": gpu.name,
        "title": gpu.title,
        "architecture": gpu.architecture,
        "compute_capability": gpu.compute_capability,
        "aliases": list(gpu.aliases),
        "sms": gpu.integer("gpu.sms"),
        "constants": [dataclasses.asdict(c) for c in gpu.constants.values()],
    }


def _number(value: float | int | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) and value < 10**7 else f"{value:.6g}"
