"""Times that were measured on the target, and which kernel each belongs to."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.csv_cells import check_cells
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.inputs import check_lines, read_bytes
from smlab.hw_bench.profiles import UNNAMED, read_profile
from smlab.hw_bench.profiles.work.kernel_work import Floats
from smlab.hw_bench.profiles.work.roofline_quantities import roofline_quantities

COLUMNS = ("kernel", "seconds")


@dataclass(frozen=True)
class Truth:
    """Measured times: kernel's name, launch, seconds; shape (rows,) each."""

    path: Path
    kernel: tuple[str, ...]
    launch: tuple[int, ...]
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class Matched:
    """``actual_s`` (projected kernels,), NaN where the truth has none; and what is in one of the two only."""

    actual_s: Floats
    only_projected: tuple[str, ...]
    only_truth: tuple[str, ...]


def read_truth(path: Path, gpu: Gpu) -> Truth:
    """A profile of the target, or CSV with the columns ``kernel,seconds`` and, where wanted, ``launch``."""
    content = read_bytes(path, "measured times (CSV) or a profile")
    try:
        header = next(csv.reader(io.StringIO(content.decode("utf-8"), newline="")), [])
    except (UnicodeDecodeError, csv.Error):
        header = []  # compressed or binary: a profile, if anything
    if not set(COLUMNS) <= {c.strip() for c in header} or "counter" in header:
        work = roofline_quantities(read_profile(path, gpu=gpu), gpu).work
        return Truth(
            path, tuple(map(str, work.kernel)), tuple(work.launch.tolist()), tuple(work.seconds.tolist())
        )
    kernels, launches, seconds = [], [], []
    check_lines(str(path), content)
    check_cells(str(path), content)
    with io.StringIO(content.decode("utf-8"), newline="") as file:
        seen: dict[str, int] = {}
        for line, raw in enumerate(csv.DictReader(file), start=2):
            row = {(k or "").strip(): (v or "").strip() for k, v in raw.items() if not isinstance(v, list)}
            place = f"{path}: row {line}"
            if not row["kernel"]:
                raise SmlabError.at(f"{place}: kernel", "no name", expected="the kernel's name")
            time = _number(f"{place}: seconds", row["seconds"])
            if not (math.isfinite(time) and time > 0):
                raise SmlabError.at(f"{place}: seconds", "an impossible time", row["seconds"], "above 0")
            number = seen.get(row["kernel"], -1) + 1
            seen[row["kernel"]] = number
            if row.get("launch"):
                number = int(_number(f"{place}: launch", row["launch"]))
            kernels.append(row["kernel"])
            launches.append(number)
            seconds.append(time)
    if not kernels:
        raise SmlabError.at(str(path), "no kernel in it", expected="rows of " + ",".join(COLUMNS))
    return Truth(path, tuple(kernels), tuple(launches), tuple(seconds))


def _number(where: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise SmlabError.at(where, "not a number", text) from error


def match(truth: Truth, kernel: NDArray[np.object_], launch: NDArray[np.int64]) -> Matched:
    """Which truth belongs to which projected kernel: by name, the first launch of a name with the first, and
    so on.

    Kernels without a name are matched by launch, and only if both sides have as many. `SmlabError` if nothing
    matches.
    """
    names, launches = [str(k) for k in kernel], [int(n) for n in launch]
    if UNNAMED in names and len(names) != len(truth.kernel):
        raise SmlabError.at(
            str(truth.path),
            "the profile does not name its kernels, and the truth has another number of them",
            len(truth.kernel),
            str(len(names)),
        )
    mine, theirs = _numbered(names, launches), _numbered(list(truth.kernel), list(truth.launch))
    actual = np.full(len(names), np.nan)
    for key, i in mine.items():
        if key in theirs:
            actual[i] = truth.seconds[theirs[key]]
    if np.isnan(actual).all():
        known = ", ".join(sorted(set(truth.kernel))[:3])
        raise SmlabError.at(
            str(truth.path), "none of its kernels is in the profile", known, ", ".join(sorted(set(names))[:3])
        )
    return Matched(
        actual,
        tuple(f"{name} #{n}" for (name, n) in mine if (name, n) not in theirs),
        tuple(f"{name} #{n}" for (name, n) in theirs if (name, n) not in mine),
    )


def _numbered(names: list[str], launches: list[int]) -> dict[tuple[str, int], int]:
    """{(name, how many of that name were launched before): row}."""
    count: dict[str, int] = {}
    found = {}
    for i in sorted(range(len(names)), key=lambda i: launches[i]):
        n = count.get(names[i], 0)
        count[names[i]] = n + 1
        found[names[i], n] = i
    return found
