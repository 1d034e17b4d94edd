"""What a study sets: values of keys, and what is known of a key before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smlab.hw_bench.errors import SmlabError

Value = bool | int | float | str

Settings = Mapping[str, Value]
"""Values by key: ``gpu.KEY`` for a constant of the GPU, ``gpu`` for the GPU itself, any other key for the
workload."""


@dataclass(frozen=True)
class Key:
    """A key that can be set: the ``types`` that it takes, and its value in the base (None where it has
    none of its own)."""

    name: str
    types: tuple[type, ...]
    base: Value | None

    @property
    def whole(self) -> bool:
        """Whether it takes whole numbers only."""
        return int in self.types and float not in self.types

    @property
    def number(self) -> bool:
        return int in self.types or float in self.types

    def value(self, where: str, given: Any) -> Value:
        """``given`` as the key takes it, one spelling for each value; `SmlabError` for what is of another
        kind."""
        if isinstance(given, bool):
            if bool in self.types:
                return given
        elif isinstance(given, str):
            if str in self.types:
                return given
        elif isinstance(given, int | float) and self.number and math.isfinite(given):
            if not self.whole:
                return float(given)
            if given == int(given):
                return int(given)
        raise SmlabError.at(where, f"not a value of {self.name}", given, self.expected())

    def expected(self) -> str:
        """In words, what it takes."""
        names = {bool: "true or false", str: "a name"}
        number = ["a whole number" if self.whole else "a number"] if self.number else []
        return " or ".join([*number, *(names[t] for t in self.types if t in names)])
