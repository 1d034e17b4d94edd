"""What a change does to a kernel's instructions, as far as a replay of the kernel sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Order = Literal["as is", "unrolled", "ahead"]


@dataclass(frozen=True)
class Edit:
    """What an instruction takes now.

    ``passes`` through the data stage and the atomic unit, ``traffic`` as a factor of its sectors from L1 to
    L2, ``dram`` of those from DRAM, the ``pipe`` that it takes and its ``stall`` count; or in its place a
    ``chain`` of dependent arithmetic instructions, an access (an atomic, if it is one) to ``shared`` memory,
    or nothing (``free``). ``added`` arithmetic instructions come before it.
    """

    passes: float | None = None
    traffic: float = 1.0
    dram: float = 1.0
    pipe: str | None = None
    stall: int | None = None
    chain: int = 0
    added: int = 0
    shared: bool = False
    free: bool = False


@dataclass(frozen=True)
class Rewrite:
    """A change: instructions ``removed``, ``edits`` by instruction, the ``order`` of the innermost of
    ``loops`` (by header) by a ``factor``, with the ``overhead`` that only one of the unrolled rounds keeps.

    Rounds of the loops ``repeated`` come so many ``times``. ``condensed``: what follows waits for what the
    removed instructions waited for. ``even``: all warps go as many rounds. ``spread``: a
    block's warps lie on so many SMs.
    """

    removed: frozenset[int] = frozenset()
    edits: Mapping[int, Edit] = field(default_factory=dict)
    order: Order = "as is"
    factor: int = 1
    loops: frozenset[int] = frozenset()
    overhead: frozenset[int] = frozenset()
    condensed: bool = False
    even: bool = False
    spread: float = 1.0
    repeated: frozenset[int] = frozenset()
    times: int = 1
