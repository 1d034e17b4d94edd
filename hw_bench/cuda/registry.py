"""Which benchmarks there are. Their modules, and with them Numba's CUDA target, are loaded when asked for."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from smlab.hw_bench.cuda.kernels.spec import KernelSpec
from smlab.hw_bench.errors import SmlabError, nearest


@dataclass(frozen=True)
class Benchmark:
    """One benchmark: its name on the command line, its module, and what it measures in one line."""

    name: str
    module: str
    doc: str

    def load(self) -> ModuleType:
        return importlib.import_module(f"smlab.hw_bench.cuda.kernels.{self.module}")

    def kernels(self) -> tuple[KernelSpec, ...]:
        kernels: tuple[KernelSpec, ...] = self.load().KERNELS
        return kernels


BENCHMARKS: Final = (
    Benchmark("shared-atomics", "shared_atomics", "T(n, e, c) of the shared-memory atomic unit"),
    Benchmark("latency", "latency", "cycles to the result: memory by level, arithmetic by class"),
    Benchmark("shared-banks", "shared_banks", "loads and stores under bank conflicts and broadcast"),
    Benchmark("histogram", "histogram", "the image histogram of Dong & Pai, in four variants"),
    Benchmark("ceilings", "ceilings", "arithmetic and memory rates at best"),
    Benchmark("portability", "portability", "Coyne's kernels that gained least from V100 to A100"),
)


def benchmark(name: str) -> Benchmark:
    """The benchmark of this name; `SmlabError` listing them all when there is none."""
    for candidate in BENCHMARKS:
        if candidate.name == name:
            return candidate
    names = [candidate.name for candidate in BENCHMARKS]
    guess = nearest(name, names)
    hint = f" (did you mean {guess}?)" if guess else ""
    raise SmlabError.at("benchmark", f"unknown{hint}", name, "one of " + ", ".join(names))


def all_kernels() -> tuple[KernelSpec, ...]:
    return tuple(spec for candidate in BENCHMARKS for spec in candidate.kernels())


def kernel(benchmark_name: str, kernel_name: str) -> KernelSpec:
    specs = benchmark(benchmark_name).kernels()
    for spec in specs:
        if spec.name == kernel_name:
            return spec
    raise SmlabError.at(
        f"benchmark {benchmark_name}", "has no such kernel", kernel_name, ", ".join(s.name for s in specs)
    )
