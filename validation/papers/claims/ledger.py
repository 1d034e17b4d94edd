"""Reading and checking ``claims.toml``: papers, claims, the ranges that would confirm them.

A claim is written like this::

    [[claim]] id = "dp-spread" paper = "dong-pai" place = "Section 1" claim = "What the paper says, in our
    words." expects = [ { quantity = "service_table.spread", with = { gpu = "titan-v" }, low = 10, why = "what
    is claimed" } ]

``low`` and ``high`` (one of them may be missing) are the range in which the quantity confirms the claim; what
"in part" is follows from it (`smlab.validation.papers.judging`). ``necessary = true`` marks a condition that
can refute the claim and confirms nothing. ``needs`` lists capabilities without which the claim cannot be
judged. There is no key for a verdict.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.toml_files import read_toml
from smlab.validation.papers.claims.capabilities import find_capability
from smlab.validation.papers.claims.registry import Evidence, Quantity, find_quantity
from smlab.validation.papers.judging import Range

LEDGER_FILE: Final = Path(__file__).parent / "claims.toml"


@dataclass(frozen=True)
class Expectation:
    """One number that a claim depends on: how it is computed, the range that confirms, and why this range.

    ``necessary``: where it misses the range the claim is refuted, where it lies in it nothing is confirmed.
    """

    quantity: Quantity
    arguments: dict[str, Any]
    says: str
    range: Range
    why: str
    necessary: bool


@dataclass(frozen=True)
class Claim:
    """A checked claim. ``expects`` is empty where nothing here could judge it yet; then ``needs`` says
    what is missing."""

    id: str
    paper: str
    source: str
    claim: str
    expects: tuple[Expectation, ...]
    needs: tuple[str, ...]
    command: str
    note: str

    @property
    def quick(self) -> bool:
        """Whether judging takes no time to speak of."""
        return all(e.quantity.quick for e in self.expects)

    @property
    def evidence(self) -> Evidence | None:
        """What its quantities rest on; None where it has none."""
        return self.expects[0].quantity.evidence if self.expects else None


@dataclass(frozen=True)
class Ledger:
    """``papers`` gives the citation of each paper by its short name, in the order of the file."""

    papers: dict[str, str]
    claims: tuple[Claim, ...]


class _Expect(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    quantity: str
    arguments: dict[str, str | int | float | bool | list[str] | list[int] | list[float]] = Field(
        default_factory=dict, alias="with"
    )
    says: str = ""
    low: float | None = None
    high: float | None = None
    necessary: bool = False
    why: str = Field(min_length=1)


class _Claim(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    paper: str
    place: str = Field(min_length=1)
    claim: str = Field(min_length=1)
    expects: list[_Expect] = Field(default_factory=list)
    needs: list[str] = Field(default_factory=list)
    command: str = ""
    note: str = ""


class _Paper(BaseModel):
    model_config = ConfigDict(extra="forbid")

    short: str = Field(min_length=1)
    citation: str = Field(min_length=1)


class _LedgerFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    paper: dict[str, _Paper]
    claim: list[_Claim] = Field(min_length=1)


def load_ledger(path: Path = LEDGER_FILE) -> Ledger:
    """All claims, checked; `SmlabError` naming the file, the claim and the key of what is wrong."""
    content = read_toml(path, _LedgerFile)
    claims: dict[str, Claim] = {}
    for raw in content.claim:
        where = f"{path.name}: claim {raw.id}"
        if raw.id in claims:
            raise SmlabError.at(where, "two claims have this id")
        if raw.paper not in content.paper:
            raise SmlabError.at(
                f"{where}: paper", "unknown paper", raw.paper, "one of " + ", ".join(content.paper)
            )
        claims[raw.id] = _checked(where, raw, content.paper[raw.paper].short)
    papers = {paper.short: paper.citation for paper in content.paper.values()}
    return Ledger(papers, tuple(claims.values()))


def _checked(where: str, raw: _Claim, paper: str) -> Claim:
    if not raw.expects and not raw.needs:
        raise SmlabError.at(
            where, "names neither a quantity nor what is missing", expected="expects or needs"
        )
    for name in raw.needs:
        find_capability(f"{where}: needs", name)
    expects = tuple(_expectation(f"{where}: expects.{i}", e) for i, e in enumerate(raw.expects))
    kinds = {e.quantity.evidence for e in expects}
    if len(kinds) > 1:
        raise SmlabError.at(where, "mixes kinds of evidence", sorted(kinds), "a claim for each")
    return Claim(
        id=raw.id,
        paper=paper,
        source=f"{paper}, {raw.place}",
        claim=raw.claim,
        expects=expects,
        needs=tuple(raw.needs),
        command=raw.command or f"smlab claims --only {raw.id}",
        note=raw.note,
    )


def _expectation(where: str, raw: _Expect) -> Expectation:
    found = find_quantity(f"{where}.quantity", raw.quantity)
    found.check_arguments(f"{where}.with", raw.arguments)
    if raw.low is None and raw.high is None:
        raise SmlabError.at(where, "no range that would confirm the claim", expected="low, high or both")
    confirms = _range(where, raw.low, raw.high)
    return Expectation(found, dict(raw.arguments), raw.says, confirms, raw.why, raw.necessary)


def _range(where: str, low: float | None, high: float | None) -> Range:
    made = Range(-math.inf if low is None else low, math.inf if high is None else high)
    if made.low > made.high:
        raise SmlabError.at(where, "an empty range", (made.low, made.high), "low at most high")
    return made
