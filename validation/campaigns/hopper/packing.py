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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.memory.global_memory import Allocation, GlobalMemory
from smlab.sim.isa.operation_codes import FIRST_ADDRESS
from smlab.validation.campaigns.hopper.replay import made_array

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
_PIECE_BYTES: Final = 32 << 10
_PIECES: Final = 9
"""Pieces of an array that are packed to tell how well it packs."""
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
    with PackWriter(path) as pack:
        for one in launches:
            pack.add(one)
    return len(pack.rows)


class PackWriter:
    """A pack that is written launch by launch: each with what its arrays hold when it is added. Rows of other
    packs can be taken in. It can be read when the ``with`` has ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, dict[str, Any]] = {}
        self._archive = zipfile.ZipFile(path, "w", zipfile.ZIP_STORED)
        self._known: set[str] = set()

    def __enter__(self) -> PackWriter:
        return self

    def __exit__(self, *_: object) -> None:
        with self._archive:
            self._archive.writestr("items.json", json.dumps(list(self.rows.values())))

    def add(self, one: HardwareLaunch) -> None:
        """Write a launch; `write_pack` has what is raised."""
        self._keep(self._row(one))

    def take_in(self, path: Path) -> None:
        """Write what another pack has."""
        with zipfile.ZipFile(path) as other:
            for name in other.namelist():
                if name.startswith("blob/"):
                    self._write(name.removeprefix("blob/"), other.read(name))
            for row in json.loads(other.read("items.json")):
                self._keep(row)

    def _keep(self, row: dict[str, Any]) -> None:
        if row["name"] in self.rows:
            raise SmlabError.at(str(self.path), "a launch that stands twice", row["name"])
        self.rows[row["name"]] = row

    def _write(self, digest: str, packed: bytes) -> None:
        if digest not in self._known:
            self._known.add(digest)
            self._archive.writestr(f"blob/{digest}", packed)

    def _blob(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()[:24]
        if digest not in self._known:
            self._write(digest, lzma.compress(content))
        return digest

    def _row(self, one: HardwareLaunch) -> dict[str, Any]:
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
        if _packed_bytes(raw) > _MOST_PACKED_BYTES:
            return {**row, "tile": self._blob(raw[:_PIECE_BYTES])}
        inside = _addresses(raw, arrays) if array.name in _WITH_ADDRESSES else []
        return {**row, "blob": self._blob(raw), "relocations": inside}


def read_pack(path: Path) -> Iterator[HardwareLaunch]:
    """The launches of a pack, with what its arrays hold on the card: for the simulator."""
    with zipfile.ZipFile(path) as pack:
        for row in json.loads(pack.read("items.json")):
            yield _launch_of(row, lambda digest: lzma.decompress(pack.read(f"blob/{digest}")))


def _launch_of(row: Mapping[str, Any], blob: Callable[[str], bytes]) -> HardwareLaunch:
    cubin, memory = blob(row["cubin"]), GlobalMemory()
    image = from_cubin(cubin, row["kernel"], row["name"])
    made = [None if array is None else _content(array, blob) for array in row["arrays"]]
    named = [array["name"] if array else "" for array in row["arrays"]]
    places = [
        0 if content is None else memory.allocate(name, content)
        for name, content in zip(named, made, strict=True)
    ]
    for array, content in zip(row["arrays"], made, strict=True):
        for at, to, offset in (array or {}).get("relocations", ()):
            assert content is not None
            content[at : at + 8].view("<u8")[:] = places[to] + offset
    parameters = bytearray.fromhex(row["content"])
    for at, to, offset in row["relocations"]:
        struct.pack_into("<Q", parameters, at, places[to] + offset)
    launch = MachineLaunch(
        image,
        tuple(row["grid"]),
        tuple(row["block"]),
        [bytes(parameters[at : at + size]) for at, size in row["params"]],
        dynamic_shared_bytes=row["shared"],
        constants={name: np.frombuffer(blob(digest), np.uint8) for name, digest in row["constants"].items()},
        cluster_shape=tuple(row["cluster"]) if row["cluster"] else None,
        check_shared=False,
        memory=memory,
    )
    keep = [array["name"] for array in row["arrays"] if array and array["keep"]]
    return HardwareLaunch(row["name"], row["group"], cubin, launch, row["reps"], keep, facts=row["more"])


def _content(array: Mapping[str, Any], blob: Callable[[str], bytes]) -> NDArray[np.uint8]:
    if array.get("zeros"):
        return np.zeros(array["bytes"], np.uint8)
    if "tile" in array:
        return np.resize(np.frombuffer(blob(array["tile"]), np.uint8), array["bytes"])
    if "row" in array:
        return made_array(array["row"], array["bytes"]).view(np.uint8)
    return np.frombuffer(bytearray(blob(array["blob"])), np.uint8)


def _packed_bytes(raw: bytes) -> float:
    """How long an array's bytes will be, packed: by pieces from all of it."""
    if len(raw) <= _MOST_PACKED_BYTES:
        return 0
    places = np.linspace(0, len(raw) - _PIECE_BYTES, _PIECES).astype(int)
    pieces = b"".join(raw[at : at + _PIECE_BYTES] for at in places)
    return len(lzma.compress(pieces, preset=1)) / len(pieces) * len(raw)


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
