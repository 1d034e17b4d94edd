"""The machine code of a tuning space's configurations: the kernel's source compiled for both GPUs, each
configuration's parameters as macros."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.datasets.tuning import TuningTimes
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.inputs import source_text
from smlab.hw_bench.sass import CodeComparison, CodeComparisons, compare_files
from smlab.hw_bench.sass.includes import HeaderFolders
from smlab.hw_bench.sass.nvrtc import compile_file, names_in

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class TuningSource:
    """CUDA C of the kernels of a tuning space; ``defines`` are macros beside the configuration's own,
    ``folders`` where its headers are, besides its own folder."""

    path: Path
    defines: tuple[tuple[str, str], ...] = ()
    folders: tuple[Path, ...] = ()

    def text(self) -> str:
        """With its headers; `SmlabError` for a file that cannot be read."""
        return HeaderFolders.of(self.path, self.folders).text(source_text(self.path))

    def cubin(self, times: TuningTimes, row: int, gpu: Gpu) -> bytes:
        """The cubin of one configuration for a GPU."""
        macros = [*zip(times.parameters, times.config[row], strict=True), *self.defines]
        literals = ((name, _literal(value)) for name, value in macros)
        return compile_file(self.path, gpu.sm_architecture, literals, self.folders)

    def compare(
        self,
        times: TuningTimes,
        rows: Sequence[int],
        source: Gpu,
        target: Gpu,
        progress: Progress | None = None,
    ) -> list[CodeComparison | None]:
        """Both GPUs' code of some rows; rows that differ in macros which the source never names share it."""
        known: dict[tuple[object, ...], CodeComparisons] = {}
        found = []
        for done, row in enumerate(rows):
            key = self.macros_read(times, row)[1:]
            if key not in known:
                known[key] = compare_files(*(self.cubin(times, row, gpu) for gpu in (source, target)))
            found.append(known[key].of(str(times.kernel[row])))
            if progress is not None:
                progress(done + 1, len(rows))
        return found

    def distinct(self, times: TuningTimes, rows: Sequence[int]) -> list[int]:
        """The first of ``rows`` of each code, in their order."""
        first: dict[tuple[object, ...], int] = {}
        for row in rows:
            first.setdefault(self.macros_read(times, row), row)
        return list(first.values())

    def macros_read(self, times: TuningTimes, row: int) -> tuple[object, ...]:
        """The kernel of a row and the values of those of its parameters that the source names: rows where
        they are equal have equal code."""
        read = zip(times.parameters, times.config[row], strict=True)
        return times.kernel[row], *(value for name, value in read if name in self._names)

    @cached_property
    def _names(self) -> frozenset[str]:
        return names_in(self.text())


def drawn(rows: Sequence[int], count: int, seed: int = 0) -> NDArray[np.int64]:
    """``count`` of ``rows`` (all, where there are fewer) without replacement."""
    order = np.random.default_rng(seed).permutation(len(rows))[:count]
    return np.asarray(rows, dtype=np.int64)[order]


def _literal(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
