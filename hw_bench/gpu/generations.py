"""Constants of an SM generation, which a board's description need not repeat.

The files in ``hw_bench/gpu/generations`` are named by compute capability and extend each other as
descriptions do; ``without`` names keys that a file does not take over. What a board says itself takes
precedence. A constant that was measured on one card, as the table ``measured_on`` of its file says by source,
is ``assumed`` on every other.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.alternatives import Alternative, read_alternatives
from smlab.hw_bench.gpu.constants import Constant
from smlab.hw_bench.gpu.tables import TOP_FIELDS, read_constants, read_sources
from smlab.hw_bench.inputs import load_toml

GENERATIONS: Final = Path(__file__).parent / "generations"


@dataclass
class Generation:
    """What is known of the SMs of a compute capability, as one board may take it."""

    constants: dict[str, Constant] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    alternatives: tuple[Alternative, ...] = ()
    measured_on: dict[str, tuple[str, ...]] = field(default_factory=dict)


def generation_of(compute_capability: str, cards: tuple[str, ...]) -> Generation:
    """The generation's constants for a card of these names: those measured on another card are assumed.

    A compute capability without a file takes the nearest one below, of the same major version if there is
    one.
    """
    path = _file_of(compute_capability)
    generation = _read_generation(path)
    measured = {generation.sources[name]: boards for name, boards in generation.measured_on.items()}
    for key, constant in generation.constants.items():
        boards = measured.get(constant.source)
        if boards is not None and not set(cards) & set(boards):
            source = f"assumed: as on {boards[0]}, where it is {constant.kind}: {constant.source}"
            generation.constants[key] = replace(constant, kind="assumed", source=source)
    return generation


def _file_of(compute_capability: str) -> Path:
    def version(text: str) -> tuple[int, int]:
        major, minor = text.split(".")
        return int(major), int(minor)

    known = {version(p.stem): p for p in GENERATIONS.glob("*.toml") if p.stem[0].isdigit()}
    wanted = version(compute_capability)
    below = [v for v in known if v <= wanted] or [min(known)]
    return known[max(below)]


def _read_generation(path: Path) -> Generation:
    data = load_toml(path)
    parent = data.get("extends")
    generation = Generation() if parent is None else _read_generation(GENERATIONS / f"{parent}.toml")
    for key in data.get("without", ()):
        if generation.constants.pop(key, None) is None:
            raise SmlabError.at(f"{path}: without", f"{parent} has no such key", key)
    generation.sources |= read_sources(path, data.get("sources", {}))
    generation.measured_on |= {name: tuple(boards) for name, boards in data.get("measured_on", {}).items()}
    for name in generation.measured_on:
        if name not in generation.sources:
            raise SmlabError.at(f"{path}: measured_on", "unknown source", name, "an id of [sources]")
    if "alternatives" in data:
        generation.alternatives = read_alternatives(str(path), data["alternatives"], generation.sources)
    groups = {k: v for k, v in data.items() if k not in TOP_FIELDS}
    read_constants(path, "", groups, generation.sources, generation.constants)
    return generation
