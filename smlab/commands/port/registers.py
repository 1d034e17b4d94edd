"""Whether configurations of a kernel fit a GPU once they are compiled for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.datasets.tuning import TuningTimes, label_of
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.image import resources_of
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
        cubin = self._source.cubin(times, row, self._gpu)
        compiled = resources_of(cubin, str(times.kernel[row]), f"{self._source.path} (compiled)")
        registers, static = compiled.registers, compiled.static_shared_bytes
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
