"""Simulated service tables T(n, e, c) for the estimators: who needs some gets them here.

Three extents, each simulated once: whole tables (`tables_of`), which ship for the described GPUs and are else
kept in the user's cache folder; fetch-and-add alone (`fetch_add_tables`), some thirty times cheaper; and for
the machines of a study the two e that a kernel lies between (`StudyTables`), cheap enough for a machine a
point.

``python -m smlab.validation.service_tables`` makes the file that ships. The engine is imported where a table
is simulated, and not for one that ships: the first answer of a fresh installation compiles nothing.
"""

from __future__ import annotations

import argparse
import io
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import cache_folder, replacing
from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu
from smlab.hw_bench.sources import cache_key, digest_of, package_folder
from smlab.models.utilization.service_table import ServiceTable
from smlab.models.utilization.simultaneous_arrivals import MAX_ROW

if TYPE_CHECKING:
    from smlab.sim.machine import Machine

Progress = Callable[[int, int], None]

FORMS: Final = ("batch", "looped", "row")
"""The forms of `ServiceTables`, in its order."""

SHIPPED: Final = Path(__file__).with_name("service_tables.xz")
MADE_BY: Final = "python -m smlab.validation.service_tables"

ELSEWHERE: Final = (
    "gpu.",
    "clock.",
    "power.",
    "launch.",
    "l1.",
    "l2.",
    "dram.",
    "peak.",
    "constant.",
    "icache.",
    "copy_engine.",
    "tensor.",
)
"""How keys of constants begin that no table depends on: a table is of one SM that does nothing but
shared-memory atomics, in cycles."""

MAX_KEPT = 64
"""Tables that a study keeps in memory."""


@dataclass(frozen=True, eq=False)
class ServiceTables:
    """Both forms of T(n, e, c) for fetch-and-add and compare-and-swap on one GPU; ``row``, where there is
    one, is that of one warp's jobs in a row (`smlab.models.utilization.simultaneous_arrivals`)."""

    batch: ServiceTable
    looped: ServiceTable
    row: ServiceTable | None = None


def simulate_tables(gpu: Gpu, progress: Progress | None = None) -> ServiceTables:
    """Both tables over all n up to the SM's warps, all e and all c; some seconds with the compiled engine."""
    from smlab.sim.service_table import FORMS as WHOLE
    from smlab.sim.service_table import service_table

    made: list[ServiceTable] = []
    for form in WHOLE:
        done_before, begun = len(made), progress is not None

        def advance(done: int, total: int, before: int = done_before) -> None:
            if progress is not None:
                progress(before * total + done, len(WHOLE) * total)

        made.append(ServiceTable(service_table(gpu, form=form, progress=advance if begun else None)))
    return ServiceTables(made[0], made[1], row_table(gpu))


def row_table(gpu: Gpu) -> ServiceTable:
    """T(n, e, c) of up to `MAX_ROW` jobs that one warp issues without waiting: simulated for fetch-and-add
    and for compare-and-swap alone, and in proportion between."""
    import xarray as xr

    from smlab.sim.machine import machine_from

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
    from smlab.sim import compiled
    from smlab.sim.lowering import lower
    from smlab.sim.reference import Record
    from smlab.sim.workloads.atomics_benchmark import atomics

    kernel = atomics(warps=1, cas_warps=int(cas), lanes=lanes, iterations=jobs)
    trace = compiled.run(lower(kernel, machine), Record.ATOMICS, threads=1).jobs
    assert trace is not None
    return float(trace.completion.max() - trace.issue.min())


def tables_of(gpu: Gpu, *, folder: Path | None = None, progress: Progress | None = None) -> ServiceTables:
    """As `simulate_tables`: the tables that ship where they fit (`shipped_tables`), else from the cache where
    the same description and engine have been asked for before.

    A file in the cache that cannot be used is replaced; a folder that cannot be written to is done without.
    """
    shipped = shipped_tables(gpu)
    if shipped is not None:
        return shipped
    folder = cache_folder("tables") if folder is None else folder
    key = _key(gpu)
    paths = [folder / f"{gpu.name}-{key}-{form}.nc" for form in FORMS]
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


