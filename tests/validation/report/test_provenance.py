"""What a report says of its run: everything needed to make it again, nothing of whose machine it was."""

import getpass
import platform
import re
import socket
from pathlib import Path

import pytest

from smlab.hw_bench import sources as module
from smlab.hw_bench.sources import commit
from smlab.validation.report.provenance import provenance


def test_it_names_code_command_machine_and_libraries() -> None:
    told = provenance("smlab validate --gpu v100 --seed 0")
    assert {"smlab", "commit", "command", "date", "machine", "Python", "numba", "numpy"} <= told.keys()
    assert told["Python"] == platform.python_version()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", str(told["date"]))
    assert re.fullmatch(r"[0-9a-f]{12}( \+ changes)?|no checkout", str(told["commit"]))


def test_it_tells_no_path_host_or_user() -> None:
    text = " ".join(map(str, provenance("smlab validate").values()))
    assert str(Path.home()) not in text
    assert socket.gethostname() not in text
    assert f" {getpass.getuser()}" not in text
    assert "/" not in text.replace("N/A", "")


def test_an_installed_package_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROOT", tmp_path)
    assert commit() == "no checkout"
