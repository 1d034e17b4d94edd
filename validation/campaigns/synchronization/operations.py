"""The operations: what is timed, in CUDA C, and what others measured on three GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.validation.campaigns.published_figures import table_rows

PUBLISHED: Final = Path(__file__).with_name("published.csv")
GRIDS: Final = Path(__file__).with_name("grids.csv")
SOURCE: Final = (
    "Burtchell and Burtscher, 2024, Characterizing CUDA and OpenMP Synchronization Primitives, IISWC 2024; "
    "raw results of burtscher/SyncPerformance, commit 89a4e2a4"
)
CLOCKS_HZ: Final = {"rtx-2070-super": 1.8e9, "a100-40": 1.41e9, "rtx-4090": 2.625e9}
"""At which the published times are whole cycles."""

TYPES: Final[dict[str, tuple[str, np.dtype[Any]]]] = {
    "int": ("int", np.dtype(np.int32)),
    "ull": ("unsigned long long", np.dtype(np.uint64)),
    "float": ("float", np.dtype(np.float32)),
    "double": ("double", np.dtype(np.float64)),
    "none": ("int", np.dtype(np.int32)),
}
"""By the name in the published tables: the type in CUDA C, and that of the arrays."""


@dataclass(frozen=True)
class TimedOperation:
    """Statements in CUDA C around the one that is timed: ``before`` and ``after`` it in both loops."""

    more: str
    before: str = ""
    after: str = ""


_ADD_FIRST, _ADD_SECOND = "first[thread] += value", "second[thread] += value"
_ADD_OWN = "atomicAdd(&first[thread], value)"
_ADD_ONE = "atomicAdd(first, value)"
_CAS_OWN = "atomicCAS(&first[thread], (Value)0, (Value)0)"
_CAS_ONE = "atomicCAS(first, (Value)0, (Value)0)"
_EXCHANGE = "kept = atomicExch(first, value)"
_SHUFFLE = "kept = __shfl_sync(0xffffffffu, kept, (threadIdx.x + 1) % 32)"
_SHUFFLE_DOWN = "kept = __shfl_down_sync(0xffffffffu, kept, 1)"
_VOTE = "kept += __any_sync(0xffffffffu, thread)"
_MATCH = "key ^= __match_any_sync(0xffffffffu, key) & zero"

OPERATIONS: Final = {
    "barrier of a block": TimedOperation("__syncthreads()", "__syncthreads()"),
    "barrier of a warp": TimedOperation("__syncwarp()", "__syncwarp()"),
    "shuffle": TimedOperation(_SHUFFLE, _SHUFFLE),
    "shuffle down": TimedOperation(_SHUFFLE_DOWN, _SHUFFLE_DOWN),
    "vote": TimedOperation(_VOTE, _VOTE),
    "match": TimedOperation(_MATCH, _MATCH),
    "fence": TimedOperation("__threadfence()", _ADD_FIRST, _ADD_SECOND),
    "system fence": TimedOperation(
        "__threadfence_system()", "first[thread] += value", "second[thread] += value"
    ),
    "add, own words": TimedOperation(_ADD_OWN, _ADD_OWN),
    "add, one word": TimedOperation(_ADD_ONE, _ADD_ONE),
    "compare-and-swap, own words": TimedOperation(_CAS_OWN, _CAS_OWN),
    "compare-and-swap, one word": TimedOperation(_CAS_ONE, _CAS_ONE),
    "exchange, one word": TimedOperation(_EXCHANGE, _EXCHANGE),
}


@dataclass(frozen=True)
class PublishedCost:
    """One published figure: what one more operation of each thread adds, in SM cycles, for the slowest of
    ``threads`` threads of one block."""

    gpu: str
    operation: str
    type: str
    threads: int
    cycles: float


@dataclass(frozen=True)
class PublishedGridCost:
    """What one more operation of each thread of ``blocks`` blocks adds, in SM cycles: the ``median`` thread
    and the ``slowest`` one."""

    gpu: str
    operation: str
    type: str
    blocks: int
    threads: int
    median: float
    slowest: float


def published(path: Path = PUBLISHED) -> Iterator[PublishedCost]:
    """All figures; `SmlabError` for a row of no known operation or type."""
    for row in _known_rows(path):
        for threads, cycles in row.items():
            if threads.isdigit() and cycles:
                yield PublishedCost(row["gpu"], row["operation"], row["type"], int(threads), float(cycles))


def published_grids(path: Path = GRIDS) -> Iterator[PublishedGridCost]:
    """All figures of many blocks; `SmlabError` for a row of no known operation or type."""
    for row in _known_rows(path):
        yield PublishedGridCost(
            row["gpu"],
            row["operation"],
            row["type"],
            int(row["blocks"]),
            int(row["threads"]),
            float(row["median"]),
            float(row["slowest"]),
        )


def _known_rows(path: Path) -> Iterator[dict[str, str]]:
    for row in table_rows(path):
        name, kind = row["operation"], row["type"]
        if name not in OPERATIONS or kind not in TYPES or row["gpu"] not in CLOCKS_HZ:
            raise SmlabError.at(str(path), "no such operation, type or GPU", f"{name}, {kind}, {row['gpu']}")
        yield row


def gpu_of(name: str, policy: str | None = None) -> Gpu:
    """The description at the clock of the measurement."""
    values: dict[str, int | float | str] = {"clock.sm_hz": CLOCKS_HZ[name]}
    if policy is not None:
        values["sm.scheduler_policy"] = policy
    return load_gpu(name).with_values(values, source=SOURCE)
