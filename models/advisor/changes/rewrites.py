"""What a change does to a kernel's instructions, as far as a replay of the kernel sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Order = Literal["as is", "unrolled", "prefetched"]


@dataclass(frozen=True)
class Edit:
    """What an instruction takes now.

    ``passes`` through the data stage and the atomic unit, ``traffic`` as a factor of its sectors from L1 to
    L2, ``dram`` of those from DRAM, the ``pipe`` that it takes and its ``stall`` count; or in its place a
    ``chain`` of dependent arithmetic instructions, an access (an atomic, if it is one) to ``shared`` memory,
    or nothing (``free``). ``added`` arithmetic instructions come before it.

    A load that is ``staged`` brings its words into shared memory between two barriers, and they are loaded
    from there; one from ``constant`` memory takes that one's latency. An access that is ``tiled`` passes its
    words through a tile of shared memory, one side of which takes so many passes. What is ``exchanged``
    becomes a shuffle and an operation on what comes.
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
    staged: bool = False
    constant: bool = False
    tiled: float = 0.0
    exchanged: bool = False

    @property
    def adds(self) -> bool:
        """Whether it brings something that was not there."""
        return bool(self.chain or self.added or self.staged or self.constant or self.tiled)


@dataclass(frozen=True)
class Rewrite:
    """A change: instructions ``removed``, ``edits`` by instruction, the ``order`` of the innermost of
    ``loops`` (by header) by a ``factor``, with the ``overhead`` that only one
    of the unrolled rounds keeps and the words that loads bring which are ``widened`` when rounds lie side by
    side.

    Rounds of the loops ``repeated`` come so many ``times``. ``condensed``: what follows waits for what the
    removed instructions waited for. ``even``: all warps go as many rounds. ``regrouped``: lanes that go one
    way are in warps of their own. ``spread``: a block's warps lie on so many SMs. ``merged``: so many blocks
    become one. ``flushed``: a table in shared memory is cleared first and added up at the end by this atomic,
    a word a thread.
    """

    removed: frozenset[int] = frozenset()
    edits: Mapping[int, Edit] = field(default_factory=dict)
    order: Order = "as is"
    factor: int = 1
    loops: frozenset[int] = frozenset()
    overhead: frozenset[int] = frozenset()
    widened: Mapping[int, int] = field(default_factory=dict)
    condensed: bool = False
    even: bool = False
    regrouped: bool = False
    spread: float = 1.0
    merged: float = 1.0
    flushed: int | None = None
    repeated: frozenset[int] = frozenset()
    times: int = 1

    @property
    def adds(self) -> bool:
        """Whether something comes that was not there, so that the change may cost more than it saves."""
        return self.flushed is not None or self.times > 1 or any(e.adds for e in self.edits.values())
