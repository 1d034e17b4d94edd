"""The ledger's file: what it must hold, and how what is wrong with it is told."""

import re
import tomllib
from pathlib import Path

import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.validation.papers.claims import load_ledger
from smlab.validation.papers.claims.ledger import CAPABILITIES, LEDGER_FILE
from smlab.validation.papers.claims.published import FOLDER
from smlab.validation.papers.claims.registry import EVIDENCE, quantities

HEAD = """
[paper.p]
short = "P"
citation = "Somebody, a paper"

[[claim]]
id = "a-claim"
paper = "p"
place = "Section 1"
claim = "Something is so."
"""

EXPECTS = (
    'expects = [{ quantity = "advisor.bound_of_equation_4", with = { samples = 100 }, high = 2, why = '
    '"theorem" }]'
)


def written(folder: Path, text: str) -> Path:
    path = folder / "claims.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_ledger_holds_claims_of_every_paper() -> None:
    ledger = load_ledger()
    assert len(ledger.claims) >= 60
    assert {c.paper for c in ledger.claims} == set(ledger.papers)
    assert len({c.id for c in ledger.claims}) == len(ledger.claims)
    for claim in ledger.claims:
        assert claim.expects or claim.needs
        assert claim.evidence in (*EVIDENCE, None)
        assert all(e.why for e in claim.expects)
        assert claim.command.startswith("smlab ")


def test_every_quantity_and_capability_is_used_and_documented() -> None:
    claims = load_ledger().claims
    used = {e.quantity.name for c in claims for e in c.expects}
    assert used == set(quantities())
    assert all(q.doc for q in quantities().values())
    assert {n for c in claims for n in c.needs} == set(CAPABILITIES)


def test_a_claim_has_the_parts_that_the_file_gives(tmp_path: Path) -> None:
    (claim,) = load_ledger(written(tmp_path, HEAD + EXPECTS)).claims
    assert claim.source == "P, Section 1"
    assert claim.command == "smlab claims --only a-claim"
    assert claim.evidence == "published"
    (expected,) = claim.expects
    assert expected.arguments == {"samples": 100}
    assert expected.range.text(expected.quantity.unit) == "at most 2 x"


@pytest.mark.parametrize(
    ("tail", "told"),
    [
        ('verdict = "holds"', "verdict"),
        ("", "neither a quantity nor what is missing"),
        ('needs = ["gpu:titan-w"]', "perhaps gpu:titan-v"),
        (EXPECTS.replace("equation_4", "equation_5"), "perhaps advisor.bound_of_equation_4"),
        (EXPECTS.replace("samples", "sample"), "(samples: 'int')"),
        (EXPECTS.replace("high = 2, ", ""), "no range that would confirm"),
        (EXPECTS.replace("high = 2", "low = 3, high = 2"), "an empty range"),
        (EXPECTS.replace("high = 2", "high = 2, part_high = 3"), "part_high"),
        (EXPECTS.replace('why = "theorem"', 'why = ""'), "why"),
        (EXPECTS.replace("high = 2", "high = nan"), "finite"),
        (
            EXPECTS.replace(
                "[{", '[{ quantity = "service_table.spread", with = { gpu = "v100" }, low = 1, why = "w" }, {'
            ),
            "mixes kinds of evidence",
        ),
        (HEAD[HEAD.index("[[claim]]") :] + EXPECTS, "neither a quantity"),
        (EXPECTS + "\n" + HEAD[HEAD.index("[[claim]]") :] + EXPECTS, "two claims have this id"),
        ("expects = [", "not valid TOML"),
        (EXPECTS + '\n[[claim]]\nid = "Not An Id"\npaper = "p"\nplace = "s"\nclaim = "c"', "id"),
    ],
)
def test_what_is_wrong_with_a_ledger_is_told_in_one_line(tmp_path: Path, tail: str, told: str) -> None:
    with pytest.raises(SmlabError) as caught:
        load_ledger(written(tmp_path, HEAD + tail))
    message = str(caught.value)
    assert told in message
    assert "claims.toml" in message
    assert "\n" not in message


def test_an_unknown_paper_and_a_missing_file_are_told(tmp_path: Path) -> None:
    with pytest.raises(SmlabError, match="unknown paper"):
        load_ledger(written(tmp_path, HEAD.replace('paper = "p"', 'paper = "q"') + EXPECTS))
    with pytest.raises(SmlabError, match="there is no such file"):
        load_ledger(tmp_path / "none.toml")


def sequences(text: str, length: int) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-z0-9.%]+", text.lower())
    return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)}


def test_claims_are_in_our_words(shared_papers: Path) -> None:
    """No seven words in a row of a claim or note stand in a paper. (The papers are not part of the
    repository.)"""
    theirs = set().union(*(sequences(p.read_text(encoding="utf-8"), 7) for p in shared_papers.glob("*.txt")))
    content = tomllib.loads(LEDGER_FILE.read_text(encoding="utf-8"))
    for claim in content["claim"]:
        for text in (claim["claim"], claim.get("note", "")):
            assert not sequences(text, 7) & theirs, claim["id"]


def test_the_tables_are_as_printed(shared_papers: Path) -> None:
    """Every number of the tables stands in the paper's text."""
    texts = {
        "zhou2021": "zhou-2021-gpa-advisor.txt",
        "coyne2025": "coyne-2025-performance-portability-v100-a100.txt",
        "vanlanker2024": "vanlanker-2024-roofline-projection.txt",
    }
    assert {p.stem for p in FOLDER.glob("*.toml")} == set(texts)
    for name, file in texts.items():
        text = (shared_papers / file).read_text(encoding="utf-8")
        printed = {float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", text)}
        table = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
        lines = [line for line in table.splitlines() if not line.startswith(("#", "source", "title"))]
        body = re.sub(r'"[^"]*"|\[[a-z0-9.-]+\]$', "", "\n".join(lines), flags=re.MULTILINE)
        body = re.sub(r"[a-z][a-z0-9_-]*", "", body)  # keys
        for number in re.findall(r"-?\d+(?:\.\d+)?", body):
            value = float(number)
            # Table 5.6 prints its elements as powers of two; the digits of a speedup are ours.
            power = name == "coyne2025" and value in {2.0**k for k in (4, 8, 10, 12, 13, 14, 15, 16, 17)}
            assert value in printed or power or number == "0.01", (name, number)
