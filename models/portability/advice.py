"""What changing one parameter of a configuration does on the new GPU, and how sure that is.

Two configurations differ in one parameter. The change on the new GPU is foreseen from times guessed there
(the old GPU's own or projected ones), and from what was measured on the new GPU so far. The guess leaves open
the difference of their ratios of new to old times, as `ratio_model` has it. All scales of it are kept. So a
large foreseen change is surer than a small one. It is less sure where a switch is turned that was never seen
turned. A part of all pairs obeys no scale: a compiler made one of the two another kernel. `EVIDENCE` says how
large both are for each kind of guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from smlab.models.portability.ratio_model import RatioModel, ScaleMixture

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Evidence = Literal["compiled", "projected", "copied"]


@dataclass(frozen=True)
class GuessQuality:
    """How far times guessed for the new GPU go: ``spread`` multiplies the scales of `ratio_model`, and
    ``accidents`` is the share of pairs of which the guess says nothing."""

    spread: float
    accidents: float


EVIDENCE: Final[dict[Evidence, GuessQuality]] = {
    "copied": GuessQuality(0.46, 0.15),
    "projected": GuessQuality(0.24, 0.11),
    "compiled": GuessQuality(0.24, 0.11),
}
"""Fitted to pairs that differ by 3 % on the new GPU. They are of two public pairs of searches, of ratios
drawn for them, and of kernels in closed form. What each says of the others is a study
(docs/findings/porting.md). Of changes whose code was compiled a single search tells (0.15 and 0.03): they are
said to be no surer than projected ones."""


@dataclass(frozen=True, eq=False)
class ForeseenChange:
    """Foreseen changes of the logarithm of the time on the new GPU, (changes,). Each has its middle, and the
    chance that its sign is the true one if the two differ at all (by 3 % or more)."""

    log_change: Floats
    chance: Floats


def foreseen_changes(
    guess: Floats, model: RatioModel, row: int, others: Ints, evidence: Evidence
) -> ForeseenChange:
    """What going from ``row`` to each of ``others`` does.

    ``guess`` (configurations,) holds logarithms of guessed times, ``model`` the ratios of measured to guessed
    times seen so far, its spread that of the evidence.
    """
    difference = model.difference(row, others)
    log_guess = guess[others] - guess[row]
    middle = log_guess + difference.weight @ difference.mean
    return ForeseenChange(middle, sign_chance(log_guess, difference, evidence))


def sign_chance(log_guess: Floats, ratio: ScaleMixture, evidence: Evidence) -> Floats:
    """The chance that the sign of ``log_guess`` plus the mean of a ratio is the true one, (changes,)."""
    faster = ratio.weight @ special.ndtr(-(log_guess + ratio.mean) / np.sqrt(ratio.variance))
    right = np.where(log_guess + ratio.weight @ ratio.mean < 0, faster, 1 - faster)
    accidents = EVIDENCE[evidence].accidents
    return np.asarray((1 - accidents) * right + accidents / 2)


def changes_from(config: Sequence[Sequence[object]], row: int) -> list[tuple[int, int]]:
    """(Other row, column) of the configurations that differ from ``row`` in one parameter."""
    here = config[row]
    changes = []
    for other, values in enumerate(config):
        different = [c for c, (a, b) in enumerate(zip(here, values, strict=True)) if a != b]
        if len(different) == 1:
            changes.append((other, different[0]))
    return changes
