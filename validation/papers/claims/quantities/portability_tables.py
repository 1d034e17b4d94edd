"""Arithmetic on Coyne's tables: signs, sizes, and what counting the blocks on each SM explains of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.models.portability.causes import CAUSES, Causes, causes
from smlab.sim.address_patterns import words_on_fullest_bank
from smlab.validation.papers.claims.published import GridTable, grid_table, portability
from smlab.validation.papers.claims.registry import Observed, quantity
from smlab.validation.papers.judging import Scale

OLD, NEW = "v100", "a100-80"
RESIDENT = 160
"""Blocks of 1,024 threads that a V100 holds at a time."""


def _chosen(table: GridTable, state: str, least: int, most: int, without: list[int]) -> NDArray[np.float64]:
    pairs = zip(table.blocks, table.state(state), strict=True)
    chosen = [d for b, d in pairs if least <= b <= most and b not in without]
    if not chosen:
        raise SmlabError.at(table.title, "no such grid sizes", (least, most))
    return np.array(chosen)


@quantity("portability.extreme_difference", unit="%", evidence="published", scale=Scale.DIFFERENCE)
def extreme_difference(
    grid: str, state: str, which: str, least: int = 1, most: int = 1024, without: list[int] | None = None
) -> Observed:
    """The ``least`` or ``greatest`` difference of run time, A100 against V100, over the grid sizes from
    least to most."""
    table = grid_table(grid)
    values = _chosen(table, state, least, most, without or [])
    found = values.min() if which == "least" else values.max()
    return Observed.exactly(found, f"{len(values)} grid sizes, {table.title}")


@quantity("portability.difference", unit="%", evidence="published", scale=Scale.DIFFERENCE)
def difference(grid: str, state: str, blocks: int) -> Observed:
    """One cell of a table."""
    table = grid_table(grid)
    return Observed.exactly(_chosen(table, state, blocks, blocks, [])[0], table.title)


@quantity("portability.mean_difference", unit="%", evidence="published", scale=Scale.DIFFERENCE)
def mean_difference(grid: str, state: str, least: int, most: int) -> Observed:
    """The mean difference over the grid sizes from least to most."""
    table = grid_table(grid)
    return Observed.exactly(_chosen(table, state, least, most, []).mean(), table.title)


@quantity("portability.share_slower", unit="%", evidence="published", scale=Scale.SHARE)
def share_slower(grids: list[str], state: str, least: int, most: int) -> Observed:
    """The share of the cells in which the A100 is slower."""
    values = np.concatenate([_chosen(grid_table(g), state, least, most, []) for g in grids])
    return Observed.exactly(100 * (values > 0).mean(), f"{int((values > 0).sum())} of {len(values)} cells")


@quantity("portability.rows_worse", unit="% of the grid sizes", evidence="published", scale=Scale.SHARE)
def rows_worse(grid: str, than: str, state: str) -> Observed:
    """The share of grid sizes at which one table's difference is above another's."""
    one, other = np.array(grid_table(grid).state(state)), np.array(grid_table(than).state(state))
    return Observed.exactly(100 * (one > other).mean())


@quantity("portability.steps_worse", unit="of 3 steps", evidence="published", scale=Scale.DIFFERENCE)
def steps_worse(state: str, most: int) -> Observed:
    """How many of the steps from 4- to 8-, 16- and 32-way conflicts raise the mean difference, up to so
    many blocks."""
    means = [_chosen(grid_table(f"bank-{way}"), state, 1, most, []).mean() for way in (4, 8, 16, 32)]
    words = ", ".join(f"{m:+.1f}" for m in means)
    return Observed.exactly(sum(b > a for a, b in pairwise(means)), f"means {words} %")


@lru_cache(maxsize=64)
def why_of_grids(blocks: tuple[int, ...], clocks_hz: tuple[float, float] = (1.38e9, 1.38e9)) -> Causes:
    """Causes of the A100's modelled times over the V100's for grids of so many blocks, nothing else being
    known: what ``smlab port`` says of such launches. Many claims ask it of the same grids.

    ``clocks_hz`` are the SM clocks of the two.
    """
    launches = np.array(blocks, dtype=np.float64)

    def work(clock_hz: float) -> KernelWork:
        known = {"blocks": launches, "threads_per_block": 1024, "clock_hz": clock_hz}
        return KernelWork.of(["grid"] * len(launches), np.full(len(launches), 1e-4), **known)

    here, there = (work(clock) for clock in clocks_hz)
    return causes(here, load_gpu(OLD), load_gpu(NEW), target_work=there)


def ratio_by_block_count(blocks: Sequence[int]) -> NDArray[np.float64]:
    """Run time of the A100 over that of the V100, by the blocks on the fullest SM alone, for grids of so
    many blocks."""
    return np.exp(why_of_grids(tuple(blocks)).modelled)


@quantity("portability.jump_by_tail", unit="", evidence="published", scale=Scale.RATIO)
def jump_by_tail(grid: str, state: str, before: int, after: int) -> Observed:
    """Of the jump of the ratio of times from one grid size to the next, the part that is the tail's, over
    what is not unexplained."""
    table = grid_table(grid)
    rows = [table.blocks.index(before), table.blocks.index(after)]
    return share_of_tail([before, after], np.log1p(np.array(table.state(state))[rows] / 100))


def share_of_tail(blocks: Sequence[int], log_ratio: NDArray[np.float64]) -> Observed:
    """Of the jump of ``log_ratio`` between two grids of ``blocks``, the part that is the tail's."""
    tail = np.diff(why_of_grids(tuple(blocks)).terms[:, CAUSES.index("tail")])[0]
    jump = np.diff(log_ratio)[0]
    return Observed.exactly(
        tail / jump, f"the ratio's logarithm jumps by {jump:+.2f}, the tail's by {tail:+.2f}"
    )


