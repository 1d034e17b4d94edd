"""GPU descriptions: every constant with its unit, kind, source and uncertainty.

A description is a TOML file. Its name is the file's stem; the shipped ones lie in ``hw_bench/gpu/boards``::

    title = "..."
    architecture = "volta"
    compute_capability = "7.0"
    extends = "v100"                    # optional: begin with another description's constants
    same_card = true                    # optional, with extends: see below
    without = ["peak.sustained_flops_per_s"]    # optional, with extends: constants not to inherit

    [sources]
    cuda-guide = "NVIDIA, ..."
    assumed-queue = "assumed: ..."

    [sm]
    max_warps = { value = 64, unit = "warps", kind = "spec", source = "cuda-guide" }

What belongs to an SM generation stands once, in ``hw_bench/gpu/generations``: a description takes from there
what it does not say itself (`smlab.hw_bench.gpu.generations`), and so it does with the alternatives that the
evidence leaves open (`smlab.hw_bench.gpu.alternatives`).

What was published of, measured on or calibrated to a card is not known of another one, and what the maker
rates one board at is no rating of another. So what a description takes over from another board is scaled or
becomes ``assumed``, and some of it must be said anew (`smlab.hw_bench.gpu.inherit`), unless the file declares
``same_card = true``: the same board under another name. Which constants there are is told by
`smlab.hw_bench.gpu.schema.KEYS`.
"""

from __future__ import annotations

import functools
import math
import numbers
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.errors import SmlabError, nearest
from smlab.hw_bench.gpu.alternatives import AS_DESCRIBED, Alternative, read_alternatives
from smlab.hw_bench.gpu.checks import check_constants, check_rates
from smlab.hw_bench.gpu.constants import Constant, check_value
from smlab.hw_bench.gpu.generations import generation_of
from smlab.hw_bench.gpu.inherit import inherited
from smlab.hw_bench.gpu.schema import ARCHITECTURES, KEYS, KEYS_BY_NAME, KINDS, ConstantKey
from smlab.hw_bench.gpu.tables import TOP_FIELDS, guess_at, read_constants, read_sources
from smlab.hw_bench.inputs import load_toml, resolved

__all__ = ["Constant", "Gpu", "list_gpus", "load_gpu"]

FOLDER: Final = Path(__file__).parent / "boards"
MOST_GUESSES: Final = 4
"""Names that are like an unknown one and are told, at most."""


SM_CLOCK: Final = "clock.sm_hz"
TENSOR_CLOCK: Final = "clock.tensor_hz"


