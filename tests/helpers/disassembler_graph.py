"""The control flow that the disassembler itself sees, as graphviz text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from smlab.hw_bench.sass.cubin import read_cubin
from smlab.hw_bench.sass.tools import Tool, _as_file, _run, find_nvdisasm


def flow_edges(cubin: bytes | Path, tool: Tool | None = None) -> dict[str, frozenset[tuple[int, int]]]:
    """The edges between basic blocks as the disassembler itself sees them, by function: (last address, next
    address).

    From ``-bbcfg -poff``: an independent check of `ControlFlow`.
    """
    tool = tool or find_nvdisasm(architecture=read_cubin(cubin).architecture)
    with _as_file(cubin) as path:
        text = _run(tool, ["-bbcfg", "-poff", str(path)], str(path), path.stat().st_size)
    return parse_flow_edges(text)


_CLUSTER: Final = re.compile(r'subgraph "cluster_(?P<name>[^"]+)"')


_NODE: Final = re.compile(r'^\[label="\{(?P<label>.*)\}"\]$')


_NODE_NAME: Final = re.compile(r'^"(?P<name>[^"]+)"$')


_EDGE: Final = re.compile(
    r'^"(?P<from>[^"]+)":(?P<port>\w+)(?::\w)? -> "(?P<to>[^"]+)":\w+(?::\w)? \[style=solid\]'
)


_OFFSET: Final = re.compile(r"(?:\\l|>|^|\|)([0-9a-f]{4,}):\\ ")


def parse_flow_edges(text: str) -> dict[str, frozenset[tuple[int, int]]]:
    """Read the graphviz text of ``nvdisasm -bbcfg -poff``."""
    functions: dict[str, frozenset[tuple[int, int]]] = {}
    for part in re.split(r"^(?=subgraph )", text, flags=re.MULTILINE)[1:]:
        cluster = _CLUSTER.match(part)
        if cluster is None:
            continue
        spans: dict[str, tuple[int, int]] = {}
        edges: list[tuple[str, str]] = []
        name = ""
        for line in part.splitlines():
            if match := _NODE_NAME.match(line):
                name = match["name"]
            elif match := _NODE.match(line):
                offsets = [int(offset, 16) for offset in _OFFSET.findall(match["label"])]
                if offsets:
                    spans[name] = (offsets[0], offsets[-1])
            elif match := _EDGE.match(line):
                edges.append((match["from"], match["to"]))
        functions[cluster["name"]] = frozenset(
            (spans[before][1], spans[after][0])
            for before, after in edges
            if before in spans and after in spans
        )
    return functions