@quantity("portability.left_unexplained", unit="%", evidence="published", scale=Scale.DIFFERENCE)
def left_unexplained(grid: str, state: str, most: int) -> Observed:
    """What of the ratios of times up to so many blocks no cause explains, on average, as a factor less 1."""
    table = grid_table(grid)
    log_ratio = np.log1p(_chosen(table, state, 1, most, []) / 100)
    found = why_of_grids(tuple(b for b in table.blocks if b <= most))
    return Observed.exactly(100 * float(np.expm1((log_ratio - found.modelled).mean())))


@quantity("portability.error_of_block_count", unit="%", evidence="published", scale=Scale.ERROR)
def error_of_block_count(grid: str, state: str, clocks: str) -> Observed:
    """MAPE of the rule that run time goes with the blocks on the fullest SM, for the ratio of run times A100
    over V100.

    ``clocks``: ``equal``, or ``printed``, with the 1.20 and 1.13 GHz that the thesis gives. Nothing is
    fitted.
    """
    table = grid_table(grid)
    if clocks not in ("equal", "printed"):
        raise SmlabError.at("clocks", "unknown", clocks, "equal or printed")
    ratio = 1 + np.array(table.state(state)) / 100
    seen = (1.20e9, 1.13e9) if clocks == "printed" else (1.38e9, 1.38e9)
    predicted = np.exp(why_of_grids(tuple(table.blocks), seen).modelled)
    constants = np.linspace(0.4, 1.2, 801)
    best = float(np.abs(constants[:, None] / ratio - 1).mean(axis=1).min() * 100)
    error = float(100 * np.abs(predicted / ratio - 1).mean())
    return Observed.exactly(error, f"the best constant is off by {best:.1f} %")


@quantity("portability.clock_difference", unit="%", evidence="published", scale=Scale.DIFFERENCE)
def clock_difference(old_ghz: float, new_ghz: float) -> Observed:
    """How far the A100's clock is below the V100's; the interval is that of the printed digits."""

    def below(old: float, new: float) -> float:
        return 100 * (1 - new / old)

    digit = 0.005
    return Observed(
        below(old_ghz, new_ghz),
        below(old_ghz - digit, new_ghz + digit),
        below(old_ghz + digit, new_ghz - digit),
    )


@quantity("portability.turboseti_difference", unit="%", evidence="published", scale=Scale.DIFFERENCE)
def turboseti_difference(version: str) -> Observed:
    """The A100's run time against the V100's, from the run times of Table 5.7."""
    t = portability("turboseti")
    return Observed.exactly(100 * (t["a100"][version] / t["v100"][version] - 1))


@quantity("portability.turboseti_gain", unit="%", evidence="published", scale=Scale.DIFFERENCE)
def turboseti_gain(gpu: str, measure: str) -> Observed:
    """What the optimization gained on ``v100`` or ``a100``: run time saved (``time``) or work an hour
    added (``performance``)."""
    t = portability("turboseti")[gpu]
    saved, added = 1 - t["optimized"] / t["original"], t["original"] / t["optimized"] - 1
    if measure not in ("time", "performance"):
        raise SmlabError.at("measure", "unknown", measure, "time or performance")
    return Observed.exactly(100 * (saved if measure == "time" else added))


@quantity("portability.contention_ratio", unit="times", evidence="published", scale=Scale.RATIO)
def contention_ratio() -> Observed:
    """Atomics on the one address before over after turboSETI's reduction in each block, for the grid of
    Section 5.8.1."""
    t = portability("turboseti")
    return Observed.exactly(t["blocks"] * t["threads"] / t["blocks"])