@dataclass(frozen=True, eq=False, repr=False)
class Gpu:
    """A complete, checked description; compared and hashed by identity.

    ``constants`` is in the order of `smlab.hw_bench.gpu.schema.KEYS`. ``alternatives`` are the readings of
    the evidence that it carries, itself the first.
    """

    name: str
    title: str
    architecture: str
    compute_capability: str
    constants: Mapping[str, Constant]
    aliases: tuple[str, ...] = ()
    alternatives: tuple[Alternative, ...] = (AS_DESCRIBED,)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.title}, {len(self.constants)} constants>"

    def __getitem__(self, key: str) -> Constant:
        if key in self.constants:
            return self.constants[key]
        if key in KEYS_BY_NAME:
            raise SmlabError(f"{self.name}: {key}: this GPU's description does not have it")
        raise SmlabError.at(f"{self.name}: {key}", "unknown key", expected=guess_at(key, KEYS_BY_NAME))

    def has(self, key: str) -> bool:
        """Whether the description has ``key``: False for an optional key that is not there."""
        return key in self.constants

    @property
    def identity(self) -> list[tuple[str, str]]:
        """What a kept time on it depends on: every constant with its interval, by key. The clock's interval
        says whether somebody knows it, and energies have ends."""
        return sorted((key, repr((c.value, c.low, c.high))) for key, c in self.constants.items())

    @property
    def sm_architecture(self) -> str:
        """What compilers call its machine code: ``sm_75``."""
        return "sm_" + self.compute_capability.replace(".", "")

    def number(self, key: str) -> float | int:
        """The value of a key that holds a number."""
        value = self[key].value
        if isinstance(value, str):
            raise SmlabError.at(f"{self.name}: {key}", "not a number", value)
        return value

    def integer(self, key: str) -> int:
        """The value of a key that holds a whole number; `SmlabError` where it is not whole."""
        value = self.number(key)
        if value != int(value):
            raise SmlabError.at(f"{self.name}: {key}", "not a whole number", value)
        return int(value)

    def text(self, key: str) -> str:
        """The value of a key that holds a name, such as ``sm.scheduler_policy``."""
        value = self[key].value
        if not isinstance(value, str):
            raise SmlabError.at(f"{self.name}: {key}", "not a name", value)
        return value

    def with_values(
        self,
        values: Mapping[str, int | float | str],
        source: str,
        kind: str = "assumed",
        where: str | None = None,
    ) -> Gpu:
        """The same GPU with other values, all of them checked again; the new ones have no interval.

        ``where`` is what messages name as the place of a bad value; without it, ``source``.
        """
        where = where or source
        if kind not in KINDS:
            raise SmlabError.at(f"{where}: kind", "unknown kind", kind, "one of " + ", ".join(KINDS))
        constants = dict(self.constants)
        for name, value in values.items():
            key = KEYS_BY_NAME.get(name)
            if key is None:
                raise SmlabError.at(f"{where}: {name}", "unknown key", expected=guess_at(name, KEYS_BY_NAME))
            value = _plain(key, value)
            check_value(f"{where}: {name}", key, value)
            constants[name] = Constant(name, value, key.unit, kind, source)
        if SM_CLOCK in values and TENSOR_CLOCK in constants and TENSOR_CLOCK not in values:
            # Somebody knows the clock, whatever runs.
            constants[TENSOR_CLOCK] = replace(constants[SM_CLOCK], key=TENSOR_CLOCK)
        check_constants(f"{where} ({self.name})", self.compute_capability, constants)
        return replace(self, constants=_in_order(constants))

    def at_tensor_clock(self) -> Gpu:
        """The same GPU at the clock of kernels that use tensor cores, with that clock's interval; itself
        where its description tells none."""
        if TENSOR_CLOCK not in self.constants:
            return self
        clock = replace(self.constants[TENSOR_CLOCK], key=SM_CLOCK)
        return replace(self, constants=_in_order({**self.constants, SM_CLOCK: clock}))

    def variants(self) -> tuple[tuple[Alternative, Gpu], ...]:
        """This GPU under each of its alternatives, itself first; answers that hang on the choice give all."""
        return tuple(
            (
                a,
                self.with_values(a.values, f"assumed: alternative {a.name!r}: {a.source}")
                if a.values
                else self,
            )
            for a in self.alternatives
        )


@dataclass(frozen=True)
class _Draft:
    """A description being read: as `Gpu`, but not yet known to be complete."""

    fields: dict[str, str]
    aliases: tuple[str, ...]
    sources: dict[str, str]
    constants: dict[str, Constant]
    alternatives: tuple[Alternative, ...] = ()
    cards: tuple[str, ...] = ()  # the names under which this very card is known


def list_gpus() -> list[str]:
    """The names of the shipped descriptions, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_gpu(name: str | Path) -> Gpu:
    """The GPU of that name or alias, or described by the TOML file at that path."""
    path = _find(name, None)
    if path.parent == FOLDER:
        return _load_shipped(path)
    return _load(path)


@functools.cache
def _load_shipped(path: Path) -> Gpu:
    return _load(path)


def _load(path: Path) -> Gpu:
    draft = _read(path, ())
    for field in ("title", "architecture", "compute_capability"):
        if field not in draft.fields:
            raise SmlabError(f"{path}: {field}: missing")
    generation = generation_of(draft.fields["compute_capability"], draft.cards)
    constants = generation.constants | draft.constants
    check_constants(str(path), draft.fields["compute_capability"], constants)
    check_rates(str(path), constants)
    return Gpu(
        name=path.stem,
        title=draft.fields["title"],
        architecture=draft.fields["architecture"],
        compute_capability=draft.fields["compute_capability"],
        constants=_in_order(constants),
        aliases=draft.aliases,
        alternatives=draft.alternatives or generation.alternatives or (AS_DESCRIBED,),
    )


def _plain(key: ConstantKey, value: int | float | str) -> int | float | str:
    """The value as Python's own number: what NumPy or a computation made of it, where that loses nothing."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        whole = key.type is int and math.isfinite(value) and value == int(value)
        return int(value) if whole else float(value)
    return value


def _in_order(constants: Mapping[str, Constant]) -> dict[str, Constant]:
    return {key.name: constants[key.name] for key in KEYS if key.name in constants}


@functools.cache
def _shipped_names() -> dict[str, Path]:
    """Names and aliases of the shipped descriptions, ``{name: path}``."""
    found = {}
    for path in sorted(FOLDER.glob("*.toml")):
        found[path.stem] = path
        for alias in load_toml(path).get("aliases", []):
            found[alias] = path
    return found


