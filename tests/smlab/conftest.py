"""The real command in a separate process, and what it used."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit status, what it printed, its processor and wall-clock time, its largest
    memory, and what it left running."""

    status: int
    out: str
    err: str
    cpu_s: float
    wall_s: float
    peak_bytes: int
    left: tuple[int, ...]

    def refused(self) -> str:
        """The one line of a command that must exit with 2 and print nothing else."""
        assert (self.status, self.out) == (2, ""), self
        assert self.err.startswith("smlab: "), self
        assert self.err.count("\n") == 1, self
        assert "Traceback" not in self.err, self
        return self.err


Smlab = Callable[..., Ended]


MARK = "\0ended with "
TOGETHER = f"""
import json, logging, sys
from smlab.cli.main import main
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as ended:
        for stream in sys.stdout, sys.stderr:
            print({MARK!r} + str(ended.code), file=stream, flush=True)
    logging.getLogger("smlab").handlers.clear()
"""


@pytest.fixture
def smlab_commands(smlab_command: Smlab) -> Callable[..., list[Ended]]:
    """``smlab_commands([arguments, arguments, ...], env=...)``: one after the other in one process, which is
    as cold as the first of them, and whose time and memory each is told."""

    def call(commands: list[tuple[str, ...]], **options: Any) -> list[Ended]:
        whole = smlab_command(json.dumps(commands), program=("-c", TOGETHER), **options)
        assert whole.status == 0, whole
        *out, rest = re.split(f"{MARK}(.*)\n", whole.out)
        *err, more = re.split(f"{MARK}(.*)\n", whole.err)
        assert (rest, more) == ("", "")
        assert len(out) == len(err) == 2 * len(commands)
        return [
            replace(whole, status=int(status), out=printed, err=told)
            for printed, status, told in zip(out[::2], out[1::2], err[::2], strict=True)
        ]

    return call


@pytest.fixture
def smlab_command(tmp_path: Path) -> Smlab:
    """``smlab_command(*arguments, env=..., stdout=..., timeout_s=...)``: ended, or killed after that time.
    ``end_s``: Ctrl-C then."""

    def call(
        *arguments: str,
        env: dict[str, str] | None = None,
        stdout: str | None = None,
        cwd: Path = tmp_path,
        timeout_s: float = 60,
        end_s: float | None = None,
        program: tuple[str, ...] = ("-m", "smlab.cli"),
    ) -> Ended:
        command = [sys.executable, *program, *arguments]
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "PYTHONIOENCODING")}
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            target = out if stdout is None else Path(stdout).open("wb")  # noqa: SIM115
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=target,
                stderr=err,
                cwd=cwd,
                env={**environment, **(env or {})},
                start_new_session=True,
            )
            began = time.monotonic()
            pid = peak_bytes = 0
            while not pid:
                peak_bytes = max(peak_bytes, _peak_bytes(process.pid))
                pid, code, used = os.wait4(process.pid, os.WNOHANG)
                if end_s is not None and not pid and time.monotonic() > began + end_s:
                    process.send_signal(signal.SIGINT)
                    end_s = None
                if time.monotonic() > began + timeout_s:
                    os.killpg(process.pid, signal.SIGKILL)
                    os.wait4(process.pid, 0)
                    process.returncode = -9
                    raise AssertionError(f"still running after {timeout_s} s: {' '.join(arguments)[:200]}")
                time.sleep(0.02)
            wall_s = time.monotonic() - began
            process.returncode = os.waitstatus_to_exitcode(code)
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode("utf-8", "replace"))
            if target is not out:
                target.close()
            cpu_s = used.ru_utime + used.ru_stime
            while (left := _in_session(process.pid)) and time.monotonic() < began + wall_s + OUTLIVES_S:
                time.sleep(0.05)
            return Ended(process.returncode, *texts, cpu_s, wall_s, peak_bytes, left)

    return call


OUTLIVES_S = 2.0
"""A worker ends when it sees that its parent has, which may take as long as this."""


def _in_session(leader: int) -> tuple[int, ...]:
    """Processes of a session whose leader has ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                found.append(int(stat.parent.name))
    return tuple(found)


def _peak_bytes(pid: int) -> int:
    """The largest memory of a living process so far. (``ru_maxrss`` begins with that of its parent.)"""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return 1024 * int(found[0]) if found else 0
