"""`make look` finds what it is for; where there is no Chromium it says so."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from smlab.validation.report import Report

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def look(repository: Path, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(repository / ".ci" / "look.py"), str(page), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_no_page_and_no_browser_are_told(repository: Path, tmp_path: Path) -> None:
    missing = look(repository, tmp_path / "none.html")
    assert missing.returncode == 2
    assert "no such page" in missing.stderr


@pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="not looked at: no Chromium here")
def test_a_report_is_as_it_should_be_and_what_sticks_out_is_found(repository: Path, tmp_path: Path) -> None:
    report = Report("A report", "of little")
    section = report.section("s", "Section", "word " * 50)
    section.text("`" + "long" * 80 + "`")
    page = report.write(tmp_path)
    good = look(repository, page, "--out", str(tmp_path / "look"))
    assert good.returncode == 0, good.stderr
    assert {p.name for p in (tmp_path / "look").glob("*.png")} == {
        f"report-{width}-{scheme}{part}.png"
        for width in (1280, 420)
        for scheme in ("light", "dark")
        for part in ("", "-first")
    }
    html = page.read_text().replace(
        "</main>",
        '<div style="width: 2000px">wide</div><img src="none.png" alt="lost">'
        '<p style="font-size: 11px">fine print</p></main>',
    )
    bad = tmp_path / "bad.html"
    bad.write_text(html)
    wrong = look(repository, bad, "--out", str(tmp_path / "look"), "--max-screens", "0.1")
    assert wrong.returncode == 1
    for told in (
        "scrolls sideways: div",
        "a picture is missing: lost",
        "under 12 px: p",
        "screens, at most 0.1 asked",
    ):
        assert told in wrong.stderr