def shipped_tables(gpu: Gpu, path: Path = SHIPPED) -> ServiceTables | None:
    """The tables that ship for this description; None where none of them fits it, or the simulator's
    specification has changed since."""
    import xarray as xr

    key = shipped_key(gpu)
    stored = _stored(path)
    if any(f"{key}-{form}" not in stored for form in FORMS):
        return None
    found = {}
    for form in FORMS:
        values = stored[f"{key}-{form}"]
        cycles = values if form == "row" else _whole(values)
        coords = {
            "n": np.arange(1, len(cycles) + 1),
            "e": np.arange(1, cycles.shape[1] + 1),
            "c": np.arange(len(cycles) + 1),
        }
        attrs = {"gpu": gpu.name, "op": "add", "form": form, "kind": "simulated", "units": "cycles"}
        found[form] = ServiceTable(xr.DataArray(cycles, coords=coords, dims=("n", "e", "c"), attrs=attrs))
    return ServiceTables(**found)


def write_shipped(gpus: Iterable[Gpu], path: Path) -> int:
    """Simulate the tables of descriptions, those under each of their alternatives, and write them to one
    file; how many different ones there are."""
    import lzma

    kept: dict[str, NDArray[np.generic]] = {}
    for gpu in gpus:
        for _, described in gpu.variants():
            key = shipped_key(described)
            if f"{key}-row" in kept:
                continue
            tables = simulate_tables(described)
            assert tables.row is not None
            kept |= {f"{key}-batch": _wedge(tables.batch), f"{key}-looped": _wedge(tables.looped)}
            kept[f"{key}-row"] = tables.row.data.to_numpy()
    content = io.BytesIO()
    np.savez(content, **kept)  # type: ignore[arg-type]
    with replacing(path) as partial:
        partial.write_bytes(lzma.compress(content.getvalue(), preset=9))
    return len(kept) // len(FORMS)


def shipped_key(gpu: Gpu) -> str:
    """A digest of what a table that ships depends on: the description's constants that bear on it, and the
    version of the simulator's specification, which both engines follow."""
    constants = {k: c.value for k, c in gpu.constants.items() if not k.startswith(ELSEWHERE)}
    return cache_key(constants, rules_version())


@cache
def rules_version() -> int:
    """The version that SEMANTICS.md gives itself."""
    text = (package_folder("smlab.sim") / "SEMANTICS.md").read_text(encoding="utf-8")
    found = re.search(r"^Version (\d+) of the rules", text, flags=re.MULTILINE)
    if found is None:
        raise ValueError("sim/SEMANTICS.md names no version of its rules")
    return int(found[1])


@cache
def _stored(path: Path) -> Mapping[str, NDArray[np.generic]]:
    """The arrays of the file by name; none where it is missing or damaged, or Python has no lzma."""
    try:
        import lzma
    except ImportError:
        return {}
    try:
        content = io.BytesIO(lzma.decompress(path.read_bytes()))
    except (OSError, lzma.LZMAError):
        return {}
    with np.load(content, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


_PER_CYCLE: Final = 8
"""Cycles of a whole table are stored in eighths: those of the looped form are means over eight rounds."""


def _wedge(table: ServiceTable) -> NDArray[np.int32]:
    """Rows (n, c) with c <= n by e, in eighths of a cycle, each as what it adds to the one before."""
    cycles = table.data.transpose("n", "c", "e").to_numpy()
    eighths = cycles[~np.isnan(cycles).any(axis=2)] * _PER_CYCLE
    whole = np.round(eighths).astype(np.int32)
    if (whole != eighths).any():
        raise ValueError(f"a time that is no multiple of 1/{_PER_CYCLE} of a cycle")
    return np.asarray(np.diff(whole, axis=0, prepend=np.int32(0)), dtype=np.int32)


def _whole(stored: NDArray[np.generic]) -> NDArray[np.float64]:
    """What `_wedge` stored, as (n, e, c)."""
    points = np.cumsum(stored, axis=0) / _PER_CYCLE
    n_max = int((np.sqrt(9 + 8 * len(points)) - 3) / 2 + 0.5)
    cycles = np.full((n_max, n_max + 1, points.shape[1]), np.nan)
    cycles[np.arange(n_max + 1) <= np.arange(1, n_max + 1)[:, None]] = points
    return cycles.transpose(0, 2, 1)


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
        from smlab.sim.service_table import FORMS as WHOLE
        from smlab.sim.service_table import service_table

        found = ServiceTables(*(ServiceTable(service_table(gpu, form=form, cas_jobs=[0])) for form in WHOLE))
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
    import xarray as xr

    from smlab.sim.compiled import service_tables as bulk

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


def main() -> None:
    parser = argparse.ArgumentParser(prog=MADE_BY, description="Simulate the service tables that ship.")
    parser.add_argument("--out", type=Path, default=SHIPPED, help="where to write them")
    path = parser.parse_args().out
    count = write_shipped((load_gpu(name) for name in list_gpus()), path)
    print(f"wrote {path}: {count} tables, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
