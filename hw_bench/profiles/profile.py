"""What a profile is once it has been read: one counter table, and what else the file said."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.counter_table import CounterTable

UNNAMED: Final = "(unnamed)"
"""The kernel in tables that do not name it."""

UNKNOWN_UNIT: Final = "?"
"""The unit where neither the file nor the counter's name tells it."""


@dataclass(frozen=True)
class Device:
    """The GPU as the file tells it; None where it does not. ``compute_capability`` is such as ``"8.0"``."""

    name: str | None = None
    compute_capability: str | None = None
    index: int | None = None

    def __str__(self) -> str:
        parts = [self.name or "a GPU", f"compute capability {self.compute_capability}"]
        return ", ".join(parts if self.compute_capability else parts[:1])


@dataclass(frozen=True)
class Skipped:
    """Something in the file that is not in the table: what, why, in how many rows, and the first row (1 =
    first line)."""

    what: str
    reason: str
    count: int = 1
    row: int | None = None


@dataclass(frozen=True)
class Profile:
    """A profiler's output, read.

    ``format`` is ``ncu-long``, ``ncu-wide``, ``ncu-rep``, ``nvprof-summary``, ``nvprof-trace`` or
    ``counter-table``; ``tool`` is ``ncu``, ``nvprof`` or ``smlab``. ``rows`` (len(table),) is the line of the
    file that each row of ``table`` comes from, 0 where there are no lines; a record that holds line breaks
    counts as one. Values are in base units (byte, second, cycle, inst, ...), ``""`` where the profiler gives
    none. ``notes`` says how the file was understood.
    """

    path: str
    format: str
    tool: str
    table: CounterTable
    rows: NDArray[np.int64]
    devices: tuple[Device, ...] = ()
    notes: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    @property
    def device(self) -> Device:
        """The kind of GPU; devices that differ only in their index count as one."""
        return self.devices[0] if self.devices else Device()

    def of_launch(self, launch: int = 0, kernel: str | None = None) -> Profile:
        """One launch's rows alone; `SmlabError` where there is none, or where the launches of several kernels
        have this number and none of them is named."""
        chosen = self.table.launch == launch
        if kernel is None and len(names := sorted(set(self.table.kernel[chosen].tolist()))) > 1:
            place = f"{self.path}: launch {launch}"
            raise SmlabError.at(place, "several kernels, one must be named", names)
        if kernel is not None:
            chosen &= self.table.kernel == kernel
        if not chosen.any():
            of = "" if kernel is None else f" of kernel {kernel!r}"
            raise SmlabError.at(f"{self.path}: launch {launch}{of}", "no counter in the profile")
        return replace(self, table=self.table.take(chosen), rows=self.rows[chosen])

    def where(self, index: int) -> str:
        """The place of row ``index`` of the table, for a message: the file and its row."""
        row = int(self.rows[index])
        return f"{self.path}: row {row}" if row else self.path


def at_row(path: str, row: int | None) -> str:
    return f"{path}: row {row}" if row is not None else path


def short(text: str, length: int = 60) -> str:
    """``text`` on one line and not longer than ``length`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 3] + "..."


def one_kind(path: str, devices: Iterable[Device]) -> tuple[Device, ...]:
    """The devices, sorted by index; `SmlabError` if they are not all of one kind."""
    devices_in_order = sorted(set(devices), key=lambda d: (-1 if d.index is None else d.index, d.name or ""))
    for field, called in (("compute_capability", "compute capability"), ("name", "name")):
        kinds = {getattr(d, field) for d in devices_in_order} - {None}
        if len(kinds) > 1:
            expected = (
                f"one kind of GPU a file, not several by {called}: profile each alone (ncu --devices N)"
            )
            raise SmlabError.at(path, "mixed GPUs", ", ".join(sorted(kinds)), expected)
    return tuple(devices_in_order)


_MODEL = re.compile(
    r"TITAN\s*(?:XP|RTX|V|X)|(?<![A-Z0-9])(?:[VAHTPLBK]\d{1,4}S?|GB?\d{3}|\d{4})(?![A-Z0-9])", re.IGNORECASE
)


def model_of(name: str) -> set[str]:
    """The model numbers in a GPU's name: ``{"A100"}`` of "NVIDIA A100-PCIE-40GB"."""
    return {re.sub(r"\s+", " ", m.upper()) for m in _MODEL.findall(name)}


def check_gpu(path: str, device: Device, gpu: Gpu) -> list[str]:
    """Notes on how the file's GPU compares with ``gpu``; `SmlabError` if it is another one."""
    if device.compute_capability is not None and device.compute_capability != gpu.compute_capability:
        expected = f"{gpu.name}, compute capability {gpu.compute_capability}"
        raise SmlabError.at(path, "the profile is of another GPU", str(device), expected)
    if device.name is None:
        if device.compute_capability is None:
            return [f"the file does not say which GPU it is of; taken as {gpu.name}"]
        return [f"the file gives the GPU's compute capability only; taken as {gpu.name}"]
    seen, described = model_of(device.name), model_of(gpu.title) | model_of(gpu.name)
    if seen and described and not seen & described:
        raise SmlabError.at(path, "the profile is of another GPU", str(device), f"{gpu.name}: {gpu.title}")
    traits = [set(re.findall(r"PCIE|SXM|\d+ ?GB", n.upper())) for n in (device.name, gpu.title)]
    kinds = [{t.replace(" ", "") for t in trait} for trait in traits]
    if kinds[0] - kinds[1] and kinds[1] - kinds[0]:
        return [f"the file's GPU is {device.name}; {gpu.name} is {gpu.title}"]
    return []


def text_array(texts: list[str], codes: NDArray[np.intp]) -> NDArray[np.object_]:
    """The texts by code, as an array of objects that share their strings."""
    pool = np.empty(len(texts), dtype=object)
    pool[:] = texts
    return pool[codes]
