"""An operator's time on a GPU that you don't have, from its time on one that you have, as an interval.

Both GPUs have a time that the model gives: the largest of the times for DRAM, L2, the tiles of a library
and the board's power. Each mechanism is a switch:

- ``launch``: the launch's cost is in both times and does not scale (`OperatorWork.launch_s`);
- ``sustained``: bandwidths as published from benchmarks, not as rated;
- ``cache``: rows read again come from DRAM only where the GPU's caches do not hold them
  (`smlab.models.operators.memory`);
- ``waits``: rows of softmax that a block goes over in unlike steps leave DRAM idle now and then
  (`smlab.models.operators.rows`);
- ``repeats``: operators are timed again and again, and what L2 holds of one run the next finds there;
- ``tiles``: a product runs in a library's tiles (`smlab.models.operators.tiles`), else at the rated peak;
- ``power``: arithmetic is held to what the board's power allows (`smlab.models.power`);
- ``half``: half of what a row falls short of the model goes along.

Van Lanker et al. 2024, equation 9, let all of it go along: what a kernel reaches of the roof on the source
it reaches on the target. That is right of what the kernel does, and wrong of what the card or its library
does. A time does not tell which. So the prediction is the middle of both in logarithms. All goes along
between GPUs of one compute capability, which run the same kernels. Of a row that power holds on the source
nothing goes along: it does not tell what its pipes would have done.

A row's prediction follows from this row and the two descriptions. No other row has a say in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.operators.interval import both_doubts, kinds_of, library_factor, widened
from smlab.models.operators.memory import Misses, repeat_misses, reread_misses
from smlab.models.operators.rows import Longer, longer_than_dram
from smlab.models.operators.tiles import pipe_seconds
from smlab.models.operators.work import Floats, OperatorWork
from smlab.models.power import power_ceiling

LIMITERS: Final = ("dram", "l2", "arithmetic", "power", "launch")
LAUNCH_SHARE: Final = 0.5
"""The most of a row's own time that its launch is taken to be."""
ALONG: Final = 0.5
"""Of what a row falls short of the model, in logarithms, goes along: the middle of all and nothing."""


@dataclass(frozen=True)
class OperatorSwitches:
    """Which mechanisms are counted; all off is equation 9 with rated peaks."""

    launch: bool = True
    sustained: bool = True
    cache: bool = True
    power: bool = True
    tiles: bool = True
    repeats: bool = True
    waits: bool = True
    half: bool = True
    named: bool = False


@dataclass(frozen=True, eq=False)
class OperatorProjection:
    """Predicted times on the target, ``(rows,)`` each: ``mid_s`` is the prediction, ``low_s`` to ``high_s``
    holds the time with the level of `smlab.models.operators.interval`.

    ``least_s`` and ``most_s`` are what the bounds of caches, energy and published bandwidths allow, whether
    all or nothing of a row's shortfall goes along. ``limiter`` names what sets the prediction, one of
    `LIMITERS`.
    """

    low_s: Floats
    mid_s: Floats
    high_s: Floats
    least_s: Floats
    most_s: Floats
    limiter: NDArray[np.object_]


def project_operators(
    work: OperatorWork, seconds: Floats, source: Gpu, target: Gpu, switches: OperatorSwitches | None = None
) -> OperatorProjection:
    """Predict the time of each operator on ``target`` from ``seconds``, measured on ``source``; arrays
    ``(rows,)``.

    Raises:
        SmlabError: a time that is not above 0.
    """
    on = switches or OperatorSwitches()
    usable = np.isfinite(seconds) & (seconds > 0)
    if not usable.all():
        first = int(np.flatnonzero(~usable)[0])
        raise SmlabError.at(f"row {first}", "unusable time in s", float(seconds[first]), "a time above 0")
    launch = np.minimum(work.launch_s, LAUNCH_SHARE * seconds) if on.launch else np.zeros(len(work))
    spent = seconds - launch
    free = np.full(len(work), "", dtype=object)
    there = _CardTimes(work, target, on, free)
    limiter = np.array(LIMITERS, dtype=object)[there.terms(COSTLY).argmax(axis=0)]
    if source.constants == target.constants:
        return _unchanged(seconds, np.where(launch > spent, "launch", limiter))
    here = _CardTimes(work, source, on, work.tile if on.named else free)
    same_kernels = source.compute_capability == target.compute_capability or not on.half
    both = [here.terms(choice) for choice in (COSTLY, THRIFTY)]
    expected = np.sqrt(both[0].max(axis=0) * both[1].max(axis=0))
    held = np.all([terms.argmax(axis=0) == LIMITERS.index("power") for terms in both], axis=0)
    along = 1.0 if same_kernels else np.where(held, 0.0, ALONG)
    if same_kernels:
        short = [spent / terms.max(axis=0) for terms in both]
    else:
        short = [spent / expected] * 2
    expect = [there.terms(choice).max(axis=0) for choice in (COSTLY, THRIFTY)]
    card, carried = np.sqrt(expect[0] * expect[1]), np.sqrt(short[0] * short[1]) ** along
    middle = card * carried
    if not same_kernels:
        short.append(np.ones(len(work)))
    faster, slower = card / there.terms(BEST).max(axis=0), there.terms(WORST).max(axis=0) / card
    least = middle / both_doubts(faster, carried / np.min(short, axis=0), target)
    most = middle * both_doubts(slower, np.max(short, axis=0) / carried, target)
    low, high = widened(kinds_of(work), least, most, target)
    return OperatorProjection(
        low_s=launch + low,
        mid_s=launch + middle,
        high_s=launch + high,
        least_s=launch + least,
        most_s=launch + most,
        limiter=np.where(launch > middle, "launch", limiter).astype(object),
    )


