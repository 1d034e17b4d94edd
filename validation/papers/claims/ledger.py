"""The ledger of claims: reading and checking ``claims.toml``, and judging each claim by its numbers
(`smlab.validation.papers.judging` has the rule).

A claim is written like this::

    [[claim]]
    id = "dp-spread"
    paper = "dong-pai"
    place = "Section 1"
    claim = "What the paper says, in our words."
    expects = [{ quantity = "service_table.spread", with = { gpu = "titan-v" }, low = 10,
                 why = "what is claimed" }]

``low`` and ``high`` (one of them may be missing) are the range in which the quantity confirms the claim;
what "in part" is follows from it (`smlab.validation.papers.judging`). ``necessary = true`` marks a
condition that can refute the claim and confirms nothing. ``needs`` lists capabilities without which the
claim cannot be judged. There is no key for a verdict.

A claim that lists a missing capability cannot be judged here. Probes look for the capability itself at
each run: a claim whose needs are all here but which has no quantity is *overdue*. It is counted, and the
check and the command fall short until somebody judges it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from smlab.hw_bench import datasets
from smlab.hw_bench.errors import SmlabError, nearest
from smlab.hw_bench.gpu.toml_files import read_toml
from smlab.validation.papers.claims.registry import Evidence, Observed, Quantity, find_quantity
from smlab.validation.papers.judging import Met, PaperVerdict, Range, how_far_met, number, verdict_of

DATA: Final = Path(datasets.__file__).parent / "measured"
"""Data sets measured on hardware, a folder for each GPU."""


@dataclass(frozen=True)
class Capability:
    """``what`` it is, in words that say how it could be had; ``probe`` tells whether it is here."""

    name: str
    what: str
    probe: Callable[[], bool]

    @property
    def present(self) -> bool:
        return self.probe()


def _has_data(folder: str) -> bool:
    """Whether a data set lies there: at least one table."""
    place = DATA / folder
    return place.is_dir() and any(f.suffix in (".csv", ".gz", ".parquet") for f in place.rglob("*.*"))


def _has_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is not there
        return False


def _has_instruction(name: str) -> bool:
    from smlab.sim.instructions import CLASSES

    return name in CLASSES


def _has_toolchain() -> bool:
    from smlab.hw_bench.cuda.contract.compiler import find_disassembler
    from smlab.hw_bench.cuda.toolkit import require_compiler

    try:
        require_compiler()
        find_disassembler("sm_70")
    except SmlabError:
        return False
    return True


def _gpu(name: str, title: str) -> Capability:
    what = f"a data set measured on a {title} (`smlab bench run`), in hw_bench/datasets/measured/{name}/"
    return Capability(f"gpu:{name}", what, partial(_has_data, name))


def _profiles(name: str, what: str) -> Capability:
    return Capability(
        f"profiles:{name}",
        f"profiles of {what}, in hw_bench/datasets/measured/profiles/{name}/",
        partial(_has_data, f"profiles/{name}"),
    )


def _module(name: str, module: str, what: str) -> Capability:
    return Capability(name, what, partial(_has_module, module))


CAPABILITIES: Final[dict[str, Capability]] = {
    c.name: c
    for c in (
        _gpu("titan-v", "Titan V"),
        _gpu("a6000", "RTX A6000"),
        _gpu("v100", "V100"),
        _gpu("a100-80", "A100 80 GB SXM"),
        _profiles("hydro1d", "Hydro1D on V100, A100 and H100"),
        _profiles("uvmbench", "UVMBench on V100, A100 and H100"),
        _profiles("quicksilver", "Quicksilver on V100, A100 and H100"),
        _profiles("lulesh", "LULESH on V100, A100 and H100"),
        _profiles("minimdock", "miniMDock on V100, A100 and H100"),
        _profiles("rodinia", "the Rodinia kernels of GPA's Table III, sampled, before and after the change"),
        _profiles("turboseti", "turboSETI's hitsearch kernel on V100 and A100"),
        _profiles("raft", "RAFT's make_regression and cuML's nearest neighbours on V100 and A100"),
        _module(
            "study:histogram",
            "smlab.validation.papers.histogram.facts",
            "the histogram study (`smlab case histogram`)",
        ),
        Capability(
            "toolchain:cuda", "the CUDA compiler packages and nvdisasm (the extra cuda12)", _has_toolchain
        ),
        _module(
            "study:roofline",
            "smlab.validation.papers.claims.quantities.projection_simulated",
            "the simulated judge of the roofline, as stored",
        ),
        _module(
            "model:advisor", "smlab.models.advisor", "a model of what an optimization would gain, from stalls"
        ),
        Capability(
            "simulator:shuffle", "warp shuffles in the simulator", partial(_has_instruction, "shuffle")
        ),
        Capability(
            "simulator:global-atomic",
            "atomics on global memory, with contention in L2, in the simulator",
            partial(_has_instruction, "global-atomic"),
        ),
    )
}


def find_capability(where: str, name: str) -> Capability:
    """The capability of that name; `SmlabError` with the nearest name otherwise."""
    if name not in CAPABILITIES:
        guess = nearest(name, CAPABILITIES)
        expected = f"perhaps {guess}" if guess else "one of " + ", ".join(CAPABILITIES)
        raise SmlabError.at(where, "unknown capability", name, expected)
    return CAPABILITIES[name]


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
