"""Simulated service tables of a GPU, batch and looped, computed once and kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.service_table import ServiceTable
from smlab.sim.table import service_table

from smlab import sim

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Tables:
    """Both forms of T(n, e, c) for fetch-and-add and compare-and-swap on one GPU."""

    batch: ServiceTable
    looped: ServiceTable


def simulate_tables(gpu: Gpu, progress: Progress | None = None) -> Tables:
    """Both tables over all n up to the SM's warps, all e and all c; some seconds with the compiled engine."""
    made: list[ServiceTable] = []
    for form in ("batch", "looped"):
        done_before, begun = len(made), progress is not None

        def advance(done: int, total: int, before: int = done_before) -> None:
            if progress is not None:
                progress(before * total + done, 2 * total)

        made.append(ServiceTable(service_table(gpu, form=form, progress=advance if begun else None)))
    return Tables(*made)


def cache_folder() -> Path:
    """Where tables are kept: ``smlab/tables`` in ``XDG_CACHE_HOME``, by default ``~/.cache``."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if root else Path.home() / ".cache") / "smlab" / "tables"


def tables_of(gpu: Gpu, *, folder: Path | None = None, progress: Progress | None = None) -> Tables:
    """As `simulate_tables`, from the cache where the same description and engine have been asked for before.

    A file in the cache that cannot be used is replaced; a folder that cannot be written to is done without.
    """
    folder = cache_folder() if folder is None else folder
    key = _key(gpu)
    paths = [folder / f"{gpu.name}-{key}-{form}.nc" for form in ("batch", "looped")]
    if all(path.is_file() for path in paths):
        try:
            return Tables(*(ServiceTable.read(path) for path in paths))
        except SmlabError:
            pass
    tables = simulate_tables(gpu, progress)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for table, path in zip((tables.batch, tables.looped), paths, strict=True):
            partial = path.with_name(f"{os.getpid()}-{path.name}")
            table.write(partial)
            partial.replace(path)
    except (OSError, SmlabError):
        pass
    return tables


def _key(gpu: Gpu) -> str:
    """A digest of what the tables depend on: the description's constants and the simulator's source."""
    constants = {key: constant.value for key, constant in gpu.constants.items()}
    text = json.dumps([constants, engine_version()], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def engine_version() -> str:
    """A digest of the simulator's source: other source, other tables."""
    digest = hashlib.sha256()
    root = Path(sim.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
