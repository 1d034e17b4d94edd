"""A piece of work in a forked process of its own, held to limits, and what it used and left behind.

The process has all that is imported and loaded here already. It is for input that may end, fill or hold up
the process that reads it: a signal, a traceback, endless work and another process are distinguished, and none
harms the tests.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CPU_S = 10.0
BYTES = 2 * 10**9
WALL_S = 240.0
"""On a busy machine; what sleeps for ever ends here."""
BROKE = 99
"""The status of work that ended with an exception."""
_ENDED_S = 2.0
"""In which what the work started must have ended, too."""


@dataclass(frozen=True)
class Isolated:
    """How the work ended: its status (a signal is negative), what it wrote to both streams, its processor
    time with that of its children, its largest memory, and the processes and temporary files that it left."""

    status: int
    out: str
    err: str
    cpu_s: float
    peak_bytes: int
    left: tuple[str, ...]

    def wrong(self, cpu_s: float = CPU_S, most_bytes: float = BYTES) -> list[str]:
        """What may not happen, whatever the input was."""
        found = []
        if self.status < 0:
            found.append(f"ended by {signal.Signals(-self.status).name}")
        elif self.status not in (0, 2):
            found.append(f"status {self.status}: {self.err[-1500:]}")
        if "Traceback" in self.err:
            found.append(f"a traceback: {self.err[-1500:]}")
        lines = [line for line in self.err.splitlines() if line.startswith("smlab: ")]
        if self.status == 2 and len(lines) != 1:
            found.append(f"refused in {len(lines)} lines: {self.err[-1500:]}")
        if "not enough memory" in self.err:
            found.append("it needs more memory than it may have")
        if any(len(line) > 5000 for line in lines):
            found.append(f"a line of {max(map(len, lines))} characters")
        if self.cpu_s > cpu_s:
            found.append(f"{self.cpu_s:.1f} s of processor time")
        if self.peak_bytes > most_bytes:
            found.append(f"{self.peak_bytes / 1e9:.2f} GB")
        return found + [f"left behind: {name}" for name in self.left]


def isolated(
    work: Callable[[], int], folder: Path, *, wall_s: float = WALL_S, cpu_s: float = 6 * CPU_S
) -> Isolated:
    """Do ``work``, which returns a status; ``folder`` holds its streams and its temporary files.

    It is killed beyond ``wall_s``, and ends by SIGXCPU where it used ``cpu_s`` itself. Its address space may
    grow by twice `BYTES`.
    """
    places = [folder / name for name in ("out", "err")]
    temporary = folder / "temporary"
    temporary.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of libraries, which do nothing now
        pid = os.fork()
    if not pid:
        _child(work, places, temporary, cpu_s)
    handle = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([handle], [], [], wall_s)
        if not ready:
            os.kill(pid, signal.SIGKILL)
        _, code, used = os.wait4(pid, 0)
    finally:
        os.close(handle)
    left = _left(pid) + [path.name for path in temporary.iterdir()]
    shutil.rmtree(temporary)
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in places]
    return Isolated(
        os.waitstatus_to_exitcode(code),
        *texts,
        used.ru_utime + used.ru_stime,
        1024 * used.ru_maxrss,
        tuple(left),
    )


def _child(work: Callable[[], int], places: list[Path], temporary: Path, cpu_s: float) -> None:
    status = BROKE
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for stream, path in enumerate(places, start=1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        tempfile.tempdir = os.environ["TMPDIR"] = str(temporary)
        limit = round(cpu_s)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        space = 4096 * int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (space + 2 * BYTES, space + 2 * BYTES))
        status = work()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else BROKE
    except BaseException:
        traceback.print_exc(file=sys.stderr)
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        os._exit(status)


def _left(session: int) -> list[str]:
    """Processes of a session whose leader has ended; they are ended."""
    until = _ENDED_S
    while (found := _in_session(session)) and until > 0:
        select.select([], [], [], 0.05)
        until -= 0.05
    for pid in found:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return [f"process {name}" for name in found.values()]


def _in_session(session: int) -> dict[int, str]:
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            head, _, rest = stat.read_text().rpartition(")")
            state, _, _, number = rest.split()[:4]
            if int(number) == session and state != "Z":
                found[int(stat.parent.name)] = head.partition("(")[2]
    return found
