"""Where finished results are kept: an SQLite file, a row a result, safe against the death of the process at
any moment."""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import filelock

from smlab.hw_bench.errors import SmlabError

FORMAT: Final = "3"

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS results (
    key BLOB PRIMARY KEY,        -- a hash of all that the result depends on, the version of the code included
    asked TEXT NOT NULL,         -- JSON: what was asked for, for people
    result TEXT NOT NULL,        -- JSON by name; empty where it failed
    error TEXT NOT NULL,         -- why it failed, or empty
    runs INTEGER NOT NULL,       -- how often it was run: once
    checksum BLOB NOT NULL       -- of key, asked, result and error: see `_checksum`
) WITHOUT ROWID;
"""

_LOG: Final = logging.getLogger("smlab.store")

_DAMAGED: Final = (sqlite3.Error, UnicodeDecodeError, OverflowError)
"""What comes of pages that are damaged; sqlite3 does not decode all of its own messages about them."""

LOOKED_UP: Final = 500
"""Keys that are asked for in one statement."""


@dataclass(frozen=True)
class Entry:
    """A finished piece of work under the ``key`` of all that it depends on: what was ``asked``, and its
    ``result`` by name (plain JSON) or the ``error`` for which it has none."""

    key: bytes
    asked: Mapping[str, Any]
    result: Mapping[str, Any]
    error: str = ""


class Store:
    """The finished results of some work (or of several pieces of work: keys tell them apart).

    A row whose checksum does not fit, as after a damage of the disk, is told once and counts as missing: what
    it held is computed again. A transaction is on disk once its write-ahead log is; what a killed process had
    not committed is run again. One process writes at a time; another one is refused, by a lock (a file
    beside) that the system takes back when its holder dies.

    Raises:
        SmlabError: a file that cannot be written or is something else, or that another process writes into.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._told: set[bytes] = set()
        with ExitStack() as undo:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                _lock(path, undo)
                self._db = sqlite3.connect(path, isolation_level=None)
                undo.callback(self._db.close)
                # Text that is damaged must not keep the whole rows beside it from being read.
                self._db.text_factory = lambda content: content.decode(errors="surrogateescape")
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = NORMAL")
                self._db.executescript(_SCHEMA)
                self._db.execute("INSERT OR IGNORE INTO about VALUES ('format', ?)", (FORMAT,))
                told = self._db.execute("SELECT value FROM about WHERE key = 'format'").fetchone()
            except OSError as error:
                raise SmlabError(f"{path}: cannot be written: {error.strerror or error}") from error
            except _DAMAGED as error:
                raise SmlabError(f"{path}: not a store of results: {_said(error)}") from error
            found = told[0] if told else None
            if found != FORMAT:
                expected = f"format {FORMAT}; use another --out"
                raise SmlabError.at(str(path), "made by another version of smlab", found, expected)
            self._open = undo.pop_all()

    def close(self) -> None:
        """Fold the log into the file and let others in."""
        self._open.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def count(self) -> int:
        """Results in the file, of whatever work."""
        with self._reading():
            (found,) = self._db.execute("SELECT COUNT(*) FROM results").fetchone()
        return int(found)

    @property
    def made_with(self) -> str:
        """What all results in the file depend on, where `begin_with` said so; otherwise empty."""
        with self._reading():
            found = self._db.execute("SELECT value FROM about WHERE key = 'made with'").fetchone()
        return str(found[0]) if found else ""

    def begin(self, made_with: str, what: str, *, resume: bool) -> None:
        """Make the store ready for results that all depend on ``made_with``; what is there goes without
        ``resume``.

        Raises:
            SmlabError: ``resume``, and what is there was made with another ``what``.
        """
        if resume and self.made_with and self.made_with != made_with:
            raise SmlabError.at(
                str(self.path),
                f"made with another {what}",
                expected="a run without --resume, or another --out",
            )
        if not resume or not self.made_with:
            self.begin_with(made_with)

    def begin_with(self, made_with: str) -> None:
        """Drop all results, and note what the coming ones depend on."""
        with self._transaction():
            self._db.execute("DELETE FROM results")
            self._db.execute("INSERT OR REPLACE INTO about VALUES ('made with', ?)", (made_with,))

    def add(self, finished: Iterable[Entry]) -> None:
        """Keep results, all of them or (if the process dies) none."""
        texts = [
            (entry.key, json.dumps(entry.asked), json.dumps(entry.result), entry.error) for entry in finished
        ]
        with self._transaction():
            self._db.executemany(
                "INSERT INTO results VALUES (?, ?, ?, ?, 1, ?) ON CONFLICT (key) DO UPDATE SET "
                "asked = excluded.asked, result = excluded.result, error = excluded.error, runs = runs + 1, "
                "checksum = excluded.checksum",
                [(*text, _checksum(*text)) for text in texts],
            )

    def known(self, keys: Sequence[bytes]) -> set[bytes]:
        """Which of them are stored."""
        return {row[0] for row in self._select(keys)}

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Entry]:
        """The finished ones among them, by key."""
        return {
            key: Entry(key, json.loads(asked), json.loads(result), error)
            for key, asked, result, error in self._select(keys)
        }

    def _select(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, str, str, str]]:
        """The rows of these keys that are whole."""
        damaged = []
        for begin in range(0, len(keys), LOOKED_UP):
            asked = keys[begin : begin + LOOKED_UP]
            marks = ", ".join("?" * len(asked))
            columns = "key, asked, result, error, checksum"
            with self._reading():
                rows = self._db.execute(
                    f"SELECT {columns} FROM results WHERE key IN ({marks})", asked
                ).fetchall()
            for *row, checksum in rows:
                if _checksum(*row) == checksum:
                    yield row[0], row[1], row[2], row[3]
                elif row[0] not in self._told:
                    self._told.add(row[0])
                    damaged.append(bytes(row[0]).hex()[:12])
        if damaged:
            names = ", ".join(damaged[:5]) + ("" if len(damaged) <= 5 else f" and {len(damaged) - 5} more")
            _LOG.warning(
                "%s: %d of the stored results %s damaged and will be computed again: %s",
                self.path,
                len(damaged),
                "is" if len(damaged) == 1 else "are",
                names,
            )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGED as error:
            expected = "use another --out, or remove the file"
            message = f"{self.path}: a damaged store of results: {_said(error)} ({expected})"
            raise SmlabError(message) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, _DAMAGED):  # or a full disk
                raise SmlabError(f"{self.path}: cannot be written: {_said(error)}") from error
            raise


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())


def _checksum(*texts: bytes | str | None) -> bytes:
    """Of a row's key, question, result and error; each is preceded by its length."""
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        content = text if isinstance(text, bytes) else str(text).encode(errors="surrogateescape")
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.digest()


def _lock(path: Path, undo: ExitStack) -> None:
    """Refuse a second process. Apart from SQLite's own locks, which are held for a transaction only."""
    lock = filelock.FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        raise SmlabError(
            f"{path}: another process is writing into it; wait for it, or use another --out"
        ) from None
    except NotImplementedError:  # a file system without locks: SQLite alone keeps the file whole
        return
    undo.callback(lock.release)
