"""Compiling in a process of its own, which leaves the machine code in Numba's cache and ends: the compiler
takes up to a gigabyte, which the process that simulates would not give back.

Where the cache cannot be written, or no process can be started, the caller compiles itself.

Numba's cache, each file of it behind a digest: what is damaged is compiled again, not loaded or raised.

Machine code with a flipped bit would be executed, and a file that was cut off ends Numba's reader with an
EOFError. Numba also writes a new index before the new machine code, so that another process may find old code
in between; here a file says which source it is of.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import pickle
import subprocess
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from numba.core.caching import IndexDataCacheFile

from smlab.hw_bench.child_python import start_python

_HERE: Final = "SMLAB_COMPILES"  # in the environment of a process that compiles for another one
_TOLD: Final = "SMLAB_COMPILING_TOLD"  # in the environment of processes whose parent has said it
_LONG_S: Final = 300.0
_LOG: Final = logging.getLogger("smlab.engine")
_CHILD: Final = (
    "import sys; from smlab.sim.compiled.compile_process import compile_for; compile_for(*sys.argv[1:])"
)
_told: list[float] = []  # when this process said that it compiles


def tell() -> None:
    """Say, once a command, that the engine or the machine code's meaning is being compiled, not loaded."""
    if not _told:
        _told.append(time.monotonic())
        if _TOLD not in os.environ:
            os.environ[_TOLD] = "1"
            _LOG.info(
                "compiling the engine: one to two minutes of processor time, once for each version; later "
                "runs start at once"
            )


def load_or_compile_in_process(
    cache: Any, function: Callable[..., Any], compiler: Callable[..., Any] | None = None
) -> None:
    """Have a function's Numba cache, before it says that it lacks a signature, have a process make it: by
    ``compiler(signature, function)``, or by the function itself, which has been decorated."""
    load = cache.load_overload

    def found(signature: Any, context: Any) -> Any:
        made = load(signature, context)
        if made is None and _HERE not in os.environ:
            tell()
            if _compiled_in_process(function, signature, compiler):
                made = load(signature, context)
        return made

    cache.load_overload = found


def _compiled_in_process(
    function: Callable[..., Any], signature: Any, compiler: Callable[..., Any] | None
) -> bool:
    by = [] if compiler is None else [compiler.__module__, compiler.__name__]
    what = [function.__module__, function.__name__, pickle.dumps(signature).hex(), *by]
    try:
        child = start_python(
            _CHILD,
            *what,
            env={**os.environ, _HERE: "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return False
    # It has no time limit: how long it takes is the machine's, it is told, and Ctrl-C ends it.
    began = _told[0] if _told else time.monotonic()
    try:
        try:
            return child.wait(max(0.0, began + _LONG_S - time.monotonic())) == 0
        except subprocess.TimeoutExpired:
            if len(_told) == 1:
                _told.append(time.monotonic())
                _LOG.info("still compiling the engine after 5 minutes: this machine is busy")
            return child.wait() == 0
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


_DIGEST_BYTES: Final = 32


def check_cache(compiled: Any, stamp: str) -> None:
    """Have a function's Numba cache checked, and made anew where ``stamp``, of the source, is another one.
    A function without a cache on disk, as in a read-only installation, stays as it is."""
    cache: Any = getattr(compiled, "_cache", None)
    if hasattr(cache, "_cache_file"):
        base = Path(cache._cache_file._index_name).stem
        cache._cache_file = CheckedCacheFile(cache._cache_file._cache_path, f"{base}.checked", stamp)


class CheckedCacheFile(IndexDataCacheFile):
    """The index and the machine code of one function."""

    def save(self, key: Any, data: Any) -> None:
        try:
            super().save(key, data)
        except OSError as error:
            _LOG.info("%s: the compiled engine cannot be kept: %s", error.filename, error.strerror)

    def _load_index(self) -> dict[Any, str]:
        content = self._content(self._index_path)
        if content is None:
            return {}
        pickled = io.BytesIO(content)
        if pickle.load(pickled) != self._version:  # another numba may not read the rest
            return {}
        overloads: dict[Any, str] = pickle.load(pickled)
        return overloads

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._put(self._index_path, pickle.dumps(self._version) + self._dump(overloads))

    def _load_data(self, name: str) -> Any:
        content = self._content(self._data_path(name))
        return None if content is None else pickle.loads(content)

    def _save_data(self, name: str, data: Any) -> None:
        self._put(self._data_path(name), self._dump(data))

    def _put(self, path: str, content: bytes) -> None:
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(content).digest() + self._source() + content)

    def _content(self, path: str) -> bytes | None:
        """What a file holds; None where there is none, or of another source, or where it is damaged."""
        try:
            whole = Path(path).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            _LOG.info("%s: the engine's cache cannot be read: %s", path, error.strerror)
            return None
        digest, source = whole[:_DIGEST_BYTES], whole[_DIGEST_BYTES : 2 * _DIGEST_BYTES]
        content = whole[2 * _DIGEST_BYTES :]
        if digest != hashlib.sha256(content).digest():
            _LOG.info("%s: the engine's cache is damaged; it is compiled again", path)
            return None
        return content if source == self._source() else None

    def _source(self) -> bytes:
        return hashlib.sha256(str(self._source_stamp).encode()).digest()
