"""``python -m smlab.validation.campaigns.studies``: run the five studies whole and write their answers
as a page."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from smlab.hw_bench.errors import SmlabError
from smlab.validation.campaigns.studies.book import CHAPTERS
from smlab.validation.campaigns.studies.page import add_studies
from smlab.validation.campaigns.studies.points import points_of
from smlab.validation.report import Report


def main() -> int:
    """Exit status 0, or 2 with a line for what cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m smlab.validation.campaigns.studies", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/studies"), help="folder of the page")
    parser.add_argument("--jobs", type=int, default=None, help="worker processes; one a processor by default")
    given = parser.parse_args()
    try:
        run(given.out, given.jobs)
    except SmlabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def run(out: Path, jobs: int | None) -> None:
    """Run everything, print the answers, and write the page into ``out``."""
    began = time.perf_counter()
    frames = {}
    for chapter in CHAPTERS:
        for file in chapter.files:
            before = time.perf_counter()
            frames[chapter.folder, file] = points_of(chapter.folder, file, jobs=jobs)
            spent = time.perf_counter() - before
            print(
                f"{chapter.folder}/{file}: {len(frames[chapter.folder, file]):,} points in {spent:.1f} s",
                file=sys.stderr,
            )
    page = Report("Five what-if studies", "Run whole, as their files say.")
    section = page.section(
        "whatif", "What if: five studies", "Files and READMEs are in `validation/campaigns/studies/`."
    )
    for folder, answer in add_studies(page, section, frames, lambda _: None).items():
        print(f"\n{folder}\n{answer.text}")
    path = page.write(out)
    print(f"\n{path} ({time.perf_counter() - began:.0f} s)", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
