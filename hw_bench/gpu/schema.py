"""Which constants a GPU description holds: name, unit, type and range of each, in one table, ``keys.csv``.

A name such as ``sm.max_warps`` is the constant's identity everywhere: in the TOML files, on the command line
and in reports. The order of the table is the order in which constants are shown.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

KINDS: Final = ("spec", "published", "measured", "calibrated", "assumed")
"""Where a value comes from, from the manufacturer's word to our own guess."""

ARCHITECTURES: Final = ("pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell")

PIPES: Final = (
    *("int32", "fp32", "fp64", "fp16", "sfu", "control", "conversion", "uniform", "tensor", "vote"),
    *("redux", "special-register", "packed-conversion", "tensor-memory"),
)
"""The execution pipes of the SM that a description has."""

TENSOR_TYPES: Final = (
    *("fp16", "fp16_fp32", "bf16", "tf32", "fp8", "fp8_fp32", "fp6"),
    *("mxfp8", "mxfp6", "mxfp4", "int8", "int4", "int1", "fp64"),
)
"""Types of products of matrices; ``fp16`` and ``fp8`` sum in halves, those with ``_fp32`` in singles.
``fp6``: one of the factors has 6 or 4 bits; they sum in either. Those with ``mx`` have scales of blocks, and
sum in singles; ``mxfp4`` are packed, two in a byte (MXFP4 and NVFP4)."""

ATOMIC_OPS: Final = ("add", "cas", "popc_inc")
"""The operations of the shared-memory atomic unit that a description has."""


@dataclass(frozen=True)
class ConstantKey:
    """One constant: what it is called, its unit, and which values can be right.

    ``type`` is `int` (whole numbers only), `float` (any number) or `str` (one of ``choices``). ``minimum``
    and ``maximum`` are inclusive. An ``optional`` key may be missing from a description. A name without
    ``choices`` is one of a registry elsewhere, which checks it (scheduler policies: `smlab.sim.policies`).
    """

    name: str
    unit: str
    type: type
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False

    def expected(self) -> str:
        """What would be right, in words, for an error message."""
        if self.type is str:
            return "one of " + ", ".join(self.choices) if self.choices else "a name"
        noun = "a whole number" if self.type is int else "a number"
        if self.minimum is not None and self.maximum is not None:
            form = ",.0f" if self.type is int else "g"
            return f"{noun} from {self.minimum:{form}} to {self.maximum:{form}} {self.unit}"
        if self.minimum is not None:
            return f"{noun} of at least {self.minimum:g} {self.unit}"
        return f"{noun} of {self.unit}"


_EACH: Final = {"{pipe}": PIPES, "{op}": ATOMIC_OPS, "{type}": TENSOR_TYPES}
"""What a placeholder in ``keys.csv`` stands for."""


def _keys() -> Iterator[ConstantKey]:
    """The keys in ``keys.csv``. Rows behind each other that begin alike, up to a placeholder, are one group,
    which is told for each of what the placeholder stands for."""
    text = Path(__file__).with_name("keys.csv").read_text(encoding="utf-8")
    for start, rows in groupby(csv.DictReader(text.splitlines()), lambda r: r["name"].partition("{")[0]):
        group = list(rows)
        placeholder = next((p for p in _EACH if group[0]["name"].startswith(start + p)), "")
        for each in _EACH.get(placeholder, ("",)):
            for row in group:
                yield _key(row, placeholder, each)


def _key(row: Mapping[str, str], placeholder: str, each: str) -> ConstantKey:
    kind = {"int": int, "float": float, "str": str}[row["type"]]
    least, most = (kind(row[end]) if row[end] else None for end in ("minimum", "maximum"))
    name, doc = (row[column].replace(placeholder, each) for column in ("name", "doc"))
    optional = bool(row["optional"]) or name.startswith(COUNTED)  # refused below compute capability 8.0
    return ConstantKey(name, row["unit"], kind, doc, least, most, tuple(row["choices"].split()), optional)


COUNTED: Final = "atomic.popc_inc."
"""Begins the keys of GPUs with ATOMS.POPC.INC: compute capability 8.0 and up."""

KEYS: Final[tuple[ConstantKey, ...]] = tuple(_keys())
KEYS_BY_NAME: Final[dict[str, ConstantKey]] = {key.name: key for key in KEYS}


def popc_inc_keys() -> tuple[str, ...]:
    """The keys that `COUNTED` begins."""
    return tuple(key.name for key in KEYS if key.name.startswith(COUNTED))


def is_group(name: str) -> bool:
    """Whether ``name`` is the beginning of some key's dotted name, such as ``pipe`` or ``pipe.fp32``."""
    return any(key.name.startswith(name + ".") for key in KEYS)
