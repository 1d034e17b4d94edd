"""The command ``smlab`` in processes that begin with everything imported.

Each of the many small commands of the tests would pay a second for that. ``python -P tests/helpers/warm.py
SOCKET`` imports the commands' work, loads the compiled engine, and then forks a process for each request,
which becomes the command: its folder, environment and standard streams are those of whoever asks.
`warm_command` writes the program ``smlab`` that asks. What a cold start is like (imports, the first line of a
compilation, interrupts while loading, memory) is tested without it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STREAMS = 3
MOST_BYTES = 1 << 20
"""Of a request: the arguments and the environment."""
READY_S = 300.0
"""How long imports and, the first time, compiling the engine may take."""
COMMANDS = (
    "advise",
    "bench",
    "case",
    "claims",
    "gpus",
    "port",
    "project",
    "roofline",
    "run",
    "simulate",
    "table",
    "utilization",
    "validate",
    "whatif",
)

ASK = """\
#!{python} -IS
import array, json, os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect({address!r})
request = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
streams = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))
s.sendmsg([len(request).to_bytes(4, "big")], [streams])
s.sendall(request)
status = s.recv(1)
sys.exit(status[0] if status else 1)
"""


@contextmanager
def warm_command(folder: Path) -> Iterator[Path]:
    """A folder for PATH that holds the program ``smlab``; what serves it ends with the context."""
    address = folder / "warm.socket"
    program = folder / "bin" / "smlab"
    program.parent.mkdir()
    program.write_text(ASK.format(python=sys.executable, address=str(address)), encoding="utf-8")
    program.chmod(0o755)
    server = subprocess.Popen([sys.executable, "-P", __file__, str(address)], stdin=subprocess.PIPE)
    try:
        until = time.monotonic() + READY_S
        while not address.exists():
            assert server.poll() is None, f"the server of warm commands ended with {server.returncode}"
            assert time.monotonic() < until, f"no warm commands after {READY_S:g} s"
            time.sleep(0.02)
        yield program.parent
    finally:
        server.communicate()


def serve(address: Path) -> None:
    """Until standard input ends, as it does with whoever asked for this server. One process a request; one
    whose client has gone is killed."""
    load()
    listening = socket.socket(socket.AF_UNIX)
    unready = address.with_suffix(".unready")
    listening.bind(str(unready))
    listening.listen()
    unready.rename(address)
    waiting: dict[int, tuple[int, socket.socket]] = {}
    with selectors.DefaultSelector() as ready:
        ready.register(listening, selectors.EVENT_READ)
        ready.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is listening:
                    client, _ = listening.accept()
                    pid = begin(client, listening)
                    ended = os.pidfd_open(pid)
                    waiting[ended] = (pid, client)
                    ready.register(ended, selectors.EVENT_READ)
                    ready.register(client, selectors.EVENT_READ, data=ended)
                elif key.data is None:
                    ended = key.fd
                    pid, client = waiting.pop(ended)
                    ready.unregister(ended)
                    with contextlib.suppress(KeyError):
                        ready.unregister(client)
                    os.close(ended)
                    _, status = os.waitpid(pid, 0)
                    code = os.waitstatus_to_exitcode(status)
                    with contextlib.suppress(OSError):
                        client.send(bytes([code if code >= 0 else 128 - code]))
                    client.close()
                elif key.data in waiting:  # a client says nothing more: it has gone
                    signal.pidfd_send_signal(key.data, signal.SIGKILL)
                    ready.unregister(key.fileobj)


def load() -> None:
    """Import what commands do, and load the engine's functions by running a kernel of each source."""
    import importlib

    for name in COMMANDS:
        importlib.import_module(f"smlab.commands.{name}.run")
    import matplotlib.figure  # noqa: F401
    import pandas  # noqa: F401

    import smlab
    import smlab.cli.main

    smlab.simulate("atomics", gpu="v100", settings=["iterations=2"])
    gc.freeze()


def begin(client: socket.socket, listening: socket.socket) -> int:
    """The process that becomes the command which ``client`` asks for."""
    size, streams, _, _ = socket.recv_fds(client, 4, STREAMS)
    wanted = int.from_bytes(size, "big")
    assert wanted < MOST_BYTES
    request = b""
    while len(request) < wanted:
        request += client.recv(wanted - len(request))
    if pid := os.fork():
        for stream in streams:
            os.close(stream)
        return pid
    status = 1
    try:
        listening.close()
        arguments, folder, environment = json.loads(request)
        for at, stream in enumerate(streams):
            os.dup2(stream, at)
            os.close(stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        encoding = environment.get("PYTHONIOENCODING") or "utf-8"
        sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding=encoding, buffering=1, closefd=False)  # noqa: SIM115
        status = become(arguments)
    except BaseException:  # as the interpreter would at its end
        traceback.print_exc()
    finally:
        os._exit(status)


def become(arguments: list[str]) -> int:
    """The command's own end, as an exit status."""
    from smlab.cli.main import main

    sys.argv = arguments
    try:
        main()
    except SystemExit as ended:
        code = ended.code
        return code if isinstance(code, int) else int(code is not None)
    finally:
        atexit._run_exitfuncs()
        for stream in sys.stdout, sys.stderr:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    return 0


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
