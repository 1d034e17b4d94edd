"""``smlab.claims``: what the papers claim, judged by code in this run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smlab.commands.frames import TabularResult, dataframe
from smlab.hw_bench.errors import SmlabError, nearest
from smlab.validation.papers.claims import Claim, JudgedClaim, Ledger, judge_all, load_ledger, tally

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class ClaimsResult(TabularResult):
    """The chosen claims and the judgements; ``left_out`` are ids that take longer than ``quick`` allows."""

    ledger: Ledger
    judged: tuple[JudgedClaim, ...]
    left_out: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<{len(self.judged)} claims: {tally(self.judged)}>"

    @property
    def overdue(self) -> tuple[str, ...]:
        """Claims that name as missing what is here by now."""
        return tuple(j.claim.id for j in self.judged if j.overdue)

    def to_dataframe(self) -> pd.DataFrame:
        """One row a claim, with the keys of ``smlab claims --json``."""
        return dataframe([j.as_row() for j in self.judged])


def claims(
    only: Sequence[str] = (),
    *,
    sources: Sequence[str] = (),
    quick: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ClaimsResult:
    """Judge what the papers behind smlab claim.

    Args:
        only: ids, or what ids begin with; all claims without.
        sources: papers, as ``Dong & Pai`` or the beginning of it in any case; all papers without.
        quick: only what is judged within seconds.
        progress: told ``(done, total)`` claims.

    Raises:
        SmlabError: an unknown id or paper.
    """
    wanted = (only,) if isinstance(only, str) else only
    papers = (sources,) if isinstance(sources, str) else sources
    for name, words in (("only", wanted), ("sources", papers)):
        if not isinstance(words, Sequence) or not all(isinstance(w, str) for w in words):
            raise SmlabError.at(
                name, "not a word, nor several", words, "ids of claims, or short names of papers"
            )
    ledger = load_ledger()
    chosen = Ledger(ledger.papers, of_sources(ledger, choose(ledger, wanted), papers))
    judged = judge_all(chosen, quick=quick, progress=progress)
    left_out = tuple(c.id for c in chosen.claims if quick and not c.quick)
    return ClaimsResult(chosen, tuple(judged), left_out)


def choose(ledger: Ledger, only: Sequence[str]) -> tuple[Claim, ...]:
    """The claims of these ids, or of the ids that begin so; all of them without ids. `SmlabError` for an
    unknown id."""
    if not only:
        return ledger.claims
    ids = {c.id for c in ledger.claims}
    for wanted in only:
        if not any(i == wanted or i.startswith(f"{wanted}-") for i in ids):
            guess = nearest(wanted, ids)
            raise SmlabError.at(
                "--only", "no such claim", wanted, f"perhaps {guess}" if guess else "an id of `smlab claims`"
            )
    return tuple(c for c in ledger.claims if any(c.id == w or c.id.startswith(f"{w}-") for w in only))


def of_sources(ledger: Ledger, chosen: Sequence[Claim], sources: Sequence[str]) -> tuple[Claim, ...]:
    """Those of the claims that are of these papers; all without. `SmlabError` for an unknown paper."""
    papers = set()
    for wanted in sources:
        found = [short for short in ledger.papers if short.casefold().startswith(wanted.strip().casefold())]
        exact = [short for short in found if short.casefold() == wanted.strip().casefold()]
        if not (exact or found) or not wanted.strip():
            raise SmlabError.at("--source", "no such paper", wanted, "one of " + "; ".join(ledger.papers))
        papers |= set(exact or found)
    return tuple(c for c in chosen if not sources or c.paper in papers)
