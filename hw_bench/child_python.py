"""Python in a separate process: its start executes nothing of the current folder, and it ends with the
process that started it, however that ends. For all packages.

Python puts the current folder before its own library, so a user's file ``pickle.py`` would be run; ``-P``
leaves it out, and the child has the parent's ``sys.path`` without that folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

_BEGIN: Final = """
import json, os, sys
lifeline, parent, path = json.loads(sys.argv[1])
if lifeline >= 0:
    import threading
    def watch():
        os.read(lifeline, 1)
        os._exit(1)
    threading.Thread(target=watch, daemon=True).start()
if parent:
    import ctypes, signal
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):
        pass
    if os.getppid() != parent:
        os._exit(1)
code = sys.argv[2]
del sys.argv[1:3]
sys.path[:] = path
exec(compile(code, "<child>", "exec"))
"""


def start_python(
    code: str, *arguments: str, pass_fds: Iterable[int] = (), **options: Any
) -> subprocess.Popen[Any]:
    """Start a Python that executes ``code`` with ``arguments`` in ``sys.argv[1:]``; ``options`` are those of
    `subprocess.Popen`.

    It waits at a pipe, its lifeline, that ends when this process does. The kernel's own signal is quicker,
    but comes with the end of the *thread* that started the child, so only the main thread asks for it.

    Raises:
        OSError: no process can be started.
    """
    posix = os.name == "posix"
    lifeline, held = os.pipe() if posix else (-1, -1)
    main = sys.platform.startswith("linux") and threading.current_thread() is threading.main_thread()
    begin = json.dumps([lifeline, os.getpid() if main else 0, import_path()])
    command = [sys.executable, "-P", "-c", _BEGIN, begin, code, *arguments]
    if posix:
        options["pass_fds"] = (lifeline, *pass_fds)
    try:
        process = subprocess.Popen(command, **options)
    except BaseException:
        if posix:
            os.close(held)
        raise
    finally:
        if posix:
            os.close(lifeline)
    if posix:
        weakref.finalize(process, os.close, held)
    return process


def run_python(
    code: str, *arguments: str, timeout_s: float, input: bytes | None = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """The same to its end, with what it printed to pipes.

    Raises:
        OSError: no process can be started. subprocess.TimeoutExpired: it did not end in time, and was ended.
    """
    stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
    with start_python(code, *arguments, stdin=stdin, **options) as process:
        try:
            output, complained = process.communicate(input, timeout_s)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, complained)


def import_path() -> list[str]:
    """``sys.path`` without the current folder."""
    try:
        here = Path.cwd()
    except OSError:  # it has been deleted
        return [place for place in sys.path if place]
    return [place for place in sys.path if place and Path(place).absolute() != here]
