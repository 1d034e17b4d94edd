"""Whether configurations of a kernel fit a GPU once they are compiled for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.datasets.tuning import TuningTimes, label_of
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.image import CompiledResources, resources_of
from smlab.models.projection.parallelism import resident_blocks
from smlab.validation.projection.tuning_code import TuningSource


class CompiledConfigurations:
    """Compiles a configuration's CUDA C for a GPU when it is asked for, once for all that differ in macros
    which the source never names; ``refused`` holds the labels of those that do not fit."""

    def __init__(self, source: TuningSource, gpu: Gpu, progress: Callable[[int, int], None] | None) -> None:
        source.text()  # a file that cannot be read is told before anything else
        self._source, self._gpu, self._progress = source, gpu, progress
        self.refused: list[str] = []
        self._resources: dict[tuple[object, ...], CompiledResources] = {}

    def fits(self, times: TuningTimes, row: int) -> bool:
        """Whether a block of the configuration fits an SM of the GPU; compiles it."""
        compiled = self._compiled(times, row)
        registers, static = compiled.registers, compiled.static_shared_bytes
        shared = max(static, int(np.nan_to_num(times.shared_bytes_per_block[row])))
        threads = times.threads_per_block[row]
        fits = bool(resident_blocks(self._gpu, threads if threads > 0 else 1, registers, shared) > 0)
        if not fits:
            self.refused.append(label_of(times.parameters, times.config[row]))
        return fits

    def _compiled(self, times: TuningTimes, row: int) -> CompiledResources:
        key = self._source.macros_read(times, row)
        if key not in self._resources:
            cubin = self._source.cubin(times, row, self._gpu)
            where = f"{self._source.path} (compiled)"
            self._resources[key] = resources_of(cubin, str(times.kernel[row]), where)
        return self._resources[key]

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
