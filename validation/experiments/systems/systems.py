"""What a study can be of: something that has keys to set and gives responses at a point.

The simulator is one such system (`smlab.validation.experiments.systems.simulator`), the closed forms of
`smlab.validation.experiments.systems.formulas` are others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from smlab.hw_bench.gpu.alternatives import Alternative
from smlab.validation.experiments.design.values import Key, Settings


@dataclass(frozen=True)
class Evaluation:
    """The responses at a point, in the order of ``System.responses``, and the processor time spent
    simulating."""

    responses: tuple[float, ...]
    simulation_s: float


class System(Protocol):
    """A system under study. Plain data inside, since it travels to other processes."""

    @property
    def responses(self) -> tuple[str, ...]:
        """What a point gives, by name."""

    def key(self, where: str, name: str) -> Key:
        """What is known of a key; `SmlabError` naming ``where`` for one that it does not have."""

    def check(self, settings: Settings) -> bool:
        """Refuse settings with which it cannot run (`SmlabError`); whether its answers then depend on the
        seed."""

    def answer(self, settings: Settings, seed: int) -> Evaluation:
        """The responses with these settings; `SmlabError` where there are none."""

    def alternatives(self) -> tuple[Alternative, ...]:
        """What the evidence leaves open of the base's GPU, where answers hang on it; else none."""

    def identity(self) -> str:
        """Everything that its answers depend on beside settings and seed, as text: base, responses,
        version of the code."""
