"""What a calibration compares: one measured time of the atomic unit or of the shared-memory pipe, and what
it was measured on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

FORMS: Final = ("batch", "looped", "stream", "burst", "chain", "frame")
"""Forms of a case, with its ``cycles``:

- ``batch``: from the first start to the last result of n operations issued at once;
- ``looped``: a round of n completions, n warps each waiting for its result before the next operation;
- ``stream``: a round of n operations that nobody waits for;
- ``burst``: until the last of n times ``iterations`` operations without a result is issued;
- ``chain``: from one load to the next one that needs its result, one lane of one warp;
- ``frame``: the clock around nothing. Always fitted, never judged.
"""

WHERE: Final = ("warps", "cas_warps", "lanes", "same_word", "same_bank", "iterations")
"""What a case was measured on, as columns of `Cases` and of the data sets."""

Ints = NDArray[Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Measured:
    """How cases were measured, (cases,): their launches (by default one for each operation), their relative
    noise and the moment of each launch; none of it for cases that are simulated."""

    launch: Sequence[str] | None = None
    noise: Floats | float = 0.0
    moment: Floats | float = 0.0


@dataclass(frozen=True, eq=False)
class Cases:
    """Cases as columns, each of shape ``(cases,)``.

    ``passes`` are those of the operation over the banks, ``cas_passes`` those of a compare-and-swap on the
    same words. ``weight`` makes errors of the logarithm of ``cycles`` equal among the forms: a difference of
    two times is less certain than a time. ``launch`` names the launch, or the two, that the case was measured
    by: such cases share what went wrong in it. ``noise`` is the relative standard deviation of ``cycles`` as
    its repetitions tell it, 0 where there was one only. ``moment`` is when in the run it was measured, 0 in
    the first launch and 1 in the last; of a difference of two times, when a single time would have the same
    share of a steady drift. 0 where it is not known.
    """

    operation: NDArray[np.str_]
    form: NDArray[np.str_]
    warps: Ints
    cas_warps: Ints
    lanes: Ints
    same_word: Ints
    same_bank: Ints
    iterations: Ints
    cycles: Floats
    weight: Floats
    launch: NDArray[np.str_]
    noise: Floats
    moment: Floats

    def __len__(self) -> int:
        return len(self.cycles)

    @property
    def passes(self) -> Ints:
        merged = np.isin(self.operation, ("popc-inc", "load", "store"))
        return np.where(merged, self.same_bank, self.same_word * self.same_bank)

    @property
    def cas_passes(self) -> Ints:
        return self.same_word * self.same_bank

    def select(self, which: NDArray[np.bool_] | Ints) -> Cases:
        """Some of the cases."""
        return Cases(**{field.name: getattr(self, field.name)[which] for field in fields(self)})

    @staticmethod
    def join(parts: list[Cases]) -> Cases:
        """All cases of several, in order."""
        return Cases(
            **{field.name: np.concatenate([getattr(p, field.name) for p in parts]) for field in fields(Cases)}
        )

    @staticmethod
    def build(
        operation: Sequence[str],
        form: str,
        where: Ints,
        cycles: Floats,
        weight: float,
        measured: Measured | None = None,
    ) -> Cases:
        """Cases of one form. ``where`` has the rows of `WHERE`: warps, cas_warps, lanes, same_word,
        same_bank, iterations."""
        count = len(cycles)
        measured = measured or Measured()
        launch = [f"{op}/{form}" for op in operation] if measured.launch is None else measured.launch
        columns = dict(zip(WHERE, where.astype(np.int64), strict=True))
        return Cases(
            operation=np.array(operation, dtype="U16"),
            form=np.full(count, form, dtype="U16"),
            cycles=np.asarray(cycles, dtype=np.float64),
            weight=np.full(count, weight),
            launch=np.array(launch, dtype="U48"),
            noise=np.broadcast_to(np.asarray(measured.noise, dtype=np.float64), count).copy(),
            moment=np.broadcast_to(np.asarray(measured.moment, dtype=np.float64), count).copy(),
            **columns,
        )

    @staticmethod
    def none() -> Cases:
        return Cases.build([], "batch", np.zeros((len(WHERE), 0)), np.zeros(0), 1.0)


@dataclass(frozen=True)
class SkippedCase:
    """Rows of the data set that are not compared, and why."""

    what: str
    rows: int
    reason: str
