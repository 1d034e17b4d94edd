"""Files that are written whole or not at all, and the folder of what can be made again. For all rooms."""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

_NUMBER = itertools.count()


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """The name of a file beside ``path`` to write; it takes the place of ``path`` at the end, and is gone
    after an error.

    The name has the suffix of ``path``. ``durable`` waits until the content is on the disk before it takes
    the place, for what must survive a power cut. A link stays a link; a device or a pipe is written to as
    it is, since a renamed file would take its place.

    Raises:
        OSError: the folder is not there, cannot be written, or is full.
    """
    if path.is_symlink():
        try:
            path = path.resolve()
        except RuntimeError:  # how Python before 3.13 tells it
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from None
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if mode is not None and not stat.S_ISREG(mode):
        with _naming(path):
            yield path
        return
    beside = path.with_name(f".{path.stem[:40]}.{os.getpid()}-{next(_NUMBER)}.part{path.suffix}")
    try:
        with _naming(path):
            yield beside
            if mode is not None:
                beside.chmod(stat.S_IMODE(mode))
            if durable:
                _sync(beside)
            beside.replace(path)
            if durable and os.name == "posix":
                _sync(path.parent)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def write_atomic(path: Path, content: bytes | str, *, durable: bool = False) -> None:
    """Write ``content`` (text as UTF-8) so that ``path`` is old or new, never half; see `replacing`."""
    with replacing(path, durable=durable) as beside:
        beside.write_bytes(content if isinstance(content, bytes) else content.encode())


def cache_folder(*parts: str) -> Path:
    """The folder of ``parts`` in the user's cache folder of smlab: what is there can be made again.

    On Linux ``smlab`` in ``XDG_CACHE_HOME``, by default ``~/.cache``. It need not exist.
    """
    return platformdirs.user_cache_path("smlab", appauthor=False).joinpath(*parts)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """An error of the system names the file that the user knows, not the one beside it, or none."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # else it is a library's own, with a message that a name would hide
            error.filename, error.filename2 = str(path), None
        raise


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
