"""Constant bank 0, which the driver fills: where compiled code reads what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class BankZero:
    """Where constant bank 0 has what the driver fills in, as compiled code reads it.

    ``block`` and ``grid`` are three words each; ``stack`` is a thread's local memory in bytes; the windows
    are the high words of where generic addresses of local and shared memory begin, whose low words are 0
    (from sm_90 on a special register has that of shared memory); ``constants`` is the address of bank 3, and
    ``parameters`` that of the parameters, for code that takes a parameter's address.
    """

    block: int = 0
    grid: int = 0xC
    stack: int = 0x28
    local_window: int = 0x24
    shared_window: int | None = 0x1C
    constants: int = 0x50
    parameters: int | None = None
    cluster: int | None = None
    cluster_blocks: int = 0x188


BANK_ZERO: Final[tuple[tuple[int, BankZero], ...]] = (
    (100, BankZero(0x360, 0x370, 0x37C, 0x2FC, None, 0x120)),
    (90, BankZero(shared_window=None, constants=0xD0, parameters=0x198, cluster=0x140)),
    (0, BankZero()),
)
"""By the first architecture, as NVRTC 12.9 compiles for it."""
_GRID: Final = "a grid that waits for itself: launches here are not cooperative"
_RESERVED: Final = "shared memory that CUDA reserves for tiles of more than a warp"
ABSENT_WORDS: Final[tuple[tuple[int, Mapping[int, str]], ...]] = (
    (100, {}),
    (90, {0x44: _GRID, 0x48: _GRID, 0x6C: _RESERVED}),
    (80, {0x8C: _GRID, 0x90: _GRID, 0x124: _RESERVED}),
    (0, {0x8C: _GRID, 0x90: _GRID}),
)
"""Words of constant bank 0 that only the driver fills, where NVRTC 12.9 reads ``%envreg1``, ``%envreg2`` and
``%reserved_smem_offset_1``, from this architecture on; a 0 in them would be taken for an address."""
