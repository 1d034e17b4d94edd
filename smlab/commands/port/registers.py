"""Whether configurations of a kernel fit a GPU once they are compiled for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.datasets.tuning import TuningTimes, label_of
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.image import compiled_resources
from smlab.models.parallelism import resident_blocks
from smlab.validation.projection.tuning.code import TuningSource


class CompiledConfigurations:
    """Compiles a configuration's CUDA C for a GPU when it is asked for; ``refused`` holds the labels of those
    that do not fit."""

    def __init__(self, source: TuningSource, gpu: Gpu, progress: Callable[[int, int], None] | None) -> None:
        source.text()  # a file that cannot be read is told before anything else
        self._source, self._gpu, self._progress = source, gpu, progress
        self.refused: list[str] = []

    def fits(self, times: TuningTimes, row: int) -> bool:
        """Whether a block of the configuration fits an SM of the GPU; compiles it."""
        kernels = compiled_resources(
            self._source.cubin(times, row, self._gpu), f"{self._source.path} (compiled)"
        )
        name = str(times.kernel[row])
        mine = [r for mangled, r in kernels.items() if name == mangled or f"{len(name)}{name}" in mangled]
        if len(kernels) == 1:
            mine = list(kernels.values())
        if len(mine) != 1:
            raise SmlabError.at(str(self._source.path), "no such kernel", name, ", ".join(kernels))
        registers, static = mine[0]
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
