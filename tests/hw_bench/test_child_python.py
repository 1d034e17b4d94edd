"""Processes that run Python for us: they execute nothing of the current folder, and end with their parent."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from smlab.hw_bench.child_python import run_python, start_python
from smlab.hw_bench.sources import package_folder

ROOMS = ("hw_bench", "sim", "models", "validation", "smlab")
HOSTILE = ("pickle", "json", "ctypes", "threading", "numpy", "numba", "subprocess", "signal")
PARENT = """
import subprocess, sys, threading
from smlab.hw_bench.child_python import start_python
def start():
    child = start_python("import time; time.sleep(600)", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(child.pid, flush=True)
    child.wait()
if sys.argv[1] == "thread":
    threading.Thread(target=start).start()
else:
    start()
"""


def said(code: str, *arguments: str, **options: object) -> str:
    done = run_python(code, *arguments, timeout_s=60, stdout=subprocess.PIPE, text=True, **options)
    assert done.returncode == 0
    return str(done.stdout)


def test_it_has_its_arguments_and_our_path() -> None:
    assert said("import sys; print(sys.argv[1:])", "a", "b c") == "['a', 'b c']\n"
    assert said("import smlab.hw_bench.errors; print(1)") == "1\n"


def test_files_of_the_current_folder_are_not_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in HOSTILE:
        (tmp_path / f"{name}.py").write_text("open('executed', 'w')\nraise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path, str(tmp_path)])
    assert said(f"import {', '.join(HOSTILE)}; print(1)") == "1\n"
    assert not (tmp_path / "executed").exists()


def runs(pid: int) -> bool:
    """Whether a process is there and no zombie, which waits for a parent that may never ask."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.parametrize("start", ["main", "thread"])
def test_it_ends_with_a_parent_that_is_killed(start: str) -> None:
    command = [sys.executable, "-P", "-c", PARENT, start]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        try:
            assert runs(pid)
            time.sleep(0.2)
            assert runs(pid)
            parent.send_signal(signal.SIGKILL)
            parent.wait()
            deadline = time.monotonic() + 20
            while runs(pid):
                assert time.monotonic() < deadline, "the child has outlived its parent"
                time.sleep(0.02)
        finally:
            if runs(pid):
                os.kill(pid, signal.SIGKILL)


def test_it_is_ended_when_its_time_is_up() -> None:
    began = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        run_python("import time; time.sleep(600)", timeout_s=0.5)
    assert time.monotonic() - began < 20


def test_many_leave_no_pipes_open() -> None:
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for _ in range(5):
        start_python("pass").wait()
    after = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    assert after <= before + 1


def test_no_room_starts_python_in_another_way() -> None:
    root = package_folder("smlab.hw_bench").parent
    others = [
        str(path.relative_to(root))
        for room in ROOMS
        for path in (root / room).rglob("*.py")
        if re.search(r"sys\.executable(?!,\s*\"-P\")|ProcessPool|multiprocessing\.Process", path.read_text())
    ]
    assert others == []
