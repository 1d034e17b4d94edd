"""Where an object comes from: made ahead in the installation, kept in the user's cache, or built now.

The user's cache (`smlab.hw_bench.files.cache_folder`) has a file for each object, version and processor.
Every file carries a digest. Damaged machine code would be executed, so it is not loaded but built again.
Where the cache cannot be written, an object lives as long as its process.

Children build: the compiler takes up to a gigabyte, which a process that simulates would not give back.
Several objects are built side by side. Other processes that need the same one meanwhile wait for it.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import mmap
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Protocol

import filelock
import llvmlite.binding as llvm

from smlab.hw_bench.child_python import start_python
from smlab.hw_bench.files import cache_folder, write_atomic
from smlab.hw_bench.sources import cache_key
from smlab.sim.object_code.objects import object_of, version_of

_LOG: Final = logging.getLogger("smlab.engine")
_TOLD: Final = "SMLAB_COMPILING_TOLD"  # in the environment of processes whose parent has said it
_LONG_S: Final = 300.0
_CHILD: Final = "import sys; from smlab.sim.object_code.building import main; main(*sys.argv[1:])"
_MAX_KEPT: Final = 24
"""Objects in the cache; those that nobody has used for longest go."""
_DAY_S: Final = 86400.0
_told: list[float] = []  # when this process said that it compiles
_engines: dict[str, Any] = {}
_lock = threading.RLock()


class CompiledFunction(Protocol):
    """A `smlab.sim.compiled.jit.CompiledEntry`."""

    function: Callable[..., int | None]
    symbol: str


def address_of(entry: CompiledFunction) -> int:
    """Where an entry's machine code lies; its object is loaded, and built where there is none."""
    name = object_of(entry.function.__module__)
    if name is None:  # a test's
        name = f"{entry.function.__module__}.{entry.symbol}"
        _engines[name] = _load(_builder().build_entries([entry]))
    ready(name)
    return int(_engines[name].get_function_address(entry.symbol))


def ready(*names: str) -> None:
    """Load objects. Those that there are not yet are built side by side."""
    with _lock:
        missing = [name for name in names if name not in _engines]
        found = {name: content for name in missing if (content := _found(name)) is not None}
        left = [name for name in missing if name not in found]
        if left:
            found |= _built(left)
        for name, content in found.items():
            _engines[name] = _load(content)


def _load(content: bytes) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.load_library_permanently("")  # what this process has is found by name
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    with _mapped_near_each_other():
        engine.add_object_file(llvm.ObjectFileRef.from_data(content))
        engine.finalize_object()
    return engine


ROOM_BYTES: Final = 1 << 25
"""More than the sections of an object take."""
FAR_BYTES: Final = 1 << 30
"""Sections reach each other over twice this."""
MOST_PLUGS: Final = 4096


@contextmanager
def _mapped_near_each_other() -> Iterator[None]:
    """What is mapped meanwhile lies together. LLVM maps each section of an object by itself, where the system
    finds room first, and aborts the process if they are too far from each other. They would be, where arrays
    of gigabytes lie between small gaps and free memory. So the gaps are filled first."""
    if sys.platform != "linux":
        yield
        return
    room, size = _mapped(ROOM_BYTES), ROOM_BYTES // 2
    plugs: list[mmap.mmap] = []
    near = _address(room)
    while size >= mmap.PAGESIZE and len(plugs) < MOST_PLUGS:
        plugs.append(_mapped(size))
        if abs(_address(plugs[-1]) - near) < FAR_BYTES:  # no far gap holds so much
            size //= 2
    room.close()
    try:
        yield
    finally:
        for plug in plugs:
            plug.close()


