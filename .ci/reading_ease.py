"""`make reading`: how easily the documents read, as textstat's Flesch reading ease of each page.

    python .ci/reading_ease.py [--least 45] PAGE...

100 is very easy, 0 very hard. Only prose counts: code, tables, headings, addresses of links and numbers
(which would count as words of one syllable) do not. A line for each page, hardest first; the status is 1
where one is below the least that was asked."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import textstat

LEAST = 45.0
FEW_WORDS = 40
"""Below so many words of prose a page has no number."""


def prose(text: str) -> str:
    """The sentences of a Markdown page, without what is no prose."""
    text = re.sub(r"^(`{3,}).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->|<[^>]+>", "", text, flags=re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\{#[^}]*\}", "", text)
    text = re.sub(r"`[^`]*`|(?<![A-Za-z0-9])[-+]?\d[\d.,/x]*(?= |\b)", "", text)
    paragraphs, lines = [], []
    for line in [*text.splitlines(), ""]:
        bare = line.strip()
        if bare.startswith(("|", "#")) or re.fullmatch(r"[-=|: ]*", bare) or line.startswith("    "):
            paragraphs.append(" ".join(lines))
            lines = []
        elif re.match(r"[-*] |\d+\. ", bare):
            paragraphs.append(" ".join(lines))
            lines = [re.sub(r"^([-*]|\d+\.) ", "", bare)]
        else:
            lines.append(bare)
    ended = (p if re.search(r"[.!?:]\W*$", p) else p + "." for p in paragraphs if p.strip())
    return re.sub(r"[*_]+", "", "\n".join(ended)).replace(":\n", ".\n")


def main() -> int:
    """The status: 0 where all pages read easily enough, else 1."""
    parser = argparse.ArgumentParser(description="The Flesch reading ease of Markdown pages.")
    parser.add_argument("pages", type=Path, nargs="+")
    parser.add_argument("--least", type=float, default=LEAST)
    options = parser.parse_args()
    eases = {}
    for page in options.pages:
        text = prose(page.read_text(encoding="utf-8"))
        if len(text.split()) >= FEW_WORDS:
            eases[page] = textstat.flesch_reading_ease(text)
    for page, ease in sorted(eases.items(), key=lambda item: item[1]):
        print(f"{ease:5.1f}  {page}")
    hard = [page for page, ease in eases.items() if ease < options.least]
    print(f"{len(eases) - len(hard)} of {len(eases)} pages at {options.least:g} or above")
    return 1 if hard else 0


if __name__ == "__main__":
    sys.exit(main())
