"""The house as a whole: its packages, its import rules, and names that stand once.

Planted faults show that the tools find what they are there for: each test that plants works on a copy.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOMS = {"hw_bench": "hw_bench", "sim": "sim", "models": "models", "validation": "validation", "": "smlab"}
"""Folder by package under smlab; the front door is smlab itself."""

FORBIDDEN_PLANTS = {
    "hw_bench": "import smlab.sim.workloads.workload",
    "sim": "import smlab.models.roofline.ceilings",
    "models": "import smlab.hw_bench.datasets",
    "validation": "import smlab.cli.terminal",
}
"""An import that the room may not make. The front door may import every room; nothing may import it."""

CAMPAIGNS = "validation/campaigns"
"""No part of what is installed; the product imports nothing of it."""

MADE_BY_THE_WHEEL = {("smlab.sim.object_code", "prebuilt/*.o")}
"""Data files that no checkout has."""

MAX_MODULES = 15
"""In one folder."""

MAX_PARAMETERS = 7
MANY_PARAMETERS = {
    r"hw_bench/cuda/kernels/\w+\.py: kernel$": "a CUDA kernel's parameters are those of its launch",
}
"""Functions that may take more, and why."""


@pytest.fixture(scope="module")
def project(repository: Path) -> dict[str, Any]:
    return tomllib.loads((repository / "pyproject.toml").read_text())


@pytest.fixture
def copy(repository: Path, tmp_path: Path) -> Path:
    """The rooms and the settings, apart, with the tree of links that static tools read, and mypy's cache."""
    for folder in ROOMS.values():
        shutil.copytree(repository / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "Makefile"):
        shutil.copy2(repository / name, tmp_path)
    if (repository / ".mypy_cache").is_dir():
        shutil.copytree(repository / ".mypy_cache", tmp_path / ".mypy_cache")
    return tmp_path


def _tree(folder: Path) -> None:
    subprocess.run(["make", "-s", "types"], cwd=folder, check=True, capture_output=True)


def _tool(name: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    tool = Path(sys.executable).with_name(name)
    if not tool.exists():
        pytest.skip(f"{name} is not installed beside this Python")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MYPY", "PYTHON", "COLUMNS"))}
    return subprocess.run(
        [str(tool), *arguments], cwd=cwd, env=environment | {"COLUMNS": "500"}, capture_output=True, text=True
    )


def _sources(repository: Path) -> Iterator[Path]:
    for folder in (*ROOMS.values(), "tests", "benchmarks", "examples"):
        yield from sorted((repository / folder).rglob("*.py"))


def test_the_list_of_packages_is_that_of_the_folders(repository: Path, project: dict[str, Any]) -> None:
    found = set()
    for package, folder in ROOMS.items():
        root = repository / folder
        for path in root.rglob("__init__.py"):
            if path.is_relative_to(repository / CAMPAIGNS):
                continue
            parts = ("smlab", package, *path.parent.relative_to(root).parts)
            found.add(".".join(part for part in parts if part))
    listed = project["tool"]["setuptools"]["packages"]
    assert sorted(found) == sorted(listed)


def test_every_module_lies_in_a_package(repository: Path) -> None:
    loose = [
        str(path.relative_to(repository))
        for folder in ROOMS.values()
        for path in (repository / folder).rglob("*.py")
        if not (path.parent / "__init__.py").exists()
    ]
    assert not loose


def test_data_files_of_packages_are_shipped(repository: Path, project: dict[str, Any]) -> None:
    """Each pattern of package-data finds a file, and every TOML of a package is in one."""
    folders = {f"smlab.{p}" if p else "smlab": repository / f for p, f in ROOMS.items()}
    shipped = set()
    for package, patterns in project["tool"]["setuptools"]["package-data"].items():
        room = max((p for p in folders if package == p or package.startswith(p + ".")), key=len)
        folder = folders[room].joinpath(*package[len(room) :].strip(".").split("."))
        for pattern in patterns:
            files = set(folder.glob(pattern))
            assert files or (package, pattern) in MADE_BY_THE_WHEEL, f"{package}: {pattern} finds nothing"
            shipped |= files
    data = {path for folder in folders.values() for path in folder.rglob("*.toml")}
    data -= set((repository / CAMPAIGNS).rglob("*"))
    assert not {str(p.relative_to(repository)) for p in data - shipped}


CYCLES = """
from collections import defaultdict
import grimp, json
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

graph = grimp.build_graph("smlab", cache_dir=None)
modules = sorted(graph.modules)
number = {module: i for i, module in enumerate(modules)}
edges = [(number[m], number[d]) for m in modules for d in graph.find_modules_directly_imported_by(m)]
matrix = csr_array(([1] * len(edges), tuple(zip(*edges))), shape=(len(modules),) * 2)
groups = defaultdict(list)
for module, group in zip(modules, connected_components(matrix, connection="strong")[1]):
    groups[int(group)].append(module)
print(json.dumps([len(modules), [group for group in groups.values() if len(group) > 1]]))
"""


def _cycles(folder: Path) -> list[list[str]]:
    """The groups of modules that import one another, directly or through others."""
    _tree(folder)
    command = [sys.executable, "-c", CYCLES]  # run in the tree, which then comes first on the path
    found = subprocess.run(command, cwd=folder / "types", capture_output=True, text=True, check=True)
    modules, cycles = json.loads(found.stdout)
    assert modules > 300
    return list(cycles)


def test_there_are_no_import_cycles(copy: Path) -> None:
    """Imports for type checking count too: where two classes need each other, a Protocol stands between."""
    assert not _cycles(copy)
    with (copy / "sim" / "reference" / "warp.py").open("a") as file:
        file.write("\nif TYPE_CHECKING:\n    from smlab.sim.reference import units\n")
    assert _cycles(copy) == [["smlab.sim.reference.units", "smlab.sim.reference.warp"]]


def test_a_class_name_stands_once(repository: Path) -> None:
    places = defaultdict(list)
    for path in _sources(repository):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(repository)}:{node.lineno}")
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert len(places) > 300
    assert not twice


