"""Importing what a command needs, after its options were read and not before: NumPy, pandas and Numba take a
second."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130


def _leave(signum: int, frame: FrameType | None) -> None:
    os.write(2, b"smlab: interrupted\n")
    os._exit(INTERRUPTED)


@contextmanager
def loading() -> Iterator[None]:
    """Around imports: Ctrl-C ends the process at once, with one line and status 130.

    A `KeyboardInterrupt` within an import may come out of an extension module as another exception, or as a
    traceback. Nothing has been done or written yet, so there is nothing to keep.
    """
    if threading.current_thread() is not threading.main_thread() or not _ours():
        yield
        return
    before = signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _ours() -> bool:
    """Whether Ctrl-C does what Python makes of it; a caller's own handler stays theirs."""
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler
