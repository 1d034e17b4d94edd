"""Global memory as launches find it: allocations, and what L2 holds of them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.sim.isa.operation_codes import FIRST_ADDRESS
from smlab.sim.l2_contents import LevelTwoLines

"""Where global memory begins; nothing lies below."""
ALIGNMENT: Final = 512
GAP: Final = 4096
"""Bytes that belong to nobody behind each allocation, so that running over an end is found."""
MOST_ADDRESSED: Final = 1 << 33
"""Bytes of addresses from which on a program's next launch begins at the lowest one again: samples keep notes
of each sector below the highest."""


@dataclass(frozen=True)
class Allocation:
    """A piece of global memory: ``[address, address + bytes)``, and the array whose bytes it is."""

    name: str
    address: int
    content: NDArray[np.uint8]

    @property
    def end(self) -> int:
        return self.address + len(self.content)


COMPARED_BYTES: Final = 1 << 16
"""How much memory is compared, kept and put back at once."""


class ContentsBefore:
    """What allocations held at one moment, to go back to; one copy of them. Where ``known`` has the same
    memory, which must hold what it held then, its copy serves again."""

    def __init__(self, allocations: list[Allocation], known: ContentsBefore | None = None) -> None:
        self._now = [a.content for a in allocations]
        copies = {} if known is None else known._copies()
        self._before = [copies[_place(c)] if _place(c) in copies else c.copy() for c in self._now]
        self._written: dict[tuple[int, int], NDArray[np.uint8]] = {}

    def _copies(self) -> dict[tuple[int, int], NDArray[np.uint8]]:
        return dict(zip(map(_place, self._now), self._before, strict=True))

    def _changed(self) -> Iterator[tuple[int, int, NDArray[np.uint8], NDArray[np.uint8]]]:
        """The pieces that are not what they were: allocation, first byte, now and before."""
        for n, (now, before) in enumerate(zip(self._now, self._before, strict=True)):
            for at in range(0, len(now), COMPARED_BYTES):
                new, old = now[at : at + COMPARED_BYTES], before[at : at + COMPARED_BYTES]
                if not _equal(new, old):
                    yield n, at, new, old

    def go_back(self, *, keep: bool = False) -> None:
        """Make the memory what it was; with ``keep``, what has changed is kept for `put_in`, of two changes
        of one byte the later one."""
        for n, at, new, old in self._changed():
            if keep:
                kept = self._written.setdefault((n, at), old.copy())
                written = new != old
                kept[written] = new[written]
            new[:] = old

    def put_in(self) -> None:
        """Put what was kept where nothing has changed since."""
        for (n, at), kept in self._written.items():
            new, old = (memory[n][at : at + COMPARED_BYTES] for memory in (self._now, self._before))
            written = (kept != old) & (new == old)
            new[written] = kept[written]
        self._written.clear()


def _place(content: NDArray[np.uint8]) -> tuple[int, int]:
    """Which memory an array's bytes are."""
    return content.ctypes.data, len(content)


def _equal(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> bool:
    """Eight bytes at a time, which takes an eighth of the time."""
    whole = len(a) & ~7
    return bool(
        (a[:whole].view(np.int64) == b[:whole].view(np.int64)).all() and (a[whole:] == b[whole:]).all()
    )


class GlobalMemory:
    """Allocations of global memory, which may outlive a launch, and what L2 holds of them between two.

    The same bytes of the host have one address, in this launch and in those that follow (`after`).
    """

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self.l2 = LevelTwoLines()
        self._addresses = _AddressBook()
        self._variables: dict[object, NDArray[np.uint8]] = {}

    def after(self) -> GlobalMemory:
        """The memory as the next launch finds it: with the arrays that this will be given and no others, each
        where it lay before; with the same L2 and the same variables of modules. Programs that make array
        after array begin at the lowest address again, with an empty L2."""
        following = GlobalMemory()
        following.l2, following._variables = self.l2, self._variables
        following._addresses = self._addresses
        if self._addresses.used_bytes > MOST_ADDRESSED:
            self._addresses.forget()
            self.l2.forget()
        return following

    def allocate(self, name: str, content: NDArray[np.uint8]) -> int:
        """Put an array's bytes into global memory; its address."""
        address = self._addresses.of(content)
        if all(one.address != address for one in self.allocations):
            self.allocations.append(Allocation(name, address, content))
            self.allocations.sort(key=lambda one: one.address)
        return address

    def variables(self, module: object, content: bytes) -> NDArray[np.uint8]:
        """The variables of a module, which is told from others by what it is: as the launches before left
        them, and ``content`` at first."""
        if module not in self._variables:
            self._variables[module] = np.frombuffer(bytearray(content), dtype=np.uint8)
        return self._variables[module]


class _AddressBook:
    """Addresses by the place and size of bytes on the host, as long as the array lives that has them: another
    one that the host later puts there has an address of its own."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[int, weakref.ref[Any] | None]] = {}
        self._next = FIRST_ADDRESS

    @property
    def used_bytes(self) -> int:
        return self._next - FIRST_ADDRESS

    def forget(self) -> None:
        self._known.clear()
        self._next = FIRST_ADDRESS

    def of(self, content: NDArray[np.uint8]) -> int:
        place, owner = _place(content), _owner(content)
        if place in self._known:
            address, known = self._known[place]
            if known is None or owner is None or known() is owner:
                return address
        address = self._next
        self._known[place] = address, None if owner is None else weakref.ref(owner)
        self._next = -(-(address + max(1, len(content)) + GAP) // ALIGNMENT) * ALIGNMENT
        return address


def _owner(content: NDArray[np.uint8]) -> NDArray[Any] | None:
    """The array whose bytes these are; None where they are another object's."""
    array: Any = content
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array if array.base is None else None
