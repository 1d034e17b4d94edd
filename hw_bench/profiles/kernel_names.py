"""What the names of a library's kernels tell: the tile of a product of matrices, and which kernels of two
generations do the same."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TILE: Final = re.compile(r"gemm\w*?_(\d+)x(\d+)(?:x\d+)?(?:_sliced1x(\d+))?")
_GENERATION: Final = re.compile(
    r"(?<![a-z])(?:maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell|sm_?\d{2,3}[af]?)(?![a-z])",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class NamedTile:
    """Rows and columns of the result that a block computes, and groups of threads that share its sum."""

    rows: int
    columns: int
    slices: int = 1

    @property
    def name(self) -> str:
        """As libraries write it: ``128x64``, ``128x32_sliced1x4``."""
        return f"{self.rows}x{self.columns}" + (f"_sliced1x{self.slices}" if self.slices > 1 else "")


def tile_of(kernel: str) -> NamedTile | None:
    """The tile in the name of a product's kernel (``volta_sgemm_128x64_tn``); None where there is none."""
    found = _TILE.search(kernel)
    return None if found is None else NamedTile(int(found[1]), int(found[2]), int(found[3] or 1))


def without_generation(kernel: str) -> str:
    """The name without the generation of GPUs in it: ``volta_sgemm_128x64_tn`` and
    ``ampere_sgemm_128x64_tn`` are one."""
    return _GENERATION.sub("*", kernel)


def family_of(kernel: str) -> str:
    """What a kernel does whichever tile it has: the name without generation and numbers."""
    return re.sub(r"\d+", "#", without_generation(kernel).split("(")[0])