@quantity("portability.permutation_extreme", unit="%", evidence="published", scale=Scale.DIFFERENCE)
def permutation_extreme() -> Observed:
    """The greatest difference of Table 5.6."""
    t = portability("permutation")
    at = int(np.argmax(t["difference"]))
    return Observed.exactly(t["difference"][at], f"at {t['elements'][at]} elements")


@quantity("portability.permutation_trend", unit="", evidence="published", scale=Scale.DIFFERENCE)
def permutation_trend() -> Observed:
    """Kendall's tau-b between elements and difference in Table 5.6: above 0 if it worsens with size."""
    from scipy.stats import kendalltau

    t = portability("permutation")
    return Observed.exactly(float(kendalltau(t["elements"], t["difference"]).statistic))


@quantity("portability.counter_ratio", unit="times", evidence="published", scale=Scale.RATIO)
def counter_ratio(table: str, counter: str) -> Observed:
    """A counter of Table 5.8 (``atomic-add``) or 5.9 (``atomic-cas``), A100 over V100."""
    row = portability(table)[counter]
    return Observed.exactly(row["a100"] / row["v100"], f"{row['v100']:g} and {row['a100']:g}")


@quantity("portability.halved_throughputs", unit="of 3", evidence="published", scale=Scale.DIFFERENCE)
def halved_throughputs(table: str) -> Observed:
    """How many of the three throughputs of Table 5.8 or 5.9 the A100 has at half or less."""
    section = portability(table)
    names = ("compute_percent", "memory_percent", "l1_percent")
    ratios = {n.removesuffix("_percent"): section[n]["a100"] / section[n]["v100"] for n in names}
    return Observed.exactly(
        sum(r <= 0.5 for r in ratios.values()), ", ".join(f"{n} {r:.2f}" for n, r in ratios.items())
    )


@quantity("portability.drop_from_difference", unit="% of performance lost", evidence="published")
def drop_from_difference(percent: float) -> Observed:
    """The loss of performance that a run time longer by ``percent`` is."""
    return Observed.exactly(100 * (1 - 1 / (1 + percent / 100)), f"{1 + percent / 100:g} times the run time")


@quantity("portability.stall_to_time_ratio", unit="times", evidence="published", scale=Scale.RATIO)
def stall_to_time_ratio(v100_stalls: float, a100_stalls: float) -> Observed:
    """Growth of the stalled cycles at 32-way conflicts over growth of the run time, 160 blocks, A100 over
    V100."""
    time = 1 + _chosen(grid_table("bank-32"), "steady", 160, 160, [])[0] / 100
    stalls = a100_stalls / v100_stalls
    return Observed.exactly(stalls / time, f"stalls {stalls:.2f}x, run time {time:.3f}x")


SCAN = 1024
"""Elements of the scan, and threads of its block."""


def scan_accesses(padded: bool) -> list[NDArray[np.int64]]:
    """The words of every warp-access of Blelloch's scan over 1,024 elements, in both sweeps.

    In each step, thread t < d takes elements o (2 t + 1) - 1 and o (2 t + 2) - 1, where o is the stride and o
    d the half of the elements. The up-sweep reads both and writes one; the down-sweep reads both and writes
    both.
    """
    accesses = []
    stride, active = 1, SCAN // 2
    while active >= 1:
        t = np.arange(active, dtype=np.int64)
        ends = [stride * (2 * t + 1) - 1, stride * (2 * t + 2) - 1]
        words = [e + e // 32 if padded else e for e in ends]
        for read_or_written in (*words, words[1], *words, *words):
            accesses += [read_or_written[w : w + 32] for w in range(0, active, 32)]
        stride, active = stride * 2, active // 2
    return accesses


@quantity("portability.scan_conflicts", unit="-way", evidence="published")
def scan_conflicts(padded: bool, which: str) -> Observed:
    """Conflicts of the scan's warp-accesses: the ``mean`` over all, the ``mean of conflicting`` ones, or
    the ``greatest``."""
    degrees = np.array([int(words_on_fullest_bank(a, 32)) for a in scan_accesses(padded)])
    of = {
        "mean": degrees,
        "mean of conflicting": degrees[degrees > 1],
        "greatest": degrees.max(keepdims=True),
    }
    if which not in of:
        raise SmlabError.at("which", "unknown", which, "one of " + ", ".join(of))
    values = of[which]
    if len(values) == 0:
        return Observed.exactly(1, "no access has a conflict")
    return Observed.exactly(values.mean(), f"{int((degrees > 1).sum())} of {len(degrees)} accesses conflict")


@quantity("portability.printed_bank_formula", unit="%", evidence="published", scale=Scale.SHARE)
def printed_bank_formula() -> Observed:
    """The share of the 1,024 partial sums whose bank, by the printed index, is the one that the printed
    formula gives."""
    i = np.arange(SCAN)
    return Observed.exactly(100 * ((i // 32 + i) % 32 == i % 32).mean())
