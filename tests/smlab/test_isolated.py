"""Work in a child process, by which hostile input is judged: each way to break is seen."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from isolated import BYTES, isolated

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")


def spends() -> int:
    while True:
        pass


def fills() -> int:
    held = bytearray(300 * 2**20)
    return 0 * len(held)


def bursts() -> int:
    return len(bytearray(3 * BYTES))


def raises() -> int:
    raise KeyError("x")


def leaves() -> int:
    subprocess.Popen(["sleep", "600"])
    return 0


def litters() -> int:
    os.close(tempfile.mkstemp(prefix="litter")[0])
    return 0


def crashes() -> int:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), signal.SIGSEGV)
    return 0


def asks() -> int:
    print("smlab: not enough memory for this input; a smaller one would do", file=sys.stderr)
    return 2


def refuses() -> int:
    print("smlab: x: is wrong", file=sys.stderr)
    return 2


def refuses_twice() -> int:
    refuses()
    return refuses()


def is_quiet() -> int:
    return 2


def overlong() -> int:
    print("smlab: " + "x" * 6000, file=sys.stderr)
    return 2


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (raises, "status 99"),
        (raises, "a traceback"),
        (leaves, "left behind: process sleep"),
        (litters, "left behind: litter"),
        (crashes, "ended by SIGSEGV"),
        (spends, "ended by SIGXCPU"),
        (fills, "GB"),
        (bursts, "MemoryError"),
        (asks, "more memory than it may have"),
        (refuses_twice, "refused in 2 lines"),
        (is_quiet, "refused in 0 lines"),
        (overlong, "a line of 6007 characters"),
        (lambda: 70, "status 70"),
    ],
)
def test_what_may_not_happen_is_seen(work: Callable[[], int], said: str, tmp_path: Path) -> None:
    ended = isolated(work, tmp_path, cpu_s=1)
    most_bytes = isolated(lambda: 0, tmp_path / "idle").peak_bytes + 10**8
    assert said in "\n".join(ended.wrong(most_bytes=most_bytes))


def test_what_sleeps_for_ever_is_ended(tmp_path: Path) -> None:
    ended = isolated(lambda: signal.pause() or 0, tmp_path, wall_s=0.5)
    assert ended.wrong() == ["ended by SIGKILL"]


def test_what_is_right_is_not_wrong(tmp_path: Path) -> None:
    assert isolated(refuses, tmp_path).wrong() == []
    ended = isolated(lambda: print("é") or 0, tmp_path)
    assert (ended.status, ended.out, ended.wrong()) == (0, "é\n", [])
    assert ended.cpu_s < 1
