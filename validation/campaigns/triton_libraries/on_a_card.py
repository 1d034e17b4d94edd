"""Launches of Triton's kernels for a card:
``python -m smlab.validation.campaigns.triton_libraries.on_a_card PACK.zip [PATTERN ...]``.

The rows of `card_rows` and `card_kernels` are called on the simulated GPU, where each launch is taken down
with its machine code, parameters and arrays, and not timed. `hopper.replay` runs the pack on a card. Needs
PyTorch (the CPU's), Triton 3.9.0, ``liger-kernel`` 0.8.5 and ``flash-linear-attention`` 0.6.0 on the path.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import torch

from smlab.hw_bench.errors import SmlabError
from smlab.sim.execution import functional
from smlab.sim.frontends import triton_driver
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.validation.campaigns.hopper.packing import HardwareLaunch, PackWriter
from smlab.validation.campaigns.triton_libraries import card_kernels, card_rows

MOST_EXECUTED: Final = 2_000_000
"""Warp-instructions of a launch that is executed, so that the next one finds what it wrote."""
MOST_BYTES: Final = 1 << 30


class _Recorder:
    """Takes down what calls launch, in place of a simulation: of launches alike in a row the first."""

    def __init__(self, gpu: str, pack: PackWriter) -> None:
        self.pack = pack
        self._row = ""
        self._known: set[tuple[object, ...]] = set()
        self._cubins: dict[int, bytes] = {}
        self._whole = from_cubin
        front_door = importlib.import_module("smlab")  # which no room imports
        self._card: Any = front_door.simulated(gpu, sms=1, complete=False)
        self._card._launches.launch = self._launch
        self._card.start()
        patch.object(triton_driver, "from_cubin", self._from_cubin).start()

    def _from_cubin(self, content: bytes, *more: Any) -> Any:
        image = self._whole(content, *more)
        self._cubins[id(image)] = content
        return image

    def _launch(self, launch: MachineLaunch, row: object = None) -> Any:
        kernel = launch.image.function.name
        alike = self._row, kernel, launch.grid, launch.block
        size = sum(len(one.content) for one in launch.allocations)
        if self._row and alike not in self._known and size <= MOST_BYTES:
            name = f"{self._row}|{len(self._known)}|{kernel}"
            self._known.add(alike)
            self.pack.add(
                HardwareLaunch(name, self._row.split("/")[0], self._cubins[id(launch.image)], launch)
            )
            print(name, launch.grid, launch.block, f"{size >> 20} MiB", file=sys.stderr, flush=True)
        try:
            functional.run(launch, max_instructions=MOST_EXECUTED)
        except SmlabError as error:
            print("    not executed:", str(error)[:80], file=sys.stderr)
        return SimpleNamespace(seconds=1e-6)

    def call(self, row: str, make: Callable[[], Callable[[], object]]) -> None:
        """What it takes to make the tensors is not taken down."""
        self._row = ""
        call = make()
        self._row, self._known = row, set()
        call()


def record(pack: PackWriter, patterns: list[str]) -> None:
    """Take down the rows whose names match."""
    recorder = _Recorder("h200", pack)
    ours = ((f"ours/{name}", make) for name, make in card_kernels.calls())
    for row, make in chain(ours, card_rows.rows()):
        if any(fnmatch.fnmatchcase(row, pattern) for pattern in patterns):
            torch.manual_seed(0)
            torch.compiler.reset()
            try:
                recorder.call(row, make)
            except Exception as error:  # a library's, for a row that it does not take
                print(row, "FAILED", repr(error)[:300], file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pack", type=Path)
    parser.add_argument("patterns", nargs="*", default=["*"])
    asked = parser.parse_args()
    with PackWriter(asked.pack) as pack:
        record(pack, asked.patterns)
    print(len(pack.rows), "launches")


if __name__ == "__main__":
    main()
