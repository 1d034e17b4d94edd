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
    ``parameters`` that of the parameters, for code that takes a parameter's address. ``workspace`` is where a
    cooperative launch's workspace lies, the high word first (``%envreg1`` and ``%envreg2``), and
    ``dynamic_shared`` the bytes of dynamic shared memory. Where the launch has clusters stands in
    ``explicit_cluster``; three words each are a cluster's shape, its inverses (as singles), and how many
    clusters the grid has, and ``cluster_blocks`` is how many blocks one has.
    """

    block: int = 0
    grid: int = 0xC
    stack: int = 0x28
    local_window: int = 0x24
    shared_window: int | None = 0x1C
    constants: int = 0x50
    parameters: int | None = None
    explicit_cluster: int | None = None
    cluster: int = 0x144
    cluster_inverse: int = 0x150
    cluster_grid: int = 0x15C
    cluster_blocks: int = 0x188
    workspace: int = 0x8C
    dynamic_shared: int = 0x2C


BANK_ZERO: Final[tuple[tuple[int, BankZero], ...]] = (
    (
        100,
        BankZero(
            *(0x360, 0x370, 0x37C, 0x2FC, None, 0x120, 0x348),
            *(0x36C, 0x2A0, 0x2B0, 0x2C0, 0x2CC),
            workspace=0x254,
            dynamic_shared=0x2AC,
        ),
    ),
    (
        90,
        BankZero(
            shared_window=None, constants=0xD0, parameters=0x198, explicit_cluster=0x140, workspace=0x44
        ),
    ),
    (0, BankZero()),
)
"""By the first architecture, as NVRTC 12.9 compiles for it. (From sm_100 on code takes 160 times the special
register SR_CgaSize off some of these places. It is 0 here.)"""
WORKSPACE_BYTES: Final = 8
"""Of a cooperative launch: the workspace's size, and the barrier of its grid, which begins as 0
(``cooperative_groups/details/driver_abi.h``)."""
_RESERVED: Final = "shared memory that CUDA reserves for tiles of more than a warp"
_SMS: Final = "the number of SMs, %nsmid"
ABSENT_WORDS: Final[tuple[tuple[int, Mapping[int, str]], ...]] = (
    (100, {0x27C: _RESERVED, 0x2D0: _SMS}),
    (90, {0x6C: _RESERVED, 0x10C: _SMS}),
    (80, {0x124: _RESERVED, 0x10C: _SMS}),
    (0, {0x10C: _SMS}),
)
"""Words of constant bank 0 that only the driver fills, where NVRTC 12.9 reads ``%reserved_smem_offset_1`` and
``%nsmid``, from this architecture on; a 0 in them would be taken for an address or a number."""
