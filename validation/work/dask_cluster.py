"""Workers of an existing Dask cluster (``smlab[cluster]``).

The scheduler keeps what is in flight; a worker that is lost costs its tasks, which are run again. Workers
need the same smlab as this process, and nothing else: what a task needs travels with it.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import os
import queue
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

from smlab.hw_bench.errors import SmlabError
from smlab.validation.work.interface import MAX_DEATHS, WAIT_S, WorkerLost

CONNECT_S = 10
"""How long a scheduler is waited for."""
COUNTED_S = 1.0
"""How often the workers are counted."""


class DaskCluster:
    """The workers of the Dask scheduler at ``address``, such as ``tcp://host:8786``."""

    inline_s = 0.0

    def __init__(self, address: str) -> None:
        try:
            import distributed
        except ImportError as error:
            raise SmlabError.at(
                "--dask", "the package distributed is not installed", expected="pip install 'smlab[cluster]'"
            ) from error
        self._distributed = distributed
        self._address = address
        self._deaths = 0
        self._number = itertools.count()
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._places, self._counted_at = 1, -math.inf
        # What goes wrong is told in our words; Dask would print tracebacks beside them.
        logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)
        try:
            self._client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise SmlabError.at(
                "--dask", "no Dask scheduler answers there", address, "an address such as tcp://host:8786"
            ) from error

    @property
    def places(self) -> int:
        """Threads of all workers that are there now; one where there is none yet, for the first that
        comes."""
        if time.monotonic() - self._counted_at > COUNTED_S:
            with self._connected():
                threads: dict[str, int] = self._client.nthreads()
            self._places, self._counted_at = max(1, sum(threads.values())), time.monotonic()
        return self._places

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        key = f"smlab-{os.getpid()}-{next(self._number)}"
        with self._connected():
            ticket = self._client.submit(function, *arguments, key=key, pure=False)
            ticket.add_done_callback(self._done.put)
        return ticket

    def finished(self, tickets: Collection[Any]) -> Collection[Any]:
        found: list[Any] = []
        with self._connected():
            try:
                found.append(self._done.get(timeout=WAIT_S))
                while True:
                    found.append(self._done.get_nowait())
            except queue.Empty:
                return found

    def result(self, ticket: Any) -> Any:
        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker

        with self._connected():
            try:
                found = ticket.result()
            except KilledWorker as error:
                self._deaths += 1
                if self._deaths > MAX_DEATHS:
                    raise SmlabError(
                        f"--dask: workers died {self._deaths} times in a row and finished nothing; "
                        "what was finished is kept"
                    ) from error
                raise WorkerLost from error
            except FutureCancelledError as error:
                raise WorkerLost from error
        self._deaths = 0
        return found

    def close(self, *, at_once: bool) -> None:
        with contextlib.suppress(OSError, self._distributed.TimeoutError):
            self._client.close(timeout=CONNECT_S)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[None]:
        """Tell in one line that the scheduler has gone, before or while it is asked."""
        lost = SmlabError.at("--dask", "the scheduler is gone; what was finished is kept", self._address)
        if self._client.status != "running":
            raise lost
        try:
            yield
        except (OSError, self._distributed.TimeoutError, WorkerLost) as error:
            if isinstance(error, WorkerLost) and self._client.status == "running":
                raise
            raise lost from error
