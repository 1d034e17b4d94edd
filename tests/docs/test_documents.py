"""The documents say what is so: commands run as printed, outputs are those shown, named paths exist."""

from __future__ import annotations

import difflib
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

from smlab import SmlabError, load_gpu, read_workload
from smlab.sim.isa.launch.launch_file import read_launch
from smlab.sim.isa.launch.program_file import read_program
from smlab.validation.tuning.space_file import read_space

ROOT = Path(__file__).resolve().parents[2]
PAGES = tuple(sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")))
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    *PAGES,
    "hw_bench/datasets/measured/README.md",
    "sim/SEMANTICS.md",
    "examples/studies/README.md",
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
"""Commands of the documents that take more than some ten seconds: run with ``--thorough``. Each runs in the
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


def with_blocks(kind: str) -> list[str]:
    """Documents that hold a block of this kind."""
    fence = re.compile(rf"^ *```{kind}$", re.MULTILINE)
    return [name for name in DOCUMENTS if fence.search((ROOT / name).read_text(encoding="utf-8"))]


@pytest.mark.parametrize("name", with_blocks("console"))
def test_documents_print_what_they_show(repository: Path, console: Any, warm_smlab: Path, name: str) -> None:
    old = (repository / name).read_text(encoding="utf-8")
    new = console.rerun(old, warm_smlab)
    changed = "".join(
        difflib.unified_diff(old.splitlines(True), new.splitlines(True), "shown", "printed", n=0)
    )
    assert old == new, f"read the difference, mend the prose, then `make tutorial`:\n{changed}"


@pytest.mark.parametrize(("name", "least"), [("first-hour.md", 12), ("porting.md", 4)])
def test_the_figures_in_the_tutorial_s_prose_are_printed(
    repository: Path, console: Any, name: str, least: int
) -> None:
    """Every number with a decimal, a percentage, a thousands comma or an x is in an output, when rounded."""
    text = (repository / "docs" / "tutorials" / name).read_text(encoding="utf-8")
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


def shell_commands(repository: Path, console: Any, name: str) -> list[str]:
    lines: list[str] = console.shell_lines((repository / name).read_text(encoding="utf-8"))
    return [line for line in lines if line not in SETUP]


def lay_out(repository: Path, name: str, folder: Path) -> None:
    """Write the blocks of a document that say in their first line which file they are."""
    text = (repository / name).read_text(encoding="utf-8")
    for block in toml_blocks(text):
        if file := re.match(r"# (\S+\.toml)\n", block):
            (folder / file[1]).write_text(block, encoding="utf-8")


@pytest.mark.parametrize("name", with_blocks("sh"))
def test_shell_commands_run_as_printed(
    repository: Path, console: Any, warm_smlab: Path, tmp_path: Path, name: str
) -> None:
    """In an empty folder, one after the other, as a newcomer would."""
    lay_out(repository, name, tmp_path)
    lines = shell_commands(repository, console, name)
    run_all(console, [line for line in lines if not line.startswith(LONG)], tmp_path, warm_smlab)
    for line in lines:
        if picture := re.search(r"--plot (\S+)", line):
            with Image.open(tmp_path / picture[1]) as image:
                assert min(image.size) > 300


@pytest.mark.thorough
def test_long_commands_run_as_printed(repository: Path, console: Any, tmp_path: Path) -> None:
    lines = [line for name in with_blocks("sh") for line in shell_commands(repository, console, name)]
    long = [line for line in lines if line.startswith(LONG)]
    assert all(any(line.startswith(start) for line in long) for start in LONG)
    run_all(console, long, tmp_path)


def run_all(console: Any, lines: list[str], folder: Path, programs: Path | None = None) -> None:
    for line in lines:
        status, printed = console.run(line, folder, programs=programs)
        assert status == 0, f"{line}: status {status}: {printed[-500:]}"
        assert printed.strip()
        assert "Traceback" not in printed


@pytest.mark.parametrize("name", with_blocks("python"))
def test_python_blocks_run(repository: Path, tmp_path: Path, name: str) -> None:
    text = (repository / name).read_text(encoding="utf-8")
    for code in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        needed = re.match(r"# needs (\w+)\n", code)
        if needed is not None and importlib.util.find_spec(needed[1]) is None:
            continue  # run where it is installed, in the environment with the CUDA compiler
        (tmp_path / "block.py").write_text(code, encoding="utf-8")  # Triton reads its kernels' source
        done = subprocess.run(
            [sys.executable, "-P", "block.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.split()) >= code.count("print(")


def toml_blocks(text: str) -> list[str]:
    return re.findall(r"^ *```toml\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)


def check_toml(block: str, folder: Path) -> None:
    """The block is read by the reader that it is written for. `SmlabError` where that refuses it."""
    path = folder / "block.toml"
    path.write_text(block, encoding="utf-8")
    tables = tomllib.loads(block)
    if "parameters" in tables:
        (folder / tables["kernel"]["file"]).touch()
        assert len(read_space(path)) > 1
    elif "step" in tables:
        assert read_program(path) is not None
    elif "launch" in tables:
        read_launch(path)
    elif "program" in tables:
        read_workload(path)
    else:
        load_gpu(path)


@pytest.mark.parametrize("name", with_blocks("toml"))
def test_toml_blocks_are_read(repository: Path, tmp_path: Path, name: str) -> None:
    for block in toml_blocks((repository / name).read_text(encoding="utf-8")):
        check_toml(block, tmp_path)


@pytest.mark.parametrize(
    "block", ["[launch]\ngird = 8\n", '[[program]]\nwarp = "all"\n', 'extends = "v100"\n']
)
def test_a_wrong_toml_block_is_refused(tmp_path: Path, block: str) -> None:
    with pytest.raises(SmlabError):
        check_toml(block, tmp_path)


def test_the_readme_is_short(repository: Path) -> None:
    text = (repository / "README.md").read_bytes()
    assert text.count(b"\n") <= 150
    assert len(text) <= 9000


def test_old_story_numbers_lead_to_findings(repository: Path) -> None:
    """Older texts cite findings as stories 1 to 35: each number is an anchor on one page, and in the list."""
    pages = {page: page.read_text(encoding="utf-8") for page in (repository / "docs/findings").glob("*.md")}
    listed = pages[repository / "docs/findings/index.md"]
    rows = re.findall(r"^\| \[[^]]+\]\(([\w-]+\.md)\) \|.*\| ([\d, ]+) \|$", listed, re.MULTILINE)
    for number in range(1, 36):
        (home,) = (page.name for page, text in pages.items() if f"{{#story-{number}}}" in text)
        assert [name for name, numbers in rows if str(number) in numbers.split(", ")] == [home]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_modules_named_in_the_documents_exist(repository: Path, name: str) -> None:
    text = (repository / name).read_text(encoding="utf-8")
    places = {"smlab." + room: repository / room for room in ("hw_bench", "sim", "models", "validation")}
    missing = []
    for module in re.findall(r"python -m (smlab\.\w+(?:\.\w+)*)", text):
        room = next((r for r in places if module.startswith(r + ".")), "smlab")
        path = places.get(room, repository / "smlab").joinpath(*module[len(room) + 1 :].split("."))
        if module != "smlab.validation.campaigns.NAME" and not (
            path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()
        ):
            missing.append(module)
    assert not missing


def test_retired_words_are_usable(repository: Path) -> None:
    """The list that names are changed by: expressions compile, words stand in the glossary."""
    listed = tomllib.loads((repository / "docs/retired-words.toml").read_text(encoding="utf-8"))
    glossary = (repository / "docs/glossary.md").read_text(encoding="utf-8").lower()
    assert len(set(listed["modules"].values())) > 50
    for row in listed["word"]:
        assert "name" in row or "prose" in row, row["word"]
        for key in ("name", "prose"):
            re.compile(row.get(key, ""))
        assert re.split(r"[ ,_]", row["word"])[0].lower() in glossary, row["word"]


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
PLACEHOLDERS = re.compile(
    r"NAME|<|\*|^mine\.|^study\.toml|^space\.toml|^progress\.json|^metrics\.json|^report\.html|^h200|^quick"
)


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
    arguments = re.search(r"python (-W error -m pdoc (?:.*\\\n)*.*)$", recipe, re.MULTILINE)
    assert arguments is not None
    command = (
        arguments[1].replace("\\\n", " ").replace("build/docs/api", str(tmp_path)).replace("'", "").split()
    )
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
