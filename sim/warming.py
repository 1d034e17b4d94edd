"""The compiled engine made ready before worker processes need it: each would compile it, and say nothing."""

from __future__ import annotations

from pathlib import Path

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim.builtin import atomics

COMPILED = Path(__file__).parent / "compiled"


def looks_cold() -> bool:
    """Whether Numba's cache beside the engine is missing or older than a source of it; a hint, for free."""
    cached = [path.stat().st_mtime for path in (COMPILED / "__pycache__").glob("*.nbi")]
    return not cached or max(path.stat().st_mtime for path in COMPILED.glob("*.py")) > max(cached)


def warm() -> None:
    """Compile the engine (a minute or more of processor time), or load it where it is compiled (1 s)."""
    from smlab.sim.simulate import simulate

    simulate(atomics(warps=1), load_gpu("v100"))