def _unchanged(seconds: Floats, limiter: NDArray[np.object_]) -> OperatorProjection:
    """Onto the GPU that was measured: the time that was measured."""
    a, b, c, d, e = (seconds.copy() for _ in range(5))
    return OperatorProjection(a, b, c, d, e, limiter.astype(object))


TILES_OFF: Final = 0.1
"""How far the time of executed machine code may be off: it is 6 and 9 % off on measured kernels of two cards
(docs/findings/machine-code.md)."""
BENCHMARKS_OFF: Final = 0.04
"""How far published bandwidths of one card lie apart: 4 % of a V100 and an H100 PCIe, 5 % of an A100."""


@dataclass(frozen=True)
class _Choice:
    """One choice of what is not known: the ceiling of `smlab.models.power.PowerCeiling`, and the
    bound of the misses and of the waits. The side is -1 for all that makes an operator fast, 1 for all that
    makes it slow.
    """

    power: str
    misses: str
    side: int = 0


COSTLY: Final = _Choice("costly", "share")
THRIFTY: Final = _Choice("thrifty", "share")
BEST: Final = _Choice("most", "least", -1)
WORST: Final = _Choice("least", "most", 1)


class _CardTimes:
    """The times that one GPU's description gives for operators, ``(4, rows)``: of DRAM, L2, arithmetic,
    power."""

    def __init__(
        self, work: OperatorWork, gpu: Gpu, on: OperatorSwitches, named: NDArray[np.object_]
    ) -> None:
        self._work, self._gpu, self._on = work, gpu, on
        every = Misses(*[np.ones(len(work))] * 3)
        self._first = repeat_misses(work, gpu) if on.repeats else every
        self._again = reread_misses(work, gpu) if on.cache else every
        self._longer: Longer | None = None
        if on.waits:
            self._longer = longer_than_dram(
                (work.operator == "softmax") & (work.again_bytes > 0), work.values, gpu
            )
        key = "dram.sustained_bandwidth_bytes_per_s" if on.sustained else "dram.bandwidth_bytes_per_s"
        low, value, high = gpu[key].interval
        off = 1 + BENCHMARKS_OFF if on.sustained else 1.0
        self._bandwidth = {-1: max(high, value * off), 0: value, 1: min(low, value / off)}
        self._pipe_s = np.asarray(work.flops / gpu.number("peak.fp32_flops_per_s"))
        product = work.flops > 0
        if on.tiles and product.any():
            self._pipe_s[product] = pipe_seconds(work.shapes.take(product), gpu, named[product])
        self._off = 1 + library_factor(gpu) * TILES_OFF if on.tiles else 1.0
        self._ceiling = power_ceiling(gpu)

    def terms(self, choice: _Choice) -> Floats:
        work = self._work
        first, again = getattr(self._first, choice.misses), getattr(self._again, choice.misses)
        once = first * work.once_bytes
        traffic = once + again * work.again_bytes
        if self._longer is not None:  # what is read again fills the gaps
            traffic = np.maximum(traffic, once * getattr(self._longer, choice.misses))
        dram = traffic / self._bandwidth[choice.side]
        l2 = (work.once_bytes + work.again_bytes) / self._gpu.number("l2.bandwidth_bytes_per_s")
        pipe = self._pipe_s * self._off**choice.side
        power = np.zeros(len(work))
        if self._on.power:
            power = work.flops / getattr(self._ceiling, choice.power)
            if choice.side < 1:
                power = np.minimum(power, pipe / self._ceiling.base)
        return np.stack([dram, l2, pipe, power])
