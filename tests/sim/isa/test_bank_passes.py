"""Passes over the banks of shared memory: the compiled engine's quick ways against counting."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from smlab.sim.address_patterns import passes as of_words
from smlab.sim.compiled.jit import entry
from smlab.sim.isa import memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.meanings.memory import bank_wavefronts as counted
from smlab.sim.isa.memory.bank_conflicts import bank_wavefronts

LANES = np.arange(32)


@entry
def passes(op: int, warp: int) -> Any:
    return bank_wavefronts(op, warp)


def rows(rng: np.random.Generator, width: int) -> np.ndarray:
    """Rows of a tile, apart by anything, also less than their width."""
    return LANES % width + LANES // width * int(rng.integers(0, 80))


PATTERNS = {
    "rows of a tile": lambda rng: rows(rng, int(rng.choice([4, 8, 16]))),
    "rows of any width": lambda rng: rows(rng, int(rng.integers(2, 20))),
    "each word twice": lambda rng: rows(rng, 32) // 2,
    "a stride": lambda rng: LANES * int(rng.integers(-3, 40)) + 100,
    "rows that ask for one word each": lambda rng: LANES // int(rng.integers(1, 33)) * int(rng.integers(40)),
    "ascending": lambda rng: np.sort(rng.integers(0, 40, 32)),
    "consecutive but for some": lambda rng: LANES + rng.integers(0, 3, 32) * int(rng.integers(0, 40)),
    "pairs of neighbours": lambda rng: np.repeat(rng.integers(0, 24, 16), 2),
    "pairs of the next but one": lambda rng: np.repeat(rng.integers(0, 24, (8, 1, 2)), 2, axis=1).ravel(),
    "one place": lambda rng: np.full(32, rng.integers(0, 64)),
    "anything": lambda rng: rng.integers(0, 64, 32),
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_passes_of(pattern: str) -> None:
    rng = np.random.default_rng(0)
    op, words = np.zeros(memory_layout.WORDS, np.int64), np.zeros(memory_layout.LIVE, np.int64)
    seen = set()
    for _ in range(150):
        width = int(rng.choice([4, 4, 4, 8, 16]))
        addresses = (PATTERNS[pattern](rng) + int(rng.integers(0, 64))) * width
        lanes = 0xFFFFFFFF if rng.random() < 0.6 else int(rng.integers(1, 1 << 32))
        active = LANES[(lanes >> LANES) & 1 != 0]
        atomic = rng.random() < 0.2
        code, number = (d.ATOMIC, d.ADD) if atomic else (d.LOAD, 0)
        op[[memory_layout.PLACE[name] for name in ("code", "operation", "width_bytes")]] = code, number, width
        words[memory_layout.LANES] = lanes
        words[memory_layout.ADDRESSES : memory_layout.ADDRESSES + 32] = addresses
        words[memory_layout.CONSECUTIVE] = len(set((addresses - width * LANES)[active])) == 1
        micro = SimpleNamespace(code=code, fields={"operation": number, "width_bytes": width})
        warp = SimpleNamespace(lanes=lanes, addresses=addresses.tolist())
        expected = counted(micro, warp)  # type: ignore[arg-type]
        assert passes(op.ctypes.data, words.ctypes.data) == expected, (addresses, hex(lanes), width)
        seen.add(expected)
    assert len(seen) > 2


AGREE = {
    "all lanes on one place": (np.zeros(32, int), 1, 2),
    "neighbours agree": (LANES // 2, 1, 2),
    "the next but one agrees": (LANES // 4 * 2 + LANES % 2, 1, 2),
    "half by one rule, half by the other": (
        np.where(LANES < 16, LANES // 2, LANES // 4 * 2 + LANES % 2),
        2,
        4,
    ),
    "each its own": (LANES, 2, 4),
    "eight rows of four, as a product loads its first matrix": (LANES // 4 * 33, 1, 2),
    "neighbours agree, all on one bank": (LANES // 2 * 32, 16, 16),
}
"""Places in units of the width, and the passes of a load of 64 and of 128 bits a lane. The rule was measured
by others with Nsight Compute (SEMANTICS, 6.5)."""


@pytest.mark.parametrize("name", AGREE)
def test_wide_loads_whose_lanes_agree_in_pairs(name: str) -> None:
    places, *expected = AGREE[name]
    for width, passes_expected in zip((8, 16), expected, strict=True):
        addresses = places * width
        load = SimpleNamespace(code=d.LOAD, fields={"operation": 0, "width_bytes": width})
        store = SimpleNamespace(code=d.STORE, fields={"operation": 0, "width_bytes": width})
        warp = SimpleNamespace(lanes=0xFFFFFFFF, addresses=addresses.tolist())
        assert counted(load, warp) == passes_expected  # type: ignore[arg-type]
        assert counted(store, warp) >= width // 4  # type: ignore[arg-type]
        assert of_words("load", addresses[None] // 4, 32, width // 4).tolist() == [passes_expected]
