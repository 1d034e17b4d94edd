"""How a benchmark states which machine code its kernels must become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

ARCHITECTURES: Final = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90")
"""The architectures that every kernel is checked for."""
LATER: Final = ("sm_100", "sm_120")
"""Those that the contract reads as well, if asked for, and the simulator executes: what the compiler makes of
the kernels there has not been looked at one by one."""


def number(architecture: str) -> int:
    """``sm_90`` as 90."""
    return int(architecture.removeprefix("sm_"))


@dataclass(frozen=True)
class Count:
    """How often an instruction must be there: ``low`` to ``high`` times."""

    low: int
    high: int

    def __contains__(self, times: int) -> bool:
        return self.low <= times <= self.high

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


def exactly(times: int) -> Count:
    return Count(times, times)


def up_to(times: int) -> Count:
    return Count(0, times)


@dataclass(frozen=True)
class Timed:
    """What lies between a timed region's two clock reads.

    ``part`` says what is counted: all ``between`` the reads, the body of the one ``loop`` between them, or,
    where the time is that of the whole launch and the kernel reads no clock, the whole ``kernel``. ``counts``
    maps a mnemonic, or its beginning (``ATOMS`` names ``ATOMS.ADD``), to how often it must be there. Memory,
    warp-wide, synchronising and calling instructions that are not in ``counts`` must not be there at all; of
    all others together at most ``others``. ``waits_for``, if given, is the instruction whose results the
    second clock read must come after. ``independent`` asks that no instruction of that name waits for the
    result of the one before in the same turn, ``chained`` that each does, the first in a turn for the last of
    the turn before. ``unhindered`` names instructions of whose scoreboards nothing in the region waits for
    any, its end included; ``anywhere`` those whose address must come from something that was loaded, so that
    no compiler knows it. ``step`` is by how much a loop's counter goes down each turn.
    """

    name: str
    part: Literal["between", "loop", "kernel"]
    counts: Mapping[str, Count]
    others: int
    waits_for: str | None = None
    independent: str | None = None
    chained: str | None = None
    unhindered: str | None = None
    anywhere: str | None = None
    step: int | None = None


@dataclass(frozen=True)
class KernelSpec:
    """One kernel of a benchmark: its Python function, its signature for Numba, and what it must become.

    ``expect`` gives the timed regions for the number of an architecture (70 to 90). ``launch_bounds`` are the
    threads of a block and the blocks that must fit on an SM together. ``warp_wide`` kernels exchange values
    between lanes, which Numba's CPU simulator cannot. ``older``, if given, is the function that takes the
    place of ``function`` below an architecture of that number. There is code of it from ``minimum`` on, and
    from ``none_from`` on there is none: what Numba writes for some instructions is refused for later ones.
    """

    benchmark: str
    name: str
    function: Callable[..., None]
    signature: str
    expect: Callable[[int], tuple[Timed, ...]]
    launch_bounds: tuple[int, int] | None = None
    minimum: int = 70
    none_from: int | None = None
    warp_wide: bool = False
    older: tuple[int, Callable[..., None]] | None = None

    def function_for(self, architecture: str) -> Callable[..., None]:
        """What is compiled for an architecture."""
        if self.older is not None and number(architecture) < self.older[0]:
            return self.older[1]
        return self.function

    def supports(self, architecture: str) -> bool:
        """Whether the architecture (``sm_90``) has code of the kernel."""
        this = number(architecture)
        return self.minimum <= this and (self.none_from is None or this < self.none_from)
