"""Commands that are ended from outside: SIGTERM keeps what was done, and no process outlives them, not even
after SIGKILL."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from smlab.examples import KERNEL, TUNING_SPACE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")

STUDY = """
title = "long"
responses = ["cycles", "utilization"]
[base]
gpu = "v100"
workload = "atomics"
set.iterations = 2000
[factors]
warps = { range = [1, 32], levels = 32 }
gpu.atomic.add.latency_cycles = { range = [10, 100], levels = 91 }
[design]
kind = "grid"
"""


def started(path: Path, count: int) -> Callable[[Path], bool]:
    """Whether the store at ``path`` holds so many results."""

    def there(out: Path) -> bool:
        if not (out / path).is_file():
            return False
        plain = sqlite3.connect(out / path, timeout=30)
        try:
            return bool(plain.execute("SELECT COUNT(*) >= ? FROM results", (count,)).fetchone()[0])
        except sqlite3.OperationalError:
            return False
        finally:
            plain.close()

    return there


SPACE = TUNING_SPACE.read_text()
"""The example's, with more configurations on a larger image, so that it takes a while."""


def large_space(folder: Path) -> None:
    (folder / KERNEL.name).write_bytes(KERNEL.read_bytes())
    text = SPACE.replace("65536", "4194304").replace("(1, 2, 5, 10, 20)", "range(1, 60)")
    (folder / "space.toml").write_text(text)


COMMANDS: dict[str, tuple[list[str], Callable[[Path], bool]]] = {
    "case": (["case", "histogram"], started(Path("points.sqlite"), 2)),
    "whatif": (["whatif", "STUDY"], started(Path("points.sqlite"), 20)),
    "tune": (["tune", "SPACE"], started(Path("times.sqlite"), 4)),
    "validate": (["validate", "--quick"], started(Path("results.sqlite"), 5)),
}
LONG = pytest.mark.thorough


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("whatif", signal.SIGTERM),
        ("tune", signal.SIGTERM),
        ("case", signal.SIGKILL),
        ("validate", signal.SIGTERM),
        pytest.param("whatif", signal.SIGKILL, marks=LONG),
        pytest.param("tune", signal.SIGKILL, marks=LONG),
        pytest.param("tune", signal.SIGINT, marks=LONG),
        pytest.param("case", signal.SIGTERM, marks=LONG),
        pytest.param("case", signal.SIGINT, marks=LONG),
        pytest.param("validate", signal.SIGKILL, marks=LONG),
        pytest.param("validate", signal.SIGINT, marks=LONG),
    ],
)
def test_no_worker_survives_two_seconds(name: str, how: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    large_space(tmp_path)
    options, ready = COMMANDS[name]
    out = tmp_path / "out"
    files = {"STUDY": str(tmp_path / "study.toml"), "SPACE": str(tmp_path / "space.toml")}
    arguments = [files.get(o, o) for o in options]
    command = [sys.executable, "-m", "smlab.cli", *arguments, "--out", str(out), "--jobs", "2"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while len(workers := children(process.pid)) < 2 or not ready(out):
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(how)
        deadline = time.monotonic() + 2
        while left := [pid for pid in workers if alive(pid)]:
            assert time.monotonic() < deadline, f"{left} of {workers} outlive the command"
            time.sleep(0.02)
        _, errors = process.communicate(timeout=120)
    status = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}[how]
    assert process.returncode == status
    assert "Traceback" not in errors
    assert ready(out)
    if name == "validate" and how != signal.SIGKILL:
        checks = json.loads((out / "metrics.json").read_text())["checks"]
        assert any("interrupted before its work was complete" in check["summary"] for check in checks)
    if how == signal.SIGTERM:
        assert "ended by SIGTERM after" in errors


@pytest.mark.thorough
def test_a_killed_validation_is_resumed_and_ends_as_if_undisturbed(tmp_path: Path, smlab_command) -> None:
    options, ready = ["validate", "--quick", "--seed", "3"], started(Path("results.sqlite"), 20)
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, "-m", "smlab.cli", *options, "--out", str(killed), "--jobs", "2"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 1200
            while not ready(killed):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)
        finally:
            process.kill()
    assert not (killed / "metrics.json").exists()
    resumed = smlab_command(*options, "--out", str(killed), "--resume", timeout_s=1800)
    undisturbed = smlab_command(*options, "--out", str(whole), timeout_s=1800)
    assert (resumed.status, undisturbed.status) == (0, 0), (resumed.err, undisturbed.err)
    assert resumed.cpu_s < 0.9 * undisturbed.cpu_s
    told = [json.loads((folder / "metrics.json").read_text()) for folder in (killed, whole)]
    for metrics in told:
        del metrics["provenance"]["date"]
    assert told[0] == told[1]
    again = smlab_command("validate", "--quick", "--seed", "4", "--out", str(killed), "--resume")
    assert "made with another GPU description, profile, seed or version of smlab" in again.refused()


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
