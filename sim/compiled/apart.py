"""Compiling in a process of its own, which leaves the machine code in Numba's cache and ends: the compiler
takes up to a gigabyte, which the process that simulates would not give back.

Where the cache cannot be written, or no process can be started, the caller compiles itself.
"""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

_HERE: Final = "SMLAB_COMPILES"  # in the environment of a process that compiles for another one
_EVERY_S: Final = 10.0
_LOG: Final = logging.getLogger("smlab.engine")
_CHILD: Final = "import sys; from smlab.sim.compiled.apart import compile_for; compile_for(*sys.argv[1:])"
_told: list[float] = []  # when this process said that it compiles


def tell() -> None:
    """Say, once a process, that the engine or the machine code's meaning is being compiled, not loaded."""
    if not _told:
        _told.append(time.monotonic())
        _LOG.info(
            "compiling the engine, once: one to two minutes of processor time, longer on a busy machine"
        )


def load_or_compile_apart(
    cache: Any, function: Callable[..., Any], compiler: Callable[..., Any] | None = None
) -> None:
    """Have a function's Numba cache, before it says that it lacks a signature, have a process make it: by
    ``compiler(signature, function)``, or by the function itself, which has been decorated."""
    load = cache.load_overload

    def found(signature: Any, context: Any) -> Any:
        made = load(signature, context)
        if made is None and _HERE not in os.environ:
            tell()
            if _compiled_apart(function, signature, compiler):
                made = load(signature, context)
        return made

    cache.load_overload = found


def _compiled_apart(
    function: Callable[..., Any], signature: Any, compiler: Callable[..., Any] | None
) -> bool:
    by = [] if compiler is None else [compiler.__module__, compiler.__name__]
    what = [function.__module__, function.__name__, pickle.dumps(signature).hex(), *by]
    try:
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, *what],
            env={**os.environ, _HERE: "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return False
    began = _told[0] if _told else time.monotonic()
    try:
        while True:
            try:
                return child.wait(_EVERY_S) == 0
            except subprocess.TimeoutExpired:
                _LOG.info("still compiling the engine, %.0f s", time.monotonic() - began)
    except BaseException:
        child.kill()
        child.wait()
        raise


def compile_for(module: str, name: str, signature: str, *compiler: str) -> None:
    """What the process does that compiles for another one."""
    function, types = getattr(import_module(module), name), pickle.loads(bytes.fromhex(signature))
    if compiler:
        getattr(import_module(compiler[0]), compiler[1])(types, function)
    else:
        function.compile(types)
