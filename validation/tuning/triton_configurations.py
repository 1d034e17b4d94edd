"""A kernel under ``triton.autotune`` as a tuning space: its list of configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from smlab.hw_bench.datasets.tuning import Parameter
from smlab.hw_bench.errors import SmlabError
from smlab.sim.frontends.python_file import split_name
from smlab.sim.frontends.registry import resolved_kernel
from smlab.sim.frontends.triton_kernel import configurations_of
from smlab.validation.tuning.space import TunedKernel, TuningSpace


def read_autotuned(kernel: str, tables: dict[str, Any], folder: Path, architecture: str) -> TuningSpace:
    """The space of ``file.py:kernel``; the Python file is executed.

    Raises:
        SmlabError: a kernel without configurations, or with the same one twice.
    """
    rows = configurations_of(resolved_kernel(kernel, architecture))
    if not rows:
        raise SmlabError.at(kernel, "has no list of configurations", None, "a kernel under triton.autotune")
    names = tuple(dict.fromkeys(name for row in rows for name in row))
    missing = [name for name in names if any(name not in row for row in rows)]
    if missing:
        raise SmlabError.at(kernel, "a configuration does not set", missing[0], "the same names in each")
    found: list[tuple[Parameter, ...]] = [tuple(_plain(row[name]) for name in names) for row in rows]
    if len(set(found)) < len(found):
        raise SmlabError.at(kernel, "has a configuration twice", None, "each once")
    path, name = split_name(kernel) or (Path(kernel), "")
    tuned = TunedKernel(f"{path.absolute()}:{name}", None, tables, folder)
    return TuningSpace(kernel, name, tuned, names, tuple(found))


def _plain(value: Any) -> Parameter:
    return value if isinstance(value, int | float | str | bool) else str(value)
