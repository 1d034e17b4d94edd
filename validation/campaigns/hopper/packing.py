"""Packs of launches, for a machine that has a GPU and nothing of ours.

A pack is a zip: ``items.json`` has one row a launch, ``blob/DIGEST`` what rows name by its digest (cubins and
contents of arrays, packed by lzma). Addresses in parameters and tensor maps are named by array and
offset, since the card puts arrays elsewhere. Large arrays travel as the row of the launch file that makes
them; one that has no row and does not pack well travels as its first 128 KiB, which the card repeats: its
results are then not ours, and its time is that of numbers alike.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import struct
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.memory.global_memory import Allocation
from smlab.sim.isa.operation_codes import FIRST_ADDRESS

_OF_THE_DRIVER: Final = (
    "the module's variables",
    "the buffer of printf",
    "the heap of malloc",
    "the workspace of a cooperative launch",
    "the module's constants",
)
"""Allocations that the card's driver makes itself."""
_WITH_ADDRESSES: Final = ("a tensor map",)
"""Allocations whose contents have addresses. (Two whole numbers of an array may look like one.)"""
_PIECE_BYTES: Final = 128 << 10
_MOST_PACKED_BYTES: Final = 400_000
_LAST_ADDRESS: Final = FIRST_ADDRESS + (1 << 40)


@dataclass(frozen=True)
class HardwareLaunch:
    """A launch to time on a card: ``cubin`` has its code. ``repetitions`` are those of the timed series. The
    contents of arrays in ``keep`` come back. ``made`` are the launch file's rows of large arrays."""

    name: str
    group: str
    cubin: bytes
    launch: MachineLaunch
    repetitions: int = 20
    keep: Sequence[str] = ()
    made: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    facts: Mapping[str, int | float | str] = field(default_factory=dict)


def write_pack(path: Path, launches: Iterable[HardwareLaunch]) -> int:
    """Write a pack; how many launches it has.

    Raises:
        SmlabError: a launch whose name stands twice, whose parameters have no layout, or which is given what
        only the driver has.
    """
    pack = _Pack(zipfile.ZipFile(path, "w", zipfile.ZIP_STORED))
    rows: dict[str, dict[str, Any]] = {}
    with pack.archive:
        for one in launches:
            if one.name in rows:
                raise SmlabError.at(str(path), "a launch that stands twice", one.name)
            rows[one.name] = pack.row(one)
        pack.archive.writestr("items.json", json.dumps(list(rows.values())))
    return len(rows)


class _Pack:
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self._known: set[str] = set()

    def _blob(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()[:24]
        if digest not in self._known:
            self._known.add(digest)
            self.archive.writestr(f"blob/{digest}", lzma.compress(content))
        return digest

    def row(self, one: HardwareLaunch) -> dict[str, Any]:
        launch = one.launch
        if launch.image.parameters is None:
            raise SmlabError.at(one.name, "its parameters have no layout", None, "a cubin")
        arrays = launch.allocations
        addresses = _addresses(launch.parameter_bytes, arrays)
        for _, number, _ in addresses:
            if arrays[number].name in _OF_THE_DRIVER:
                raise SmlabError.at(one.name, "is given what the driver makes", arrays[number].name)
        asked = launch.cluster_shape if launch.image.cluster == (1, 1, 1) else None
        return {
            "name": one.name,
            "group": one.group,
            "cubin": self._blob(one.cubin),
            "kernel": launch.image.function.name,
            "grid": list(launch.grid),
            "block": list(launch.block),
            "cluster": list(asked) if asked else None,
            "compiled_cluster": list(launch.image.cluster),
            "shared": launch.dynamic_shared_bytes,
            "cooperative": launch.waits_for_itself,
            "params": [[p.offset, p.size] for p in launch.image.parameters],
            "content": launch.parameter_bytes.hex(),
            "relocations": addresses,
            "arrays": [self._array(a, arrays, one) for a in arrays],
            "constants": {
                name: self._blob(np.ascontiguousarray(value).tobytes())
                for name, value in launch.constants.items()
            },
            "reps": one.repetitions,
            "more": dict(one.facts),
        }

    def _array(
        self, array: Allocation, arrays: Sequence[Allocation], one: HardwareLaunch
    ) -> dict[str, Any] | None:
        if array.name in _OF_THE_DRIVER:
            return None
        content = np.asarray(array.content)
        row: dict[str, Any] = {
            "name": array.name,
            "bytes": len(content),
            "keep": array.name in one.keep,
        }
        if array.name in one.made:
            return {**row, "row": dict(one.made[array.name])}
        if not content.any():
            return {**row, "zeros": True}
        raw = content.tobytes()
        begin = raw[: 2 * _PIECE_BYTES]
        if len(lzma.compress(begin, preset=1)) / len(begin) * len(raw) > _MOST_PACKED_BYTES:
            return {**row, "tile": self._blob(raw[:_PIECE_BYTES])}
        inside = _addresses(raw, arrays) if array.name in _WITH_ADDRESSES else []
        return {**row, "blob": self._blob(raw), "relocations": inside}


def _addresses(content: bytes, arrays: Sequence[Allocation]) -> list[tuple[int, int, int]]:
    """Where bytes hold an address: at which byte, into which array, how far into it."""
    found = []
    for at in range(0, len(content) - 7, 4):
        (value,) = struct.unpack_from("<Q", content, at)
        if FIRST_ADDRESS <= value < _LAST_ADDRESS:
            for number, array in enumerate(arrays):
                if 0 <= value - array.address <= len(array.content):
                    found.append((at, number, value - array.address))
    return found
