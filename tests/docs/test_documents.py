"""The documents say what is so: commands run as printed, outputs are those shown, named paths exist."""

from __future__ import annotations

import difflib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/tutorial.md",
    "docs/porting.md",
    "docs/measuring-on-a-gpu.md",
    "hw_bench/datasets/measured/README.md",
    "sim/SEMANTICS.md",
    "validation/experiments/studies/README.md",
)

SETUP = ("pip install .", "make validate", "make test", "make docs")
"""Commands that set up, or are tested by being what they are: not run here."""
LONG = (
    "smlab case histogram",
    "smlab claims",
    "smlab validate",
    "smlab whatif --example",
    "smlab bench calibrate",
)
"""Commands of the README that take more than some ten seconds: run with ``--thorough``. Each runs in the
tests of its own subject too."""


@pytest.fixture(scope="session")
def console(repository: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("console", repository / "docs" / "console.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["console"] = module
    spec.loader.exec_module(module)
    return module


TUTORIALS = ("tutorial.md", "porting.md")


@pytest.mark.parametrize("name", TUTORIALS)
def test_the_tutorial_prints_what_it_shows(
    repository: Path, console: Any, warm_smlab: Path, name: str
) -> None:
    old = (repository / "docs" / name).read_text(encoding="utf-8")
    new = console.rerun(old, warm_smlab)
    changed = "".join(
        difflib.unified_diff(old.splitlines(True), new.splitlines(True), "shown", "printed", n=0)
    )
    assert old == new, f"read the difference, mend the prose, then `make tutorial`:\n{changed}"


@pytest.mark.parametrize(("name", "least"), [("tutorial.md", 12), ("porting.md", 4)])
def test_the_figures_in_the_tutorial_s_prose_are_printed(
    repository: Path, console: Any, name: str, least: int
) -> None:
    """Every number with a decimal, a percentage, a thousands comma or an x is in an output, when rounded."""
    text = (repository / "docs" / name).read_text(encoding="utf-8")
    printed = " ".join(command.printed for command in console.commands(text))
    values = [float(n.replace(",", "")) for n in re.findall(r"\d[\d,]*(?:\.\d+)?", printed)]
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)", "", prose)
    figures = re.findall(r"\d+(?:,\d{3})+|\d+\.\d+|\d+(?= %| to \d+ %|x)", prose)
    assert len(figures) > least
    for figure in figures:
        digits = len(figure.partition(".")[2])
        wanted = float(figure.replace(",", ""))
        assert any(round(v, digits) == wanted for v in values), f"{figure} stands in no output"


def test_a_changed_output_is_seen_and_written_anew(console: Any) -> None:
    text = "before\n\n```console\n$ echo 4.2\n4.1\nold\n$ echo two | head -n 1\n```\n\nafter\n"
    (first, second) = console.commands(text)
    assert (first.text, first.line, first.printed) == ("echo 4.2", 4, "4.1\nold")
    assert second.printed == ""
    now = console.rerun(text)
    assert now == "before\n\n```console\n$ echo 4.2\n4.2\n$ echo two | head -n 1\ntwo\n```\n\nafter\n"
    assert console.rerun(now) == now
    with pytest.raises(RuntimeError, match=r"line 2: exit 3: status 3"):
        console.rerun("```console\n$ exit 3\n```\n")


def readme_commands(repository: Path, console: Any) -> list[str]:
    lines: list[str] = console.shell_lines((repository / "README.md").read_text(encoding="utf-8"))
    return [line for line in lines if line not in SETUP]


def test_the_readme_s_commands_run_as_printed(
    repository: Path, console: Any, warm_smlab: Path, tmp_path: Path
) -> None:
    """In an empty folder, one after the other, as a newcomer would."""
    lines = readme_commands(repository, console)
    assert lines[:3] == [f"smlab {name} --example" for name in ("utilization", "roofline", "project")]
    run_all(console, [line for line in lines if not line.startswith(LONG)], tmp_path, warm_smlab)
    for picture in ("utilization.png", "roofline.png"):
        with Image.open(tmp_path / picture) as image:
            assert min(image.size) > 300


@pytest.mark.thorough
def test_the_long_commands_of_the_readme_run_as_printed(
    repository: Path, console: Any, tmp_path: Path
) -> None:
    long = [line for line in readme_commands(repository, console) if line.startswith(LONG)]
    assert len(long) == len(LONG)
    run_all(console, long, tmp_path)


def run_all(console: Any, lines: list[str], folder: Path, programs: Path | None = None) -> None:
    for line in lines:
        status, printed = console.run(line, folder, programs=programs)
        assert status == 0, f"{line}: status {status}: {printed[-500:]}"
        assert printed.strip()
        assert "Traceback" not in printed


def test_the_readme_s_python_runs(repository: Path, tmp_path: Path) -> None:
    text = (repository / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) >= code.count("print(")


PATHLIKE = re.compile(r"[\w.-]+(?:/[\w.*-]+)*/?")
ENDINGS = (".py", ".md", ".toml", ".json", ".svg", ".txt", ".j2", ".css", "/")
MADE = (
    "results/",
    "tables/",
    "figures/",
    "data/",
    "h200/",
    "rtx-4090/",
    "quick/",
    "wheels/",
    "profile-data/",
)
"""Folders that commands make, and examples of names."""
PLACEHOLDERS = re.compile(r"NAME|<|\*|^mine\.|^study\.toml|^metrics\.json|^report\.html|^h200|^quick")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_paths_named_in_the_documents_exist(repository: Path, name: str) -> None:
    document = repository / name
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    bases = (repository, document.parent, *(repository / room for room in ROOMS))
    missing = []
    for quoted in re.findall(r"`([^`\n]+)`", text):
        if not PATHLIKE.fullmatch(quoted) or not quoted.endswith(ENDINGS) or "/" not in quoted + "/":
            continue
        if quoted.startswith(MADE) or PLACEHOLDERS.search(quoted):
            continue
        if not any((base / quoted).exists() for base in bases):
            missing.append(quoted)
    assert not missing


ROOMS = ("hw_bench", "sim", "models", "validation", "smlab", "docs")
"""The README's table names files of a room by their name in it."""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_in_the_documents_lead_somewhere(repository: Path, name: str) -> None:
    document = repository / name
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
    files = [link for link in links if "://" not in link]
    assert [link for link in files if not (document.parent / link).exists()] == []


def test_the_reference_is_built_without_a_warning(repository: Path, tmp_path: Path) -> None:
    """``make docs``: every public name has its place in it, and a docstring."""
    import smlab

    recipe = (repository / "Makefile").read_text(encoding="utf-8")
    arguments = re.search(r"^docs:.*\n\t\$\(BIN\)/python ((?:.*\\\n)*.*)$", recipe, re.MULTILINE)
    assert arguments is not None
    command = arguments[1].replace("\\\n", " ").replace("build/docs", str(tmp_path)).replace("'", "").split()
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    page = (tmp_path / "smlab.html").read_text(encoding="utf-8")
    for public in smlab.__all__:
        assert f'<section id="{public}"' in page, public
        assert public.startswith("__") or getattr(smlab, public).__doc__, public
    assert str(repository) not in page
