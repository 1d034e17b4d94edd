"""Whether configurations of a kernel fit a GPU once they are compiled for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.datasets.tuning import TuningTimes, label_of
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.image import compiled_resources
from smlab.hw_bench.sass.nvrtc import compile_cuda
from smlab.models.parallelism import resident_blocks


class CompiledConfigurations:
    """Compiles a configuration's CUDA C for a GPU, its parameters as macros, when it is asked for.

    ``registers`` holds what was compiled, by row; ``refused`` the labels that do not fit.
    """

    def __init__(self, path: Path, gpu: Gpu, progress: Callable[[int, int], None] | None = None) -> None:
        try:
            self._source = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise SmlabError.at(str(path), f"cannot be read: {error.strerror}") from error
        self._path, self._gpu, self._progress = path, gpu, progress
        self._names = frozenset(re.findall(r"[A-Za-z_]\w*", self._source))
        self._known: dict[tuple[str, ...], tuple[int, int]] = {}
        self.registers: dict[int, int] = {}
        self.refused: list[str] = []

    def fits(self, times: TuningTimes, row: int) -> bool:
        """Whether a block of the configuration fits an SM of the GPU; compiles it."""
        registers, static = self._resources(times, row)
        self.registers[row] = registers
        shared = max(static, int(np.nan_to_num(times.shared_bytes_per_block[row])))
        threads = times.threads_per_block[row]
        fits = bool(resident_blocks(self._gpu, threads if threads > 0 else 1, registers, shared) > 0)
        if not fits:
            self.refused.append(label_of(times.parameters, times.config[row]))
        return fits

    def fit_all(self, times: TuningTimes) -> NDArray[np.bool_]:
        """The same of every configuration, (rows,); those that fit with any number of registers are not
        compiled."""
        most = self._gpu.integer("sm.max_registers_per_thread")
        threads = np.where(times.threads_per_block > 0, times.threads_per_block, 1)
        fit = np.asarray(resident_blocks(self._gpu, threads, most) > 0)
        doubtful = np.flatnonzero(~fit).tolist()
        for done, row in enumerate(doubtful, start=1):
            fit[row] = self.fits(times, row)
            if self._progress is not None:
                self._progress(done, len(doubtful))
        return fit

    def _resources(self, times: TuningTimes, row: int) -> tuple[int, int]:
        """Registers and static shared bytes; parameters that the source does not name change nothing."""
        config = zip(times.parameters, times.config[row], strict=True)
        options = tuple(f"-D{name}={value}" for name, value in config if name in self._names)
        if options not in self._known:
            content = compile_cuda(self._source, self._gpu.sm_architecture, options, self._path.name)
            kernels = compiled_resources(content, str(self._path))
            name = str(times.kernel[row])
            mine = [r for mangled, r in kernels.items() if name == mangled or f"{len(name)}{name}" in mangled]
            if len(kernels) == 1:
                mine = list(kernels.values())
            if len(mine) != 1:
                raise SmlabError.at(str(self._path), "no such kernel", name, ", ".join(kernels))
            self._known[options] = mine[0]
        return self._known[options]
