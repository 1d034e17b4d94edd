"""Named sets of measurements by others: a reader for each, none of their data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from smlab.hw_bench.datasets.neusight import read_neusight
from smlab.hw_bench.datasets.operator_times import OperatorTimes
from smlab.hw_bench.errors import SmlabError

__all__ = ["DATASETS", "OperatorTimes", "read_dataset", "read_neusight"]

DATASETS: Final[dict[str, Callable[[Path], OperatorTimes]]] = {"neusight": read_neusight}


def read_dataset(spec: str) -> OperatorTimes:
    """The set named by ``NAME:DIR``, such as ``neusight:DIR``; `SmlabError` for an unknown name or a
    missing folder."""
    name, colon, folder = spec.partition(":")
    if name not in DATASETS or not colon or not folder:
        expected = " or ".join(f"{known}:DIR" for known in DATASETS)
        raise SmlabError.at("--dataset", "unknown set of measurements", spec, expected)
    return DATASETS[name](Path(folder))