def _product(repository: Path) -> Iterator[Path]:
    """The modules of all packages but the campaigns."""
    for folder in ROOMS.values():
        for path in sorted((repository / folder).rglob("*.py")):
            if not path.is_relative_to(repository / CAMPAIGNS):
                yield path


def test_a_folder_shows_at_a_glance(repository: Path) -> None:
    folders = defaultdict(list)
    for path in (*_product(repository), *(repository / CAMPAIGNS).rglob("*.py")):
        folders[str(path.parent.relative_to(repository))].append(path.name)
    assert len(folders) > 60
    assert not {folder: names for folder, names in folders.items() if len(names) > MAX_MODULES}


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    """Each function of a module as ``path:name``, and how many parameters it takes, ``self`` counted."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            a = node.args
            yield node.name, len(a.posonlyargs) + len(a.args) + len(a.kwonlyargs)


def test_a_function_takes_seven_parameters_at_most(repository: Path) -> None:
    """More belong into one object, as in `smlab.sim.options`."""
    counts = {
        f"{path.relative_to(repository)}: {name}": count
        for path in _product(repository)
        for name, count in _functions(path)
    }
    assert len(counts) > 3000
    many = {where for where, count in counts.items() if count > MAX_PARAMETERS}
    excused = {where for where in many if re.match("|".join(MANY_PARAMETERS), where)}
    assert not many - excused
    for pattern, reason in MANY_PARAMETERS.items():
        assert any(re.match(pattern, where) for where in excused), f"no longer needed: {pattern} ({reason})"


def test_every_campaign_says_what_it_asked(repository: Path) -> None:
    """Its page has the question, the answer, the date, the commit and the command."""
    pages = {p for p in (repository / CAMPAIGNS).iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert len(pages) > 4
    for folder in pages:
        text = (folder / "README.md").read_text()
        for word in ("**Question.**", "**Answer.**", "**Made.**", "python -m smlab.validation.campaigns"):
            assert word in text, f"{folder.name}: {word}"


def test_everything_but_campaigns_is_held_apart_from_them(repository: Path, project: dict[str, Any]) -> None:
    (contract,) = [
        c
        for c in project["tool"]["importlinter"]["contracts"]
        if c.get("forbidden_modules") == ["smlab.validation.campaigns"]
    ]
    rooms = {f"smlab.{room}" for room in ROOMS if room not in ("", "validation")}
    front = {p.parent.name for p in (repository / "smlab").glob("*/__init__.py")}
    parts = {p.stem for p in (repository / "validation").glob("*.py")} - {"__init__"}
    parts |= {p.parent.name for p in (repository / "validation").glob("*/__init__.py")} - {"campaigns"}
    parts = {f"smlab.validation.{part}" for part in parts} | {f"smlab.{part}" for part in front} | rooms
    assert set(contract["source_modules"]) == parts


def test_mypy_finds_a_type_error_in_every_room(copy: Path) -> None:
    for folder in ROOMS.values():
        (copy / folder / "planted.py").write_text('def planted(count: int) -> str:\n    return count + "1"\n')
    _tree(copy)
    found = _tool("mypy", cwd=copy)
    assert found.returncode == 1, found.stdout + found.stderr
    for folder in ROOMS.values():
        assert f"smlab/{folder}/planted.py:2: error".replace("smlab/smlab", "smlab") in found.stdout, folder


def test_every_room_is_named_by_a_contract(repository: Path, project: dict[str, Any]) -> None:
    """A package of hw_bench that a contract neither forbids nor grants would slip through."""
    contracts = project["tool"]["importlinter"]["contracts"]
    parts = {f"smlab.hw_bench.{p.name}" for p in (repository / "hw_bench").iterdir() if p.is_dir()}
    parts -= {p for p in parts if p.endswith("__pycache__")}
    granted = {
        "smlab.sim": {"smlab.hw_bench.gpu", "smlab.hw_bench.sass"},
        "smlab.models": {"smlab.hw_bench.gpu", "smlab.hw_bench.profiles", "smlab.hw_bench.sass"},
    }
    for room, may in granted.items():
        (contract,) = [c for c in contracts if c.get("source_modules") == [room]]
        assert parts - set(contract["forbidden_modules"]) == may, room


@pytest.mark.parametrize("room", FORBIDDEN_PLANTS)
def test_import_linter_finds_a_forbidden_import(room: str, copy: Path) -> None:
    (copy / ROOMS[room] / "planted.py").write_text(f"{FORBIDDEN_PLANTS[room]}\n")
    _broken(copy, f"smlab.{room}.planted")


@pytest.mark.parametrize("room", FORBIDDEN_PLANTS)
def test_import_linter_finds_an_import_of_the_front_door(room: str, copy: Path) -> None:
    (copy / ROOMS[room] / "planted.py").write_text("import smlab\n")
    _broken(copy, f"smlab.{room}.planted")


def test_import_linter_finds_an_import_of_a_campaign(copy: Path) -> None:
    planted = "import smlab.validation.campaigns.sections\n"
    (copy / "validation" / "checks" / "planted.py").write_text(planted)
    _broken(copy, "smlab.validation.checks.planted")


def _broken(copy: Path, culprit: str) -> None:
    _tree(copy)
    found = _tool("lint-imports", "--config", "../pyproject.toml", "--no-cache", cwd=copy / "types")
    assert found.returncode == 1, found.stdout + found.stderr
    assert culprit in found.stdout


def test_what_needs_the_cuda_compiler_is_tested_where_it_is(repository: Path) -> None:
    """Elsewhere such a test is skipped, and nobody sees that it fails."""
    target = (repository / "Makefile").read_text().partition("\nsass: ")[2].partition("\n\n")[0]
    listed = {name.partition("::")[0] for name in re.findall(r"tests/[^\s\"\\]+", target)}
    needed = {
        path.relative_to(repository).as_posix()
        for path in (repository / "tests").rglob("test_*.py")
        if "has_compiler" in path.read_text(encoding="utf-8")
    }
    needed.discard(Path(__file__).relative_to(repository).as_posix())
    assert len(needed) > 10
    assert not {name for name in needed if not any(name == at or name.startswith(f"{at}/") for at in listed)}
