"""Whether two runs computed the same: arrays element by element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.arrays import load_arrays
from smlab.hw_bench.errors import SmlabError
from smlab.sim.isa.launch.launch_file import LaunchFile

RELATIVE, ABSOLUTE = 1e-5, 1e-6
"""How far floating-point results may be from the expected ones; integers must be equal."""
UNCHANGED: Final = "the kernel leaves its arrays as they were, which tells nothing"


def difference(got: np.ndarray, wanted: np.ndarray) -> str:
    """How two arrays of one size differ, in words; empty where they do not."""
    got, wanted = got.reshape(-1), wanted.reshape(-1)
    if got.size != wanted.size:
        return f"{got.size} elements, not {wanted.size}"
    if got.dtype.kind in "fc":
        wrong = ~np.isclose(got, wanted, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True)
    else:
        wrong = got != wanted
    count = int(wrong.sum())
    if not count:
        return ""
    n = int(np.argmax(wrong))
    return f"{count} of {got.size} elements differ; the first is element {n}: {got[n]}, not {wanted[n]}"


def checked_arrays(
    whole: bool, arrays: Mapping[str, object], expected: Mapping[str, np.ndarray]
) -> list[dict[str, object]]:
    """A verdict on each array that is expected; none where a part of a grid ran.

    Raises:
        SmlabError: an array of another size.
    """
    rows: list[dict[str, object]] = []
    for name, wanted in expected.items():
        if not whole:
            rows.append({"name": name, "verdict": "not done", "summary": "only a part of the grid ran"})
            continue
        got = np.asarray(arrays[name])
        if got.size != wanted.size:
            raise SmlabError.at(f"--check {name}", "has another size", wanted.size, f"{got.size} elements")
        summary = difference(got, wanted)
        text = summary or f"{got.size} elements as expected"
        rows.append({"name": name, "verdict": "fell short" if summary else "held", "summary": text})
    return rows


def expected_arrays(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays of a file (.npz), each by the name of an argument.

    Raises:
        SmlabError: an array that is no argument.
    """
    arrays = load_arrays(path)
    for name in arrays:
        if name not in names:
            raise SmlabError.at(str(path), "an array that is no argument", name, "one of " + ", ".join(names))
    return arrays


def result_arrays(launch: LaunchFile) -> dict[str, np.ndarray]:
    """A copy of the arrays that tell whether a kernel computes the same: those marked ``returned``, or all
    where none is."""
    arrays = dict(zip(launch.names, launch.arguments, strict=True))
    names = launch.returned or tuple(n for n, value in arrays.items() if isinstance(value, np.ndarray))
    return {name: np.array(arrays[name]) for name in names}


def same_results(
    before: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray], got: Mapping[str, Any]
) -> tuple[bool | None, str]:
    """Whether ``got`` are the results ``wanted``, and what is to be said of it. None where it cannot be told:
    there are no arrays, or the kernel changed none of them from what they were ``before``."""
    if not wanted:
        return None, "no array to compare"
    for name, array in wanted.items():
        found = difference(np.asarray(got[name]), array)
        if found:
            return False, f"{name}: {found}"
    if not any(difference(array, before[name]) for name, array in wanted.items()):
        return None, UNCHANGED
    return True, ""
