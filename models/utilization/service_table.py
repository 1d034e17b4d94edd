"""The table T(n, e, c): how long the atomic unit needs for n queued jobs, and its interpolation.

Source: R. Dong and S. Pai, "Modeling Utilization to Identify Shared-memory Atomic Bottlenecks", Section 3.2,
Eq. 1 to 3.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smlab.hw_bench.csv_cells import check_cells
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import replacing
from smlab.hw_bench.inputs import check_lines, read_bytes

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]

DIMS = ("n", "e", "c")
COLUMNS = (*DIMS, "t_cycles")
_MAX_NETCDF_BYTES = 2**28
FORMS = ("batch", "looped", "row")
KINDS = ("simulated", "spec", "published", "measured", "calibrated", "assumed")
_REQUIRED = ("gpu", "op", "form", "kind")
_ATTRIBUTE = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True, eq=False, repr=False)
class ServiceTable:
    """T(n, e, c) in cycles, from first arrival to last completion of n jobs (Dong & Pai, Section 3.2).

    ``data``: array with dims ("n", "e", "c") and integer coordinates n = 1 .. n_max (jobs, one job is one
    warp-instruction), e = 1 .. e_max (active threads a job) and c = 0 .. n_max (compare-and-swap jobs among
    the n), or c = 0 alone where nothing is known of compare-and-swap; positive, and NaN exactly where c > n.
    Its attrs, which become strings: gpu, op, form, kind and any others. The form says how jobs arrive.
    "batch": all n jobs are issued at once. "looped": n jobs keep circulating, and T is n times the mean time
    between completions, so that S = T / n in both. "row": one warp issues all n without waiting. kind: one of
    `KINDS`.

    A copy is kept. `SmlabError` on a table with holes, naming the first point (n, e, c) and how many, or with
    coordinates, values or attrs other than these.
    """

    data: xr.DataArray
    _grid: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        import xarray as xr  # takes longer than all the rest that most commands import

        if self.data.dims != DIMS:
            raise SmlabError.at("service table", "wrong dimensions", self.data.dims, str(DIMS))
        if self.data.dtype.kind not in "iuf":
            raise SmlabError.at("service table", "values are not real numbers", str(self.data.dtype))
        attrs = _checked_attrs(self.data.attrs)
        _check_coordinates(self.data)
        _check_values(self.data)
        coords = {name: self.data.coords[name].to_numpy().astype(np.int64) for name in DIMS}
        values = np.array(self.data.to_numpy(), dtype=np.float64)
        values.flags.writeable = False
        # Row n = 0 is T = 0 (Eq. 1). What lies beyond the diagonal gets weight 0, and so must not be NaN.
        grid = np.zeros((values.shape[0] + 1, *values.shape[1:]))
        grid[1:] = np.nan_to_num(values, nan=0.0)
        data = xr.DataArray(values, coords=coords, dims=DIMS, name="t_cycles", attrs=attrs)
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "_grid", grid)

    def __repr__(self) -> str:
        told = self.attrs
        return (
            f"<service table of {told['gpu']}, {told['op']}, {told['form']}: n to {self.n_max}, "
            f"e to {self.e_max}, c to {self.c_max}>"
        )

    @property
    def n_max(self) -> int:
        """The largest number of jobs."""
        return int(self.data.sizes["n"])

    @property
    def e_max(self) -> int:
        """The largest number of active threads a job."""
        return int(self.data.sizes["e"])

    @property
    def c_max(self) -> int:
        """The largest number of compare-and-swap jobs: n_max, or 0 where the table has none."""
        return int(self.data.sizes["c"]) - 1

    @property
    def attrs(self) -> dict[str, str]:
        """A copy of the attributes."""
        return {str(key): str(value) for key, value in self.data.attrs.items()}

    def total_cycles(self, n: ArrayLike, e: ArrayLike, c: ArrayLike) -> Floats:
        """T(n, e, c) in cycles at any point of the wedge 0 <= c <= n <= n_max, 1 <= e <= e_max (Eq. 1, 2).

        Linear interpolation in each argument, with T = 0 at n = 0; on the cells that the diagonal c = n cuts,
        linear in (n, c) on the triangle below it. Continuous, exact at the grid's points and for functions
        linear in n, e and c. The arguments broadcast to the result's shape. `SmlabError` naming the argument
        and its range outside the wedge.
        """
        n, e, c = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (n, e, c)))
        _check_range("n", n, 0, self.n_max)
        _check_range("e", e, 1, self.e_max)
        _check_range("c", c, 0, self.c_max)
        if (c > n).any():
            n_bad, c_bad = float(n[c > n][0]), float(c[c > n][0])
            raise SmlabError.at("c", "more compare-and-swap jobs than jobs", c_bad, f"0 .. n = {n_bad}")
        i, x = _cell(n, self.n_max)
        j, y = _cell(e - 1, self.e_max - 1)
        k, z = _cell(c, self.c_max)
        i_up, j_up, k_up = i + 1, np.minimum(j + 1, self.e_max - 1), np.minimum(k + 1, self.c_max)

        def along_e(at_n: NDArray[np.int64], at_c: NDArray[np.int64]) -> Floats:
            return (1 - y) * self._grid[at_n, j, at_c] + y * self._grid[at_n, j_up, at_c]

        cut = (k == i) & (self.c_max > 0)
        # Corners (n, c) of the cell: a whole one has four, bilinear; a cut one, where z <= x, no (low, high).
        low_low = np.where(cut, 1 - x, (1 - x) * (1 - z))
        low_high = np.where(cut, 0.0, (1 - x) * z)
        high_low = np.where(cut, x - z, x * (1 - z))
        high_high = np.where(cut, z, x * z)
        return np.asarray(
            low_low * along_e(i, k)
            + low_high * along_e(i, k_up)
            + high_low * along_e(i_up, k)
            + high_high * along_e(i_up, k_up)
        )

    def service_cycles(self, n: ArrayLike, e: ArrayLike, c: ArrayLike) -> Floats:
        """S(n, e, c) = T(n, e, c) / n, cycles a job (Eq. 3); arguments as in `total_cycles`, and n > 0.

        Below one job T falls linearly to 0, so S is there that of one job with the same share c / n.
        """
        n = np.asarray(n, dtype=np.float64)
        if (n <= 0).any():
            raise SmlabError.at("n", "no service time without a job", float(n[n <= 0][0]), "more than 0")
        return np.asarray(self.total_cycles(n, e, c) / n)

    def write(self, path: Path) -> None:
        """Write CSV (``.csv``: ``# key: value`` lines, then n,e,c,t_cycles) or netCDF 3 (``.nc``), bit-exact.

        `SmlabError` on another suffix or where the file cannot be written.
        """
        suffix = _suffix(path)
        try:
            with replacing(path) as partial:
                if suffix == ".nc":
                    dataset = self.data.to_dataset(name="t_cycles")
                    dataset.to_netcdf(partial, engine="scipy", encoding={"t_cycles": {"_FillValue": None}})
                else:
                    self._write_csv(partial)
        except OSError as error:
            raise SmlabError(f"{path}: the table cannot be written: {error}") from error

    def _write_csv(self, path: Path) -> None:
        with path.open("w", newline="", encoding="utf-8") as f:
            f.writelines(f"# {key}: {value}\n" for key, value in self.attrs.items())
            out = csv.writer(f, lineterminator="\n")
            out.writerow(COLUMNS)
            values = self.data.to_numpy()
            for i, j, k in np.argwhere(~np.isnan(values)).tolist():
                out.writerow([i + 1, j + 1, k, repr(float(values[i, j, k]))])

    @classmethod
    def read(cls, path: Path) -> ServiceTable:
        """Read what `write` wrote; `SmlabError` naming the file, and the row of a CSV, on anything else."""
        data = _read_netcdf(path) if _suffix(path) == ".nc" else _read_csv(path)
        try:
            return cls(data)
        except SmlabError as error:
            raise SmlabError(f"{path}: {error}") from error


def _suffix(path: Path) -> str:
    if path.suffix not in (".csv", ".nc"):
        raise SmlabError.at(str(path), "not a table file's name", path.suffix, ".csv or .nc")
    return path.suffix


def _cell(position: Floats, last: int) -> tuple[NDArray[np.int64], Floats]:
    """The grid cell that holds each position in 0 .. last, and the position in it, 0 .. 1."""
    index = np.clip(np.floor(position), 0, max(last - 1, 0)).astype(np.int64)
    return index, position - index


def _check_range(name: str, values: Floats, low: int, high: int) -> None:
    inside = (values >= low) & (values <= high)  # False for NaN
    if not inside.all():
        raise SmlabError.at(name, "outside the table", float(values[~inside][0]), f"{low} .. {high}")


def _checked_attrs(attrs: dict[str, object]) -> dict[str, str]:
    checked = {str(key): str(value).strip() for key, value in attrs.items()}
    for key, value in checked.items():
        if not _ATTRIBUTE.fullmatch(key):
            raise SmlabError.at(
                "service table", "unusable attribute name", key, "a letter, then letters, digits, _"
            )
        if not value.isprintable():
            raise SmlabError.at(f"service table: attribute {key!r}", "not one line of text", value)
    for key in _REQUIRED:
        if not checked.get(key):
            raise SmlabError.at(
                "service table", f"attribute {key!r} is missing", expected=", ".join(_REQUIRED)
            )
    for key, known in (("form", FORMS), ("kind", KINDS)):
        if checked[key] not in known:
            raise SmlabError.at("service table", f"unknown {key}", checked[key], "one of " + ", ".join(known))
    return checked


def _check_coordinates(data: xr.DataArray) -> None:
    for name, first in (("n", 1), ("e", 1), ("c", 0)):
        if name not in data.coords:
            raise SmlabError.at("service table", f"coordinate {name!r} is missing")
        coordinates = data.coords[name].to_numpy()
        if not np.issubdtype(coordinates.dtype, np.integer):
            raise SmlabError.at(f"service table: coordinate {name!r}", "not integers", str(coordinates.dtype))
        expected = np.arange(first, first + len(coordinates))
        if not len(coordinates) or not np.array_equal(coordinates, expected):
            what, wanted = "not consecutive", f"{first}, {first + 1}, ..."
            raise SmlabError.at(f"service table: coordinate {name!r}", what, coordinates.tolist(), wanted)
    if data.sizes["c"] not in (1, data.sizes["n"] + 1):
        wanted = f"0 alone, or 0 .. n_max = {data.sizes['n']}"
        raise SmlabError.at(
            "service table: coordinate 'c'", "ends too early or late", data.sizes["c"] - 1, wanted
        )


def _check_values(data: xr.DataArray) -> None:
    values = data.to_numpy()
    beyond = data.coords["c"].to_numpy() > data.coords["n"].to_numpy()[:, np.newaxis, np.newaxis]
    beyond = np.broadcast_to(beyond, values.shape)
    for what, bad in (
        ("has no value (NaN)", np.isnan(values) & ~beyond),
        ("is not above 0 and finite", ~np.isnan(values) & ~beyond & ~((values > 0) & (values < np.inf))),
        ("has a value though c > n", ~np.isnan(values) & beyond),
    ):
        if bad.any():
            i, j, k = (int(index) for index in np.argwhere(bad)[0])
            point = f"(n, e, c) = ({i + 1}, {j + 1}, {k})"
            raise SmlabError(f"service table: point {point} {what}, as do {bad.sum() - 1} other points")


def _read_netcdf(path: Path) -> xr.DataArray:
    import xarray as xr

    content = read_bytes(path, "a service table (netCDF)", max_bytes=_MAX_NETCDF_BYTES)
    try:
        dataset = xr.load_dataset(io.BytesIO(content), engine="scipy", decode_cf=False)
    except (OSError, ValueError, TypeError, KeyError, IndexError) as error:
        raise SmlabError(f"{path}: cannot be read as netCDF 3: {error}") from error
    if "t_cycles" not in dataset:
        raise SmlabError.at(str(path), "not a service table", list(dataset.data_vars), "a variable t_cycles")
    data = dataset["t_cycles"]
    data.attrs.pop("_FillValue", None)  # what xarray adds by itself: NaN is what marks c > n
    return data


def _read_csv(path: Path) -> xr.DataArray:
    content = read_bytes(path, "a service table")
    check_lines(str(path), content)
    check_cells(str(path), content)
    try:
        text = io.StringIO(content.decode("utf-8"), newline="")
        lines = list(csv.reader(text, quoting=csv.QUOTE_NONE))
    except (ValueError, csv.Error) as error:
        raise SmlabError(f"{path}: cannot be read as a service table: {error}") from error
    attrs: dict[str, str] = {}
    points: dict[tuple[int, int, int], float] = {}
    header = False
    for number, line in enumerate(lines, start=1):
        row = f"{path}: row {number}"
        if not header and line and line[0].startswith("#"):
            key, colon, value = ",".join(line)[1:].partition(":")
            if not colon:
                raise SmlabError.at(
                    row, "not a comment that names an attribute", ",".join(line), "# key: value"
                )
            attrs[key.strip()] = value.strip()
        elif not header:
            if tuple(line) != COLUMNS:
                raise SmlabError.at(row, "not a service table's header", ",".join(line), ",".join(COLUMNS))
            header = True
        else:
            point, total = _read_row(row, line)
            if point in points:
                raise SmlabError.at(row, "the point (n, e, c) stands there twice", point)
            points[point] = total
    if not points:
        raise SmlabError(f"{path}: holds no point of a service table")
    return _assembled(path, points, attrs)


def _read_row(row: str, line: list[str]) -> tuple[tuple[int, int, int], float]:
    try:
        n, e, c = (int(text) for text in line[:-1])
        total = float(line[-1])
    except (ValueError, IndexError) as error:
        raise SmlabError.at(
            row, "not a point of a service table", ",".join(line), ",".join(COLUMNS)
        ) from error
    if not (n >= 1 and e >= 1 and 0 <= c <= n):
        raise SmlabError.at(row, "no such point (n, e, c)", (n, e, c), "n >= 1, e >= 1, 0 <= c <= n")
    if not 0 < total < np.inf:
        raise SmlabError.at(row, "not a time", total, "t_cycles above 0 and finite")
    return (n, e, c), total


def _assembled(path: Path, points: dict[tuple[int, int, int], float], attrs: dict[str, str]) -> xr.DataArray:
    """The points as an array; holes are found before an array as large as the largest n and e is made."""
    import xarray as xr

    n_max, e_max, c_most = (max(point[axis] for point in points) for axis in range(3))
    with_cas = c_most > 0
    needed = e_max * (n_max * (n_max + 3) // 2 if with_cas else n_max)
    if len(points) < needed:
        wedge = (
            (n, e, c)
            for n in range(1, n_max + 1)
            for e in range(1, e_max + 1)
            for c in range(n + 1 if with_cas else 1)
        )
        hole = next(point for point in wedge if point not in points)
        raise SmlabError(
            f"{path}: point (n, e, c) = {hole} is missing, one of {needed - len(points)} missing points"
        )
    values = np.full((n_max, e_max, n_max + 1 if with_cas else 1), np.nan)
    for (n, e, c), total in points.items():
        values[n - 1, e - 1, c] = total
    coords = {"n": np.arange(1, n_max + 1), "e": np.arange(1, e_max + 1), "c": np.arange(values.shape[2])}
    return xr.DataArray(values, coords=coords, dims=DIMS, attrs=attrs)
