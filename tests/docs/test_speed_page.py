"""The figures on speed in the documents are those that the benchmark has written."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def machine_code(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(repository))
    return importlib.import_module("benchmarks.machine_code")


def test_documents_show_the_speeds_of_the_benchmark(repository: Path, machine_code: Any) -> None:
    speeds = json.loads(machine_code.SPEEDS.read_text())
    page = (repository / "docs" / "explanation" / "speed.md").read_text()
    assert "\n".join(machine_code.table_lines(speeds)) in page
    assert speeds["machine"] in page
    assert machine_code.readme_line(speeds) in (repository / "README.md").read_text()


def test_all_kernels_that_are_asked_for_are_there(machine_code: Any) -> None:
    speeds = json.loads(machine_code.SPEEDS.read_text())
    assert list(speeds["kernels"]) == [*machine_code.KERNELS, *machine_code.COMPILED]


def test_what_falls_short_is_bold(machine_code: Any) -> None:
    row = {"gpu": "v100", "executed": 50.0, "timed": 5.0, "asked": 6, "two_threads": 1.9}
    enough = {**row, "timed": 6.0, "two_threads": 1.2}
    lines = machine_code.table_lines({"kernels": {"a": row, "b": enough}})
    assert lines[2:] == ["| a | 50 | **5.0** | 6 | 1.90 |", "| b | 50 | 6.0 | 6 | **1.20** |"]
