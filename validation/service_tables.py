"""Simulated service tables T(n, e, c) for the estimators: who needs some gets them here.

Three extents, each simulated once: whole tables, kept in the user's cache folder (`tables_of`); fetch-and-add
alone (`fetch_add_tables`), some thirty times cheaper; and for the machines of a study the two e that a
kernel lies between (`StudyTables`), cheap enough for a machine a point.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import xarray as xr

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import cache_folder
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sources import cache_key, digest_of, package_folder
from smlab.models.service_table import ServiceTable
from smlab.models.together import MAX_ROW
from smlab.sim import compiled
from smlab.sim.builtin import atomics
from smlab.sim.compiled import table as bulk
from smlab.sim.lowering import lower
from smlab.sim.machine import Machine, machine_from
from smlab.sim.reference import Record
from smlab.sim.table import FORMS, service_table

Progress = Callable[[int, int], None]

MAX_KEPT = 64
"""Tables that a study keeps in memory."""


@dataclass(frozen=True, eq=False)
class ServiceTables:
    """Both forms of T(n, e, c) for fetch-and-add and compare-and-swap on one GPU; ``row``, where there is
    one, is that of one warp's jobs in a row (`smlab.models.together`)."""

    batch: ServiceTable
    looped: ServiceTable
    row: ServiceTable | None = None


def simulate_tables(gpu: Gpu, progress: Progress | None = None) -> ServiceTables:
    """Both tables over all n up to the SM's warps, all e and all c; some seconds with the compiled engine."""
    made: list[ServiceTable] = []
    for form in FORMS:
        done_before, begun = len(made), progress is not None

        def advance(done: int, total: int, before: int = done_before) -> None:
            if progress is not None:
                progress(before * total + done, len(FORMS) * total)

        made.append(ServiceTable(service_table(gpu, form=form, progress=advance if begun else None)))
    return ServiceTables(made[0], made[1], row_table(gpu))


def row_table(gpu: Gpu) -> ServiceTable:
    """T(n, e, c) of up to `MAX_ROW` jobs that one warp issues without waiting: simulated for fetch-and-add
    and for compare-and-swap alone, and in proportion between."""
    machine = machine_from(gpu)
    lanes = range(1, machine.warp_lanes + 1)
    alone = [
        np.array([[_row_cycles(machine, n, e, cas) for e in lanes] for n in range(1, MAX_ROW + 1)])
        for cas in (False, True)
    ]
    n, c = np.arange(1, MAX_ROW + 1), np.arange(MAX_ROW + 1)
    share = np.where(c > n[:, None], np.nan, c / n[:, None])[:, None, :]
    cycles = alone[0][:, :, None] * (1 - share) + alone[1][:, :, None] * share
    attrs = {"gpu": gpu.name, "op": "add", "form": "row", "kind": "simulated"}
    coords = {"n": n, "e": np.array(lanes), "c": c}
    return ServiceTable(xr.DataArray(cycles, coords=coords, dims=("n", "e", "c"), attrs=attrs))


def _row_cycles(machine: Machine, jobs: int, lanes: int, cas: bool) -> float:
    """From the first issue to the last completion of so many atomics of one warp."""
    kernel = atomics(warps=1, cas_warps=int(cas), lanes=lanes, iterations=jobs)
    trace = compiled.run(lower(kernel, machine), Record.ATOMICS, threads=1).jobs
    assert trace is not None
    return float(trace.completion.max() - trace.issue.min())


def tables_of(gpu: Gpu, *, folder: Path | None = None, progress: Progress | None = None) -> ServiceTables:
    """As `simulate_tables`, from the cache where the same description and engine have been asked for before.

    A file in the cache that cannot be used is replaced; a folder that cannot be written to is done without.
    """
    folder = cache_folder("tables") if folder is None else folder
    key = _key(gpu)
    paths = [folder / f"{gpu.name}-{key}-{form}.nc" for form in (*FORMS, "row")]
    if all(path.is_file() for path in paths):
        try:
            return ServiceTables(*(ServiceTable.read(path) for path in paths))
        except SmlabError:
            pass
    tables = simulate_tables(gpu, progress)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for table, path in zip((tables.batch, tables.looped, tables.row), paths, strict=True):
            if table is not None:
                table.write(path)
    except (OSError, SmlabError):
        pass
    return tables


_FETCH_ADD: OrderedDict[str, ServiceTables] = OrderedDict()


def fetch_add_tables(gpu: Gpu) -> ServiceTables:
    """T(n, e, 0) of fetch-and-add, both forms, for kernels without compare-and-swap; those of the last two
    GPUs are kept in memory.

    POPC.INC is estimated with it as well, since a profile does not tell the two apart, and Dong & Pai have no
    other table.
    """
    key = _key(gpu)  # not the object: each task of a worker brings its own
    found = _FETCH_ADD.get(key)
    if found is None:
        found = ServiceTables(*(ServiceTable(service_table(gpu, form=form, cas_jobs=[0])) for form in FORMS))
        if len(_FETCH_ADD) >= 2:
            _FETCH_ADD.popitem(last=False)
        _FETCH_ADD[key] = found
    return found


class StudyTables:
    """Service tables of a study's machines as far as they are needed, the latest kept. Empty after
    travelling to another process."""

    def __init__(self) -> None:
        self._kept: OrderedDict[object, ServiceTable] = OrderedDict()

    def __reduce__(self) -> tuple[type[StudyTables], tuple[()]]:
        return StudyTables, ()

    def get(
        self, machine: Machine, op: str, form: str, warps: int, lanes: int, with_cas: bool
    ) -> ServiceTable:
        """T(n, e, c) for n up to ``warps`` and the two whole e from ``lanes``, which stand at e = 1 and e
        = 2."""
        key = (repr(machine), op, form, warps, lanes, with_cas)
        found = self._kept.get(key)
        if found is None:
            found = _around(machine, op, form, warps, lanes, with_cas)
            if len(self._kept) >= MAX_KEPT:
                self._kept.popitem(last=False)
            self._kept[key] = found
        return found


def _around(machine: Machine, op: str, form: str, warps: int, lanes: int, with_cas: bool) -> ServiceTable:
    two = sorted({lanes, min(lanes + 1, machine.warp_lanes)})
    n, e, c = (
        axis.ravel()
        for axis in np.meshgrid(
            np.arange(1, warps + 1), two, np.arange(warps + 1 if with_cas else 1), indexing="ij"
        )
    )
    there = c <= n
    in_bulk = bulk.batch_cycles if form == "batch" else bulk.looped_cycles
    cycles = np.full(n.shape, np.nan)
    cycles[there] = in_bulk(machine, op, n[there], e[there], c[there], threads=1)
    shape = (warps, len(two), -1)
    coords = {
        "n": np.arange(1, warps + 1),
        "e": np.arange(1, len(two) + 1),
        "c": np.arange(warps + 1 if with_cas else 1),
    }
    attrs = {"gpu": machine.name, "op": op, "form": form, "kind": "simulated"}
    return ServiceTable(xr.DataArray(cycles.reshape(shape), coords=coords, dims=("n", "e", "c"), attrs=attrs))


def _key(gpu: Gpu) -> str:
    """A digest of what the tables depend on: the description's constants and the simulator's source."""
    return cache_key({key: constant.value for key, constant in gpu.constants.items()}, engine_version())


@cache
def engine_version() -> str:
    """A digest of the simulator's source: other source, other tables."""
    return digest_of(package_folder("smlab.sim"))
