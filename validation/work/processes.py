"""Worker processes of this machine (POSIX).

Not the standard library's pool: without its private members its workers cannot be ended at once, and when one
of them dies, all that is in flight is lost. Its processes also import half a program before they look whether
their parent still lives. Here each worker has a pipe of its own, so that one that dies costs the task that it
had and is replaced; and each ends with its parent from its first step on (`smlab.hw_bench.child_python`).
"""

from __future__ import annotations

import itertools
import pickle
import signal
import subprocess
import traceback
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, Final

from smlab.hw_bench.child_python import start_python
from smlab.hw_bench.errors import SmlabError
from smlab.validation.work.interface import MAX_DEATHS, WAIT_S, WorkerLost

CLOSE_S: Final = 5.0
"""How long an idle worker may take to leave, before it is killed."""


@dataclass(eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    connection: Connection[bytes, bytes]
    ticket: int | None = None  # of the task that it has in hand


class Processes:
    """Up to ``places`` processes, started as there is work for them; never outlives this process."""

    inline_s = 0.0

    def __init__(self, places: int) -> None:
        self.places = places
        self._workers: list[_Worker] = []
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._done: dict[int, bytes | None] = {}  # None where the worker was lost
        self._numbers = itertools.count()
        self._deaths = 0

    def submit(self, function: Callable[..., Any], *arguments: Any) -> int:
        ticket = next(self._numbers)
        self._waiting.append((ticket, pickle.dumps((function, arguments))))
        self._hand_out()
        return ticket

    def finished(self, tickets: Collection[Any]) -> Collection[Any]:
        busy = {worker.connection: worker for worker in self._workers if worker.ticket is not None}
        for connection in wait(list(busy), WAIT_S):
            self._take(busy[connection])  # type: ignore[index]
        self._hand_out()
        return [ticket for ticket in tickets if ticket in self._done]

    def result(self, ticket: int) -> Any:
        answer = self._done.pop(ticket)
        if answer is None:
            raise WorkerLost
        succeeded, value = pickle.loads(answer)
        if not succeeded:
            raise value
        return value

    def close(self, *, at_once: bool) -> None:
        for worker in self._workers:
            if at_once or worker.ticket is not None:
                worker.process.kill()
            worker.connection.close()  # an idle one leaves when its pipe ends
        for worker in self._workers:
            try:
                worker.process.wait(CLOSE_S)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
        self._workers.clear()

    def _hand_out(self) -> None:
        """Give waiting tasks to idle workers, and to new ones while there are places."""
        while self._waiting:
            worker = next((w for w in self._workers if w.ticket is None), None)
            if worker is None:
                if len(self._workers) == self.places:
                    return
                worker = _start()
                self._workers.append(worker)
            ticket, task = self._waiting[0]
            try:
                worker.connection.send_bytes(task)
            except OSError:  # it died before it had anything
                self._reap(worker)
                continue
            self._waiting.popleft()
            worker.ticket = ticket

    def _take(self, worker: _Worker) -> None:
        """What a worker has to say: its answer, or by the end of its pipe that it is dead."""
        assert worker.ticket is not None
        try:
            self._done[worker.ticket] = worker.connection.recv_bytes()
        except (EOFError, OSError):
            self._done[worker.ticket] = None
            self._reap(worker)
            return
        worker.ticket = None
        self._deaths = 0

    def _reap(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.connection.close()
        worker.process.kill()
        worker.process.wait()
        self._deaths += 1
        if self._deaths > max(MAX_DEATHS, self.places):
            raise SmlabError(
                f"worker processes died {self._deaths} times in a row and finished nothing (out of memory?); "
                "what was finished is kept"
            )


_BEGIN: Final = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
from smlab.validation.work.processes import serve
serve(int(sys.argv[1]))
"""


def _start() -> _Worker:
    own, others = Pipe()
    with _interrupts_held_back():
        process = start_python(
            _BEGIN,
            str(others.fileno()),
            pass_fds=(others.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=2,  # standard output belongs to the result
        )
    others.close()  # so that the pipe ends when the worker does
    return _Worker(process, own)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Let a process begin deaf to Ctrl-C, which a terminal sends to all: the parent decides what it means.

    What comes meanwhile is told to the parent at the end.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def serve(handle: int) -> None:
    """The life of a worker: it reads calls from the pipe, writes answers back, and ends with the pipe."""
    connection: Connection[bytes, bytes] = Connection(handle)
    while True:
        try:
            task = connection.recv_bytes()
        except (EOFError, OSError):
            return
        connection.send_bytes(_answer(task))


def _answer(task: bytes) -> bytes:
    """The pickled pair of whether the call succeeded, and what it returned or raised."""
    try:
        function, arguments = pickle.loads(task)
        return pickle.dumps((True, function(*arguments)))
    except Exception as error:
        if not isinstance(error, SmlabError):
            error.add_note("in a worker process:\n" + traceback.format_exc())
        try:
            answer = pickle.dumps((False, error))
            pickle.loads(answer)  # some exceptions travel one way only
        except Exception:
            return pickle.dumps((False, RuntimeError(traceback.format_exc())))
        return answer
