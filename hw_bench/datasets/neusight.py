"""Reader of NeuSight's operator latencies: CSV files, one a family of operators, with a row a shape and GPU.

S. Lee, A. Phanishayee and D. Mahajan, "Forecasting GPU Performance for Deep Learning Training and Inference",
ASPLOS 2025; github.com/sitar-lab/NeuSight, scripts/asplos. FP32 in PyTorch 2.1, TF32 off (its default for
products of matrices), so none of the times is of the tensor cores. A latency is the mean of the 5 fastest of
25 runs timed by events, the launch included. Of a product the column N is summed over: an m x n by an n x k
matrix. The grids of all 3,120 linear rows of V100, A100 and T4 say so: ceil(K / rows of the tile) by
ceil(M / its columns).
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from smlab.hw_bench.csv_cells import check_cells
from smlab.hw_bench.datasets.operator_times import OperatorTimes
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.devices import gpu_called
from smlab.hw_bench.inputs import check_lines, read_bytes
from smlab.hw_bench.profiles.kernel_names import tile_of

if TYPE_CHECKING:
    import pandas as pd

_UNARY: Final = ("addu", "subu", "mulu", "divu", "powu", "relu", "gelu", "tanh", "sigmoid", "exp", "sqrt")
_BINARY: Final = ("add", "sub", "mul", "div", "pow")
_FAMILY: Final = {"linear": "linear", "bmm": "bmm", "ln": "layernorm", "softmax": "softmax"}
_TENSORS: Final = {"linear": 3, "bmm": 3, "layernorm": 2, "softmax": 2}
_FP32_BYTES: Final = 4
STREAM_LAUNCH_S: Final = 20e-6
"""Assumed: what a launch takes of each time, between the 10 and 50 us that it is said to take. Lines through
the streams of V100, A100 and T4 cut the axis at 22, 18 and 26 us."""
LAUNCH_S: Final = {"layernorm": 35e-6}
"""Assumed, of operators whose launch takes longer: the events surround the host's work too, and layer norm's
makes three tensors (the result, the means, the deviations). Lines through its rows of one length cut the axis
at 44, 34 and 37 us, and through those of softmax at 26, 25 and 24."""
_COLUMNS: Final = ("OPName", "Latency", "Device", "Kernel Name")
_LAUNCH: Final = ("Grid x", "Grid y", "Grid z", "Block x", "Block y", "Block z")


def read_neusight(folder: Path) -> OperatorTimes:
    """All CSV files (``.csv``, ``.csv.gz``) of the folder; `SmlabError` naming file, line and column of what
    is wrong.

    A device without a description keeps its own name, which a description of the user's may have. Rows of an
    operator whose work is not known or without a latency are listed in ``skipped``, one entry a file and
    reason. A row without a launch has 0 for it.
    """
    if not folder.is_dir():
        raise SmlabError.at(str(folder), "no such folder", expected="the folder with NeuSight's CSV files")
    files = sorted([*folder.glob("*.csv"), *folder.glob("*.csv.gz")])
    if not files:
        raise SmlabError.at(str(folder), "no CSV file in it", expected="linear.csv.gz, elem.csv.gz, ...")
    skipped: list[tuple[str, str]] = []
    parts = [part for path in files if len(part := _read_file(path, skipped))]
    if not parts:
        raise SmlabError.at(str(folder), "no usable row", expected="a known device and operator in some file")
    import pandas as pd  # takes as long as all the rest that most commands import

    rows = pd.concat(parts, ignore_index=True)
    return OperatorTimes(
        path=folder,
        **{name: rows[name].to_numpy(dtype=object) for name in ("operator", "variant", "gpu", "kernel")},
        **{
            name: rows[name].to_numpy(dtype=np.int64)
            for name in ("batch", "m", "n", "k", "tensors", "element_bytes", "blocks", "threads_per_block")
        },
        seconds=rows["seconds"].to_numpy(dtype=np.float64),
        skipped=tuple(skipped),
        launch_s={name: LAUNCH_S.get(name, STREAM_LAUNCH_S) for name in sorted(set(rows["operator"]))},
    )


def _read_file(path: Path, skipped: list[tuple[str, str]]) -> pd.DataFrame:
    """The usable rows of one file, with the columns of `OperatorTimes`."""
    import pandas as pd

    content = read_bytes(path)
    check_lines(str(path), content)
    check_cells(str(path), content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False, index_col=False)
    except (UnicodeDecodeError, ValueError, pd.errors.ParserWarning) as error:
        raise SmlabError(f"{path}: cannot be read as CSV: {str(error).splitlines()[0].strip()}") from error
    for column in _COLUMNS:
        if column not in table.columns:
            raise SmlabError.at(f"{path}: column {column}", "is missing", expected=", ".join(_COLUMNS))
    family = table["OPName"].map(lambda name: _FAMILY.get(name, "elementwise"))
    known = [name in (*_FAMILY, *_UNARY, *_BINARY) for name in table["OPName"]]
    _skip(path, table["OPName"], ~np.array(known, dtype=bool), "operator whose work is not known", skipped)
    timed = (table["Latency"].str.strip() != "").to_numpy()
    _skip(path, table["OPName"], ~timed, "no latency", skipped)
    keep = np.array(known, dtype=bool) & timed
    table, family = table[keep], family[keep]
    if table.empty:
        return pd.DataFrame()
    product = family.isin(["linear", "bmm"]).to_numpy()
    if product.any() != product.all():
        raise SmlabError.at(f"{path}: OPName", "matrix products and other operators in one file")
    rows = pd.DataFrame({"operator": family, "variant": table["OPName"], "kernel": table["Kernel Name"]})
    rows["gpu"] = table["Device"].map({device: _name_of(device) for device in table["Device"].unique()})
    rows["seconds"] = _numbers(path, table, "Latency", whole=False) / 1e3
    shape = {"batch": "B", "m": "M", "n": "K", "k": "N"} if product.all() else {"m": "B", "n": "H"}
    for name in ("batch", "m", "n", "k"):
        rows[name] = _numbers(path, table, shape[name]) if name in shape else 1
    rows["tensors"] = [_tensors(f, v, k) for f, v, k in zip(family, rows.variant, rows.kernel, strict=True)]
    rows["element_bytes"] = _FP32_BYTES
    rows["blocks"], rows["threads_per_block"] = 0, 0
    if all(column in table.columns for column in _LAUNCH):
        complete = (table[list(_LAUNCH)] != "").all(axis=1)
        x = {column: _numbers(path, table[complete], column) for column in _LAUNCH}
        rows.loc[complete, "blocks"] = x["Grid x"] * x["Grid y"] * x["Grid z"]
        rows.loc[complete, "threads_per_block"] = x["Block x"] * x["Block y"] * x["Block z"]
        if product.all():
            other = _sums_over_k(rows[complete], x["Grid x"], x["Grid y"])
            index = rows[complete].index[other]
            rows.loc[index, ["n", "k"]] = rows.loc[index, ["k", "n"]].to_numpy()
    return rows


def _sums_over_k(rows: pd.DataFrame, across: np.ndarray[Any, Any], down: np.ndarray[Any, Any]) -> Any:
    """Which products' launches fit a sum over the column K and none over N, (rows,)."""
    found = np.zeros(len(rows), dtype=bool)
    for i, kernel in enumerate(rows["kernel"]):
        tile = tile_of(kernel)
        if tile is not None:
            n, k, m = (int(rows[name].iloc[i]) for name in ("n", "k", "m"))
            fits = [across[i] == -(-x // tile.rows) and down[i] == -(-m // tile.columns) for x in (n, k)]
            found[i] = fits == [False, True]
    return found


def _name_of(device: str) -> str:
    """The name of the device's description, or the device's own where none ships."""
    gpu = gpu_called(device)
    return device if gpu is None else gpu.name


def _tensors(family: str, variant: str, kernel: str) -> int:
    """Operands of the full shape: as PyTorch's kernel is declared (``Array<char*, 3>``), else by the
    operator."""
    if family != "elementwise":
        return _TENSORS[family]
    declared = re.search(r"Array<char\*, (\d+)>", kernel)
    if declared:
        return int(declared[1])
    return 3 if variant in _BINARY else 2


def _numbers(path: Path, table: pd.DataFrame, column: str, *, whole: bool = True) -> Any:
    """The column as numbers above 0; `SmlabError` with the first line that has none."""
    if column not in table.columns:
        raise SmlabError.at(f"{path}: column {column}", "is missing", expected="the shape of the operator")
    import pandas as pd

    values = pd.to_numeric(table[column], errors="coerce").to_numpy(dtype=np.float64)
    good = np.isfinite(values) & (values > 0) & (values < 2**53)
    if whole:
        good &= values == np.floor(values)
    if not good.all():
        first = int(np.flatnonzero(~good)[0])
        line = int(table.index[first]) + 2  # the header is line 1
        expected = "a whole number of at least 1" if whole else "a time above 0, in milliseconds"
        raise SmlabError.at(
            f"{path}: line {line}: {column}", "unusable value", table[column].iloc[first], expected
        )
    return values.astype(np.int64) if whole else values


def _skip(
    path: Path, names: Sequence[str], which: np.ndarray[Any, Any], reason: str, skipped: list[tuple[str, str]]
) -> None:
    if which.any():
        kernels = sorted({str(name) for name, out in zip(names, which, strict=True) if out})
        skipped.append((str(path), f"{int(which.sum())} rows: {reason} ({', '.join(kernels[:5])})"))
