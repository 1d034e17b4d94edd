"""The table T(n, e, c): its interpolation (Dong & Pai, Eq. 1 to 3), what it refuses, and its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from smlab.hw_bench.errors import SmlabError
from smlab.models.utilization.service_table import ServiceTable

N_MAX, E_MAX = 6, 4
ATTRS = {"gpu": "Titan V", "op": "add", "form": "batch", "kind": "simulated"}
positive = st.floats(min_value=1e-300, max_value=1e300)
coefficients = st.floats(-50, 50)


def array_of(
    total: Callable[..., np.ndarray], n_max: int = N_MAX, e_max: int = E_MAX, cas: bool = True
) -> xr.DataArray:
    """T from a function of (n, e, c), on the wedge."""
    axes = [np.arange(1, n_max + 1), np.arange(1, e_max + 1), np.arange(n_max + 1 if cas else 1)]
    n, e, c = np.meshgrid(*axes, indexing="ij")
    values = np.where(c <= n, np.broadcast_to(total(n, e, c), n.shape).astype(float), np.nan)
    return xr.DataArray(values, dims=("n", "e", "c"), coords=dict(zip("nec", axes, strict=True)), attrs=ATTRS)


@st.composite
def tables(
    draw: st.DrawFn, values: st.SearchStrategy[float] = positive, cas: bool | None = None
) -> ServiceTable:
    """A table of any values: nothing about the laws of interpolation depends on them."""
    n_max, e_max = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    cas = draw(st.booleans()) if cas is None else cas
    shape = (n_max, e_max, n_max + 1 if cas else 1)
    drawn = draw(hnp.arrays(np.float64, shape, elements=values))
    return ServiceTable(array_of(lambda n, e, c: drawn, n_max, e_max, cas))


@st.composite
def wedge_points(
    draw: st.DrawFn, n_max: float = N_MAX, e_max: float = E_MAX, c_max: float = N_MAX
) -> tuple[float, float, float]:
    """Points of the wedge, whole numbers and the diagonal included."""
    n = draw(st.floats(0, n_max) | st.integers(0, int(n_max)))
    e = draw(st.floats(1, e_max) | st.integers(1, int(e_max)))
    top = min(float(n), c_max)
    return float(n), float(e), draw(st.floats(0, top) | st.just(top) | st.just(0.0))


modest = st.floats(1, 1000)


@given(tables())
def test_exact_at_every_grid_point(table: ServiceTable) -> None:
    n, e, c = np.meshgrid(*(table.data.coords[d] for d in "nec"), indexing="ij")
    inside = c <= n
    found = table.total_cycles(n[inside], e[inside], c[inside])
    np.testing.assert_array_equal(found, table.data.to_numpy()[inside])
    assert table.total_cycles(0, 1, 0) == 0


@given(st.tuples(*[coefficients] * 5), st.lists(wedge_points(), min_size=1, max_size=20))
def test_exact_for_functions_linear_in_each_argument(
    k: tuple[float, ...], points: list[tuple[float, float, float]]
) -> None:
    """T linear in n, in e and in c; T(0) = 0 by definition, so what is left at n = 0 shows from 1 on only."""

    def total(n: np.ndarray, e: np.ndarray, c: np.ndarray) -> np.ndarray:
        return 1e4 + k[0] * n + k[1] * c + k[2] * e * n + k[3] * e * c + k[4] * e

    n, e, c = (np.array(axis) for axis in zip(*points, strict=True))
    table = ServiceTable(array_of(total))
    assert (table.data.min() > 0).item()
    expected = np.where(n >= 1, total(n, e, c), 0)
    below = n < 1  # one job with the same share of compare-and-swap, scaled down
    share = np.divide(c, n, out=np.zeros_like(c), where=n > 0)
    expected[below] = n[below] * total(np.ones(below.sum()), e[below], share[below])
    np.testing.assert_allclose(table.total_cycles(n, e, c), expected, rtol=1e-12, atol=1e-12)


@given(st.lists(wedge_points(), min_size=1, max_size=20))
def test_products_of_n_and_c_are_exact_away_from_the_diagonal(
    points: list[tuple[float, float, float]],
) -> None:
    """On whole cells all trilinear functions; on a cut cell n c is missed by 1/4 at most."""
    table = ServiceTable(array_of(lambda n, e, c: 10 * n + n * c * e))
    n, e, c = (np.array(axis) for axis in zip(*points, strict=True))
    miss = table.total_cycles(n, e, c) - (10 * n + n * c * e)
    cut = np.floor(c) == np.minimum(np.floor(n), N_MAX - 1)
    np.testing.assert_allclose(miss[~cut], 0, atol=1e-11)
    assert (miss <= e / 4 + 1e-11).all()
    assert (miss >= -1e-11).all()


@given(tables(modest, cas=True), st.data())
def test_no_value_leaves_the_range_of_its_neighbours(table: ServiceTable, data: st.DataObject) -> None:
    """Weights are positive and add up to 1: no NaN leaks in from beyond the diagonal, nothing overshoots."""
    n, e, c = data.draw(wedge_points(table.n_max, table.e_max, table.c_max))
    total = float(table.total_cycles(n, e, c))
    corners = [
        float(table.data.sel(n=i, e=j, c=k)) if i else 0.0
        for i in {int(np.floor(n)), int(np.ceil(n))}
        for j in {int(np.floor(e)), int(np.ceil(e))}
        for k in {int(np.floor(c)), int(np.ceil(c))}
        if k <= i
    ]
    assert min(corners) * (1 - 1e-12) <= total <= max(corners) * (1 + 1e-12)


@given(tables(modest), st.data())
def test_continuous_everywhere(table: ServiceTable, data: st.DataObject) -> None:
    """A step of h changes T by at most h times the steepest slope, across cells and along the diagonal."""
    n, e, c = data.draw(wedge_points(table.n_max, table.e_max, table.c_max))
    h = 1e-7
    here = float(table.total_cycles(n, e, c))
    for dn, de, dc in [
        (h, 0, 0),
        (-h, 0, 0),
        (0, h, 0),
        (0, -h, 0),
        (0, 0, h),
        (0, 0, -h),
        (h, 0, h),
        (-h, 0, -h),
    ]:
        n2, e2, c2 = n + dn, e + de, c + dc
        if 0 <= c2 <= min(n2, table.c_max) and n2 <= table.n_max and 1 <= e2 <= table.e_max:
            assert abs(float(table.total_cycles(n2, e2, c2)) - here) <= 4 * 1000 * h


@given(tables(modest, cas=True), st.integers(0, 4), st.floats(0, 1), st.floats(0, 1))
def test_linear_along_the_diagonal(table: ServiceTable, i: int, x: float, y: float) -> None:
    """On c = n T runs straight from T(i, e, i) to T(i+1, e, i+1), with no jump to the inside of the wedge."""
    i = min(i, table.n_max - 1)
    e = 1 + y * (table.e_max - 1)
    n = i + x
    ends = table.total_cycles([i, i + 1], e, [i, i + 1])
    u = n - i
    assert float(table.total_cycles(n, e, n)) == pytest.approx((1 - u) * ends[0] + u * ends[1], rel=1e-12)


@given(tables(modest), st.data())
def test_service_time_is_total_by_jobs(table: ServiceTable, data: st.DataObject) -> None:
    n, e, c = data.draw(wedge_points(table.n_max, table.e_max, table.c_max).filter(lambda p: p[0] > 1e-6))
    assert float(table.service_cycles(n, e, c)) == float(table.total_cycles(n, e, c)) / n
    if n < 1 and c == 0:
        assert float(table.service_cycles(n, e, 0)) == pytest.approx(float(table.total_cycles(1, e, 0)))


def test_interpolation_by_hand() -> None:
    table = ServiceTable(array_of(lambda n, e, c: 100 * n**2 + 10 * e + c**2))
    # Whole cell n 3..4, e 2, c 0..1: T = 920, 1620; 921, 1621 at (3, 0), (4, 0), (3, 1), (4, 1).
    assert float(table.total_cycles(3.5, 2, 0.5)) == pytest.approx(1270.5)
    # Cut cell n 3..4, c 3..4: T(3, 3) = 929, T(4, 3) = 1629, T(4, 4) = 1636; weights 0.25, 0.5, 0.25.
    assert float(table.total_cycles(3.75, 2, 3.25)) == pytest.approx(0.25 * 929 + 0.5 * 1629 + 0.25 * 1636)
    # n 0..1: T(0) = 0, T(1, 2, 0) = 120, T(1, 2, 1) = 121; weights 0.5, 0.3, 0.2.
    assert float(table.total_cycles(0.5, 2, 0.2)) == pytest.approx(0.3 * 120 + 0.2 * 121)
    assert float(table.service_cycles(0.5, 2, 0)) == pytest.approx(120)
    # Halfway in e, on a grid point of (n, c).
    assert float(table.total_cycles(2, 1.5, 1)) == pytest.approx(400 + 15 + 1)


def test_arguments_broadcast() -> None:
    table = ServiceTable(array_of(lambda n, e, c: n * e + c))
    total = table.total_cycles(np.array([1.0, 2.0, 3.0])[:, np.newaxis], np.array([1.0, 2.5]), 0.5)
    np.testing.assert_allclose(total, [[1.5, 3.0], [2.5, 5.5], [3.5, 8.0]])
    assert table.total_cycles(1, 1, 0).shape == ()


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ((6.01, 1, 0), r"n: outside the table \(got 6.01; expected 0 .. 6\)"),
        ((-0.1, 1, 0), r"n: outside the table"),
        ((float("nan"), 1, 0), r"n: outside the table \(got nan"),
        ((1, 0.9, 0), r"e: outside the table \(got 0.9; expected 1 .. 4\)"),
        ((1, 4.1, 0), r"e: outside the table"),
        ((1, float("nan"), 0), r"e: outside the table"),
        ((1, 1, -0.1), r"c: outside the table \(got -0.1; expected 0 .. 6\)"),
        ((1, 1, float("nan")), r"c: outside the table"),
        ((2, 1, 2.5), r"c: more compare-and-swap jobs than jobs \(got 2.5; expected 0 .. n = 2.0\)"),
        (([1, 2, 9], 1, 0), r"n: outside the table \(got 9.0"),
    ],
)
def test_points_outside_are_refused(point: tuple[float, float, float], message: str) -> None:
    table = ServiceTable(array_of(lambda n, e, c: n * e + c))
    for law in (table.total_cycles, table.service_cycles):
        with pytest.raises(SmlabError, match=message if np.ndim(point[0]) or point[0] >= 0 else "n: "):
            law(*point)


def test_no_service_time_without_a_job() -> None:
    with pytest.raises(SmlabError, match="n: no service time without a job"):
        ServiceTable(array_of(lambda n, e, c: n * e + c)).service_cycles([1, 0], 1, 0)


def test_a_table_without_cas_knows_c_0_only() -> None:
    table = ServiceTable(array_of(lambda n, e, c: 5 * n + n * e, cas=False))
    assert table.c_max == 0
    assert float(table.total_cycles(0.5, 2.5, 0)) == pytest.approx(0.5 * 7.5)
    assert float(table.total_cycles(3.5, 2.5, 0)) == pytest.approx(3.5 * 7.5)
    with pytest.raises(SmlabError, match=r"c: outside the table \(got 0.5; expected 0 .. 0\)"):
        table.total_cycles(3, 1, 0.5)


def spoiled(**cells: float) -> xr.DataArray:
    data = array_of(lambda n, e, c: n * e + c)
    for name, value in cells.items():
        n, e, c = (int(digit) for digit in name[1:])
        data.loc[{"n": n, "e": e, "c": c}] = value
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            spoiled(p321=np.nan, p411=np.nan),
            r"point \(n, e, c\) = \(3, 2, 1\) has no value .* 1 other points",
        ),
        (spoiled(p220=0.0), r"\(2, 2, 0\) is not above 0 and finite, as do 0 other points"),
        (spoiled(p220=-1.0), r"\(2, 2, 0\) is not above 0"),
        (spoiled(p644=np.inf), r"\(6, 4, 4\) is not above 0 and finite"),
        (spoiled(p213=7.0), r"\(2, 1, 3\) has a value though c > n"),
        (spoiled().transpose("e", "n", "c"), "wrong dimensions"),
        (spoiled().astype(str), "values are not real numbers"),
        (spoiled().drop_vars("e"), "coordinate 'e' is missing"),
        (spoiled().drop_sel(n=3), r"coordinate 'n': not consecutive \(got \[1, 2, 4, 5, 6\]"),
        (spoiled().drop_sel(n=1), "coordinate 'n': not consecutive"),
        (spoiled().drop_sel(e=1), "coordinate 'e': not consecutive"),
        (spoiled().drop_sel(c=0), "coordinate 'c': not consecutive"),
        (spoiled().isel(n=slice(0)), "coordinate 'n': not consecutive"),
        (spoiled().drop_sel(c=6), r"coordinate 'c': ends too early or late \(got 5; expected 0 alone, or"),
        (spoiled().assign_coords(n=np.arange(1, 7) * 1.0), "coordinate 'n': not integers"),
        (spoiled().assign_attrs(form="other"), r"unknown form \(got 'other'; expected one of batch, looped"),
        (spoiled().assign_attrs(kind="guessed"), "unknown kind"),
        (spoiled().assign_attrs(gpu=""), "attribute 'gpu' is missing"),
        (spoiled().assign_attrs(note="two\nlines"), "attribute 'note': not one line"),
        (spoiled().assign_attrs({"a:b": "x"}), "unusable attribute name"),
    ],
)
def test_tables_with_holes_are_refused(data: xr.DataArray, message: str) -> None:
    with pytest.raises(SmlabError, match=message):
        ServiceTable(data)


def test_a_table_keeps_its_own_copy() -> None:
    data = array_of(lambda n, e, c: n * e + c)
    table = ServiceTable(data)
    data.loc[{"n": 1, "e": 1, "c": 0}] = 99.0
    assert float(table.total_cycles(1, 1, 0)) == 1.0
    assert (table.n_max, table.e_max, table.c_max, table.attrs) == (N_MAX, E_MAX, N_MAX, ATTRS)
    with pytest.raises(ValueError, match="read-only"):
        table.data.loc[{"n": 1, "e": 1, "c": 0}] = 99.0


@pytest.mark.parametrize("suffix", [".csv", ".nc"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    table=tables(),
    gpu=st.sampled_from(["Titan V", "A6000, 84 SMs", "a: b # c", 'd "e"', "é"]),
    seed=st.integers(),
)
def test_files_round_trip_bit_for_bit(
    tmp_path: Path, suffix: str, table: ServiceTable, gpu: str, seed: int
) -> None:
    table = ServiceTable(table.data.assign_attrs(gpu=gpu, seed=seed, scale_factor="2", note=""))
    path = tmp_path / f"table{suffix}"
    table.write(path)
    back = ServiceTable.read(path)
    xr.testing.assert_identical(back.data, table.data)
    assert back.data.to_numpy().tobytes() == table.data.to_numpy().tobytes()
    assert back.attrs == table.attrs


def test_csv_as_documented(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    ServiceTable(array_of(lambda n, e, c: n * e + c / 10, n_max=2, e_max=1)).write(path)
    assert path.read_text() == (
        "# gpu: Titan V\n# op: add\n# form: batch\n# kind: simulated\nn,e,c,t_cycles\n"
        "1,1,0,1.0\n1,1,1,1.1\n2,1,0,2.0\n2,1,1,2.1\n2,1,2,2.2\n"
    )


HEAD = "# gpu: x\n# op: add\n# form: looped\n# kind: measured\n"
COLUMNS = "n,e,c,t_cycles\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (COLUMNS + "1,1,0,5\n", "t.csv: service table: attribute 'gpu' is missing"),
        (HEAD.replace("looped", "open") + COLUMNS + "1,1,0,5\n", "t.csv: service table: unknown form"),
        ("", "t.csv: holds no point"),
        (HEAD + COLUMNS, "t.csv: holds no point"),
        (HEAD + "n,e,t_cycles\n1,1,5\n", "t.csv: row 5: not a service table's header"),
        ("# gpu\n", "t.csv: row 1: not a comment that names an attribute"),
        (HEAD + COLUMNS + "1,1,0,5\n1,1,x,5\n", "t.csv: row 7: not a point of a service table .*1,1,x,5"),
        (HEAD + COLUMNS + "1,1,0\n", "row 6: not a point"),
        (HEAD + COLUMNS + "1,1,0,5,6\n", "row 6: not a point"),
        (HEAD + COLUMNS + "\n", "row 6: not a point"),
        (HEAD + COLUMNS + "1.5,1,0,5\n", "row 6: not a point"),
        (HEAD + COLUMNS + "1,1,2,5\n", r"row 6: no such point \(n, e, c\) \(got \(1, 1, 2\)"),
        (HEAD + COLUMNS + "0,1,0,5\n", "row 6: no such point"),
        (HEAD + COLUMNS + "1,1,0,-5\n", r"row 6: not a time \(got -5.0"),
        (HEAD + COLUMNS + "1,1,0,nan\n", "row 6: not a time"),
        (HEAD + COLUMNS + "1,1,0,5\n1,1,0,5\n", r"row 7: the point \(n, e, c\) stands there twice"),
        (
            HEAD + COLUMNS + "1,1,0,5\n3,1,0,5\n",
            r"t.csv: point .* = \(2, 1, 0\) is missing, one of 1 missing",
        ),
        (HEAD + COLUMNS + "1,1,0,5\n2,1,1,5\n", r"point .* = \(1, 1, 1\) is missing, one of 3 missing"),
        (HEAD + COLUMNS + "900000000,900000000,1,5\n", r"point .* = \(1, 1, 0\) is missing"),
    ],
)
def test_bad_csv_is_told_with_file_and_row(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(SmlabError, match=message):
        ServiceTable.read(path)


def test_bad_files_are_told(tmp_path: Path) -> None:
    good = array_of(lambda n, e, c: n * e + c)
    with pytest.raises(SmlabError, match=r"none.csv: there is no such file .expected a service table"):
        ServiceTable.read(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SmlabError, match=r"bytes.csv: cannot be read as a service table"):
        ServiceTable.read(tmp_path / "bytes.csv")
    for content in (b"", b"no netCDF", b"CDF\x01", b"\x89HDF\r\n\x1a\n" + bytes(64)):
        (tmp_path / "bad.nc").write_bytes(content)
        with pytest.raises(SmlabError, match=r"bad.nc: cannot be read as netCDF 3"):
            ServiceTable.read(tmp_path / "bad.nc")
    with pytest.raises(SmlabError, match=r"none.nc: there is no such file .expected a service table"):
        ServiceTable.read(tmp_path / "none.nc")
    good.to_dataset(name="other").to_netcdf(tmp_path / "other.nc", engine="scipy")
    with pytest.raises(SmlabError, match=r"other.nc: not a service table"):
        ServiceTable.read(tmp_path / "other.nc")
    spoiled(p321=np.nan).to_dataset(name="t_cycles").to_netcdf(tmp_path / "hole.nc", engine="scipy")
    with pytest.raises(SmlabError, match=r"hole.nc: service table: point .* = \(3, 2, 1\) has no value"):
        ServiceTable.read(tmp_path / "hole.nc")
    for act in (ServiceTable(good).write, ServiceTable.read):
        with pytest.raises(SmlabError, match=r"t.txt: not a table file's name .*expected .csv or .nc"):
            act(tmp_path / "t.txt")
    for name in ("t.csv", "t.nc"):
        with pytest.raises(SmlabError, match="the table cannot be written"):
            ServiceTable(good).write(tmp_path / "no folder" / name)


def test_a_truncated_netcdf_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t.nc"
    ServiceTable(array_of(lambda n, e, c: n * e + c)).write(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(SmlabError, match=r"t.nc: "):
            ServiceTable.read(path)
