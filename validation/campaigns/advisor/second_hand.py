"""How far apart are the gains of two engineers who make the same change?

The number of `smlab advise` is exact for the change as smlab makes it. It is judged by what the author of a
kernel gained with a version of his own. So second engineers made the changes of rounds 16 to 19 too. They had
the kernel before, its launch, the lines, and one sentence on the kind of change (`ASKED`). They saw neither
the author's version nor any advice. Nobody who has not seen the author's version can be expected to tell its
gain more exactly than that.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.validation.campaigns.advisor.pairs import (
    MOST_OFF,
    ChangedKernel,
    simulated,
    with_inputs,
)
from smlab.validation.campaigns.advisor.speedups import ChangeRow, best_constant, errors, numbers

ROUNDS: Final = ("sixteenth_round", "seventeenth_round", "eighteenth_round", "nineteenth_round")
SECOND: Final = "second"
"""The version of a pair that the second engineer made."""
ASKED: Final[Mapping[str, str]] = {
    "coalesce": "Make the lanes of a warp access neighbouring addresses of global memory (other layout of an "
    "array, other mapping of threads, or a detour through shared memory).",
    "loads-early": "Ask for data earlier, before it is needed, so that the wait for it overlaps with other "
    "work.",
    "stage-shared": "Load data that several threads use once into shared memory, and read it there.",
    "pad-shared": "Change the layout of a shared array, so that lanes of a warp no longer meet on one bank.",
    "aggregate-atomics": "Let the lanes of a warp add up what they have for one address, so that one atomic "
    "does for many.",
    "single-precision": "Compute in single precision where double precision is not needed (constants, "
    "functions, intermediate values).",
    "more-work": "Give each thread more results to compute, so that what it loads or computes is used for "
    "several of them.",
    "split-sums": "Split a long chain of dependent additions into several independent ones.",
    "double-buffer": "Work on one piece of data while the next one is on its way, with two buffers that "
    "change roles.",
    "fewer-barriers": "Need fewer barriers of the block.",
    "fast-math": "Use cheaper approximate functions (intrinsics, reciprocals) where full accuracy is not "
    "needed.",
    "cheaper-integers": "Replace expensive integer arithmetic (division, remainder, 64-bit) by cheaper "
    "arithmetic.",
    "privatise-atomics": "Give each block, warp or thread a copy of the counters of its own, and add the "
    "copies up at the end.",
    "register-sum": "Keep a sum in a register that is loaded and stored in global or shared memory in each "
    "round.",
    "less-shared": "Need less shared memory a block.",
    "registers": "Keep in registers what lies in local memory or is loaded over and over, or need fewer "
    "registers, whatever the kernel suffers from.",
    "vector-loads": "Load or store several neighbouring elements at once with a wide vector type.",
    "hoist": "Take out of a loop, or compute beforehand once, what does not change or repeats.",
    "divergence": "Let the lanes of a warp go the same way, or do the same amount of work.",
    "read-only": "Use the read-only path, constant memory or restrict-qualified pointers for data that is "
    "only read.",
    "shuffles": "Exchange values between lanes of a warp by shuffles in place of shared memory and barriers.",
}
"""What the second engineer was told, by kind of change."""


@dataclass(frozen=True)
class SecondHand:
    """The gain of a change as its ``author`` made it and as a ``second`` engineer did; by how much the
    results of the second version ``differ`` from those of the kernel before, at most, relative to the largest
    value of their array."""

    kernel: str
    change: str
    author: float
    second: float
    differ: float


def judge_one(pair: ChangedKernel, _: Gpu) -> SecondHand:
    """Both versions of a change, simulated on the whole grid."""
    with tempfile.TemporaryDirectory() as made:
        folder = with_inputs(pair, Path(made))
        before, expected = simulated(pair, folder, "before")
        author, _results = simulated(pair, folder, "after")
        second, found = simulated(pair, folder, SECOND)
    return SecondHand(pair.name, pair.change, before / author, before / second, _difference(expected, found))


def _difference(expected: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> float:
    largest = 0.0
    for name, values in expected.items():
        whole = values.astype(float)
        scale = float(np.abs(whole).max()) or 1.0
        largest = max(largest, float(np.abs(whole - found[name].astype(float)).max()) / scale)
    return largest


def judged(rows: Sequence[SecondHand], told: Sequence[ChangeRow]) -> dict[str, Any]:
    """The second engineer's gains as a prediction of the author's: of all changes, and of those of which
    `smlab advise` told a number (``told``), beside that number."""
    numbered = {row.kernel: row for row in told if not row.doubt}
    of_told = [row for row in rows if row.kernel in numbered]
    return {
        "summary": {
            "all": _as_predicted(rows),
            "told": _as_predicted(of_told),
            "told_by_smlab": numbers([numbered[row.kernel] for row in of_told]),
        },
        "rows": [asdict(row) for row in rows],
    }


def _as_predicted(rows: Sequence[SecondHand]) -> dict[str, Any]:
    author, second = (np.array([getattr(row, of) for row in rows]) for of in ("author", SECOND))
    return {
        "changes": len(rows),
        **errors(second, author),
        "right": int((np.abs(second / author - 1) <= MOST_OFF).sum()),
        "constant": best_constant(author),
        "above_twice": [row.kernel for row in rows if row.second > 2 * row.author],
        "below_half": [row.kernel for row in rows if 2 * row.second < row.author],
    }
