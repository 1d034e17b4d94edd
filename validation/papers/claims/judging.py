"""Claims judged: their numbers computed, and the verdict that follows (`smlab.validation.papers.judging` has
the rule).

A claim whose needs are all here but which has no quantity is *overdue*: nothing stands in the way of judging
it any more. Its verdict cannot be anything else, but it is counted, and the check and the command fall short
until somebody judges it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from smlab.hw_bench.errors import SmlabError
from smlab.validation.papers.claims.capabilities import find_capability
from smlab.validation.papers.claims.ledger import Claim, Expectation, Ledger
from smlab.validation.papers.claims.registry import Evidence, Observed
from smlab.validation.papers.judging import Met, PaperVerdict, how_far_met, number, verdict_of

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class JudgedCondition:
    """One expectation with what was observed."""

    expectation: Expectation
    observed: Observed
    met: Met

    @property
    def observed_text(self) -> str:
        seen = self.observed
        text = number(seen.value)
        if seen.low < seen.high:
            text += f" ({number(seen.low)} to {number(seen.high)})"
        if unit := self.expectation.quantity.unit:
            text += f" {unit}"
        return text + (f"; {seen.detail}" if seen.detail else "")

    @property
    def observed_line(self) -> str:
        """What was seen, after what it is."""
        return (f"{self.expectation.says}: " if self.expectation.says else "") + self.observed_text


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its verdict; ``missing`` are the needed capabilities that are not here."""

    claim: Claim
    verdict: PaperVerdict
    outcomes: tuple[JudgedCondition, ...]
    missing: tuple[str, ...]

    @property
    def overdue(self) -> bool:
        """Whether it is called unjudgeable though nothing that it names is missing."""
        return self.verdict is PaperVerdict.UNJUDGED and not self.missing and not self.outcomes

    @property
    def evidence(self) -> Evidence | None:
        """What the verdict rests on; None where the claim could not be judged."""
        return self.claim.evidence if self.outcomes else None

    @property
    def expected(self) -> str:
        return "; ".join(
            (f"{e.says}: " if e.says else "") + e.range.text(e.quantity.unit) for e in self.claim.expects
        )

    @property
    def observed(self) -> str:
        if len(self.outcomes) == 1:
            return self.outcomes[0].observed_text
        if self.outcomes:
            return "; ".join(f"{o.observed_line} [{o.met}]" for o in self.outcomes)
        if self.overdue:
            return "nothing yet, but all that it needs is here now: give it a quantity"
        return "nothing: needs " + "; ".join(find_capability(self.claim.id, m).what for m in self.missing)

    def as_row(self) -> dict[str, Any]:
        """Plain values: the agreed keys of `smlab claims --json`, and the details."""
        claim = self.claim
        return {
            "id": claim.id,
            "source": claim.source,
            "claim": claim.claim,
            "expected": self.expected,
            "observed": self.observed,
            "evidence": self.evidence,
            "verdict": str(self.verdict),
            "needs": list(self.missing),
            "command": claim.command,
            "note": claim.note,
            "conditions": [
                {
                    "quantity": o.expectation.quantity.name,
                    "arguments": o.expectation.arguments,
                    "says": o.expectation.says,
                    "unit": o.expectation.quantity.unit,
                    "low": o.expectation.range.low,
                    "high": o.expectation.range.high,
                    "why": o.expectation.why,
                    "value": o.observed.value,
                    "value_low": o.observed.low,
                    "value_high": o.observed.high,
                    "detail": o.observed.detail,
                    "necessary": o.expectation.necessary,
                    "met": str(o.met),
                }
                for o in self.outcomes
            ],
        }


def judge(claim: Claim) -> JudgedClaim:
    """Compute what the claim asks for and give the verdict.

    Raises:
        SmlabError: a quantity that cannot be computed, naming the claim: never a verdict without a number.
    """
    missing = tuple(n for n in claim.needs if not find_capability(claim.id, n).present)
    if missing or not claim.expects:
        return JudgedClaim(claim, PaperVerdict.UNJUDGED, (), missing)
    outcomes = []
    for expectation in claim.expects:
        try:
            observed = expectation.quantity.compute(expectation.arguments)
        except SmlabError as error:
            raise SmlabError(f"claim {claim.id}: {error}") from error
        met = how_far_met(
            expectation.range, expectation.quantity.scale, observed.value, observed.low, observed.high
        )
        outcomes.append(JudgedCondition(expectation, observed, met))
    verdict = verdict_of([o.met for o in outcomes], [e.necessary for e in claim.expects])
    return JudgedClaim(claim, verdict, tuple(outcomes), ())


def tally(judged: Sequence[JudgedClaim]) -> str:
    """Such as ``64 hold, 41 hold in part, 22 do not hold, 22 cannot be judged here``."""
    return ", ".join(f"{sum(j.verdict is v for j in judged)} {v.of_many}" for v in PaperVerdict)


def judge_all(ledger: Ledger, *, quick: bool = False, progress: Progress | None = None) -> list[JudgedClaim]:
    """All claims in the order of the file, or the quick ones alone."""
    chosen = [c for c in ledger.claims if c.quick or not quick]
    found = []
    for done, claim in enumerate(chosen, start=1):
        found.append(judge(claim))
        if progress is not None:
            progress(done, len(chosen))
    return found
