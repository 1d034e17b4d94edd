"""The machine code of a profile's kernels for two GPUs: compiled from their source, or read from cubins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.inputs import machine_code_bytes
from smlab.hw_bench.sass import CodeComparison, CodeComparisons, compare_files, read_cubin, read_regions
from smlab.hw_bench.sass.nvrtc import compile_file


@dataclass(frozen=True)
class KernelCode:
    """``source`` is CUDA C with macros ``defines`` and headers in ``folders``, ``cubins`` machine code, one
    for each GPU or for the target alone. False where there is neither."""

    source: Path | None = None
    defines: tuple[tuple[str, str], ...] = ()
    cubins: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()

    def __bool__(self) -> bool:
        return self.source is not None or bool(self.cubins)

    def compare(self, source: Gpu, target: Gpu) -> tuple[CodeComparisons, tuple[str, ...]]:
        """The kernels' code for both GPUs, and notes.

        Raises:
            SmlabError: source that does not compile, both kinds given, no cubin that runs on the target.
        """
        if self.source is not None:
            if self.cubins:
                expected = "one of --source and --cubin"
                raise SmlabError.at("--cubin", "goes without --source", str(self.cubins[0]), expected)
            return compare_files(*(self._compiled(self.source, gpu) for gpu in (source, target))), ()
        here, there = (_runs_on(self.cubins, gpu) for gpu in (source, target))
        if there is None:
            had = ", ".join(read_cubin(path).architecture for path in self.cubins)
            raise SmlabError.at("--cubin", f"none runs on {target.name}", had, target.sm_architecture)
        if here is not None:
            return compare_files(here, there), ()
        alone = tuple(CodeComparison(replace(f, footprint=None), f) for f in read_regions(there))
        note = f"no machine code for {source.name}: registers from the target's, operations as on the source"
        return CodeComparisons(alone, ()), (note,)

    def cubin(self, gpu: Gpu) -> bytes:
        """The machine code that runs on ``gpu``; `SmlabError` where there is none."""
        if self.source is not None:
            return self._compiled(self.source, gpu)
        path = _runs_on(self.cubins, gpu)
        if path is None:
            raise SmlabError.at("--cubin", f"none runs on {gpu.name}", None, gpu.sm_architecture)
        return machine_code_bytes(path)

    def _compiled(self, path: Path, gpu: Gpu) -> bytes:
        return compile_file(path, gpu.sm_architecture, self.defines, self.folders)


def _runs_on(cubins: Sequence[Path], gpu: Gpu) -> Path | None:
    """The cubin whose code runs on ``gpu``: of its major architecture, and of the highest minor one that is
    not above it."""
    wanted = int(gpu.sm_architecture.removeprefix("sm_"))
    fit = []
    for path in cubins:
        number = int(read_cubin(path).architecture.removeprefix("sm_"))
        if number // 10 == wanted // 10 and number <= wanted:
            fit.append((number, path))
    return max(fit)[1] if fit else None
