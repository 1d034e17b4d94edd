"""How many passes the histogram's atomics take (Dong & Pai, Section 4), from the layout of Figure 2 alone.

A warp's lanes hold consecutive pixels of four 8-bit channels; channel c of value v counts in word 256 c + v.
Listing 1 takes one channel after the other; Listing 2 starts each thread at another channel. No time is
simulated here: the passes follow from the addresses.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.sim.address_patterns import lanes_on_fullest_bank, words_on_fullest_bank
from smlab.validation.method.statistics import mean_interval
from smlab.validation.papers.claims.registry import Observed, quantity
from smlab.validation.papers.judging import Scale

BINS, CHANNELS, LANES, BANKS = 256, 4, 32, 32
WARPS = 8192
"""Warp-instructions that are drawn for random images; the mean of e is then known to about 0.3 %."""

SOLID = {"grey": (96, 96, 96, 96), "coloured": (10, 43, 77, 255)}
"""Solid images by the values of their channels: equal, or on four different banks (10, 11, 13, 31)."""

READINGS = ("active lanes", "lanes on one bank", "bank conflicts", "lanes on one word", "words on one bank")


def bins_of_warps(image: str, variant: str, warps: int) -> NDArray[np.int64]:
    """The words that warp-instructions ask for, shape ``(warps, 4 channels, 32 lanes)``."""
    if variant not in ("original", "reordered"):
        raise SmlabError.at("variant", "unknown", variant, "original or reordered")
    if image in SOLID:
        values = np.broadcast_to(np.array(SOLID[image]), (warps, LANES, CHANNELS))
    elif image == "uniform":
        values = np.random.default_rng(np.random.SeedSequence(7)).integers(0, BINS, (warps, LANES, CHANNELS))
    else:
        raise SmlabError.at("image", "unknown", image, "uniform, " + ", ".join(SOLID))
    turn, lane = np.meshgrid(np.arange(CHANNELS), np.arange(LANES), indexing="ij")
    channel = (turn + lane) % CHANNELS if variant == "reordered" else turn
    words: NDArray[np.int64] = BINS * channel[None] + values[:, lane, channel]
    return words


@functools.cache
def _mean_wavefronts(image: str, variant: str, reading: str) -> Observed:
    words = bins_of_warps(image, variant, WARPS if image == "uniform" else 1)
    if reading == "active lanes":
        counts = np.full(words.shape[:2], words.shape[2])
    elif reading == "lanes on one bank":
        counts = lanes_on_fullest_bank(words, BANKS)
    elif reading == "bank conflicts":
        counts = lanes_on_fullest_bank(words, BANKS) - 1
    elif reading == "words on one bank":
        counts = words_on_fullest_bank(words, BANKS)
    elif reading == "lanes on one word":  # as if every word had a bank of its own
        counts = lanes_on_fullest_bank(words, BINS * CHANNELS)
    else:
        raise SmlabError.at("reading", "unknown", reading, "one of " + ", ".join(READINGS))
    by_warp = counts.mean(axis=1)
    if np.all(by_warp == by_warp[0]):
        return Observed.exactly(by_warp[0])
    found = mean_interval(by_warp)
    return Observed(
        found.estimate, found.low, found.high, f"over {len(by_warp):,} warps".replace(",", "\u2009")
    )


@quantity("histogram.passes", unit="", evidence="simulated")
def passes(image: str, variant: str, reading: str) -> Observed:
    """The mean of e over the warp-instructions of one image, in one of its readings."""
    return _mean_wavefronts(image, variant, reading)


@quantity("histogram.passes_ratio", unit="times", evidence="simulated", scale=Scale.RATIO)
def wavefront_ratio(image: str) -> Observed:
    """Passes of the original kernel over those of the reordered one: how much serialisation reordering
    removes."""
    before, after = (_mean_wavefronts(image, v, "lanes on one bank") for v in ("original", "reordered"))
    return Observed(before.value / after.value, before.low / after.high, before.high / after.low)