def _find(name: str | Path, by: Path | None) -> Path:
    """The file of a description; ``by`` is the file that extends it, where a relative path starts."""
    text = str(name)
    if isinstance(name, Path) or text.endswith(".toml") or "/" in text or os.sep in text:
        path = Path(name) if by is None else by.parent / name
        if by is not None and not path.is_file():
            what = "is not a file" if path.exists() else "there is no such file"
            raise SmlabError.at(f"{by}: extends", what, text)
        return path
    if text in list_gpus():
        return FOLDER / f"{text}.toml"
    names = _shipped_names()
    if text in names:
        return names[text]
    stems = (text[:length].lower() for length in range(len(text), 2, -1))
    alike = next((some for stem in stems if (some := [known for known in list_gpus() if stem in known])), [])
    guess = " or ".join(alike) if 0 < len(alike) <= MOST_GUESSES else nearest(text, names)
    perhaps = f"perhaps {guess}; " if guess else ""
    hint = f"{perhaps}a name that `smlab gpus` lists, or the path of a .toml file"
    where = "GPU" if by is None else f"{by}: extends"
    raise SmlabError.at(where, "unknown GPU", text, hint)


def _read(path: Path, children: tuple[Path, ...]) -> _Draft:
    """Read a description and, before it, what it extends; ``children`` are the files that led here."""
    here = resolved(path)
    if here in children:
        chain = " -> ".join(p.stem for p in (*children, here))
        raise SmlabError(f"{children[-1]}: extends: goes round in a circle ({chain})")
    data = load_toml(path)
    fields, aliases, same_card, without = _read_top(path, data)
    parent, extended = _Draft({}, (), {}, {}), None
    if "extends" in data:
        name = data["extends"]
        if not isinstance(name, str):
            raise SmlabError.at(f"{path}: extends", "is not a string", name)
        parent = _read(_find(name, path), (*children, here))
        for key in without:
            if key not in parent.constants:
                raise SmlabError.at(
                    f"{path}: without", f"{name} has no such key", key, guess_at(key, KEYS_BY_NAME)
                )
        extended = name
    elif "same_card" in data or "without" in data:
        given = "same_card" if "same_card" in data else "without"
        raise SmlabError(f"{path}: {given}: has a meaning only with extends")
    sources = {**parent.sources, **read_sources(path, data.get("sources", {}))}
    cards = (path.stem, *(parent.cards if same_card else ()))
    alternatives = parent.alternatives
    if "alternatives" in data:
        alternatives = read_alternatives(str(path), data["alternatives"], sources)
    constants: dict[str, Constant] = {}
    read_constants(path, "", {k: v for k, v in data.items() if k not in TOP_FIELDS}, sources, constants)
    if extended is not None:
        constants |= inherited(
            str(path), extended, parent.constants, constants, same_card=same_card, without=without
        )
    return _Draft({**parent.fields, **fields}, aliases, sources, constants, alternatives, cards)


def _read_top(
    path: Path, data: Mapping[str, Any]
) -> tuple[dict[str, str], tuple[str, ...], bool, tuple[str, ...]]:
    """The plain fields at the top of a description: strings, aliases, same_card, without."""
    fields = {}
    for name in ("title", "architecture", "compute_capability"):
        if name in data:
            value = data[name]
            if not isinstance(value, str) or not value.strip():
                raise SmlabError.at(f"{path}: {name}", "is not a string with something in it", value)
            fields[name] = value
    architecture = fields.get("architecture")
    if architecture is not None and architecture not in ARCHITECTURES:
        expected = "one of " + ", ".join(ARCHITECTURES)
        raise SmlabError.at(f"{path}: architecture", "unknown architecture", architecture, expected)
    capability = fields.get("compute_capability")
    if capability is not None:
        parts = capability.split(".")
        if len(parts) != 2 or not all(p.isascii() and p.isdigit() for p in parts):
            raise SmlabError.at(
                f"{path}: compute_capability", "is not a version", capability, "such as '7.0'"
            )
    lists = {}
    for name in ("aliases", "without"):
        value = data.get(name, [])
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise SmlabError.at(f"{path}: {name}", "is not a list of strings", value)
        lists[name] = tuple(value)
    same_card = data.get("same_card", False)
    if not isinstance(same_card, bool):
        raise SmlabError.at(f"{path}: same_card", "is neither true nor false", same_card)
    return fields, lists["aliases"], same_card, lists["without"]
