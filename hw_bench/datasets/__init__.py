"""Named sets of measurements by others: a reader for each, none of their data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from smlab.hw_bench.datasets.kernel_tuner import read_kernel_tuner_folder
from smlab.hw_bench.datasets.ktt import read_ktt_folder
from smlab.hw_bench.datasets.neusight import read_neusight
from smlab.hw_bench.datasets.operator_times import OperatorTimes
from smlab.hw_bench.datasets.tuning import TuningTimes
from smlab.hw_bench.errors import SmlabError

__all__ = [
    "DATASETS",
    "TUNING_SETS",
    "OperatorTimes",
    "TuningTimes",
    "is_tuning_set",
    "read_dataset",
    "read_neusight",
    "read_tuning",
]

DATASETS: Final[dict[str, Callable[[Path], OperatorTimes]]] = {"neusight": read_neusight}

TUNING_SETS: Final[dict[str, Callable[[Path], list[TuningTimes]]]] = {
    "ktt": read_ktt_folder,
    "kernel-tuner": read_kernel_tuner_folder,
}
"""Sets of auto-tuners' searches, a `TuningTimes` a file; ``kernel-tuner`` also reads T4."""


def is_tuning_set(spec: str) -> bool:
    """Whether ``NAME:DIR`` names a set of searches."""
    return spec.partition(":")[0] in TUNING_SETS


def read_tuning(spec: str) -> list[TuningTimes]:
    """The searches named by ``NAME:DIR`` (or a file in place of DIR), such as ``ktt:DIR``."""
    name, colon, folder = spec.partition(":")
    if name not in TUNING_SETS or not colon or not folder:
        expected = " or ".join(f"{known}:DIR" for known in TUNING_SETS)
        raise SmlabError.at("--dataset", "unknown set of searches", spec, expected)
    return TUNING_SETS[name](Path(folder))


def read_dataset(spec: str) -> OperatorTimes:
    """The set named by ``NAME:DIR``, such as ``neusight:DIR``; `SmlabError` for an unknown name or a
    missing folder."""
    name, colon, folder = spec.partition(":")
    if name not in DATASETS or not colon or not folder:
        expected = " or ".join(f"{known}:DIR" for known in (*DATASETS, *TUNING_SETS))
        raise SmlabError.at("--dataset", "unknown set of measurements", spec, expected)
    return DATASETS[name](Path(folder))
