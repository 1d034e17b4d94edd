"""Where the tests look for measurements by others: in `SMLAB_SHARED_DATA`, else beside the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def checkout(repository: Path, tmp_path: Path) -> Path:
    """Another checkout with one test that wants the data."""
    folder = tmp_path / "checkout"
    (folder / "tests").mkdir(parents=True)
    shutil.copy(repository / "tests" / "conftest.py", folder / "tests")
    test = "def test_it(shared_data):\n    assert (shared_data / 'here').is_file()\n"
    (folder / "tests" / "test_one.py").write_text(test)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = thorough\n")
    return folder


def run(checkout: Path, named: Path | None = None) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SMLAB_", "PYTEST_"))}
    if named is not None:
        environment["SMLAB_SHARED_DATA"] = str(named)
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "-p", "no:benchmark"]
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True).stdout


def test_the_variable_comes_before_the_folder_beside_the_checkout(checkout: Path, tmp_path: Path) -> None:
    assert "1 skipped" in run(checkout)
    other_folder, beside = tmp_path / "elsewhere", tmp_path / "shared" / "data"
    for folder in (other_folder, beside):
        folder.mkdir(parents=True)
    (other_folder / "here").touch()
    assert "1 passed" in run(checkout, other_folder)
    assert "1 failed" in run(checkout)
    (beside / "here").touch()
    assert "1 passed" in run(checkout)


def test_a_name_that_is_wrong_does_not_pass_for_a_skip(checkout: Path, tmp_path: Path) -> None:
    assert "SMLAB_SHARED_DATA: not a folder" in (said := run(checkout, tmp_path / "gone"))
    assert "1 error" in said


def test_no_test_looks_for_the_data_by_itself(repository: Path) -> None:
    looking = [
        str(path.relative_to(repository))
        for path in (repository / "tests").rglob("*.py")
        if path.name not in ("conftest.py", Path(__file__).name)
        and any(form in path.read_text() for form in ('"shared" / "data"', "shared/data/", '/ "papers"'))
    ]
    assert not looking
