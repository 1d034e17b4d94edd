"""What a command answers, run in this process: a document or a refusal."""

import json
from typing import Any

import pytest

from smlab.cli.main import run


def document(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> dict[str, Any]:
    """The JSON that a command prints, which must end with ``status``."""
    assert run([*map(str, arguments), "--json"]) == status
    parsed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return parsed


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object, notes: bool = False) -> str:
    """The one line on standard error of a command that must exit with 2 and print nothing else; with
    ``notes`` it may tell something of its own before."""
    assert run([*map(str, arguments)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    said = [line for line in printed.err.splitlines() if line.startswith("smlab: ")]
    assert len(said) == 1, printed.err
    assert notes or printed.err == said[0] + "\n"
    return said[0]
