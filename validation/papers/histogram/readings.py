"""What the paper's e could mean: each reading of it computed on a uniform image and on a solid one."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.sim.histogram import LANES, uniform_image
from smlab.sim.patterns import lanes_on_fullest_bank, words_on_fullest_bank
from smlab.validation.papers.histogram.fact import Judge

BANKS: Final = 32
PIXELS: Final = 2**18
SAID: Final = {
    "passes": "lanes on the fullest bank",
    "lanes": "active lanes",
    "conflicts": "bank conflicts, passes less one",
    "one-word": "most lanes on one word",
    "words": "distinct words on the fullest bank",
    "greater": "the greater of lanes on one word and words on one bank",
}
"""The readings, by name. The simulator's atomics make ``passes`` passes."""
SOLID: Final = {"passes": 32, "lanes": 32, "conflicts": 31, "one-word": 32, "words": 1, "greater": 32}
"""Each on a solid image."""


def on_random_bytes(pixels: int = PIXELS) -> dict[str, float]:
    """Each reading's mean over warps of 32 uniformly random bytes, counted in 256 bins."""
    values = uniform_image(pixels)[:, 0].reshape(-1, LANES).astype(np.int64)
    one_word = _lanes_on_one_word(values)
    words, passes = words_on_fullest_bank(values, BANKS), lanes_on_fullest_bank(values, BANKS)
    return {
        "passes": float(passes.mean()),
        "lanes": float(LANES),
        "conflicts": float(passes.mean() - 1),
        "one-word": float(one_word.mean()),
        "words": float(words.mean()),
        "greater": float(np.maximum(one_word, words).mean()),
    }


def readings_of_e(judge: Judge) -> None:
    """Which reading gives the paper's 32 and about 3."""
    random, source = on_random_bytes(), "Section 4.1"
    judge.say("e-solid", "e is 32 for solid images", source, [SOLID["passes"]], "passes", 32, 32)
    for name, value in random.items():
        own = "e-random" if name == "passes" else f"e-random-{name}"
        claim = f"e is about 3 for random images, if e is {SAID[name]}"
        judge.say(own, claim, source, [value], "a job", 2.5, 3.5)
    off = {
        name: math.exp(max(abs(math.log(SOLID[name] / 32)), abs(math.log(random[name] / 3))))
        for name in random
    }
    nearest = min(off, key=lambda name: off[name])
    each = ", ".join(f"{SAID[name]}: {SOLID[name]:g} and {random[name]:.2f}" for name in random)
    judge.say(
        "e-reading",
        "e as Table 2 puts it, active threads a job, gives the 32 and 3 of Section 4.1",
        "Table 2, Section 4.1",
        [off["lanes"]],
        "x off",
        1,
        1.2,
        detail=f"nearest to both: {SAID[nearest]} ({off[nearest]:.2f} x off). Solid and random: {each}",
    )


def _lanes_on_one_word(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """The most lanes that ask one word, ``(rows,)``."""
    ordered = np.sort(words, axis=1)
    run, most = np.ones(len(words), dtype=np.int64), np.ones(len(words), dtype=np.int64)
    for lane in range(1, words.shape[1]):
        run = np.where(ordered[:, lane] == ordered[:, lane - 1], run + 1, 1)
        most = np.maximum(most, run)
    return most