def _mapped(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _address(mapped: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(mapped))


# Finding


def _found(name: str) -> bytes | None:
    for path in prebuilt(name):
        if (content := checked(path, version_of(name))) is not None:
            return content
    content = checked(kept_at(name), kept_key(name))
    if content is not None:
        with suppress(OSError):  # those that are used stay
            os.utime(kept_at(name))
    return content


PREBUILT: Final = Path(__file__).with_name("prebuilt")
NEEDS: Final = {
    "x86-64-v4": ("x86_64", "avx512f avx512bw avx512cd avx512dq avx512vl avx2 bmi bmi2 f16c fma lzcnt movbe"),
    "x86-64-v3": ("x86_64", "avx2 bmi bmi2 f16c fma lzcnt movbe"),
    "aarch64": ("aarch64", "neon"),
}
"""The processors that objects are made for ahead, best first: architecture, features that one must have."""


def prebuilt(name: str) -> Iterator[Path]:
    """The objects in the installation that this processor can execute, the best first."""
    if not PREBUILT.is_dir() or not sys.platform.startswith("linux"):
        return
    features = llvm.get_host_cpu_features()
    for processor, (machine, needed) in NEEDS.items():
        if platform.machine() == machine and all(features.get(f, False) for f in needed.split()):
            yield PREBUILT / f"{name}.{processor}.o"


@cache
def kept_key(name: str) -> str:
    """What an object depends on that is built here: sources, compiler, processor."""
    compilers = [version(package) for package in ("numba", "llvmlite", "numpy")]
    features = sorted(f for f, has in llvm.get_host_cpu_features().items() if has)
    processor = [llvm.get_process_triple(), llvm.get_host_cpu_name(), features]
    return cache_key(version_of(name), compilers, sys.version_info[:2], processor)


def kept_at(name: str) -> Path:
    """Where the user's cache has an object, or would have it."""
    return cache_folder("engine", f"{name}.{kept_key(name)}.o")


_DIGEST_BYTES: Final = 32


def with_digest(content: bytes, key: str) -> bytes:
    """An object as it lies in a file: behind a digest of it, and of what it was built from."""
    return hashlib.sha256(content).digest() + hashlib.sha256(key.encode()).digest() + content


def checked(path: Path, key: str) -> bytes | None:
    """The object that a file holds; None where there is none, or of another key, or where it is damaged."""
    try:
        whole = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        _LOG.info("%s: the compiled engine cannot be read: %s", path, error.strerror)
        return None
    digest, source = whole[:_DIGEST_BYTES], whole[_DIGEST_BYTES : 2 * _DIGEST_BYTES]
    content = whole[2 * _DIGEST_BYTES :]
    if digest != hashlib.sha256(content).digest():
        _LOG.info("%s: the compiled engine is damaged; it is compiled again", path)
        return None
    return content if source == hashlib.sha256(key.encode()).digest() else None


def _keep(name: str, content: bytes) -> None:
    """Put an object into the user's cache, for other processes."""
    path = kept_at(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, with_digest(content, kept_key(name)))
        kept = sorted(path.parent.glob("*.o"), key=lambda p: p.stat().st_mtime, reverse=True)
        for old in kept[_MAX_KEPT:]:
            old.unlink(missing_ok=True)
    except OSError as error:
        _LOG.info("%s: the compiled engine cannot be kept: %s", error.filename, error.strerror)


# Building


def _built(names: list[str]) -> dict[str, bytes]:
    """Objects that there are not: built here, or by another process meanwhile."""
    with ExitStack() as locked:
        for name in sorted(names):
            locked.enter_context(_alone(name))
        found = {name: content for name in names if (content := _found(name)) is not None}
        left = [name for name in names if name not in found]
        if left:
            tell()
            made = _from_children(left)
            for name in left:
                found[name] = made[name] or _from_this_process(name)
                _keep(name, found[name])
    return found


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """No other process builds the object meanwhile, where files can be locked."""
    path = cache_folder("engine", f"{name}.lock")
    lock = filelock.FileLock(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (OSError, NotImplementedError):  # `_keep` says it
        yield
        return
    with lock:
        yield
    lock.release()


def tell() -> None:
    """Say, once a command, that the engine or the machine code's meaning is being compiled, not loaded."""
    if not _told:
        _told.append(time.monotonic())
        if _TOLD not in os.environ:
            os.environ[_TOLD] = "1"
            _LOG.info(
                "compiling the engine: half a minute of processor time, once for each version; later runs "
                "start at once"
            )


def _from_children(names: list[str]) -> dict[str, bytes | None]:
    """What a child process for each has built; None where there was no child, or it failed."""
    children: dict[str, subprocess.Popen[bytes]] = {}
    made: dict[str, bytes | None] = dict.fromkeys(names)
    try:
        for name in names:
            with suppress(OSError):
                children[name] = start_python(
                    _CHILD,
                    name,
                    version_of(name),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
        for name, child in children.items():
            content = _output(child)
            made[name] = content if child.returncode == 0 and content else None
    except BaseException:
        for child in children.values():
            child.kill()
            child.communicate()
        raise
    return made


def _output(child: subprocess.Popen[bytes]) -> bytes:
    # It has no time limit: how long it takes is the machine's, it is told, and Ctrl-C ends it.
    began = _told[0] if _told else time.monotonic()
    try:
        return child.communicate(timeout=max(0.0, began + _LONG_S - time.monotonic()))[0]
    except subprocess.TimeoutExpired:
        if len(_told) == 1:
            _told.append(time.monotonic())
            _LOG.info("still compiling the engine after 5 minutes: this machine is busy")
        return child.communicate()[0]


def _from_this_process(name: str) -> bytes:
    content: bytes = _builder().build(name)
    return content


def _builder() -> Any:
    """It imports all that is compiled, whose entries come here."""
    return import_module(f"{__package__}.building")
