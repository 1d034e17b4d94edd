"""What a resident warp and block hold, for the reference meaning of machine code."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from smlab.sim.instruction_source import BulkRequest, CopyOnItsWay
from smlab.sim.isa import memory_layout
from smlab.sim.isa.vector_operation import M32

LANES = range(32)
READY, AT_BARRIER = -1, memory_layout.AT_BLOCK_BARRIER


class Fault(Exception):
    """Something that stops the kernel: what, in which lane, at which address."""

    def __init__(self, kind: int, lane: int, address: int = 0) -> None:
        super().__init__(kind, lane, address)
        self.kind, self.lane, self.address = kind, lane, address


@dataclass
class BlockState:
    """A resident block: its index in the grid, its place on the GPU (``room``), shared and local memory."""

    index: int
    place: tuple[int, int, int]
    shared: bytearray
    local: dict[int, bytearray]
    known: set[int] = field(default_factory=set)
    room: int = 0
    reduced: dict[int, int] = field(default_factory=dict)
    result: dict[int, int] = field(default_factory=dict)
    copies: list[CopyOnItsWay] = field(default_factory=list)
    failed_checks: int = 0
    products_closed: list[int] = field(default_factory=lambda: [0] * 32)
    number: int = 0  # in the order of launch
    rank: int = 0  # in its cluster
    cluster_arrived: int = 0  # see `smlab.sim.isa.memory_layout`
    cluster_exited: int = 0
    cluster_phase: int = 0
    cluster_time: int = 0
    tensor_owned: int = 0


@dataclass
class DivergentPath:
    """Some lanes of a warp that are not running now: where they go on, and what for they wait."""

    pc: int
    mask: int
    wait: int


@dataclass
class WarpState:
    """A resident warp."""

    block: BlockState
    number: int
    sm: int
    active: int
    live: int
    pc: int = 0
    last_pc: int = 0
    clock: int = 0
    patience: int = 0
    cluster_count: int = 0  # how often it has come to the cluster's barrier
    barrier: int = 0  # see `smlab.sim.instruction_source.BARRIER`
    lanes: int = 0
    passes: int = 1  # of the latest match over its values, of the latest load of constants over its words
    parts: list[DivergentPath] = field(default_factory=list)
    rows: dict[int, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0] * 32))
    predicates: list[int] = field(
        default_factory=lambda: [M32 if n in (memory_layout.PT, memory_layout.UPT) else 0 for n in range(17)]
    )
    barriers: dict[tuple[int, int], int] = field(default_factory=dict)
    addresses: list[int] = field(default_factory=lambda: [0] * 32)
    fault: Fault | None = None
    bulk_request: BulkRequest = field(default_factory=BulkRequest)  # of its latest bulk copy
    complete_at: int = 0  # see `smlab.sim.instruction_source.COMPLETE_AT`


def members(mask: int) -> list[int]:
    """The lanes of a mask, in order."""
    return [lane for lane in LANES if mask >> lane & 1]
