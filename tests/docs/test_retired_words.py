"""Words that smlab no longer uses stand in no name, message, docstring or document.

`docs/retired-words.toml` has the words, what stands in their place, and where a word may stay.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PACKAGES = ("hw_bench", "sim", "models", "validation", "smlab", "tests", "benchmarks", "examples")
ABOUT_WORDS = ("docs/glossary.md", "CHANGELOG.md", "tests/docs/test_retired_words.py")
"""Files that are about the words, or about the time before."""


@pytest.fixture(scope="module")
def listed(repository: Path) -> dict[str, Any]:
    return tomllib.loads((repository / "docs/retired-words.toml").read_text(encoding="utf-8"))


def _names(path: Path, tree: ast.Module) -> Iterator[str]:
    """Of a module: its own name and all that it defines. A test's name is a sentence."""
    yield path.stem
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test_"):
                pass
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def _prose(tree: ast.Module) -> Iterator[str]:
    """Docstrings and messages: every text with a space in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield " ".join(node.value.split())


def _uses(path: Path, rows: list[dict[str, Any]]) -> list[str]:
    """The retired words that a file uses, with the name or the text around each."""
    text = path.read_text(encoding="utf-8")
    names: list[str] = []
    prose = [" ".join(text.split())]
    if path.suffix == ".py":
        tree = ast.parse(text)
        names, prose = [*dict.fromkeys(_names(path, tree))], list(_prose(tree))
    uses = []
    # Nearly no pattern is found, so all lines are searched at once first.
    all_names, all_prose = "\n".join(names), "\n".join(prose)
    for row in rows:
        if "name" in row and re.search(row["name"], all_names, re.MULTILINE):
            uses += [f"{row['word']}: {name}" for name in names if re.search(row["name"], name)]
        if "prose" in row and re.search(row["prose"], all_prose, re.MULTILINE):
            found = (match for piece in prose for match in re.finditer(row["prose"], piece))
            uses += [f"{row['word']}: {m.string[max(0, m.start() - 30) : m.end() + 30]}" for m in found]
    return uses


def _files(repository: Path) -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((repository / package).rglob("*.py"))
    for folder in ("docs", "sim", "validation", "hw_bench"):
        yield from sorted((repository / folder).rglob("*.md"))
    yield from repository.glob("*.md")


def test_no_retired_word_is_used(repository: Path, listed: dict[str, Any]) -> None:
    rows = [row for row in listed["word"] if row["enforce"]]
    assert len(rows) > 20
    uses = {str(path.relative_to(repository)): _uses(path, rows) for path in _files(repository)}
    wrong = {path: found for path, found in uses.items() if found and path not in ABOUT_WORDS}
    assert wrong == {}


def test_what_is_not_enforced_has_a_reason(listed: dict[str, Any]) -> None:
    assert [row["word"] for row in listed["word"] if not row["enforce"] and not row.get("reason")] == []


def test_a_planted_word_is_seen(listed: dict[str, Any], tmp_path: Path) -> None:
    rows = [row for row in listed["word"] if row["enforce"]]
    clean, planted, page = (tmp_path / name for name in ("clean.py", "crowd.py", "page.md"))
    clean.write_text('"""Jobs that arrive at once."""\n\n\ndef arrivals(n: int) -> int:\n    return n\n')
    assert _uses(clean, rows) == []
    planted.write_text('def issue(pace: int) -> str:\n    return f"a brain float of {pace}"\n')
    assert sorted(use.partition(":")[0] for use in _uses(planted, rows)) == [
        "brain, brain float",
        "crowd",
        "pace",
    ]
    page.write_text("The lines are asked for ahead.\n")
    assert len(_uses(page, rows)) == 1


def test_old_names_of_modules_and_identifiers_are_gone(repository: Path, listed: dict[str, Any]) -> None:
    """What was renamed stays renamed."""
    old = set(listed["names"])
    used = {}
    for package in PACKAGES[:5]:
        for path in sorted((repository / package).rglob("*.py")):
            names = set(_names(path, ast.parse(path.read_text(encoding="utf-8")))) & old
            if names:
                used[str(path.relative_to(repository))] = names
    assert used == {}
